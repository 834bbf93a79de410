"""Test ports shared by a service's processes: closed to other services, open to all of them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, suppress

import pytest
from florin_server.app.servers import listeners
from florin_server.app.servers.addresses import GRPC_PORT_SETTING, reserve_port
from florin_server.app.servers.listeners import stop_listening

from tests.support.until import wait_until

HERE = "127.0.0.1"


def reserve_socket(stack: ExitStack, port: int = 0) -> socket.socket:
    return stack.enter_context(reserve_port("gRPC", HERE, port, GRPC_PORT_SETTING))


def listener(stack: ExitStack, port: int) -> socket.socket:
    """Return a socket as gRPC opens it."""
    created_socket = stack.enter_context(socket.socket())
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        created_socket.setsockopt(socket.SOL_SOCKET, option, 1)
    created_socket.bind((HERE, port))
    created_socket.listen()
    return created_socket


def reaches(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex((HERE, port)) == 0


def test_reserved_port_is_shared_by_listeners_of_the_service():
    with ExitStack() as stack:
        port = reserve_socket(stack).getsockname()[1]
        assert not reaches(port)
        first, second = listener(stack, port), listener(stack, port)
        assert reaches(port)
        first.close()
        assert all(reaches(port) for _ in range(20))
        second.close()
        assert not reaches(port)


@pytest.mark.parametrize("listens", [False, True])
def test_second_service_gets_port_in_use(listens):
    with ExitStack() as stack:
        port = reserve_socket(stack).getsockname()[1]
        if listens:
            listener(stack, port)
        with pytest.raises(OSError, match=f"gRPC cannot listen on {HERE}:{port}: "):
            reserve_socket(stack, port)
        with pytest.raises(OSError, match="in use"):
            stack.enter_context(socket.create_server((HERE, port)))


def test_a_port_is_reserved_again_at_once():
    """After a restart, the system still remembers old connections."""
    with ExitStack() as stack:
        first = reserve_socket(stack)
        port = first.getsockname()[1]
        with listener(stack, port) as gone, socket.create_connection((HERE, port)):
            # the side that closes first has to remember the connection
            gone.accept()[0].close()
        first.close()
        assert reserve_socket(stack, port).getsockname()[1] == port


async def test_stopped_listener_leaves_the_port_to_its_peers():
    with ExitStack() as stack:
        port = reserve_socket(stack).getsockname()[1]
        mine = listener(stack, port)
        with socket.create_connection((HERE, port)) as caller:
            accepted, _ = mine.accept()
            assert await stop_listening(port) == 1
            assert not reaches(port)
            # an open connection continues
            accepted.send(b"still here")
            assert caller.recv(100) == b"still here"
            accepted.close()
        assert await stop_listening(port) == 0
        listener(stack, port)
        assert reaches(port)


async def test_connection_during_a_stop_is_accepted_by_a_peer(monkeypatch):
    loop, calls = asyncio.get_running_loop(), 20
    with ExitStack() as stack:
        port = reserve_socket(stack).getsockname()[1]
        leaves, stays = listener(stack, port), listener(stack, port)
        # in this test one process has both
        monkeypatch.setattr(listeners, "_list_listening", lambda: iter([leaves.dup()]))
        accepted: list[socket.socket] = []

        def accept(this_socket: socket.socket) -> None:
            this_socket.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    created_socket, _ = this_socket.accept()
                    accepted.append(stack.enter_context(created_socket))
                    created_socket.send(b"in")

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
        # connections from before are accepted late; after that it accepts none
        accept(leaves)
        assert accepted
        meanwhile = [asyncio.create_task(call()) for _ in range(calls)]
        assert await leaving == 1
        async with asyncio.timeout(20):
            callers += await asyncio.gather(*meanwhile)
            accept(stays)
            for each_socket in callers:
                each_socket.setblocking(False)
                assert await loop.sock_recv(each_socket, 2) == b"in"
        assert len(accepted) == len(callers)


async def test_stop_waits_for_pending_connections_to_be_accepted(monkeypatch):
    monkeypatch.setattr(listeners, "_HANDSHAKE_S", 0)
    monkeypatch.setattr(listeners, "_ACCEPT_TIMEOUT_S", 60)
    with ExitStack() as stack:
        port = reserve_socket(stack).getsockname()[1]
        mine = listener(stack, port)
        caller = stack.enter_context(socket.create_connection((HERE, port)))
        leaving = asyncio.create_task(stop_listening(port))
        looked: list[socket.socket] = []
        waiting = listeners.count_waiting
        monkeypatch.setattr(
            listeners, "count_waiting", lambda item: looked.append(item) or waiting(item)
        )
        await wait_until(lambda: len(looked) > 2)
        assert not leaving.done()
        stack.enter_context(mine.accept()[0]).send(b"in")
        assert await leaving == 1
        assert caller.recv(2) == b"in"


async def test_inherited_listener_is_not_stopped():
    with socket.create_server((HERE, 0)) as everybodys:
        port = everybodys.getsockname()[1]
        assert await stop_listening(port) == 0
        assert reaches(port)
