"""The operator's calls about leases."""

from __future__ import annotations

from typing import Any

from florin.v1 import lease_pb2

from florin_server.domain.settlement.lease import Lease
from florin_server.flows.app import App
from florin_server.flows.operator import leases
from florin_server.rpc.server.timestamps import timestamp


class LeaseCalls:
    """Leases: list, release."""

    _app: App

    async def ListLeases(
        self, request: lease_pb2.ListLeasesRequest, context: Any
    ) -> lease_pb2.ListLeasesResponse:
        """List leases."""
        found = await leases.list_leases(self._app)
        return lease_pb2.ListLeasesResponse(
            leases=[_to_message(one, held=one.name in found.held) for one in found.leases],
            read_at=timestamp(found.now_us),
        )

    async def ReleaseLease(
        self, request: lease_pb2.ReleaseLeaseRequest, context: Any
    ) -> lease_pb2.Lease:
        """Take a lease away from its holder."""
        released = await leases.release(self._app, request.name, request.holder)
        return _to_message(released, held=False)


def _to_message(one: Lease, *, held: bool) -> lease_pb2.Lease:
    had = bool(one.holder)
    return lease_pb2.Lease(
        name=one.name,
        holder=one.holder,
        held=held,
        until=timestamp(one.until_us) if had else None,
        renewed_at=timestamp(one.renewed_at_us) if had else None,
        epoch=one.epoch,
    )
