"""Blocking a payer, and letting a payment lapse, under a settler."""

from __future__ import annotations

from florin_server.compliance.screening import store as blocklists
from florin_server.domain.payments.payment import Payment
from florin_server.domain.screening.blocklist import ScreeningList, find_address

from tests.support.settlement_harness import SettlementHarness


async def put_blocklist(shop: SettlementHarness, *wallets) -> None:
    """Put a blocklist of just these wallets in force."""
    now_us = shop.lab.clock.now_us()
    new = ScreeningList("sdn", "ab" * 32, None, now_us, len(wallets))
    await shop.store.write(
        blocklists.replace(new, [find_address(wallet.address) for wallet in wallets])
    )
    await shop.app.screening.publish_change()


async def let_payment_lapse(shop: SettlementHarness, payment: Payment) -> Payment:
    """Let the authorization of a payment lapse; return the payment's last state."""
    shop.lab.clock.advance(900 + 300)
    await shop.mine(4)
    shop.lab.clock.advance(10)
    return await shop.run_to_end(payment)
