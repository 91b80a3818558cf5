"""The package as it is installed: version, files, the sdist."""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest
import witrpc
from conftest import ROOT


def test_the_version_is_the_workspace_s() -> None:
    workspace = re.search(r'\[workspace\.package\]\nversion = "([^"]+)"', (ROOT / "Cargo.toml").read_text())
    assert workspace is not None
    assert witrpc.__version__ == workspace[1]
    if "PYTHONPATH" not in os.environ:
        assert importlib.metadata.version("witrpc") == workspace[1]
        names = {entry.name for entry in importlib.metadata.entry_points(group="console_scripts")}
        assert "witrpc" in names


def test_it_is_the_installed_package_that_is_tested() -> None:
    assert ROOT / "python" / "package" not in pathlib.Path(witrpc.__file__).parents


def test_the_sdist_is_whole(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("maturin")
    command = [
        sys.executable,
        "-m",
        "maturin",
        "sdist",
        "--out",
        str(tmp_path),
        "-m",
        str(ROOT / "python/Cargo.toml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    root = next(path for path in tmp_path.iterdir() if path.is_dir())
    assert list(root.rglob("_aio.py"))
    assert (root / "pyproject.toml").exists()
    # Cargo finds all of its crates in there: nothing else is needed to build it but what it downloads.
    manifest = next(path for path in root.rglob("Cargo.toml") if "witrpc-python" in path.read_text())
    command = [
        "cargo",
        "metadata",
        "--offline",
        "--no-deps",
        "--format-version",
        "1",
        "--manifest-path",
        str(manifest),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    for crate in ("witrpc", "witrpc-cli", "witrpc-python"):
        assert f'"name":"{crate}"' in done.stdout
