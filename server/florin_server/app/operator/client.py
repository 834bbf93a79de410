"""The operator's way in: the running service's own listener, or the store when nothing runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
from florin.v1 import operator_pb2_grpc
from google.protobuf.message import Message

from florin_server.app.home import StateFolder
from florin_server.app.operator.error import OperatorError
from florin_server.domain.errors import ERROR_SPECS, ApiError

if TYPE_CHECKING:
    from florin_server.settings import Settings

OperatorCall = Callable[[str, Message], Awaitable[Any]]


class OperatorClient:
    """Calls OperatorService by method name."""

    def __init__(self, call: OperatorCall) -> None:
        self._call = call

    async def call(self, method: str, request: Message) -> Any:
        """Return the answer; OperatorError if it is refused."""
        try:
            return await self._call(method, request)
        except ApiError as error:
            raise OperatorError(
                error.message, error.code, ERROR_SPECS[error.code].grpc_status
            ) from error
        except grpc.aio.AioRpcError as error:
            raise _to_operator_error(error) from error


def _to_operator_error(error: grpc.aio.AioRpcError) -> OperatorError:
    # slow to load, and not needed by successful calls
    from florin_client.errors import error_of  # noqa: PLC0415

    client_error = error_of(error.code(), error.details() or "", error.trailing_metadata())
    return OperatorError(client_error.message, client_error.code, client_error.status.name)


@asynccontextmanager
async def open_operator(
    home: StateFolder,
    settings: Callable[[], Settings],
    *,
    running_only: bool = False,
    with_chains: bool = False,
    may_create: bool = False,
    read_only: bool = False,
) -> AsyncIterator[OperatorClient]:
    """Return a client for the operator's calls, to a running or stopped service.

    With `running_only` a stopped service is refused; with `with_chains` a stopped service calls the
    nodes of the configured chains. SetupError without an installation, unless it `may_create` one.
    With `read_only` the store of a stopped service is not changed. A running service is called
    without the `settings`.
    """
    addresses = home.find_addresses()
    if addresses is None:
        if running_only:
            raise OperatorError(
                f"no Florin runs with its state in {home.path}; start one: florin up",
                status="UNAVAILABLE",
            )
        # the store is slow to load and a running service needs none here
        from florin_server.app.operator.offline import open_offline_service  # noqa: PLC0415

        async with open_offline_service(
            settings(), with_chains=with_chains, may_create=may_create, read_only=read_only
        ) as local:
            yield OperatorClient(local)
        return
    # permissions are fixed before the folder is used
    token = home.open().get_or_create_secrets().operator_token
    metadata = (("authorization", f"Bearer {token}"), ("florin-channel", "cli"))
    async with grpc.aio.insecure_channel(addresses["operator"]) as channel:
        stub = operator_pb2_grpc.OperatorServiceStub(channel)

        async def remote(method: str, request: Message) -> Any:
            return await getattr(stub, method)(request, metadata=metadata, timeout=10)

        yield OperatorClient(remote)
