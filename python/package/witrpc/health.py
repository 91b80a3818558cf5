"""Health of clients, in the forms of Python's world: ASGI, Django, Prometheus.

Healthy is a client that is connected and authorised, degraded one that reconnects, unhealthy one that failed or is
disconnected. A check looks at the state and does no I/O.

::

    app = FastAPI()
    app.mount("/health", witrpc.health.asgi_app({"MainClient": client}))
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeAlias

from ._client import ClientBase
from .errors import InvalidArgumentError
from .options import State

__all__ = ["Report", "Status", "asgi_app", "check", "check_all", "django_check", "prometheus_collector"]

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


def check(client: ClientBase, name: str = "witrpc") -> Report:
    """The health of a client, of either kind. Does no I/O; from any thread."""
    state, stats, error = client.state, client.stats, client.last_error
    status, description = _VERDICTS[state]
    if status is not Status.HEALTHY and error is not None:
        description = f"{description}: {error}"
    data = {
        "clientName": name,
        "isInitialized": state is State.CONNECTED,
        "isAuthorized": state is State.CONNECTED,
        "connectionState": state.name.capitalize(),
        "callsInFlight": stats.in_flight,
        "callsWaiting": stats.queued,
        "reconnectCount": stats.reconnects,
        "retryCount": stats.retries,
        "lastError": None if error is None else str(error),
    }
    return Report(status, description, data)


def check_all(clients: Clients) -> Report:
    """The health of several: the worst of them, with each one's report as data."""
    reports = {name: check(client, name) for name, client in clients.items()}
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
    clients: Clients | Callable[[], Clients], *, degraded_status: int = 200
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """An ASGI application that answers with the health of these clients as JSON, in the form of .NET's report.

    Status 200 if they are healthy, 503 if one is unhealthy, ``degraded_status`` (as in .NET: 200) in between. Mount it
    in FastAPI or Starlette. ``clients`` may be a function, for clients that are made later.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["type"] != "http":
            raise InvalidArgumentError(f"health answers http, and this is {scope['type']}")
        report = check_all(clients() if callable(clients) else clients)
        status = {Status.HEALTHY: 200, Status.DEGRADED: degraded_status, Status.UNHEALTHY: 503}[report.status]
        body = b"" if scope["method"] == "HEAD" else json.dumps(report.to_dict()).encode()
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def django_check(clients: Clients | Callable[[], Clients]) -> Callable[..., list[Any]]:
    """A function for ``django.core.checks.register``: errors for unhealthy clients, warnings for degraded ones.

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
            report = check(client, name)
            if report.status is not Status.HEALTHY:
                level, number = (30, "W001") if report.status is Status.DEGRADED else (40, "E001")
                hint = None if client.last_error is None else str(client.last_error)
                found.append(message(level, f"{name} is {report.description}", hint, name, f"witrpc.{number}"))
        return found

    return run


def prometheus_collector(clients: Clients | Callable[[], Clients]) -> Any:
    """A collector for ``prometheus_client.REGISTRY.register``: state, calls, retries and reconnections by client."""
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
                "witrpc_client_state": "0 connected, 1 disconnected, 2 reconnecting, 3 failed",
                "witrpc_client_calls_in_flight": "Calls without an answer now",
                "witrpc_client_calls_waiting": "Calls that wait for a link or for room now",
            }
            counters = {
                "witrpc_client_reconnects": "Reconnections that succeeded",
                "witrpc_client_retries": "Attempts after the first one, over all calls",
            }
            families: list[Any] = [GaugeMetricFamily(name, text, labels=["client"]) for name, text in gauges.items()]
            families += [CounterMetricFamily(name, text, labels=["client"]) for name, text in counters.items()]
            for name, client in known.items():
                stats = client.stats
                values = (int(client.state), stats.in_flight, stats.queued, stats.reconnects, stats.retries)
                for family, value in zip(families, values, strict=True):
                    family.add_metric([name], value)
            yield from families

    return Collector()
