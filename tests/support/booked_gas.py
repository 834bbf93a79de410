"""Booked gas, and what was spent of it."""

from __future__ import annotations

from florin_server.money.ledger.store import ledger
from florin_server.rails.evm.sending.transactions import EvmSigner

from tests.support.evm_harness import CHAIN, RELAYER
from tests.support.settlement_harness import SettlementHarness

SECOND = EvmSigner(b"\x53" * 32)
COIN = f"{CHAIN}/slip44:60"


async def get_booked_gas(shop: SettlementHarness) -> int:
    return await shop.store.read(ledger.get_balance("expense:gas", COIN))


async def get_spent(shop: SettlementHarness, *senders: str) -> int:
    """Return what keys have paid since they got 100 coins each."""
    held = [
        int(await shop.lab.control.call("eth_getBalance", sender, "latest"), 16)
        for sender in senders
    ]
    return len(senders) * 100 * 10**18 - sum(held)


async def count_open_by_sender(shop: SettlementHarness) -> list[int]:
    """Return the number of open transactions by key."""
    return [len(await shop.transactions(signer.address)) for signer in (RELAYER, SECOND)]
