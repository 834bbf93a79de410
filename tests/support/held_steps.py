"""Blocking a payer, and letting a payment lapse, under a settler."""

from __future__ import annotations

from florin_server.domain.payments.payment import Payment
from florin_server.domain.screening.blocklist import ScreeningList, address_of
from florin_server.store.screening import blocklists

from tests.support.settler_lab import Works


async def put(shop: Works, *wallets) -> None:
    """Puts a list of just these in force."""
    now_us = shop.lab.clock.now_us()
    new = ScreeningList("sdn", "ab" * 32, None, now_us, len(wallets))
    await shop.store.write(blocklists.replace(new, [address_of(one.address) for one in wallets]))
    await shop.app.screening.changed()


async def lapse(shop: Works, payment: Payment) -> Payment:
    """The end of a payment whose authorization runs out."""
    shop.lab.clock.advance(900 + 300)
    await shop.mine(4)
    shop.lab.clock.advance(10)
    return await shop.end(payment)
