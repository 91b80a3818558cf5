"""The command ``witrpc``."""

from __future__ import annotations

import signal
import sys

from . import _witrpc


def main() -> int:
    """Runs the command with the arguments of the process and gives its exit code."""
    # The command has its own way of ending on Ctrl+C; Python's would wait for it to return.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _witrpc.command(["witrpc", *sys.argv[1:]])
