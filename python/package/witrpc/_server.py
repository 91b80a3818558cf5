"""Servers: objects whose methods answer calls, and the events that they raise."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import os
import signal
import uuid
import weakref
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

from . import _witrpc, contract
from ._aio import answering
from ._client import logger
from ._loop import running_bridge
from ._schema import Converter
from ._tracing import Tracer, tracer
from .errors import ClosedError, InvalidArgumentError, WitRpcError
from .options import Codec, Dedup, ServerLimits, Socket, Tls, WebSocket

__all__ = ["Call", "Fault", "Handlers", "Server", "ServerOptions", "current_call", "run", "serve"]

F = TypeVar("F", bound=Callable[..., Any])


class Fault(Exception):
    """Raised by a handler: the status and the texts that the caller gets.

    Any other exception is status 500 with its own text as details. Status 503 says that the handler refuses for now
    and has done nothing: that is not remembered, and the caller's retry policy may try again.
    """

    def __init__(self, message: str, *, status: int = 500, details: str | None = None) -> None:
        """``message`` is what the caller sees first, ``details`` what lies behind it."""
        super().__init__(message)
        self.status = status
        self.details = details


class Call:
    """The call that a handler answers."""

    def __init__(self, native: _witrpc.CallContext) -> None:
        self._native = native

    @property
    def contract(self) -> str:
        """The .NET name of the contract."""
        return self._native.contract

    @property
    def method(self) -> str:
        """The name of the method."""
        return self._native.method

    @property
    def invocation_id(self) -> uuid.UUID:
        """Stable over the attempts of one call."""
        return self._native.invocation_id

    @property
    def principal(self) -> str:
        """Who calls, as the validator of tokens said."""
        return self._native.principal

    @property
    def peer(self) -> str:
        """The address of the client."""
        return self._native.peer

    @property
    def connection(self) -> uuid.UUID:
        """The id of the connection."""
        return self._native.connection

    def drop_connection(self) -> None:
        """Closes the connection that the call came on, at once: for clients that must go, and for tests."""
        self._native.drop_connection()


_current: contextvars.ContextVar[Call] = contextvars.ContextVar("witrpc_call")


def current_call() -> Call:
    """The call that the running handler answers."""
    try:
        return _current.get()
    except LookupError:
        raise InvalidArgumentError("no call is being answered here: current_call() is for handlers") from None


class ServerOptions(TypedDict, total=False):
    """The options of :func:`serve`."""

    codec: Codec
    """How arguments and results are encoded. Clients must be set alike. Default ``"json"``."""
    encryption: bool
    """WitRPC's own encryption. Clients must be set alike. Default off."""
    token: str
    """The one token that is accepted. Default: the empty one, which clients without a token send."""
    token_file: str | os.PathLike[str]
    """A file with the token that is accepted; a new one counts at once."""
    validator: Callable[[str, str], Any]
    """Asked with token and address at the handshake and for every call; may be a coroutine function. Gives the name of
    the caller (its principal), ``True`` for one without a name, or ``False``."""
    limits: ServerLimits | None
    """Bounds."""
    dedup: Dedup | None
    """Bounds of the memory of calls."""
    tls: Tls | None
    """The certificate of ``tls://`` and ``wss://``."""
    socket: Socket | None
    """Options of accepted connections."""
    websocket: WebSocket | None
    """Options of WebSockets."""
    pipe_mode: int
    """Permissions of the socket file of ``pipe://``. Default ``0o600``."""
    strong_event_types: bool
    """Events name their types with the assembly, for .NET clients that ask for it. Default off."""
    threads: int
    """Most threads for handlers that are plain functions. Default 32."""
    on_execute: Callable[[str, str, Any], Any] | None
    """Called for each execution, with contract, method and invocation id."""
    tracing: bool
    """Spans of OpenTelemetry for executions. Default off."""


class _Handler:
    """What answers one method."""

    def __init__(
        self,
        line: str,
        function: Callable[..., Any],
        arguments: tuple[Converter, ...],
        names: tuple[str, str],
    ) -> None:
        self.line = line
        self.function = function
        self.arguments = arguments if any(arguments) else None
        self.names = names
        self.waits = inspect.iscoroutinefunction(function)

    def converted(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.arguments is None:
            return args
        return tuple(arg if step is None or arg is None else step(arg) for step, arg in zip(self.arguments, args, strict=True))


class Handlers:
    """A service without a class: functions for method lines.

    ::

        echo = witrpc.Handlers("Demo.IEcho")

        @echo.method("int Add(int a, int b)")
        def add(a, b):
            return a + b
    """

    def __init__(self, contract_: str | contract.ContractFile) -> None:
        """``contract_`` is a contract file or a name. With a file, lines may be names alone."""
        self._native = contract.native_contract(contract_)
        self._functions: dict[str, Callable[..., Any]] = {}
        self._servers: weakref.WeakSet[Server] = weakref.WeakSet()

    def method(self, line: str) -> Callable[[F], F]:
        """Makes a function, or a coroutine function, the answer to a method."""

        def note(function: F) -> F:
            self._native.method(line)
            if line in self._functions:
                raise InvalidArgumentError(f'"{line}" has a handler already')
            self._functions[line] = function
            return function

        return note

    def raise_event(self, line: str, *args: Any) -> None:
        """Raises an event, named by its line or, with a contract file, its name."""
        servers = list(self._servers)
        if not servers:
            raise ClosedError("nothing serves this")
        for server in servers:
            server._publish(self._native, line, args)


_served: weakref.WeakKeyDictionary[Any, list[tuple[weakref.ref[Server], contract.ContractInfo]]] = weakref.WeakKeyDictionary()


class _RaisedEvent(contract.Event[Any]):
    def __init__(self, instance: Any, name: str) -> None:
        self._instance = instance
        self._name = name

    def __call__(self, *args: Any) -> None:
        raised = False
        for reference, info in _served.get(self._instance, ()):
            server = reference()
            event = next((event for event in info.events if event.python_name == self._name), None)
            if server is not None and event is not None:
                server._publish(info.native, event.line, args)
                raised = True
        if not raised:
            raise ClosedError(f"the event {self._name} was raised, and nothing serves {self._instance!r}")


def raised_by(instance: Any, name: str) -> contract.Event[Any]:
    """The event of an object that is served, or will be."""
    return _RaisedEvent(instance, name)


def _service_of(instance: Any) -> tuple[contract.ContractInfo, list[_Handler]]:
    cls = contract.contract_class(type(instance))
    if cls is None:
        raise InvalidArgumentError(
            f"{instance!r} can't be served: its class needs a contract among its bases, as in class Echo(IEcho)"
        )
    info = contract.read(cls)
    handlers = []
    for method in info.methods:
        function = getattr(instance, method.python_name, None)
        own = getattr(type(instance), method.python_name, None)
        if not callable(function) or own is getattr(cls, method.python_name, None):
            raise InvalidArgumentError(f"{type(instance).__name__} does not answer {cls.__name__}.{method.python_name}")
        handlers.append(_Handler(method.line, function, method.arguments, (info.native.name, method.python_name)))
    for prop in info.properties:
        name = prop.net_name
        plain = inspect.getattr_static(instance, prop.python_name, None)
        if not hasattr(instance, f"get_{name}") and (plain is None or type(plain).__name__ == "Property"):
            raise InvalidArgumentError(f"{type(instance).__name__} does not answer {cls.__name__}.{prop.python_name}")
        reader = getattr(instance, f"get_{name}", None) or functools.partial(getattr, instance, prop.python_name)
        writer = getattr(instance, f"set_{name}", None) or functools.partial(setattr, instance, prop.python_name)
        handlers.append(_Handler(f"get_{name}()", reader, (), (info.native.name, f"get_{name}")))
        line = next(line for known, line, _, _ in info.native.methods() if known == f"set_{name}")
        handlers.append(_Handler(line, writer, (prop.convert,), (info.native.name, f"set_{name}")))
    return info, handlers


class Server:
    """A server on an event loop. Made by :func:`serve`; use it with ``async with``, or ``await`` it to start it."""

    def __init__(self, endpoints: str | Sequence[str], services: Sequence[Any], options: ServerOptions) -> None:
        """Use :func:`serve`."""
        unknown = [name for name in options if name not in ServerOptions.__annotations__]
        if unknown:
            known = ", ".join(sorted(ServerOptions.__annotations__))
            raise InvalidArgumentError(f"serve has no option {unknown[0]!r}: it has {known}")
        self._options: dict[str, Any] = {
            name: value for name, value in options.items() if name not in ("threads", "tracing", "validator")
        }
        self._options["endpoints"] = [endpoints] if isinstance(endpoints, str) else list(endpoints)
        validator = options.get("validator")
        if validator is not None:
            self._options["validator"] = answering(validator, "the validator of tokens")
        self._services = services
        self._threads = options.get("threads", 32)
        self._tracer: Tracer | None = tracer(options.get("tracing", False), "SERVER")
        self._native: _witrpc.Server | None = None
        self._publisher: _witrpc.Publisher | None = None
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Binds the endpoints and begins to serve."""
        if self._native is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        entries = []
        served: list[tuple[Any, contract.ContractInfo]] = []
        for service in self._services:
            if isinstance(service, Handlers):
                native = service._native
                handlers = [_Handler(line, function, (), (native.name, line)) for line, function in service._functions.items()]
                service._servers.add(self)
            else:
                info, handlers = _service_of(service)
                native = info.native
                served.append((service, info))
            entries.append((native, [(handler.line, self._answering(handler)) for handler in handlers]))
        self._native = await _witrpc.Server.start(running_bridge(), self._options, entries)
        self._publisher = self._native.publisher()
        for service, info in served:
            _served.setdefault(service, []).append((weakref.ref(self), info))

    def _publish(self, native: _witrpc.Contract, line: str, args: tuple[Any, ...]) -> None:
        if self._publisher is not None:
            self._publisher.raise_event(native, line, args)

    def _answering(self, handler: _Handler) -> Callable[[Any, tuple[Any, ...], Any], None]:
        """What the native half calls in the loop's thread with each call."""

        def begin(context: Any, args: tuple[Any, ...], reply: Any) -> None:
            call = Call(context)
            if handler.waits:
                self._start_task(self._wait(handler, call, args, reply), reply)
                return
            if self._executor is None:
                self._executor = concurrent.futures.ThreadPoolExecutor(self._threads, "witrpc-handler")
            future = self._executor.submit(self._run, handler, call, args, reply)
            reply.when_abandoned(future.cancel)

        return begin

    def _start_task(self, work: Coroutine[Any, Any, None], reply: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        reply.when_abandoned(task.cancel)

    async def _wait(self, handler: _Handler, call: Call, args: tuple[Any, ...], reply: Any) -> None:
        _current.set(call)
        try:
            with self._span(handler):
                result = await handler.function(*handler.converted(args))
        except asyncio.CancelledError:
            reply.fail(500, "Failed to process request", "The handler was cancelled")
            raise
        except BaseException as error:
            _fail(handler, reply, error)
            if not isinstance(error, Exception):
                raise
        else:
            _answer(handler, reply, result)

    def _run(self, handler: _Handler, call: Call, args: tuple[Any, ...], reply: Any) -> None:
        """On a thread of the pool."""
        token = _current.set(call)
        try:
            with self._span(handler):
                result = handler.function(*handler.converted(args))
        except BaseException as error:
            _fail(handler, reply, error)
            return
        finally:
            _current.reset(token)
        if inspect.isawaitable(result) and self._loop is not None:
            # A plain function that gives something to wait for: a decorated coroutine function.
            awaited = result

            async def finish() -> Any:
                return await awaited

            work = self._wait(_Handler(handler.line, finish, (), handler.names), call, (), reply)
            self._loop.call_soon_threadsafe(self._start_task, work, reply)
            return
        _answer(handler, reply, result)

    def _span(self, handler: _Handler) -> Any:
        return contextlib.nullcontext() if self._tracer is None else self._tracer.span(*handler.names)

    def _running(self) -> _witrpc.Server:
        if self._native is None:
            raise ClosedError("the server is not running")
        return self._native

    @property
    def endpoints(self) -> list[str]:
        """Where it listens, with the ports that were given for port 0."""
        return self._running().endpoints

    @property
    def endpoint(self) -> str:
        """The first of them."""
        endpoints = self.endpoints
        if not endpoints:
            raise ClosedError("the server has stopped")
        return endpoints[0]

    @property
    def clients(self) -> list[str]:
        """Addresses of the clients that are connected and authorised."""
        return self._running().clients

    @property
    def stats(self) -> dict[str, int]:
        """What it has done and does: connections, running, executed, and the counts of its memory of calls."""
        return self._running().stats()

    async def stop(self, grace: float = 30.0) -> bool:
        """Stops in order: refuses new calls, lets running ones finish within ``grace`` seconds, closes connections.

        True if everything finished.
        """
        if self._native is None:
            return True
        finished: bool = await self._native.stop(running_bridge(), grace)
        for task in list(self._tasks):
            task.cancel()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        if self._stopped is not None:
            self._stopped.set()
        return finished

    async def wait_stopped(self) -> None:
        """Waits until it was stopped."""
        if self._stopped is not None:
            await self._stopped.wait()

    async def serve_forever(self, *, grace: float = 30.0) -> None:
        """Serves until SIGINT or SIGTERM, or :meth:`stop`; then stops in order. A second signal ends it at once."""
        await self.start()
        loop = asyncio.get_running_loop()
        asked, hurry = asyncio.Event(), asyncio.Event()

        def on_signal() -> None:
            (hurry if asked.is_set() else asked).set()

        added = []
        for number in (signal.SIGINT, signal.SIGTERM):
            # Not on Windows, and not outside the main thread: there the caller stops it.
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, on_signal)
                added.append(number)
        try:
            await _first(asked.wait(), self.wait_stopped())
            await _first(self.stop(grace), hurry.wait())
        finally:
            for number in added:
                loop.remove_signal_handler(number)
            if hurry.is_set():
                self._running().close()

    async def __aenter__(self) -> Server:
        """Starts it."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops it in order."""
        await self.stop()

    def __await__(self) -> Generator[Any, None, Server]:
        """Starts it and gives it."""
        return self.__aenter__().__await__()

    def __repr__(self) -> str:
        """Where it listens."""
        where = ", ".join(self._options["endpoints"] if self._native is None else self._native.endpoints)
        return f"<server at {where or 'nothing: stopped'}>"


async def _first(*works: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _answer(handler: _Handler, reply: Any, result: Any) -> None:
    try:
        reply.set(result)
    except Exception as error:
        logger.error("%s/%s: %s", *handler.names, error)
        reply.fail(500, "The result can't be encoded", str(error))


def _fail(handler: _Handler, reply: Any, error: BaseException) -> None:
    if isinstance(error, Fault):
        reply.fail(error.status, str(error), error.details)
        return
    logger.warning("%s/%s failed", *handler.names, exc_info=error)
    details = error.message if isinstance(error, WitRpcError) else str(error)
    reply.fail(500, "Failed to process request", details or type(error).__name__)


def serve(endpoints: str | Sequence[str], *services: Any, **options: Unpack[ServerOptions]) -> Server:
    """A server, to be used with ``async with`` or awaited; nothing is bound before.

    :param endpoints: ``tcp://127.0.0.1:5000``, ``tcp://*:5000``, ``ws://…``, ``pipe://name``; port 0 picks one.
    :param services: Objects whose class has a contract among its bases and answers its methods, or :class:`Handlers`.
        Coroutine functions run in the loop, plain functions on a pool of threads.
    :param options: See :class:`ServerOptions`.
    """
    return Server(endpoints, services, options)


def run(endpoints: str | Sequence[str], *services: Any, grace: float = 30.0, **options: Unpack[ServerOptions]) -> None:
    """Serves until SIGINT or SIGTERM, then stops in order: a whole program."""
    asyncio.run(serve(endpoints, *services, **options).serve_forever(grace=grace))
