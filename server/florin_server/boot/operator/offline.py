"""The operator's calls on an installation that does not run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from florin.v1 import operator_pb2
from google.protobuf.message import Message

from florin_server.boot import stores
from florin_server.boot.app import app_of, core_of
from florin_server.boot.home import Home, Secrets
from florin_server.boot.operator.error import OperatorError
from florin_server.clock import SystemClock
from florin_server.config import Settings
from florin_server.domain.sealed import Seal
from florin_server.rails.protocol import Rail
from florin_server.rpc.operator.service import OperatorServicer
from florin_server.rpc.server.validate import Validator
from florin_server.store.engine.query import StoreError
from florin_server.workers.housekeeping.store_time import set_to_store_time

_SERVICE = operator_pb2.DESCRIPTOR.services_by_name["OperatorService"]


@asynccontextmanager
async def offline(
    settings: Settings, *, chains: bool = False, begins: bool = False, reads: bool = False
) -> AsyncIterator[Callable[[str, Message], Awaitable[Any]]]:
    """OperatorService by method name, on the store itself; OperatorError if a service has it.

    Refused if there is no installation, unless one `begins` by this.
    With `chains` it asks the nodes of the chains that the settings name; embedded ones rest.
    With `reads` the store is opened to look at it: calls that write are refused.
    """
    home = Home(settings.home)
    if not begins:
        home.require()
    home.open()
    try:
        store = await (stores.look_at(settings) if reads else stores.opened(settings))
    except StoreError as error:
        raise OperatorError(str(error)) from error
    rails: list[Rail] = []
    try:
        kept = home.read_secrets() if reads else home.secrets()
        if begins:
            home.keep_private()
        if chains:
            rails = await _rails(settings, kept)
        # without workers and callers: enough for accounts, keys and the books
        seal = Seal(kept.capture_keys)
        clock = SystemClock()
        # other machines may have the store, and what is written here is compared with their times
        await set_to_store_time(store, clock)
        app = app_of(core_of(settings, store, clock, rails, seal=seal))
        servicer = OperatorServicer(app, kept.pepper)

        async def call(method: str, request: Message) -> Any:
            # nothing stands before the servicer here
            Validator(_SERVICE.methods_by_name[method].input_type)(request)
            try:
                return await getattr(servicer, method)(request, None)
            except StoreError as error:
                raise OperatorError(str(error)) from error

        yield call
    finally:
        for rail in rails:
            await rail.close()
        await store.close()


async def _rails(settings: Settings, kept: Secrets) -> list[Rail]:
    # chains are slow to load, and most calls need none
    from florin_server.boot.chains.connected import named  # noqa: PLC0415

    return await named(settings, kept)
