"""Whether a token's own events show that the money of a settlement event moved.

Earlier settlement contracts, and the forwarder, emit an event after all transfers of its payment.
The settlement contract emits it once the money was taken, and then pays out neighbors with the same
token and receivers together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from florin_server.domain.chains.evm import abi
from florin_server.rails.evm import settler
from florin_server.rails.evm.reading.node import parse_address, parse_data, parse_hash
from florin_server.rails.types import SettlementEvent

_TRANSFER = abi.encode_topic("Transfer(address,address,uint256)")
_Log = Mapping[str, Any]


class _Transfer(NamedTuple):
    giver: str
    taker: str
    value: int


def is_shown_before(
    event: SettlementEvent, contract: str, logs: Sequence[_Log], *, giver: str, taker: str
) -> bool:
    """Return True if transfers before an event show its payment; `logs` are those before it.

    They are between the contract's previous event and this one. `giver` pays merchant and fee
    receiver; `taker` is who got the money from the payer, empty if no one did.
    """
    expected: Counter[tuple[str, str]] = Counter()
    if taker:
        expected[event.payer, taker] += event.value
    expected[giver, event.dest] += event.value - event.fee
    expected[giver, event.fee_to] += event.fee
    own = _list_until_contract(reversed(logs), contract)
    return _contains(expected, own, event.token)


def is_shown_together(
    event: SettlementEvent, contract: str, logs: Sequence[_Log], position: int
) -> bool:
    """Return True if transfers around the event at a position show its payment."""
    taken = _list_until_contract(reversed(logs[:position]), contract)
    if not _contains(Counter({(event.payer, contract): event.value}), taken, event.token):
        return False
    later, last = _list_neighbors(event, contract, enumerate(logs[position + 1 :], position + 1))
    earlier = reversed(list(enumerate(logs[:position])))
    neighbors = [event, *later, *_list_neighbors(event, contract, earlier)[0]]
    expected: Counter[tuple[str, str]] = Counter()
    for each in neighbors:
        expected[contract, event.dest] += each.value - each.fee
        expected[contract, event.fee_to] += each.fee
    paid_out = _list_until_contract(logs[max(position, last) + 1 :], contract)
    return _contains(expected, paid_out, event.token)


def _list_neighbors(
    event: SettlementEvent, contract: str, logs: Iterable[tuple[int, _Log]]
) -> tuple[list[SettlementEvent], int]:
    """Return the events of payments that are paid out with this one, and the place of the last."""
    neighbors: list[SettlementEvent] = []
    last = -1
    for place, log in logs:
        transfer = _parse_transfer(log, event.token)
        if transfer is not None and transfer.giver == contract:
            break
        if not settler.is_event(log, frozenset({contract}), settler.PAID_TOPIC):
            continue
        other = settler.parse_paid_event(log)
        if (other.token, other.dest, other.fee_to) != (event.token, event.dest, event.fee_to):
            break
        neighbors.append(other)
        last = place
    return neighbors, last


def _list_until_contract(logs: Iterable[_Log], contract: str) -> list[_Log]:
    """Return the logs up to the next one of the contract."""
    result = []
    for log in logs:
        if parse_address(log.get("address")) == contract:
            break
        result.append(log)
    return result


def _contains(expected: Counter[tuple[str, str]], logs: Iterable[_Log], token: str) -> bool:
    """Return True if transfers of a token add up to what is expected of each pair of accounts."""
    sums: Counter[tuple[str, str]] = Counter()
    for log in logs:
        if (transfer := _parse_transfer(log, token)) is not None:
            sums[transfer.giver, transfer.taker] += transfer.value
    return all(sums[pair] == value for pair, value in expected.items() if value)


def _parse_transfer(log: _Log, token: str) -> _Transfer | None:
    topics = log.get("topics")
    if parse_address(log.get("address")) != token or not isinstance(topics, list):
        return None
    if topics[:1] != [_TRANSFER]:
        return None
    # a token can be anyone's own, with any number of topics
    giver, taker, *_ = (*("0x" + parse_hash(topic)[26:] for topic in topics[1:3]), "", "")
    return _Transfer(giver, taker, int.from_bytes(parse_data(log.get("data"))[: abi.WORD], "big"))
