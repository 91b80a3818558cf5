"""The package as it is installed: version, files, the sdist."""

import importlib.metadata
import os
import pathlib
import re
import shutil
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


@pytest.mark.skipif(sys.platform != "linux" or "PYTHONPATH" in os.environ, reason="the wheel of Linux is looked at")
def test_the_wheel_runs_on_other_linuxes_too() -> None:
    """Its tag is manylinux, and the library needs no newer glibc than that says, and no library that others lack."""
    tags = re.findall(r"^Tag: (.*)$", importlib.metadata.distribution("witrpc").read_text("WHEEL") or "", re.MULTILINE)
    found = [re.fullmatch(r"cp311-abi3-manylinux_2_(\d+)_\w+", tag) for tag in tags]
    assert found, tags
    assert all(found), tags
    promised = min(int(tag[1]) for tag in found if tag is not None)
    # Debian 12, Ubuntu 22.04, RHEL 9 and what is newer.
    assert promised <= 34
    library = next(pathlib.Path(witrpc.__file__).parent.glob("_witrpc*.so"))
    needed = {int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", library.read_bytes())}
    assert max(needed) <= promised
    if shutil.which("readelf") is None:
        pytest.skip("no readelf to list the libraries that it needs")
    listed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    libraries = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", listed))
    assert libraries <= {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"} | {
        name for name in libraries if name.startswith("ld-linux")
    }


def test_the_wheel_is_built_from_the_sdist() -> None:
    """`make wheel` packs the source, unpacks it elsewhere, and builds there: that this ran is the test of the sdist."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    sdist = next((target / "wheels").glob("witrpc-*.tar.gz"), None)
    if sdist is None:
        pytest.skip("the wheel was built elsewhere")
    with tarfile.open(sdist) as archive:
        names = {entry.name.partition("/")[2] for entry in archive}
    assert {"PKG-INFO", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "pyproject.toml", "Cargo.toml", "Cargo.lock"} <= names
    package = pathlib.Path(witrpc.__file__).parent
    installed = {f"package/witrpc/{path.name}" for path in package.iterdir() if path.suffix in (".py", ".pyi", ".typed")}
    assert installed <= names
    assert not [name for name in names if "target/" in name or "__pycache__" in name]
