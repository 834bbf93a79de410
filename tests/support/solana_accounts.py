"""Token accounts that are opened for receivers."""

from __future__ import annotations

from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.base.topics import Topic
from florin_server.domain.accounts.destinations import AssetAccount, TokenAccountOpening
from florin_server.domain.chains.solana import spl
from florin_server.money.settlement.store import token_accounts

from tests.support.service_harness import PartnerTenant
from tests.support.solana import (
    SolanaNodeClient,
    get_transaction,
    list_instructions,
)

CHAIN = SOLANA_DEVNET.chain_id


def get_token_account(owner: str, token: int = 0) -> str:
    mint = SOLANA_DEVNET.tokens[token]
    return str(
        spl.derive_associated_address(
            spl.parse_pubkey(owner), spl.parse_pubkey(mint.address), spl.parse_pubkey(mint.program)
        )
    )


async def has_account(node: SolanaNodeClient, address: str) -> bool:
    return (await node.ask("getAccountInfo", address))["value"] is not None


async def queue_accounts(desk, tenant: PartnerTenant, dest: str, *assets: str) -> None:
    """Queue accounts to be opened in advance, as releases before 0.4 did at a registration."""
    app, merchant_id = desk.service.app, tenant.merchant.id
    for asset in assets:
        opening = TokenAccountOpening(AssetAccount(asset, f"{CHAIN}:{dest}"), merchant_id)
        await app.store.write(token_accounts.enqueue(opening, app.clock.now_us()))
    app.notifier.publish(Topic.RECEIVERS, CHAIN)


async def register_destination(
    desk, tenant: PartnerTenant, dest: str, *assets: str, key: str = "1"
) -> list[str]:
    path = f"/v1/merchants/{tenant.merchant.id}/settlements/crypto"
    expected = [{"asset": asset, "destination": f"{CHAIN}:{dest}"} for asset in assets]
    headers = {**tenant.headers, "Idempotency-Key": key}
    created = await desk.rest.call("POST", path, headers, {"settlements": expected})
    return [settlement["id"] for settlement in created["settlements"]]


def list_account_openings(desk, owner: str) -> list:
    """Return the accounts that were opened for an owner."""
    query = "SELECT asset, merchant_id FROM opened_account WHERE account = ?"
    return desk.select(query, f"{CHAIN}:{owner}")


def has_account_opening(action) -> bool:
    """Return True if a transaction opens an account."""
    return any(
        instruction.program_id == spl.ASSOCIATED_TOKEN
        for instruction in list_instructions(get_transaction(action).message)
    )
