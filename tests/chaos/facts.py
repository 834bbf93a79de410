"""What a storm leaves on the EVM chain, beyond what every run does: what attackers cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from florin_server.chains.evm import abi
from florin_server.simulation.audit.blocks import EvmChain, gas_of, paid_in
from florin_server.simulation.audit.ground import TOKENS, USD

from tests.chaos.story import SAVINGS
from tests.chaos.stranger import ADDRESS, pays_of

_TRANSFER = abi.topic("Transfer(address,address,uint256)")


@dataclass(frozen=True)
class Sent:
    """A settlement in a block: what it brought by reference, and which of that it paid."""

    hash: str
    gas: int
    worked: bool
    items: dict[str, int]  # with what each may use
    paid: frozenset[str]


@dataclass
class Chain(EvmChain):
    """An EVM chain, block by block.

    What `buyers` have was read after block `since`; `relayers` settle. Addresses are lower-case.
    """

    relayers: frozenset[str] = frozenset()
    buyers: frozenset[str] = frozenset()
    since: int = 0
    began: int = 0  # Unix seconds, of the first block that was looked at
    gas_since: Counter[str] = field(default_factory=Counter)  # since buyers' balances were read
    saved: Counter[str] = field(default_factory=Counter)  # what buyers moved away by themselves
    given: Counter[str] = field(default_factory=Counter)  # coin from the stranger
    settlements: list[Sent] = field(default_factory=list)  # of relayers

    def begins(self, number: int, time: int) -> None:
        if number == self.since:
            self.began = time

    def take(self, number: int, sent: dict[str, Any], receipt: dict[str, Any], time: int) -> None:
        super().take(number, sent, receipt, time)
        sender = sent["from"].lower()
        if sender in self.relayers:
            self._settlement(sent, receipt)
        if number > self.since:
            self.gas_since[sender] += gas_of(receipt)
            self._moved(receipt)
            if sender == ADDRESS and receipt["status"] == "0x1":
                self.given[sent["to"].lower()] += int(sent["value"], 16)

    def _moved(self, receipt: dict[str, Any]) -> None:
        for log in receipt["logs"]:
            if log["topics"][0] != _TRANSFER or log["address"].lower() != TOKENS[USD].lower():
                continue
            giver, taker = ("0x" + topic[-40:] for topic in log["topics"][1:3])
            if giver in self.buyers and (taker in self.buyers or taker == SAVINGS):
                self.saved[giver] += int(log["data"], 16)
                self.saved[taker] -= int(log["data"], 16)

    def _settlement(self, sent: dict[str, Any], receipt: dict[str, Any]) -> None:
        lists = pays_of(bytes.fromhex(sent["input"][2:]))
        if lists is None:
            return
        self.settlements.append(
            Sent(
                hash=sent["hash"],
                gas=int(receipt["gasUsed"], 16),
                worked=receipt["status"] == "0x1",
                items={"0x" + one.ref.hex(): one.gas for pays in lists for one in pays},
                paid=frozenset(event["ref"] for event in paid_in(receipt)),
            )
        )
