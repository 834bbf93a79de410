"""The operator's way in: the running service's own listener, or the store when nothing runs."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from florin.v1 import admin_pb2_grpc
from google.protobuf.message import Message

from florin_server.boot.home import Home
from florin_server.clock import SystemClock
from florin_server.config import Settings
from florin_server.domain.errors import FlorinError
from florin_server.feed import Hub
from florin_server.flows.app import App, Links
from florin_server.rpc.admin import AdminServicer
from florin_server.store.engine import Store


class OperatorError(Exception):
    """The service refused; the text says why."""


class Operator:
    """Calls AdminService by method name."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def ask(self, method: str, request: Message) -> Any:
        """The answer; OperatorError if it is refused."""
        try:
            return await self._call(method, request)
        except FlorinError as error:
            raise OperatorError(error.message) from error
        except grpc.aio.AioRpcError as error:
            raise OperatorError(error.details() or error.code().name) from error


def running(home: Home) -> dict[str, Any] | None:
    """Where the service of this home listens; None if none runs."""
    try:
        addresses: dict[str, Any] = json.loads(home.running.read_text())
        os.kill(addresses["pid"], 0)
    except (OSError, ValueError, KeyError):
        return None
    return addresses


@asynccontextmanager
async def operator(settings: Settings) -> AsyncIterator[Operator]:
    """An operator of the installation, whether it runs or not."""
    home = Home(settings.home)
    kept = home.secrets()
    addresses = running(home)
    if addresses is not None:
        metadata = (("authorization", f"Bearer {kept.operator_token}"),)
        async with grpc.aio.insecure_channel(addresses["operator"]) as channel:
            stub = admin_pb2_grpc.AdminServiceStub(channel)

            async def remote(method: str, request: Message) -> Any:
                return await getattr(stub, method)(request, metadata=metadata, timeout=10)

            yield Operator(remote)
        return
    store = await Store.open(home.database)
    try:
        servicer = AdminServicer(_offline(settings, store), kept.pepper)

        async def local(method: str, request: Message) -> Any:
            return await getattr(servicer, method)(request, None)

        yield Operator(local)
    finally:
        await store.close()


def _offline(settings: Settings, store: Store) -> App:
    """A service without chains and callers: enough for accounts and keys."""
    clock = SystemClock()

    async def nothing(_seen: object) -> list[Any]:
        return []

    return App(
        settings=settings,
        clock=clock,
        randbytes=os.urandom,
        store=store,
        hub=Hub(store.reader.payment, nothing, clock),
        links=Links("", frozenset()),
        rails={},
    )
