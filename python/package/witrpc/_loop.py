"""One bridge for each event loop: the way from threads of the library to the loop."""

from __future__ import annotations

import asyncio
import os
import threading

from ._witrpc import Bridge

_bridges: dict[int, tuple[asyncio.AbstractEventLoop, Bridge]] = {}


def running_bridge() -> Bridge:
    """Gives the bridge of the running loop, made with its first use."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise no_loop() from None
    entry = _bridges.get(id(loop))
    if entry is not None and entry[0] is loop:
        return entry[1]
    return _make(loop)


def no_loop() -> RuntimeError:
    """The error of what needs an event loop, where none runs."""
    error = RuntimeError("this belongs to an event loop, and none is running here")
    error.add_note("Put it into a coroutine that asyncio.run(...) runs, or use witrpc.sync, which needs no loop.")
    return error


def _make(loop: asyncio.AbstractEventLoop) -> Bridge:
    for key, (other, _) in list(_bridges.items()):
        if other.is_closed():
            del _bridges[key]

    def report(error: BaseException) -> None:
        loop.call_exception_handler({"message": "witrpc: a notification failed", "exception": error})

    bridge = Bridge(loop.create_future, report)
    try:
        loop.add_reader(bridge.fileno(), bridge.drain)
    except NotImplementedError:
        # The proactor loop of Windows watches no descriptors: a thread does it.
        threading.Thread(target=_watch, args=(loop, bridge), name="witrpc-wake", daemon=True).start()
    _bridges[id(loop)] = (loop, bridge)
    return bridge


def _watch(loop: asyncio.AbstractEventLoop, bridge: Bridge) -> None:
    while True:
        bridge.wait()
        try:
            loop.call_soon_threadsafe(bridge.drain)
        except RuntimeError:
            return


# A loop that is running in the child of a fork has the descriptors of its parent: it gets new ones.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_bridges.clear)
