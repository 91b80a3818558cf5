"""Events to some of the clients, the groups of connections, and what a server is told of them."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Protocol

import pytest
import witrpc
from conftest import run


class IRoom(witrpc.Contract, Protocol, name="My.IRoom"):
    async def enter(self, room: str) -> None: ...
    async def leave(self, room: str) -> bool: ...
    async def say(self, how: str, text: str) -> int: ...

    Said: witrpc.Event[str] = witrpc.Event()


class Room(IRoom):
    async def enter(self, room: str) -> None:
        assert witrpc.current_call().join(room)

    async def leave(self, room: str) -> bool:
        return witrpc.current_call().leave(room)

    async def say(self, how: str, text: str) -> int:
        call = witrpc.current_call()
        ways: dict[str, Callable[[], witrpc.Event[str]]] = {
            "all": lambda: self.Said,
            "caller": lambda: self.Said.to(call),
            "others": lambda: self.Said.to(but=call),
            "room": lambda: self.Said.to(group="room"),
            "rooms": lambda: self.Said.to(group=["room", "other"], but=[call]),
            "principal": lambda: self.Said.to(principal="ann"),
            "nobody": lambda: self.Said.to([]),
            "ids": lambda: self.Said.to([call.connection, call]),
            "whom": lambda: self.Said.to(),
            "both": lambda: self.Said.to(call, principal="ann"),
            "odd": lambda: self.Said.to("ann"),  # type: ignore[arg-type]
        }
        return ways[how]()(text)


def test_events_go_to_whom_they_are_meant_for() -> None:
    async def main() -> None:
        names = {"a": "ann", "b": "bob", "c": "ann"}
        async with witrpc.serve("tcp://127.0.0.1:0", Room(), validator=lambda token, _: names[token]) as server:
            clients = {name: await witrpc.connect(server.endpoint, token=name) for name in names}
            rooms = {name: client.service(IRoom) for name, client in clients.items()}
            streams = {name: room.Said.stream() for name, room in rooms.items()}
            await rooms["a"].enter("room")
            await rooms["b"].enter("other")
            assert [len(server.members(name)) for name in ("room", "other", "none")] == [1, 1, 0]

            async def heard(how: str, count: int) -> str:
                assert await rooms["a"].say(how, how) == count
                # What was raised first comes first: up to the mark, that is everything.
                await rooms["a"].say("all", "mark")
                found = []
                for name, stream in streams.items():
                    texts = []
                    while (text := await anext(aiter(stream))) != "mark":
                        texts.append(text)
                    assert texts in ([], [how])
                    found += [name] * len(texts)
                return "".join(found)

            assert await heard("all", 3) == "abc"
            assert await heard("caller", 1) == "a"
            assert await heard("others", 2) == "bc"
            assert await heard("room", 1) == "a"
            assert await heard("rooms", 1) == "b"
            assert await heard("principal", 2) == "ac"
            assert await heard("nobody", 0) == ""
            assert await heard("ids", 1) == "a"
            assert await rooms["a"].leave("room")
            assert not await rooms["a"].leave("room")
            assert await heard("room", 0) == ""
            for how, message in [
                ("whom", "to whom[?] Name connections"),
                ("both", "name one of these"),
                ("odd", "'ann' is no connection"),
            ]:
                with pytest.raises(witrpc.RemoteError, match=message):
                    await rooms["a"].say(how, "x")
            with pytest.raises(TypeError, match="this is a client"):
                rooms["a"].Said.to(group="room")
            for client in clients.values():
                await client.close()

    run(main())


def test_the_same_without_a_class_and_from_a_thread() -> None:
    handlers = witrpc.Handlers("My.IRoom")

    @handlers.method("void Enter(string room)")
    def enter(room: str) -> None:
        witrpc.current_call().join(room)

    with witrpc.sync.serve("tcp://127.0.0.1:0", handlers) as server:
        said = handlers.event("event Action<string> Said")
        with witrpc.sync.connect(server.endpoint) as one, witrpc.sync.connect(server.endpoint) as two:
            streams = [client.service("My.IRoom").event("event Action<string> Said").stream() for client in (one, two)]
            one.service("My.IRoom").call("void Enter(string room)", "room")
            [member] = server.members("room")
            assert said.to(group="room")("inside") == 1
            assert said.to(but=member)("outside") == 1
            assert handlers.raise_event("event Action<string> Said", "all") == 2
            assert [stream.get(timeout=10) for stream in streams for _ in range(2)] == ["inside", "all", "outside", "all"]
            seen = server.connections
            assert {connection.id for connection in seen} > {member}
            assert all(connection.peer in server.clients for connection in seen)
            assert seen[0].events_dropped == 0
    with pytest.raises(witrpc.ClosedError, match="nothing serves"):
        witrpc.Handlers("My.IRoom").raise_event("event Action<string> Said", "x")


def test_a_server_is_told_of_its_connections(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Any] = []

    def on_connected(connection: witrpc.Connection) -> None:
        events.append(("in", connection.principal, connection.groups))
        assert connection.join("everybody")
        if connection.principal == "bad":
            raise ValueError("on purpose")

    async def main() -> None:
        gone = asyncio.Event()

        async def on_disconnected(connection: witrpc.Connection) -> None:
            await asyncio.sleep(0)
            events.append(("out", connection.principal, connection.groups))
            gone.set()

        service = Room()
        options: dict[str, Any] = {"on_connected": on_connected, "on_disconnected": on_disconnected}
        async with witrpc.serve("tcp://127.0.0.1:0", service, validator=lambda token, _: token, **options) as server:
            for name in ("ann", "bad"):
                gone.clear()
                async with witrpc.connect(server.endpoint, token=name, contract=IRoom) as room:
                    stream = room.Said.stream()
                    # The callback ran before the first call of the client.
                    assert await room.say("principal", "x") == int(name == "ann")
                    assert service.Said.to(group="everybody")("hello") == 1
                    assert [text async for text in _first(stream, 1 + int(name == "ann"))][-1] == "hello"
                await gone.wait()

    with caplog.at_level(logging.ERROR, "witrpc"):
        run(main())
    assert events == [
        ("in", "ann", []),
        ("out", "ann", ["everybody"]),
        ("in", "bad", []),
        ("out", "bad", ["everybody"]),
    ]
    assert "a callback of a server failed" in caplog.text
    with pytest.raises(witrpc.InvalidArgumentError, match="on_connected is 5: it must be a function"):
        witrpc.serve("tcp://127.0.0.1:0", Room(), on_connected=5)  # type: ignore[arg-type]


async def _first(stream: witrpc.EventStream[str], count: int) -> Any:
    for _ in range(count):
        yield await anext(aiter(stream))


def test_a_plain_on_connected_waits_for_no_other_callback() -> None:
    async def main() -> None:
        entered, free, left = asyncio.Event(), asyncio.Event(), []

        async def on_disconnected(connection: witrpc.Connection) -> None:
            entered.set()
            await free.wait()
            left.append(connection.principal)

        service = Room()
        server = await witrpc.serve(
            "tcp://127.0.0.1:0",
            service,
            validator=lambda token, _: token,
            on_connected=lambda connection: connection.join("everybody"),
            on_disconnected=on_disconnected,
        )
        async with witrpc.connect(server.endpoint, token="a"):
            pass
        await entered.wait()
        async with witrpc.connect(server.endpoint, token="b", contract=IRoom) as room:
            stream = room.Said.stream()
            assert await room.leave("everybody")
            stream.close()
        free.set()
        await server.stop()
        # Stopping waits for them.
        assert left == ["a", "b"]

    run(main())


def test_queues_of_one_subscription_and_their_counts() -> None:
    handlers = witrpc.Handlers("My.IRoom")

    @handlers.method("void Raise(int count)")
    def raise_many(count: int) -> None:
        for n in range(count):
            handlers.raise_event("event Action<int> N", n)

    async def main() -> None:
        async with witrpc.serve("tcp://127.0.0.1:0", handlers) as server, witrpc.connect(server.endpoint) as client:
            service = client.service("My.IRoom")
            event = service.event("event Action<int> N")
            oldest = event.stream(queue=witrpc.EventQueue(max_events=10))
            newest = event.stream(queue=witrpc.EventQueue(max_events=10, overflow="drop_newest"))
            whole = event.stream()
            await service.call("void Raise(int count)", 300)
            assert whole.stats == (0, 0, 300)
            assert [await anext(aiter(oldest)) for _ in range(10)] == list(range(290, 300))
            assert [await anext(aiter(newest)) for _ in range(10)] == list(range(10))
            assert oldest.stats == newest.stats == (10, 290, 0)
            assert oldest.dropped == 290
            assert await anext(aiter(whole)) == 0
            assert whole.stats == (1, 0, 299)
            with pytest.raises(witrpc.InvalidArgumentError, match="at least 1 event"):
                event.stream(queue=witrpc.EventQueue(max_events=0))
            # Both ends are to know that something is missing: the link is dropped.
            dropping = event.stream(queue=witrpc.EventQueue(max_events=10, overflow="disconnect"))
            with pytest.raises(witrpc.ConnectionError):
                await service.call("void Raise(int count)", 300, timeout=20)
            assert client.state is not witrpc.State.CONNECTED
            dropping.close()

    run(main())


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes are stopped by a signal of POSIX")
@pytest.mark.parametrize("overflow", ["disconnect", "drop_oldest", "drop_newest"])
def test_a_client_that_does_not_read_its_events_is_closed_or_counted(overflow: Any) -> None:
    handlers = witrpc.Handlers("My.IRoom")
    handlers.method("void Nothing()")(lambda: None)
    reader = (
        "import sys, time, witrpc; c = witrpc.sync.connect(sys.argv[1]); c.connect(); print('ready', flush=True); time.sleep(100)"
    )
    queue = witrpc.EventQueue(max_events=4, max_bytes=400_000, overflow=overflow)
    with witrpc.sync.serve("tcp://127.0.0.1:0", handlers, event_queue=queue) as server:
        command = [sys.executable, "-c", reader, server.endpoint]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                os.kill(process.pid, signal.SIGSTOP)
                said = handlers.event("event Action<string> Said")
                # More than sockets hold.
                for _ in range(1_000):
                    said("x" * 100_000)
                stats = server.stats
                if overflow == "disconnect":
                    assert stats.slow_clients_closed == 1
                else:
                    assert stats.slow_clients_closed == 0
                    assert stats.events_dropped > 500
                    [connection] = server.connections
                    assert connection.events_dropped == stats.events_dropped
                    assert 0 < connection.events_waiting <= 4
            finally:
                process.kill()
