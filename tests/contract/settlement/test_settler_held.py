"""A payer that is listed after its confirm: nothing is sent for it, and nothing taken."""

from __future__ import annotations

import pytest
from florin_server.domain.screening.blocklist import ScreeningList, address_of
from florin_server.store.screening import blocklists

from tests.support.evm_lab import buyer
from tests.support.held_steps import lapse, put
from tests.support.settler_lab import Works, works

WALLET, OTHER = buyer(81), buyer(82)
HELD = "payments not sent because their payers are blocked: 1"


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path) as running:
        yield running


def broadcasts(shop: Works) -> int:
    return shop.lab.node.asked.count("eth_sendRawTransaction")


async def test_a_payer_that_is_listed_after_its_confirm_is_held_until_it_lapses(shop, caplog):
    payment, other = await shop.accepted(WALLET), await shop.accepted(OTHER)
    await put(shop, WALLET)
    assert (await shop.end(other)).status == "succeeded"
    for _ in range(3):
        shop.lab.clock.advance(10)
        await shop.mine()
    assert (broadcasts(shop), await shop.transactions()) == (1, [])
    assert await shop.status(payment) == "processing"
    assert shop.settler.health().problem == HELD
    told = [r for r in caplog.messages if "is not sent: its payer is blocked" in r]
    assert told == [f"payment {payment.id} is not sent: its payer is blocked"]

    ended = await lapse(shop, payment)
    assert (ended.status, ended.failure_code) == ("failed", "declined_user")
    assert ended.failure_detail
    assert broadcasts(shop) == 1
    assert shop.settler.health().problem == ""


async def test_a_held_payment_is_still_held_by_the_next_process(shop):
    payment = await shop.accepted(WALLET)
    await put(shop, WALLET)
    await shop.turn()
    await shop.restart()
    shop.lab.clock.advance(10)
    await shop.mine(2)
    assert broadcasts(shop) == 0
    assert shop.settler.health().problem == HELD
    assert (await lapse(shop, payment)).failure_code == "declined_user"


async def test_a_payer_that_is_listed_no_more_is_settled(shop):
    payment = await shop.accepted(WALLET)
    await put(shop, WALLET)
    await shop.mine()
    assert shop.settler.health().problem == HELD
    await put(shop)
    shop.lab.clock.advance(5)
    assert (await shop.end(payment)).status == "succeeded"
    assert shop.settler.health().problem == ""


async def test_what_was_signed_before_its_payer_was_listed_goes_its_way(shop):
    payment = await shop.accepted(WALLET)
    await shop.turn()
    assert len(await shop.transactions()) == 1
    await put(shop, WALLET)
    assert (await shop.end(payment)).status == "succeeded"
    assert shop.settler.health().problem == ""


async def test_what_was_signed_and_never_mined_was_not_declined(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=99)
    payment = await shop.accepted(WALLET)
    await shop.turn()
    assert len(await shop.transactions()) == 1
    await put(shop, WALLET)
    ended = await lapse(shop, payment)
    assert (ended.status, ended.failure_code) == ("failed", None)


async def test_a_payment_that_lapses_unlisted_was_not_declined(shop):
    payment = await shop.accepted(WALLET)
    await put(shop, WALLET)
    await shop.mine()
    shop.lab.clock.advance(900 + 300)
    await shop.lab.mine(4)
    await put(shop)
    shop.lab.clock.advance(10)
    ended = await shop.end(payment)
    assert (ended.status, ended.failure_code) == ("failed", None)


async def test_a_list_of_another_process_is_seen_within_a_minute(shop):
    assert not await shop.app.screening.lists_account(f"eip155:1:{WALLET.address}")
    new = ScreeningList("sdn", "ab" * 32, None, shop.lab.clock.now_us(), 1)
    await shop.store.write(blocklists.replace(new, [address_of(WALLET.address)]))
    asked = 0
    read = shop.store.read

    def counted(op):
        nonlocal asked
        asked += 1
        return read(op)

    shop.store.read = counted
    shop.lab.clock.advance(59)
    for _ in range(100):
        assert not await shop.app.screening.lists_account(f"eip155:1:{WALLET.address}")
    assert asked == 0
    shop.lab.clock.advance(1)
    for _ in range(100):
        assert await shop.app.screening.lists_account(f"eip155:1:{WALLET.address}")
    assert asked == 1
