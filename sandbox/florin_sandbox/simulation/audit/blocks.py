"""Read an EVM chain block by block: senders, gas costs and settlement events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from florin_server.rails.evm import settler

from florin_sandbox.devnet.genesis import DEVNET
from florin_sandbox.simulation.audit.target import TOKENS, AuditTarget

ZERO_ADDRESS: Final = "0x" + "00" * 20
_OWN_ADDRESSES: Final = {ZERO_ADDRESS, *(token.lower() for token in TOKENS.values())}

Json = dict[str, Any]


@dataclass
class AuditedEvmChain:
    """The facts of a chain. Senders are lower-case, gas is in wei, times are Unix seconds."""

    time: int = 0  # of the newest final block
    payment_events: dict[str, list[Json]] = field(default_factory=lambda: defaultdict(list))
    copied_count: int = 0  # settlement events of tokens that the installation does not accept
    gas_costs: Counter[str] = field(default_factory=Counter)
    sent_hashes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def start_block(self, number: int, time: int) -> None:
        """Start a block; a hook for subclasses."""

    def add_transaction(self, number: int, transaction: Json, receipt: Json, time: int) -> None:
        """Record one transaction of a block."""
        del number
        sender = transaction["from"].lower()
        self.sent_hashes[sender].append(transaction["hash"])
        self.gas_costs[sender] += compute_gas_cost(receipt)
        for event in list_payment_events(receipt):
            if event["token"] in _OWN_ADDRESSES:
                self.payment_events[event["ref"]].append({**event, "time": time})
            else:
                self.copied_count += 1

    async def read(self, ground: AuditTarget) -> None:
        """Read all blocks of the audit."""
        ask = ground.evm
        head = int(await ask("eth_blockNumber"), 16)
        for number in range(ground.baseline.block + 1, head + 1):
            block = await ask("eth_getBlockByNumber", hex(number), True)
            time = int(block["timestamp"], 16)
            if number <= head - ground.confirmations + 1:
                self.time = time
            self.start_block(number, time)
            if not block["transactions"]:
                continue
            receipts = await ask("eth_getBlockReceipts", hex(number))
            for sent, receipt in zip(block["transactions"], receipts, strict=True):
                self.add_transaction(number, sent, receipt, time)


def compute_gas_cost(receipt: Json) -> int:
    """Return the gas cost of a transaction in wei."""
    return int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)


def list_payment_events(receipt: Json) -> Iterator[Json]:
    """Yield the settlement events of a transaction."""
    for log in receipt["logs"]:
        if log["topics"][0] == settler.PAID_TOPIC and log["address"].lower() == DEVNET.settler:
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
