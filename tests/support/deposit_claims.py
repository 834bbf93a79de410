"""Money that buyers can claim, as it is after an exchange sent too much to a payment's address."""

from __future__ import annotations

from dataclasses import replace

from florin_server.domain.ids import generate_short_id
from florin_server.domain.payouts.deposit_claims import SENDER_IS_EXCHANGE
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.money.payouts.store import held_money

from tests.support.addresses import CHAIN, DOLLAR, open_address
from tests.support.service_harness import ServiceHarness

CLAIM_ACCOUNT = f"{CHAIN}:0x{'c1' * 20}"


def make_held_money(payment_id: str, address: str, held_id: str, value: int = 1) -> HeldMoney:
    """Return held money of an address (CAIP-10) of the payment."""
    payer, tx_hash = f"{CHAIN}:0x{'e1' * 20}", "0x" + "7a" * 32
    return HeldMoney(
        id=held_id,
        payment_id=payment_id,
        chain_id=CHAIN,
        asset=DOLLAR,
        payer=payer,
        value=value,
        held=value,
        fee=0,
        settled_value=None,
        tx_hash=tx_hash,
        event=f"{tx_hash}:{address.rpartition(':')[2]}:{DOLLAR}:{held_id}",
        late=True,
        why=SENDER_IS_EXCHANGE,
        since_us=1,
        address=address,
    )


async def hold_claimable_money(
    service: ServiceHarness, payment_id: str, value: int = 1
) -> HeldMoney:
    """Record money at an address of the payment that no chain has: nothing may pay it out."""
    address = await open_address(service, payment_id)
    held_id = generate_short_id("held_", service.service.app.randbytes)
    money = make_held_money(payment_id, f"{CHAIN}:{address['address'].lower()}", held_id, value)
    app = service.service.app
    money = replace(money, since_us=app.clock.now_us())
    await app.store.write(held_money.put(money))
    return money
