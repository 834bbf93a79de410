"""A merchant whose money goes to an address of its own on the embedded chain."""

from __future__ import annotations

from collections.abc import Mapping

from florin_sandbox.devnet.genesis import DEVNET

from tests.support.service_harness import PartnerTenant, ServiceHarness


async def create_merchant_tenant(desk: ServiceHarness, address: str) -> PartnerTenant:
    """Create a tenant that is paid at an address in both tokens."""
    tenant = await desk.tenant()
    chain = f"eip155:{DEVNET.chain_id}"
    await set_destinations(
        tenant, {f"{chain}/erc20:{token.address}": f"{chain}:{address}" for token in DEVNET.tokens}
    )
    return tenant


async def set_destinations(tenant: PartnerTenant, accounts: Mapping[str, str]) -> None:
    """Set where the merchant is paid, by asset."""
    path = f"/v1/merchants/{tenant.merchant.id}/settlements/crypto"
    headers = {**tenant.headers, "Idempotency-Key": " ".join(accounts)[:64]}
    places = [{"asset": asset, "destination": account} for asset, account in accounts.items()]
    await tenant.service.rest.call("POST", path, headers, {"settlements": places})
