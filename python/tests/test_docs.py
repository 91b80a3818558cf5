"""What the documentation shows is run: README, tutorial; and the API reference names everything."""

import ast
import asyncio
import pathlib
import re
import subprocess
import sys
import types

import pytest
import witrpc
from conftest import ROOT, Running, run


def blocks(path: pathlib.Path, marker: str = "") -> list[str]:
    return re.findall(marker + r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def test_the_tutorial_runs() -> None:
    source = "\n".join(blocks(ROOT / "docs" / "python" / "tutorial.md"))
    assert source.count("assert") > 10
    code = compile(source, "tutorial.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    # A module, so that annotations are found.
    module = types.ModuleType("tutorial")
    module.__dict__["asyncio"] = asyncio
    sys.modules["tutorial"] = module
    run(eval(code, module.__dict__))


@pytest.mark.parametrize("path", [ROOT / "python" / "README.md", ROOT / "README.md"], ids=["python", "root"])
def test_the_readme_runs(path: pathlib.Path, server: Running) -> None:
    found = blocks(path, "<!-- example: python -->\n")
    assert found
    for block in found:
        text = block.replace("main()", f"main({server.endpoint!r})").replace(f"def main({server.endpoint!r})", "def main()")
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=50)
        assert done.stderr == ""
        assert "2 + 3 = 5" in done.stdout
        if "Progress" in block:
            assert "50 %" in done.stdout


def test_the_api_reference_is_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    import python_api

    text = (ROOT / "docs" / "python" / "api.md").read_text(encoding="utf-8")
    assert text == python_api.text(), "write it anew: make python-api"


def test_everything_public_is_documented() -> None:
    reference = (ROOT / "docs" / "python" / "api.md").read_text(encoding="utf-8")
    shared = {"AsyncClientOptions", "ClientBase", "errors", "health", "options", "sync", "types"}
    names = [name for name in witrpc.__all__ if name not in shared and not isinstance(getattr(witrpc, name), witrpc.Net)]
    assert not [name for name in names if not re.search(rf"\b{name}\b", reference)]
    for name in witrpc.__all__:
        assert getattr(witrpc, name).__doc__ or name in ("NEVER",), name
