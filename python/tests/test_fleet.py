"""Servers that share a store: a call that is repeated at another one does not run twice."""

import os
import pathlib
import shutil
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
    import os, pathlib, sys
    from typing import Protocol
    import witrpc

    endpoint, folder, url = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]

    class IBank(witrpc.Contract, Protocol, name="My.IBank"):
        async def transfer(self, amount: int) -> int: ...
        async def crash(self, amount: int) -> int: ...

    class Bank(IBank):
        @witrpc.durable
        async def transfer(self, amount: int) -> int:
            with open(folder / "executed", "a") as file:
                file.write("transfer\\n")
            return amount * 2

        @witrpc.durable
        async def crash(self, amount: int) -> int:
            os._exit(1)

    witrpc.run(endpoint, Bank(), store=witrpc.RedisStore(url, lease=0.5))
""")


class IBank(witrpc.Contract, Protocol, name="My.IBank"):
    async def transfer(self, amount: int) -> int: ...
    async def crash(self, amount: int) -> int: ...


@pytest.fixture
def redis(tmp_path: pathlib.Path) -> Iterator[str]:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("no redis-server or valkey-server")
    path = tmp_path / "redis.sock"
    arguments = ["--port", "0", "--unixsocket", str(path), "--dir", str(tmp_path), "--save", "", "--daemonize", "no"]
    with subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL) as process:
        yield f"redis+unix://{path}"
        process.kill()


def free_endpoint() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def fleet(redis: str, tmp_path: pathlib.Path) -> Iterator[list[tuple[str, subprocess.Popen[bytes]]]]:
    servers = []
    for _ in range(2):
        endpoint = free_endpoint()
        command = [sys.executable, "-c", SERVER, endpoint, str(tmp_path), redis]
        servers.append((endpoint, subprocess.Popen(command)))
    yield servers
    for _, process in servers:
        process.kill()
        process.wait()


WAIT = witrpc.Reconnect(max_attempts=0, initial_delay=0.05, max_delay=0.1, retry_first_connect=True)


def connect(*endpoints: str) -> Any:
    retry = witrpc.Retry(deduplicated=["Transfer", "Crash"], initial_delay=0.01, max_retries=100)
    return witrpc.connect(endpoints, contract=IBank, reconnect=WAIT, retry=retry)


def test_a_call_repeated_at_another_server_runs_once(fleet: Any, tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        id = uuid.uuid4()
        for endpoint, process in fleet:
            async with connect(endpoint) as bank:
                assert await witrpc.with_options(bank, invocation_id=id, timeout=60).transfer(21) == 42
            process.kill()
        assert (tmp_path / "executed").read_text().split() == ["transfer"]

    run(main())


def test_a_call_whose_server_died_is_unknown_at_the_other_one(fleet: Any) -> None:
    async def main() -> None:
        async with connect(*(endpoint for endpoint, _ in fleet)) as bank:
            with pytest.raises(witrpc.OutcomeUnknownError):
                await bank.crash(1, timeout=60)
            # Once, at one of them, and not at the other one, too.
            assert await bank.transfer(1, timeout=60) == 2
            assert [process.poll() is None for _, process in fleet].count(False) == 1

    run(main())


def test_options_of_the_store_are_checked(tmp_path: pathlib.Path) -> None:
    handlers = witrpc.Handlers("My.IBank")
    handlers.method("int Transfer(int amount)")(witrpc.durable(lambda amount: amount))
    for store, message in [
        (witrpc.RedisStore("http://x"), "not a URL of Redis"),
        (witrpc.RedisStore("redis://127.0.0.1:1", lease=0), "lease"),
        (witrpc.RedisStore("redis://127.0.0.1:1", wait_replicas="x"), "store.wait_replicas is 'x'"),  # type: ignore[arg-type]
        (witrpc.RedisStore("rediss://127.0.0.1:1", tls=witrpc.Tls(authorities=b"no PEM")), "certificate"),
        (witrpc.RedisStore(f"redis+unix://{tmp_path}/none", timeout=0.2), "no store on Redis"),
    ]:
        with pytest.raises(witrpc.WitRpcError) as caught:
            witrpc.sync.serve("tcp://127.0.0.1:0", handlers, store=store).start()
        assert message in str(caught.value), str(caught.value)
    assert os.listdir(tmp_path) == []
