"""Test which transfers around a settlement event prove its payment to the reader of a receipt."""

from __future__ import annotations

from typing import Any

import pytest
from florin_server.domain.chains.evm import abi
from florin_server.rails.evm import settler
from florin_server.rails.evm.reading.receipt_transfers import is_shown_before, is_shown_together

CONTRACT, TOKEN, SHOP, OTHER_SHOP, OPERATOR, *BUYERS = ("0x" + f"{n:02x}" * 20 for n in range(1, 9))
TRANSFER = abi.encode_topic("Transfer(address,address,uint256)")


def word(address: str) -> str:
    return abi.to_hex(abi.encode_address(address))


def transfer(giver: str, taker: str, value: int, token: str = TOKEN) -> dict[str, Any]:
    topics = [TRANSFER, word(giver), word(taker)]
    return {"address": token, "topics": topics, "data": abi.to_hex(abi.encode_uint256(value))}


def paid(buyer: str, value: int, fee: int = 1, shop: str = SHOP) -> dict[str, Any]:
    body = (
        abi.encode_address(TOKEN),
        abi.encode_uint256(value),
        abi.encode_address(OPERATOR),
        abi.encode_uint256(fee),
        b"\x07" * 32,
    )
    return {
        "address": CONTRACT,
        "topics": [settler.PAID_TOPIC, "0x" + "aa" * 32, word(buyer), word(shop)],
        "data": abi.to_hex(b"".join(body)),
        "transactionHash": "0x" + "bb" * 32,
        "blockHash": "0x" + "cc" * 32,
        "blockNumber": "0x1",
        "logIndex": "0x0",
    }


def taken(buyer: str, value: int, shop: str = SHOP) -> list[dict[str, Any]]:
    return [transfer(buyer, CONTRACT, value), paid(buyer, value, shop=shop)]


FAILED = {"address": CONTRACT, "topics": ["0x" + "dd" * 32], "data": "0x"}
# two payments to one shop, with one that failed between them, then one to another shop
LOGS = [
    *taken(BUYERS[0], 100),
    FAILED,
    *taken(BUYERS[1], 50),
    transfer(CONTRACT, SHOP, 148),
    transfer(CONTRACT, OPERATOR, 2),
    *taken(BUYERS[2], 30, OTHER_SHOP),
    transfer(CONTRACT, OTHER_SHOP, 29),
    transfer(CONTRACT, OPERATOR, 1),
]
PLACES = [n for n, log in enumerate(LOGS) if log["topics"][0] == settler.PAID_TOPIC]


def is_shown(logs: list[dict[str, Any]], place: int) -> bool:
    return is_shown_together(settler.parse_paid_event(logs[place]), CONTRACT, logs, place)


@pytest.mark.parametrize("place", PLACES)
def test_payments_that_moved_together_are_shown(place):
    assert is_shown(LOGS, place)


@pytest.mark.parametrize("removed", [n for n, log in enumerate(LOGS) if log["address"] == TOKEN])
def test_missing_transfer_shows_no_payment_of_its_group(removed):
    logs = [log for n, log in enumerate(LOGS) if n != removed]
    places = [n for n, log in enumerate(logs) if log["topics"][0] == settler.PAID_TOPIC]
    first_group, other = [is_shown(logs, place) for place in places[:2]], is_shown(logs, places[2])
    # what a buyer gave proves only that payment; what was paid out proves the whole group
    if LOGS[removed]["topics"][2] == word(CONTRACT):
        assert [*first_group, other].count(False) == 1
    else:
        assert (any(first_group), other) in {(False, True), (True, False)}


def test_smaller_payout_and_another_token_show_nothing():
    short = [transfer(CONTRACT, SHOP, 147) if n == 5 else log for n, log in enumerate(LOGS)]
    foreign = [
        transfer(CONTRACT, SHOP, 148, token=OTHER_SHOP) if n == 5 else log
        for n, log in enumerate(LOGS)
    ]
    for logs in (short, foreign):
        assert not is_shown(logs, PLACES[0])
        assert not is_shown(logs, PLACES[1])


def test_event_of_an_earlier_contract_follows_its_transfers():
    event = paid(BUYERS[0], 100)
    logs = [
        transfer(BUYERS[0], CONTRACT, 100),
        transfer(CONTRACT, SHOP, 99),
        transfer(CONTRACT, OPERATOR, 1),
    ]
    parsed = settler.parse_paid_event(event)
    assert is_shown_before(parsed, CONTRACT, logs, giver=CONTRACT, taker=CONTRACT)
    assert not is_shown_before(parsed, CONTRACT, logs[:2], giver=CONTRACT, taker=CONTRACT)
    # an event of the contract between them ends the payment before
    apart = [*logs[:1], FAILED, *logs[1:]]
    assert not is_shown_before(parsed, CONTRACT, apart, giver=CONTRACT, taker=CONTRACT)
