"""Names: ``home_address`` in Python is ``HomeAddress`` in C#."""

from __future__ import annotations


def pascal_case(name: str) -> str:
    """The C# spelling of a Python name; a name that begins with a capital is C# already."""
    if name[:1].isupper():
        return name
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) or name


def member_case(name: str) -> str:
    """The C# spelling of a name of an enum: ``DARK_RED`` is ``DarkRed``."""
    if name.isupper():
        return "".join(part.capitalize() for part in name.split("_"))
    return pascal_case(name)


def alike(a: str, b: str) -> bool:
    """Whether two names differ at most in case and underscores."""
    return a == b or a.replace("_", "").lower() == b.replace("_", "").lower()
