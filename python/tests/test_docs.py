"""What the documentation shows is run: README, tutorial; and the API reference names everything."""

import ast
import asyncio
import pathlib
import re
import signal
import socket
import subprocess
import sys
import types

import pytest
import witrpc
from conftest import ROOT, Running, Start, run


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


def read_until(process: subprocess.Popen[str], wanted: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(wanted):
            return
    pytest.fail(f"ended without {wanted!r}")


@pytest.mark.parametrize("kind", ["libwitrpc", ".NET"])
def test_the_outage_of_the_readme_is_survived(kind: str, request: pytest.FixtureRequest) -> None:
    start: Start = request.getfixturevalue("start_demo" if kind == "libwitrpc" else "start_peer")
    [block] = blocks(ROOT / "python" / "README.md", "<!-- outage: python -->\n")
    server = start()
    text = block.replace("asyncio.run(main())", f"asyncio.run(main({server.endpoint!r}))")
    command = [sys.executable, "-c", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            read_until(process, "2 + 3 = 5")
            server.kill()
            read_until(process, "attempt 1 in 1.0 s")
            if kind == ".NET":
                start(port=server.endpoint.rpartition(":")[2])
            else:
                start(endpoint=server.endpoint)
            read_until(process, "back")
            read_until(process, "2 + 3 = 5")
        finally:
            process.kill()


def test_the_server_of_the_readme_serves_the_clients_of_it() -> None:
    [block] = blocks(ROOT / "python" / "README.md", "<!-- server: python -->\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    endpoint = f"tcp://127.0.0.1:{port}"
    with subprocess.Popen([sys.executable, "-c", block.replace("tcp://127.0.0.1:5100", endpoint)]) as process:
        try:
            wait = witrpc.Reconnect(max_attempts=0, initial_delay=0.05, max_delay=0.05, retry_first_connect=True)
            with witrpc.sync.connect(endpoint, reconnect=wait) as client:
                echo = client.service("Demo.IEcho")
                progress = echo.event("event Action<int> Progress").stream()
                assert echo.call("int Add(int a, int b)", 2, 3) == 5
                echo.call("void RaiseProgress(int percent)", 50)
                assert progress.get(timeout=10) == 50
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_links_lead_somewhere() -> None:
    pages = [*(ROOT / "docs" / "python").glob("*.md"), ROOT / "python" / "README.md", ROOT / "README.md"]
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


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
