"""Soak: many calls, reconnections and cancellations with flat memory. Scaled down here; `make soak-python` is the whole."""

import asyncio
import gc
import os
import pathlib

import pytest
import witrpc
from conftest import Running, Start, run

FULL = os.environ.get("WITRPC_SOAK") == "full"
CALLS = 1_000_000 if FULL else 20_000
RECONNECTS = 1_000 if FULL else 40
# What caches and the allocator may take while nothing leaks: less than a few bytes a call.
ALLOWED = 8 * 1024 * 1024

pytestmark = [
    pytest.mark.timeout(3600 if FULL else 120),
    pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="memory is measured on Linux"),
]


def memory() -> int:
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def soak(work: object) -> None:
    asyncio.run(asyncio.wait_for(work, 3600))  # type: ignore[arg-type]


def test_calls_take_no_memory(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint) as client:
            echo = client.service("Demo.IEcho").method("string Echo(string text)")
            text = "x" * 200

            async def calls(count: int) -> None:
                for _ in range(count // 50):
                    assert await asyncio.gather(*(echo(text) for _ in range(50))) == [text] * 50

            await calls(CALLS // 4)
            before = memory()
            await calls(CALLS)
            assert memory() - before < ALLOWED

    soak(main())
    with witrpc.sync.connect(demo.endpoint) as client:
        echo = client.service("Demo.IEcho").method("string Echo(string text)")
        for _ in range(CALLS // 20):
            echo("x" * 200)
        before = memory()
        for _ in range(CALLS // 10):
            echo("x" * 200)
        assert memory() - before < ALLOWED


def test_reconnections_and_new_clients_take_no_memory(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint, reconnect=True, on_state_changed=lambda state: None) as client:
            ping = client.service("Demo.IEcho").method("string Ping()")

            async def reconnect(count: int) -> None:
                for _ in range(count):
                    await client.reconnect()
                    assert await ping() == "pong"
                    async with witrpc.connect(demo.endpoint) as other:
                        assert await other.service("Demo.IEcho").call("string Ping()") == "pong"

            await reconnect(RECONNECTS // 4)
            before, threads = memory(), len(os.listdir("/proc/self/task"))
            await reconnect(RECONNECTS)
            assert memory() - before < ALLOWED
            assert len(os.listdir("/proc/self/task")) <= threads + 4

    soak(main())


def test_storms_of_cancellations_harm_nothing(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint) as client:
            service = client.service("Demo.IEcho")
            slow = service.method("int SlowAsync(int milliseconds, int result)")
            quick = service.method("int AddOne(int a)")
            before = None
            for storm in range(CALLS // 2_000):
                tasks = [asyncio.ensure_future(slow(50, n) if n % 3 else quick(n)) for n in range(200)]
                await asyncio.sleep(0)
                for n, task in enumerate(tasks):
                    if n % 2:
                        task.cancel()
                if storm % 2:
                    # In the middle of their answers, too.
                    await asyncio.sleep(0.001)
                    for task in tasks:
                        task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                assert await quick(1) == 2
                if storm == CALLS // 8_000:
                    before = memory()
            assert client.stats.in_flight == 0
            assert before is not None
            assert memory() - before < ALLOWED

    soak(main())


def test_exceptions_in_every_callback_harm_nothing(start_demo: Start, caplog: pytest.LogCaptureFixture) -> None:
    server = start_demo()

    def fail(*_: object) -> None:
        raise ValueError("on purpose")

    async def fail_later(*_: object) -> None:
        await asyncio.sleep(0)
        raise ValueError("on purpose")

    async def main() -> None:
        for callback in (fail, fail_later):
            fast = witrpc.Reconnect(max_attempts=0, initial_delay=0.01, max_delay=0.05)
            async with witrpc.connect(
                server.endpoint,
                reconnect=fast,
                retry=witrpc.Retry(idempotent=["Ping"], initial_delay=0.01),
                on_reconnecting=callback,
                on_reconnected=callback,
                on_reconnection_failed=callback,
                on_state_changed=callback,
                on_retry=callback,
            ) as client:
                service = client.service("Demo.IEcho")
                with service.event("event Action<int> Progress").subscribe(callback):
                    for _ in range(5):
                        await service.call("void RaiseMany(int count)", 5)
                        await client.reconnect()
                        assert await service.call("string Ping()") == "pong"

    run(main())
    assert "on purpose" in caplog.text


def test_exceptions_in_every_callback_of_a_server_harm_nothing(caplog: pytest.LogCaptureFixture) -> None:
    handlers = witrpc.Handlers("Demo.IEcho")

    @handlers.method("string Ping()")
    async def ping() -> str:
        return "pong"

    def fail(*_: object) -> None:
        raise ValueError("on purpose")

    async def fail_later(*_: object) -> None:
        await asyncio.sleep(0)
        raise ValueError("on purpose")

    async def main() -> None:
        for callback in (fail, fail_later):
            async with witrpc.serve(
                "tcp://127.0.0.1:0",
                handlers,
                validator=lambda token, _, check=callback: token == "good" or check(),
                on_connected=callback,
                on_disconnected=callback,
                on_execute=callback,
            ) as server:
                for _ in range(20):
                    async with witrpc.connect(server.endpoint, token="good") as client:
                        assert await client.service("Demo.IEcho").call("string Ping()") == "pong"
                # A token that could not be checked is not accepted.
                with pytest.raises(witrpc.UnauthorizedError):
                    await witrpc.connect(server.endpoint, token="bad")
                # Nor is one sent that could not be got.
                with pytest.raises(witrpc.WitRpcError, match="on purpose"):
                    await witrpc.connect(server.endpoint, token=callback)  # type: ignore[arg-type]

    run(main())
    assert caplog.text.count("on purpose") >= 40
