"""Outages: reconnection with its callbacks, states, retries, against servers that are killed."""

import asyncio
import threading

import pytest
import witrpc
from conftest import Start, run
from demo_contract import IEcho

ECHO = "Demo.IEcho"
FAST = witrpc.Reconnect(max_attempts=0, initial_delay=0.05, max_delay=0.2)


def test_a_killed_server_is_survived(start: Start) -> None:
    server = start()
    running = [server]

    def again() -> None:
        running[-1].kill()
        same = {"port": int(server.endpoint.rpartition(":")[2])}
        running.append(start(**(same if server.kind == ".NET" else {"endpoint": server.endpoint})))

    async def main() -> None:
        told: list[str] = []

        async def reconnecting(attempt: int, delay: float) -> None:
            await asyncio.sleep(0)
            told.append(f"attempt {attempt}")
            assert delay >= 0.05

        async with witrpc.connect(
            server.endpoint,
            reconnect=FAST,
            retry=witrpc.Retry(idempotent=["Add"], initial_delay=0.05),
            on_reconnecting=reconnecting,
            on_reconnected=lambda: told.append("back"),
            on_state_changed=lambda state: told.append(state.name),
        ) as client:
            echo = client.service(ECHO)
            for outage in range(2):
                assert await echo.call("int Add(int a, int b)", 2, 3) == 5
                await asyncio.to_thread(again)
                assert await echo.call("int Add(int a, int b)", outage, 3) == outage + 3
            assert client.state is witrpc.State.CONNECTED
            assert client.stats.reconnects == 2
        states = [word for word in told if word.isupper()]
        assert states[:4] == ["CONNECTED", "RECONNECTING", "CONNECTED", "RECONNECTING"]
        first = told.index("attempt 1")
        assert "RECONNECTING" in told[:first]
        assert told.index("back") > first

    run(main())


def test_the_same_blocking_with_callbacks_that_call(start_demo: Start) -> None:
    server = start_demo()
    fetched: list[int] = []
    back = threading.Event()

    def on_reconnected() -> None:
        # Refreshing state here is what it is for.
        fetched.append(client.service(ECHO).call("int Count()"))
        back.set()
        raise ValueError("on purpose: harms nothing")

    client = witrpc.sync.connect(server.endpoint, reconnect=FAST, on_reconnected=on_reconnected)
    with client:
        server.kill()
        client.wait_for(witrpc.State.RECONNECTING, timeout=20)
        assert isinstance(client.last_error, ConnectionError)
        start_demo(endpoint=server.endpoint)
        client.wait_for(witrpc.State.CONNECTED, timeout=20)
        assert back.wait(20)
    assert fetched == [0]


def test_stop_and_now_and_wait_for(start_demo: Start) -> None:
    server = start_demo()

    async def main() -> None:
        slow = witrpc.Reconnect(initial_delay=3600, max_delay=3600)
        async with witrpc.connect(server.endpoint, reconnect=slow) as client:
            server.kill()
            await client.wait_for(witrpc.State.RECONNECTING)
            with pytest.raises(TimeoutError):
                await client.wait_for(witrpc.State.CONNECTED, timeout=0.05)
            start_demo(endpoint=server.endpoint)
            client.reconnect_now()
            await client.wait_for(witrpc.State.CONNECTED)
            await client.reconnect()
            assert client.state is witrpc.State.CONNECTED
            client.disconnect()
            assert client.state is witrpc.State.DISCONNECTED
            await client.connect()

        async with witrpc.connect(server.endpoint, reconnect=slow) as client:
            client.stop_reconnection()
            assert client.state is witrpc.State.CONNECTED

    run(main())


def test_giving_up_tells_the_last_error(start_demo: Start) -> None:
    server = start_demo()

    async def main() -> None:
        failed: asyncio.Future[witrpc.WitRpcError] = asyncio.get_running_loop().create_future()
        few = witrpc.Reconnect(max_attempts=2, initial_delay=0.01, max_delay=0.01)
        client = await witrpc.connect(server.endpoint, reconnect=few, on_reconnection_failed=failed.set_result)
        server.kill()
        error = await failed
        assert isinstance(error, ConnectionError)
        assert client.state is witrpc.State.FAILED
        with pytest.raises(ConnectionError):
            await client.service(ECHO).call("string Ping()")
        await client.close()

    run(main())


def test_the_first_connect_is_covered_when_asked_for(start_demo: Start) -> None:
    server = start_demo()
    server.kill()

    async def main() -> None:
        first = witrpc.Reconnect(max_attempts=0, initial_delay=0.05, max_delay=0.1, retry_first_connect=True)
        client = witrpc.connect(server.endpoint, reconnect=first)
        connecting = asyncio.create_task(client.connect())
        await client.wait_for(witrpc.State.RECONNECTING)
        start_demo(endpoint=server.endpoint)
        await connecting
        await client.close()

    run(main())


def test_a_retried_call_runs_once_and_tells(start_demo: Start) -> None:
    # The second call runs and loses its answer with the connection.
    server = start_demo("--close-after", "2")

    async def main() -> None:
        notices: list[tuple[str, str, int]] = []
        async with witrpc.connect(
            server.endpoint,
            contract=IEcho,
            reconnect=FAST,
            retry=witrpc.Retry(deduplicated=["CountUp"], initial_delay=0.02),
            on_retry=lambda method, error, attempt, delay: notices.append((method, error.code, attempt)),
        ) as echo:
            assert await echo.CountUp(1) == 1
            assert await echo.CountUp(1) == 2
            assert await echo.CountUp(1) == 3
        assert notices == [("CountUp", "transport", 1)]

    run(main())


def test_a_predicate_may_ask_for_a_retry(start_demo: Start, caplog: pytest.LogCaptureFixture) -> None:
    server = start_demo()
    asked: list[str] = []

    def judge(error: Exception) -> bool:
        assert isinstance(error, witrpc.RemoteError)
        asked.append(error.code)
        if len(asked) == 3:
            raise ValueError("on purpose: means no")
        return True

    retry = witrpc.Retry(idempotent=["Fail"], retry_if=judge, initial_delay=0.01, max_retries=10)

    async def main() -> None:
        async with witrpc.connect(server.endpoint, contract=IEcho, retry=retry) as echo:
            with pytest.raises(witrpc.RemoteError) as caught:
                await echo.Fail("x")
            assert caught.value.attempts == 3

    run(main())
    assert asked == ["remote"] * 3
    assert "retry_if failed" in caplog.text


def test_nothing_is_retried_that_was_not_declared(start: Start) -> None:
    server = start("--close-after", "1")
    with witrpc.sync.connect(server.endpoint, reconnect=FAST, retry=witrpc.Retry()) as client:
        with pytest.raises(ConnectionError) as caught:
            client.service(ECHO).call("int CountUp(int by)", 1)
        assert isinstance(caught.value, witrpc.ConnectionError)
        assert caught.value.outcome is witrpc.Outcome.UNKNOWN
        assert client.service(ECHO).call("int Count()") == 1


def test_several_endpoints_stand_in_for_each_other(start_demo: Start) -> None:
    first, second = start_demo(), start_demo()
    with witrpc.sync.connect([first.endpoint, second.endpoint], reconnect=FAST) as client:
        first.kill()
        client.wait_for(witrpc.State.RECONNECTING, timeout=20)
        client.wait_for(witrpc.State.CONNECTED, timeout=20)
        assert client.service(ECHO).call("string Ping()") == "pong"
