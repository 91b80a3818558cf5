"""Clients on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from . import _witrpc, contract
from ._client import (
    BoundMethod,
    ClientBase,
    ServiceBase,
    call_options,
    callbacks,
    client_options,
    closed_error,
    converted,
    event_converter,
    logger,
    proxy,
    wrong_with,
)
from ._loop import running_bridge
from ._tracing import tracer
from .errors import InvalidArgumentError, _text
from .options import AsyncClientOptions, EventQueue, Named, Seconds, State

__all__ = ["AsyncClient", "AsyncService", "connect"]

T = TypeVar("T")
S = TypeVar("S")


class AsyncMethod(BoundMethod):
    """A method that is called with ``await``."""

    __slots__ = ()

    def __call__(self, *args: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        """Calls it. Cancelling the task that waits cancels the call."""
        call: Any = self._started(args, options)
        # Who forgets to await it is told what was not awaited.
        call.__qualname__ = self._shown
        started: Coroutine[Any, Any, Any] = call
        return started

    async def _started(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        preset = self._preset
        if options or len(args) != self._count:
            args, preset = self._prepared(args, options)
        if self._tracer is not None:
            with self._tracer.span(*self._span) as context:
                return await self._call(args, preset, trace_context=context)
        call = self._native.start(running_bridge(), args, preset.timeout, preset.repeat, preset.invocation_id)
        try:
            result = await call.future
        except asyncio.CancelledError:
            call.cancel()
            raise
        convert = self._convert
        return result if convert is None or result is None else convert(result)

    async def _call(self, args: tuple[Any, ...], preset: Any, encoded: bool = False, trace_context: bytes | None = None) -> Any:
        special = (preset.timeout, preset.repeat, preset.invocation_id, encoded, trace_context)
        call = self._native.start(running_bridge(), args, *special)
        try:
            result = await call.future
        except asyncio.CancelledError:
            call.cancel()
            raise
        return result if self._convert is None or result is None else self._convert(result)


class AsyncEventStream(contract.EventStream[Any]):
    """Events that are taken with ``async for``."""

    def __init__(self, source: _witrpc.EventSource, convert: Callable[[tuple[Any, ...]], Any]) -> None:
        self._source = source
        self._convert = convert

    def close(self) -> None:
        self._source.close()

    async def aclose(self) -> None:
        """Ends it, as :meth:`close`: for ``contextlib.aclosing``."""
        self._source.close()

    @property
    def stats(self) -> contract.EventStats:
        return contract.EventStats(*self._source.stats())

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        while True:
            args = self._source.take()
            if isinstance(args, bool):
                raise StopAsyncIteration
            if args is not None:
                return self._convert(args)
            await self._source.start_wait(running_bridge())

    async def __aenter__(self) -> AsyncEventStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class AsyncSubscription:
    """A handler that is called with each event, in the loop, one after another."""

    def __init__(
        self,
        source: _witrpc.EventSource,
        info: contract.EventInfo | None,
        handler: Callable[..., Any],
        name: str,
    ) -> None:
        self._source = source
        self._task = asyncio.get_running_loop().create_task(self._run(info, handler, name), name=f"witrpc {name}")
        _running.add(self._task)
        self._task.add_done_callback(_running.discard)

    async def _run(self, info: contract.EventInfo | None, handler: Callable[..., Any], name: str) -> None:
        while True:
            try:
                args = self._source.take()
                if isinstance(args, bool):
                    return
                if args is None:
                    await self._source.start_wait(running_bridge())
                    continue
                result = handler(*converted(info, args))
                if inspect.isawaitable(result):
                    await result
            except Exception:
                logger.exception("a handler of the event %s failed", name)

    def close(self) -> None:
        """Ends it. A handler that is running still ends."""
        self._source.close()

    @property
    def stats(self) -> contract.EventStats:
        """What became of its events."""
        return contract.EventStats(*self._source.stats())

    @property
    def dropped(self) -> int:
        """Events that were dropped because the handler was too slow."""
        return self.stats.dropped

    def __enter__(self) -> AsyncSubscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# The loop itself holds its tasks weakly.
_running: set[asyncio.Task[None]] = set()


class AsyncEvent(contract.Event[Any]):
    """An event of a service."""

    def __init__(self, service: ServiceBase, line: str, info: contract.EventInfo | None) -> None:
        self._service = service
        self._line = line
        self._info = info

    def stream(self, *, queue: EventQueue | None = None) -> Any:
        source = self._service._native.events(self._line, queue)
        return AsyncEventStream(source, event_converter(self._info))

    def __aiter__(self) -> Any:
        return self.stream()

    def subscribe(self, handler: Callable[..., object], *, queue: EventQueue | None = None) -> contract.Subscription:
        source = self._service._native.events(self._line, queue)
        return AsyncSubscription(source, self._info, handler, self._line)

    def __repr__(self) -> str:
        return f"<{self._line}>"


class AsyncService(ServiceBase):
    """A service whose methods and events are named by their C# lines, or as attributes if its contract lists them.

    Cheap to make; made by :meth:`AsyncClient.service`.
    """

    _method_class = AsyncMethod
    _event_class = AsyncEvent
    _await = "await "

    async def call(
        self,
        line: str,
        *args: Any,
        timeout: Seconds | None = None,
        idempotent: bool | None = None,
        deduplicated: bool | None = None,
        invocation_id: uuid.UUID | str | None = None,
    ) -> Any:
        """Calls a method: ``await service.call("int Add(int, int)", 2, 3)``. Options as for :func:`with_options`."""
        method: AsyncMethod = self._method(line)
        options = call_options(self._preset, timeout, idempotent, deduplicated, invocation_id)
        if method._tracer is not None:
            with method._tracer.span(*method._span) as context:
                return await method._call(args, options, trace_context=context)
        return await method._call(args, options)

    async def call_encoded(
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
        method: AsyncMethod = self._method(line)
        return memoryview(await method._call(args, options, encoded=True))

    def method(self, line: str) -> Callable[..., Awaitable[Any]]:
        """A method that is ready to be called, which spares reading its line each time."""
        method: Callable[..., Awaitable[Any]] = self._method(line)
        return method

    def event(self, line: str) -> contract.Event[Any]:
        """An event by its C# line: ``service.event("event Action<int> Progress")``."""
        return AsyncEvent(self, line, None)


class Callbacks:
    """Runs the callbacks of a client or server in its loop: in order, never two at once, also those that wait."""

    def __init__(self, whose: str) -> None:
        self._whose = whose
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def wrap(self, callback: Callable[..., Any]) -> Callable[..., None]:
        """What the native half calls in the loop's thread."""
        return lambda *args: self._call(callback, args)

    def _call(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if self._task is not None:
            self._waiting.append((callback, args))
            return
        result = self._guarded(callback, args)
        if inspect.isawaitable(result):
            self._task = asyncio.get_running_loop().create_task(self._run(result), name=f"witrpc callbacks of {self._whose}")

    async def _run(self, first: Awaitable[Any]) -> None:
        try:
            await self._finish(first)
            while self._waiting:
                result = self._guarded(*self._waiting.popleft())
                if inspect.isawaitable(result):
                    await self._finish(result)
        finally:
            self._task = None

    async def _finish(self, result: Awaitable[Any]) -> None:
        try:
            await result
        except Exception:
            logger.exception("a callback of %s failed", self._whose)

    def _guarded(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        try:
            return callback(*args)
        except Exception:
            logger.exception("a callback of %s failed", self._whose)
            return None

    async def finish(self) -> None:
        """Waits for what is running, unless it is what waits."""
        task = self._task
        if task is not None and task is not asyncio.current_task():
            await asyncio.wait([task])


def answering(function: Callable[..., Any], where: str) -> Callable[[Any, _witrpc.Reply], None]:
    """What the native half asks in the loop's thread: a function that may wait, or block."""

    async def answer(args: Any, reply: _witrpc.Reply) -> None:
        try:
            args = args if isinstance(args, tuple) else ()
            if inspect.iscoroutinefunction(function):
                result = await function(*args)
            else:
                result = await asyncio.to_thread(function, *args)
                if inspect.isawaitable(result):
                    result = await result
            reply.set(result)
        except (Exception, SystemExit) as error:
            text = _text(error) or type(error).__name__
            logger.warning("%s failed: %s: %s", where, type(error).__name__, text)
            reply.fail(text)

    def ask(args: Any, reply: _witrpc.Reply) -> None:
        task = asyncio.get_running_loop().create_task(answer(args, reply), name=f"witrpc {where}")
        _running.add(task)
        task.add_done_callback(_running.discard)

    return ask


class AsyncClient(ClientBase, Generic[T]):
    """A client of one server, or of several that stand in for each other, on an event loop.

    Made by :func:`connect`. Use it with ``async with``, or ``await`` it to connect and :meth:`close` it yourself.
    Its calls may be made in any loop; its callbacks run in the loop in which it was connected first.
    """

    def __init__(self, options: dict[str, Any], callbacks: dict[str, Any], tracing: bool, contract: Any) -> None:
        """Use :func:`connect`."""
        self._options = options
        self._user_callbacks = callbacks
        self._tracer = tracer(tracing, "CLIENT")
        self._contract = contract
        self._native: _witrpc.Client | None = None
        self._endpoints = options["endpoints"]
        self._name = options["named"][0] if "named" in options else None
        self._callbacks = Callbacks("a client")
        self._closed = False
        if asyncio._get_running_loop() is not None:
            # Options that are wrong are told where they were written, if that is in a loop.
            self._start()

    def _start(self) -> _witrpc.Client:
        if self._closed:
            raise closed_error()
        if self._native is None:
            bridge = running_bridge()
            options = dict(self._options)
            for name, callback in self._user_callbacks.items():
                options[name] = self._callbacks.wrap(callback)
            self._native = _witrpc.Client(options, bridge)
        return self._native

    def _started(self) -> _witrpc.Client:
        if self._native is None:
            raise closed_error() if self._closed else InvalidArgumentError("the client was never connected")
        return self._native

    async def connect(self) -> None:
        """Connects: returns when the server has authorised the client. Connected already, it does nothing."""
        native = self._start()
        await native.start_connect(running_bridge(), False)

    async def reconnect(self) -> None:
        """Drops the link, if there is one, and connects anew without a delay."""
        native = self._start()
        await native.start_connect(running_bridge(), True)

    async def wait_for(self, state: State, timeout: float | None = None) -> None:
        """Waits until the client is in this state. ``TimeoutError`` if that takes longer than ``timeout`` seconds."""
        native = self._start()
        async with asyncio.timeout(timeout):
            await native.start_wait_for(running_bridge(), int(state))

    async def probe(self, timeout: Seconds = 5.0) -> None:
        """Makes a round trip to the server that executes nothing, for health checks. An error says why there was none in time.

        A .NET server answers one call after the other: while calls of this client run there, a timeout says little.
        """
        await self._started().start_probe(running_bridge(), timeout)

    async def close(self) -> None:
        """Disconnects for good, and waits for callbacks, but for the one that it is called in."""
        self._closed = True
        if self._native is not None:
            self._native.close()
            await self._native.start_closed(running_bridge())
            await self._callbacks.finish()

    @overload
    def service(self, contract: str | contract.ContractFile) -> AsyncService: ...
    @overload
    def service(self, contract: Callable[..., S]) -> S: ...
    def service(self, contract: Any) -> Any:
        """A service by its contract: a class, a contract file, or a name, as ``"Demo.IEcho"``."""
        return _service(self, contract)

    @overload
    async def __aenter__(self: AsyncClient[None]) -> AsyncClient[None]: ...
    @overload
    async def __aenter__(self: AsyncClient[S]) -> S: ...
    async def __aenter__(self) -> Any:
        """Connects and gives the service of the contract; without one, the client."""
        try:
            # First: a contract that is wrong is told before anything is connected.
            made = self if self._contract is None else self._early(self._contract)
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return made

    def _early(self, contract: Any) -> Any:
        self._start()
        return _service(self, contract)

    async def __aexit__(self, *_: object) -> None:
        """Closes it."""
        await self.close()

    if not TYPE_CHECKING:
        __enter__, __exit__ = wrong_with("async with witrpc.connect(...)", "with witrpc.sync.connect(...)")

    def __await__(self) -> Generator[Any, None, AsyncClient[T]]:
        """Connects and gives the client."""
        return self._connected().__await__()

    async def _connected(self) -> AsyncClient[T]:
        await self.connect()
        return self


def _service(client: AsyncClient[Any], given: Any) -> Any:
    native_contract = contract.native_contract(given)
    native = client._start().service(native_contract)
    service = AsyncService(client, native, native_contract)
    if isinstance(given, type) and (cls := contract.contract_class(given)) is not None:
        return proxy(service, contract.read(cls))
    return service


@overload
def connect(
    endpoint: str | Sequence[str] | Named, *, contract: None = None, **options: Unpack[AsyncClientOptions]
) -> AsyncClient[None]: ...
@overload
def connect(
    endpoint: str | Sequence[str] | Named,
    *,
    contract: str | contract.ContractFile,
    **options: Unpack[AsyncClientOptions],
) -> AsyncClient[AsyncService]: ...
@overload
def connect(
    endpoint: str | Sequence[str] | Named, *, contract: Callable[..., S], **options: Unpack[AsyncClientOptions]
) -> AsyncClient[S]: ...
def connect(
    endpoint: str | Sequence[str] | Named, *, contract: Any = None, **options: Unpack[AsyncClientOptions]
) -> AsyncClient[Any]:
    """A client, to be used with ``async with`` or awaited; nothing is connected before.

    :param endpoint: ``tcp://host:port``, ``tls://…``, ``ws://host:port/path``, ``wss://…``, ``pipe://name``; or a list
        of those, which stand in for each other; or :class:`Named`.
    :param contract: What ``async with`` gives: a class makes it a typed service, a contract file or a name an
        :class:`AsyncService`; without one it is the client.
    :param options: See :class:`~witrpc.options.ClientOptions`. ``token`` and callbacks may also be coroutine
        functions; callbacks run in the client's loop, one after another.
    """
    token = options.get("token")
    native = client_options(endpoint, options, AsyncClientOptions)
    if callable(token):
        native["token_provider"] = answering(token, "the token provider")
    return AsyncClient(native, callbacks(options), options.get("tracing", False), contract)


__all__ += ["AsyncMethod"]
