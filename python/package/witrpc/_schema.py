"""From annotations to a contract: the C# text of types, the declarations of classes, and the way back.

For each annotation there is a C# type, and a converter that makes of a plain value (numbers, texts, lists,
dicts, as the native half gives them) what the annotation says; ``None`` where the plain value is it already.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import threading
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any, TypeAlias

from ._names import member_case, pascal_case
from .errors import InvalidArgumentError
from .types import Array, Declaration, Member, Net, _Shape

Converter: TypeAlias = Callable[[Any], Any] | None

_SCALARS: dict[Any, str] = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    bytes: "byte[]",
    bytearray: "byte[]",
    memoryview: "byte[]",
    decimal.Decimal: "decimal",
    uuid.UUID: "Guid",
    datetime.datetime: "DateTime",
    datetime.date: "DateOnly",
    datetime.time: "TimeOnly",
    datetime.timedelta: "TimeSpan",
    object: "object",
    Any: "object",
}

_LISTS: dict[Any, str] = {
    list: "List",
    set: "HashSet",
    frozenset: "HashSet",
    collections.abc.Sequence: "IReadOnlyList",
    collections.abc.MutableSequence: "IList",
    collections.abc.Collection: "IReadOnlyCollection",
    collections.abc.Iterable: "IEnumerable",
    collections.abc.Set: "ISet",
    collections.abc.MutableSet: "ISet",
}

_MAPS: dict[Any, str] = {
    dict: "Dictionary",
    collections.abc.Mapping: "IReadOnlyDictionary",
    collections.abc.MutableMapping: "IDictionary",
}


# Names of types that Python can't tell, and what their values are.
_NAMED: dict[str, Any] = {
    "long": typing.Annotated[int, Net("long")],
    "float": typing.Annotated[float, Net("float")],
    "DateTimeOffset": typing.Annotated[datetime.datetime, Net("DateTimeOffset")],
}


def _split(text: str) -> list[str]:
    """The types between the brackets of a generic one."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "<([") - (c in ">)]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def _unwrapped(annotation: Any) -> Any:
    """Without names that only stand for another type."""
    while True:
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__") and type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        elif typing.get_origin(annotation) in (typing.Required, typing.NotRequired):
            annotation = typing.get_args(annotation)[0]
        else:
            return annotation


def _optional(annotation: Any) -> Any | None:
    """The ``X`` of ``X | None``."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return None
    rest = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
    if len(rest) != 1 or len(rest) == len(typing.get_args(annotation)):
        return None
    return rest[0]


def is_pydantic(cls: Any) -> bool:
    """Whether a class is a pydantic model."""
    return isinstance(cls, type) and hasattr(cls, "__pydantic_fields__")


def is_record(cls: Any) -> bool:
    """Whether a class has members that travel."""
    return isinstance(cls, type) and (
        dataclasses.is_dataclass(cls)
        or typing.is_typeddict(cls)
        or is_pydantic(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


class Field(typing.NamedTuple):
    """A member of a record."""

    attribute: str
    net: str
    annotation: Any
    member: Member


def fields(cls: Any) -> list[Field]:
    """The members of a record, in the order of their declaration."""
    hints = typing.get_type_hints(cls, include_extras=True)
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
    elif is_pydantic(cls):
        names = list(cls.__pydantic_fields__)
    else:
        names = list(getattr(cls, "_fields", None) or hints)
    found = []
    for name in names:
        annotation = hints[name]
        marks = annotation.__metadata__ if typing.get_origin(_unwrapped(annotation)) is typing.Annotated else ()
        member = next((mark for mark in marks if isinstance(mark, Member)), Member())
        found.append(Field(name, member.name or pascal_case(name), annotation, member))
    return found


class Schema:
    """Collects what a contract declares."""

    def __init__(self, namespace: str) -> None:
        """Classes without a .NET name of their own are in this namespace."""
        self._namespace = namespace
        self._declared: dict[Any, str] = {}
        self.declarations: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def text(self, annotation: Any, where: str) -> str:
        """The C# text of a type. ``where`` is what is said in an error."""
        annotation = _unwrapped(annotation)
        if annotation is None or annotation is type(None):
            return "void"
        if isinstance(annotation, typing.TypeVar):
            return annotation.__name__
        inner = _optional(annotation)
        if inner is not None:
            return self.text(inner, where) + "?"
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            return self._annotated(args[0], args[1:], where)
        if annotation in _SCALARS:
            return _SCALARS[annotation]
        if origin in _LISTS and len(args) == 1:
            return f"{_LISTS[origin]}<{self.text(args[0], where)}>"
        if origin in _MAPS and len(args) == 2:
            return f"{_MAPS[origin]}<{self.text(args[0], where)}, {self.text(args[1], where)}>"
        if origin is tuple:
            return self._tuple(args, where)
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return self._enum(annotation)
        if is_record(annotation):
            return self._record(annotation)
        shown = getattr(annotation, "__name__", None) or repr(annotation)
        hint = ""
        if annotation in _LISTS or annotation in _MAPS or annotation is tuple:
            hint = f" say what is in it, such as {shown}[int], or"
        raise InvalidArgumentError(
            f"{where}: nothing is known of {shown} in .NET:{hint} write Annotated[..., "
            'witrpc.Net("its C# type")], or make it a dataclass'
        )

    def known_text(self, annotation: Any, where: str) -> str:
        """The C# text of a type of which the contract must know already what there is to declare."""
        with self._lock:
            known = len(self.declarations)
            text = annotation.name if isinstance(annotation, Net) else self.text(annotation, where)
            if len(self.declarations) > known:
                missing = list(self._declared)[known:]
                for cls in missing:
                    del self._declared[cls]
                del self.declarations[known:]
                raise InvalidArgumentError(
                    f"{where}: {missing[0].__name__} is not among the types of the contract: add types=[{missing[0].__name__}] "
                    "to the bases of its class"
                )
        return text

    def annotation(self, text: str) -> Any:
        """The annotation of a C# type, as type arguments of a generic method are told; ``Any`` where none fits."""
        text = text.removeprefix("global::")
        for known in (_SCALARS, {cls: name.removeprefix("global::") for cls, name in self._declared.items()}):
            found = next((annotation for annotation, name in known.items() if name == text), None)
            if found is not None:
                return found
        if text.endswith("?"):
            return self.annotation(text[:-1]) | None
        if text.endswith("[]"):
            return typing.Annotated[list[self.annotation(text[:-2])], Array]  # type: ignore[misc]
        head, _, rest = text.partition("<")
        args = tuple(map(self.annotation, _split(rest.removesuffix(">"))))
        for known in (_LISTS, _MAPS):
            found = next((annotation for annotation, name in known.items() if name == head), None)
            if found is not None and args:
                return found[args]
        return _NAMED.get(text, Any)

    def _annotated(self, inner: Any, marks: tuple[Any, ...], where: str) -> str:
        optional = _optional(_unwrapped(inner))
        suffix = "" if optional is None else "?"
        inner = inner if optional is None else optional
        for mark in marks:
            if isinstance(mark, Net):
                return mark.name + suffix
            if isinstance(mark, _Shape):
                args = typing.get_args(_unwrapped(inner))
                texts = [self.text(arg, where) for arg in args if arg is not Ellipsis]
                if mark.form == "tuple":
                    return f"Tuple<{', '.join(texts)}>{suffix}"
                if len(texts) == 1:
                    return f"{texts[0]}[]{suffix}"
                raise InvalidArgumentError(f"{where}: witrpc.Array is for a list of something, as list[int]")
        return self.text(inner, where) + suffix

    def _tuple(self, args: tuple[Any, ...], where: str) -> str:
        if len(args) == 2 and args[1] is Ellipsis:
            return self.text(args[0], where) + "[]"
        if len(args) == 1:
            return f"ValueTuple<{self.text(args[0], where)}>"
        return f"({', '.join(self.text(arg, where) for arg in args)})"

    def _name(self, cls: Any, declaration: Declaration | None) -> str:
        if declaration is not None and declaration.name:
            return declaration.name
        return f"{self._namespace}.{cls.__name__}" if self._namespace else f"{cls.__name__}"

    def _begin(self, cls: Any, kind: str) -> tuple[dict[str, Any], Declaration | None]:
        declaration: Declaration | None = cls.__dict__.get("__witrpc_declaration__")
        if declaration is not None and declaration.struct and kind == "class":
            kind = "struct"
        name = self._name(cls, declaration)
        self._declared[cls] = name if "." in name or "+" in name else f"global::{name}"
        entry: dict[str, Any] = {kind: name}
        if declaration is not None:
            if declaration.assembly:
                entry["assembly"] = declaration.assembly
            entry |= declaration.codecs
        self.declarations.append(entry)
        return entry, declaration

    def _enum(self, cls: type[enum.Enum]) -> str:
        if cls not in self._declared:
            entry, declaration = self._begin(cls, "enum")
            members = list(cls.__members__.items())
            numbers = all(isinstance(member.value, int) for _, member in members)
            if numbers:
                entry["values"] = {member_case(name): int(member.value) for name, member in members}
            else:
                entry["json"] = "names"
                entry["values"] = {_enum_name(member): i for i, (_, member) in enumerate(members)}
            if issubclass(cls, enum.Flag):
                entry["flags"] = True
            if declaration is not None and declaration.underlying:
                entry["of"] = declaration.underlying
        return self._declared[cls]

    def _record(self, cls: Any) -> str:
        if cls in self._declared:
            return self._declared[cls]
        entry, declaration = self._begin(cls, "class")
        base = _base(cls)
        inherited: set[str] = set()
        if base is not None:
            entry["base"] = self._record(base)
            inherited = {field.attribute for field in fields(base)}
        members: list[Any] = []
        special: dict[str, str] = {}
        for field in fields(cls):
            if field.net != pascal_case(field.attribute):
                special[field.net] = field.attribute
            if field.attribute in inherited:
                continue
            line = f"{self.text(field.annotation, f'{cls.__name__}.{field.attribute}')} {field.net}"
            extra = {
                name: getattr(field.member, name)
                for name in ("json", "memorypack", "messagepack", "protobuf")
                if getattr(field.member, name) is not None
            }
            members.append({"member": line, **extra} if extra else line)
        entry["members"] = members
        if special and not typing.is_typeddict(cls):
            # The native half reads objects by their attributes: these it could not guess.
            cls.__witrpc_members__ = {field.net: field.attribute for field in fields(cls)}
        if declaration is not None and declaration.name:
            cls.__witrpc_type__ = declaration.name
        return self._declared[cls]


def _base(cls: Any) -> Any | None:
    for base in cls.__bases__:
        if is_record(base) and (not is_pydantic(base) or base.__pydantic_fields__):
            return base
    return None


def _enum_name(member: enum.Enum) -> str:
    return member.value if isinstance(member.value, str) and member.value.isidentifier() else member_case(member.name)


_records: dict[Any, Callable[[Any], Any]] = {}


def converter(annotation: Any) -> Converter:
    """What makes of a plain value what the annotation says."""
    annotation = _unwrapped(annotation)
    inner = _optional(annotation)
    if inner is not None:
        convert = converter(inner)
        return None if convert is None else lambda value: None if value is None else convert(value)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return converter(args[0])
    if annotation in (bytearray, memoryview):
        return typing.cast("Converter", annotation)
    if origin is tuple:
        return _tuple_converter(args)
    if origin in _LISTS and len(args) == 1:
        item = converter(args[0])
        make = {
            set: set,
            frozenset: frozenset,
            collections.abc.Set: set,
            collections.abc.MutableSet: set,
        }.get(origin)
        if make is not None:
            step = item or _same
            return make if item is None else lambda values: make(map(step, values))
        each = item or _same
        return None if item is None else lambda values: [each(value) for value in values]
    if origin in _MAPS and len(args) == 2:
        key, item = converter(args[0]) or _same, converter(args[1]) or _same
        if key is _same and item is _same:
            return None
        return lambda values: {key(name): item(value) for name, value in values.items()}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _enum_converter(annotation)
    if is_record(annotation):
        return _records.get(annotation) or _record_converter(annotation)
    return None


def _same(value: Any) -> Any:
    return value


def _tuple_converter(args: tuple[Any, ...]) -> Converter:
    if len(args) == 2 and args[1] is Ellipsis:
        item = converter(args[0])
        step = item or _same
        return tuple if item is None else lambda values: tuple(map(step, values))
    items = [converter(arg) for arg in args]
    if not any(items):
        return None
    steps = [item or _same for item in items]
    return lambda values: tuple(step(value) for step, value in zip(steps, values, strict=True))


def _enum_converter(cls: type[enum.Enum]) -> Converter:
    members = list(cls)
    if all(isinstance(member.value, int) for member in members):
        return cls
    # Values that are no numbers are numbered by their order, as they are declared; JSON may hold names.
    return lambda value: members[value] if isinstance(value, int) else cls(value)


def _record_converter(cls: Any) -> Callable[[Any], Any]:
    plan: list[tuple[str, str, Converter]] = []

    def prepare() -> None:
        for field in fields(cls):
            plan.append((field.net, _input_name(cls, field.attribute), converter(field.annotation)))

    def convert(value: Any) -> Any:
        if not plan:
            prepare()
        if not isinstance(value, dict):
            return value
        given = {}
        for net, name, item in plan:
            if net in value:
                plain = value[net]
                given[name] = plain if item is None or plain is None else item(plain)
        if typing.is_typeddict(cls):
            return given
        if is_pydantic(cls):
            return cls.model_validate(given)
        return cls(**given)

    # Noted before its members are looked at: a class may hold itself.
    _records[cls] = convert
    return convert


def _input_name(cls: Any, attribute: str) -> str:
    """The name by which a class takes a member."""
    if is_pydantic(cls):
        alias = cls.__pydantic_fields__[attribute].validation_alias
        return alias if isinstance(alias, str) else attribute
    return attribute
