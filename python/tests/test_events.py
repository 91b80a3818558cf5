"""Events: as async iterators, as iterators, as callbacks; in order, bounded, across outages."""

import asyncio
import threading

import pytest
import witrpc
from conftest import Running, Start, run
from demo_contract import Color, IEcho, Person

ECHO = "Demo.IEcho"


def test_events_as_an_async_iterator(server: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(server.endpoint, contract=IEcho) as echo:
            async with asyncio.TaskGroup() as group:
                begun = asyncio.Event()

                async def listen() -> list[int]:
                    stream = echo.Progress.stream()
                    begun.set()
                    seen = []
                    async for percent in stream:
                        seen.append(percent)
                        if percent == 99:
                            return seen
                    raise AssertionError("ended")

                listening = group.create_task(listen())
                await begun.wait()
                await echo.RaiseMany(100)
            assert listening.result() == list(range(100))

    run(main())


def test_events_of_several_arguments_and_of_none(server: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(server.endpoint, contract=IEcho) as echo:
            persons, nothings = echo.PersonChanged.stream(), echo.Nothing.stream()
            await echo.RaisePerson(Person(name="Ada", favourite=Color.BLUE))
            await echo.RaiseNothing()
            person, note = await anext(aiter(persons))
            assert person is not None
            assert (person.name, person.favourite, note) == ("Ada", Color.BLUE, "note")
            assert await anext(aiter(nothings)) == ()

    run(main())


def test_events_by_line_blocking(server: Running) -> None:
    with witrpc.sync.connect(server.endpoint) as client:
        echo = client.service(ECHO)
        stream = echo.event("event Action<int> Progress").stream()
        with pytest.raises(TimeoutError, match=r"no event within 0.05 s"):
            stream.get(timeout=0.05)
        echo.call("void RaiseMany(int count)", 3)
        assert [stream.get(timeout=10) for _ in range(3)] == [0, 1, 2]
        changed = echo.event("event EventHandler<Demo.ProgressArgs> Changed").stream()
        echo.call("void RaiseChanged(int percent, string note)", 5, "n")
        _, args = changed.get(timeout=10)
        assert args["Percent"] == 5
        stream.close()
        assert list(stream) == []
        with pytest.raises(witrpc.ClosedError):
            stream.get()


def test_callbacks_of_both_kinds_and_their_exceptions(demo: Running, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint, contract=IEcho) as echo:
            seen: list[tuple[str, int]] = []
            done = asyncio.Event()

            def plain(percent: int) -> None:
                seen.append(("plain", percent))
                if percent == 1:
                    raise ValueError("on purpose")

            async def waiting(percent: int) -> None:
                await asyncio.sleep(0)
                seen.append(("waiting", percent))
                if percent == 1:
                    raise ValueError("on purpose")
                if percent == 4:
                    done.set()

            with echo.Progress.subscribe(plain), echo.Progress.subscribe(waiting) as subscription:
                await echo.RaiseMany(5)
                await done.wait()
                assert subscription.dropped == 0
            assert [n for kind, n in seen if kind == "plain"] == list(range(5))
            assert [n for kind, n in seen if kind == "waiting"] == list(range(5))
            await echo.RaiseMany(5)
            await asyncio.sleep(0)
            assert len(seen) == 10

    run(main())
    assert len([record for record in caplog.records if "a handler of the event" in record.message]) == 2


def test_callbacks_of_a_blocking_client_may_call_it(demo: Running) -> None:
    with witrpc.sync.connect(demo.endpoint) as client:
        echo = client.service(ECHO)
        answers: list[int] = []
        done = threading.Event()

        def handler(percent: int) -> None:
            answers.append(echo.call("int AddOne(int a)", percent))
            if percent == 2:
                done.set()
            raise ValueError("on purpose")

        with echo.event("event Action<int> Progress").subscribe(handler):
            echo.call("void RaiseMany(int count)", 3)
            assert done.wait(20)
        assert answers == [1, 2, 3]

        async def wrong(percent: int) -> None: ...

        with pytest.raises(witrpc.InvalidArgumentError, match="can't be a coroutine function"):
            echo.event("event Action<int> Progress").subscribe(wrong)


def test_a_slow_reader_loses_the_oldest_and_is_told(demo: Running) -> None:
    with witrpc.sync.connect(demo.endpoint) as client:
        echo = client.service(ECHO)
        stream = echo.event("event Action<int> Progress").stream()
        # More than a queue holds (65,536).
        count = 70_000
        echo.call("void RaiseMany(int count)", count, timeout=60)
        echo.call("string Ping()")
        first = stream.get(timeout=10)
        assert stream.dropped == first > 0
        rest = [stream.get(timeout=10) for _ in range(count - 1 - first)]
        assert rest == list(range(first + 1, count))


def test_cancelling_a_wait_loses_nothing_and_closing_ends_it(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint, contract=IEcho) as echo:
            stream = aiter(echo.Progress.stream())
            for n in range(20):
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await echo.RaiseProgress(n)
                assert await anext(stream) == n
            ended = asyncio.ensure_future(_all(stream))
            await asyncio.sleep(0)
            await witrpc.client_of(echo).close()
            assert await ended == []

    run(main())


async def _all(stream) -> list[int]:  # type: ignore[no-untyped-def]
    return [item async for item in stream]


def test_subscriptions_survive_an_outage(start_demo: Start) -> None:
    server = start_demo()

    async def main() -> None:
        fast = witrpc.Reconnect(max_attempts=0, initial_delay=0.05, max_delay=0.2)
        async with witrpc.connect(server.endpoint, contract=IEcho, reconnect=fast) as echo:
            stream = echo.Progress.stream()
            await echo.RaiseProgress(1)
            server.kill()
            start_demo(endpoint=server.endpoint)
            await witrpc.with_options(echo, idempotent=True).RaiseProgress(2)
            it = aiter(stream)
            assert [await anext(it), await anext(it)] == [1, 2]

    run(main())


def test_streams_say_whose_they_are(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint, contract=IEcho) as echo:
            with pytest.raises(TypeError, match="write async for"):
                iter(echo.Progress.stream())
            with pytest.raises(TypeError, match="await anext"):
                echo.Progress.stream().get()
            with pytest.raises(TypeError, match="raised by servers"):
                echo.Progress(5)

    run(main())
    with witrpc.sync.connect(demo.endpoint) as client, pytest.raises(TypeError, match="write for"):
        aiter(client.service(ECHO).event("event Action<int> Progress").stream())
