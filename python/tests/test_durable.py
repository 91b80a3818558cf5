"""Calls that outlive the process: a server that is killed, and what its next life knows."""

import asyncio
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
import witrpc
from conftest import run

SERVER = textwrap.dedent("""
    import asyncio, os, pathlib, sys
    from typing import Protocol
    import witrpc

    endpoint, folder = sys.argv[1], pathlib.Path(sys.argv[2])

    class IBank(witrpc.Contract, Protocol, name="My.IBank"):
        async def transfer(self, amount: int) -> int: ...
        async def crash(self, amount: int) -> int: ...
        async def pay(self, how: str, amount: int) -> int: ...

    def note(what):
        with open(folder / "executed", "a") as file:
            file.write(what + "\\n")

    class Bank(IBank):
        @witrpc.durable
        async def transfer(self, amount: int) -> int:
            note("transfer")
            return amount * 2

        @witrpc.durable
        async def crash(self, amount: int) -> int:
            note("crash")
            os._exit(1)

        async def find(self, call):
            assert isinstance(self, Bank)
            how, result = (folder / call.invocation_id.hex).read_text().split()
            match how:
                case "done":
                    return int(result)
                case "fault":
                    raise witrpc.Fault("no money", status=402, details=result)
                case "again":
                    return witrpc.Resolution.NOT_EXECUTED
                case "wrong":
                    return "text"
            raise ValueError("on purpose")

        @witrpc.durable(resolver=find)
        async def pay(self, how: str, amount: int) -> int:
            note("pay")
            kept = folder / witrpc.current_call().invocation_id.hex
            if kept.exists():
                return amount + 1
            kept.write_text(f"{how} {amount}")
            os._exit(1)

    witrpc.run(endpoint, Bank(), store=witrpc.Journal(folder / "journal"))
""")


class IBank(witrpc.Contract, Protocol, name="My.IBank"):
    async def transfer(self, amount: int) -> int: ...
    async def crash(self, amount: int) -> int: ...
    async def pay(self, how: str, amount: int) -> int: ...


class Bank:
    """A server that can be killed and started again at the same place, with the same journal."""

    def __init__(self, folder: pathlib.Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.endpoint = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.end()
        self.process = subprocess.Popen([sys.executable, "-c", SERVER, self.endpoint, str(self.folder)])

    def end(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            self.process = None

    def died(self) -> None:
        assert self.process is not None
        self.process.wait(30)

    def executed(self) -> list[str]:
        return (self.folder / "executed").read_text().split()


@pytest.fixture
def bank(tmp_path: pathlib.Path) -> Iterator[Bank]:
    bank = Bank(tmp_path)
    bank.start()
    yield bank
    bank.end()


def connect(bank: Bank) -> Any:
    fast = witrpc.Reconnect(max_attempts=0, initial_delay=0.05, max_delay=0.1, retry_first_connect=True)
    retry = witrpc.Retry(deduplicated=["Transfer", "Crash", "Pay"], initial_delay=0.01, max_retries=100)
    return witrpc.connect(bank.endpoint, contract=IBank, reconnect=fast, retry=retry)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_answer_outlives_the_server(number: int, bank: Bank) -> None:
    async def main() -> None:
        id = uuid.uuid4()
        for life in range(3):
            async with connect(bank) as service:
                assert await witrpc.with_options(service, invocation_id=id, timeout=60).transfer(21) == 42
            bank.end(number)
            bank.start()
            assert bank.executed() == ["transfer"], life

    run(main())


def test_a_crash_in_mid_call_is_an_unknown_outcome(bank: Bank) -> None:
    async def main() -> None:
        async with connect(bank) as service:
            waiting = asyncio.ensure_future(service.crash(1, timeout=60))
            await asyncio.to_thread(bank.died)
            bank.start()
            with pytest.raises(witrpc.OutcomeUnknownError):
                await waiting
            # The link itself is whole again.
            assert await service.transfer(1, timeout=60) == 2

    run(main())
    assert bank.executed() == ["crash", "transfer"]


@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("done", 7),
        ("again", 8),
        ("fault", "no money: 7"),
        ("raises", witrpc.OutcomeUnknownError),
        ("wrong", witrpc.OutcomeUnknownError),
    ],
)
def test_a_resolver_knows_what_the_store_does_not(how: str, outcome: Any, bank: Bank) -> None:
    async def main() -> None:
        async with connect(bank) as service:
            waiting = asyncio.ensure_future(service.pay(how, 7, timeout=60))
            await asyncio.to_thread(bank.died)
            bank.start()
            if isinstance(outcome, int):
                assert await waiting == outcome
            elif isinstance(outcome, str):
                with pytest.raises(witrpc.RemoteError) as caught:
                    await waiting
                assert str(caught.value) == outcome
            else:
                with pytest.raises(outcome):
                    await waiting

    run(main())
    assert bank.executed() == ["pay"] * (2 if how == "again" else 1)


def test_without_a_class_and_what_is_refused(tmp_path: pathlib.Path) -> None:
    handlers = witrpc.Handlers("My.IBank")

    @handlers.method("int Transfer(int amount)")
    @witrpc.durable(resolver=lambda call: witrpc.Resolution.UNKNOWN)
    def transfer(amount: int) -> int:
        return amount * 2

    with witrpc.sync.serve("tcp://127.0.0.1:0", handlers, store=witrpc.Journal(tmp_path)) as server:
        with witrpc.sync.connect(server.endpoint) as client:
            assert client.service("My.IBank").call("int Transfer(int amount)", 21) == 42
        # A directory is for one server.
        with pytest.raises(witrpc.WitRpcError, match=str(tmp_path)):
            witrpc.sync.serve("tcp://127.0.0.1:0", handlers, store=witrpc.Journal(tmp_path)).start()
    assert list(tmp_path.iterdir())
    plain = witrpc.Handlers("My.IBank")
    plain.method("int Transfer(int amount)")(lambda amount: amount)
    with pytest.raises(witrpc.InvalidArgumentError, match=r"My.IBank/int Transfer\(int amount\) is durable: say where"):
        witrpc.sync.serve("tcp://127.0.0.1:0", handlers).start()
    with pytest.raises(witrpc.InvalidArgumentError, match="none of its methods is durable: mark them, @witrpc.durable"):
        witrpc.sync.serve("tcp://127.0.0.1:0", plain, store=witrpc.Journal(tmp_path)).start()
    with pytest.raises(witrpc.InvalidArgumentError, match=r"store is 'x': write store=witrpc.Journal\(\"directory\"\)"):
        witrpc.serve("tcp://127.0.0.1:0", plain, store="x")  # type: ignore[arg-type]
