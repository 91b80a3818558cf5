"""Contracts: what a service looks like, as an annotated class, as a file, or by its name alone."""

from __future__ import annotations

import abc
import functools
import inspect
import json
import os
import sys
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, TypeVarTuple, overload

from . import _generics as generics
from . import _witrpc
from ._generics import GenericInfo
from ._names import pascal_case
from ._schema import Converter, Schema, converter
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from ._publish import Who
    from .options import EventQueue

__all__ = [
    "Contract",
    "ContractFile",
    "Event",
    "EventStats",
    "EventStream",
    "Property",
    "Subscription",
    "line",
    "load_contract",
]

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Ts = TypeVarTuple("Ts")
F = TypeVar("F", bound=Callable[..., Any])


class EventStats(typing.NamedTuple):
    """What became of the events of a subscription or stream."""

    delivered: int
    """Events that were handed to the handler, or taken from the stream."""
    dropped: int
    """Events that were dropped because they came faster than they were taken."""
    waiting: int
    """Events that wait now."""


class Subscription(Protocol):
    """A handler that is called with each event. Also a context manager that ends it."""

    def close(self) -> None:
        """Ends it. A handler that is running still ends."""

    @property
    def stats(self) -> EventStats:
        """What became of its events."""
        ...

    @property
    def dropped(self) -> int:
        """Events that were dropped because the handler was too slow."""
        ...

    def __enter__(self) -> Subscription:
        """Gives itself."""
        ...

    def __exit__(self, *_: object) -> None:
        """Ends it."""


class EventStream(abc.ABC, Generic[T_co]):
    """Events from the moment on at which it was made, in order. Iterate over it, with ``async for`` or ``for``.

    As many wait to be taken as ``queue=``, or ``event_queue`` of the client, allows (65,536); then the oldest are
    dropped, and :attr:`stats` says how many.
    """

    @abc.abstractmethod
    def close(self) -> None:
        """Ends it; who waits for an event is told that there are no more."""

    @property
    @abc.abstractmethod
    def stats(self) -> EventStats:
        """What became of its events."""

    @property
    def dropped(self) -> int:
        """Events that were dropped because they were not taken in time."""
        return self.stats.dropped

    def get(self, timeout: float | None = None) -> T_co:
        """The next event, of a blocking client. Raises :class:`TimeoutError` if none comes in ``timeout`` seconds."""
        raise TypeError("this stream belongs to an event loop: write await anext(stream)")

    def __aiter__(self) -> AsyncIterator[T_co]:
        """Gives itself."""
        raise TypeError("this stream belongs to a blocking client: write for, not async for")

    def __iter__(self) -> Iterator[T_co]:
        """Gives itself."""
        raise TypeError("this stream belongs to an event loop: write async for")

    def __enter__(self) -> EventStream[T_co]:
        """Gives itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.close()


class Event(Generic[*Ts]):
    """An event of a contract: ``Progress: witrpc.Event[int] = witrpc.Event()``.

    At a client it is iterated over or subscribed to; at a server it is raised by calling it.
    """

    def __call__(self, *args: *Ts) -> int:
        """Raises the event, at a server: every client gets it. Gives how many clients are meant.

        Never waits; may be called on any thread. Raised by a handler, it reaches a client before the answer does.
        """
        raise TypeError("events are raised by servers, and this is a client")

    def to(
        self,
        connections: Who | Iterable[Who] | None = None,
        *,
        group: str | Iterable[str] | None = None,
        principal: str | None = None,
        but: Who | Iterable[Who] | None = None,
    ) -> Event[*Ts]:
        """The event for some clients only: ``self.Progress.to(group="room")(50)``.

        :param connections: These connections: a :class:`Connection`, its id, or a :class:`Call` that came on it.
        :param group: Members of this group, or of one of these, when the event is raised.
        :param principal: All connections of this principal.
        :param but: Not these connections; alone it means all others: ``to(but=witrpc.current_call())``.
        """
        raise TypeError("events are raised by servers, and this is a client")

    @overload
    def __aiter__(self: Event[A]) -> AsyncIterator[A]: ...
    @overload
    def __aiter__(self: Event[()]) -> AsyncIterator[tuple[()]]: ...
    @overload
    def __aiter__(self: Event[A, B, *tuple[Any, ...]]) -> AsyncIterator[tuple[Any, ...]]: ...
    def __aiter__(self) -> AsyncIterator[Any]:
        """The events from now on: of one argument that argument, of several a tuple."""
        whole: Any = self
        return aiter(whole.stream())

    @overload
    def __iter__(self: Event[A]) -> Iterator[A]: ...
    @overload
    def __iter__(self: Event[()]) -> Iterator[tuple[()]]: ...
    @overload
    def __iter__(self: Event[A, B, *tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]: ...
    def __iter__(self) -> Iterator[Any]:
        """The same for a blocking client."""
        whole: Any = self
        return iter(whole.stream())

    @overload
    def stream(self: Event[A], *, queue: EventQueue | None = None) -> EventStream[A]: ...
    @overload
    def stream(self: Event[()], *, queue: EventQueue | None = None) -> EventStream[tuple[()]]: ...
    @overload
    def stream(self: Event[A, B], *, queue: EventQueue | None = None) -> EventStream[tuple[A, B]]: ...
    @overload
    def stream(self: Event[A, B, C, *tuple[Any, ...]], *, queue: EventQueue | None = None) -> EventStream[tuple[Any, ...]]: ...
    def stream(self, *, queue: EventQueue | None = None) -> EventStream[Any]:
        """The events from now on, to be iterated over later: nothing that comes meanwhile is missed.

        ``queue`` bounds those that wait to be taken; default: ``event_queue`` of the client.
        """
        raise TypeError("events are taken at clients, and this is a server")

    def subscribe(self, handler: Callable[[*Ts], object], *, queue: EventQueue | None = None) -> Subscription:
        """Has ``handler`` called with the arguments of each event, one after another.

        ``queue`` bounds those that wait; default: ``event_queue`` of the client. Of an asyncio client ``handler`` may be
        a coroutine function, and runs in the loop; of a blocking client it runs on the client's callback thread.
        """
        raise TypeError("events are taken at clients, and this is a server")


class Property(Generic[T]):
    """A property of a contract, ``string Name { get; set; }``: ``Name: witrpc.Property[str] = witrpc.Property()``.

    At a server an attribute or property of the same name, or methods ``get_Name`` and ``set_Name``, answer it.
    """

    def get(self) -> Awaitable[T]:
        """Asks for the value."""
        raise TypeError("properties are asked for at clients")

    def set(self, value: T) -> Awaitable[None]:
        """Sets the value."""
        raise TypeError("properties are set at clients")


def line(text: str) -> Callable[[F], F]:
    """Gives a method its C# line, where its annotations don't say it: ``@witrpc.line("int Add(int a, int b)")``."""

    def note(function: F) -> F:
        function.__witrpc_line__ = text  # type: ignore[attr-defined]
        return function

    return note


class Contract(Protocol):
    """The base of contracts that are written as annotated classes.

    ::

        class IEcho(witrpc.Contract, Protocol, name="Demo.IEcho"):
            async def Add(self, a: int, b: int) -> int: ...

            Progress: witrpc.Event[int] = witrpc.Event()

    ``name`` is the .NET name of the interface. Methods have no body; with ``Protocol`` among the bases type checkers
    accept that. Names are those of C#, or in Python's spelling (``add_one`` is ``AddOne``). ``async def`` is for
    clients and servers on an event loop; write ``def`` for blocking ones: at run time both can use either.

    A generic method, ``T Same<T>(T value)``, is one with a type variable: ``async def Same(self, value: T) -> T``. A
    call takes ``T`` from its arguments, or from a parameter ``t: type[T]``, which does not travel.
    """

    def __init_subclass__(
        cls, *, name: str | None = None, assembly: str | None = None, types: Iterable[Any] = (), **kwargs: Any
    ) -> None:
        """Notes the .NET name, and the simple name of the assembly, which only events and generics need.

        ``types`` are classes that no method names and that travel all the same: for type variables.
        """
        super().__init_subclass__(**kwargs)
        if name is not None:
            cls.__witrpc_contract__ = (name, assembly)  # type: ignore[attr-defined]
        if types:
            cls.__witrpc_types__ = tuple(types)  # type: ignore[attr-defined]
        for event, annotation in _own_annotations(cls).items():
            if not event.startswith("_") and _is_event(annotation):
                setattr(cls, event, EventSlot(event))


def _own_annotations(cls: type) -> dict[str, Any]:
    """The annotations of a class itself; names in them may not be known yet."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(cls)


def _members(cls: type) -> dict[str, Any]:
    """Events, properties, and whatever else a class itself declares as attributes."""
    own = _own_annotations(cls)
    hints = typing.get_type_hints(cls, include_extras=True) if own else {}
    return {name: hints[name] for name in own}


def _is_event(annotation: Any) -> bool:
    annotation = getattr(annotation, "__forward_arg__", annotation)
    if isinstance(annotation, str):
        head = annotation.partition("[")[0]
        return head.rpartition(".")[2] == "Event"
    return annotation is Event or typing.get_origin(annotation) is Event


class EventSlot:
    """Where an event stands in its class. Clients hide it; at a server it gives what raises the event."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        """Of an object that is served: the event."""
        if instance is None:
            return self
        from ._publish import raised_by

        return raised_by(instance, self.name)


class MethodInfo(typing.NamedTuple):
    """A method of a contract class."""

    python_name: str
    line: str
    signature: inspect.Signature | None
    arguments: tuple[Converter, ...]
    result: Converter
    generic: GenericInfo | None = None


class EventInfo(typing.NamedTuple):
    """An event of a contract class."""

    python_name: str
    line: str
    arguments: tuple[Converter, ...]


class PropertyInfo(typing.NamedTuple):
    """A property of a contract class."""

    python_name: str
    net_name: str
    convert: Converter


class ContractInfo(typing.NamedTuple):
    """What was read from a contract class."""

    cls: type
    native: _witrpc.Contract
    methods: tuple[MethodInfo, ...]
    events: tuple[EventInfo, ...]
    properties: tuple[PropertyInfo, ...]
    schema: Schema


def contract_class(cls: type) -> type | None:
    """The class that names the contract: ``cls`` or one of its bases."""
    return next((base for base in cls.__mro__ if "__witrpc_contract__" in base.__dict__), None)


@functools.cache
def read(cls: type) -> ContractInfo:
    """Reads a contract class."""
    name, assembly = cls.__dict__["__witrpc_contract__"]
    namespace = name.rpartition(".")[0]
    schema = Schema(namespace.partition("<")[0])
    methods: list[MethodInfo] = []
    events: list[EventInfo] = []
    properties: list[PropertyInfo] = []
    property_lines: list[str] = []
    seen: set[str] = set()
    for extra in getattr(cls, "__witrpc_types__", ()):
        schema.text(extra, f"{cls.__name__}, types=")
    for base in cls.__mro__:
        if base is Contract or Contract not in base.__mro__:
            continue
        for attribute, value in list(base.__dict__.items()):
            if not attribute.startswith("_") and inspect.isfunction(value) and attribute not in seen:
                seen.add(attribute)
                overloads = typing.get_overloads(value) or [value]
                methods += [_method(schema, cls, attribute, function) for function in overloads]
        for attribute, annotation in _members(base).items():
            if attribute.startswith("_") or attribute in seen:
                continue
            seen.add(attribute)
            where, args = f"{cls.__name__}.{attribute}", typing.get_args(annotation)
            if _is_event(annotation):
                texts = [schema.text(arg, where) for arg in args]
                delegate = f"Action<{', '.join(texts)}>" if texts else "Action"
                text = f"event {delegate} {pascal_case(attribute)}"
                events.append(EventInfo(attribute, text, tuple(map(converter, args))))
            elif _is_property(annotation):
                net = pascal_case(attribute)
                property_lines.append(f"{schema.text(args[0], where)} {net} {{ get; set; }}")
                properties.append(PropertyInfo(attribute, net, converter(args[0])))
            else:
                raise InvalidArgumentError(f"{where}: a contract has methods, witrpc.Event and witrpc.Property")
    document = {
        "contract": name,
        "defaults": {"memorypack": "object", "messagepack": "keys", "protobuf": "fields"},
        "methods": [method.line for method in methods] + property_lines,
        "events": [event.line.removeprefix("event ") for event in events],
        "types": schema.declarations,
    }
    if assembly:
        document["assembly"] = assembly
    if not document["methods"] and not document["events"]:
        raise InvalidArgumentError(f"the contract {cls.__name__} has neither methods nor events")
    native = _witrpc.Contract.from_json(json.dumps(document))
    return ContractInfo(cls, native, tuple(methods), tuple(events), tuple(properties), schema)


def _is_property(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    return isinstance(origin, type) and origin.__name__ == "Property" and origin.__module__.startswith("witrpc")


def _method(schema: Schema, cls: type, name: str, function: Callable[..., Any]) -> MethodInfo:
    where = f"{cls.__name__}.{name}"
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidArgumentError(f"{where}: a method of a contract has a fixed number of parameters")
    hints = typing.get_type_hints(function, include_extras=True)
    generic = generics.read(parameters, hints)
    # What says the type arguments of a generic method does not travel.
    sent = parameters if generic is None else [p for p in parameters if p.name not in generic.given]
    arguments = tuple(converter(hints[p.name]) if p.name in hints else None for p in sent)
    result = converter(hints["return"]) if hints.get("return") is not None else None
    signature = signature.replace(parameters=parameters)
    text = getattr(function, "__witrpc_line__", None)
    if text is None:
        texts = []
        for parameter in sent:
            if parameter.name not in hints:
                raise InvalidArgumentError(
                    f"{where}: the parameter {parameter.name} has no type: annotate it, or give the method its C# "
                    'line with @witrpc.line("...")'
                )
            texts.append(f"{schema.text(hints[parameter.name], where)} @{parameter.name}")
        returns = schema.text(hints["return"], where) + " " if "return" in hints else ""
        brackets = "" if generic is None else f"<{', '.join(variable.__name__ for variable in generic.variables)}>"
        text = f"{returns}{pascal_case(name)}{brackets}({', '.join(texts)})"
    return MethodInfo(name, text, signature, arguments, result, generic)


class ContractFile:
    """A contract that was read from a ``*.witrpc.json`` file, or known by its name alone."""

    def __init__(self, native: _witrpc.Contract) -> None:
        """Made by :func:`load_contract`."""
        self._native = native

    @property
    def name(self) -> str:
        """The .NET name of the contract."""
        return self._native.name

    @property
    def methods(self) -> list[str]:
        """The lines of its methods; those of properties are their accessors."""
        return [method[1] for method in self._native.methods()]

    @property
    def events(self) -> list[str]:
        """The lines of its events."""
        return [event[1] for event in self._native.events()]

    def __repr__(self) -> str:
        """Its name."""
        return f"<contract {self.name}>"


def load_contract(path: str | os.PathLike[str]) -> ContractFile:
    """Reads a contract file, ``*.witrpc.json``."""
    with open(path, encoding="utf-8-sig") as file:
        text = file.read()
    try:
        return ContractFile(_witrpc.Contract.from_json(text))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{os.fspath(path)}: {error.message}") from None


def native_contract(contract: Any) -> _witrpc.Contract:
    """The native contract of whatever a user may give: a class, a file, a name."""
    if isinstance(contract, str):
        return _witrpc.Contract.open(contract)
    if isinstance(contract, ContractFile):
        return contract._native
    if isinstance(contract, type) and (found := contract_class(contract)) is not None:
        return read(found).native
    raise InvalidArgumentError(
        f"{contract!r} is no contract: give a class with witrpc.Contract among its bases, and its .NET name, as in "
        'class IEcho(witrpc.Contract, name="Demo.IEcho"); a contract file; or a name'
    )
