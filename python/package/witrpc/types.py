"""Python types and .NET types: the table, and the words for what Python can't tell.

=========================================  ============================================  =====================================
Python                                     .NET                                          another .NET type
=========================================  ============================================  =====================================
``bool``                                   ``bool``
``int``                                    ``int``                                       ``Annotated[int, witrpc.Int64]`` …
``float``                                  ``double``                                    ``Annotated[float, witrpc.Single]``
``str``                                    ``string``                                    ``Annotated[str, witrpc.Char]`` …
``bytes``, ``bytearray``, ``memoryview``   ``byte[]``
``decimal.Decimal``                        ``decimal``
``uuid.UUID``                              ``Guid``
``datetime.datetime``                      ``DateTime``                                  ``Annotated[…, witrpc.DateTimeOffset]``
``datetime.date``, ``datetime.time``       ``DateOnly``, ``TimeOnly``
``datetime.timedelta``                     ``TimeSpan``
``list[T]``                                ``List<T>``                                   ``Annotated[list[T], witrpc.Array]``
``Sequence[T]``, ``Iterable[T]``           ``IReadOnlyList<T>``, ``IEnumerable<T>``
``set[T]``, ``frozenset[T]``               ``HashSet<T>``
``dict[K, V]``, ``Mapping[K, V]``          ``Dictionary<K, V>``, ``IReadOnlyDictionary<K, V>``
``tuple[A, B]``                            ``(A, B)``                                    ``Annotated[…, witrpc.TupleClass]``
``tuple[T, ...]``                          ``T[]``
``X | None``                               ``X?``
``enum.Enum``                              an enum of that name
dataclass, pydantic model, ``TypedDict``   a class of that name
``Any``, ``object``                        ``object``
``None`` as a result                       ``void``
=========================================  ============================================  =====================================

Anything else is named in full: ``Annotated[list[str], witrpc.Net("Queue<string>")]``.

``| None`` counts for value types, as numbers, times, enums and structs: without it ``None`` is refused. Texts, bytes, lists and
classes may be ``None`` whether or not it is there, as null in .NET.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

__all__ = [
    "Array",
    "Byte",
    "Char",
    "DateTimeOffset",
    "Half",
    "Int16",
    "Int64",
    "Int128",
    "Member",
    "Net",
    "SByte",
    "Single",
    "TupleClass",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt128",
    "Uri",
    "Version",
    "declare",
]

C = TypeVar("C", bound=type)


@dataclasses.dataclass(frozen=True, slots=True)
class Net:
    """In ``Annotated``: the .NET type, as C# writes it, of what Python can't tell."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
    """In ``Annotated``: another form of the same items."""

    form: Literal["array", "tuple"]


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """In ``Annotated``: what is special about a member of a class.

    ``name`` is its .NET name, where that is not the Python name in C# spelling. ``json`` is its
    ``JsonPropertyName``, or ``False`` for ``JsonIgnore``. The others are the numbers of the binary codecs.
    """

    name: str | None = None
    json: str | bool | None = None
    memorypack: int | bool | None = None
    messagepack: int | str | bool | None = None
    protobuf: int | bool | None = None


SByte = Net("sbyte")
Byte = Net("byte")
Int16 = Net("short")
UInt16 = Net("ushort")
UInt32 = Net("uint")
Int64 = Net("long")
UInt64 = Net("ulong")
Int128 = Net("Int128")
UInt128 = Net("UInt128")
Half = Net("Half")
Single = Net("float")
Char = Net("char")
DateTimeOffset = Net("DateTimeOffset")
Uri = Net("Uri")
Version = Net("Version")
Array = _Shape("array")
"""``Annotated[list[int], witrpc.Array]`` is ``int[]``."""
TupleClass = _Shape("tuple")
"""``Annotated[tuple[int, str], witrpc.TupleClass]`` is ``Tuple<int, string>``, which JSON can carry."""


@dataclasses.dataclass(frozen=True, slots=True)
class Declaration:
    """What :func:`declare` noted for a class."""

    name: str | None
    assembly: str | None
    struct: bool
    underlying: str | None
    codecs: Mapping[str, Any]


def declare(
    name: str | None = None,
    *,
    assembly: str | None = None,
    struct: bool = False,
    underlying: str | None = None,
    memorypack: str | bool | Mapping[str, str] | None = None,
    messagepack: str | bool | Mapping[str, str] | None = None,
    protobuf: str | bool | Mapping[str, str] | None = None,
) -> Callable[[C], C]:
    """Says what .NET knows of a class or enum and Python can't tell.

    ``name`` is the full .NET name; without it the class has its Python name in the contract's namespace.
    ``struct`` makes ``X | None`` a ``Nullable<X>``. ``underlying`` is the number type of an enum. The others are
    the codecs' layouts, as a contract file gives them.
    """

    def note(cls: C) -> C:
        layouts = {"memorypack": memorypack, "messagepack": messagepack, "protobuf": protobuf}
        given = {codec: layout for codec, layout in layouts.items() if layout is not None}
        cls.__witrpc_declaration__ = Declaration(name, assembly, struct, underlying, given)  # type: ignore[attr-defined]
        return cls

    return note
