"""Token accounts that are opened for receivers."""

from __future__ import annotations

from florin_server.chains.solana import spl
from florin_server.devnet.solana import SOLNET
from florin_server.domain.accounts.destinations import AssetAccount, Opening
from florin_server.store.settlement import token_accounts

from tests.support.desk import Tenant
from tests.support.solana import (
    SolanaNode,
    steps,
    transaction_of,
)

CHAIN = SOLNET.chain_id


def place(owner: str, token: int = 0) -> str:
    mint = SOLNET.tokens[token]
    return str(
        spl.associated(spl.pubkey(owner), spl.pubkey(mint.address), spl.pubkey(mint.program))
    )


async def there(node: SolanaNode, address: str) -> bool:
    return (await node.ask("getAccountInfo", address))["value"] is not None


async def queue(desk, tenant: Tenant, dest: str, *assets: str) -> None:
    """Queues accounts to be opened in advance, as releases before 0.4 did at a registration."""
    app, merchant_id = desk.service.app, tenant.merchant.id
    for asset in assets:
        wanted = Opening(AssetAccount(asset, f"{CHAIN}:{dest}"), merchant_id)
        await app.store.write(token_accounts.want(wanted, app.clock.now_us()))
    app.expect_receivers(CHAIN)


async def register(desk, tenant: Tenant, dest: str, *assets: str, key: str = "1") -> list[str]:
    path = f"/v1/merchants/{tenant.merchant.id}/settlements/crypto"
    wanted = [{"asset": one, "destination": f"{CHAIN}:{dest}"} for one in assets]
    headers = {**tenant.headers, "Idempotency-Key": key}
    made = await desk.rest.call("POST", path, headers, {"settlements": wanted})
    return [one["id"] for one in made["settlements"]]


def remembered(desk, owner: str) -> list:
    """The accounts that were opened for an owner."""
    query = "SELECT asset, merchant_id FROM opened_account WHERE account = ?"
    return desk.select(query, f"{CHAIN}:{owner}")


def opens(action) -> bool:
    """True if a transaction opens an account."""
    return any(one.program_id == spl.ASSOCIATED for one in steps(transaction_of(action).message))
