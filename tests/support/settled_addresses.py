"""Payments to addresses of a settler: opened, watched, and run to their ends."""

from __future__ import annotations

from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.payments.payment import Payment
from florin_server.money.payments.service.addresses import open_addresses
from florin_server.money.payments.store import deposit_addresses, deposits
from florin_server.rails.evm.forwarder_settings import ForwarderSettings

from tests.support.evm_harness import TOKEN
from tests.support.settlement_harness import BUYER, SettlementHarness

PRICE = 1_500_000
FORWARDER = ForwarderSettings(address=DEVNET.forwarder)


async def open_address(shop: SettlementHarness) -> tuple[Payment, str]:
    payment_id = await shop.create_unpaid()
    await open_addresses(shop.app, BUYER, payment_id, [TOKEN])
    payment = await shop.store.payments.find(payment_id)
    assert payment is not None
    (opened,) = await shop.store.read(deposit_addresses.list_opened(payment_id))
    return payment, opened.address.address


async def look(shop: SettlementHarness, times: int = 1) -> None:
    for _ in range(times):
        shop.lab.clock.advance(1.1)
        await shop.mine()


async def run_to_end(shop: SettlementHarness, payment: Payment) -> Payment:
    async def has_ended() -> bool:
        shop.lab.clock.advance(1.1)
        return (await shop.get_payment(payment)).status.is_final

    await shop.mine_until(has_ended)
    ended = await shop.get_payment(payment)
    await shop.check(ended)
    return ended


async def list_deposits(shop: SettlementHarness, payment: Payment) -> list[tuple[int, bool]]:
    recorded = await shop.store.read(deposits.list_of_payment(payment.id))
    return [(item.deposit.value, bool(item.is_final)) for item in recorded]


async def find_transaction(shop: SettlementHarness, payment: Payment) -> str:
    (item,) = await shop.store.read(deposits.list_of_payment(payment.id))
    return item.deposit.tx_hash
