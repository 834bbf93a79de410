"""What a settler tells others of its work: pages, graphs, traces and receipts."""

from __future__ import annotations

from typing import Any

import pytest
from florin_server.store.receipts import effects

from tests.support.evm_lab import buyer
from tests.support.settler_lab import CHAIN, works

WALLET = buyer(77)

pytestmark = pytest.mark.both_chains


@pytest.fixture
async def shop(tmp_path, evm):
    async with works(tmp_path, evm=evm) as running:
        yield running


async def test_the_block_that_pays_is_told_before_it_is_final(shop):
    payment = await shop.accepted(WALLET)
    reference = shop.lab.rail.terms.reference((await shop.item(payment)).option)
    await shop.turn(2)
    (event,) = await shop.lab.rail.direct.paid([reference], 0)
    assert shop.app.chains[CHAIN].paid_in == {payment.id: event.block_number}
    await shop.end(payment)
    await shop.mine()
    assert shop.app.chains[CHAIN].paid_in == {}


async def test_how_long_a_payment_took_and_what_proves_it_are_told(shop, monkeypatch):
    spans: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        type(shop.app.traces), "step", lambda _, *told, **more: spans.append((*told, more))
    )
    payment = await shop.accepted(WALLET)
    item = await shop.item(payment)
    await shop.turn(2)
    shop.lab.clock.advance(7)
    assert (await shop.end(payment)).status == "succeeded"
    began_us, ended_us = item.confirmation.at_us, shop.lab.clock.now_us()
    assert spans == [(payment.id, "settle", began_us, ended_us, {"chain": CHAIN})]
    labels = {"chain": CHAIN, "status": "succeeded"}
    count, seconds = (
        shop.app.meters.registry.get_sample_value(
            f"florin_settlement_duration_seconds_{one}", labels
        )
        for one in ("count", "sum")
    )
    assert (count, seconds) == (1, (ended_us - began_us) / 1_000_000)
    (event,) = await shop.lab.rail.direct.paid([shop.lab.rail.terms.reference(item.option)], 0)
    effect = await shop.store.read(effects.get(payment.id))
    assert effect.position == event.position
    assert event.position is not None


async def test_a_chain_that_had_nothing_to_offer_is_looked_at_again(shop, monkeypatch):
    looks = []
    rail, start = shop.lab.rail, shop.lab.rail.start

    async def started():
        looks.append(rail.assets)
        await start()

    monkeypatch.setattr(rail, "start", started)
    shop.lab.clock.advance(10)
    await shop.turn()
    assert looks == []
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(type(rail), "assets", {})
        shop.lab.clock.advance(10)
        await shop.turn()
    assert looks == [{}]
