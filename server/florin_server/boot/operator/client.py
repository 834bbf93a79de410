"""The operator's way in: the running service's own listener, or the store when nothing runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
from florin.v1 import operator_pb2_grpc
from google.protobuf.message import Message

from florin_server.boot.home import Home
from florin_server.boot.operator.error import OperatorError
from florin_server.domain.errors import REGISTRY, FlorinError

if TYPE_CHECKING:
    from florin_server.config import Settings

Call = Callable[[str, Message], Awaitable[Any]]


class Operator:
    """Calls OperatorService by method name."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def ask(self, method: str, request: Message) -> Any:
        """The answer; OperatorError if it is refused."""
        try:
            return await self._call(method, request)
        except FlorinError as error:
            raise OperatorError(error.message, error.code, REGISTRY[error.code].grpc) from error
        except grpc.aio.AioRpcError as error:
            raise _told(error) from error


def _told(error: grpc.aio.AioRpcError) -> OperatorError:
    # slow to load, and a call that is answered needs none
    from florin_client.errors import error_of  # noqa: PLC0415

    found = error_of(error.code(), error.details() or "", error.trailing_metadata())
    return OperatorError(found.message, found.code, found.status.name)


@asynccontextmanager
async def operator(
    home: Home,
    settings: Callable[[], Settings],
    *,
    running_only: bool = False,
    chains: bool = False,
    begins: bool = False,
    reads: bool = False,
) -> AsyncIterator[Operator]:
    """An operator of the installation, whether it runs or not; not while it starts or stops.

    With `running_only` one that does not run is refused; with `chains` one that does not run asks
    the nodes of the chains that the settings name. Refused where there is no installation, unless
    it `begins` by what is asked. With `reads` the store of one that does not run is not changed.
    A service that runs is asked without the `settings`.
    """
    addresses = home.addresses()
    if addresses is None:
        if running_only:
            raise OperatorError(
                f"no Florin runs with its state in {home.path}; start one: florin up",
                status="UNAVAILABLE",
            )
        # the store is slow to load and a running service needs none here
        from florin_server.boot.operator.offline import offline  # noqa: PLC0415

        async with offline(settings(), chains=chains, begins=begins, reads=reads) as local:
            yield Operator(local)
        return
    # what others could read is mended before it is used
    metadata = (("authorization", f"Bearer {home.open().secrets().operator_token}"),)
    async with grpc.aio.insecure_channel(addresses["operator"]) as channel:
        stub = operator_pb2_grpc.OperatorServiceStub(channel)

        async def remote(method: str, request: Message) -> Any:
            return await getattr(stub, method)(request, metadata=metadata, timeout=10)

        yield Operator(remote)
