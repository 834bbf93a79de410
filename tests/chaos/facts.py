"""Read what a chaos run leaves on the EVM chain beyond every run's facts: the cost of attackers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from florin_sandbox.simulation.audit.blocks import (
    AuditedEvmChain,
    compute_gas_cost,
    list_payment_events,
)
from florin_sandbox.simulation.audit.target import ETHER, TOKENS, USD
from florin_server.domain.chains.evm import abi

from tests.chaos.front_runner import ADDRESS, decode_settlement
from tests.chaos.payment_run import SAVINGS
from tests.chaos.x402_buyers import SHOP

_ASSETS = {token.lower(): asset for asset, token in TOKENS.items()}
_TRANSFER = abi.encode_topic("Transfer(address,address,uint256)")


@dataclass(frozen=True)
class Sent:
    """A settlement in a block: its items by reference, and which of them it paid."""

    hash: str
    gas: int
    worked: bool
    items: dict[str, int]  # with the gas that each can use
    paid: frozenset[str]


@dataclass
class Chain(AuditedEvmChain):
    """An EVM chain, block by block.

    The balances of `buyers` were read after block `since`; `relayers` settle. Addresses are
    lower-case.
    """

    relayers: frozenset[str] = frozenset()
    buyers: frozenset[str] = frozenset()
    since: int = 0
    began: int = 0  # Unix seconds of the first block that was read
    gas_since: Counter[str] = field(default_factory=Counter)  # since buyers' balances were read
    # by asset and account, to contracts that send it on too, and to the facilitator's server
    sent_to_addresses: Counter[tuple[str, str]] = field(default_factory=Counter)
    coin_senders: frozenset[str] = frozenset()
    saved: Counter[str] = field(default_factory=Counter)  # what buyers moved away themselves
    coin_from_front_runner: Counter[str] = field(default_factory=Counter)  # by its receiver
    settlements: list[Sent] = field(default_factory=list)  # of relayers

    def start_block(self, number: int, time: int) -> None:
        if number == self.since:
            self.began = time

    def add_transaction(
        self, number: int, sent: dict[str, Any], receipt: dict[str, Any], time: int
    ) -> None:
        super().add_transaction(number, sent, receipt, time)
        sender = sent["from"].lower()
        if sender in self.relayers:
            self._record_settlement(sent, receipt)
        if number > self.since:
            self.gas_since[sender] += compute_gas_cost(receipt)
            self._record_transfers(receipt)
            receiver = (sent["to"] or "").lower()
            if receiver in self.addresses | self.coin_senders and receipt["status"] == "0x1":
                self.sent_to_addresses[ETHER, sender] += int(sent["value"], 16)
            if sender == ADDRESS and receipt["status"] == "0x1":
                self.coin_from_front_runner[sent["to"].lower()] += int(sent["value"], 16)

    def _record_transfers(self, receipt: dict[str, Any]) -> None:
        for log in receipt["logs"]:
            asset = _ASSETS.get(log["address"].lower())
            if log["topics"][0] != _TRANSFER or asset is None:
                continue
            giver, taker = ("0x" + topic[-40:] for topic in log["topics"][1:3])
            if taker in self.addresses or taker == SHOP:
                self.sent_to_addresses[asset, giver] += int(log["data"], 16)
            if asset != USD:
                continue
            if giver in self.buyers and (taker in self.buyers or taker == SAVINGS):
                self.saved[giver] += int(log["data"], 16)
                self.saved[taker] -= int(log["data"], 16)

    def _record_settlement(self, sent: dict[str, Any], receipt: dict[str, Any]) -> None:
        lists = decode_settlement(bytes.fromhex(sent["input"][2:]))
        if lists is None:
            return
        self.settlements.append(
            Sent(
                hash=sent["hash"],
                gas=int(receipt["gasUsed"], 16),
                worked=receipt["status"] == "0x1",
                items={
                    "0x" + arguments.ref.hex(): arguments.gas
                    for pays in lists
                    for arguments in pays
                },
                paid=frozenset(event["ref"] for event in list_payment_events(receipt)),
            )
        )
