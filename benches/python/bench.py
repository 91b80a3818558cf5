"""What a call from Python costs, beside grpcio, grpc.aio, pyzmq and raw sockets, in one run.

Every contender is an echo of 64 bytes over loopback between a client in this process and a server in another. Rounds
of all contenders alternate, and the figures are medians of rounds, so that a busy moment of the machine hits all.
Contenders that are not installed are left out, with a line. `make bench-python`.

    python bench.py [--quick]
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

TEXT = "x" * 64
DATA = TEXT.encode()
LINE = "string Echo(string text)"
IN_FLIGHT = 64
# With the server of the command, in Rust, and with one in Python, which is what grpcio has, too.
OURS = ("witrpc", "witrpc, Python server")


# Servers: each puts its port into the queue and serves until it is killed.


def serve_witrpc(queue: Any) -> None:
    import witrpc

    handlers = witrpc.Handlers("Demo.IEcho")

    @handlers.method(LINE)
    async def echo(text: str) -> str:
        return text

    async def main() -> None:
        async with witrpc.serve("tcp://127.0.0.1:0", handlers) as server:
            queue.put(int(server.endpoint.rpartition(":")[2]))
            await server.wait_stopped()

    asyncio.run(main())


def serve_demo(queue: Any) -> None:
    """The command's server, in Rust: what a fast peer makes of it."""
    import subprocess

    # This process is ended by a signal, and is to end its own child then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    code = "from witrpc._command import main; raise SystemExit(main())"
    command = [sys.executable, "-c", code, "serve", "--demo", "tcp://127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        queue.put(int(process.stdout.readline().rpartition(":")[2]))
        try:
            process.wait()
        finally:
            process.kill()


def serve_grpc(queue: Any) -> None:
    import grpc

    def echo(request: bytes, context: Any) -> bytes:
        return request

    async def main() -> None:
        server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(echo)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Bench", {"Echo": handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        queue.put(port)
        await server.wait_for_termination()

    asyncio.run(main())


def serve_zmq(queue: Any) -> None:
    import zmq

    router = zmq.Context().socket(zmq.ROUTER)
    queue.put(router.bind_to_random_port("tcp://127.0.0.1"))
    while True:
        router.send_multipart(router.recv_multipart())


def serve_raw(queue: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    queue.put(listener.getsockname()[1])
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connection.recv(65536):
            connection.sendall(data)


# Clients: blocking ones give a function that makes one call, asynchronous ones a coroutine function.


def sync_witrpc(port: int) -> Callable[[], Any]:
    import witrpc

    client = witrpc.sync.connect(f"tcp://127.0.0.1:{port}")
    client.connect()
    echo = client.service("Demo.IEcho").method(LINE)
    return lambda: echo(TEXT)


def sync_grpc(port: int) -> Callable[[], Any]:
    import grpc

    call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary("/Bench/Echo")
    return lambda: call(DATA)


def sync_zmq(port: int) -> Callable[[], Any]:
    import zmq

    request = zmq.Context().socket(zmq.REQ)
    request.connect(f"tcp://127.0.0.1:{port}")

    def call() -> bytes:
        request.send(DATA)
        return bytes(request.recv())

    return call


def sync_raw(port: int) -> Callable[[], Any]:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call() -> bytes:
        connection.sendall(DATA)
        return connection.recv(65536)

    return call


async def async_witrpc(port: int) -> Callable[[], Awaitable[Any]]:
    import witrpc

    client = await witrpc.connect(f"tcp://127.0.0.1:{port}")
    echo = client.service("Demo.IEcho").method(LINE)
    return lambda: echo(TEXT)


async def async_grpc(port: int) -> Callable[[], Awaitable[Any]]:
    import grpc

    call = grpc.aio.insecure_channel(f"127.0.0.1:{port}").unary_unary("/Bench/Echo")

    async def one() -> Any:
        return await call(DATA)

    return one


def percentiles(times: list[float]) -> tuple[float, float]:
    times.sort()
    return times[len(times) // 2] * 1e6, times[len(times) * 99 // 100] * 1e6


def blocking_round(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    times, end = [], time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        call()
        times.append(time.perf_counter() - begin)
    return percentiles(times)


async def async_round(call: Callable[[], Awaitable[Any]], seconds: float) -> tuple[float, float]:
    times, end = [], time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        await call()
        times.append(time.perf_counter() - begin)
    return percentiles(times)


async def rate_round(call: Callable[[], Awaitable[Any]], seconds: float) -> float:
    count, begin = 0, time.perf_counter()
    end = begin + seconds

    async def worker() -> None:
        nonlocal count
        while time.perf_counter() < end:
            await call()
            count += 1

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    return count / (time.perf_counter() - begin)


def start(target: Callable[[Any], None], processes: list[Any]) -> int | None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=target, args=(queue,), daemon=True)
    process.start()
    processes.append(process)
    while True:
        try:
            return int(queue.get(timeout=0.2))
        except Exception:
            if not process.is_alive():
                return None


def has(module: str) -> bool:
    try:
        __import__(module)
    except ImportError:
        print(f"left out, not installed: {module}")
        return False
    return True


def main() -> None:
    quick = "--quick" in sys.argv
    seconds, rounds = (0.1, 3) if quick else (0.4, 9)
    print("One run on a machine that may be shared: read the ratios, not the microseconds.\n")
    processes: list[Any] = []
    ports: dict[str, int | None] = {
        "witrpc": start(serve_demo, processes),
        "raw": start(serve_raw, processes),
    }
    ports["witrpc, Python server"] = start(serve_witrpc, processes)
    if has("grpc"):
        ports["grpc"] = start(serve_grpc, processes)
    if has("zmq"):
        ports["zmq"] = start(serve_zmq, processes)
    try:
        measure(ports, seconds, rounds)
    finally:
        for process in processes:
            process.terminate()


def measure(ports: dict[str, int | None], seconds: float, rounds: int) -> None:
    makers = {"raw": sync_raw, "zmq": sync_zmq, "witrpc": sync_witrpc, "witrpc, Python server": sync_witrpc}
    makers["grpc"] = sync_grpc
    names = {"raw": "raw sockets", "zmq": "pyzmq", "grpc": "grpcio"}
    calls = {names.get(name, name): makers[name](port) for name, port in ports.items() if port is not None}
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for round in range(rounds + 1):
        for name, call in calls.items():
            figure = blocking_round(call, seconds)
            if round > 0:
                figures[name].append(figure)
    print("Blocking, one call at a time")
    medians = {name: statistics.median(p50 for p50, _ in values) for name, values in figures.items()}
    for name, values in figures.items():
        print(f"  {name:24} p50 {medians[name]:7.1f} µs   p99 {statistics.median(p for _, p in values):8.1f} µs")
    if "grpcio" in medians:
        for name in OURS:
            ratios = [b / a for (a, _), (b, _) in zip(figures[name], figures["grpcio"], strict=True)]
            verdict(f"grpcio's median beside that of {name}", statistics.median(ratios), 5.0)
    asyncio.run(measure_async(ports, seconds, rounds))


async def measure_async(ports: dict[str, int | None], seconds: float, rounds: int) -> None:
    makers = {"witrpc": async_witrpc, "witrpc, Python server": async_witrpc, "grpc": async_grpc}
    calls = {}
    for name, port in ports.items():
        if port is not None and name in makers:
            calls["grpc.aio" if name == "grpc" else name] = await makers[name](port)
    one: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    many: dict[str, list[float]] = {name: [] for name in calls}
    for round in range(rounds + 1):
        for name, call in calls.items():
            figure, rate = await async_round(call, seconds), await rate_round(call, seconds)
            if round > 0:
                one[name].append(figure)
                many[name].append(rate)
    print("\nasyncio")
    for name in calls:
        p50, p99 = (statistics.median(values) for values in zip(*one[name], strict=True))
        rate = statistics.median(many[name])
        print(f"  {name:24} p50 {p50:7.1f} µs   p99 {p99:8.1f} µs   {IN_FLIGHT} in flight: {rate:8.0f} calls/s")
    if "grpc.aio" in many:
        for name in OURS:
            ratios = [a / b for a, b in zip(many[name], many["grpc.aio"], strict=True)]
            verdict(f"calls/s of {name} beside grpc.aio's", statistics.median(ratios), 5.0)


def verdict(what: str, ratio: float, goal: float) -> None:
    print(f"  {what}: {ratio:.2f} × (goal: at least {goal} ×{'' if ratio >= goal else ', MISSED'})")


if __name__ == "__main__":
    main()
