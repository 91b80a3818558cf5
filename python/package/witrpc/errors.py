"""Errors: one tree under :class:`WitRpcError`.

Each error says what happened (``code``, ``message``, ``details``), whether the request left this machine
(``outcome``), and how often it was tried (``attempts``). Many are also what Python calls them: a timeout is a
:class:`TimeoutError`, a lost connection a :class:`ConnectionError`, a refused token a :class:`PermissionError`.
What to do about an error stands in its notes, which Python prints below it.
"""

from __future__ import annotations

import builtins
import difflib
import enum
from collections.abc import Iterable
from typing import Any

__all__ = [
    "BadRequestError",
    "CallCancelledError",
    "CertificateError",
    "ClosedError",
    "ConnectionError",
    "EncryptionError",
    "ForkedProcessError",
    "InternalError",
    "InvalidArgumentError",
    "Outcome",
    "OutcomeUnknownError",
    "OverloadedError",
    "ProtocolError",
    "RemoteError",
    "TimeoutError",
    "UnauthorizedError",
    "WitRpcError",
]


class Outcome(enum.Enum):
    """What is known about a call that failed."""

    NOT_SENT = "not_sent"
    """The request did not leave this machine: the method did not run."""
    UNKNOWN = "unknown"
    """The request was sent and no answer came: the method may have run."""
    ANSWERED = "answered"
    """The server answered."""


class WitRpcError(Exception):
    """The base of all errors of this package."""

    code = "internal"
    """The stable name of the kind of error, the same in every language binding."""

    def __init__(
        self,
        message: str,
        *,
        details: str | None = None,
        outcome: Outcome = Outcome.NOT_SENT,
        attempts: int = 0,
        replayed: bool = False,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        """All but the message have defaults: those of an error about something that was not sent."""
        super().__init__(message)
        self.message = message
        """What happened, in words. Of a remote failure the server's message."""
        self.details = details
        """What lies behind it. Of a remote failure what the method's exception said."""
        self.outcome = outcome
        """Whether the request left this machine and was answered."""
        self.attempts = attempts
        """How many attempts were sent or tried; 0 where the call never got that far."""
        self.replayed = replayed
        """True if the server answered from its memory: an earlier attempt had been executed and failed so."""
        self.retryable = retryable
        """True if the same call may succeed later and repeating it is known not to execute it twice."""
        self.retry_after = retry_after
        """How long the server asks to wait before another try, in seconds."""

    def __str__(self) -> str:
        """One line with everything that matters."""
        return f"{self.message}: {self.details}" if self.details else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes, as in a pool of workers."""
        values = (self.message, self.details, self.outcome, self.attempts, self.replayed, self.retryable)
        return _unpickle, (type(self), *values, self.retry_after)


def _unpickle(
    kind: type[WitRpcError],
    message: str,
    details: str | None,
    outcome: Outcome,
    attempts: int,
    replayed: bool,
    retryable: bool,
    retry_after: float | None,
) -> WitRpcError:
    return kind(
        message,
        details=details,
        outcome=outcome,
        attempts=attempts,
        replayed=replayed,
        retryable=retryable,
        retry_after=retry_after,
    )


class InvalidArgumentError(WitRpcError, ValueError):
    """A value, name, line or option given by the caller is wrong. Nothing was sent."""

    code = "invalid_argument"


class BadRequestError(WitRpcError):
    """The server understood no such request: unknown method, undecodable argument (status 400)."""

    code = "bad_request"


class UnauthorizedError(WitRpcError, PermissionError):
    """The token was refused, at the handshake or for this call (status 561)."""

    code = "unauthorized"


class TimeoutError(WitRpcError, builtins.TimeoutError):
    """No answer in time, or no connection in time (status 408)."""

    code = "timeout"


class ConnectionError(WitRpcError, builtins.ConnectionError):
    """The connection could not be made, was lost, or is not there (status 503)."""

    code = "transport"


class RemoteError(WitRpcError):
    """The method failed on the server. ``details`` is what its exception said.

    That is status 500, or any that has no class of its own; the number is not kept.
    """

    code = "remote"


class OutcomeUnknownError(WitRpcError):
    """Whether the call was executed can't be told, and repeating it could execute it twice."""

    code = "outcome_unknown"


class CallCancelledError(WitRpcError):
    """The call was cancelled. A cancelled *task* gets :class:`asyncio.CancelledError` instead."""

    code = "cancelled"


class OverloadedError(WitRpcError):
    """A queue or limit is full, here or at the server (status 503)."""

    code = "overloaded"


class ClosedError(WitRpcError, builtins.ConnectionError):
    """The client or server was closed or disconnected by its user."""

    code = "closed"


class ProtocolError(WitRpcError):
    """The peer broke the protocol, speaks another version of it, or sent what can't be read."""

    code = "protocol"


class EncryptionError(WitRpcError, builtins.ConnectionError):
    """The peers do not agree on encryption, or a sealed message did not open."""

    code = "encryption"


class CertificateError(WitRpcError, builtins.ConnectionError):
    """The peer's certificate was not accepted, or it did not accept ours."""

    code = "certificate"


class InternalError(WitRpcError, RuntimeError):
    """A defect in this package or in a handler; the message says what is known."""

    code = "internal"


class ForkedProcessError(WitRpcError, RuntimeError):
    """The object was made before a fork, and this is the child: its threads and its connection are not here."""

    code = "forked"


_BY_CODE: dict[str, type[WitRpcError]] = {
    kind.code: kind
    for kind in (
        InvalidArgumentError,
        BadRequestError,
        UnauthorizedError,
        TimeoutError,
        ConnectionError,
        RemoteError,
        OutcomeUnknownError,
        CallCancelledError,
        OverloadedError,
        ClosedError,
        ProtocolError,
        EncryptionError,
        CertificateError,
        InternalError,
    )
}

# What a user can do, by the code and the outcome of the error.
_ADVICE: dict[tuple[str, str | None], str] = {
    (
        "transport",
        "not_sent",
    ): "Nothing was sent. Is the server running there? With reconnect=witrpc.Reconnect() calls wait for the connection instead.",
    ("transport", "unknown"): "The method may have run. If it may run twice, say so: "
    "retry=witrpc.Retry(idempotent=[...]), or deduplicated=[...] if it must not.",
    ("timeout", "unknown"): "The method may have run. Give it more time with timeout=, or declare it in retry=witrpc.Retry(...).",
    (
        "timeout",
        "not_sent",
    ): "Nothing was sent in this time. Give it more with timeout=, or look why there is no connection: client.last_error.",
    ("outcome_unknown", None): "Ask the service what became of it before you call again.",
    ("unauthorized", None): "Check token=. A callable is asked again for every connection.",
    ("encryption", None): "encryption=True must be set on both ends or on neither.",
    (
        "overloaded",
        "not_sent",
    ): "The queue of waiting calls is full: make fewer at a time, or give it more room with limits=witrpc.Limits(...).",
    ("bad_request", "answered"): "The server has no such method, or can't read an argument. A contract is named as the interface "
    "is in C#, with its namespace; a method has the name and the types that it has there; codec= is the server's.",
    ("protocol", None): "codec= must be that of the server, and the types of a method those that it has there.",
    ("closed", None): "Make a new client: one that was closed stays closed.",
}


# Where a message says more than its code: how it begins, and what to do.
_SPECIAL = {
    "not connected": "Connect first: use the client with `async with` (or `with`), or call connect().",
    "can't listen on": "Another program, or another run of this one, has that place: stop it, or serve elsewhere; "
    "port 0 takes a port that is free.",
}


def _make(
    code: str,
    message: str,
    details: str | None,
    outcome: str,
    attempts: int,
    replayed: bool,
    retryable: bool,
    retry_after_ms: int | None = None,
) -> WitRpcError:
    """Makes the exception of a native error."""
    error = _BY_CODE.get(code, InternalError)(
        message,
        details=details,
        outcome=Outcome(outcome),
        attempts=attempts,
        replayed=replayed,
        retryable=retryable,
        retry_after=None if retry_after_ms is None else retry_after_ms / 1000,
    )
    special = (advice for begin, advice in _SPECIAL.items() if message.startswith(begin))
    advice = next(special, None) or _ADVICE.get((code, outcome)) or _ADVICE.get((code, None))
    if advice:
        error.add_note(advice)
    return error


def _text(value: object) -> str:
    """The text of an exception of a user, or of what it holds, that can be sent whatever it is."""
    try:
        text = str(value)
    except BaseException:
        return f"{type(value).__name__} without a text: its __str__ failed"
    # Half of a surrogate pair, as in names of files that are not UTF-8, is shown as Python writes it.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _unknown(what: str, name: str, known: Iterable[str]) -> InvalidArgumentError:
    """The error of an option that there is not."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    meant = f": did you mean {close[0]!r}?" if close else ""
    error = InvalidArgumentError(f"{what} has no option {name!r}{meant}")
    error.add_note(f"It has {', '.join(names)}.")
    return error


def _forked() -> WitRpcError:
    error = ForkedProcessError("this was made before the process forked, and can't be used in the child")
    error.add_note("Make a new client here: in a worker's initializer, in post_fork, or start workers with 'spawn'.")
    return error
