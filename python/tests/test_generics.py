"""Generic methods: in contract classes, by their lines, from contract files; as client and as server."""

import datetime
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Protocol, TypeVar
from uuid import UUID

import pytest
import witrpc
from conftest import ROOT, run

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


class Color(enum.Enum):
    RED = 0
    BLUE = 7


@dataclass
class Address:
    street: str | None = None
    zip: int = 0


class IGeneric(witrpc.Contract, Protocol, name="Demo.IGeneric", assembly="Demo.Contracts", types=[Address, Color]):
    async def Same(self, v: T) -> T: ...
    async def twice(self, v: T) -> list[T]: ...
    async def Count(self, items: list[T]) -> int: ...
    async def Pair(self, a: A, b: B) -> str: ...
    async def Arr(self, v: Annotated[Sequence[T], witrpc.Array]) -> Annotated[list[T], witrpc.Array]: ...
    async def Mixed(self, d: dict[str, T]) -> str: ...
    async def Make(self, t: type[T], text: str) -> T: ...
    async def Plain(self, a: int, b: T | None, t: type[T]) -> str: ...


class Generic(IGeneric):
    async def Same(self, v: T) -> T:
        return v

    async def twice(self, v: T) -> list[T]:
        return [v, v]

    def Count(self, items: list[T]) -> int:  # type: ignore[override]
        return len(items)

    async def Pair(self, a: A, b: B) -> str:
        return f"{type(a).__name__} {type(b).__name__} {', '.join(witrpc.current_call().type_arguments)}"

    async def Arr(self, v: Sequence[T]) -> list[T]:
        return list(v)

    async def Mixed(self, d: dict[str, T]) -> str:
        return repr(d)

    async def Make(self, t: type[T], text: str) -> T:
        return t(text)  # type: ignore[call-arg]

    async def Plain(self, a: int, b: T | None, t: type[T]) -> str:
        return f"{a} {b!r} {t!r}"


@pytest.mark.parametrize("codec", ["json", "memorypack", "messagepack", "protobuf"])
def test_values_of_every_kind_go_there_and_back(codec: Any) -> None:
    values: list[Any] = [
        5,
        True,
        "text",
        1.5,
        Decimal("1.10"),
        UUID(int=7),
        datetime.date(2024, 5, 6),
        datetime.timedelta(seconds=1),
        Color.BLUE,
        Address("street", 5),
        [1, 2],
        ["a", "b"],
        [Address("x", 1)],
        {"a": 1},
    ]

    async def main() -> None:
        async with (
            witrpc.serve("tcp://127.0.0.1:0", Generic(), codec=codec) as server,
            witrpc.connect(server.endpoint, contract=IGeneric, codec=codec) as generic,
        ):
            for value in values:
                assert await generic.Same(value) == value
                if codec != "protobuf" or not isinstance(value, list | dict):
                    assert await generic.twice(value) == [value, value]
            assert type(await generic.Same(True)) is bool
            assert await generic.Count(["a", "b", "c"]) == 3
            assert await generic.Count([Address(zip=1)]) == 1
            assert await generic.Pair(1, Address(zip=1)) == "int Address int, Demo.Address"
            assert await generic.Arr([1, 2]) == [1, 2]
            assert await generic.Mixed({"a": Color.RED}) == repr({"a": Color.RED})
            assert await generic.Make(int, "12") == 12
            assert await generic.Make(str, "12") == "12"
            assert await generic.Make(t=Decimal, text="1.5") == Decimal("1.5")
            assert await generic.Plain(1, None, Address) == f"1 None {Address!r}"
            assert await generic.Plain(1, 5, t=int) == f"1 5 {int!r}"
            assert await witrpc.with_options(generic, timeout=5).Same(3) == 3

    run(main())


def test_the_same_blocking_and_with_a_type_that_python_can_not_tell() -> None:
    class IBlocking(witrpc.Contract, Protocol, name="Demo.IGeneric", assembly="Demo.Contracts"):
        def Same(self, v: T) -> T: ...
        def Plain(self, a: int, b: T | None, t: type[T]) -> str: ...

    with (
        witrpc.sync.serve("tcp://127.0.0.1:0", Generic()) as server,
        witrpc.sync.connect(server.endpoint, contract=IBlocking) as generic,
    ):
        assert generic.Same("x") == "x"
        with pytest.raises(witrpc.InvalidArgumentError, match='argument 1 "v": 1099511627776 is out of the range of int'):
            generic.Same(2**40)
        long: Any = witrpc.Int64
        assert "1099511627776" in generic.Plain(1, 2**40, long)


def test_what_can_not_be_told_is_said() -> None:
    class IOther(witrpc.Contract, Protocol, name="Demo.IGeneric", assembly="Demo.Contracts"):
        async def Same(self, v: T) -> T: ...
        async def Count(self, items: list[T]) -> int: ...

    async def main() -> None:
        async with (
            witrpc.serve("tcp://127.0.0.1:0", Generic()) as server,
            witrpc.connect(server.endpoint, contract=IOther) as generic,
        ):
            with pytest.raises(witrpc.InvalidArgumentError, match=r"Same: the arguments do not tell what T is: .* t: type\[T\]"):
                await generic.Same(None)
            with pytest.raises(witrpc.InvalidArgumentError, match="Count: the arguments do not tell what T is"):
                await generic.Count([])
            for _ in range(2):
                with pytest.raises(witrpc.InvalidArgumentError, match=r"Address is not among the types .* types=\[Address\]"):
                    await generic.Same(Address())
            with pytest.raises(witrpc.InvalidArgumentError, match="Same: missing a required argument: 'v'"):
                await generic.Same()  # type: ignore[call-arg]
            assert await generic.Same(5) == 5

    run(main())


def test_by_lines_and_from_a_file() -> None:
    contract = witrpc.load_contract(ROOT / "examples" / "demo-generic.witrpc.json")
    handlers = witrpc.Handlers(contract)
    types: list[list[str]] = []

    @handlers.method("T? Same<T>(T? v)")
    def same(v: Any) -> Any:
        types.append(witrpc.current_call().type_arguments)
        return v

    async def main() -> None:
        async with witrpc.serve("tcp://127.0.0.1:0", handlers) as server, witrpc.connect(server.endpoint) as client:
            service = client.service(contract)
            assert await service.call("int Same<int>(int v)", 5) == 5
            assert await service.call("T? Same<T>(T? v) where T = List<string>", ["a"]) == ["a"]
            assert await service.call("Same<Address>", {"Street": "x", "Zip": 1}) == {"Street": "x", "Zip": 1}
            with pytest.raises(witrpc.InvalidArgumentError, match="Same"):
                await service.call("T? Same<T>(T? v)", 5)

    run(main())
    assert types == [["int"], ["List<string>"], ["Demo.Address"]]


def test_lines_are_those_of_csharp() -> None:
    from witrpc.contract import read

    lines = [method.line for method in read(IGeneric).methods]
    assert lines[0] == "T Same<T>(T @v)"
    assert "T Make<T>(string @text)" in lines
    assert "string Plain<T>(int @a, T? @b)" in lines
    assert "string Pair<A, B>(A @a, B @b)" in lines
