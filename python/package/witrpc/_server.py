"""Servers: objects whose methods answer calls, and the events that they raise."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import signal
import uuid
import weakref
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar, Unpack, cast

from . import _witrpc, contract, errors
from . import options as option_classes
from ._aio import Callbacks, answering
from ._call import Call, Fault, current, current_call
from ._client import logger, wrong_with
from ._durable import Journal, RedisStore, resolver_of
from ._generics import GenericInfo
from ._loop import running_bridge
from ._pool import Pool
from ._publish import Audience, Connection, RaisedEvent, raise_event, serves
from ._schema import Converter, Schema
from ._tracing import Tracer, tracer
from .errors import ClosedError, InvalidArgumentError, WitRpcError
from .options import Codec, Dedup, EventQueue, KeepAlive, ServerLimits, Socket, Tls, WebSocket

__all__ = ["Call", "Fault", "Handlers", "Server", "ServerOptions", "ServerStats", "current_call", "run", "serve"]

F = TypeVar("F", bound=Callable[..., Any])


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
    store: Journal | RedisStore | None
    """Where calls of methods that are :func:`~witrpc.durable` are kept, so that they outlive the process. Default: in
    memory only."""
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
    keep_alive: KeepAlive | bool
    """Pings to libwitrpc clients; ``False`` for none."""
    event_queue: EventQueue | None
    """Bounds of the queue of events of each connection, and what happens to a client that is too slow."""
    threads: int
    """Most threads for handlers that are plain functions. Default 32."""
    on_connected: Callable[[Connection], Any] | None
    """Called with each client that was authorised: the place to put it into groups. A plain function is called before any
    call of that client; it may also be a coroutine function."""
    on_disconnected: Callable[[Connection], Any] | None
    """Called with each connection that has ended, after ``on_connected`` of it."""
    on_execute: Callable[[str, str, Any], Any] | None
    """Called for each execution, with contract, method and invocation id; may be a coroutine function."""
    tracing: bool
    """Spans of OpenTelemetry for executions, below those of their callers. Default off."""


class ServerStats(NamedTuple):
    """What a server has done and does."""

    connections: int
    """Connections now."""
    running: int
    """Handlers running now."""
    executed: int
    """Handlers ever begun."""
    events_dropped: int
    """Events that were dropped because a client did not read as fast as they came, each for each such client."""
    slow_clients_closed: int
    """Connections that were closed because their clients did not read their events."""
    remembered: int
    """Answers in the memory of calls."""
    replayed: int
    """Repeated calls that were answered from it."""
    attached: int
    """Repeated calls that got the answer of one that was running."""
    unknown: int
    """Repeated calls whose first execution is known and its answer is not."""
    refused: int
    """Calls that were refused because the memory was full of running ones."""


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

    def converted(self, call: Call, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args if self.arguments is None else _converted(self.arguments, args)


def _converted(steps: tuple[Converter, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(arg if step is None or arg is None else step(arg) for step, arg in zip(steps, args, strict=True))


class _GenericHandler(_Handler):
    """What answers a generic method, whatever its type arguments are."""

    def __init__(
        self,
        line: str,
        function: Callable[..., Any],
        generic: GenericInfo,
        schema: Schema,
        names: tuple[str, str],
    ) -> None:
        super().__init__(line, function, (), names)
        self._generic = generic
        self._schema = schema
        self._plans: dict[tuple[str, ...], tuple[dict[Any, Any], tuple[Converter, ...]]] = {}

    def converted(self, call: Call, args: tuple[Any, ...]) -> tuple[Any, ...]:
        texts = tuple(call.type_arguments)
        plan = self._plans.get(texts)
        if plan is None:
            types = dict(zip(self._generic.variables, map(self._schema.annotation, texts), strict=True))
            plan = types, self._generic.arguments(types)
            # Clients choose the types: they are not to fill the memory.
            if len(self._plans) < 1024:
                self._plans[texts] = plan
        return self._generic.received(plan[0], _converted(plan[1], args))


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

    def event(self, line: str) -> contract.Event[Any]:
        """An event, named by its line or, with a contract file, its name: raised by calling it."""

        def raising(args: tuple[Any, ...], to: Audience | None) -> int:
            servers = list(self._servers)
            if not servers:
                raise ClosedError("nothing serves this")
            return sum(server._publish(self._native, line, args, to) for server in servers)

        return RaisedEvent(raising)

    def raise_event(self, line: str, *args: Any) -> int:
        """Raises an event to every client; gives how many are meant."""
        return self.event(line)(*args)


def _service_of(instance: Any) -> tuple[contract.ContractInfo, list[_Handler]]:
    cls = contract.contract_class(type(instance))
    if cls is None and isinstance(instance, type):
        raise InvalidArgumentError(f"{instance.__name__} is a class: serve an object of it, {instance.__name__}()")
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
        names = (info.native.name, method.python_name)
        if method.generic is None:
            handlers.append(_Handler(method.line, function, method.arguments, names))
        else:
            handlers.append(_GenericHandler(method.line, function, method.generic, info.schema, names))
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


# Options that the native half does not take as they are.
_OURS = ("threads", "tracing", "validator", "on_connected", "on_disconnected", "on_execute")


class Server:
    """A server on an event loop. Made by :func:`serve`; use it with ``async with``, or ``await`` it to start it."""

    def __init__(self, endpoints: str | Sequence[str], services: Sequence[Any], options: ServerOptions) -> None:
        """Use :func:`serve`."""
        for name in options:
            if name not in ServerOptions.__annotations__:
                raise errors._unknown("serve", name, ServerOptions.__annotations__)
        option_classes._checked(options, ServerLimits)
        store: Any = options.get("store")
        if store is not None and not isinstance(store, Journal | RedisStore):
            raise InvalidArgumentError(
                f'store is {store!r}: write store=witrpc.Journal("directory"), or witrpc.RedisStore("redis://...")'
            )
        self._options: dict[str, Any] = {name: value for name, value in options.items() if name not in _OURS}
        self._options["endpoints"] = [endpoints] if isinstance(endpoints, str) else list(endpoints)
        validator = options.get("validator")
        if validator is not None:
            self._options["validator"] = answering(validator, "the validator of tokens")
        self._callbacks = Callbacks("a server")
        on_connected: Any = options.get("on_connected")
        if on_connected is not None:
            # A plain function waits for no other callback: it is to run before the first call of the client.
            plain = not inspect.iscoroutinefunction(on_connected)
            turns = Callbacks("a server") if plain else self._callbacks
            self._options["on_connected"] = self._connection_callback("on_connected", on_connected, turns)
        on_disconnected: Any = options.get("on_disconnected")
        if on_disconnected is not None:
            self._options["on_disconnected"] = self._connection_callback("on_disconnected", on_disconnected, self._callbacks)
        on_execute: Any = options.get("on_execute")
        if on_execute is not None:
            self._options["on_execute"] = Callbacks("a server").wrap(_function("on_execute", on_execute))
        self._services = services
        self._threads = options.get("threads", 32)
        if not isinstance(self._threads, int) or self._threads < 1:
            raise InvalidArgumentError(f"threads is {self._threads!r}: it must be a number from 1")
        self._tracer: Tracer | None = tracer(options.get("tracing", False), "SERVER")
        self._native: _witrpc.Server | None = None
        self._publisher: _witrpc.Publisher | None = None
        self._pool: Pool | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _connection_callback(self, name: str, callback: Any, turns: Callbacks) -> Callable[..., None]:
        _function(name, callback)

        def seen(publisher: _witrpc.Publisher, id: uuid.UUID, peer: str, principal: str, groups: list[str]) -> Any:
            self._publisher = publisher
            # Of one that has ended nothing else remembers them.
            known = groups if name == "on_disconnected" else None
            return callback(Connection(publisher, id, peer, principal, groups=known))

        return turns.wrap(seen)

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
                handlers = [
                    _Handler(line, function, (), (native.name, native.method(line)[0]))
                    for line, function in service._functions.items()
                ]
                service._servers.add(self)
            else:
                info, handlers = _service_of(service)
                native = info.native
                served.append((service, info))
            entries.append((native, [self._entry(handler) for handler in handlers]))
        self._check_store(entries)
        # Before it starts: the first call may be there before we know that it did.
        for service, info in served:
            serves(service, self._publish, info)
        self._native = await _witrpc.Server.start(running_bridge(), self._options, entries)
        self._publisher = self._native.publisher()

    def _entry(self, handler: _Handler) -> tuple[str, Callable[..., None], bool, Callable[..., None] | None]:
        kept, resolver = resolver_of(handler.function)
        asked = None if resolver is None else answering(resolver, f"the resolver of {handler.names[1]}")
        return handler.line, self._answering(handler), kept, asked

    def _check_store(self, entries: list[Any]) -> None:
        kept = [f"{native.name}/{line}" for native, handlers in entries for line, _, kept, _ in handlers if kept]
        if kept and self._options.get("store") is None:
            raise InvalidArgumentError(f"{kept[0]} is durable: say where calls are kept, serve(..., store=witrpc.Journal(...))")
        if not kept and self._options.get("store") is not None:
            raise InvalidArgumentError("the server has a store, and none of its methods is durable: mark them, @witrpc.durable")

    def _publish(self, native: _witrpc.Contract, line: str, args: tuple[Any, ...], to: Audience | None) -> int:
        return 0 if self._publisher is None else raise_event(self._publisher, native, line, args, to)

    def _answering(self, handler: _Handler) -> Callable[[Any, tuple[Any, ...], Any], None]:
        """What the native half calls in the loop's thread with each call."""

        def begin(context: Any, args: tuple[Any, ...], reply: Any) -> None:
            call = Call(context)
            if self._publisher is None:
                self._publisher = context.publisher()
            if handler.waits:
                self._start_task(self._wait(handler, call, args, reply), reply)
                return
            if self._pool is None:
                self._pool = Pool(self._threads, "witrpc-handler")
            reply.when_abandoned(self._pool.submit(self._run, handler, call, args, reply))

        return begin

    def _start_task(self, work: Coroutine[Any, Any, None], reply: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        reply.when_abandoned(task.cancel)

    async def _wait(self, handler: _Handler, call: Call, args: tuple[Any, ...], reply: Any) -> None:
        current.set(call)
        try:
            with self._span(handler, call):
                result = await handler.function(*handler.converted(call, args))
        except asyncio.CancelledError:
            reply.fail(500, "Failed to process request", "The handler was cancelled")
            raise
        except BaseException as error:
            _fail(handler, reply, error)
            # Any other, as of a handler that calls sys.exit(), would end the loop, and the server with it.
            if isinstance(error, KeyboardInterrupt | GeneratorExit):
                raise
        else:
            _answer(handler, reply, result)

    def _run(self, handler: _Handler, call: Call, args: tuple[Any, ...], reply: Any) -> None:
        """On a thread of the pool."""
        token = current.set(call)
        try:
            with self._span(handler, call):
                result = handler.function(*handler.converted(call, args))
        except BaseException as error:
            _fail(handler, reply, error)
            return
        finally:
            current.reset(token)
        if inspect.isawaitable(result) and self._loop is not None:
            # A plain function that gives something to wait for: a decorated coroutine function.
            awaited = result

            async def finish() -> Any:
                return await awaited

            work = self._wait(_Handler(handler.line, finish, (), handler.names), call, (), reply)
            self._loop.call_soon_threadsafe(self._start_task, work, reply)
            return
        _answer(handler, reply, result)

    def _span(self, handler: _Handler, call: Call) -> Any:
        return contextlib.nullcontext() if self._tracer is None else self._tracer.span(*handler.names, call.trace_context)

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
    def connections(self) -> list[Connection]:
        """Its connections now."""
        publisher = self._publisher
        if publisher is None:
            return []
        return [
            Connection(publisher, id, peer, principal, events_waiting=waiting, events_dropped=dropped)
            for id, peer, principal, waiting, dropped in self._running().connections()
        ]

    def members(self, group: str) -> list[uuid.UUID]:
        """The ids of the connections in a group."""
        return [] if self._publisher is None else self._publisher.members(group)

    @property
    def stats(self) -> ServerStats:
        """What it has done and does."""
        return ServerStats(**self._running().stats())

    async def stop(self, grace: float = 30.0) -> bool:
        """Stops in order: refuses new calls, lets running ones finish within ``grace`` seconds, closes connections.

        True if everything finished. Coroutine functions that did not are cancelled. Plain functions that did not run on,
        but their threads do not keep the process from ending.
        """
        if self._native is None:
            return True
        finished: bool = await self._native.stop(running_bridge(), grace)
        await self._callbacks.finish()
        for task in list(self._tasks):
            task.cancel()
        if self._pool is not None:
            self._pool.shutdown()
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

    if not TYPE_CHECKING:
        __enter__, __exit__ = wrong_with("async with witrpc.serve(...)", "with witrpc.sync.serve(...)")

    def __await__(self) -> Generator[Any, None, Server]:
        """Starts it and gives it."""
        return self.__aenter__().__await__()

    def __repr__(self) -> str:
        """Where it listens."""
        where = ", ".join(self._options["endpoints"] if self._native is None else self._native.endpoints)
        return f"<server at {where or 'nothing: stopped'}>"


def _function(name: str, value: Any) -> Callable[..., Any]:
    if not callable(value):
        raise InvalidArgumentError(f"{name} is {value!r}: it must be a function")
    return cast("Callable[..., Any]", value)


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
    except BaseException as error:
        details = errors._text(error)
        logger.error("%s/%s: %s", *handler.names, details)
        reply.fail(500, "The result can't be encoded", details)
        if isinstance(error, KeyboardInterrupt):
            raise


def _fail(handler: _Handler, reply: Any, error: BaseException) -> None:
    if isinstance(error, Fault):
        # Classes below Fault may have made anything of these.
        status: Any = getattr(error, "status", None)
        details: Any = getattr(error, "details", None)
        known = status if isinstance(status, int) and 400 <= status <= 599 else 500
        reply.fail(known, errors._text(error), None if details is None else errors._text(details))
        return
    try:
        logger.warning("%s/%s failed", *handler.names, exc_info=error)
    finally:
        given = error.__dict__.get("message", error) if isinstance(error, WitRpcError) else error
        reply.fail(500, "Failed to process request", errors._text(given) or type(error).__name__)


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
