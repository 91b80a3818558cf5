"""Events of a server: who gets them, and the connections that do."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from . import _witrpc, contract
from .errors import ClosedError, InvalidArgumentError

if TYPE_CHECKING:
    from ._call import Call

__all__ = ["Connection"]


class Connection:
    """A connection of a server: a client that was authorised."""

    __slots__ = ("_groups", "_publisher", "events_dropped", "events_waiting", "id", "peer", "principal")

    id: uuid.UUID
    """Its id; a client that reconnects has another one."""
    peer: str
    """The address of the client."""
    principal: str
    """Who the client is, as the validator of tokens said."""
    events_waiting: int
    """Events that waited for the client to read when this was made."""
    events_dropped: int
    """Events that had been dropped by then, because the client did not read as fast as they came."""

    def __init__(
        self,
        publisher: _witrpc.Publisher,
        id: uuid.UUID,
        peer: str,
        principal: str,
        *,
        groups: list[str] | None = None,
        events_waiting: int = 0,
        events_dropped: int = 0,
    ) -> None:
        """Made by servers."""
        self._publisher = publisher
        self._groups = groups
        self.id = id
        self.peer = peer
        self.principal = principal
        self.events_waiting = events_waiting
        self.events_dropped = events_dropped

    def join(self, group: str) -> bool:
        """Puts it into a group, to which events can be raised. False if it has ended."""
        return self._publisher.join(self.id, group)

    def leave(self, group: str) -> bool:
        """Takes it out of a group. False if it was not in it."""
        return self._publisher.leave(self.id, group)

    @property
    def groups(self) -> list[str]:
        """The groups that it is in; of one that has ended, was in."""
        return list(self._groups) if self._groups is not None else self._publisher.groups_of(self.id)

    def __repr__(self) -> str:
        """Who, and from where."""
        return f"<connection of {self.principal or 'a client'} from {self.peer}>"


Who: TypeAlias = "uuid.UUID | Connection | Call"
"""A connection: itself, its id, or a call that came on it."""


class Audience(NamedTuple):
    """Who gets an event, as the native half takes it."""

    connections: list[uuid.UUID] | None
    groups: list[str] | None
    principal: str | None
    but: list[uuid.UUID]


def _id(who: Any) -> uuid.UUID:
    found = who if isinstance(who, uuid.UUID) else getattr(who, "id", None) or getattr(who, "connection", None)
    if not isinstance(found, uuid.UUID):
        raise InvalidArgumentError(f"{who!r} is no connection: give a Connection, its id, or a call that came on it")
    return found


def _ids(who: Any) -> list[uuid.UUID]:
    several = isinstance(who, Iterable) and not isinstance(who, str)
    return [_id(one) for one in who] if several else [_id(who)]


def audience(
    connections: Who | Iterable[Who] | None,
    group: str | Iterable[str] | None,
    principal: str | None,
    but: Who | Iterable[Who] | None,
) -> Audience:
    """Who is meant. Nobody named is a mistake, and not everybody."""
    if connections is None and group is None and principal is None and but is None:
        raise InvalidArgumentError("to whom? Name connections, group=, principal= or but=; an event itself goes to every client")
    groups = None if group is None else [group] if isinstance(group, str) else list(group)
    return Audience(None if connections is None else _ids(connections), groups, principal, [] if but is None else _ids(but))


def raise_event(
    publisher: _witrpc.Publisher, native: _witrpc.Contract, line: str, args: tuple[Any, ...], to: Audience | None
) -> int:
    """Raises an event to an audience, or to all."""
    return (publisher if to is None else publisher.to(*to)).raise_event(native, line, args)


Raise: TypeAlias = Callable[[tuple[Any, ...], Audience | None], int]


class RaisedEvent(contract.Event[Any]):
    """An event as it looks to those who raise it."""

    def __init__(self, raising: Raise, to: Audience | None = None) -> None:
        self._raise = raising
        self._to = to

    def __call__(self, *args: Any) -> int:
        """Raises it."""
        return self._raise(args, self._to)

    def to(
        self,
        connections: Who | Iterable[Who] | None = None,
        *,
        group: str | Iterable[str] | None = None,
        principal: str | None = None,
        but: Who | Iterable[Who] | None = None,
    ) -> contract.Event[Any]:
        return RaisedEvent(self._raise, audience(connections, group, principal, but))


Publish: TypeAlias = Callable[[_witrpc.Contract, str, tuple[Any, ...], "Audience | None"], int]


_served: weakref.WeakKeyDictionary[Any, list[tuple[weakref.WeakMethod[Any], contract.ContractInfo]]] = weakref.WeakKeyDictionary()


def serves(instance: Any, publish: Publish, info: contract.ContractInfo) -> None:
    """Notes that a server, whose method ``publish`` is, serves this object."""
    known = _served.setdefault(instance, [])
    known[:] = [(reference, other) for reference, other in known if reference() is not None]
    # A server that could not start, and is started again, is there already.
    if all(reference() != publish for reference, _ in known):
        known.append((weakref.WeakMethod(publish), info))


def raised_by(instance: Any, name: str) -> contract.Event[Any]:
    """The event of an object that is served, or will be."""

    def raising(args: tuple[Any, ...], to: Audience | None) -> int:
        count, raised = 0, False
        for reference, info in _served.get(instance, ()):
            publish = reference()
            event = next((event for event in info.events if event.python_name == name), None)
            if publish is not None and event is not None:
                count += publish(info.native, event.line, args, to)
                raised = True
        if not raised:
            raise ClosedError(f"the event {name} was raised, and nothing serves {instance!r}")
        return count

    return RaisedEvent(raising)
