"""Read an EVM chain block by block: senders, gas, settlement events, money at addresses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from florin_server.domain.chains.evm import abi
from florin_server.rails.evm import forwarder, settler

from florin_sandbox.devnet.genesis import DEVNET
from florin_sandbox.simulation.audit.target import ETHER, TOKENS, AuditTarget

ZERO_ADDRESS: Final = "0x" + "00" * 20
_ASSETS: Final = {ZERO_ADDRESS: ETHER, **{token.lower(): asset for asset, token in TOKENS.items()}}
_CONTRACTS: Final = {DEVNET.settler, DEVNET.forwarder}
_TRANSFER: Final = abi.encode_topic("Transfer(address,address,uint256)")
_AUTHORIZED: Final = abi.encode_topic("AuthorizationUsed(address,bytes32)")
_DONE: Final = "0x1"

Json = dict[str, Any]


class MovementKind(StrEnum):
    """A movement of money at a payment's address."""

    ARRIVED = "arrived"
    FORWARDED = "forwarded"  # to merchant and operator
    WENT_HOME = "went home"


@dataclass(frozen=True, slots=True)
class Movement:
    """Money that came to a payment's address or left it, in minor units of an asset (CAIP-19).

    Addresses are bare and lower-case. `account` is the sender or the receiver.
    """

    kind: MovementKind
    address: str
    asset: str
    value: int
    account: str
    block_number: int
    tx_hash: str


@dataclass
class AuditedEvmChain:
    """The facts of a chain. Senders are lower-case, gas is in wei, times are Unix seconds.

    `movements` are those at `addresses`, in the order of the chain. Coin that contracts send leaves
    no trace in transactions and is not among them.
    """

    addresses: frozenset[str] = frozenset()  # of payments

    time: int = 0  # of the newest final block
    payment_events: dict[str, list[Json]] = field(default_factory=lambda: defaultdict(list))
    copied_count: int = 0  # settlement events of tokens that the installation does not accept
    gas_costs: Counter[str] = field(default_factory=Counter)
    sent_hashes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    movements: list[Movement] = field(default_factory=list)
    authorizations: dict[tuple[str, str], str] = field(default_factory=dict)  # transactions

    def start_block(self, number: int, time: int) -> None:
        """Start a block; a hook for subclasses."""

    def add_transaction(self, number: int, transaction: Json, receipt: Json, time: int) -> None:
        """Record one transaction of a block."""
        sender = transaction["from"].lower()
        self.sent_hashes[sender].append(transaction["hash"])
        self.gas_costs[sender] += compute_gas_cost(receipt)
        for event in list_payment_events(receipt):
            if event["token"] in _ASSETS:
                self.payment_events[event["ref"]].append({**event, "time": time})
            else:
                self.copied_count += 1
        self._record_movements(number, transaction, receipt)

    def _record_movements(self, number: int, transaction: Json, receipt: Json) -> None:
        """Record what a transaction moved at payments' addresses, and the signatures it used."""
        place = number, transaction["hash"]
        receiver, value = (transaction["to"] or "").lower(), int(transaction["value"], 16)
        if receiver in self.addresses and value and receipt["status"] == _DONE:
            sender = transaction["from"].lower()
            self.movements.append(
                Movement(MovementKind.ARRIVED, receiver, ETHER, value, sender, *place)
            )
        for log in receipt["logs"]:
            contract, topics = log["address"].lower(), log["topics"]
            if contract in _ASSETS and topics[0] == _AUTHORIZED:
                self.authorizations[_to_address(topics[1]), topics[2]] = transaction["hash"]
            elif contract in _ASSETS and topics[0] == _TRANSFER:
                receiver = _to_address(topics[2])
                if receiver in self.addresses:
                    asset, value = _ASSETS[contract], int(log["data"], 16)
                    sender = _to_address(topics[1])
                    self.movements.append(
                        Movement(MovementKind.ARRIVED, receiver, asset, value, sender, *place)
                    )
            elif contract == DEVNET.forwarder and topics[0] == forwarder.SENT_HOME_TOPIC:
                home = forwarder.parse_home_transfer(log)
                if home.token in _ASSETS:
                    asset = _ASSETS[home.token]
                    self.movements.append(
                        Movement(
                            MovementKind.WENT_HOME,
                            home.address,
                            asset,
                            home.value,
                            home.home,
                            *place,
                        )
                    )
            elif contract == DEVNET.forwarder and topics[0] == settler.PAID_TOPIC:
                event = parse_payment_event(log)
                if event["token"] in _ASSETS:
                    asset = _ASSETS[event["token"]]
                    self.movements.append(
                        Movement(
                            MovementKind.FORWARDED,
                            event["payer"],
                            asset,
                            event["value"],
                            event["dest"],
                            *place,
                        )
                    )

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
        if log["topics"][0] == settler.PAID_TOPIC and log["address"].lower() in _CONTRACTS:
            yield parse_payment_event(log)


def parse_payment_event(log: Json) -> Json:
    """Return the fields of a settlement event."""
    body = log["data"][2:]
    words = (body[at : at + 64] for at in range(0, 320, 64))
    token, value, fee_to, fee, nonce = words
    return {
        "ref": log["topics"][1],
        "payer": _to_address(log["topics"][2]),
        "dest": _to_address(log["topics"][3]),
        "token": "0x" + token[-40:],
        "value": int(value, 16),
        "fee_to": "0x" + fee_to[-40:],
        "fee": int(fee, 16),
        "nonce": "0x" + nonce,
        "tx": log["transactionHash"],
    }


def _to_address(topic: str) -> str:
    """Return the address in a topic of a log."""
    return "0x" + topic[-40:]
