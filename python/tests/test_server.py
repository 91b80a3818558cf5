"""Servers in Python: handlers of both kinds, faults, events, repeated calls, tokens, stopping."""

import asyncio
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
import witrpc
from conftest import COMMAND, peer_command, run


class IWork(witrpc.Contract, Protocol, name="My.IWork"):
    async def add(self, a: int, b: int) -> int: ...
    async def blocking(self, seconds: float) -> str: ...
    async def fail(self, how: str) -> None: ...
    async def who(self) -> str: ...
    async def hang(self) -> None: ...
    async def count_up(self) -> int: ...
    async def wrong(self) -> int: ...

    Done: witrpc.Event[int, str] = witrpc.Event()
    Mode: witrpc.Property[str] = witrpc.Property()


class Work(IWork):
    Mode = "quick"  # type: ignore[assignment]

    def __init__(self) -> None:
        self.count = 0
        self.hanging = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.at_once = threading.Barrier(2)

    async def add(self, a: int, b: int) -> int:
        self.Done(a + b, "added")
        return a + b

    def blocking(self, seconds: float) -> str:  # type: ignore[override]
        # Two of them must run at the same time.
        self.at_once.wait(20)
        return threading.current_thread().name

    async def fail(self, how: str) -> None:
        if how == "fault":
            raise witrpc.Fault("my message", status=418, details="my details")
        if how == "busy":
            raise witrpc.Fault("not now", status=503)
        raise KeyError(how)

    def who(self) -> str:  # type: ignore[override]
        call = witrpc.current_call()
        return f"{call.principal} calls {call.contract}.{call.method} from {call.peer} {call.invocation_id.version}"

    async def hang(self) -> None:
        self.hanging.set()
        try:
            await asyncio.sleep(3600)
        finally:
            self.cancelled.set()

    async def count_up(self) -> int:
        self.count += 1
        return self.count

    async def wrong(self) -> int:
        return "text"  # type: ignore[return-value]


def test_handlers_of_both_kinds() -> None:
    async def main() -> None:
        async with (
            witrpc.serve("tcp://127.0.0.1:0", Work()) as server,
            witrpc.connect(server.endpoint, contract=IWork) as work,
        ):
            assert await work.add(2, 3) == 5
            names = await asyncio.gather(work.blocking(0.1), work.blocking(0.1))
            assert all(name.startswith("witrpc-handler") for name in names)
            assert (await work.who()).startswith(" calls My.IWork.Who from 127.0.0.1:")
            await work.Mode.set("slow")
            assert await work.Mode.get() == "slow"
            assert server.stats.connections == 1
            assert len(server.clients) == 1

    run(main())


class MuteError(Exception):
    def __str__(self) -> str:
        raise OSError("no text")


class OddFault(witrpc.Fault):
    def __init__(self) -> None:
        self.status: Any = "oops"
        self.details: Any = object


def altered() -> witrpc.Fault:
    fault = witrpc.Fault("altered", details="\udfff")
    fault.status = 10**30
    return fault


ODD: dict[str, Callable[[], BaseException]] = {
    "surrogate": lambda: ValueError("x" + os.fsdecode(b"\xe9")),
    "mute": MuteError,
    "fault": lambda: witrpc.Fault("\ud800"),
    "altered": altered,
    "odd": OddFault,
    "exit": lambda: SystemExit(3),
    "base": lambda: BaseException("base"),
    "cancelled": lambda: asyncio.CancelledError(),
}


class IOdd(witrpc.Contract, Protocol, name="My.IOdd"):
    async def wait(self, how: str) -> str: ...
    async def block(self, how: str) -> str: ...
    async def give(self) -> list[int]: ...


class Odd(IOdd):
    async def wait(self, how: str) -> str:
        raise ODD[how]()

    def block(self, how: str) -> str:  # type: ignore[override]
        raise ODD[how]()

    async def give(self) -> list[int]:
        def items() -> Iterator[int]:
            yield 1
            raise SystemExit(3)

        return items()  # type: ignore[return-value]


def test_every_exception_of_a_handler_is_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with (
            witrpc.serve("tcp://127.0.0.1:0", Odd()) as server,
            witrpc.connect(server.endpoint, contract=IOdd) as odd,
        ):
            said = {}
            for how in ODD:
                for method in (odd.wait, odd.block):
                    with pytest.raises(witrpc.RemoteError) as caught:
                        await method(how, timeout=20)
                    said[how] = str(caught.value)
            with pytest.raises(witrpc.RemoteError, match="The result can't be encoded: 3"):
                await odd.give(timeout=20)
            assert said["surrogate"] == r"Failed to process request: x\udce9"
            assert said["mute"] == "Failed to process request: MuteError without a text: its __str__ failed"
            assert said["fault"] == r"\ud800"
            assert said["altered"] == r"altered: \udfff"
            assert said["exit"] == "Failed to process request: 3"
            assert said["base"] == "Failed to process request: base"

    run(main())
    assert "SystemExit: 3" in caplog.text


@pytest.mark.parametrize("waits", [True, False])
def test_a_validator_that_fails_oddly_refuses(waits: bool) -> None:
    kinds = [MuteError, ODD["surrogate"], ODD["exit"]]

    def blocking(token: str, address: str) -> bool:
        raise kinds.pop()()

    async def waiting(token: str, address: str) -> bool:
        raise kinds.pop()()

    async def main() -> None:
        async with witrpc.serve("tcp://127.0.0.1:0", Work(), validator=waiting if waits else blocking) as server:
            while kinds:
                with pytest.raises(witrpc.UnauthorizedError):
                    await witrpc.connect(server.endpoint)

    run(main())


@pytest.mark.parametrize("status", ["oops", 0, 200, 600, -1, True, 404.0, None])
def test_the_status_of_a_fault_is_checked(status: Any) -> None:
    with pytest.raises(ValueError, match=f"status is {re.escape(repr(status))}: a fault has a number from 400 to 599"):
        witrpc.Fault("x", status=status)


def test_a_handler_that_never_ends_does_not_keep_the_process() -> None:
    program = """
        import asyncio, sys, threading, witrpc

        echo = witrpc.Handlers("My.IEcho")
        began, over = threading.Event(), threading.Event()

        @echo.method("void Hang()")
        def hang():
            began.set()
            over.wait()

        async def main():
            server = await witrpc.serve("tcp://127.0.0.1:0", echo, threads=1)
            async with witrpc.connect(server.endpoint, contract="My.IEcho") as service:
                calls = [asyncio.ensure_future(service.call("void Hang()")) for _ in range(2)]
                await asyncio.to_thread(began.wait)
                print("stopped", await server.stop(grace=0.1), flush=True)
                print(len(await asyncio.gather(*calls, return_exceptions=True)), flush=True)

        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=40)
    assert (done.returncode, done.stdout) == (0, "stopped False\n2\n"), done.stderr


def test_threads_are_no_more_than_asked_for_and_used_again() -> None:
    names: list[str] = []
    both = threading.Barrier(2)
    count = witrpc.Handlers("My.ICount")

    @count.method("void Next()")
    def following() -> None:
        both.wait(20)
        names.append(threading.current_thread().name)

    async def main() -> None:
        async with (
            witrpc.serve("tcp://127.0.0.1:0", count, threads=2) as server,
            witrpc.connect(server.endpoint, contract="My.ICount") as client,
        ):
            await asyncio.gather(*(client.call("void Next()") for _ in range(20)))

    run(main())
    assert len(names) == 20 and len(set(names)) == 2
    with pytest.raises(witrpc.InvalidArgumentError, match="threads is 0"):
        witrpc.serve("tcp://127.0.0.1:0", count, threads=0)


def test_faults_of_all_kinds(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with (
            witrpc.serve("tcp://127.0.0.1:0", Work()) as server,
            witrpc.connect(server.endpoint, contract=IWork) as work,
        ):
            with pytest.raises(witrpc.RemoteError) as caught:
                await work.fail("fault")
            assert (caught.value.message, caught.value.details) == ("my message", "my details")
            with pytest.raises(witrpc.OverloadedError, match="not now"):
                await work.fail("busy")
            with pytest.raises(witrpc.RemoteError, match="Failed to process request: 'key'"):
                await work.fail("key")
            with pytest.raises(witrpc.RemoteError, match="result of Wrong: a str where an int is expected"):
                await work.wrong()

    run(main())
    assert "My.IWork/fail failed" in caplog.text


def test_events_are_raised_by_calling_them() -> None:
    async def main() -> None:
        work = Work()
        with pytest.raises(witrpc.ClosedError, match="nothing serves"):
            work.Done(1, "x")
        async with (
            witrpc.serve("tcp://127.0.0.1:0", work) as server,
            witrpc.connect(server.endpoint, contract=IWork) as first,
            witrpc.connect(server.endpoint, contract=IWork) as second,
        ):
            streams = [aiter(first.Done.stream()), aiter(second.Done.stream())]
            await first.add(2, 3)
            await asyncio.to_thread(work.Done, 7, "from a thread")
            for stream in streams:
                assert [await anext(stream), await anext(stream)] == [(5, "added"), (7, "from a thread")]
            with pytest.raises(witrpc.InvalidArgumentError, match="Done takes 2 arguments and got 1"):
                work.Done(1)  # type: ignore[call-arg]

    run(main())


def test_a_repeated_call_runs_once() -> None:
    async def main() -> None:
        work, id = Work(), uuid.uuid4()
        executed: list[str] = []
        async with (
            witrpc.serve(
                "tcp://127.0.0.1:0",
                work,
                dedup=witrpc.Dedup(hold=60),
                on_execute=lambda c, m, i: executed.append(m),
            ) as server,
            witrpc.connect(server.endpoint, contract=IWork) as client,
        ):
            same = witrpc.with_options(client, invocation_id=id)
            assert [await same.count_up() for _ in range(3)] == [1, 1, 1]
            assert server.stats.replayed == 2
        assert work.count == 1
        assert executed == ["CountUp"]

    run(main())


def test_tokens_are_checked_by_functions_of_both_kinds() -> None:
    async def look_up(token: str, peer: str) -> str | bool:
        await asyncio.sleep(0)
        return {"a": "Ada", "b": "Bob"}.get(token, False)

    def fail(token: str, peer: str) -> bool:
        raise OSError("no database")

    async def main() -> None:
        async with witrpc.serve("tcp://127.0.0.1:0", Work(), validator=look_up) as server:
            for token, name in (("a", "Ada"), ("b", "Bob")):
                async with witrpc.connect(server.endpoint, contract=IWork, token=token) as work:
                    assert (await work.who()).startswith(f"{name} calls")
            with pytest.raises(PermissionError):
                await witrpc.connect(server.endpoint, token="c")
        async with witrpc.serve("tcp://127.0.0.1:0", Work(), validator=fail) as server:
            with pytest.raises(PermissionError):
                await witrpc.connect(server.endpoint)

    run(main())


def test_stopping_lets_running_calls_finish() -> None:
    async def main() -> None:
        gate = asyncio.Event()

        class Slow(Work):
            async def add(self, a: int, b: int) -> int:
                gate.set()
                await asyncio.sleep(0.2)
                return a + b

        server = await witrpc.serve("tcp://127.0.0.1:0", Slow())
        async with witrpc.connect(server.endpoint, contract=IWork) as work:
            call = asyncio.create_task(work.add(2, 3))
            await gate.wait()
            assert await server.stop()
            assert await call == 5
        with pytest.raises(witrpc.ClosedError):
            _ = server.endpoint

    run(main())


def test_a_handler_that_hangs_is_cancelled_in_the_end() -> None:
    async def main() -> None:
        work = Work()
        server = await witrpc.serve("tcp://127.0.0.1:0", work)
        async with witrpc.connect(server.endpoint, contract=IWork) as client:
            call = asyncio.create_task(client.hang())
            await work.hanging.wait()
            assert not await server.stop(grace=0.05)
            await work.cancelled.wait()
            with pytest.raises(witrpc.WitRpcError):
                await call

    run(main())


def test_a_call_that_is_taken_back_cancels_its_handler() -> None:
    async def main() -> None:
        work = Work()
        async with (
            witrpc.serve("tcp://127.0.0.1:0", work) as server,
            witrpc.connect(server.endpoint, contract=IWork) as client,
        ):
            call = asyncio.create_task(client.hang())
            await work.hanging.wait()
            call.cancel()
            await work.cancelled.wait()
            assert await client.add(1, 2) == 3

    run(main())


def test_a_handler_knows_how_much_time_its_caller_has() -> None:
    handlers = witrpc.Handlers("My.IWork")

    @handlers.method("double Left()")
    def left() -> float:
        remaining = witrpc.current_call().remaining
        assert remaining is not None
        assert not witrpc.current_call().is_cancelled
        return remaining

    with (
        witrpc.sync.serve("tcp://127.0.0.1:0", handlers) as server,
        witrpc.sync.connect(server.endpoint) as client,
    ):
        assert 0 < client.service("My.IWork").call("double Left()", timeout=25) <= 25


def test_what_can_not_be_served() -> None:
    class Half(IWork):
        async def add(self, a: int, b: int) -> int:
            return a + b

    async def main() -> None:
        with pytest.raises(witrpc.InvalidArgumentError, match="Half does not answer IWork.blocking"):
            await witrpc.serve("tcp://127.0.0.1:0", Half())
        with pytest.raises(witrpc.InvalidArgumentError, match="its class needs a contract"):
            await witrpc.serve("tcp://127.0.0.1:0", object())
        with pytest.raises(witrpc.InvalidArgumentError, match="no service"):
            await witrpc.serve("tcp://127.0.0.1:0")
        with pytest.raises(witrpc.InvalidArgumentError, match="serve has no option 'tokn'"):
            witrpc.serve("tcp://127.0.0.1:0", Work(), tokn="x")  # type: ignore[call-arg]
        with pytest.raises(witrpc.InvalidArgumentError, match="handlers"):
            witrpc.current_call()

    run(main())


def test_functions_without_a_class() -> None:
    echo = witrpc.Handlers("Demo.IEcho")

    @echo.method("int Add(int a, int b)")
    def add(a: int, b: int) -> int:
        echo.raise_event("event Action<int> Progress", a + b)
        return a + b

    @echo.method("string Ping()")
    async def ping() -> str:
        return "pong"

    with pytest.raises(witrpc.InvalidArgumentError, match="column 9"):
        echo.method("int Add(Nope x)")(add)
    with (
        witrpc.sync.serve("tcp://127.0.0.1:0", echo) as server,
        witrpc.sync.connect(server.endpoint) as client,
    ):
        service = client.service("Demo.IEcho")
        stream = service.event("event Action<int> Progress").stream()
        assert service.call("int Add(int, int)", 2, 3) == 5
        assert stream.get(timeout=10) == 5
        assert service.call("string Ping()") == "pong"


def test_a_blocking_server_with_threads_of_clients() -> None:
    with witrpc.sync.serve("tcp://127.0.0.1:0", Work()) as server:
        with witrpc.sync.connect(server.endpoint, contract=IWork) as work:
            assert work.add(2, 3) == 5  # type: ignore[comparison-overlap]
        assert server.stats.executed == 1
        endpoint = server.endpoint
    with pytest.raises(ConnectionError):
        witrpc.sync.connect(endpoint).connect()


PROGRAM = """
import asyncio, sys, witrpc
from typing import Protocol
class IWork(witrpc.Contract, Protocol, name="My.IWork"):
    async def slow(self, seconds: float) -> str: ...
class Work(IWork):
    async def slow(self, seconds):
        print("begun", flush=True)
        await asyncio.sleep(seconds)
        return "finished"
async def main():
    server = await witrpc.serve("tcp://127.0.0.1:0", Work())
    print(server.endpoint, flush=True)
    await server.serve_forever()
    print("stopped", flush=True)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_in_order(number: int) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        endpoint = process.stdout.readline().strip()

        async def main() -> None:
            async with witrpc.connect(endpoint) as client:
                call = asyncio.create_task(client.service("My.IWork").call("string Slow(double seconds)", 0.3))
                assert await asyncio.to_thread(process.stdout.readline) == "begun\n"
                process.send_signal(number)
                assert await call == "finished"

        run(main())
        assert process.stdout.readline() == "stopped\n"
        assert process.wait(20) == 0


def test_a_dotnet_client_calls_everything(tmp_path: pathlib.Path) -> None:
    peer = peer_command()
    if peer is None:
        pytest.skip("no .NET peer found (WITRPC_PEER)")
    program = textwrap.dedent(
        """
        import asyncio, datetime, witrpc
        from demo_contract import *

        class Echo(IEcho):
            Name = "echo"
            count = 0
            async def Ping(self): return "pong"
            async def Add(self, a, b): return a + b
            def Describe(self, value):
                assert value is None or isinstance(value, Person)
                return value
            async def RaiseProgress(self, percent): self.Progress(percent)

        def same(self, value): return value
        async def none(self, *args): return None
        for name in list(IEcho.__dict__):
            if not name.startswith("_") and name not in Echo.__dict__ and callable(getattr(IEcho, name)):
                setattr(Echo, name, same)

        async def main():
            server = await witrpc.serve("tcp://127.0.0.1:0", Echo())
            print(server.endpoint, flush=True)
            await server.serve_forever()
        asyncio.run(main())
        """
    )
    here = str(pathlib.Path(__file__).parent)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=here) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip().rpartition(":")[2]

        def call(method: str, arguments: str) -> str:
            command = [peer, "call", "--connect", f"tcp:127.0.0.1:{port}", method, arguments]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=50)
            return done.stdout.strip()

        assert call("Add", "[2,3]") == "5"
        assert call("Money", "[1.50]") == "1.50"
        assert '"Name":"Ada"' in call("Describe", '[{"Name":"Ada","Age":36}]').replace(" ", "")
        process.terminate()
        assert process.wait(20) == 0


def test_the_command_is_installed() -> None:
    done = subprocess.run([*COMMAND, "--version"], stdout=subprocess.PIPE, text=True, check=True, timeout=50)
    assert done.stdout.split()[-1] == witrpc.__version__
