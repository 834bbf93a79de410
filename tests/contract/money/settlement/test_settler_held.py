"""Test a payer that is listed after its confirm: nothing is sent for it, and nothing is taken."""

from __future__ import annotations

import pytest
from florin_server.compliance.screening import store as blocklists
from florin_server.domain.screening.blocklist import ScreeningList, find_address

from tests.support.blocked_payers import let_payment_lapse, put_blocklist
from tests.support.evm_harness import make_buyer
from tests.support.settlement_harness import SettlementHarness, open_settlement_harness

WALLET, OTHER = make_buyer(81), make_buyer(82)
HELD = "payments not sent because their payers are blocked: 1"


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


def broadcasts(shop: SettlementHarness) -> int:
    return shop.lab.node.methods.count("eth_sendRawTransaction")


async def test_a_payer_that_is_listed_after_its_confirm_is_held_until_it_lapses(shop, caplog):
    payment, other = (
        await shop.create_processing_payment(WALLET),
        await shop.create_processing_payment(OTHER),
    )
    await put_blocklist(shop, WALLET)
    assert (await shop.run_to_end(other)).status == "succeeded"
    for _ in range(3):
        shop.lab.clock.advance(10)
        await shop.mine()
    assert (broadcasts(shop), await shop.transactions()) == (1, [])
    assert await shop.status(payment) == "processing"
    assert shop.settler.health().problem == HELD
    result = [r for r in caplog.messages if "is not sent: its payer is blocked" in r]
    assert result == [f"payment {payment.id} is not sent: its payer is blocked"]

    ended = await let_payment_lapse(shop, payment)
    assert (ended.status, ended.failure_code) == ("failed", "declined_user")
    assert ended.failure_detail
    assert broadcasts(shop) == 1
    assert shop.settler.health().problem == ""


async def test_a_held_payment_is_still_held_by_the_next_process(shop):
    payment = await shop.create_processing_payment(WALLET)
    await put_blocklist(shop, WALLET)
    await shop.turn()
    await shop.restart()
    shop.lab.clock.advance(10)
    await shop.mine(2)
    assert broadcasts(shop) == 0
    assert shop.settler.health().problem == HELD
    assert (await let_payment_lapse(shop, payment)).failure_code == "declined_user"


async def test_a_payer_that_is_listed_no_more_is_settled(shop):
    payment = await shop.create_processing_payment(WALLET)
    await put_blocklist(shop, WALLET)
    await shop.mine()
    assert shop.settler.health().problem == HELD
    await put_blocklist(shop)
    shop.lab.clock.advance(5)
    assert (await shop.run_to_end(payment)).status == "succeeded"
    assert shop.settler.health().problem == ""


async def test_payment_signed_before_its_payer_was_listed_succeeds(shop):
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    assert len(await shop.transactions()) == 1
    await put_blocklist(shop, WALLET)
    assert (await shop.run_to_end(payment)).status == "succeeded"
    assert shop.settler.health().problem == ""


async def test_payment_signed_and_never_mined_has_no_declined_code(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=99)
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    assert len(await shop.transactions()) == 1
    await put_blocklist(shop, WALLET)
    ended = await let_payment_lapse(shop, payment)
    assert (ended.status, ended.failure_code) == ("failed", None)


async def test_a_payment_that_lapses_unlisted_was_not_declined(shop):
    payment = await shop.create_processing_payment(WALLET)
    await put_blocklist(shop, WALLET)
    await shop.mine()
    shop.lab.clock.advance(900 + 300)
    await shop.lab.mine(4)
    await put_blocklist(shop)
    shop.lab.clock.advance(10)
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.failure_code) == ("failed", None)


async def test_a_list_of_another_process_is_seen_within_a_minute(shop):
    assert not await shop.app.screening.is_listed(f"eip155:1:{WALLET.address}")
    new = ScreeningList("sdn", "ab" * 32, None, shop.lab.clock.now_us(), 1)
    await shop.store.write(blocklists.replace(new, [find_address(WALLET.address)]))
    read_count = 0
    read = shop.store.read

    def count_and_read(op):
        nonlocal read_count
        read_count += 1
        return read(op)

    shop.store.read = count_and_read
    shop.lab.clock.advance(59)
    for _ in range(100):
        assert not await shop.app.screening.is_listed(f"eip155:1:{WALLET.address}")
    assert read_count == 0
    shop.lab.clock.advance(1)
    for _ in range(100):
        assert await shop.app.screening.is_listed(f"eip155:1:{WALLET.address}")
    assert read_count == 1
