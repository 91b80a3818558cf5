"""The call that a handler answers, and how it says that it failed."""

from __future__ import annotations

import contextvars
import uuid

from . import _witrpc
from .errors import InvalidArgumentError

__all__ = ["Call", "Fault", "current_call"]


class Fault(Exception):
    """Raised by a handler: the status and the texts that the caller gets.

    Any other exception is status 500 with its own text as details. Status 503 says that the handler refuses for now
    and has done nothing: that is not remembered, and the caller's retry policy may try again.

    A caller in Python gets the class of error that the status means: 400 is :class:`~witrpc.BadRequestError`, 408
    :class:`~witrpc.TimeoutError`, 503 :class:`~witrpc.OverloadedError`, 561 :class:`~witrpc.UnauthorizedError`, any other
    :class:`~witrpc.RemoteError`. The number itself it does not get: say in the texts what it must know.
    """

    def __init__(self, message: str, *, status: int = 500, details: str | None = None) -> None:
        """``message`` is what the caller sees first, ``details`` what lies behind it.

        ``status`` is 400 to 599, a :class:`ValueError` otherwise; it decides which error the caller gets.
        """
        if not isinstance(status, int) or isinstance(status, bool) or not 400 <= status <= 599:
            raise ValueError(f"status is {status!r}: a fault has a number from 400 to 599")
        super().__init__(message)
        self.status = status
        self.details = details


class Call:
    """The call that a handler answers."""

    def __init__(self, native: _witrpc.CallContext) -> None:
        self._native = native

    @property
    def contract(self) -> str:
        """The .NET name of the contract."""
        return self._native.contract

    @property
    def method(self) -> str:
        """The name of the method."""
        return self._native.method

    @property
    def invocation_id(self) -> uuid.UUID:
        """Stable over the attempts of one call."""
        return self._native.invocation_id

    @property
    def principal(self) -> str:
        """Who calls, as the validator of tokens said."""
        return self._native.principal

    @property
    def peer(self) -> str:
        """The address of the client."""
        return self._native.peer

    @property
    def connection(self) -> uuid.UUID:
        """The id of the connection."""
        return self._native.connection

    @property
    def remaining(self) -> float | None:
        """How much of the caller's time is left, in seconds; ``None`` if it did not say."""
        return self._native.remaining

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more. A coroutine function is cancelled then, by itself."""
        return self._native.is_cancelled

    @property
    def type_arguments(self) -> list[str]:
        """The types that a generic method was called with, as C# writes them."""
        return self._native.type_arguments

    @property
    def trace_context(self) -> str | None:
        """What the caller sent along for tracing: a W3C ``traceparent``; ``None`` if it did not."""
        context = self._native.trace_context
        return None if context is None else context.decode("utf-8", "replace")

    def join(self, group: str) -> bool:
        """Puts the connection into a group, to which events can be raised. False if it has ended."""
        return self._native.publisher().join(self._native.connection, group)

    def leave(self, group: str) -> bool:
        """Takes the connection out of a group. False if it was not in it."""
        return self._native.publisher().leave(self._native.connection, group)

    def drop_connection(self) -> None:
        """Closes the connection that the call came on, at once: for clients that must go, and for tests."""
        self._native.drop_connection()


current: contextvars.ContextVar[Call] = contextvars.ContextVar("witrpc_call")


def current_call() -> Call:
    """The call that the running handler answers."""
    try:
        return current.get()
    except LookupError:
        raise InvalidArgumentError("no call is being answered here: current_call() is for handlers") from None
