"""An EVM chain, block by block: who sent what, what it cost, and which payments it brought."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from florin_server.devnet.genesis import DEVNET
from florin_server.rails.evm import settler
from florin_server.simulation.audit.ground import TOKENS, Ground

NOBODY: Final = "0x" + "00" * 20
_OURS: Final = {NOBODY, *(token.lower() for token in TOKENS.values())}

Json = dict[str, Any]


@dataclass
class EvmChain:
    """What a chain tells. Senders are lower-case, gas is in wei, times are Unix seconds."""

    time: int = 0  # of the newest final block
    paid: dict[str, list[Json]] = field(default_factory=lambda: defaultdict(list))
    copied: int = 0  # settlement events of tokens that nobody takes
    gas: Counter[str] = field(default_factory=Counter)
    sent: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def begins(self, number: int, time: int) -> None:
        """A block is looked at."""

    def take(self, number: int, sent: Json, receipt: Json, time: int) -> None:
        """One transaction of it."""
        del number
        sender = sent["from"].lower()
        self.sent[sender].append(sent["hash"])
        self.gas[sender] += gas_of(receipt)
        for event in paid_in(receipt):
            if event["token"] in _OURS:
                self.paid[event["ref"]].append({**event, "time": time})
            else:
                self.copied += 1

    async def read(self, ground: Ground) -> None:
        """Reads all blocks that are to be judged."""
        ask = ground.evm
        head = int(await ask("eth_blockNumber"), 16)
        for number in range(ground.since.block + 1, head + 1):
            block = await ask("eth_getBlockByNumber", hex(number), True)
            time = int(block["timestamp"], 16)
            if number <= head - ground.confirmations + 1:
                self.time = time
            self.begins(number, time)
            if not block["transactions"]:
                continue
            receipts = await ask("eth_getBlockReceipts", hex(number))
            for sent, receipt in zip(block["transactions"], receipts, strict=True):
                self.take(number, sent, receipt, time)


def gas_of(receipt: Json) -> int:
    """In wei."""
    return int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)


def paid_in(receipt: Json) -> Iterator[Json]:
    """The settlement events of a transaction."""
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
