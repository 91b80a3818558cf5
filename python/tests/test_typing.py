"""The types: right code passes `mypy --strict` and pyright, wrong code does not; stubs are those of the module."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import witrpc

RIGHT = """
import asyncio
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeVar, assert_type

import witrpc

T = TypeVar("T")


@dataclass
class Person:
    name: str


class IStore(witrpc.Contract, Protocol, name="Demo.IStore", types=[Person]):
    async def Same(self, value: T) -> T: ...
    async def Load(self, t: type[T], key: str) -> T: ...


class IEcho(witrpc.Contract, Protocol, name="Demo.IEcho"):
    async def Add(self, a: int, b: int) -> int: ...
    async def Big(self, value: Annotated[int, witrpc.Int64]) -> Annotated[int, witrpc.Int64]: ...

    Progress: witrpc.Event[int] = witrpc.Event()
    Moved: witrpc.Event[int, str] = witrpc.Event()
    Nothing: witrpc.Event[()] = witrpc.Event()
    Name: witrpc.Property[str] = witrpc.Property()


class IEchoSync(witrpc.Contract, Protocol, name="Demo.IEcho"):
    def Add(self, a: int, b: int) -> int: ...

    Progress: witrpc.Event[int] = witrpc.Event()
    Name: witrpc.sync.Property[str] = witrpc.sync.Property()


class Echo(IEcho):
    async def Add(self, a: int, b: int) -> int:
        assert_type(self.Progress(a), int)
        self.Progress.to(witrpc.current_call())(a)
        self.Progress.to([witrpc.current_call().connection], but=None)(a)
        self.Moved.to(group=["x", "y"], but=witrpc.current_call())(a, "x")
        self.Moved(a, "x")
        self.Nothing()
        return a + b

    async def Big(self, value: int) -> int:
        return value


async def token() -> str:
    return "secret"


async def store(store: IStore) -> None:
    assert_type(await store.Same(5), int)
    assert_type(await store.Load(Person, "ann"), Person)


def greet(connection: witrpc.Connection) -> None:
    connection.join("everybody")


async def main() -> None:
    async with witrpc.connect(
        "tcp://127.0.0.1:5100",
        contract=IEcho,
        reconnect=witrpc.Reconnect(max_attempts=0),
        retry=witrpc.Retry(idempotent=["Add"]),
        token=token,
        on_reconnecting=lambda attempt, delay: print(attempt + 1, delay / 2),
    ) as echo:
        assert_type(echo, IEcho)
        assert_type(await echo.Add(2, 3), int)
        assert_type(await witrpc.with_options(echo, timeout=2).Add(2, 3), int)
        assert_type(await echo.Name.get(), str)
        async for percent in echo.Progress:
            assert_type(percent, int)
        async for pair in echo.Moved.stream():
            assert_type(pair, tuple[int, str])
        with echo.Progress.subscribe(print) as subscription:
            assert_type(subscription.dropped, int)
            assert_type(subscription.stats.waiting, int)
        echo.Progress.stream(queue=witrpc.EventQueue(max_events=10)).close()
    async with witrpc.connect("tcp://127.0.0.1:5100") as client:
        assert_type(client.state, witrpc.State)
        print(await client.service("Demo.IEcho").call("int Add(int, int)", 2, 3, timeout=5))
        assert_type(client.service(IEcho), IEcho)
    async with witrpc.connect(["tcp://a:1", "tcp://b:1"], contract="Demo.IEcho") as service:
        assert_type(service, witrpc.AsyncService)
    client = await witrpc.connect("tcp://127.0.0.1:5100")
    await client.wait_for(witrpc.State.CONNECTED, timeout=5)
    async with witrpc.serve("tcp://127.0.0.1:0", Echo(), token="secret", on_connected=greet) as server:
        assert_type(server.endpoint, str)
        assert_type(server.stats.executed, int)
        assert_type(server.connections, list[witrpc.Connection])
    await client.probe(timeout=1)
    assert_type(await witrpc.health.check_deep_async(client), witrpc.health.Report)


def blocking() -> None:
    with witrpc.sync.connect("tcp://127.0.0.1:5100", contract=IEchoSync) as echo:
        assert_type(echo.Add(2, 3), int)
        assert_type(echo.Name.get(), str)
        for percent in echo.Progress:
            assert_type(percent, int)
    try:
        with witrpc.sync.connect("tcp://127.0.0.1:5100", tls=witrpc.Tls(pinned=["00"])) as client:
            client.stop_reconnection()
    except witrpc.WitRpcError as error:
        assert_type(error.outcome, witrpc.Outcome)


asyncio.run(main())
"""

PRELUDE = RIGHT.split("async def token", maxsplit=1)[0]
WRONG = [
    'async def f(echo: IEcho) -> None: await echo.Add(2, "3")',
    "async def f(echo: IEcho) -> None: await echo.Add(2)",
    "async def f(echo: IEcho) -> None: await echo.Nope()",
    "async def f(echo: IEcho) -> str: return await echo.Add(2, 3)",
    "def f(echo: IEcho) -> None: echo.Name.set(5)",
    'def f(echo: Echo) -> None: echo.Progress("x")',
    "def f(echo: IEcho) -> None:\n    def handler(text: str) -> None: ...\n    echo.Progress.subscribe(handler)",
    'def f(echo: Echo) -> None: echo.Progress.to(group="room")("x")',
    "def f(echo: Echo) -> None: echo.Progress.to(5)(5)",
    "async def f(store: IStore) -> str: return await store.Same(5)",
    'async def f(store: IStore) -> int: return await store.Load(Person, "ann")',
    'witrpc.serve("tcp://x:1", on_connected=5)',
    'witrpc.connect("tcp://x:1", reconnect=5)',
    'witrpc.connect("tcp://x:1", codec="xml")',
    'witrpc.connect("tcp://x:1", nope=True)',
    'witrpc.sync.connect("tcp://x:1", token=main)\nasync def main() -> str: return ""',
    'witrpc.Reconnect(jitter="some")',
    'witrpc.Retry(max_retries="3")',
    "async def f(client: witrpc.AsyncClient[None]) -> int: return client.state.name",
]


def check(tool: str, text: str, tmp_path: pathlib.Path) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "program.py"
    file.write_text(text)
    if tool == "mypy":
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--cache-dir",
            str(tmp_path / "cache"),
            str(file),
        ]
    else:
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(file)]
    environment = {**os.environ, "MYPYPATH": os.environ.get("PYTHONPATH", "")}
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)


def needs(tool: str) -> None:
    pytest.importorskip(tool)
    if tool == "pyright":
        if shutil.which("node") is None:
            pytest.skip("pyright needs node")
        done = subprocess.run([sys.executable, "-m", "pyright", "--version"], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip("pyright can't be fetched here")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("tool", ["mypy", "pyright"])
def test_right_code_passes_and_wrong_code_does_not(tool: str, tmp_path: pathlib.Path) -> None:
    needs(tool)
    done = check(tool, RIGHT, tmp_path)
    assert done.returncode == 0, done.stdout
    # All mistakes in one file, each to be found on its own lines.
    text, places = PRELUDE, []
    for wrong in WRONG:
        text += "\n\n"
        first = text.count("\n") + 1
        text += wrong.replace("def f(", f"def f{len(places)}(").replace("main", f"main{len(places)}")
        places.append(range(first, text.count("\n") + 2))
    done = check(tool, text, tmp_path)
    found = {int(part.split(":")[1]) for part in done.stdout.splitlines() if "error" in part and ".py:" in part}
    missed = [wrong for wrong, place in zip(WRONG, places, strict=True) if not found & set(place)]
    assert not missed, done.stdout
    assert all(any(line in place for place in places) for line in found), done.stdout


@pytest.mark.timeout(300)
def test_the_package_is_typed_and_its_stubs_are_right(tmp_path: pathlib.Path) -> None:
    needs("mypy")
    assert (pathlib.Path(witrpc.__file__).parent / "py.typed").exists()
    environment = {
        **os.environ,
        "MYPYPATH": os.environ.get("PYTHONPATH", ""),
        "MYPY_CACHE_DIR": str(tmp_path),
    }
    # The buffer protocol has a name from CPython 3.12 on; nobody imports everything from the native half.
    known = tmp_path / "known"
    known.write_text("witrpc._witrpc.__all__\nwitrpc._witrpc.Buffer.__buffer__\n")
    arguments = ["--allowlist", str(known), "--ignore-unused-allowlist", "witrpc._witrpc"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", *arguments],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
