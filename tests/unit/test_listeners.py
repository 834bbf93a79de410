"""Ports that several processes share: kept from others, and left to others."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, suppress

import pytest
from florin_server.boot.servers import listeners
from florin_server.boot.servers.addresses import GRPC_PORT, reserve
from florin_server.boot.servers.listeners import stop_listening

from tests.support.until import until

HERE = "127.0.0.1"


def kept(stack: ExitStack, port: int = 0) -> socket.socket:
    return stack.enter_context(reserve("gRPC", HERE, port, GRPC_PORT))


def listener(stack: ExitStack, port: int) -> socket.socket:
    """As gRPC makes one."""
    made = stack.enter_context(socket.socket())
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        made.setsockopt(socket.SOL_SOCKET, option, 1)
    made.bind((HERE, port))
    made.listen()
    return made


def reaches(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex((HERE, port)) == 0


def test_a_reserved_port_is_shared_by_those_who_mean_to():
    with ExitStack() as stack:
        port = kept(stack).getsockname()[1]
        assert not reaches(port)
        first, second = listener(stack, port), listener(stack, port)
        assert reaches(port)
        first.close()
        assert all(reaches(port) for _ in range(20))
        second.close()
        assert not reaches(port)


@pytest.mark.parametrize("listens", [False, True])
def test_a_second_service_is_told_that_the_port_is_taken(listens):
    with ExitStack() as stack:
        port = kept(stack).getsockname()[1]
        if listens:
            listener(stack, port)
        with pytest.raises(OSError, match=f"gRPC cannot listen on {HERE}:{port}: "):
            kept(stack, port)
        with pytest.raises(OSError, match="in use"):
            stack.enter_context(socket.create_server((HERE, port)))


def test_a_port_is_reserved_again_at_once():
    """A service that restarts finds old connections that the system still remembers."""
    with ExitStack() as stack:
        first = kept(stack)
        port = first.getsockname()[1]
        with listener(stack, port) as gone, socket.create_connection((HERE, port)):
            # who closes first has to remember the connection
            gone.accept()[0].close()
        first.close()
        assert kept(stack, port).getsockname()[1] == port


async def test_who_stops_listening_leaves_the_port_to_the_others():
    with ExitStack() as stack:
        port = kept(stack).getsockname()[1]
        mine = listener(stack, port)
        with socket.create_connection((HERE, port)) as caller:
            accepted, _ = mine.accept()
            assert await stop_listening(port) == 1
            assert not reaches(port)
            # what there is goes on
            accepted.send(b"still here")
            assert caller.recv(100) == b"still here"
            accepted.close()
        assert await stop_listening(port) == 0
        listener(stack, port)
        assert reaches(port)


async def test_who_knocks_while_a_process_leaves_is_let_in_by_another(monkeypatch):
    loop, calls = asyncio.get_running_loop(), 20
    with ExitStack() as stack:
        port = kept(stack).getsockname()[1]
        leaves, stays = listener(stack, port), listener(stack, port)
        # both are of this process here
        monkeypatch.setattr(listeners, "_listening", lambda: iter([leaves.dup()]))
        accepted: list[socket.socket] = []

        def accept(one: socket.socket) -> None:
            one.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    made, _ = one.accept()
                    accepted.append(stack.enter_context(made))
                    made.send(b"in")

        async def call() -> socket.socket:
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            await loop.sock_connect(caller, (HERE, port))
            return caller

        callers = [
            stack.enter_context(socket.create_connection((HERE, port))) for _ in range(calls)
        ]
        leaving = asyncio.create_task(stop_listening(port))
        await asyncio.sleep(0)
        # what came before is let in late, and after that it lets nobody in
        accept(leaves)
        assert accepted
        meanwhile = [asyncio.create_task(call()) for _ in range(calls)]
        assert await leaving == 1
        async with asyncio.timeout(20):
            callers += await asyncio.gather(*meanwhile)
            accept(stays)
            for one in callers:
                one.setblocking(False)
                assert await loop.sock_recv(one, 2) == b"in"
        assert len(accepted) == len(callers)


async def test_what_waits_to_be_accepted_is_waited_for(monkeypatch):
    monkeypatch.setattr(listeners, "_MADE_S", 0)
    monkeypatch.setattr(listeners, "_ACCEPTED_S", 60)
    with ExitStack() as stack:
        port = kept(stack).getsockname()[1]
        mine = listener(stack, port)
        caller = stack.enter_context(socket.create_connection((HERE, port)))
        leaving = asyncio.create_task(stop_listening(port))
        looked: list[socket.socket] = []
        waiting = listeners.waiting
        monkeypatch.setattr(listeners, "waiting", lambda one: looked.append(one) or waiting(one))
        await until(lambda: len(looked) > 2)
        assert not leaving.done()
        stack.enter_context(mine.accept()[0]).send(b"in")
        assert await leaving == 1
        assert caller.recv(2) == b"in"


async def test_what_was_inherited_is_not_ended_for_everybody():
    with socket.create_server((HERE, 0)) as everybodys:
        port = everybodys.getsockname()[1]
        assert await stop_listening(port) == 0
        assert reaches(port)
