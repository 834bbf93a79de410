"""What is stored, and what is on the EVM chain, as the judge of a run reads it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from florin_server.chains.evm import abi
from florin_server.devnet.evm import DEVNET
from florin_server.rails.evm import settler

from tests.chaos.plan import CONFIRMATIONS
from tests.chaos.stage import EUR, USD, Stage
from tests.chaos.story import SAVINGS
from tests.chaos.stranger import ADDRESS, pays_of
from tests.chaos.till import Till

NOBODY = "0x" + "00" * 20
TOKENS = {USD: DEVNET.token.address, EUR: DEVNET.euro.address}
_OURS = {NOBODY, *(token.lower() for token in TOKENS.values())}
_TRANSFER = abi.topic("Transfer(address,address,uint256)")
_COLUMNS = "o.payer, o.chain_id, o.asset, o.value, o.fee, o.terms, o.expires_at"
_ROWS = f"""
    SELECT p.id, p.status, p.tx_id, p.settled_value, {_COLUMNS}
    FROM payment p LEFT JOIN payment_option o ON o.payment_id = p.id AND o.id = p.option_id
"""
_OFFERED = f"""
    SELECT p.id, p.status, p.tx_id, p.settled_value, {_COLUMNS}
    FROM payment p JOIN payment_option o ON o.payment_id = p.id WHERE o.chain_id LIKE 'eip155:%'
"""
_REFUNDS = """
    SELECT payment_id, status, value, unit, account, tx_id FROM refund
"""
_RETURNS = """
    SELECT payment_id, status, value, 'caip19/' || asset, account, tx_id FROM payout
    WHERE kind = 'return'
"""


@dataclass(frozen=True)
class Row:
    """A stored payment with the option that it is bound to, or with one that was offered."""

    id: str
    status: str
    tx_id: str | None
    settled_value: int | None
    payer: str
    chain_id: str
    asset: str
    value: int
    fee: int
    terms: dict[str, Any]
    expires_at: int | None  # of its price

    @property
    def paid(self) -> bool:
        """True if it succeeded."""
        return self.status == "succeeded"

    @property
    def ref(self) -> str:
        """What settlement events name it by."""
        return str(self.terms["ref"])


@dataclass(frozen=True)
class Refund:
    """Money that went back."""

    payment_id: str
    status: str
    value: int
    asset: str
    account: str
    tx_id: str | None


@dataclass(frozen=True)
class Sent:
    """A settlement in a block: what it brought by reference, and which of that it paid."""

    hash: str
    gas: int
    worked: bool
    items: dict[str, int]  # with what each may use
    paid: frozenset[str]


@dataclass
class Chain:
    """An EVM chain, block by block."""

    began: int = 0  # Unix seconds, of the first block that was looked at
    time: int = 0  # of the newest final block
    paid: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    copied: int = 0  # settlement events of tokens that nobody takes
    gas: Counter[str] = field(default_factory=Counter)
    gas_since: Counter[str] = field(default_factory=Counter)  # since buyers' balances were read
    saved: Counter[str] = field(default_factory=Counter)  # what buyers moved away by themselves
    given: Counter[str] = field(default_factory=Counter)  # coin from the stranger
    sent: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    settlements: list[Sent] = field(default_factory=list)  # of relayers


class Facts:
    """Everything of one run."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.rows = [_row(values) for values in stage.select(_ROWS)]
        self.offered = {row.ref: row for row in map(_row, stage.select(_OFFERED))}
        self.refunds = [_refund(values) for values in stage.select(_REFUNDS)]
        self.held = dict(stage.select("SELECT payment_id, state FROM held_money"))
        self.returns = [_refund(values) for values in stage.select(_RETURNS)]

    async def chain(self, till: Till, since: int, buyers: frozenset[str]) -> Chain:
        """The EVM chain; what `buyers` have was read after block `since`."""
        chain, ask = Chain(), till.evm.ask
        relayers = {one.lower() for one in self._stage.relayers()}
        head = int(await ask("eth_blockNumber"), 16)
        for number in range(head + 1):
            block = await ask("eth_getBlockByNumber", hex(number), True)
            time = int(block["timestamp"], 16)
            if number <= head - CONFIRMATIONS + 1:
                chain.time = time
            if number == since:
                chain.began = time
            if not block["transactions"]:
                continue
            receipts = await ask("eth_getBlockReceipts", hex(number))
            for sent, receipt in zip(block["transactions"], receipts, strict=True):
                _take(chain, sent, receipt, time)
                if sent["from"].lower() in relayers:
                    _settlement(chain, sent, receipt)
                if number > since:
                    chain.gas_since[sent["from"].lower()] += _gas(receipt)
                    _moved(chain, receipt, buyers)
                    if sent["from"].lower() == ADDRESS and receipt["status"] == "0x1":
                        chain.given[sent["to"].lower()] += int(sent["value"], 16)
        return chain


def _row(values: tuple[Any, ...]) -> Row:
    payment_id, status, tx_id, settled, payer, chain_id, asset, value, fee, terms, ends = values
    return Row(
        id=payment_id,
        status=status,
        tx_id=tx_id,
        settled_value=None if settled is None else int(settled),
        payer=payer or "",
        chain_id=chain_id or "",
        asset=asset or "",
        value=int(value or 0),
        fee=int(fee or 0),
        terms=json.loads(terms or "{}"),
        expires_at=ends,
    )


def _refund(values: tuple[Any, ...]) -> Refund:
    payment_id, status, value, unit, account, tx_id = values
    asset = unit.removeprefix("caip19/")
    return Refund(payment_id, status, int(value), asset, account or "", tx_id)


def _take(chain: Chain, sent: dict[str, Any], receipt: dict[str, Any], time: int) -> None:
    sender = sent["from"].lower()
    chain.sent[sender].append(sent["hash"])
    chain.gas[sender] += _gas(receipt)
    for event in _paid(receipt):
        if event["token"] in _OURS:
            chain.paid[event["ref"]].append({**event, "time": time})
        else:
            chain.copied += 1


def _moved(chain: Chain, receipt: dict[str, Any], buyers: frozenset[str]) -> None:
    for log in receipt["logs"]:
        if log["topics"][0] != _TRANSFER or log["address"].lower() != TOKENS[USD].lower():
            continue
        giver, taker = ("0x" + topic[-40:] for topic in log["topics"][1:3])
        if giver in buyers and (taker in buyers or taker == SAVINGS):
            chain.saved[giver] += int(log["data"], 16)
            chain.saved[taker] -= int(log["data"], 16)


def _settlement(chain: Chain, sent: dict[str, Any], receipt: dict[str, Any]) -> None:
    lists = pays_of(bytes.fromhex(sent["input"][2:]))
    if lists is None:
        return
    chain.settlements.append(
        Sent(
            hash=sent["hash"],
            gas=int(receipt["gasUsed"], 16),
            worked=receipt["status"] == "0x1",
            items={"0x" + one.ref.hex(): one.gas for pays in lists for one in pays},
            paid=frozenset(event["ref"] for event in _paid(receipt)),
        )
    )


def _gas(receipt: dict[str, Any]) -> int:
    """In wei."""
    return int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)


def _paid(receipt: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for log in receipt["logs"]:
        if log["topics"][0] == settler.PAID and log["address"].lower() == DEVNET.settler:
            body = log["data"][2:]
            words = (body[at : at + 64] for at in range(0, 320, 64))
            token, value, fee_to, fee, nonce = words
            yield {
                "ref": log["topics"][1],
                "payer": "0x" + log["topics"][2][-40:],
                "dest": "0x" + log["topics"][3][-40:],
                "token": "0x" + token[-40:],
                "value": int(value, 16),
                "fee_to": "0x" + fee_to[-40:],
                "fee": int(fee, 16),
                "nonce": "0x" + nonce,
                "tx": receipt["transactionHash"],
            }
