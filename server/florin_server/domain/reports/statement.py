"""The lines of a statement, made of sums of the ledger.

A statement follows the merchant's balance with the operator. Money that reaches the merchant's own
destination passes through it: it is received and paid on in the same line of the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from florin_server.domain.ledger.accounts import FEE, GAS, LedgerAccountKind
from florin_server.domain.ledger.journals import JournalKind

_REVERSED = f"{JournalKind.REVERSE}_"
_FEE_KIND = FEE.partition(":")[0]


@dataclass(frozen=True, slots=True)
class MovementSum:
    """The transfers of a kind of journal between two kinds of account in one asset.

    `amount` is in minor units; `journals` counts each journal once, with its first transfer.
    """

    type: str
    asset: str
    debit_kind: str
    credit_kind: str
    journals: int
    amount: int


@dataclass(frozen=True, slots=True)
class BalanceSum:
    """The balance of accounts in one asset before a time, in minor units; above zero is owed."""

    asset: str
    owed: int


@dataclass(slots=True)
class AssetStatement:
    """A statement in one asset, in minor units.

    `received` and `fees` are of succeeded payments. `other_received` is money without a succeeded
    payment: it came late or twice, a blocked payer sent it to the merchant directly, or the
    merchant paid it to the operator.
    `settled_directly` is the part of both that went to the merchant's own destination. Held money
    is no part of the balance until it is released.
    """

    asset: str
    opening: int = 0
    payments: int = 0
    received: int = 0
    fees: int = 0
    settled_directly: int = 0
    other_received: int = 0
    refunds: int = 0
    refunded: int = 0
    returns: int = 0
    returned: int = 0
    payouts: int = 0
    paid_out: int = 0
    held_opening: int = 0
    held_in: int = 0
    held_out: int = 0

    @property
    def closing(self) -> int:
        """Return the balance at the end: the opening balance and all movements."""
        received = self.received + self.other_received - self.fees - self.settled_directly
        return self.opening + received - self.refunded - self.returned - self.paid_out

    @property
    def held_closing(self) -> int:
        """Return what the operator still holds at the end."""
        return self.held_opening + self.held_in - self.held_out

    @property
    def is_empty(self) -> bool:
        """Return whether nothing moved, and nothing is owed or held."""
        return self == AssetStatement(self.asset)


@dataclass(frozen=True, slots=True)
class RequestedSum:
    """The succeeded payments requested in one unit; `value` is in its minor units."""

    unit: str
    payments: int
    value: int


@dataclass(frozen=True, slots=True)
class CostSum:
    """The cost of the operator's transactions: network fees, or rent of accounts."""

    account: str
    asset: str
    amount: int

    @property
    def line(self) -> tuple[str, str]:
        """Return the key and the words of the line."""
        if self.account == GAS:
            return "network_fees", "Network fees"
        return "account_rent", "Rent of opened accounts"


@dataclass(frozen=True, slots=True)
class StatementSums:
    """The sums of the ledger that a statement consists of, all of one moment.

    Balances are those of merchants and of held money at the start and at the end of the period.
    """

    movements: Iterable[MovementSum]
    opening: Iterable[BalanceSum]
    closing: Iterable[BalanceSum]
    held_opening: Iterable[BalanceSum]
    held_closing: Iterable[BalanceSum]


@dataclass(frozen=True, slots=True)
class StatementLines:
    """Statements by asset, and the differences from the ledger, in sentences; none are expected."""

    assets: Mapping[str, AssetStatement]
    differences: tuple[str, ...] = field(default=())


def build_statements(sums: StatementSums) -> StatementLines:
    """Return the statement of each asset, and compare it with the balances of the ledger."""
    assets: dict[str, AssetStatement] = {}

    def get(asset: str) -> AssetStatement:
        return assets.setdefault(asset, AssetStatement(asset))

    for balance in sums.opening:
        get(balance.asset).opening = balance.owed
    for balance in sums.held_opening:
        get(balance.asset).held_opening = balance.owed
    for movement in sums.movements:
        _add_movement(get(movement.asset), movement)
    closing = {balance.asset: balance.owed for balance in sums.closing}
    held = {balance.asset: balance.owed for balance in sums.held_closing}
    differences = [
        f"{name} in {asset} are {counted}, but the ledger has {booked}"
        for asset in sorted({*assets, *closing, *held})
        for name, counted, booked in (
            ("the balances", get(asset).closing, closing.get(asset, 0)),
            ("the held amounts", get(asset).held_closing, held.get(asset, 0)),
        )
        if counted != booked
    ]
    ordered = {asset: assets[asset] for asset in sorted(assets) if not assets[asset].is_empty}
    return StatementLines(ordered, tuple(differences))


def split_reversal(journal_type: str) -> tuple[str, int]:
    """Return the type of a journal, or that of the journal that it reverses, and 1 or -1."""
    plain = journal_type.removeprefix(_REVERSED)
    return plain, 1 if plain == journal_type else -1


def _add_movement(statement: AssetStatement, movement: MovementSum) -> None:
    """Add a sum to its lines; a reversal takes back what it reverses."""
    journal_type, sign = split_reversal(movement.type)
    debit, credit = movement.debit_kind, movement.credit_kind
    if sign < 0:
        debit, credit = credit, debit
    amount, count = sign * movement.amount, sign * movement.journals
    is_external = credit == LedgerAccountKind.EXTERNAL
    if credit == LedgerAccountKind.HELD:
        statement.held_in += amount
    if debit == LedgerAccountKind.HELD:
        statement.held_out += amount
    if journal_type == JournalKind.SETTLE:
        statement.payments += count
        # a fee that the merchant owes is no part of the money
        statement.received += 0 if debit == LedgerAccountKind.MERCHANT else amount
        statement.fees += amount if credit == _FEE_KIND else 0
        statement.settled_directly += amount if is_external else 0
    elif journal_type in {JournalKind.LATE, JournalKind.HELD}:
        statement.other_received += 0 if credit == LedgerAccountKind.HELD else amount
        statement.settled_directly += amount if is_external else 0
    elif journal_type == JournalKind.OPERATOR and credit == LedgerAccountKind.MERCHANT:
        statement.other_received += amount
    elif journal_type == JournalKind.REFUND:
        statement.refunds += count
        statement.refunded += amount
    elif journal_type == JournalKind.RETURN and debit == LedgerAccountKind.MERCHANT:
        statement.returns += count
        statement.returned += amount
    elif journal_type == JournalKind.PAYOUT:
        statement.payouts += count
        statement.paid_out += amount
