"""Generic methods of contract classes: which types a call means, and what becomes of their values.

``T Same<T>(T value)`` is ``def Same(self, value: T) -> T``. A call takes ``T`` from the value, or from a
parameter ``t: type[T]``, which says it and does not travel.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import types
import typing
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ._schema import Converter, converter, is_record
from .errors import InvalidArgumentError

# In this order: bool is an int, and datetime a date.
_PLAIN: tuple[type, ...] = (
    bool,
    int,
    float,
    str,
    bytes,
    bytearray,
    decimal.Decimal,
    uuid.UUID,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
)


@dataclasses.dataclass(frozen=True, slots=True)
class GenericInfo:
    """What is generic in a method."""

    variables: tuple[TypeVar, ...]
    """Its type parameters, in order."""
    given: Mapping[str, TypeVar]
    """The parameters that say a type argument, ``type[T]``, and do not travel."""
    names: tuple[str, ...]
    """All parameters, in order."""
    hints: Mapping[str, Any]
    """The annotations, ``return`` among them."""

    def types(self, method: str, values: Sequence[Any]) -> dict[TypeVar, Any]:
        """The type arguments of a call, from its arguments."""
        found: dict[TypeVar, Any] = {}
        for name, value in zip(self.names, values, strict=True):
            if name in self.given:
                found[self.given[name]] = value
        for name, value in zip(self.names, values, strict=True):
            if name not in self.given:
                _infer(self.hints.get(name), value, found)
        for variable in self.variables:
            if variable not in found:
                name = variable.__name__
                raise InvalidArgumentError(
                    f"{method}: the arguments do not tell what {name} is: give the method a parameter "
                    f"{name.lower()}: type[{name}], which says it and does not travel"
                )
        return found

    def sent(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments that travel."""
        return tuple(value for name, value in zip(self.names, values, strict=True) if name not in self.given)

    def received(self, types_: Mapping[TypeVar, Any], sent: Sequence[Any]) -> tuple[Any, ...]:
        """All arguments, of those that travelled."""
        rest = iter(sent)
        return tuple(types_[self.given[name]] if name in self.given else next(rest) for name in self.names)

    def arguments(self, types_: Mapping[TypeVar, Any]) -> tuple[Converter, ...]:
        """Converters of the arguments that travel."""
        sent = [name for name in self.names if name not in self.given]
        return tuple(converter(_filled(self.hints.get(name, Any), types_)) for name in sent)

    def result(self, types_: Mapping[TypeVar, Any]) -> Converter:
        """The converter of the result."""
        hint = self.hints.get("return")
        return None if hint is None else converter(_filled(hint, types_))


def read(parameters: Iterable[inspect.Parameter], hints: Mapping[str, Any]) -> GenericInfo | None:
    """What is generic in a method; ``None`` if nothing is."""
    names = tuple(parameter.name for parameter in parameters)
    given: dict[str, TypeVar] = {}
    variables: list[TypeVar] = []
    for name in (*names, "return"):
        hint = hints.get(name)
        args = typing.get_args(hint)
        if name != "return" and typing.get_origin(hint) is type and args and isinstance(args[0], TypeVar):
            given[name] = args[0]
        for variable in _variables(hint):
            if variable not in variables:
                variables.append(variable)
    return GenericInfo(tuple(variables), given, names, dict(hints)) if variables else None


def _variables(hint: Any) -> list[TypeVar]:
    if isinstance(hint, TypeVar):
        return [hint]
    return [variable for arg in typing.get_args(hint) for variable in _variables(arg)]


def _infer(hint: Any, value: Any, found: dict[TypeVar, Any]) -> None:
    """What a value tells of the type variables in its annotation."""
    if value is None or not _variables(hint):
        return
    if isinstance(hint, TypeVar):
        if hint not in found:
            told = _type_of(value)
            if told is not None:
                found[hint] = told
        return
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        _infer(args[0], value, found)
    elif origin in (typing.Union, types.UnionType):
        for arg in args:
            _infer(arg, value, found)
    elif isinstance(value, Mapping) and len(args) == 2:
        for key, item in value.items():
            _infer(args[0], key, found)
            _infer(args[1], item, found)
    elif isinstance(value, tuple) and len(args) == len(value) and Ellipsis not in args:
        for arg, item in zip(args, value, strict=True):
            _infer(arg, item, found)
    elif isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes) and args:
        for item in value:
            _infer(args[0], item, found)


def _type_of(value: Any) -> Any | None:
    """The annotation of a value, where it tells that."""
    if isinstance(value, enum.Enum) or is_record(type(value)):
        return type(value)
    plain = next((kind for kind in _PLAIN if isinstance(value, kind)), None)
    if plain is not None:
        return plain
    if isinstance(value, list | set | frozenset):
        items = {_type_of(item) for item in value if item is not None}
        item = items.pop() if len(items) == 1 else None
        return None if item is None else (list if isinstance(value, list) else set)[item]
    if isinstance(value, dict):
        keys, items = {_type_of(key) for key in value}, {_type_of(item) for item in value.values() if item is not None}
        if len(keys) == 1 and len(items) == 1 and None not in keys | items:
            return dict[keys.pop(), items.pop()]  # type: ignore[misc]
        return None
    if isinstance(value, tuple) and value:
        of_items = tuple(map(_type_of, value))
        return None if None in of_items else tuple[of_items]  # type: ignore[valid-type]
    return None


def _filled(hint: Any, types_: Mapping[TypeVar, Any]) -> Any:
    """An annotation with the type arguments in the place of its type variables."""
    if isinstance(hint, TypeVar):
        return types_.get(hint, Any)
    args = typing.get_args(hint)
    if not args or not _variables(hint):
        return hint
    origin: Any = typing.get_origin(hint)
    filled = tuple(_filled(arg, types_) for arg in args)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[filled]  # noqa: UP007
    if origin is typing.Annotated:
        return typing.Annotated[(filled[0], *hint.__metadata__)]
    return origin[filled] if origin is not None else hint
