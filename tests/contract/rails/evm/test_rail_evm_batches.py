"""Test transactions that settle payments of several merchants."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import PayableAsset, Split

from tests.support.evm_harness import (
    FEES,
    MERCHANT,
    PRICE,
    TOKEN,
    EvmChainHarness,
    make_buyer,
    make_payment,
    make_settlement_item,
    open_lab,
    sign_option,
    to_account,
)

OTHER = "0x" + "cb" * 20
FEE = 15_000


@pytest.fixture
async def lab():
    lab = await open_lab()
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def make_item(lab: EvmChainHarness, number: int, merchant: str) -> SettlementItem:
    wallet, payment = make_buyer(1_000 + number), make_payment(number)
    await lab.fund(wallet)
    payer = to_account(wallet)
    split = Split(to_account(merchant), to_account(FEES), FEE, settled=True)
    option = lab.rail.offers.build_option(
        OptionOffer(
            *(payment, payer, PayableAsset(payer, TOKEN), lab.rail.assets[TOKEN], PRICE, split),
            lab.clock.now_us(),
        )
    )
    return make_settlement_item(payment, option, sign_option(wallet, option))


async def test_dry_run_reports_payments_of_interleaved_merchants_in_their_order(lab):
    items = [await make_item(lab, number, OTHER if number % 2 else MERCHANT) for number in range(6)]
    stranger = sign_option(make_buyer(1), items[3].option)
    items[3] = make_settlement_item(make_payment(3), items[3].option, stranger)
    expected = [number != 3 for number in range(6)]
    assert await lab.rail.relay.simulate(items) == expected


async def test_payments_of_one_merchant_are_paid_out_in_one_transfer(lab):
    items = [await make_item(lab, number, OTHER if number % 2 else MERCHANT) for number in range(6)]
    transaction = await lab.settle(*items)
    receipt = await lab.control.call("eth_getTransactionReceipt", transaction.hash)
    topic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
    transfers = [log for log in receipt["logs"] if log["topics"][0] == topic]
    paid_out = [log for log in transfers if log["topics"][1].endswith(DEVNET.settler[2:])]
    # per merchant: its share and the fee
    assert len(paid_out) == 4
    events = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(item.option) for item in items], 0
    )
    assert sorted(event.dest for event in events) == [MERCHANT] * 3 + [OTHER] * 3


async def test_frozen_merchant_does_not_stop_the_payments_of_others(lab):
    items = [await make_item(lab, number, OTHER if number % 2 else MERCHANT) for number in range(6)]
    await lab.send(
        to=DEVNET.token.address, data=bytes.fromhex("f9f92be4" + OTHER[2:].rjust(64, "0"))
    )
    await lab.settle(*items)
    events = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(item.option) for item in items], 0
    )
    assert [event.dest for event in events] == [MERCHANT] * 3
