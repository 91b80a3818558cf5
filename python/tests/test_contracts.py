"""Typed contracts: annotated classes, files, overloads; and values of all types through them."""

import asyncio
import dataclasses
import datetime
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, NotRequired, Protocol, TypedDict
from uuid import UUID

import pytest
import witrpc
from conftest import ROOT, Running, Start, run
from demo_contract import Address, Color, IEcho, Person
from witrpc import contract as reading

UTC = datetime.UTC
BORN = datetime.datetime(1980, 2, 3, 4, 5, 6, 789012)
ADA = Person(
    name="Ada",
    age=36,
    favourite=Color.BLUE,
    home=Address("Main Street", 1010),
    tags=["a", "ö", "😀"],
    scores={"x": 1, "y": -2},
    photo=bytes(range(256)),
    born=BORN,
    height=1.75,
)

# Method, value, and what comes back where that is something else.
VALUES: list[tuple[str, Any]] = [
    ("Echo", "Grüße, 世界 😀 \u0000 end"),
    ("Echo", None),
    ("Big", -(2**63)),
    ("ULong", 2**64 - 1),
    ("Byte", 255),
    ("Not", True),
    ("Letter", "Ω"),
    ("Single", 1.5),
    ("Double", -1.7976931348623157e308),
    ("Money", Decimal("-1234567890.1234567890")),
    ("Money", Decimal("1.50")),
    ("Id", UUID("00112233-4455-6677-8899-aabbccddeeff")),
    ("When", BORN),
    ("When", datetime.datetime(2026, 11, 30, 5, 6, 7, tzinfo=UTC)),
    (
        "Offset",
        datetime.datetime(2026, 11, 30, 5, 6, 7, tzinfo=datetime.timezone(datetime.timedelta(hours=-3))),
    ),
    ("Span", datetime.timedelta(days=-1, seconds=5, microseconds=7)),
    ("Day", datetime.date(2024, 2, 29)),
    ("Clock", datetime.time(23, 59, 58, 123456)),
    ("Link", "https://example.org/a?b=c"),
    ("Ver", "1.2.3"),
    ("Paint", Color.GREEN),
    ("MaybePaint", None),
    ("MaybePaint", Color.BLUE),
    ("Maybe", 5),
    ("Maybe", None),
    ("MaybeId", UUID(int=1)),
    ("Blob", bytes(range(256))),
    ("Ints", [1, -2, 3]),
    ("Strings", ("a", None, "")),
    ("Find", [1, 2]),
    ("Find", []),
    ("Set", {1, 2, 3}),
    ("ReadOnly", [1]),
    ("Map", {"a": [1, 2], "b": []}),
    ("ByNumber", {1: "a", -5: "b"}),
    ("Tup", (5, "five")),
    ("Describe", ADA),
    ("Describe", None),
    ("People", [ADA, Person()]),
    ("Anything", {"a": [1, 2.5, None, True, "x"]}),
]


def test_lines_and_ids_are_those_of_the_contract_file() -> None:
    native = reading.read(IEcho).native
    listed = witrpc.load_contract(ROOT / "examples" / "demo-echo.witrpc.json")
    of_file = {line.split(" ", 1)[1] for line in listed.methods}
    for _, line, _, _ in native.methods():
        assert line.split(" ", 1)[1] in of_file, line


@pytest.mark.parametrize(("method", "value"), VALUES, ids=lambda value: str(value)[:20])
def test_values_go_there_and_back(method: str, value: Any, server: Running) -> None:
    with witrpc.sync.connect(server.endpoint, contract=IEcho) as echo:
        # What JSON brings of a bool is its opposite.
        expected = (not value) if method == "Not" else value
        result = getattr(echo, method)(value)
        assert result == expected
        assert type(result) is type(expected)


@pytest.mark.parametrize("codec", ["memorypack", "messagepack", "protobuf"])
def test_the_binary_codecs_with_a_dotnet_peer(codec: Any, start_peer: Start) -> None:
    server = start_peer("--codec", codec)
    with witrpc.sync.connect(server.endpoint, contract=IEcho, codec=codec) as echo:
        assert echo.Add(2, 3) == 5  # type: ignore[comparison-overlap]
        assert echo.Map({"a": [1, 2]}) == {"a": [1, 2]} if codec != "protobuf" else True  # type: ignore[comparison-overlap]
        assert echo.Blob(b"\x00\xff") == b"\x00\xff"  # type: ignore[comparison-overlap]
        assert echo.Id(UUID(int=5)) == UUID(int=5)  # type: ignore[comparison-overlap]
        assert echo.Money(Decimal("1.5")) == Decimal("1.5")  # type: ignore[comparison-overlap]
        # MessagePack knows only moments: a time becomes UTC.
        ada = dataclasses.replace(ADA, born=BORN.replace(tzinfo=UTC)) if codec == "messagepack" else ADA
        assert echo.Describe(ada) == ada  # type: ignore[comparison-overlap]
        assert echo.Pair((1, "one")) == (1, "one")  # type: ignore[comparison-overlap]


def test_names_may_be_python_s(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint, contract=IEcho) as echo:
            assert await echo.add_one(4) == 5
            assert IEcho in type(echo).__mro__
            assert witrpc.client_of(echo).state is witrpc.State.CONNECTED
            assert await echo.Add(b=3, a=2) == 5

    run(main())


def test_overloads_go_by_their_arguments(server: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(server.endpoint, contract=IEcho) as echo:
            assert await echo.Overload(5) == 5
            assert await echo.Overload("five") == 4
            assert await echo.Overload(5, "x") == "x5"
            with pytest.raises(witrpc.InvalidArgumentError, match="no overload takes these arguments"):
                await echo.Overload(1.5)  # type: ignore[call-overload]

    run(main())


def test_properties(server: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(server.endpoint, contract=IEcho) as echo:
            await echo.Name.set("new")
            assert await echo.Name.get() == "new"

    run(main())


def test_options_of_single_calls(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint, contract=IEcho) as echo:
            quick = witrpc.with_options(echo, timeout=0.1)
            with pytest.raises(TimeoutError):
                await quick.SlowAsync(20_000, 1)
            assert await quick.Add(1, 2) == 3
            with pytest.raises(TimeoutError):
                await echo.SlowAsync(20_000, 1, timeout=0.1)  # type: ignore[call-arg]
            id = UUID(int=77)
            first = await witrpc.with_options(echo, invocation_id=id).CountUp(1)
            assert await witrpc.with_options(echo, invocation_id=id).CountUp(1) == first

    run(main())


def test_a_contract_file(server: Running) -> None:
    contract = witrpc.load_contract(ROOT / "examples" / "demo-echo.witrpc.json")
    assert contract.name == "Demo.IEcho"
    with witrpc.sync.connect(server.endpoint, contract=contract) as echo:
        assert echo.Add(2, 3) == 5
        assert echo.add_one(1) == 2
        assert echo.call("Add", 2, 3) == 5
        assert echo.Describe({"name": "Ada", "Age": 3})["Name"] == "Ada"
        assert echo.Overload("abc") == 3
        with pytest.raises(witrpc.InvalidArgumentError, match='Demo.Person has no member "Nmae": it has Name, Age'):
            echo.Describe({"Nmae": "x"})
        with pytest.raises(AttributeError, match="Demo.IEcho lists none"):
            _ = echo.Nope


def test_a_broken_contract_file_is_named(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "x.witrpc.json"
    file.write_text('{"contract": "Demo.IX",\n "metods": []}')
    with pytest.raises(witrpc.InvalidArgumentError, match=r"x\.witrpc\.json: line 2 column 9: unknown field `metods`"):
        witrpc.load_contract(file)


class Level(enum.IntEnum):
    LOW = 1
    VERY_HIGH = 3


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


class Tone(enum.StrEnum):
    WARM = "Warm"
    COLD = "Cold"


class Options(TypedDict):
    level: Level
    note: NotRequired[str]


class Point(NamedTuple):
    x: int
    y: int


@witrpc.declare("My.Shapes.Size", struct=True)
@dataclass
class Size:
    width: float
    in_mm: Annotated[bool, witrpc.Member(name="IsMetric")] = True


@dataclass
class Node:
    name: str
    children: list["Node"]


class IAll(witrpc.Contract, Protocol, name="My.IAll"):
    def levels(self, value: dict[str, Level]) -> list[Level]: ...
    def rights(self, value: Rights) -> Rights: ...
    def tone(self, value: Tone) -> Tone: ...
    def options(self, value: Options) -> Options: ...
    def move(self, value: Point) -> Point: ...
    def resize(self, value: Size | None) -> Size | None: ...
    def tree(self, value: Node) -> Node: ...
    @witrpc.line("List<int> Exact(int[] value)")
    def other_name(self, value: list[int]) -> list[int]: ...


def test_declarations_of_all_kinds() -> None:
    native = reading.read(IAll).native
    lines = {name: line for name, line, _, _ in native.methods()}
    assert lines["Levels"] == "List<My.Level> Levels(Dictionary<string, My.Level> value)"
    assert lines["Resize"] == "My.Shapes.Size? Resize(My.Shapes.Size? value)"
    assert lines["Exact"] == "List<int> Exact(int[] value)"
    text = native.to_json()
    assert '"VeryHigh": 3' in text
    assert '"flags": true' in text
    assert '"bool IsMetric"' in text
    assert '"json": "names"' in text


class AllServer(IAll):
    def levels(self, value: dict[str, Level]) -> list[Level]:
        assert all(isinstance(level, Level) for level in value.values())
        return list(value.values())

    def rights(self, value: Rights) -> Rights:
        assert isinstance(value, Rights)
        return value

    def tone(self, value: Tone) -> Tone:
        assert isinstance(value, Tone)
        return value

    def options(self, value: Options) -> Options:
        return value

    def move(self, value: Point) -> Point:
        assert isinstance(value, Point)
        return Point(value.y, value.x)

    def resize(self, value: Size | None) -> Size | None:
        assert value is None or isinstance(value, Size)
        return value

    def tree(self, value: Node) -> Node:
        return value

    def other_name(self, value: list[int]) -> list[int]:
        return value[::-1]


def test_classes_of_all_kinds_as_values() -> None:
    with (
        witrpc.sync.serve("tcp://127.0.0.1:0", AllServer()) as server,
        witrpc.sync.connect(server.endpoint, contract=IAll) as all_kinds,
    ):
        assert all_kinds.levels({"a": Level.LOW, "b": Level.VERY_HIGH}) == [Level.LOW, Level.VERY_HIGH]
        assert all_kinds.rights(Rights.READ | Rights.WRITE) == Rights.READ | Rights.WRITE
        assert all_kinds.tone(Tone.COLD) is Tone.COLD
        assert all_kinds.options({"level": Level.LOW, "note": "n"}) == {"level": Level.LOW, "note": "n"}
        assert all_kinds.move(Point(1, 2)) == Point(2, 1)
        assert all_kinds.resize(Size(1.5, False)) == Size(1.5, False)
        assert all_kinds.resize(None) is None
        tree = Node("root", [Node("leaf", [])])
        assert all_kinds.tree(tree) == tree
        assert all_kinds.other_name([1, 2]) == [2, 1]


def test_pydantic_models(demo: Running) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Home(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        street: str | None
        zip: int

    @witrpc.declare("Demo.Person")
    class Someone(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        name: str
        age: int = pydantic.Field(ge=0)
        home: Home | None = None

    namespace = {"Someone": Someone, "witrpc": witrpc}
    exec(
        "class IPeople(witrpc.Contract, name='Demo.IEcho'):\n"
        "    async def Describe(self, value: Someone | None) -> Someone | None: ...\n",
        namespace,
    )

    async def main() -> None:
        async with witrpc.connect(demo.endpoint, contract=namespace["IPeople"]) as people:
            ada = Someone(name="Ada", age=36, home=Home(street=None, zip=5))
            assert await people.Describe(ada) == ada

    run(main())


def test_numbers_of_other_libraries(demo: Running) -> None:
    numpy = pytest.importorskip("numpy")
    import array

    with witrpc.sync.connect(demo.endpoint) as client:
        echo = client.service("Demo.IEcho")
        assert echo.call("int[] Ints(int[] value)", numpy.arange(5, dtype=numpy.int32)) == [0, 1, 2, 3, 4]
        assert echo.call("double[] Doubles(double[] value)", array.array("d", [1.5, 2])) == [1.5, 2.0]
        assert echo.call("int AddOne(int a)", numpy.int64(4)) == 5
        assert echo.call("double Double(double value)", numpy.float32(0.5)) == 0.5
        assert echo.call("bool Not(bool value)", numpy.bool_(True)) is False
        pixels = numpy.arange(12, dtype=numpy.uint8).reshape(3, 4)
        assert echo.call("byte[] Blob(byte[] value)", pixels) == bytes(range(12))
        assert echo.call("byte[] Blob(byte[] value)", pixels.T) == pixels.T.tobytes()
        assert echo.call("byte[] Blob(byte[] value)", memoryview(b"view")) == b"view"


@pytest.mark.parametrize(
    ("line", "value", "message"),
    [
        ("int AddOne(int a)", 2**40, "int"),
        ("int AddOne(int a)", True, "a bool where an int is expected"),
        ("int AddOne(int a)", 1.0, "a float where an int is expected"),
        ("int AddOne(int a)", None, "null where an int is expected"),
        ("string Echo(string text)", 5, "an int where a string is expected"),
        ("string Echo(string text)", "\ud800", "half of a surrogate pair"),
        ("char Letter(char value)", "ab", "a char is one UTF-16 unit"),
        ("double Double(double value)", float("nan"), "not finite"),
        ("decimal Money(decimal value)", Decimal("1e40"), "range of decimal"),
        ("Guid Id(Guid value)", "no guid", "Guid"),
        ("TimeSpan Span(TimeSpan value)", datetime.timedelta.max, "range of TimeSpan"),
        (
            "int[] Ints(int[] value)",
            [1, "2"],
            r'argument 1 "value" of Ints\[1\]: a str where an int is expected',
        ),
        ("byte[] Blob(byte[] value)", "text", "a str where a byte"),
        (
            "Dictionary<string, List<int>> Map(Dictionary<string, List<int>> v)",
            {"a": [None, "x"]},
            r"Map\['a'\]\[1\]",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(line: str, value: Any, message: str) -> None:
    client = witrpc.sync.connect("tcp://127.0.0.1:1")
    with pytest.raises(witrpc.InvalidArgumentError, match=message):
        client.service("Demo.IEcho").call(line, value)
    client.close()


def test_a_value_that_holds_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    client = witrpc.sync.connect("tcp://127.0.0.1:1")
    with pytest.raises(witrpc.InvalidArgumentError, match="nested more than 64 levels deep"):
        client.service("Demo.IEcho").call("object Anything(object value)", loop)
    client.close()


def test_contracts_that_are_wrong() -> None:
    with pytest.raises(witrpc.InvalidArgumentError, match="is no contract"):
        witrpc.sync.connect("tcp://127.0.0.1:1").service(5)  # type: ignore[call-overload]

    class Plain(witrpc.Contract, name="Demo.IPlain"):
        def method(self, value): ...  # type: ignore[no-untyped-def]

    with pytest.raises(witrpc.InvalidArgumentError, match=r"Plain.method: the parameter value has no type"):
        witrpc.sync.connect("tcp://127.0.0.1:1").service(Plain)

    class Odd(witrpc.Contract, name="Demo.IOdd"):
        def method(self, value: asyncio.Queue) -> None: ...  # type: ignore[type-arg]

    with pytest.raises(witrpc.InvalidArgumentError, match=r"Odd.method: nothing is known of Queue in \.NET"):
        witrpc.sync.connect("tcp://127.0.0.1:1").service(Odd)

    class Bare(witrpc.Contract, name="Demo.IBare"):
        def method(self, value: list) -> None: ...  # type: ignore[type-arg]

    with pytest.raises(witrpc.InvalidArgumentError, match=r"say what is in it, such as list\[int\]"):
        witrpc.sync.connect("tcp://127.0.0.1:1").service(Bare)
