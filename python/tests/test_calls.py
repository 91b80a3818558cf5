"""Calls by line, on an event loop and blocking, to a server of either kind."""

import asyncio
import time
import uuid

import pytest
import witrpc
from conftest import Running, Start, run

ECHO = "Demo.IEcho"


def test_a_call_by_its_line(server: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(server.endpoint) as client:
            assert client.state is witrpc.State.CONNECTED
            echo = client.service(ECHO)
            assert await echo.call("int Add(int a, int b)", 2, 3) == 5
            # With JSON the return type may be left out.
            assert await echo.call("Add(int, int)", 2, 3) == 5
            assert await echo.method("string Ping()")() == "pong"
            assert client.peer is not None
            assert client.peer.is_libwitrpc == (server.kind == "libwitrpc")
        assert client.state is witrpc.State.DISCONNECTED

    run(main())


def test_the_same_blocking(server: Running) -> None:
    with witrpc.sync.connect(server.endpoint) as client:
        echo = client.service(ECHO)
        assert echo.call("int Add(int a, int b)", 2, 3) == 5
        assert [echo.call("int AddOne(int a)", n) for n in range(50)] == list(range(1, 51))


def test_many_at_once_and_from_many_threads(server: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(server.endpoint) as client:
            add = client.service(ECHO).method("int Add(int, int)")
            assert await asyncio.gather(*(add(n, 1) for n in range(500))) == list(range(1, 501))

    run(main())
    with witrpc.sync.connect(server.endpoint) as client:
        add = client.service(ECHO).method("int Add(int, int)")
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda n: add(n, 1), range(500))) == list(range(1, 501))


def test_arguments_by_name_and_their_count() -> None:
    client = witrpc.sync.connect("tcp://127.0.0.1:1")
    echo = client.service(ECHO)
    add = echo.method("int Add(int a, int b)")
    with pytest.raises(witrpc.InvalidArgumentError, match="Add: the argument 'b' is missing"):
        add(a=1)
    with pytest.raises(witrpc.InvalidArgumentError, match="no parameter 'c'"):
        add(1, c=2)
    with pytest.raises(witrpc.InvalidArgumentError, match="Add takes 2 arguments and got 3"):
        add(1, 2, 3)
    with pytest.raises(ValueError, match='argument 2 "b" of Add: a str where an int is expected'):
        add(1, "2")
    with pytest.raises(witrpc.InvalidArgumentError, match="column 9: Person is neither"):
        echo.call("int Add(Person p)", 1)
    client.close()


def test_a_remote_fault(server: Running) -> None:
    with witrpc.sync.connect(server.endpoint) as client, pytest.raises(witrpc.RemoteError) as caught:
        client.service(ECHO).call("string Fail(string message)", "on purpose")
    error = caught.value
    # .NET says no more of an exception that a plain method threw.
    said = "Exception has been thrown by the target of an invocation."
    assert (error.code, error.details, error.outcome) == ("remote", said, witrpc.Outcome.ANSWERED)
    assert error.attempts == 1
    assert said in str(error)
    # Nothing of the native half in the traceback.
    assert all("witrpc" not in frame.name for frame in caught.traceback)


def test_an_unknown_method_is_a_bad_request(server: Running) -> None:
    with witrpc.sync.connect(server.endpoint) as client, pytest.raises(witrpc.BadRequestError, match="Nope"):
        client.service(ECHO).call("int Nope()")


def test_a_timeout_bounds_the_whole_call(server: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(server.endpoint) as client:
            echo = client.service(ECHO)
            begin = time.monotonic()
            with pytest.raises(TimeoutError) as caught:
                await echo.call("int SlowAsync(int milliseconds, int result)", 20_000, 1, timeout=0.2)
            assert time.monotonic() - begin < 10
            assert isinstance(caught.value, witrpc.TimeoutError)
            assert caught.value.outcome is witrpc.Outcome.UNKNOWN
            assert any("timeout=" in note for note in caught.value.__notes__)
            assert await echo.call("int Add(int, int)", 1, 1, timeout=witrpc.NEVER) == 2

    run(main())
    with witrpc.sync.connect(server.endpoint) as client, pytest.raises(witrpc.TimeoutError):
        client.service(ECHO).call("int SlowAsync(int milliseconds, int result)", 20_000, 1, timeout=0.2)


def test_cancelling_a_task_cancels_its_call(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint) as client:
            slow = client.service(ECHO).method("int SlowAsync(int milliseconds, int result)")
            task = asyncio.create_task(slow(20_000, 1))
            while client.stats.in_flight == 0:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.stats.in_flight == 0
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await slow(20_000, 1)
            assert client.stats.in_flight == 0
            # Never begun, never cancelled: nothing to await is left behind.
            assert await client.service(ECHO).call("int Add(int, int)", 1, 1) == 2

    run(main())


def test_a_call_that_is_not_waited_for_is_cancelled(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint) as client:
            slow = client.service(ECHO).method("int SlowAsync(int milliseconds, int result)")
            waiting = slow(20_000, 1)
            waiting.send(None)
            assert client.stats.in_flight == 1
            waiting.close()
            assert client.stats.in_flight == 0

    run(main())


def test_one_invocation_id_is_one_execution(demo: Running) -> None:
    id = uuid.uuid4()
    with witrpc.sync.connect(demo.endpoint) as client:
        echo = client.service(ECHO)
        before = echo.call("int Count()")
        first = echo.call("int CountUp(int by)", 5, invocation_id=id)
        assert echo.call("int CountUp(int by)", 5, invocation_id=str(id)) == first
        assert echo.call("int Count()") == before + 5
        with pytest.raises(witrpc.InvalidArgumentError, match="all zero"):
            echo.call("int Count()", invocation_id=uuid.UUID(int=0))


def test_a_token_is_asked_for_and_refused(start: Start) -> None:
    server = start("--token", "secret")
    asked: list[str] = []

    async def ask() -> str:
        asked.append("async")
        return "secret"

    def ask_blocking() -> str:
        asked.append("sync")
        return "secret"

    async def main() -> None:
        for token in ("secret", ask, ask_blocking):
            async with witrpc.connect(server.endpoint, token=token) as client:
                assert await client.service(ECHO).call("string Ping()") == "pong"
        with pytest.raises(PermissionError) as caught:
            async with witrpc.connect(server.endpoint, token="wrong"):
                pass
        assert isinstance(caught.value, witrpc.UnauthorizedError)

        def broken() -> str:
            raise OSError("no disk")

        with pytest.raises(ConnectionError, match="the token provider failed: no disk"):
            await witrpc.connect(server.endpoint, token=broken)

    run(main())
    assert asked == ["async", "sync"]
    with witrpc.sync.connect(server.endpoint, token=ask_blocking) as client:
        assert client.service(ECHO).call("string Ping()") == "pong"
    with pytest.raises(witrpc.InvalidArgumentError, match="can't be a coroutine function"):
        witrpc.sync.connect(server.endpoint, token=ask)  # type: ignore[arg-type]


def test_a_token_file(start_demo: Start, tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "token"
    file.write_text("one\n")
    server = start_demo("--token-file", str(file))
    with witrpc.sync.connect(server.endpoint, token_file=file) as client:
        assert client.service(ECHO).call("string Ping()") == "pong"


def test_encryption(start: Start) -> None:
    server = start("--encrypt") if start is not None else None
    assert server is not None
    with witrpc.sync.connect(server.endpoint, encryption=True) as client:
        assert client.service(ECHO).call("int Add(int, int)", 2, 3) == 5


def test_no_server_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ConnectionError) as caught:
        witrpc.sync.connect("tcp://127.0.0.1:1").connect()
    assert isinstance(caught.value, witrpc.ConnectionError)
    assert caught.value.outcome is witrpc.Outcome.NOT_SENT
    assert "reconnect=witrpc.Reconnect()" in caught.value.__notes__[0]


def test_a_closed_client_refuses(demo: Running) -> None:
    async def main() -> None:
        async with witrpc.connect(demo.endpoint) as client:
            echo = client.service(ECHO)
        with pytest.raises(witrpc.ClosedError):
            await echo.call("string Ping()")
        with pytest.raises(ConnectionError):
            await client.connect()

    run(main())
    client = witrpc.sync.connect(demo.endpoint)
    client.connect()
    client.close()
    client.close()
    with pytest.raises(witrpc.ClosedError):
        client.connect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "xml"}, 'codec: "xml" is no codec'),
        ({"reconnect": witrpc.Reconnect(max_delay=0.5)}, "reconnect.max_delay"),
        ({"reconnect": witrpc.Reconnect(jitter="some")}, '"some" is no jitter'),  # type: ignore[arg-type]
        ({"reconnect": witrpc.Reconnect(max_attempts=-1)}, "reconnect.max_attempts is -1"),
        ({"retry": witrpc.Retry(idempotent=["no name"])}, 'retry: "no name" is neither'),
        ({"connect_timeout": -1}, "connect_timeout is -1 s"),
        ({"connect_timeout": "soon"}, "connect_timeout is 'soon'"),
        ({"tokn": "x"}, "connect has no option 'tokn'"),
        ({"token": 5}, "token is 5"),
        ({"token": "a", "token_file": "b"}, "not both"),
        ({"on_reconnected": "print"}, "on_reconnected is 'print'"),
    ],
)
def test_wrong_options_are_told(options, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(witrpc.InvalidArgumentError) as caught:
        witrpc.sync.connect("tcp://127.0.0.1:1", **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:5", "tcp://", "http://x:1", "tcp://x:1?y", []])
def test_wrong_endpoints_are_told(endpoint) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="endpoint|scheme|host|query|port"):
        witrpc.sync.connect(endpoint)


def test_encoded_arguments_and_results_pass_without_a_copy(demo: Running) -> None:
    with witrpc.sync.connect(demo.endpoint) as client:
        echo = client.service(ECHO)
        result = echo.call_encoded("string Echo(string text)", b'"as it is"')
        assert isinstance(result, memoryview)
        assert result.readonly
        assert bytes(result) == b'"as it is"'
        assert bytes(echo.call_encoded("string Echo(string text)", result)) == b'"as it is"'
        assert bytes(echo.call_encoded("string Echo(string text)", bytearray(b'"x"'))) == b'"x"'
        assert bytes(echo.call_encoded("string Echo(string text)", None)) in (b"", b"null")
