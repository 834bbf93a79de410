"""A merchant whose money goes to an address of its own on the embedded chain."""

from __future__ import annotations

from florin_sandbox.devnet.genesis import DEVNET
from florin_server.accounts.store import destinations
from florin_server.domain.payments.payment import Destination

from tests.support.service_harness import PartnerTenant, ServiceHarness


async def create_merchant_tenant(desk: ServiceHarness, address: str) -> PartnerTenant:
    """Create a tenant that is paid at an address in both tokens."""
    tenant = await desk.tenant()
    chain = f"eip155:{DEVNET.chain_id}"
    for number, token in enumerate(DEVNET.tokens):
        place = Destination(
            f"crypto_{tenant.merchant.id}{number}",
            tenant.merchant.id,
            f"{chain}/erc20:{token.address}",
            f"{chain}:{address}",
        )
        await desk.service.app.store.write(destinations.put_destination(place))
    return tenant
