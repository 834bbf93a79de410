"""The books of wallets: how they begin, what explains a difference, when nothing is sent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.flows.ledger import books
from florin_server.flows.ledger.books import Verdict
from florin_server.rails.types import RailUnavailable
from florin_server.store.ledger import ledger
from florin_server.workers.housekeeping import keep_books
from florin_server.workers.housekeeping.keep_books import BookKeeper

from tests.support.evm_lab import CHAIN, EURO, TOKEN, refuse, reply
from tests.support.payout_lab import BUYER, FLOAT, SHOP, TREASURY, office
from tests.support.until import until

COIN = f"{CHAIN}/slip44:60"
WALLET = f"{CHAIN}:{TREASURY.address}"
PLACE = (WALLET, TOKEN)


@pytest.fixture
async def desk(tmp_path):
    async with office(tmp_path) as running:
        yield running


async def line(desk, place=PLACE) -> books.Line:
    found = await books.compare(desk.app)
    (one,) = [one for one in found.lines if one.place == place]
    return one


@asynccontextmanager
async def kept(desk):
    """Somebody keeps the books meanwhile."""
    task = asyncio.create_task(BookKeeper(desk.app, desk.lab.rail).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def passing(desk):
    """Lets the time pass after which books are compared, each time that it is called."""

    async def move() -> None:
        desk.lab.clock.advance(301)

    return move


async def begin(desk) -> bool:
    await desk.lab.mine(desk.lab.rail.confirmations)
    return await books.begin(desk.app, desk.lab.rail)


async def test_books_begin_with_what_is_there_and_only_once(desk):
    assert (await line(desk)).verdict is Verdict.NOT_BEGUN
    assert await begin(desk)
    first = await line(desk)
    assert (first.verdict, first.booked) == (Verdict.EXACT, FLOAT)
    # what comes afterwards is no part of it
    await desk.lab.send_tokens(TREASURY.address, 9)
    assert await begin(desk)
    after = await line(desk)
    assert (after.verdict, after.difference) == (Verdict.UNBOOKED, 9)
    assert await desk.store.read(ledger.check()) == []
    assert await desk.store.read(ledger.balance("external:opening", TOKEN)) == -FLOAT


async def test_a_wallet_that_held_nothing_has_begun_all_the_same(desk):
    # the operator takes one more token
    assert await begin(desk)
    assets = dict(desk.lab.rail.assets)
    euro = replace(assets[TOKEN], id=EURO, address=EURO.rpartition(":")[2])
    desk.lab.rail.found = replace(desk.lab.rail.found, assets={**assets, EURO: euro})
    assert (await line(desk, (WALLET, EURO))).verdict is Verdict.NOT_BEGUN
    assert await begin(desk)
    for place in ((f"{CHAIN}:{desk.lab.rail.senders[0]}", COIN), (WALLET, EURO)):
        found = await line(desk, place)
        assert (found.verdict, found.opened) == (Verdict.EXACT, True)
    assert found.held == 0
    assert await desk.store.read(ledger.check()) == []


async def test_what_was_booked_before_the_beginning_is_not_counted_twice(desk):
    # an installation from before books began
    await desk.owe(150)
    assert await begin(desk)
    assert (await line(desk)).verdict is Verdict.EXACT
    assert await desk.store.read(ledger.balance("external:opening", TOKEN)) == 150 - FLOAT


async def test_what_is_missing_before_the_beginning_is_not_explained_away(desk):
    await desk.owe(FLOAT + 1)
    assert not await begin(desk)
    found = await line(desk)
    assert (found.verdict, found.difference) == (Verdict.MISSING, -1)


async def test_books_do_not_begin_where_something_is_on_its_way(desk):
    await desk.lab.pause()
    payout = await desk.asked(150)
    await desk.turn()
    assert (await desk.now(payout)).status is PayoutStatus.SUBMITTED
    assert not await books.begin(desk.app, desk.lab.rail)
    found = await line(desk)
    assert (found.opened, found.going) == (False, 150)
    await desk.done(payout)
    assert await begin(desk)
    for place in (PLACE, (WALLET, COIN)):
        assert (await line(desk, place)).verdict is Verdict.EXACT


async def test_books_that_waited_begin_soon_after_the_work_under_way_ended(desk):
    await desk.lab.pause()
    payout = await desk.asked(150)
    await desk.turn()
    async with kept(desk):
        await until(lambda: desk.app.chains[CHAIN].compared_at_us > 0)
        assert (await line(desk)).verdict is Verdict.NOT_BEGUN
        await desk.done(payout)
        await desk.lab.mine(desk.lab.rail.confirmations)
        # before the books are compared again
        desk.lab.clock.advance(desk.app.settings.books_check_s / 2)

        async def opened() -> bool:
            return (await line(desk)).opened

        await until(opened)
    found = await line(desk)
    assert (found.verdict, found.booked) == (Verdict.EXACT, FLOAT - 150)


async def test_a_payout_explains_a_difference_up_to_its_amount_and_no_more(desk):
    assert await begin(desk)
    await desk.lab.pause()
    await desk.asked(150)
    await desk.turn()
    found = await line(desk)
    assert (found.verdict, found.going) == (Verdict.EXACT, 150)
    for held, verdict in (
        (FLOAT - 150, Verdict.UNDER_WAY),
        (FLOAT - 151, Verdict.MISSING),
        (FLOAT + 1, Verdict.UNBOOKED),
    ):
        assert replace(found, held=held).verdict is verdict
    # of the coin it is not known how much the transaction will cost
    assert (await line(desk, (WALLET, COIN))).busy


async def test_a_node_that_lags_tells_nothing(desk):
    assert await begin(desk)
    with pytest.raises(RailUnavailable):
        await desk.lab.rail.observer.holdings([PLACE], 10**6)
    await desk.lab.mine()
    # a worker that starts sees the newest block, and is then asked by a node that has it not yet
    await desk.restart()
    desk.lab.node.changes["eth_blockNumber"] = reply(hex(desk.worker.head - 1))
    found = await books.compare(desk.app)
    assert list(found.unread) == [CHAIN]
    assert {one.verdict for one in found.lines} == {Verdict.NOT_READ}


async def test_nothing_is_sent_before_the_books_begin(desk, monkeypatch, caplog):
    monkeypatch.setattr(keep_books, "_RETRY_S", 0.01)
    chain = desk.app.chains[CHAIN]
    chain.books_begun = False
    desk.lab.node.changes["eth_getBalance"] = refuse(-32005, "too many requests")
    # before anybody looks: the books begin with what is there at a final block
    await desk.lab.mine(desk.lab.rail.confirmations)
    payout = await desk.asked(150)
    async with kept(desk):
        await until(lambda: f"the books of {CHAIN} wait" in caplog.text)
        await desk.turn(2)
        assert (await desk.now(payout)).status is PayoutStatus.WAITING
        desk.lab.node.changes.clear()
        await until(lambda: chain.books_begun)
    await desk.done(payout)
    assert (await line(desk)).verdict is Verdict.EXACT


async def test_a_return_whose_money_is_here_is_sent_whatever_the_merchant_owes(desk):
    spent = Posting(f"merchant:{SHOP}", f"wallet:{WALLET}", TOKEN, 500)
    await desk.store.write(ledger.post("refund:old", "refund", None, None, (spent,), 0))
    came = Posting(f"wallet:{WALLET}", f"merchant:{SHOP}", TOKEN, 150)
    await desk.store.write(ledger.post("late:pay_1:0x1:0x2", "late", "pay_1", "0x1", (came,), 0))
    kind = {"kind": PayoutKind.RETURN, "live": True}
    here = await desk.asked(150, id="pout_1", backed=True, **kind)
    past = await desk.asked(150, id="pout_2", **kind)
    await desk.done(here)
    assert await desk.transfers(BUYER) == [150]
    desk.lab.clock.advance(61)
    await desk.turn()
    # what went past us is returned like a refund
    assert "lack 650 minor units" in ((await desk.now(past)).problem or "")
    assert await desk.store.read(ledger.balance(f"merchant:{SHOP}", TOKEN)) == 500


async def test_the_keeper_raises_the_alarm_and_takes_it_back(desk, caplog):
    await desk.lab.mine(desk.lab.rail.confirmations)
    later = passing(desk)
    async with kept(desk):
        told = f"{WALLET} holds 3 minor units of {TOKEN} less than is booked"
        chain = desk.app.chains[CHAIN]
        chain.lacking = told
        await until(lambda: chain.lacking, "", meanwhile=later)
        lost = Posting(f"wallet:{WALLET}", "external:x", TOKEN, 3)
        await desk.store.write(ledger.post("planted", "settle", None, None, (lost,), 0))
        await until(lambda: chain.lacking, told, meanwhile=later)
        assert told in caplog.text
        await desk.store.write(ledger.reverse("planted", 0))
        await until(lambda: chain.lacking, "", meanwhile=later)
