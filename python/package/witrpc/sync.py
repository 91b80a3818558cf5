"""Blocking clients and servers: the same names as in :mod:`witrpc`, without ``await``.

Every wait releases the GIL; ``Ctrl+C`` ends it. A client may be used by many threads at the same time.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from . import _server, _witrpc
from . import contract as _contract
from ._client import (
    BoundMethod,
    ClientBase,
    ServiceBase,
    call_options,
    callbacks,
    client_of,
    client_options,
    closed_error,
    converted,
    event_converter,
    logger,
    proxy,
    with_options,
    wrong_with,
)
from ._publish import Connection
from ._server import ServerOptions, ServerStats
from ._tracing import tracer
from .contract import Contract, Event, EventStream, Subscription
from .errors import ClosedError, InvalidArgumentError, TimeoutError
from .options import ClientOptions, EventQueue, Named, Seconds, State

__all__ = [
    "Client",
    "Contract",
    "Event",
    "EventStream",
    "Property",
    "Server",
    "Service",
    "Subscription",
    "client_of",
    "connect",
    "serve",
    "with_options",
]

T = TypeVar("T")
S = TypeVar("S")


class Property(Generic[T]):
    """A property of a contract for blocking clients: ``Name: witrpc.sync.Property[str] = witrpc.sync.Property()``."""

    def get(self) -> T:
        """Asks for the value."""
        raise TypeError("properties are asked for at clients")

    def set(self, value: T) -> None:
        """Sets the value."""
        raise TypeError("properties are set at clients")


class Method(BoundMethod):
    """A method that is called and waited for."""

    __slots__ = ()

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Calls it."""
        preset = self._preset
        if options or len(args) != self._count:
            args, preset = self._prepared(args, options)
        if self._tracer is not None:
            with self._tracer.span(*self._span) as context:
                return self._call(args, preset, trace_context=context)
        result = self._native.call(args, preset.timeout, preset.repeat, preset.invocation_id)
        convert = self._convert
        return result if convert is None or result is None else convert(result)

    def _call(self, args: tuple[Any, ...], preset: Any, encoded: bool = False, trace_context: bytes | None = None) -> Any:
        special = (preset.timeout, preset.repeat, preset.invocation_id, encoded, trace_context)
        result = self._native.call(args, *special)
        return result if self._convert is None or result is None else self._convert(result)


class _Stream(EventStream[Any]):
    def __init__(self, source: _witrpc.EventSource, convert: Callable[[tuple[Any, ...]], Any]) -> None:
        self._source = source
        self._convert = convert

    def close(self) -> None:
        self._source.close()

    @property
    def stats(self) -> _contract.EventStats:
        return _contract.EventStats(*self._source.stats())

    def _next(self, timeout: Seconds | None) -> tuple[Any, ...] | None:
        """The arguments of the next event; ``None`` if there will be none."""
        while True:
            args = self._source.take()
            if isinstance(args, bool):
                return None
            if args is not None:
                return args
            if not self._source.wait(timeout):
                raise TimeoutError(f"no event within {timeout} s")

    def get(self, timeout: Seconds | None = None) -> Any:
        args = self._next(timeout)
        if args is None:
            raise ClosedError("the stream of events is closed")
        return self._convert(args)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        args = self._next(None)
        if args is None:
            raise StopIteration
        return self._convert(args)


class _Event(Event[Any]):
    def __init__(self, service: ServiceBase, line: str, info: _contract.EventInfo | None) -> None:
        self._service = service
        self._line = line
        self._info = info

    def stream(self, *, queue: EventQueue | None = None) -> Any:
        return _Stream(self._service._native.events(self._line, queue), event_converter(self._info))

    def __iter__(self) -> Any:
        return self.stream()

    def subscribe(self, handler: Callable[..., object], *, queue: EventQueue | None = None) -> Subscription:
        _refuse_coroutine(handler, "the handler of an event")
        info, line = self._info, self._line

        def run(*args: Any) -> None:
            try:
                handler(*converted(info, args))
            except Exception:
                logger.exception("a handler of the event %s failed", line)

        return _Subscription(self._service._native.subscribe(self._line, run, queue))

    def __repr__(self) -> str:
        return f"<{self._line}>"


class _Subscription:
    def __init__(self, native: _witrpc.Subscription) -> None:
        self._native = native

    def close(self) -> None:
        self._native.close()

    @property
    def stats(self) -> _contract.EventStats:
        return _contract.EventStats(*self._native.stats())

    @property
    def dropped(self) -> int:
        return self.stats.dropped

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_coroutine(function: Any, what: str) -> None:
    if inspect.iscoroutinefunction(function):
        raise InvalidArgumentError(f"{what} of a blocking client can't be a coroutine function: use witrpc.connect")


class Service(ServiceBase):
    """A service whose methods and events are named by their C# lines, or as attributes if its contract lists them."""

    _method_class = Method
    _event_class = _Event

    def call(
        self,
        line: str,
        *args: Any,
        timeout: Seconds | None = None,
        idempotent: bool | None = None,
        deduplicated: bool | None = None,
        invocation_id: uuid.UUID | str | None = None,
    ) -> Any:
        """Calls a method: ``service.call("int Add(int, int)", 2, 3)``. Options as for :func:`witrpc.with_options`."""
        method: Method = self._method(line)
        options = call_options(self._preset, timeout, idempotent, deduplicated, invocation_id)
        if method._tracer is not None:
            with method._tracer.span(*method._span) as context:
                return method._call(args, options, trace_context=context)
        return method._call(args, options)

    def call_encoded(
        self,
        line: str,
        *args: Any,
        timeout: Seconds | None = None,
        idempotent: bool | None = None,
        deduplicated: bool | None = None,
        invocation_id: uuid.UUID | str | None = None,
    ) -> memoryview:
        """Calls a method with arguments that the codec has encoded already (``None`` is null), for its encoded result.

        Takes ``bytes`` and gives a view, both without a copy of theirs.
        """
        options = call_options(self._preset, timeout, idempotent, deduplicated, invocation_id)
        method: Method = self._method(line)
        return memoryview(method._call(args, options, encoded=True))

    def method(self, line: str) -> Callable[..., Any]:
        """A method that is ready to be called, which spares reading its line each time."""
        method: Callable[..., Any] = self._method(line)
        return method

    def event(self, line: str) -> Event[Any]:
        """An event by its C# line: ``service.event("event Action<int> Progress")``."""
        return _Event(self, line, None)


class Client(ClientBase, Generic[T]):
    """A client of one server, or of several that stand in for each other, for threads that wait.

    Made by :func:`connect`. Use it with ``with``, or :meth:`connect` and :meth:`close` it yourself. Callbacks run on
    a thread of the client's own, one after another; they may call the client.
    """

    def __init__(self, options: dict[str, Any], callbacks: dict[str, Any], tracing: bool, contract: Any) -> None:
        """Use :func:`connect`."""
        self._tracer = tracer(tracing, "CLIENT")
        self._contract = contract
        self._endpoints = options["endpoints"]
        self._name = options["named"][0] if "named" in options else None
        self._closed = False
        self._lock = threading.Lock()
        for name, callback in callbacks.items():
            _refuse_coroutine(callback, name)
            options[name] = _guarded(callback, name)
        self._native: _witrpc.Client | None = _witrpc.Client(options)

    def _started(self) -> _witrpc.Client:
        if self._closed or self._native is None:
            raise closed_error()
        return self._native

    def connect(self) -> None:
        """Connects: returns when the server has authorised the client. Connected already, it does nothing."""
        self._started().connect(False)

    def reconnect(self) -> None:
        """Drops the link, if there is one, and connects anew without a delay."""
        self._started().connect(True)

    def wait_for(self, state: State, timeout: Seconds | None = None) -> None:
        """Waits until the client is in this state. ``TimeoutError`` if that takes longer than ``timeout`` seconds."""
        if not self._started().wait_for(int(state), timeout):
            raise TimeoutError(f"the client was not {state.name} within {timeout} s, it is {self.state.name}")

    def probe(self, timeout: Seconds = 5.0) -> None:
        """Makes a round trip to the server that executes nothing, for health checks. An error says why there was none in time.

        A .NET server answers one call after the other: while calls of this client run there, a timeout says little.
        """
        self._started().probe(timeout)

    def close(self) -> None:
        """Disconnects for good, and waits at most a second for callbacks; in a callback, not at all."""
        with self._lock:
            if self._closed or self._native is None:
                return
            self._closed = True
        self._native.close()
        self._native.wait_idle(1.0)

    @overload
    def service(self, contract: str | _contract.ContractFile) -> Service: ...
    @overload
    def service(self, contract: Callable[..., S]) -> S: ...
    def service(self, contract: Any) -> Any:
        """A service by its contract: a class, a contract file, or a name, as ``"Demo.IEcho"``."""
        native_contract = _contract.native_contract(contract)
        service = Service(self, self._started().service(native_contract), native_contract)
        if isinstance(contract, type) and (cls := _contract.contract_class(contract)) is not None:
            return proxy(service, _contract.read(cls))
        return service

    @overload
    def __enter__(self: Client[None]) -> Client[None]: ...
    @overload
    def __enter__(self: Client[S]) -> S: ...
    def __enter__(self) -> Any:
        """Connects and gives the service of the contract; without one, the client."""
        try:
            # First: a contract that is wrong is told before anything is connected.
            made = self if self._contract is None else self.service(self._contract)
            self.connect()
        except BaseException:
            self.close()
            raise
        return made

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    if not TYPE_CHECKING:
        __aenter__, __aexit__ = wrong_with("with witrpc.sync.connect(...)", "async with witrpc.connect(...)")


def _guarded(callback: Callable[..., Any], name: str) -> Callable[..., None]:
    def run(*args: Any) -> None:
        try:
            callback(*args)
        except Exception:
            logger.exception("the callback %s of a client failed", name)

    return run


@overload
def connect(
    endpoint: str | Sequence[str] | Named, *, contract: None = None, **options: Unpack[ClientOptions]
) -> Client[None]: ...
@overload
def connect(
    endpoint: str | Sequence[str] | Named, *, contract: str | _contract.ContractFile, **options: Unpack[ClientOptions]
) -> Client[Service]: ...
@overload
def connect(
    endpoint: str | Sequence[str] | Named, *, contract: Callable[..., S], **options: Unpack[ClientOptions]
) -> Client[S]: ...
def connect(endpoint: str | Sequence[str] | Named, *, contract: Any = None, **options: Unpack[ClientOptions]) -> Client[Any]:
    """A blocking client, to be used with ``with``; nothing is connected before. Parameters as for :func:`witrpc.connect`.

    ``token`` and callbacks are plain functions here. They run on threads of the client.
    """
    token = options.get("token")
    native = client_options(endpoint, options, ClientOptions)
    if callable(token):
        _refuse_coroutine(token, "the token function")
        native["token_provider"] = token
    return Client(native, callbacks(options), options.get("tracing", False), contract)


class Server:
    """A server on a thread of its own. Made by :func:`serve`; use it with ``with``."""

    def __init__(self, server: _server.Server) -> None:
        """Use :func:`serve`."""
        self._server = server
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Binds the endpoints and begins to serve."""
        if self._loop is not None:
            return
        self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="witrpc-server", daemon=True)
        self._thread.start()
        try:
            self._do(self._server.start())
        except BaseException:
            self._end()
            raise

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise ClosedError("the server is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def stop(self, grace: float = 30.0) -> bool:
        """Stops in order: refuses new calls, lets running ones finish within ``grace`` seconds, closes connections.

        True if everything finished. Not for handlers: a handler would wait for itself.
        """
        if self._loop is None:
            return True
        try:
            return self._do(self._server.stop(grace))
        finally:
            self._end()

    @property
    def endpoints(self) -> list[str]:
        """Where it listens, with the ports that were given for port 0."""
        return self._server.endpoints

    @property
    def endpoint(self) -> str:
        """The first of them."""
        return self._server.endpoint

    @property
    def clients(self) -> list[str]:
        """Addresses of the clients that are connected and authorised."""
        return self._server.clients

    @property
    def connections(self) -> list[Connection]:
        """Its connections now."""
        return self._server.connections

    def members(self, group: str) -> list[uuid.UUID]:
        """The ids of the connections in a group."""
        return self._server.members(group)

    @property
    def stats(self) -> ServerStats:
        """What it has done and does."""
        return self._server.stats

    def __enter__(self) -> Server:
        """Starts it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it in order."""
        self.stop()

    if not TYPE_CHECKING:
        __aenter__, __aexit__ = wrong_with("with witrpc.sync.serve(...)", "async with witrpc.serve(...)")

    def __repr__(self) -> str:
        """Where it listens."""
        return repr(self._server)


def serve(endpoints: str | Sequence[str], *services: Any, **options: Unpack[ServerOptions]) -> Server:
    """A server on a thread of its own, to be used with ``with``. Parameters as for :func:`witrpc.serve`."""
    return Server(_server.serve(endpoints, *services, **options))
