"""Event loops: several, of other makes, closed early; and threads beside them."""

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest
import witrpc
from conftest import Running, run

ADD = "int Add(int a, int b)"


async def _calls(endpoint: str, count: int = 200) -> int:
    async with witrpc.connect(endpoint) as client:
        add = client.service("Demo.IEcho").method(ADD)
        return sum(await asyncio.gather(*(add(n, 1) for n in range(count))))


def test_one_loop_after_another(demo: Running) -> None:
    for _ in range(20):
        assert run(_calls(demo.endpoint, 20)) == 210


def test_loops_in_several_threads_with_one_client(demo: Running) -> None:
    results: list[int] = []

    async def main() -> None:
        async with witrpc.connect(demo.endpoint) as client:
            add = client.service("Demo.IEcho").method(ADD)

            def other() -> None:
                async def work() -> int:
                    return sum(await asyncio.gather(*(add(n, 1) for n in range(100))))

                results.append(asyncio.run(work()))

            threads = [threading.Thread(target=other) for _ in range(4)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                assert await add(1, 1) == 2

    run(main())
    assert results == [5050] * 4


def test_uvloop(demo: Running) -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_calls(demo.endpoint)) == 20100

    async def serve() -> int:
        handlers = witrpc.Handlers("Demo.IEcho")

        @handlers.method(ADD)
        async def add(a: int, b: int) -> int:
            return a + b

        async with witrpc.serve("tcp://127.0.0.1:0", handlers) as server:
            return await _calls(server.endpoint)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(serve()) == 20100


class Unwatching(asyncio.SelectorEventLoop):
    """A loop that can't watch descriptors, as the proactor loop of Windows."""

    def add_reader(self, fd, callback, *args):  # type: ignore[no-untyped-def]
        if getattr(callback, "__name__", "") == "drain":
            raise NotImplementedError
        return super().add_reader(fd, callback, *args)


def test_a_loop_that_can_not_watch_descriptors(demo: Running) -> None:
    with asyncio.Runner(loop_factory=Unwatching) as runner:
        assert runner.run(_calls(demo.endpoint)) == 20100


def test_blocking_calls_beside_gevent(demo: Running) -> None:
    pytest.importorskip("gevent")
    program = textwrap.dedent(
        f"""
        import gevent.monkey
        gevent.monkey.patch_all(thread=False)
        import gevent, threading, witrpc
        with witrpc.sync.connect({demo.endpoint!r}) as client:
            add = client.service("Demo.IEcho").method({ADD!r})
            greenlets = [gevent.spawn(add, n, 1) for n in range(20)]
            gevent.joinall(greenlets)
            assert [g.value for g in greenlets] == list(range(1, 21))
        print("done")
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_answers_to_a_closed_loop_are_quiet(demo: Running, capfd: pytest.CaptureFixture[str]) -> None:
    loop = asyncio.new_event_loop()
    told: list[object] = []
    loop.set_exception_handler(lambda _, context: told.append(context))

    async def main() -> witrpc.AsyncClient[None]:
        client = await witrpc.connect(demo.endpoint)
        slow = client.service("Demo.IEcho").method("int SlowAsync(int milliseconds, int result)")
        tasks = [asyncio.ensure_future(slow(50, n)) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        waiting.append(slow(50, 1))
        waiting[0].send(None)
        return client

    waiting: list = []  # type: ignore[type-arg]
    client = loop.run_until_complete(main())
    loop.close()
    with witrpc.sync.connect(demo.endpoint) as other:
        # By then the answer for the closed loop has come, too.
        other.service("Demo.IEcho").call("int SlowAsync(int milliseconds, int result)", 200, 1)
    del client
    waiting[0].close()
    gc.collect()
    assert told == []
    assert capfd.readouterr().err == ""


def test_clients_and_loops_are_let_go_of(demo: Running) -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []
    clients: list[weakref.ref[object]] = []

    async def main() -> None:
        seen: list[object] = []
        client = witrpc.connect(demo.endpoint, on_state_changed=lambda state: seen.append((state, client)))
        async with client:
            clients.append(weakref.ref(client))
            assert await client.service("Demo.IEcho").call(ADD, 1, 1) == 2
        # The last one, too: closing has waited for it.
        assert [state.name for state, _ in seen] == ["CONNECTED", "DISCONNECTED"]  # type: ignore[misc]
        loops.append(weakref.ref(asyncio.get_running_loop()))

    for _ in range(5):
        asyncio.run(main())
    gc.collect()
    assert [ref() for ref in clients] == [None] * 5
    # The last one may still be known; it is forgotten with the next.
    assert [ref() for ref in loops[:-1]] == [None] * 4


def test_the_loop_is_free_while_a_call_waits(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint) as client:
            call = asyncio.ensure_future(client.service("Demo.IEcho").call("int SlowAsync(int milliseconds, int result)", 100, 7))
            turns = 0
            while not call.done():
                await asyncio.sleep(0)
                turns += 1
            assert await call == 7
            assert turns > 10

    run(main())


def test_the_gil_is_free_while_a_call_blocks(demo: Running) -> None:
    with witrpc.sync.connect(demo.endpoint) as client:
        slow = client.service("Demo.IEcho").method("int SlowAsync(int milliseconds, int result)")
        done = threading.Event()
        thread = threading.Thread(target=lambda: (slow(300, 1), done.set()))
        thread.start()
        turns = 0
        while not done.is_set():
            turns += 1
        thread.join()
        assert turns > 1000
