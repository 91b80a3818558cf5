"""The process: forks, its end with calls in flight, signals, other interpreters. Each with a hard limit of time."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import Running

ADD = '"int Add(int a, int b)"'


def program(text: str, *arguments: str, timeout: float = 50) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(text), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def test_a_fork_is_noticed_and_harms_nobody(demo: Running) -> None:
    done = program(
        f"""
        import os, sys, witrpc
        client = witrpc.sync.connect(sys.argv[1])
        client.connect()
        add = client.service("Demo.IEcho").method({ADD})
        stream = client.service("Demo.IEcho").event("event Action<int> Progress").stream()
        assert add(1, 2) == 3
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                for use in (lambda: add(1, 2), lambda: client.state, client.close, lambda: next(iter(stream))):
                    try:
                        use()
                    except witrpc.ForkedProcessError as error:
                        assert "spawn" in error.__notes__[0]
                        assert isinstance(error, RuntimeError)
                    else:
                        os._exit(3)
                del add, client, stream
                # A new one works here, with threads of this process.
                with witrpc.sync.connect(sys.argv[1]) as own:
                    assert own.service("Demo.IEcho").call({ADD}, 2, 3) == 5
                import asyncio
                async def main():
                    async with witrpc.connect(sys.argv[1]) as own:
                        assert await own.service("Demo.IEcho").call({ADD}, 2, 3) == 5
                asyncio.run(main())
                sys.exit(0)
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0, status
            assert add(3, 4) == 7
        client.close()
        """,
        demo.endpoint,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_workers_that_were_forked_while_a_loop_ran(demo: Running) -> None:
    done = program(
        f"""
        import asyncio, concurrent.futures, multiprocessing, sys, witrpc

        def work(endpoint, n):
            with witrpc.sync.connect(endpoint) as client:
                return client.service("Demo.IEcho").call({ADD}, n, 1)

        async def main():
            async with witrpc.connect(sys.argv[1]) as client:
                add = client.service("Demo.IEcho").method({ADD})
                context = multiprocessing.get_context("fork")
                with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                    loop = asyncio.get_running_loop()
                    jobs = [loop.run_in_executor(pool, work, sys.argv[1], n) for n in range(6)]
                    assert await asyncio.gather(*jobs) == [1, 2, 3, 4, 5, 6]
                assert await add(1, 1) == 2

        asyncio.run(main())
        """,
        demo.endpoint,
    )
    assert (done.returncode, done.stderr) == (0, "")


EXITS = {
    "calls in flight on a loop": """
        async def main():
            client = await witrpc.connect(sys.argv[1])
            slow = client.service("Demo.IEcho").method("int SlowAsync(int milliseconds, int result)")
            calls = [asyncio.ensure_future(slow(5000, n)) for n in range(50)]
            await asyncio.sleep(0.05)
            keep.append((client, slow))
        asyncio.run(main())
        """,
    "calls in flight on threads": """
        client = witrpc.sync.connect(sys.argv[1])
        client.connect()
        slow = client.service("Demo.IEcho").method("int SlowAsync(int milliseconds, int result)")
        def call():
            try:
                slow(5000, 1)
            except witrpc.WitRpcError:
                pass
        for _ in range(5):
            threading.Thread(target=call, daemon=True).start()
        while client.stats.in_flight < 5:
            pass
        """,
    "callbacks that come all the time": """
        client = witrpc.sync.connect(sys.argv[1])
        client.connect()
        echo = client.service("Demo.IEcho")
        keep.append(echo.event("event Action<int> Progress").subscribe(lambda percent: None))
        echo.call("void RaiseMany(int count)", 20000)
        """,
    "reconnecting": """
        client = witrpc.sync.connect(sys.argv[1], reconnect=witrpc.Reconnect(initial_delay=0.001, max_delay=0.001),
                                     on_reconnecting=lambda attempt, delay: None)
        client.connect()
        client.disconnect()
        other = witrpc.sync.connect("tcp://127.0.0.1:1", reconnect=witrpc.Reconnect(
            initial_delay=0.001, max_delay=0.001, max_attempts=0, retry_first_connect=True),
            on_reconnecting=lambda attempt, delay: None)
        threading.Thread(target=lambda: other.connect(), daemon=True).start()
        other.wait_for(witrpc.State.RECONNECTING, timeout=20)
        """,
    "a server": """
        handlers = witrpc.Handlers("Demo.IEcho")
        @handlers.method("int Add(int a, int b)")
        def add(a, b): return a + b
        server = witrpc.sync.serve("tcp://127.0.0.1:0", handlers)
        server.start()
        client = witrpc.sync.connect(server.endpoint)
        client.connect()
        assert client.service("Demo.IEcho").call("int Add(int, int)", 1, 2) == 3
        keep.append((server, client))
        """,
    "an exception": """
        client = witrpc.sync.connect(sys.argv[1])
        client.connect()
        sys.exit(0)
        """,
}


@pytest.mark.parametrize("name", EXITS)
def test_the_interpreter_ends_quietly(name: str, demo: Running) -> None:
    text = "import asyncio, sys, threading, witrpc\nkeep = []\n" + textwrap.dedent(EXITS[name])
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", text, demo.endpoint], capture_output=True, text=True, timeout=50)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_ctrl_c_ends_a_blocking_call(demo: Running) -> None:
    text = textwrap.dedent(
        """
        import sys, witrpc
        with witrpc.sync.connect(sys.argv[1]) as client:
            echo = client.service("Demo.IEcho")
            print("begun", flush=True)
            try:
                echo.call("int SlowAsync(int milliseconds, int result)", 60000, 1, timeout=100)
            except KeyboardInterrupt:
                assert echo.call("int Add(int, int)", 1, 2) == 3
                print("interrupted", flush=True)
        """
    )
    command = [sys.executable, "-c", text, demo.endpoint]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - begin < 10
        assert process.wait(20) == 0


def test_a_second_interpreter_is_refused_clearly() -> None:
    done = program(
        """
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        import witrpc
        other = interpreters.create()
        try:
            interpreters.run_string(other, "import witrpc")
        except Exception as error:
            assert "ImportError" in str(error) and "interpreter" in str(error), error
        else:
            raise SystemExit("it was not refused")
        """
    )
    assert done.returncode == 0, done.stderr


def test_errors_travel_between_processes() -> None:
    import pickle

    import witrpc

    error = witrpc.RemoteError("m", details="d", outcome=witrpc.Outcome.ANSWERED, attempts=2, retry_after=1.5)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is witrpc.RemoteError
    assert vars(copy) == vars(error)
    copy = pickle.loads(pickle.dumps(witrpc.ConnectionError("lost")))
    assert (str(copy), copy.outcome) == ("lost", witrpc.Outcome.NOT_SENT)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_an_import_does_nothing_that_others_pay_for() -> None:
    done = program(
        """
        import sys, threading
        before = threading.active_count()
        import witrpc
        assert threading.active_count() == before
        import os
        assert len(os.listdir("/proc/self/task")) == 1 if os.path.exists("/proc/self/task") else True
        heavy = {"pydantic", "numpy", "opentelemetry", "prometheus_client", "django"} & set(sys.modules)
        assert not heavy, heavy
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
