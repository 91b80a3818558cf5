"""Options, as dataclasses with the defaults of WitRPC. Times are in seconds, or a :class:`datetime.timedelta`."""

from __future__ import annotations

import dataclasses
import enum
import math
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict

from .errors import InvalidArgumentError, WitRpcError

__all__ = [
    "NEVER",
    "AsyncClientOptions",
    "Backoff",
    "ClientOptions",
    "Codec",
    "Dedup",
    "EventQueue",
    "Jitter",
    "KeepAlive",
    "Limits",
    "MethodLookup",
    "Named",
    "Reconnect",
    "Retry",
    "RetryBudget",
    "Seconds",
    "ServerLimits",
    "Socket",
    "State",
    "Tls",
    "WebSocket",
]

Seconds: TypeAlias = float | timedelta
"""A time: seconds, or a ``timedelta``."""

Jitter: TypeAlias = Literal["none", "equal", "full", "decorrelated"]
"""How delays are spread: not at all; half of it to all of it; nothing to all of it; initial to three times the last."""

Backoff: TypeAlias = Literal["fixed", "linear", "exponential"]
"""How delays grow."""

MethodLookup: TypeAlias = Literal["id", "id_or_name", "name"]
"""How a call says which method it means."""

Codec: TypeAlias = Literal["json", "memorypack", "messagepack", "protobuf", "google-protobuf"]
"""How arguments and results are encoded. Both ends must be set alike."""

NEVER = math.inf
"""As a timeout: none. A call without one may hang for ever."""


class State(enum.IntEnum):
    """The state of a client. The numbers are WitRPC's."""

    CONNECTED = 0
    """Connected and authorised."""
    DISCONNECTED = 1
    """Idle."""
    RECONNECTING = 2
    """Attempts to reconnect are in progress."""
    FAILED = 3
    """Attempts are used up, or the server refused for good."""


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A client as a ``witrpc.toml`` describes it, in the place of an endpoint. What else is given goes before that."""

    name: str
    """As ``"MainClient"`` for ``[clients.MainClient]``."""
    path: str | os.PathLike[str] | None = None
    """The file. Default: the one that the environment variable ``WITRPC_CONFIG`` names, else ``witrpc.toml`` in the
    working directory."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reconnect:
    """Automatic reconnection: 1, 2, 4, 8, … 120 s between attempts."""

    max_attempts: int = 10
    """Attempts until the client gives up and is FAILED; 0 = unlimited."""
    initial_delay: Seconds = 1.0
    """Delay before the first attempt."""
    max_delay: Seconds = 120.0
    """Cap of the delays."""
    backoff_multiplier: float = 2.0
    """Growth of the delays."""
    jitter: Jitter = "none"
    """How the delays are spread."""
    random_first_delay: bool = False
    """Draw the very first delay between nothing and ``initial_delay``."""
    reconnect_on_disconnect: bool = True
    """Reconnect also when the server closed the connection in order. Drops are always covered."""
    retry_first_connect: bool = False
    """Cover the very first connect too."""
    stable_after: Seconds = 10.0
    """A link that stood this long starts the delays over."""

    @classmethod
    def fleet(cls) -> Reconnect:
        """For clients that run for long and are many: unlimited attempts, spread, the first connect covered."""
        return cls(max_attempts=0, jitter="decorrelated", random_first_delay=True, retry_first_connect=True)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RetryBudget:
    """A limit of retries over time, so that they can't multiply an overload."""

    reserve_per_second: int = 10
    """Retries that are allowed every second, however few calls there are."""
    percent: int = 20
    """Retries allowed on top for every hundred calls of the last 10 s."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """When a failed call is tried again. Inert until methods are declared.

    A method is named by its name (all overloads) or by its line: ``"Add"``, ``"int Add(int, int)"``.
    """

    max_retries: int = 3
    """Attempts after the first one."""
    initial_delay: Seconds = 0.5
    """Delay before the first retry."""
    max_delay: Seconds = 30.0
    """Cap of the delays."""
    backoff: Backoff = "exponential"
    """How delays grow."""
    backoff_multiplier: float = 2.0
    """Growth of exponential delays."""
    jitter: Jitter = "none"
    """How delays are spread."""
    statuses: Iterable[int] = (408, 503)
    """Statuses that are retried: no answer in time, connection failed or overloaded. 500 for methods that threw."""
    budget: RetryBudget | None = RetryBudget()
    """Limit of retries over time; ``None`` = none."""
    idempotent: Iterable[str] = ()
    """Methods that may run twice: repeated anywhere."""
    deduplicated: Iterable[str] = ()
    """Methods that must not run twice: repeated only where the server recognises the repetition."""
    all_methods: bool = False
    """All methods may run twice, but those marked deduplicated."""
    retry_if: Callable[[Exception], bool] | None = None
    """Asked about failures that no status covers. Called on a thread of the client; must not wait for it."""

    def __post_init__(self) -> None:
        """Lists are taken as they are now; a lone name is a mistake that would be five names of one letter."""
        for name in ("idempotent", "deduplicated"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise InvalidArgumentError(f'retry.{name} is a list of methods: write ["{value}"]')
            object.__setattr__(self, name, list(value))
        object.__setattr__(self, "statuses", list(self.statuses))


def _pem(value: str | bytes | os.PathLike[str] | None) -> bytes | None:
    """PEM as it is, or from a file."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str) and "-----BEGIN" in value:
        return value.encode()
    with open(value, "rb") as file:
        return file.read()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tls:
    """Certificates, for ``tls://`` and ``wss://``: as PEM or as the path of a file with it."""

    authorities: str | bytes | os.PathLike[str] | None = None
    """A client: authorities to trust instead of the system's. A server: those that clients must come from."""
    certificate: str | bytes | os.PathLike[str] | None = None
    """One's own certificate, and those that lead to a root. A server needs one."""
    key: str | bytes | os.PathLike[str] | None = None
    """The key of the certificate."""
    server_name: str | None = None
    """A client: the name that the server's certificate must be for. Default: the host of the endpoint."""
    pinned: Iterable[bytes | str] = ()
    """A client: certificates to accept by the SHA-256 of their DER form (bytes or hexadecimal), and no others."""

    def __post_init__(self) -> None:
        """Files are read now, so that a missing one is told where the options are written."""
        for name in ("authorities", "certificate", "key"):
            object.__setattr__(self, name, _pem(getattr(self, name)))
        pins = [bytes.fromhex(pin.replace(":", "")) if isinstance(pin, str) else pin for pin in self.pinned]
        if any(len(pin) != 32 for pin in pins):
            raise InvalidArgumentError("tls.pinned: a SHA-256 has 32 bytes")
        object.__setattr__(self, "pinned", pins)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Socket:
    """How a dead link is noticed."""

    keepalive_idle: Seconds | None = 10.0
    """Silence after which the kernel probes the peer; ``None`` = no probes."""
    keepalive_interval: Seconds = 5.0
    """Time between probes."""
    keepalive_probes: int = 3
    """Unanswered probes until the link is dead."""
    user_timeout: Seconds | None = 20.0
    """How long sent bytes may stay unacknowledged until the link is dead (Linux)."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class WebSocket:
    """Options of ``ws://`` and ``wss://``."""

    ping_interval: Seconds = 15.0
    """Silence after which the peer is sent a ping."""
    ping_timeout: Seconds = 20.0
    """Silence after a ping until the link is dead."""
    fragment: int | None = None
    """Largest piece that a message is sent in, in bytes; ``None`` = in one piece."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KeepAlive:
    """How the death of a libwitrpc peer is noticed that the network does not tell of, as a frozen process."""

    interval: Seconds = 15.0
    """Silence after which the peer is pinged."""
    timeout: Seconds = 20.0
    """Silence after a ping until the connection is dead."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EventQueue:
    """Bounds of a queue of events. The defaults are those of a client's subscriptions."""

    max_events: int = 65_536
    """Events that may wait."""
    max_bytes: int = 64 * 1024 * 1024
    """Bytes of arguments that may wait."""
    overflow: Literal["drop_oldest", "drop_newest", "disconnect"] = "drop_oldest"
    """What happens to events that do not fit. A server's default is ``"disconnect"``, with 16 MiB."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bounds of a client."""

    max_queued_calls: int = 4096
    """Calls that wait for the link or for room; beyond it a call fails at once as overloaded."""
    max_queued_bytes: int = 64 * 1024 * 1024
    """Bytes of their arguments."""
    max_in_flight: int = 16_384
    """Requests without an answer at the same time; more wait."""
    max_frame: int = 256 * 1024 * 1024
    """Largest message accepted, in bytes."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ServerLimits:
    """Bounds of a server."""

    max_clients: int = 10_000
    """Connections at the same time; one more is closed at once."""
    max_frame: int = 256 * 1024 * 1024
    """Largest message accepted, in bytes."""
    max_handshake_frame: int = 64 * 1024
    """Largest message accepted from a connection that is not authorised yet, in bytes."""
    max_in_flight_per_connection: int = 256
    """Calls of one connection at the same time; 1 = one after another, as WitRPC does it."""
    max_in_flight: int = 65_536
    """Calls of all connections at the same time; beyond it calls are refused with status 503."""
    retry_after: Seconds = 1.0
    """What a refused libwitrpc client is told to wait."""
    handshake_timeout: Seconds | None = 30.0
    """Time until a connection must be authorised, and of one check of a token; ``None`` = no limit."""
    max_unsent_bytes: int = 64 * 1024 * 1024
    """Bytes that may wait for a client that does not read; beyond it the connection is closed."""
    max_clients_per_address: int = 0
    """Connections at the same time from one address; 0 = no limit of its own."""
    max_strangers_per_address: int = 1_000
    """The same for connections that are not authorised yet."""
    max_waiting_bytes: int = 1024 * 1024
    """Bytes of calls of one connection that may wait for others to end; beyond it nothing more is read."""
    max_handshake_bytes: int = 128 * 1024
    """Bytes of all messages accepted from a connection until it is authorised."""
    min_rate: int = 240
    """Bytes a second at least of a message under way; who is slower is closed. 0 = no such limit."""
    rate_window: Seconds = 30.0
    """Time over which ``min_rate`` is measured."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Dedup:
    """Bounds of a server's memory of calls, by which a repeated call is recognised."""

    max_records: int = 65_536
    """Calls remembered, running ones included."""
    max_bytes: int = 64 * 1024 * 1024
    """Bytes of stored answers."""
    hold: Seconds = 600.0
    """How long an answer is held after its call ended."""
    max_answer: int = 1024 * 1024
    """A bigger answer is not stored: a repetition is told that the outcome is unknown."""
    max_tombstones: int = 1 << 20
    """Calls forgotten before their time of which the id is kept."""
    max_clients: int = 65_536
    """Clients whose call numbers are followed."""


class _CommonOptions(TypedDict, total=False):
    codec: Codec
    """How arguments and results are encoded. The server must be set alike. Default ``"json"``."""
    encryption: bool
    """WitRPC's own encryption. The server must be set alike. Default off."""
    token_file: str | os.PathLike[str]
    """A file with the token; it is read anew as a function would be asked."""
    connect_timeout: Seconds
    """Limit of one attempt to connect. Default 10 s."""
    attempt_timeout: Seconds
    """Limit of one attempt of a call; :data:`NEVER` for none. Default 30 s."""
    reconnect: Reconnect | bool | None
    """Automatic reconnection; ``True`` for its defaults. Default off."""
    retry: Retry | None
    """The retry policy. Default off."""
    tls: Tls | None
    """Which servers are trusted, for ``tls://`` and ``wss://``. Default: those that the system trusts."""
    socket: Socket | None
    """How a dead link is noticed."""
    websocket: WebSocket | None
    """Options of WebSockets."""
    limits: Limits | None
    """Bounds."""
    keep_alive: KeepAlive | bool
    """Pings between libwitrpc peers; ``False`` for none. Default :class:`KeepAlive`."""
    event_queue: EventQueue | None
    """Bounds of the queue of each subscription. Default :class:`EventQueue`."""
    method_lookup: MethodLookup
    """How a call says which method it means: ``"name"`` and ``"id_or_name"`` are for .NET servers that serve the contract
    under another name, such as a derived interface. Default ``"id"``."""
    type_names: Literal["weak", "strong"]
    """How types are named in calls that travel by name. Default ``"weak"``."""
    on_reconnecting: Callable[[int, float], Any] | None
    """Called before the delay of each attempt to reconnect, with its number and the delay in seconds."""
    on_reconnected: Callable[[], Any] | None
    """Called when the link is back: the place to fetch what was missed."""
    on_reconnection_failed: Callable[[WitRpcError], Any] | None
    """Called with the last error when the client gives up."""
    on_state_changed: Callable[[State], Any] | None
    """Called with every new state."""
    on_retry: Callable[[str, WitRpcError, int, float], Any] | None
    """Called before the delay of each retry: method, error, number of the attempt that failed, delay in seconds."""
    tracing: bool
    """Spans of OpenTelemetry for calls. Default off."""


class ClientOptions(_CommonOptions, total=False):
    """The options of :func:`witrpc.sync.connect`."""

    token: str | Callable[[], str] | None
    """The access token, or a function that gives it: asked before every attempt to connect, and once more when a
    token was refused."""
    handler_patience: Seconds
    """How long a callback or handler of an event may take until those of other events no longer wait for it;
    :data:`NEVER` to always wait. Default 1 s."""


class AsyncClientOptions(_CommonOptions, total=False):
    """The options of :func:`witrpc.connect`."""

    token: str | Callable[[], str] | Callable[[], Awaitable[str]] | None
    """As for :class:`ClientOptions`; the function may be a coroutine function."""


# What an option may be besides an object of its class: a plain switch.
_KINDS: dict[str, tuple[type, bool]] = {
    "reconnect": (Reconnect, True),
    "retry": (Retry, False),
    "tls": (Tls, False),
    "socket": (Socket, False),
    "websocket": (WebSocket, False),
    "keep_alive": (KeepAlive, True),
    "event_queue": (EventQueue, False),
    "dedup": (Dedup, False),
}


def _checked(given: Mapping[str, Any], limits: type) -> None:
    """Refuses options of another class than theirs, with what to write instead."""
    for name, value in given.items():
        kind, switch = (limits, False) if name == "limits" else _KINDS.get(name, (None, False))
        if kind is None or value is None or isinstance(value, kind) or (switch and isinstance(value, bool)):
            continue
        also = ", True or False" if switch else ""
        raise InvalidArgumentError(f"{name} is {value!r}: write {name}=witrpc.{kind.__name__}(...){also}")
