"""What clients of event loops and blocking clients have in common: options, state, and how calls are bound."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from . import _witrpc, contract, errors
from . import options as options_module
from ._generics import GenericInfo
from ._names import alike
from ._schema import Schema
from ._tracing import Tracer
from .errors import ClosedError, InvalidArgumentError, WitRpcError
from .options import NEVER, Reconnect, Seconds, State

T = TypeVar("T")

logger = logging.getLogger("witrpc")


class Stats(NamedTuple):
    """What a client has done and does."""

    reconnects: int
    """Reconnections that succeeded."""
    in_flight: int
    """Calls in flight now."""
    queued: int
    """Calls that wait for a link or for room now."""
    retries: int
    """Attempts after the first one, over all calls."""
    round_trip: float | None
    """How long the last ping and its answer took, in seconds; ``None`` without a link, or of a .NET server."""
    silence: float | None
    """How long ago the server gave its last sign of life, in seconds; ``None`` without a link."""


class Peer(NamedTuple):
    """What the server said about itself."""

    is_libwitrpc: bool
    """Whether it is libwitrpc, and not .NET."""
    remembers: float | None
    """How long it remembers executed calls, in seconds; ``None`` of a .NET server."""


@dataclasses.dataclass(frozen=True, slots=True)
class CallOptions:
    """What is special about a call."""

    timeout: Seconds | None = None
    repeat: str | None = None
    invocation_id: uuid.UUID | None = None


PLAIN = CallOptions()
KEYWORDS = frozenset(("timeout", "idempotent", "deduplicated", "invocation_id"))


def call_options(
    base: CallOptions,
    timeout: Seconds | None,
    idempotent: bool | None,
    deduplicated: bool | None,
    invocation_id: uuid.UUID | str | None,
) -> CallOptions:
    """The options of one call, over those that are preset."""
    if timeout is None and not idempotent and not deduplicated and invocation_id is None:
        return base
    if idempotent and deduplicated:
        raise InvalidArgumentError("a call is idempotent (it may run twice) or deduplicated (it must not), but not both")
    if isinstance(invocation_id, str):
        try:
            invocation_id = uuid.UUID(invocation_id)
        except ValueError:
            raise InvalidArgumentError(f"the invocation id {invocation_id!r} is no UUID: write uuid.uuid4()") from None
    given: object = invocation_id
    if given is not None and not isinstance(given, uuid.UUID):
        raise InvalidArgumentError(f"the invocation id is {given!r}: it must be a uuid.UUID or the text of one")
    if invocation_id is not None and invocation_id.int == 0:
        raise InvalidArgumentError("the invocation id must not be all zero")
    repeat = "idempotent" if idempotent else "deduplicated" if deduplicated else base.repeat
    return CallOptions(
        base.timeout if timeout is None else timeout,
        repeat,
        base.invocation_id if invocation_id is None else invocation_id,
    )


def _judge(retry_if: Callable[[Exception], bool]) -> Callable[[Exception], bool]:
    def judge(error: Exception) -> bool:
        try:
            return bool(retry_if(error))
        except Exception:
            logger.exception("retry_if failed: taken for no")
            return False

    return judge


CALLBACKS = ("on_reconnecting", "on_reconnected", "on_reconnection_failed", "on_state_changed", "on_retry")


def client_options(endpoint: str | Sequence[str] | options_module.Named, given: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The options as the native half takes them, but for callbacks. ``kind`` lists those that there are."""
    for name in given:
        if name not in kind.__annotations__:
            raise errors._unknown("connect", name, kind.__annotations__)
    options_module._checked(given, options_module.Limits)
    options = {name: value for name, value in given.items() if name not in ("token", "limits", "tracing", *CALLBACKS)}
    token, limits, retry = given.get("token"), given.get("limits"), given.get("retry")
    if token is not None and given.get("token_file") is not None:
        raise InvalidArgumentError("give token or token_file, not both")
    if isinstance(token, str):
        options["token"] = token
    elif token is not None and not callable(token):
        raise InvalidArgumentError(f"token is {token!r}: it must be a str, or a function that gives one")
    if isinstance(endpoint, options_module.Named):
        options["named"] = (endpoint.name, endpoint.path)
        options["endpoints"] = []
    else:
        options["endpoints"] = [endpoint] if isinstance(endpoint, str) else list(endpoint)
    if options.get("reconnect") is True:
        options["reconnect"] = Reconnect()
    options["reconnect"] = options.get("reconnect") or None
    options["retry_if"] = None if retry is None or retry.retry_if is None else _judge(retry.retry_if)
    if limits is not None:
        options["queue_limits"] = (limits.max_queued_calls, limits.max_queued_bytes)
        options["max_in_flight"] = limits.max_in_flight
        options["max_frame"] = limits.max_frame
    return options


def callbacks(given: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """The callbacks among the options."""
    found: dict[str, Callable[..., Any]] = {}
    for name in CALLBACKS:
        callback = given.get(name)
        if callback is None:
            continue
        if not callable(callback):
            raise InvalidArgumentError(f"{name} is {callback!r}: it must be a function")
        found[name] = _state_callback(callback) if name == "on_state_changed" else callback
    return found


def _state_callback(callback: Callable[[State], Any]) -> Callable[[int], Any]:
    """Gives a callback the state instead of its number."""
    return lambda number: callback(State(number))


def bind(
    name: str,
    parameters: Sequence[str | None],
    signature: inspect.Signature | None,
    args: tuple[Any, ...],
    named: dict[str, Any],
) -> tuple[Any, ...]:
    """The arguments in their order: named ones and defaults included."""
    if signature is not None:
        try:
            bound = signature.bind(*args, **named)
        except TypeError as error:
            raise InvalidArgumentError(f"{name}: {error}") from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())
    if not named:
        return args
    rest = list(parameters[len(args) :])
    unknown = [key for key in named if key not in rest]
    if unknown:
        raise InvalidArgumentError(f"{name} has no parameter {unknown[0]!r} that is left")
    missing = [key for key in rest if key not in named]
    if missing:
        raise InvalidArgumentError(f"{name}: the argument {missing[0]!r} is missing")
    return (*args, *(named[key] for key in rest if key is not None))


class BoundMethod:
    """A method of a service that is ready to be called."""

    __slots__ = (
        "_arguments",
        "_convert",
        "_count",
        "_native",
        "_preset",
        "_shown",
        "_signature",
        "_span",
        "_tracer",
        "name",
    )

    def __init__(
        self,
        native: _witrpc.Method,
        contract_name: str,
        info: contract.MethodInfo | None,
        preset: CallOptions,
        tracer: Tracer | None,
    ) -> None:
        self._native = native
        self._preset = preset
        self._tracer = tracer
        self._span = (contract_name, native.name)
        self._shown = f"{contract_name}.{native.name}"
        self.name = native.name
        self._count = len(native.parameters)
        self._signature = None if info is None else info.signature
        self._convert = None if info is None else info.result

    @property
    def line(self) -> str:
        """The C# line of the method."""
        return self._native.line

    def __repr__(self) -> str:
        return f"<method {self.line}>"

    def accepts(self, args: tuple[Any, ...]) -> bool:
        """Whether these arguments fit."""
        return len(args) == self._count and self._native.accepts(args)

    def _prepared(self, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], CallOptions]:
        """Arguments and options of a call that is not of the simplest kind."""
        own = self._signature.parameters if self._signature is not None else self._native.parameters
        special = {key: options.pop(key) for key in KEYWORDS & options.keys() if key not in own}
        if options or len(args) != self._count:
            args = bind(self.name, self._native.parameters, self._signature, args, options)
        if not special:
            return args, self._preset
        return args, call_options(
            self._preset,
            special.get("timeout"),
            special.get("idempotent"),
            special.get("deduplicated"),
            special.get("invocation_id"),
        )


M = TypeVar("M", bound="BoundMethod | GenericMethod")


class GenericMethod:
    """A generic method of a contract class: a call takes the types from its arguments."""

    def __init__(self, service: ServiceBase, schema: Schema, info: contract.MethodInfo, generic: GenericInfo) -> None:
        self._service = service
        self._schema = schema
        self._info = info
        self._generic = generic
        self._closed: dict[tuple[str, ...], BoundMethod] = {}

    @property
    def line(self) -> str:
        """The C# line of the method."""
        return self._info.line

    def _close(self, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[BoundMethod, tuple[Any, ...], dict[str, Any]]:
        """The method of these types, its arguments, and the options of the call."""
        signature = self._info.signature
        own: Any = {} if signature is None else signature.parameters
        special = {key: options.pop(key) for key in KEYWORDS & options.keys() if key not in own}
        values = bind(self._info.python_name, (), signature, args, options)
        types = self._generic.types(self._info.python_name, values)
        where = f"the type argument of {self._info.python_name}"
        texts = tuple(self._schema.known_text(types[variable], where) for variable in self._generic.variables)
        method = self._closed.get(texts)
        if method is None:
            clauses = "".join(
                f" where {variable.__name__} = {text}" for variable, text in zip(self._generic.variables, texts, strict=True)
            )
            result = self._generic.result(types)
            closed = contract.MethodInfo(self._info.python_name, "", None, (), result)
            method = self._service._bind(self._info.line + clauses, closed)
            if len(self._closed) < 4096:
                self._closed[texts] = method
        return method, self._generic.sent(values), special

    def accepts(self, args: tuple[Any, ...]) -> bool:
        """Whether these arguments fit."""
        try:
            method, sent, _ = self._close(args, {})
        except InvalidArgumentError:
            return False
        return method.accepts(sent)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Calls it, as methods of its client are called."""
        method, sent, special = self._close(args, options)
        return method(*sent, **special)  # type: ignore[operator]

    def __repr__(self) -> str:
        return f"<method {self.line}>"


class Overloads(Generic[M]):
    """Methods of one name: the arguments decide which is called."""

    def __init__(self, name: str, methods: Sequence[M]) -> None:
        self.name = name
        self._methods = methods

    def choose(self, args: tuple[Any, ...]) -> M:
        """The one that these arguments fit."""
        fitting = [method for method in self._methods if method.accepts(args)]
        if len(fitting) == 1:
            return fitting[0]
        lines = "; ".join(method.line for method in fitting or self._methods)
        how = "no overload takes these arguments" if not fitting else "several overloads take these arguments"
        raise InvalidArgumentError(f'{self.name}: {how}. Call one by its line, service.call("…", …): {lines}')

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.choose(args)(*args, **options)  # type: ignore[operator]

    def __repr__(self) -> str:
        return f"<overloads {'; '.join(method.line for method in self._methods)}>"


class ServiceBase:
    """A service of a client, with the methods and events of its contract."""

    _method_class: type[BoundMethod]
    _event_class: Any
    _await = ""

    def __init__(
        self,
        client: ClientBase,
        native: _witrpc.Service,
        native_contract: _witrpc.Contract,
        preset: CallOptions = PLAIN,
    ) -> None:
        self._client = client
        self._native = native
        self._contract = native_contract
        self._preset = preset
        self._lines: dict[str, BoundMethod] = {}

    @property
    def name(self) -> str:
        """The .NET name of the contract."""
        return self._contract.name

    def _with(self, preset: CallOptions) -> Any:
        return type(self)(self._client, self._native, self._contract, preset)

    def _method(self, line: str) -> Any:
        method = self._lines.get(line)
        if method is None:
            method = self._bind(line, None)
            if len(self._lines) < 4096:
                self._lines[line] = method
        return method

    def _bind(self, line: str, info: contract.MethodInfo | None) -> Any:
        native = self._native.method(line)
        return self._method_class(native, self.name, info, self._preset, self._client._tracer)

    def __getattr__(self, name: str) -> Any:
        """A method or event that the contract lists, by its name."""
        if name.startswith("_"):
            raise AttributeError(name)
        lines = [line for known, line, _, _ in self._contract.methods() if alike(known, name)]
        if lines:
            bound = [self._bind(line, None) for line in lines]
            found: Any = bound[0] if len(bound) == 1 else Overloads(name, bound)
        else:
            events = [line for known, line, _, _ in self._contract.events() if alike(known, name)]
            if not events:
                why = (
                    f'a contract that is known by its name alone lists none: write service.call("the C# line of {name}", ...)'
                    if self._contract.is_open
                    else f"{self.name} lists none"
                )
                raise AttributeError(f"no method or event {name!r}: {why}")
            found = self._event_class(self, events[0], None)
        setattr(self, name, found)
        return found

    def __repr__(self) -> str:
        return f"<service {self.name}>"


class ClientBase:
    """The state of a client."""

    _native: _witrpc.Client | None
    _tracer: Tracer | None
    _endpoints: list[str]
    _name: str | None
    _closed: bool

    def _started(self) -> _witrpc.Client:
        raise NotImplementedError

    @property
    def endpoints(self) -> list[str]:
        """Where it connects to."""
        return list(self._endpoints) if self._native is None else self._native.endpoints

    @property
    def state(self) -> State:
        """The state now."""
        return State.DISCONNECTED if self._native is None else State(self._native.state)

    @property
    def stats(self) -> Stats:
        """What it has done and does."""
        return Stats(0, 0, 0, 0, None, None) if self._native is None else Stats(*self._native.stats())

    @property
    def peer(self) -> Peer | None:
        """What the server said about itself; ``None`` without a link."""
        peer = None if self._native is None else self._native.peer()
        return None if peer is None else Peer(*peer)

    @property
    def last_error(self) -> WitRpcError | None:
        """Why the last link or attempt to connect failed."""
        return None if self._native is None else self._native.last_failure()

    def reconnect_now(self) -> None:
        """Ends the wait before the next attempt to reconnect. Does nothing else."""
        self._started().reconnect_now()

    def stop_reconnection(self) -> None:
        """Ends attempts to reconnect in progress: the client is DISCONNECTED. Elsewhere it does nothing."""
        self._started().stop_reconnection()

    def disconnect(self) -> None:
        """Drops the link and stays without one until it is connected again. Calls under way end as closed."""
        self._started().disconnect()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Says where methods are, to those who look for them here."""
            if name.startswith("_"):
                raise AttributeError(name)
            # Of a client that failed while it was made, there is nothing to say more.
            given = self.__dict__.get("_contract")
            shown = getattr(given, "__name__", "IEcho")
            raise AttributeError(
                f"a client has no {name!r}: methods and events are those of its services, client.service({shown}).{name}, "
                f"or those of what `async with witrpc.connect(..., contract={shown})` (or `with`) gives"
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self.endpoints) or 'a name'}: {self.state.name.lower()}>"


def wrong_with(right: str, other: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What begins and ends a block of the wrong kind: an error that says which is the right one."""

    def begin(self: Any) -> Any:
        raise TypeError(f"write `{right}`, or `{other}`")

    def end(self: Any, *_: object) -> None: ...

    return begin, end


def closed_error() -> ClosedError:
    """The error of a client that was closed."""
    error = ClosedError("the client is closed")
    error.add_note("Make a new one with witrpc.connect(...).")
    return error


def proxy(service: ServiceBase, info: contract.ContractInfo) -> Any:
    """An object of the contract's class whose methods are calls."""
    made: Any = object.__new__(_proxy_class(info.cls))
    attributes = made.__dict__
    attributes["__witrpc_service__"] = service
    attributes["__witrpc_info__"] = info
    by_name: dict[str, list[Any]] = {}
    for method in info.methods:
        if method.generic is not None:
            bound: Any = GenericMethod(service, info.schema, method, method.generic)
        else:
            bound = service._bind(method.line, method)
        by_name.setdefault(method.python_name, []).append(bound)
    for name, methods in by_name.items():
        attributes[name] = methods[0] if len(methods) == 1 else Overloads(name, methods)
    for event in info.events:
        attributes[event.python_name] = service._event_class(service, event.line, event)
    for prop in info.properties:
        attributes[prop.python_name] = BoundProperty(service, prop)
    return made


class BoundProperty(contract.Property[Any]):
    """A property of a service."""

    def __init__(self, service: ServiceBase, info: contract.PropertyInfo) -> None:
        reader = contract.MethodInfo("get", "", None, (), info.convert)
        writer = contract.MethodInfo("set", "", None, (), None)
        self._reader = service._bind(f"get_{info.net_name}()", reader)
        self._name = f"set_{info.net_name}"
        self._service, self._writer_info = service, writer
        self._writer: Any = None

    def get(self) -> Any:
        """Asks for the value."""
        return self._reader()

    def set(self, value: Any) -> Any:
        """Sets the value."""
        if self._writer is None:
            self._writer = self._service._bind(self._name, self._writer_info)
        return self._writer(value)


_proxy_classes: dict[type, type] = {}


def _proxy_class(cls: type) -> type:
    made = _proxy_classes.get(cls)
    if made is None:
        made = type(f"{cls.__name__}Client", (cls,), {"__repr__": _proxy_repr, "__module__": cls.__module__})
        made.__setattr__ = _proxy_setattr  # type: ignore[assignment, method-assign]
        _proxy_classes[cls] = made
    return made


def _proxy_repr(self: Any) -> str:
    return f"<{type(self).__name__} at {self.__witrpc_service__._client!r}>"


def _proxy_setattr(self: Any, name: str, value: Any) -> None:
    """Nothing can be assigned: it would only hide what the contract has there."""
    info: contract.ContractInfo = self.__witrpc_info__
    if any(prop.python_name == name for prop in info.properties):
        write = self.__witrpc_service__._await
        raise AttributeError(f"{name} is a property of the server, set by a call: write {write}service.{name}.set({value!r})")
    if name in {method.python_name for method in info.methods} | {event.python_name for event in info.events}:
        raise AttributeError(f"{name} is a method or event of {info.cls.__name__}: nothing can be assigned to it")
    known = [prop.python_name for prop in info.properties]
    raise AttributeError(
        f"{info.cls.__name__} has no property {name!r}: it has {', '.join(known) or 'none'}, "
        "and nothing else can be assigned to a service"
    )


def client_of(service: Any) -> Any:
    """The client behind a service: what ``async with witrpc.connect(..., contract=...)`` gave."""
    if isinstance(service, ServiceBase):
        return service._client
    inner = getattr(service, "__dict__", {}).get("__witrpc_service__")
    if inner is None:
        raise InvalidArgumentError(f"{service!r} is no service of a client")
    return inner._client


def with_options(
    service: T,
    *,
    timeout: Seconds | None = None,
    idempotent: bool | None = None,
    deduplicated: bool | None = None,
    invocation_id: uuid.UUID | str | None = None,
) -> T:
    """The same service with other options for its calls: ``await witrpc.with_options(echo, timeout=2).Add(2, 3)``.

    :param timeout: Limits the whole of a call: waiting for the link, all attempts, all delays. Seconds, or
        :data:`witrpc.NEVER`. Default: what all attempts and delays can take.
    :param idempotent: The call may run twice: the retry policy may repeat it anywhere.
    :param deduplicated: The call must not run twice: it is repeated only where the server recognises that.
    :param invocation_id: The call's own id, by which the server recognises it, also from another process later. A call that
        was cancelled is recognised as that: take a new id to call again.
    """
    given: Any = service
    base = given if isinstance(given, ServiceBase) else getattr(given, "__dict__", {}).get("__witrpc_service__")
    if base is None:
        raise InvalidArgumentError(f"{service!r} is no service of a client")
    other: Any = base._with(call_options(base._preset, timeout, idempotent, deduplicated, invocation_id))
    made: T = other if base is given else proxy(other, given.__dict__["__witrpc_info__"])
    return made


def event_converter(info: contract.EventInfo | None) -> Callable[[tuple[Any, ...]], Any]:
    """What makes of the arguments of an event what iterating over it gives."""
    steps: Iterable[Any] = () if info is None else info.arguments
    one = info is not None and len(info.arguments) == 1
    if not any(steps):
        return lambda args: args[0] if len(args) == 1 else args

    def convert(args: tuple[Any, ...]) -> Any:
        made = converted(info, args)
        return made[0] if one else made

    return convert


def converted(info: contract.EventInfo | None, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an event by their annotations."""
    if info is None or not any(info.arguments):
        return args
    return tuple(arg if step is None or arg is None else step(arg) for step, arg in zip(info.arguments, args, strict=True))


__all__ = ["NEVER", "Peer", "Stats", "client_of", "with_options"]
