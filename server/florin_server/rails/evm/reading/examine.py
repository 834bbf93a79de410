"""A receipt on an EVM chain, as one node that somebody names tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from florin_server.chains.evm import abi
from florin_server.domain.caip import parse_asset
from florin_server.domain.receipts.receipt import Receipt
from florin_server.domain.receipts.verdict import Check, Outcome, Result
from florin_server.rails.connection.jsonrpc import Rpc, RpcError
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.payable import DECIMALS
from florin_server.rails.evm.paying.terms import NOBODY, bare
from florin_server.rails.evm.reading.node import (
    LATEST,
    Header,
    Node,
    address_text,
    call_to,
    data,
    hash_text,
    header,
    quantity,
    record,
    records,
    returned,
)
from florin_server.rails.evm.setup.bytecode import bytecode
from florin_server.rails.examining import (
    either,
    failed,
    of_payment,
    passed,
    reference_of,
    require_of_one_chain,
    unknown,
)
from florin_server.rails.types import Paid, RailUnavailable

_TRANSFER = abi.topic("Transfer(address,address,uint256)")
_COIN_DECIMALS = 18
_Log = Mapping[str, Any]


class _Asset(NamedTuple):
    """What is to have been paid, as the chain knows it; the coin is the zero address."""

    token: str
    decimals: int | None


class FinalityRule(NamedTuple):
    """When a block is final: with `confirmations`, its own among them, and all else that is set.

    Blocks of `after_s` seconds stand on top of it by their timestamps, and the node calls it `tag`.
    """

    confirmations: int
    after_s: int = 0
    tag: str = "none"


async def examine(rpc: Rpc, said: Receipt, rule: FinalityRule) -> list[Result]:
    """Return what came of every check; RailUnavailable if the node does not answer."""
    place, node = said.transaction, Node(rpc)
    try:
        require_of_one_chain(said)
        tx_hash, contract = hash_text(place.hash), address_text(said.option.contract)
        block_hash, token = hash_text(place.block_hash), _token(said)
    except (RailUnavailable, ValueError):
        return [failed(Check.CONTENT, "it does not name a settlement of an EVM chain")]
    served = f"eip155:{quantity(await node.ask('eth_chainId'))}"
    if served != place.chain:
        return [
            failed(Check.CHAIN, f"the node serves {served}, and the receipt is of {place.chain}")
        ]
    told, at, newest, code, decimals, *tagged = await node.batch(
        [
            ("eth_getTransactionReceipt", (tx_hash,)),
            ("eth_getBlockByNumber", (hex(place.block), False)),
            ("eth_getBlockByNumber", (LATEST, False)),
            ("eth_getCode", (contract, LATEST)),
            call_to(token, DECIMALS),
            *([] if rule.tag == "none" else [("eth_getBlockByNumber", (rule.tag, False))]),
        ]
    )
    head, block = header(newest), header(at)
    if head is None:
        raise RailUnavailable("the node has no newest block")
    found = [passed(Check.CHAIN, f"the node serves {served}")]
    receipt = record(told)
    found += _standing(receipt, block, head.number, place.block, block_hash)
    if receipt is None or block is None or found[-1].outcome is not Outcome.PASSED:
        return found
    found.append(_final(rule, block, head, tagged))
    ours = _contract(contract, data(code))
    found.append(ours)
    if ours.outcome is Outcome.FAILED:
        # whatever its events say
        return found
    logs = sorted(records(receipt.get("logs")), key=_number)
    asset = _Asset(token, _COIN_DECIMALS if token == NOBODY else _decimals(decimals))
    return found + _settlement(said, contract, asset, logs)


def _standing(
    receipt: _Log | None, block: Header | None, newest: int, number: int, block_hash: str
) -> list[Result]:
    """Whether the transaction is in the chain, worked, and is where it is said to be."""
    if receipt is None or receipt.get("blockHash") is None:
        if newest < number:
            return [unknown(Check.TRANSACTION, f"the node is at block {newest} only")]
        if block is not None and block.hash == block_hash:
            return [unknown(Check.TRANSACTION, "the node knows its block, and has forgotten it")]
        return [failed(Check.TRANSACTION, "it is not in the chain that this node knows")]
    if quantity(receipt.get("status")) != 1:
        return [failed(Check.TRANSACTION, "it failed on the chain, and moved nothing")]
    there = passed(Check.TRANSACTION, "it is in the chain that this node knows, and worked")
    now = hash_text(receipt.get("blockHash"))
    if now != block_hash:
        at = f"it stands in block {quantity(receipt.get('blockNumber'))}, {now}, now"
        return [there, failed(Check.BLOCK, f"{at}: a newer receipt tells that")]
    if block is None or block.hash != block_hash:
        told = f"block {number} is another one in the chain that this node knows"
        return [there, failed(Check.BLOCK, told)]
    return [there, passed(Check.BLOCK, f"block {number}, {block_hash}, Unix time {block.time}")]


def _final(rule: FinalityRule, block: Header, head: Header, tagged: Sequence[Any]) -> Result:
    """Return whether a block is final; `tagged` is the answer about the tag, if one is asked."""
    depth, passed_s = head.number - block.number + 1, head.time - block.time
    if depth < rule.confirmations:
        return unknown(Check.FINALITY, f"{depth} of {rule.confirmations} blocks stand")
    # timestamps are whole seconds
    if rule.after_s and passed_s <= rule.after_s:
        return unknown(
            Check.FINALITY, f"blocks of {passed_s} of {rule.after_s} seconds stand on it"
        )
    for answer in tagged:
        named = None if isinstance(answer, RpcError) else header(answer)
        if named is None:
            return unknown(Check.FINALITY, f"the node names no `{rule.tag}` block")
        if named.number < block.number:
            return unknown(Check.FINALITY, f"the node does not call it `{rule.tag}` yet")
    enough = f"{depth} blocks stand, where {rule.confirmations} are enough"
    if rule.after_s:
        enough += f"; they are of {passed_s} seconds, where {rule.after_s} are enough"
    return passed(Check.FINALITY, enough)


def _contract(contract: str, code: bytes) -> Result:
    ours = code == bytecode("PaySettler").runtime
    told = f"the code at {contract} is"
    return either(
        Check.CONTRACT,
        ours,
        f"{told} Florin's settlement contract",
        f"{told} not the settlement contract that this Florin knows",
    )


def _decimals(answer: Any) -> int | None:
    """Those that a token says it has; None if it says nothing."""
    told = returned(answer)
    return None if told is None or len(told) != abi.WORD else int.from_bytes(told, "big")


def _settlement(said: Receipt, contract: str, asset: _Asset, logs: Sequence[_Log]) -> list[Result]:
    """Whether the settlement event says what the receipt says, and the token says it too."""
    position, found = said.transaction.position, None
    for n, log in enumerate(logs):
        if settler.is_event(log, frozenset({contract}), settler.PAID):
            event = settler.paid(log)
            # who signed it was not told positions
            wanted = event.ref == said.option.reference if position is None else None
            if wanted or _number(log) == position:
                found = event, logs[:n]
    if found is None:
        told = f"log {position} of its block is no settlement by {contract} in this transaction"
        return [failed(Check.PAYMENT, told)]
    event, before = found
    ref = reference_of(said)
    return [
        of_payment(said, event.ref, None if ref is None else "0x" + ref.hex()),
        either(Check.PAYER, event.payer == bare(said.payer), said.payer, f"{event.payer} paid it"),
        _receivers(said, event),
        _amount(said, event, asset),
        *_moved(event, contract, asset.token, before),
    ]


def _receivers(said: Receipt, event: Paid) -> Result:
    fee_to = None if said.fee_to is None else bare(said.fee_to)
    right = event.dest == bare(said.recipient) and (not event.fee or event.fee_to == fee_to)
    return either(Check.RECIPIENT, right, said.recipient, f"{event.dest} received it")


def _amount(said: Receipt, event: Paid, asset: _Asset) -> Result:
    told = (event.token, str(event.value), str(event.fee))
    money = f"{event.value} minor units of {event.token}, of which {event.fee} are a fee"
    if told != (asset.token, said.paid.value, said.paid.fee):
        return failed(Check.AMOUNT, f"it was {money}")
    right = asset.decimals in {None, said.paid.decimals}
    bad = f"{event.token} has {asset.decimals} decimals, and not {said.paid.decimals}"
    return either(Check.AMOUNT, right, money, bad)


def _moved(event: Paid, contract: str, token: str, before: Sequence[_Log]) -> list[Result]:
    """What the token itself tells; nothing where the chain's own coin was paid.

    Its transfers stand between the contract's event before and this one.
    """
    if token == NOBODY:
        return []
    wanted: Counter[tuple[str, str]] = Counter()
    wanted[event.payer, contract] += event.value
    wanted[contract, event.dest] += event.value - event.fee
    wanted[contract, event.fee_to] += event.fee
    told: Counter[tuple[str, str]] = Counter()
    for log in reversed(before):
        sender = address_text(log.get("address"))
        if sender == contract:
            break
        topics = log.get("topics")
        if sender == token and isinstance(topics, list) and topics[:1] == [_TRANSFER]:
            # of a token of one's own making, with as many topics as one likes
            giver, taker, *_ = (*("0x" + hash_text(one)[26:] for one in topics[1:3]), "", "")
            told[giver, taker] += int.from_bytes(data(log.get("data"))[: abi.WORD], "big")
    right = all(told[pair] == value for pair, value in wanted.items() if value)
    return [
        either(
            Check.TRANSFER,
            right,
            "the token's own events tell the same",
            "the token's own events do not tell that so much moved",
        )
    ]


def _token(said: Receipt) -> str:
    asset = parse_asset(said.paid.asset)
    return NOBODY if asset.namespace == "slip44" else address_text(asset.reference)


def _number(log: _Log) -> int:
    return quantity(log.get("logIndex"))
