"""Money that arrives at payments' own addresses, and the rules about who gets what back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

UNKNOWN_SENDER = ""


@dataclass(frozen=True, slots=True)
class Deposit:
    """Money that arrived at a payment's address, in minor units of an asset (CAIP-19).

    Hex texts are lower-case; addresses are bare. `sender` is empty if the chain does not show it,
    and so is `tx_hash` then. `position` counts the deposits of one asset at one address in a
    transaction, from 0: all nodes count it the same.
    """

    address: str
    asset: str
    value: int
    sender: str
    block_number: int
    block_hash: str
    tx_hash: str
    position: int = 0


@dataclass(frozen=True, slots=True)
class DepositTotals:
    """The sum of an address's deposits, compared with its price, in minor units.

    `blocked` came from blocked senders and counts for nothing.
    """

    received: int
    missing: int
    over: int
    blocked: int = 0


@dataclass(frozen=True, slots=True)
class DepositReport:
    """The content of an event about money at a payment's address (CAIP-10).

    `value` is in minor units of `asset` (CAIP-19). `sender` and `tx_hash` are None if the chain
    does not show them. `received`, `missing` and `over` are those of the address after a deposit,
    in minor units of `route_asset`; None for a return. A return went to `returned_to` (CAIP-10),
    in a payout. A claim has its id, and no sender.
    """

    address: str
    asset: str
    value: int
    sender: str | None
    tx_hash: str | None
    is_final: bool
    route_asset: str | None = None
    received: int | None = None
    missing: int | None = None
    over: int | None = None
    returned_to: str | None = None
    payout_id: str | None = None
    claim_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON value; amounts are texts, as they can have 256 bits."""
        return {
            name: str(item) if name in _AMOUNTS and item is not None else item
            for name, item in asdict(self).items()
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> DepositReport:
        """Return a stored report; other members of the JSON value are ignored."""
        values: dict[str, Any] = {
            name: int(item) if name in _AMOUNTS and item is not None else item
            for name, item in stored.items()
            if name in cls.__slots__
        }
        return cls(**values)


_AMOUNTS = frozenset({"value", "received", "missing", "over"})


@dataclass(frozen=True, slots=True)
class ReturnShare:
    """The part of swept money that one sender gets back; `sender` is empty if it is unknown.

    `deposits` are those that it came with, the last one first.
    """

    sender: str
    value: int
    deposits: tuple[Deposit, ...] = ()


@dataclass(slots=True)
class DepositStack:
    """The money of one asset at one address, by sender, the oldest first.

    A payment takes the oldest money of senders that are not blocked. A sweep takes all, and the
    last sender is the first to get its money back.
    """

    _parts: list[tuple[Deposit, int]] = field(default_factory=list)

    def add(self, deposit: Deposit) -> None:
        """Add a deposit on top."""
        self._parts.append((deposit, deposit.value))

    def pay(self, value: int, blocked_senders: Collection[str] = ()) -> None:
        """Take a payment's value from the oldest money, as far as it reaches.

        Money of blocked senders counts for nothing, so it is taken last: what is left is theirs.
        """
        for last in (False, True):
            for index, (deposit, available) in enumerate(self._parts):
                if (deposit.sender in blocked_senders) is last:
                    taken = min(value, available)
                    value -= taken
                    self._parts[index] = (deposit, available - taken)
        self._parts = [part for part in self._parts if part[1]]

    def sweep(self, value: int) -> list[ReturnShare]:
        """Empty the stack; return the shares of the senders in the swept value, each sender once.

        The chain decides how much there was: what no deposit explains has an unknown sender, and
        what tokens kept for themselves is missing from the oldest deposits.
        """
        shares: list[ReturnShare] = []
        for deposit, available in reversed(self._parts):
            taken = min(value, available)
            value -= taken
            if taken:
                shares.append(ReturnShare(deposit.sender, taken, (deposit,)))
        if value:
            shares.append(ReturnShare(UNKNOWN_SENDER, value))
        self._parts.clear()
        return merge_shares(shares)


def merge_shares(shares: Iterable[ReturnShare]) -> list[ReturnShare]:
    """Return shares with each sender once, in the order of their first share."""
    merged: dict[str, ReturnShare] = {}
    for share in shares:
        earlier = merged.get(share.sender, ReturnShare(share.sender, 0))
        merged[share.sender] = ReturnShare(
            share.sender, earlier.value + share.value, (*earlier.deposits, *share.deposits)
        )
    return list(merged.values())


def explain_unknown(shown: Iterable[Deposit], recorded: Iterable[Deposit]) -> list[Deposit]:
    """Return deposits in the order of blocks, with what was recorded of them at their time.

    A node that has lost the states of old blocks shows only that money came up to some block, and
    not from whom. What no record explains stays unknown.
    """
    explained = [deposit for deposit in shown if deposit.sender]
    missing = [deposit for deposit in recorded if deposit not in explained]
    unknown = sorted(
        (deposit for deposit in shown if not deposit.sender), key=lambda item: item.block_number
    )
    for deposit in unknown:
        rest = deposit.value
        for record in [*missing]:
            if record.block_number <= deposit.block_number and record.value <= rest:
                rest -= record.value
                explained.append(record)
                missing.remove(record)
        if rest:
            explained.append(replace(deposit, value=rest))
    return sorted(explained, key=lambda item: (item.block_number, not item.sender))


def compute_totals(
    price: int, deposits: Iterable[Deposit], blocked_senders: Iterable[str] = ()
) -> DepositTotals:
    """Return how the deposits of one asset at one address compare with its price."""
    blocked_set = frozenset(blocked_senders)
    received = blocked = 0
    for deposit in deposits:
        if deposit.sender in blocked_set:
            blocked += deposit.value
        else:
            received += deposit.value
    return DepositTotals(received, max(0, price - received), max(0, received - price), blocked)


def list_senders(deposits: Sequence[Deposit]) -> tuple[str, ...]:
    """Return the known senders of deposits, each once, in the order of their first deposit."""
    return tuple(dict.fromkeys(deposit.sender for deposit in deposits if deposit.sender))


def is_worth_moving(value: int, gas_cost: int, sweep_factor: int) -> bool:
    """Return whether money is worth so many times the gas that moves it; both in one unit."""
    return value > 0 and value >= sweep_factor * gas_cost
