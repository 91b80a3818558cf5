"""Mistakes that everybody makes once: each is told what was wrong, and what to write instead."""

import re
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
import witrpc
from conftest import Running, Start, run


class IEcho(witrpc.Contract, Protocol, name="Demo.IEcho"):
    async def Add(self, a: int, b: int) -> int: ...
    async def Nope(self, a: int) -> int: ...

    Progress: witrpc.Event[int] = witrpc.Event()
    Name: witrpc.Property[str] = witrpc.Property()


class Echo(IEcho):
    Name = "echo"  # type: ignore[assignment]

    async def Add(self, a: int, b: int) -> int:
        return a + b

    async def Nope(self, a: int) -> int:
        return a


def told(work: Callable[[], Any]) -> str:
    """What Python prints below the traceback: the message and the notes."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run(work())
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_nothing_is_assigned_to_a_service(demo: Running) -> None:
    async def assign(name: str) -> None:
        async with witrpc.connect(demo.endpoint, contract=IEcho) as echo:
            setattr(echo, name, "x")

    assert "set by a call: write await service.Name.set('x')" in told(lambda: assign("Name"))
    assert "Progress is a method or event of IEcho" in told(lambda: assign("Progress"))
    assert "Add is a method or event of IEcho" in told(lambda: assign("Add"))
    assert "IEcho has no property 'Nmae': it has Name" in told(lambda: assign("Nmae"))
    with (
        witrpc.sync.connect(demo.endpoint, contract=IEcho) as echo,
        pytest.raises(AttributeError, match=r"write service\.Name\.set\('x'\)"),
    ):
        echo.Name = "x"  # type: ignore[assignment]


@pytest.mark.parametrize("id", [5, "xx", b"0" * 16])
def test_a_wrong_invocation_id(demo: Running, id: Any) -> None:
    async def call(options: dict[str, Any]) -> None:
        async with witrpc.connect(demo.endpoint) as client:
            await client.service("Demo.IEcho").call("int Add(int a, int b)", 2, 3, **options)

    text = told(lambda: call({"invocation_id": id}))
    assert text.startswith("the invocation id ") and repr(id) in text
    with witrpc.sync.connect(demo.endpoint, contract=IEcho) as echo, pytest.raises(witrpc.InvalidArgumentError):
        witrpc.with_options(echo, invocation_id=id)


def test_a_wrong_endpoint() -> None:
    async def connect(endpoint: str) -> None:
        await witrpc.connect(endpoint)

    assert "can't connect to tcp://127.0.0.1:" in (text := told(lambda: connect(f"tcp://127.0.0.1:{free_port()}")))
    assert "Is the server running there?" in text
    assert "it must begin with a scheme" in told(lambda: connect("127.0.0.1:5000"))
    assert "use tcp, tls, ws, wss or pipe" in told(lambda: connect("http://127.0.0.1:5000"))
    assert "the port is missing" in told(lambda: connect("tcp://127.0.0.1"))


def test_a_port_that_is_in_use(demo: Running) -> None:
    async def serve() -> None:
        await witrpc.serve(demo.endpoint, Echo())

    text = told(serve)
    assert text.startswith(f"can't listen on {demo.endpoint}: ")
    assert "Another program, or another run of this one, has that place" in text
    assert "Is the server running" not in text


def test_another_codec_than_the_server_s(server: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(server.endpoint, contract=IEcho, codec="memorypack") as echo:
            await echo.Add(2, 3)

    assert "codec= " in told(main)


def test_encryption_and_tokens_that_differ(start: Start) -> None:
    plain, careful = start(), start("--token", "secret")

    async def main(endpoint: str, **options: Any) -> None:
        await witrpc.connect(endpoint, **options)

    assert "encryption=True must be set on both ends" in told(lambda: main(plain.endpoint, encryption=True))
    assert "Check token=" in told(lambda: main(careful.endpoint, token="wrong"))


def test_names_that_the_server_does_not_know(server: Running) -> None:
    class IWrong(witrpc.Contract, Protocol, name="Echo"):
        async def Add(self, a: int, b: int) -> int: ...

    async def main(contract: Any, call: Callable[[Any], Any]) -> None:
        async with witrpc.connect(server.endpoint, contract=contract) as service:
            await call(service)

    for text in (
        told(lambda: main(IEcho, lambda echo: echo.Nope(1))),
        told(lambda: main(IWrong, lambda echo: echo.Add(1, 2))),
    ):
        assert "A contract is named as the interface is in C#, with its namespace" in text


def test_methods_where_there_are_none(demo: Running) -> None:
    async def awaited() -> None:
        client = await witrpc.connect(demo.endpoint, contract=IEcho)
        try:
            await client.Add(2, 3)  # type: ignore[attr-defined]
        finally:
            await client.close()

    async def by_name() -> None:
        async with witrpc.connect(demo.endpoint, contract="Demo.IEcho") as echo:
            await echo.Add(2, 3)

    assert "a client has no 'Add'" in (text := told(awaited))
    assert "client.service(IEcho).Add" in text
    assert 'write service.call("the C# line of Add", ...)' in told(by_name)
    with witrpc.sync.connect(demo.endpoint) as client, pytest.raises(AttributeError, match=r"client\.service\(IEcho\)\.Add"):
        client.Add(2, 3)  # type: ignore[attr-defined]
    assert not hasattr(client, "_repr_html_")


def test_what_was_not_connected_or_has_no_loop(demo: Running) -> None:
    async def call() -> None:
        await witrpc.connect(demo.endpoint).service("Demo.IEcho").call("string Ping()")

    assert "Connect first: use the client with `async with`" in told(call)
    with pytest.raises(RuntimeError, match="belongs to an event loop") as caught:
        witrpc.connect(demo.endpoint).service("Demo.IEcho")
    assert "witrpc.sync" in caught.value.__notes__[0]


def test_blocks_of_the_wrong_kind(demo: Running) -> None:
    client: Any = witrpc.connect(demo.endpoint)
    with pytest.raises(TypeError, match="write `async with witrpc.connect"), client:
        pass
    server: Any = witrpc.serve("tcp://127.0.0.1:0", Echo())
    with pytest.raises(TypeError, match="write `async with witrpc.serve"), server:
        pass

    async def main() -> None:
        blocking: Any
        for blocking in (witrpc.sync.connect(demo.endpoint), witrpc.sync.serve("tcp://127.0.0.1:0", Echo())):
            with pytest.raises(TypeError, match=r"write `with witrpc\.sync\."):
                async with blocking:
                    pass

    run(main())


def test_an_await_that_was_forgotten(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint, contract=IEcho) as echo:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                forgotten: Any = echo.Add(2, 3)
                with pytest.raises(TypeError, match="coroutine"):
                    forgotten + 1
                del forgotten
            assert [str(warning.message) for warning in caught] == ["coroutine 'Demo.IEcho.Add' was never awaited"]

    run(main())


def test_arguments_that_do_not_fit(demo: Running) -> None:
    async def main(*args: Any) -> None:
        async with witrpc.connect(demo.endpoint, contract=IEcho) as echo:
            await echo.Add(*args)

    assert told(lambda: main(2, "3")) == 'argument 2 "b" of Add: a str where an int is expected'
    assert told(lambda: main(2, 3.5)) == 'argument 2 "b" of Add: a float where an int is expected'
    assert told(lambda: main(2)) == "Add: missing a required argument: 'b'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reconnect": 5}, r"reconnect is 5: write reconnect=witrpc.Reconnect\(...\), True or False"),
        ({"retry": True}, r"retry is True: write retry=witrpc.Retry\(...\)"),
        ({"limits": witrpc.ServerLimits()}, r"limits is .*: write limits=witrpc.Limits\(...\)"),
        ({"retries": 3}, "connect has no option 'retries': did you mean 'retry'[?]"),
        ({"zzz": 3}, "connect has no option 'zzz'\nIt has "),
    ],
)
def test_options_that_there_are_not(options: Any, message: str) -> None:
    with pytest.raises(witrpc.InvalidArgumentError, match=message):
        witrpc.connect("tcp://127.0.0.1:5100", **options)


def test_what_can_not_be_served() -> None:
    with pytest.raises(witrpc.InvalidArgumentError, match=r"Echo is a class: serve an object of it, Echo\(\)"):
        run(witrpc.serve("tcp://127.0.0.1:0", Echo).start())
    with pytest.raises(witrpc.InvalidArgumentError, match="serve has no option 'tokens': did you mean 'token'"):
        witrpc.serve("tcp://127.0.0.1:0", Echo(), tokens="x")  # type: ignore[call-arg]


def test_an_error_as_it_is_printed() -> None:
    """No line of it leads into Rust, and the advice stands below."""
    code = f"import witrpc\nwith witrpc.sync.connect('tcp://127.0.0.1:{free_port()}'): pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    lines = done.stderr.splitlines()
    assert lines[-2].startswith("witrpc.errors.ConnectionError: can't connect to ")
    assert "Is the server running there?" in lines[-1]
    assert ".rs" not in done.stderr
    assert "panic" not in done.stderr


@dataclass
class Person:
    name: str
    age: int
    home: str | None = None


@dataclass
class Student(Person):
    university: str = ""


@dataclass
class Address:
    name: str
    street: str


@dataclass
class Point:
    x: int


class IPeople(witrpc.Contract, Protocol, name="Demo.IPeople"):
    async def Describe(self, person: Person) -> str: ...
    async def Find(self, name: str) -> Person: ...
    async def Count(self, people: list[Person]) -> int: ...


class People(IPeople):
    async def Describe(self, person: Person) -> str:
        return f"{person.name}, {person.age}, {person.home}"

    async def Find(self, name: str) -> Person:
        other: Any = Address(name, "street") if name == "wrong" else Person if name == "class" else Student(name, 20)
        return other  # type: ignore[no-any-return]

    async def Count(self, people: list[Person]) -> int:
        return len(people)


class Loose:
    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)


def test_an_object_of_the_wrong_class_is_not_sent() -> None:
    async def main() -> None:
        async with (
            witrpc.serve("tcp://127.0.0.1:0", People()) as server,
            witrpc.connect(server.endpoint, contract=IPeople) as people,
        ):
            say: Any = people.Describe
            for wrong, text in [
                (Point(1), 'argument 1 "person" of Describe: a Point where a'),
                (Address("Ann", "street"), 'Address has no member "Age", which'),
                (Person, "a class, not an object of it"),
                (Loose(name="Ann"), 'Loose has no member "Age", which'),
                (Loose(), "a Loose where a"),
                (object(), "an object where a"),
                (5, "an int where a"),
            ]:
                with pytest.raises(witrpc.InvalidArgumentError, match=re.escape(text)):
                    await say(wrong)
            with pytest.raises(witrpc.InvalidArgumentError, match=r'\[1\]: Address has no member "Age"'):
                await people.Count([Person("Ann", 1), Address("Ann", "street")])  # type: ignore[list-item]
            assert server.stats.executed == 0
            assert await say(Person("Ann", 20)) == "Ann, 20, None"
            assert await say(Student("Ann", 20, "here", "there")) == "Ann, 20, here"
            assert await say({"name": "Ann", "age": 20}) == "Ann, 20, None"
            assert await say(Loose(name="Ann", age=20, home=None)) == "Ann, 20, None"
            assert await people.Find("Ann") == Person("Ann", 20)
            for name, text in [("wrong", 'Address has no member "Age"'), ("class", "a class, not an object of it")]:
                with pytest.raises(witrpc.RemoteError, match=text):
                    await people.Find(name)

    run(main())
