"""The operator's calls about leases."""

from __future__ import annotations

from typing import Any

from florin.v1 import lease_pb2

from florin_server.api.context import ApiContext
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.settlement.lease import Lease
from florin_server.operations.service import leases


class LeaseCalls:
    """Leases: list, release."""

    _app: ApiContext

    async def ListLeases(
        self, request: lease_pb2.ListLeasesRequest, context: Any
    ) -> lease_pb2.ListLeasesResponse:
        """List the leases, with whether each is held now."""
        found_leases = await leases.list_leases(self._app)
        return lease_pb2.ListLeasesResponse(
            leases=[
                _to_message(lease, held=lease.name in found_leases.held_names)
                for lease in found_leases.leases
            ],
            read_at=to_timestamp(found_leases.now_us),
        )

    async def ReleaseLease(
        self, request: lease_pb2.ReleaseLeaseRequest, context: Any
    ) -> lease_pb2.Lease:
        """Release a lease on behalf of its holder."""
        released = await leases.release(self._app, request.name, request.holder)
        return _to_message(released, held=False)


def _to_message(lease: Lease, *, held: bool) -> lease_pb2.Lease:
    had = bool(lease.holder)
    return lease_pb2.Lease(
        name=lease.name,
        holder=lease.holder,
        held=held,
        until=to_timestamp(lease.until_us) if had else None,
        renewed_at=to_timestamp(lease.renewed_at_us) if had else None,
        epoch=lease.epoch,
    )
