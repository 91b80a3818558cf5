"""Health for Python's world: ASGI (in FastAPI and Starlette), Django, Prometheus, OpenTelemetry."""

import asyncio
import contextlib
import os
import signal
from typing import Any

import pytest
import witrpc
from conftest import Running, Start, run
from witrpc import health

FAST = witrpc.Reconnect(max_attempts=0, initial_delay=60)


async def _get(app: Any, path: str = "/", method: str = "GET") -> tuple[int, bytes]:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": [],
             "query_string": b"", "root_path": "", "http_version": "1.1", "scheme": "http",
             "server": ("x", 80), "client": ("y", 1)}  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def test_the_three_verdicts_in_all_forms(start_demo: Start) -> None:
    server = start_demo()

    async def main() -> None:
        client = witrpc.connect(server.endpoint, reconnect=FAST)
        clients = {"MainClient": client}
        app, django = health.asgi_app(clients), health.django_check(lambda: clients)
        assert (await _get(app))[0] == 503
        assert django()[0][4] == "witrpc.E001" or django()[0].id == "witrpc.E001"

        await client.connect()
        report = health.check(client, "MainClient")
        assert report.status is health.Status.HEALTHY
        assert report.data.pop("secondsSinceLastSignOfLife") >= 0
        round_trip = report.data.pop("roundTripSeconds")
        assert round_trip is None or round_trip > 0
        assert report.data == {
            "clientName": "MainClient",
            "isInitialized": True,
            "isAuthorized": True,
            "connectionState": "Connected",
            "callsInFlight": 0,
            "callsWaiting": 0,
            "reconnectCount": 0,
            "retryCount": 0,
            "lastError": None,
        }
        status, body = await _get(app)
        assert status == 200
        assert b'"status": "Healthy"' in body
        assert (await _get(app, method="HEAD")) == (200, b"")
        assert django() == []

        server.kill()
        await client.wait_for(witrpc.State.RECONNECTING)
        report = health.check_all(clients)
        assert report.status is health.Status.DEGRADED
        assert report.description.startswith("MainClient is reconnecting: ")
        assert (await _get(app))[0] == 200
        assert (await _get(health.asgi_app(clients, degraded_status=503)))[0] == 503
        await client.close()
        assert health.check(client).status is health.Status.UNHEALTHY

    run(main())


def test_a_deep_check_notices_a_server_that_does_not_answer(start: Start) -> None:
    server = start()

    async def main() -> None:
        async with witrpc.connect(server.endpoint) as client:
            await client.probe()
            report = await health.check_deep_async(client)
            assert report.status is health.Status.HEALTHY
            assert report.data["probe"] == "answered"
            assert report.data["roundTripSeconds"] > 0
            clients = {"MainClient": client}
            assert (await _get(health.asgi_app(clients, deep=5)))[0] == 200

            stop = os.killpg if server.kind == ".NET" else os.kill
            stop(server.process.pid, signal.SIGSTOP)
            # It may still run for a moment.
            with contextlib.suppress(witrpc.TimeoutError):
                while True:
                    await client.probe(0.1)
            report = await health.check_deep_async(client, timeout=0.1)
            assert report.status is health.Status.UNHEALTHY
            assert report.description.startswith("connected, but the server does not answer: ")
            # The state alone does not tell.
            assert health.check(client).status is health.Status.HEALTHY
            status, body = await _get(health.asgi_app(clients, deep=0.1))
            assert status == 503
            assert b"not answered" in body
            # While calls run, that is no verdict.
            call = asyncio.ensure_future(client.service("Demo.IEcho").call("string Ping()"))
            await asyncio.sleep(0)
            report = await health.check_deep_async(client, timeout=0.1)
            assert report.status is health.Status.HEALTHY
            assert report.data["probe"].startswith("no verdict")
            call.cancel()

    run(main())


def test_a_deep_check_of_a_blocking_client(demo: Running) -> None:
    with witrpc.sync.connect(demo.endpoint) as client:
        assert health.check_deep(client, "MainClient").data["probe"] == "answered"
        assert health.django_check({"MainClient": client}, deep=5)() == []
        report = run(health.check_deep_async(client))
        assert report.data["probe"] == "answered"
    assert health.check_deep(client).status is health.Status.UNHEALTHY
    assert [found[1] if isinstance(found, tuple) else found.msg for found in health.django_check({"A": client}, deep=5)()] == [
        "A is disconnected"
    ]


def test_in_starlette_and_fastapi(start_demo: Start) -> None:
    starlette = pytest.importorskip("starlette.applications")
    fastapi = pytest.importorskip("fastapi")
    routing = pytest.importorskip("starlette.routing")
    server = start_demo()

    async def main() -> None:
        async with witrpc.connect(server.endpoint) as client:
            app = health.asgi_app({"MainClient": client})
            star = starlette.Starlette(routes=[routing.Mount("/health", app=app)])
            assert (await _get(star, "/health/"))[0] == 200
            fast = fastapi.FastAPI()
            fast.mount("/health", app)
            status, body = await _get(fast, "/health/")
            assert status == 200
            assert b"MainClient" in body

    run(main())


def test_prometheus(start_demo: Start) -> None:
    prometheus = pytest.importorskip("prometheus_client")
    registry = prometheus.CollectorRegistry()
    with (
        witrpc.sync.connect(start_demo().endpoint) as client,
        witrpc.sync.serve("tcp://127.0.0.1:0", witrpc.Handlers("Demo.INothing")) as server,
    ):
        registry.register(health.prometheus_collector({"MainClient": client}, servers={"Main": server}))
        text = prometheus.generate_latest(registry).decode()
    assert 'witrpc_server_connections{server="Main"} 0.0' in text
    assert 'witrpc_server_executed_total{server="Main"} 0.0' in text
    assert 'witrpc_client_state{client="MainClient"} 0.0' in text
    assert 'witrpc_client_reconnects_total{client="MainClient"} 0.0' in text


def test_opentelemetry() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    handlers = witrpc.Handlers("Demo.IEcho")
    told: list[str | None] = []

    @handlers.method("int Add(int a, int b)")
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        told.append(witrpc.current_call().trace_context)
        return a + b

    @handlers.method("string Fail(string message)")
    def fail(message: str) -> str:
        raise ValueError(message)

    async def main() -> None:
        async with (
            witrpc.serve("tcp://127.0.0.1:0", handlers, tracing=True) as server,
            witrpc.connect(server.endpoint, tracing=True) as client,
        ):
            echo = client.service("Demo.IEcho")
            assert await echo.call("int Add(int a, int b)", 2, 3) == 5
            with pytest.raises(witrpc.RemoteError):
                await echo.call("string Fail(string message)", "x")

    run(main())
    spans = {(span.name, span.kind.name): span for span in exporter.get_finished_spans()}
    call = spans["Demo.IEcho/Add", "CLIENT"]
    assert call.attributes["rpc.method"] == "Add"
    assert call.status.is_ok
    failed = spans["Demo.IEcho/Fail", "CLIENT"]
    assert failed.attributes["witrpc.outcome"] == "answered"
    assert not failed.status.is_ok
    # The server's spans are below those of the client, across the wire.
    served = spans["Demo.IEcho/Add", "SERVER"]
    assert served.context.trace_id == call.context.trace_id
    assert served.parent.span_id == call.context.span_id
    assert served.parent.is_remote
    assert [context.rpartition("-")[0] for context in told if context] == [
        f"00-{call.context.trace_id:032x}-{call.context.span_id:016x}"
    ]
