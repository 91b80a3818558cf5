"""The threads on which plain functions answer calls.

They are daemon threads: a handler that never ends does not keep the process from ending, as the threads of
:mod:`concurrent.futures` would, which Python waits for at exit.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

__all__ = ["Pool"]

# What is done; ``None`` once it was cancelled or has begun.
_Job: TypeAlias = list[Callable[[], object] | None]


class Pool:
    """At most ``size`` threads, made when they are needed and kept until :meth:`shutdown`."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads = 0
        self._closed = False

    def submit(self, function: Callable[..., object], *args: Any) -> Callable[[], object]:
        """Has a function run on a thread, and gives what takes that back if it has not begun. It must not raise."""
        job: _Job = [lambda: function(*args)]
        with self._lock:
            if self._closed:
                raise RuntimeError("the server has stopped")
            self._jobs.put(job)
            if not self._idle.acquire(blocking=False) and self._threads < self._size:
                self._threads += 1
                thread = threading.Thread(target=self._work, name=f"{self._name}_{self._threads - 1}", daemon=True)
                thread.start()
        return lambda: self._take(job)

    def shutdown(self) -> None:
        """Takes back what has not begun; threads end with what they run. Waits for nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            with contextlib.suppress(queue.Empty):
                while True:
                    self._jobs.get_nowait()
            for _ in range(self._threads):
                self._jobs.put(None)

    def _take(self, job: _Job) -> Callable[[], object] | None:
        with self._lock:
            work, job[0] = job[0], None
        return work

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                # Only who waits is idle: a thread that finds its next job at once is not.
                self._idle.release()
                job = self._jobs.get()
            if job is None:
                return
            work = self._take(job)
            if work is not None:
                work()
            # Nothing of the call is kept until the next one.
            del job, work
