"""WitRPC for Python: call .NET services, serve them, and survive every outage.

::

    import witrpc

    async with witrpc.connect("tcp://127.0.0.1:5100", reconnect=True) as client:
        echo = client.service("Demo.IEcho")
        print(await echo.call("int Add(int a, int b)", 2, 3))

The same without ``await`` is in :mod:`witrpc.sync`.
"""

from __future__ import annotations

import atexit as _atexit

from . import _witrpc, errors, health, options, sync, types
from ._aio import AsyncClient, AsyncService, connect
from ._client import ClientBase, Peer, Stats, client_of, with_options
from ._durable import Journal, RedisStore, Resolution, durable
from ._publish import Connection
from ._server import Call, Fault, Handlers, Server, ServerOptions, ServerStats, current_call, run, serve
from .contract import Contract, ContractFile, Event, EventStats, EventStream, Property, Subscription, line, load_contract
from .errors import (
    BadRequestError,
    CallCancelledError,
    CertificateError,
    ClosedError,
    EncryptionError,
    ForkedProcessError,
    InternalError,
    InvalidArgumentError,
    Outcome,
    OutcomeUnknownError,
    OverloadedError,
    ProtocolError,
    RemoteError,
    UnauthorizedError,
    WitRpcError,
)

# Not among the names of `import *`: they would hide Python's own.
from .errors import ConnectionError as ConnectionError
from .errors import TimeoutError as TimeoutError
from .options import (
    NEVER,
    AsyncClientOptions,
    ClientOptions,
    Dedup,
    EventQueue,
    KeepAlive,
    Limits,
    Named,
    Reconnect,
    Retry,
    RetryBudget,
    ServerLimits,
    Socket,
    State,
    Tls,
    WebSocket,
)
from .types import (
    Array,
    Byte,
    Char,
    DateTimeOffset,
    Half,
    Int16,
    Int64,
    Int128,
    Member,
    Net,
    SByte,
    Single,
    TupleClass,
    UInt16,
    UInt32,
    UInt64,
    UInt128,
    Uri,
    Version,
    declare,
)

__version__: str = _witrpc.__version__

__all__ = [
    "NEVER",
    "Array",
    "AsyncClient",
    "AsyncClientOptions",
    "AsyncService",
    "BadRequestError",
    "Byte",
    "Call",
    "CallCancelledError",
    "CertificateError",
    "Char",
    "ClientBase",
    "ClientOptions",
    "ClosedError",
    "Connection",
    "Contract",
    "ContractFile",
    "DateTimeOffset",
    "Dedup",
    "EncryptionError",
    "Event",
    "EventQueue",
    "EventStats",
    "EventStream",
    "Fault",
    "ForkedProcessError",
    "Half",
    "Handlers",
    "Int16",
    "Int64",
    "Int128",
    "InternalError",
    "InvalidArgumentError",
    "Journal",
    "KeepAlive",
    "Limits",
    "Member",
    "Named",
    "Net",
    "Outcome",
    "OutcomeUnknownError",
    "OverloadedError",
    "Peer",
    "Property",
    "ProtocolError",
    "Reconnect",
    "RedisStore",
    "RemoteError",
    "Resolution",
    "Retry",
    "RetryBudget",
    "SByte",
    "Server",
    "ServerLimits",
    "ServerOptions",
    "ServerStats",
    "Single",
    "Socket",
    "State",
    "Stats",
    "Subscription",
    "Tls",
    "TupleClass",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt128",
    "UnauthorizedError",
    "Uri",
    "Version",
    "WebSocket",
    "WitRpcError",
    "client_of",
    "connect",
    "current_call",
    "declare",
    "durable",
    "errors",
    "health",
    "line",
    "load_contract",
    "options",
    "run",
    "serve",
    "sync",
    "types",
    "with_options",
]

_atexit.register(_witrpc.shut_down)
