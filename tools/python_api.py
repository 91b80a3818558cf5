"""Writes docs/python/api.md from the docstrings of the installed package: `make python-api`."""

import dataclasses
import enum
import inspect
import itertools
import pathlib
import re
import sys
import typing
from typing import Any

import witrpc
import witrpc.errors
import witrpc.health
import witrpc.options
import witrpc.sync
import witrpc.types

INTRO = """# Python: the API

Written from the docstrings of the package by `make python-api`. The [guide](guide.md) says how it fits together.
"""


def roles(text: str) -> str:
    """Sphinx's roles and literals as Markdown."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return text.replace("``", "`")


def doc(thing: Any) -> str:
    text = roles(inspect.getdoc(thing) or "")
    text = re.sub(r"^:param (\w+): ", r"* `\1`: ", text, flags=re.MULTILINE)
    # An indented block after a lone `::` is code.
    lines, out, inside = text.split("\n"), [], False
    for line in lines:
        if line == "::":
            out.append("```python")
            inside = True
            continue
        if inside and line and not line.startswith("    "):
            while out[-1] == "":
                out.pop()
            out += ["```", ""]
            inside = False
        if inside and out[-1] == "```python" and not line:
            continue
        out.append(line[4:] if inside else line)
    if inside:
        out.append("```")
    return "\n".join(out)


def signature(thing: Any) -> str:
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace("'", "") for p in inspect.signature(thing).parameters if p != "self"]
    kinds = inspect.signature(thing).parameters
    shown = []
    star = False
    for name in parameters:
        kind = kinds[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            shown.append(f"*{name}")
            star = True
        elif kind is inspect.Parameter.VAR_KEYWORD:
            shown.append(f"**{name}")
        else:
            if kind is inspect.Parameter.KEYWORD_ONLY and not star:
                shown.append("*")
                star = True
            default = kinds[name].default
            plain = isinstance(default, (int, float, str, bool, type(None)))
            shown.append(name if default is inspect.Parameter.empty else f"{name}={default!r}" if plain else f"{name}=…")
    return f"({', '.join(shown)})" if text else ""


def attributes(cls: type) -> list[tuple[str, str]]:
    """Attributes with the texts that stand below them in the source."""
    import ast
    import textwrap

    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):
        return []
    body = tree.body[0].body  # type: ignore[attr-defined]
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    found = []
    for part in [body, *(function.body for function in functions)]:
        for node, following in itertools.pairwise(part):
            text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if not text or not isinstance(following.value.value, str):
                continue
            if isinstance(node, ast.AnnAssign):
                target = ast.unparse(node.target).removeprefix("self.")
            elif isinstance(node, ast.Assign):
                target = ast.unparse(node.targets[0]).removeprefix("self.")
            else:
                continue
            default = ""
            if dataclasses.is_dataclass(cls) or issubclass(cls, enum.Enum):
                value = getattr(node, "value", None)
                default = "" if value is None else f" = {ast.unparse(value)}"
            found.append((target + default, " ".join(roles(following.value.value).split())))
    return found


def of_class(name: str, cls: type, out: list[str]) -> None:
    bases = [base.__name__ for base in cls.__bases__ if base.__module__.startswith(("witrpc", "builtins"))]
    bases = [base for base in bases if base not in ("object", "dict", "tuple") and not base.startswith("_")]
    out += [f"### `{name}`" + (f" ({', '.join(bases)})" if bases else ""), "", doc(cls), ""]
    own = attributes(cls)
    for base in cls.__mro__[1:]:
        if base.__module__.startswith("witrpc") and base.__name__.startswith("_"):
            own = attributes(base) + own
    if typing.is_typeddict(cls):
        # A TypedDict forgets its bases before Python 3.12.
        common = witrpc.options._CommonOptions
        if set(common.__annotations__) < set(cls.__annotations__):
            own = attributes(common) + own
    out += [f"* `{target}`: {text}" for target, text in own]
    if own:
        out.append("")
    members = []
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("witrpc"):
            members += [member for member in base.__dict__ if member not in members]
    for member in members:
        if member.startswith("_") and member not in ("__call__", "__aiter__", "__iter__"):
            continue
        value = inspect.getattr_static(cls, member)
        if isinstance(value, property) and value.__doc__:
            out.append(f"* `{member}`: {' '.join(roles(value.__doc__).split())}")
        elif inspect.isfunction(value) or isinstance(value, (classmethod, staticmethod)):
            function = getattr(cls, member)
            text = roles(inspect.getdoc(function) or "").split("\n\n")[0]
            wait = "await " if inspect.iscoroutinefunction(function) else ""
            out.append(f"* `{wait}{member}{signature(function)}`: {' '.join(text.split())}")
    out.append("")


def section(title: str, module: Any, names: list[str], out: list[str], prefix: str) -> None:
    out += [f"## {title}", ""]
    for name in names:
        thing = getattr(module, name)
        shown = f"{prefix}.{name}"
        if inspect.isclass(thing):
            of_class(shown, thing, out)
        elif inspect.isfunction(thing):
            out += [f"### `{shown}{signature(thing)}`", "", doc(thing), ""]


def text() -> str:
    out = [INTRO]
    clients = ["connect", "AsyncClient", "AsyncService", "with_options", "client_of", "Stats", "Peer"]
    section("Clients", witrpc, clients, out, "witrpc")
    section("Blocking", witrpc.sync, ["connect", "Client", "Service", "serve", "Server"], out, "witrpc.sync")
    contracts = [
        "Contract",
        "Event",
        "EventStream",
        "Subscription",
        "EventStats",
        "Property",
        "line",
        "declare",
        "Member",
        "Net",
    ]
    section("Contracts", witrpc, [*contracts, "load_contract", "ContractFile"], out, "witrpc")
    out += ["## Types", "", table(), ""]
    stores = ["durable", "Journal", "RedisStore", "Resolution"]
    section(
        "Servers",
        witrpc,
        ["serve", "run", "Server", "ServerStats", "Handlers", "Fault", "current_call", "Call", "Connection", *stores],
        out,
        "witrpc",
    )
    options = ["ClientOptions", "Named", "Reconnect", "Retry", "RetryBudget", "Tls", "Socket", "WebSocket", "KeepAlive", "Limits"]
    others = ["EventQueue", "ServerOptions", "ServerLimits", "Dedup", "State"]
    section("Options", witrpc, [*options, *others], out, "witrpc")
    section("Errors", witrpc.errors, ["WitRpcError", "Outcome"], out, "witrpc")
    for name in sorted(set(witrpc.errors.__all__) - {"WitRpcError", "Outcome"}):
        cls = getattr(witrpc.errors, name)
        out.append(f'* `{name}` (`"{cls.code}"`): {roles(cls.__doc__)}')
    out.append("")
    section("Health", witrpc.health, sorted(witrpc.health.__all__), out, "witrpc.health")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip() + "\n"


def table() -> str:
    """The table of types, which stands in the module as reStructuredText."""
    lines = (witrpc.types.__doc__ or "").split("\n")
    marks = [i for i, line in enumerate(lines) if line.startswith("====")]
    rows = []
    for line in lines[marks[0] + 1 : marks[2]]:
        if not line.startswith("===="):
            cells = [*re.split(r" {2,}", line.strip()), "", ""][:3]
            rows.append("| " + " | ".join(roles(cell).replace("|", "\\|") for cell in cells) + " |")
    rows.insert(1, "|---|---|---|")
    tail = roles("\n".join(lines[marks[2] + 1 :]).strip())
    return "\n".join(rows) + "\n\n" + tail


if __name__ == "__main__":
    path = pathlib.Path(__file__).resolve().parents[1] / "docs" / "python" / "api.md"
    path.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"{path.name}: {len(text().splitlines())} lines\n")
