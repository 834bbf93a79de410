"""Test what a settler publishes of its work: pages, graphs, traces and receipts."""

from __future__ import annotations

from typing import Any

import pytest
from florin_server.money.payments.store import effects

from tests.support.evm_lab import make_buyer
from tests.support.settler_lab import CHAIN, open_settlement_harness

WALLET = make_buyer(77)

pytestmark = pytest.mark.both_chains


@pytest.fixture
async def shop(tmp_path, evm):
    async with open_settlement_harness(tmp_path, evm=evm) as running:
        yield running


async def test_paying_block_is_shown_before_it_is_final(shop):
    payment = await shop.create_processing_payment(WALLET)
    reference = shop.lab.rail.terms.get_reference((await shop.get_item(payment)).option)
    await shop.turn(2)
    (event,) = await shop.lab.rail.direct_settlement.list_settlement_events([reference], 0)
    assert shop.app.chains[CHAIN].paying_blocks == {payment.id: event.block_number}
    await shop.run_to_end(payment)
    await shop.mine()
    assert shop.app.chains[CHAIN].paying_blocks == {}


async def test_settlement_duration_and_proof_position_are_recorded(shop, monkeypatch):
    spans: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        type(shop.app.traces),
        "record_step",
        lambda _, *args, **attributes: spans.append((*args, attributes)),
    )
    payment = await shop.create_processing_payment(WALLET)
    item = await shop.get_item(payment)
    await shop.turn(2)
    shop.lab.clock.advance(7)
    assert (await shop.run_to_end(payment)).status == "succeeded"
    began_us, ended_us = item.confirmation.at_us, shop.lab.clock.now_us()
    assert spans == [(payment.id, "settle", began_us, ended_us, {"chain": CHAIN})]
    labels = {"chain": CHAIN, "status": "succeeded"}
    count, seconds = (
        shop.app.meters.registry.get_sample_value(
            f"florin_settlement_duration_seconds_{suffix}", labels
        )
        for suffix in ("count", "sum")
    )
    assert (count, seconds) == (1, (ended_us - began_us) / 1_000_000)
    (event,) = await shop.lab.rail.direct_settlement.list_settlement_events(
        [shop.lab.rail.terms.get_reference(item.option)], 0
    )
    effect = await shop.store.read(effects.find(payment.id))
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
