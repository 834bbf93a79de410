"""Test the cost of our own transactions, and the accounts that are charged."""

from __future__ import annotations

import pytest
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.settlement.worker.ended_transactions import build_cost_postings
from florin_server.rails.evm.reading.receipts import parse_transactions
from florin_server.rails.types import MinedTransaction

from tests.support.evm_harness import make_chain_settings

HASH, BLOCK = "0x" + "aa" * 32, "0x" + "bb" * 32
RECEIPT = {
    "transactionHash": HASH,
    "blockNumber": "0x5",
    "blockHash": BLOCK,
    "status": "0x1",
    "gasUsed": "0x5208",
    "effectiveGasPrice": "0x2",
}


@pytest.mark.parametrize(
    ("more", "cost"), [({}, 42_000), ({"l1Fee": None}, 42_000), ({"l1Fee": "0x7"}, 42_007)]
)
def test_a_rollups_fee_for_its_data_is_part_of_the_gas(more, cost):
    (mined,) = parse_transactions([RECEIPT | more], make_chain_settings())
    assert (mined.gas_cost, mined.rent) == (cost, 0)


@pytest.mark.parametrize(
    ("price", "cost"), [(0, 0), (1, 1), (47_619_047, 1), (47_619_048, 2), (2 * 10**10, 420)]
)
def test_fee_in_a_token_is_rounded_up_to_its_minor_unit(price, cost):
    chain = make_chain_settings(fee_token="0x" + "12" * 20)
    (mined,) = parse_transactions([RECEIPT | {"effectiveGasPrice": hex(price)}], chain)
    assert mined.gas_cost == cost


@pytest.mark.parametrize(
    ("gas", "rent", "booked"),
    [
        (0, 0, ()),
        (5, 0, (LedgerPosting("expense:gas", "wallet:a:1:b", "coin", 5),)),
        (
            5,
            7,
            (
                LedgerPosting("expense:gas", "wallet:a:1:b", "coin", 5),
                LedgerPosting("expense:rent", "wallet:a:1:b", "coin", 7),
            ),
        ),
        (
            5,
            -3,
            (
                LedgerPosting("expense:gas", "wallet:a:1:b", "coin", 5),
                LedgerPosting("wallet:a:1:b", "expense:rent", "coin", 3),
            ),
        ),
    ],
)
def test_gas_and_rent_are_booked_apart_and_rent_may_come_back(gas, rent, booked):
    mined = MinedTransaction(HASH, 5, BLOCK, success=True, gas_cost=gas, rent=rent)
    assert build_cost_postings(mined, "a:1:b", "coin") == booked
