"""The operator's calls on an installation that does not run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from florin.v1 import operator_pb2
from google.protobuf.message import Message

from florin_server.api.operator.service import OperatorServicer
from florin_server.api.server.validate import RequestValidator
from florin_server.app import stores
from florin_server.app.app import build_app, build_core
from florin_server.app.home import InstallationSecrets, StateFolder
from florin_server.app.housekeeping.store_time import set_to_store_time
from florin_server.app.operator.error import OperatorError
from florin_server.base.clock import SystemClock
from florin_server.db.engine.query import StoreError
from florin_server.domain.audit import Actor, ActorKind, AuditChannel
from florin_server.domain.cipher import Cipher
from florin_server.operations.service.audit_log import ACTOR
from florin_server.rails.protocol import Rail
from florin_server.settings import Settings

_SERVICE = operator_pb2.DESCRIPTOR.services_by_name["OperatorService"]


@asynccontextmanager
async def open_offline_service(
    settings: Settings,
    *,
    with_chains: bool = False,
    may_create: bool = False,
    read_only: bool = False,
) -> AsyncIterator[Callable[[str, Message], Awaitable[Any]]]:
    """Return OperatorService by method name, on the store itself.

    OperatorError if a service has it. SetupError without an installation, unless the call
    `may_create` one. With `with_chains` it calls the nodes of the configured chains; embedded ones
    do not run. With `read_only` the store is opened for reading: calls that write are refused.
    """
    home = StateFolder(settings.home)
    if not may_create:
        home.require_existing()
    home.open()
    try:
        store = await (
            stores.open_read_only(settings) if read_only else stores.open_configured_store(settings)
        )
    except StoreError as error:
        raise OperatorError(str(error)) from error
    rails: list[Rail] = []
    try:
        installation_secrets = home.read_secrets() if read_only else home.get_or_create_secrets()
        if may_create:
            home.keep_private()
        if with_chains:
            rails = await _build_rails(settings, installation_secrets)
        # without workers and callers: enough for accounts, keys and the ledger
        seal = Cipher(installation_secrets.capture_keys)
        clock = SystemClock()
        # other machines may use the store, and compare these writes with their times
        await set_to_store_time(store, clock)
        app = build_app(build_core(settings, store, clock, rails, cipher=seal))
        servicer = OperatorServicer(app, installation_secrets.pepper)

        async def call(method: str, request: Message) -> Any:
            # no interceptor is in front of the servicer here
            ACTOR.set(partial(Actor, ActorKind.OPERATOR, AuditChannel.CLI))
            RequestValidator(_SERVICE.methods_by_name[method].input_type)(request)
            try:
                return await getattr(servicer, method)(request, None)
            except StoreError as error:
                raise OperatorError(str(error)) from error

        yield call
    finally:
        for rail in rails:
            await rail.close()
        await store.close()


async def _build_rails(settings: Settings, installation_secrets: InstallationSecrets) -> list[Rail]:
    # chains are slow to load, and most calls need none
    from florin_server.app.chains.connected import start_configured_rails  # noqa: PLC0415

    return await start_configured_rails(settings, installation_secrets)
