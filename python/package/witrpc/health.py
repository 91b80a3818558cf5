"""Health of clients, in the forms of Python's world: ASGI, Django, Prometheus.

Healthy is a client that is connected and authorised, degraded one that reconnects, unhealthy one that failed or is
disconnected. A check looks at the state and does no I/O; a deep one makes a round trip, too.

::

    app = FastAPI()
    app.mount("/health", witrpc.health.asgi_app({"MainClient": client}))
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeAlias

from . import sync
from ._client import ClientBase
from ._server import Server, ServerStats
from .errors import InvalidArgumentError, TimeoutError, WitRpcError
from .options import Seconds, State

__all__ = [
    "Report",
    "Status",
    "asgi_app",
    "check",
    "check_all",
    "check_deep",
    "check_deep_async",
    "django_check",
    "prometheus_collector",
]

Clients: TypeAlias = Mapping[str, ClientBase]
"""Clients by name."""


class Status(enum.IntEnum):
    """The verdict; the numbers are those of .NET's ``HealthStatus``."""

    UNHEALTHY = 0
    DEGRADED = 1
    HEALTHY = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The health of one client, or the worst of several."""

    status: Status
    description: str
    data: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """In the form of .NET's health report."""
        return {"status": self.status.name.capitalize(), "description": self.description, "data": self.data}


_VERDICTS = {
    State.CONNECTED: (Status.HEALTHY, "connected"),
    State.RECONNECTING: (Status.DEGRADED, "reconnecting"),
    State.DISCONNECTED: (Status.UNHEALTHY, "disconnected"),
    State.FAILED: (Status.UNHEALTHY, "failed"),
}


def check(client: ClientBase, name: str | None = None) -> Report:
    """The health of a client, of either kind. Does no I/O; from any thread.

    ``name`` is what it is called in the report; default: what :class:`~witrpc.Named` called it, else ``"witrpc"``.
    """
    state, stats, error = client.state, client.stats, client.last_error
    status, description = _VERDICTS[state]
    if status is not Status.HEALTHY and error is not None:
        description = f"{description}: {error}"
    data = {
        "clientName": name or client._name or "witrpc",
        "isInitialized": state is State.CONNECTED,
        "isAuthorized": state is State.CONNECTED,
        "connectionState": state.name.capitalize(),
        "callsInFlight": stats.in_flight,
        "callsWaiting": stats.queued,
        "reconnectCount": stats.reconnects,
        "retryCount": stats.retries,
        "roundTripSeconds": stats.round_trip,
        "secondsSinceLastSignOfLife": stats.silence,
        "lastError": None if error is None else str(error),
    }
    return Report(status, description, data)


def check_deep(client: sync.Client[Any], name: str | None = None, *, timeout: Seconds = 5.0) -> Report:
    """The health of a blocking client, with a round trip to its server where it is connected.

    A timeout while calls run is no verdict: a .NET server answers one call after the other.
    """
    report, begin = check(client, name), time.perf_counter()
    if report.status is not Status.HEALTHY:
        return report
    try:
        client.probe(timeout)
    except WitRpcError as error:
        return _unanswered(client, report, error)
    return _answered(report, begin)


async def check_deep_async(client: ClientBase, name: str | None = None, *, timeout: Seconds = 5.0) -> Report:
    """The same as :func:`check_deep` on an event loop, for clients of either kind."""
    report, begin = check(client, name), time.perf_counter()
    if report.status is not Status.HEALTHY:
        return report
    if isinstance(client, sync.Client):
        return await asyncio.to_thread(check_deep, client, name, timeout=timeout)
    probing: Any = client
    try:
        await probing.probe(timeout)
    except WitRpcError as error:
        return _unanswered(client, report, error)
    return _answered(report, begin)


def _answered(report: Report, begin: float) -> Report:
    data = {**report.data, "roundTripSeconds": time.perf_counter() - begin, "probe": "answered"}
    return Report(report.status, "connected, and the server answers", data)


def _unanswered(client: ClientBase, report: Report, error: WitRpcError) -> Report:
    if isinstance(error, TimeoutError) and client.stats.in_flight > 0:
        data = {**report.data, "probe": "no verdict: the server is busy with calls of this client"}
        return Report(report.status, "connected, and has calls under way", data)
    data = {**report.data, "probe": "not answered", "lastError": str(error)}
    return Report(Status.UNHEALTHY, f"connected, but the server does not answer: {error}", data)


def check_all(clients: Clients) -> Report:
    """The health of several: the worst of them, with each one's report as data."""
    return _together({name: check(client, name) for name, client in clients.items()})


def _together(reports: Mapping[str, Report]) -> Report:
    worst = min(reports.values(), key=lambda report: report.status, default=None)
    if worst is None:
        return Report(Status.HEALTHY, "no clients", {})
    parts = [f"{name} is {report.description}" for name, report in reports.items() if report.status < Status.HEALTHY]
    description = "; ".join(parts) or "all clients are connected"
    return Report(worst.status, description, {name: report.to_dict() for name, report in reports.items()})


Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def asgi_app(
    clients: Clients | Callable[[], Clients], *, degraded_status: int = 200, deep: Seconds | None = None
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """An ASGI application that answers with the health of these clients as JSON, in the form of .NET's report.

    Status 200 if they are healthy, 503 if one is unhealthy, ``degraded_status`` (as in .NET: 200) in between. Mount it
    in FastAPI or Starlette. ``clients`` may be a function, for clients that are made later. ``deep`` makes a round
    trip to each server, within that time.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["type"] != "http":
            raise InvalidArgumentError(f"health answers http, and this is {scope['type']}")
        known = clients() if callable(clients) else clients
        if deep is None:
            report = check_all(known)
        else:
            checks = (check_deep_async(client, name, timeout=deep) for name, client in known.items())
            report = _together(dict(zip(known, await asyncio.gather(*checks), strict=True)))
        status = {Status.HEALTHY: 200, Status.DEGRADED: degraded_status, Status.UNHEALTHY: 503}[report.status]
        body = b"" if scope["method"] == "HEAD" else json.dumps(report.to_dict()).encode()
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def django_check(clients: Clients | Callable[[], Clients], *, deep: Seconds | None = None) -> Callable[..., list[Any]]:
    """A function for ``django.core.checks.register``: errors for unhealthy clients, warnings for degraded ones.

    ``deep`` makes a round trip to the server of each blocking client, within that time.

    Without Django the messages are tuples of the same fields: level, message, hint, object, id.
    """

    def run(app_configs: Any = None, **_: Any) -> list[Any]:
        try:
            from django.core.checks import CheckMessage  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:

            def message(*fields: Any) -> Any:
                return fields
        else:
            message = CheckMessage
        found = []
        for name, client in (clients() if callable(clients) else clients).items():
            if deep is not None and isinstance(client, sync.Client):
                report = check_deep(client, name, timeout=deep)
            else:
                report = check(client, name)
            if report.status is not Status.HEALTHY:
                level, number = (30, "W001") if report.status is Status.DEGRADED else (40, "E001")
                hint = report.data["lastError"]
                found.append(message(level, f"{name} is {report.description}", hint, name, f"witrpc.{number}"))
        return found

    return run


def prometheus_collector(
    clients: Clients | Callable[[], Clients], *, servers: Mapping[str, Server | sync.Server] | None = None
) -> Any:
    """A collector for ``prometheus_client.REGISTRY.register``: state, calls, retries and reconnections by client, and
    what ``servers`` count, by server.
    """
    try:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ImportError:
        error = InvalidArgumentError("prometheus_collector needs prometheus_client, and it is not installed")
        error.add_note("pip install 'witrpc[prometheus]'")
        raise error from None

    class Collector:
        def describe(self) -> Iterable[Any]:
            return []

        def collect(self) -> Iterator[Any]:
            known = dict(clients() if callable(clients) else clients)
            gauges = {
                "state": ("0 connected, 1 disconnected, 2 reconnecting, 3 failed", lambda client: int(client.state)),
                "calls_in_flight": ("Calls without an answer now", lambda client: client.stats.in_flight),
                "calls_waiting": ("Calls that wait for a link or for room now", lambda client: client.stats.queued),
                "round_trip_seconds": ("How long the last ping took", lambda client: client.stats.round_trip),
            }
            counters = {
                "reconnects": ("Reconnections that succeeded", lambda client: client.stats.reconnects),
                "retries": ("Attempts after the first one, over all calls", lambda client: client.stats.retries),
            }
            families: Any = ((GaugeMetricFamily, gauges), (CounterMetricFamily, counters))
            for family, measures in families:
                for name, (text, measure) in measures.items():
                    metric = family(f"witrpc_client_{name}", text, labels=["client"])
                    for client_name, client in known.items():
                        value = measure(client)
                        if value is not None:
                            metric.add_metric([client_name], value)
                    yield metric
            counts = {name: server.stats for name, server in (servers or {}).items()}
            for field in ServerStats._fields if counts else ():
                family = GaugeMetricFamily if field in ("connections", "running", "remembered") else CounterMetricFamily
                metric = family(f"witrpc_server_{field}", f"See ServerStats.{field}", labels=["server"])
                for server_name, stats in counts.items():
                    metric.add_metric([server_name], getattr(stats, field))
                yield metric

    return Collector()
