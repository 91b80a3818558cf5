"""Servers to test against: the demo of this package's own command, and the .NET peer where there is one."""

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "from witrpc._command import main; raise SystemExit(main())"]


def peer_command() -> str | None:
    """The .NET peer, as tools/peer.sh finds it."""
    shared = os.environ.get("WITRPC_SHARED") or str(ROOT.parent / "shared")
    path = os.environ.get("WITRPC_PEER") or os.path.join(shared, "peer", "run")
    return path if os.access(path, os.X_OK) else None


@dataclass
class Running:
    """A server process."""

    endpoint: str
    process: subprocess.Popen[str]
    kind: str

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


Start = Callable[..., Running]


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    text = process.stdout.readline().strip()
    # What follows is read, so that the process never waits for us.
    threading.Thread(target=process.stdout.read, daemon=True).start()
    return text


def _demos() -> Iterator[Start]:
    started: list[Running] = []

    def start(*options: str, endpoint: str = "tcp://127.0.0.1:0") -> Running:
        command = [*COMMAND, "serve", "--demo", endpoint, *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = _first_line(process)
        assert said.startswith("listening "), said
        started.append(Running(said.removeprefix("listening "), process, "libwitrpc"))
        return started[-1]

    yield start
    for server in started:
        server.kill()


class Peer(Running):
    """A .NET peer: a script that starts another process, in a group of their own."""

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _peers() -> Iterator[Start]:
    command = peer_command()
    if command is None:
        if os.environ.get("WITRPC_REQUIRE_ALL") == "1":
            pytest.fail("no .NET peer found, and nothing may be skipped (WITRPC_PEER)")
        pytest.skip("no .NET peer found (WITRPC_PEER)")
    started: list[Running] = []

    def start(*options: str, port: int = 0) -> Running:
        arguments = [command, "serve", "--listen", f"tcp:{port}", *options]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, start_new_session=True)
        said = _first_line(process)
        assert said.startswith("ready "), said
        started.append(Peer(f"tcp://127.0.0.1:{said.removeprefix('ready ')}", process, ".NET"))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def start_demo() -> Iterator[Start]:
    """Starts `witrpc serve --demo`."""
    yield from _demos()


@pytest.fixture
def start_peer() -> Iterator[Start]:
    """Starts the .NET peer."""
    yield from _peers()


@pytest.fixture(params=["libwitrpc", ".NET"])
def start(request: pytest.FixtureRequest) -> Start:
    """Starts a server of either kind."""
    name = "start_demo" if request.param == "libwitrpc" else "start_peer"
    found: Start = request.getfixturevalue(name)
    return found


@pytest.fixture(scope="session", params=["libwitrpc", ".NET"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    """A server of either kind, which all tests share that do it no harm."""
    if request.param == "libwitrpc":
        yield request.getfixturevalue("demo")
    else:
        starting = _peers()
        yield next(starting)()
        next(starting, None)


@pytest.fixture(scope="session")
def demo() -> Iterator[Running]:
    """The demo of the command, which all tests share that do it no harm."""
    starting = _demos()
    yield next(starting)()
    next(starting, None)


def run(work: Any) -> Any:
    """Runs a coroutine under a watchdog; what the loop complains about is an error."""
    complaints: list[dict[str, Any]] = []

    async def watched() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(150):
            return await work

    result = asyncio.run(watched())
    assert not complaints
    return result
