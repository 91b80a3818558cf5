"""Calls that outlive the process: where they are kept, and of which methods."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import os
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ._call import Call, Fault
from .errors import InvalidArgumentError
from .options import Seconds, Tls

__all__ = ["Journal", "RedisStore", "Resolution", "durable"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, slots=True)
class Journal:
    """A store of calls in files: it survives the death of the process at any moment, and that of the machine.

    For one server; bounded as ``dedup=`` of the server says. It holds the answers of calls in clear, for this user alone.
    """

    directory: str | os.PathLike[str]
    """A directory of its own, which is made if it is not there."""


@dataclasses.dataclass(frozen=True, slots=True)
class RedisStore:
    """A store of calls in Redis or Valkey, for all servers of a fleet: a call repeated at another server does not run twice.

    All servers of a fleet are given the same.
    """

    url: str
    """``redis://[[user]:password@]host[:port][/database]``, ``rediss://`` over TLS, or ``redis+unix:///path/of/socket``. One that
    holds all keys: not a Redis Cluster, not a replica."""
    prefix: str = "witrpc:"
    """What the names of all keys begin with. Fleets that share a Redis need different ones."""
    lease: Seconds = 10.0
    """How long a call counts as running after the last sign of life of the server that runs it; its outcome is unknown
    from then on."""
    hold: Seconds = 600.0
    """How long an answer is held after its call ended."""
    client_hold: Seconds = 86_400.0
    """How long the numbers of a libwitrpc client's calls are remembered after its last one."""
    timeout: Seconds = 5.0
    """How long a request to Redis may take, reconnecting included."""
    wait_replicas: int = 0
    """Replicas that must have a record before it counts."""
    trust_restarts: bool = False
    """Redis loses nothing that it acknowledged when it is started again or replaced. Else clients end calls that were on
    their way as outcome unknown then."""
    tls: Tls | None = None
    """Which certificate of a Redis at ``rediss://`` is trusted. Default: those that the system trusts."""


class Resolution(enum.Enum):
    """What a resolver says of a call, if it is not its result."""

    NOT_EXECUTED = "not_executed"
    """It was not executed, and what was begun of it can't be completed any more: it runs."""
    UNKNOWN = "unknown"
    """That can't be told: so the caller is told."""


@overload
def durable(function: F) -> F: ...
@overload
def durable(*, resolver: Callable[..., Any] | None = None) -> Callable[[F], F]: ...
def durable(function: Any = None, *, resolver: Any = None) -> Any:
    """Has the calls of a method kept in the store of its server: ``@witrpc.durable``, on the handler.

    The intent is stored before the method runs and the answer before it is sent, so that it does not run twice even if
    the server is killed. That takes the time of two writes: for what must not happen twice.

    :param resolver: Asked about a call that was begun in an earlier life of the server, or by another one of the fleet
        that has died, and whose answer is not stored.
        A handler that writes the id of its call and its result to its own database, in the transaction in which it
        does its work, can be found there. A function, or a coroutine function, of the object that is served (for a
        method of a class) and the :class:`Call`; it gives the result, raises the :class:`Fault` that it ended with, or
        gives a :class:`Resolution`.
    """

    def note(function: F) -> F:
        if not callable(function):
            raise InvalidArgumentError(f"@witrpc.durable stands on a function, and {function!r} is none")
        function.__witrpc_durable__ = (resolver,)  # type: ignore[attr-defined]
        return function

    return note if function is None else note(function)


def resolver_of(function: Callable[..., Any]) -> tuple[bool, Callable[..., Any] | None]:
    """Whether the calls of a handler are kept, and what is asked about those without an answer."""
    marked = getattr(function, "__witrpc_durable__", None)
    if marked is None:
        return False, None
    resolver, owner = marked[0], getattr(function, "__self__", None)
    if resolver is None:
        return True, None

    def ask(context: Any) -> Any:
        call = Call(context)
        return resolver(call) if owner is None else resolver(owner, call)

    async def resolve_later(context: Any) -> tuple[Any, ...]:
        try:
            return _said(await ask(context))
        except Fault as fault:
            return _failed(fault)

    def resolve(context: Any) -> tuple[Any, ...]:
        try:
            return _said(ask(context))
        except Fault as fault:
            return _failed(fault)

    return True, resolve_later if inspect.iscoroutinefunction(resolver) else resolve


def _said(answer: Any) -> tuple[Any, ...]:
    return (answer.value,) if isinstance(answer, Resolution) else ("executed", answer)


def _failed(fault: Fault) -> tuple[Any, ...]:
    return ("failed", fault.status, str(fault), fault.details)
