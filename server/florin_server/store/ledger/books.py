"""What the books say about wallets, and what is on its way there, on one snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, Text, select, text, tuple_

from florin_server.domain.ledger import accounts, journals, postings
from florin_server.domain.payments.payment import Option
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.store.engine.query import Op, Row, Statement, exact_sum, operation, param
from florin_server.store.ledger import ledger
from florin_server.store.payouts import payouts
from florin_server.store.settlement import chain_txs
from florin_server.store.tables.settlement import OPEN
from florin_server.store.tables.tables import chain_tx, ledger_journal, ledger_transfer

WalletAsset = tuple[str, str]
"""A CAIP-10 account and a CAIP-19 asset."""

_WALLET = accounts.prefix(accounts.Kind.WALLET)
_OPENING = journals.prefix(journals.Kind.OPENING)
# what a text compares below that begins like another one
_END = ";"  # the sign after a colon
_LAST = "~"  # names of accounts begin with a kind, so that each compares below


def _sums(side: ColumnElement[str]) -> Select[Row]:
    asset = ledger_transfer.c.asset
    sums = select(side, asset, exact_sum(ledger_transfer.c.amount))
    return sums.where(side < param("end")).group_by(side, asset)


def _page(side: ColumnElement[str]) -> Select[Row]:
    asset = ledger_transfer.c.asset
    position = tuple_(param("account", Text), param("asset_", Text))
    page = _sums(side).where(tuple_(side, asset) > position)
    return page.order_by(side, asset).limit(param("most"))


_SIDES = (ledger_transfer.c.debit, ledger_transfer.c.credit)
_DEBITS, _CREDITS = (Statement(_sums(side).where(side >= param("first"))) for side in _SIDES)
_DEBIT_PAGE, _CREDIT_PAGE = (Statement(_page(side)) for side in _SIDES)
_KEYS = Statement(
    select(ledger_journal.c.idem_key).where(
        ledger_journal.c.idem_key >= param("first"), ledger_journal.c.idem_key < param("end")
    )
)
_BUSY = Statement(select(chain_tx.c.chain_id).where(text(OPEN)).distinct())
_ENTRIES = Statement(
    select(
        ledger_journal.c.idem_key,
        ledger_journal.c.at_us,
        ledger_journal.c.tx_hash,
        ledger_journal.c.note,
        ledger_transfer.c.debit,
        ledger_transfer.c.credit,
        ledger_transfer.c.asset,
        ledger_transfer.c.amount,
    )
    .join_from(
        ledger_journal, ledger_transfer, ledger_transfer.c.idem_key == ledger_journal.c.idem_key
    )
    .where(ledger_journal.c.payment_id == param("payment_id"))
    .order_by(ledger_journal.c.at_us, ledger_journal.c.idem_key, ledger_transfer.c.n)
)


@dataclass(frozen=True, slots=True)
class Chain:
    """What must be known of a chain to tell what is on its way.

    `brings` tells what a payment that is being settled brings to which account.
    """

    treasury: str
    brings: Callable[[Option], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Standing:
    """What wallets hold by the books, and what is on its way.

    `coming` and `going` are the most that may come and go by what is under way; the coin of a chain
    in `sending` may be less than is booked, by the fees of open transactions.
    """

    held: Mapping[WalletAsset, int]
    opened: frozenset[str]  # keys of journals
    coming: Mapping[WalletAsset, int]
    going: Mapping[WalletAsset, int]
    sending: frozenset[str]


@dataclass(frozen=True, slots=True)
class BalancePage:
    """Accounts with their balances in an asset, debits less credits, in minor units.

    `last` is the account and asset that the next page begins after; None on the last page.
    """

    balances: list[tuple[str, str, int]]
    last: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A transfer of a journal that belongs to a payment."""

    key: str
    at_us: int
    tx_hash: str | None
    note: str | None
    posting: Posting


def opening_of(place: WalletAsset) -> str:
    """The key of the journal that begins the books of a wallet in one asset."""
    return journals.opening(*place)


@operation
def standing(chains: Mapping[str, Chain]) -> Op[Standing]:
    """How the books stand; looks at every transfer of a wallet."""
    held: dict[WalletAsset, int] = defaultdict(int)
    for statement, sign in ((_DEBITS, 1), (_CREDITS, -1)):
        for wallet, asset, total in (yield statement(first=_WALLET, end=_WALLET[:-1] + _END)):
            held[wallet.removeprefix(_WALLET), asset] += sign * total
    opened = yield _KEYS(first=_OPENING, end=_OPENING[:-1] + _END)
    coming: dict[WalletAsset, int] = defaultdict(int)
    going: dict[WalletAsset, int] = defaultdict(int)
    for chain_id, chain in chains.items():
        for item in (yield from chain_txs.unsettled(chain_id)):
            for account, value in chain.brings(item.option).items():
                coming[account, item.option.asset] += value
        for one in (yield from payouts.submitted(chain_id)):
            going[chain.treasury, one.asset] += one.value
    sending = yield _BUSY()
    return Standing(
        held=dict(held),
        opened=frozenset(key for (key,) in opened),
        coming=dict(coming),
        going=dict(going),
        sending=frozenset(chain_id for (chain_id,) in sending),
    )


@operation
def list_balances(
    kind: accounts.Kind | None, after: tuple[str, str] | None, limit: int
) -> Op[BalancePage]:
    """Return a page of the balances of all accounts, or of those of a kind, by account and asset.

    Zero balances are left out, but count against the limit: else a page might read every transfer.
    """
    first = accounts.prefix(kind) if kind else ""
    account, asset = after or (first, "")
    page = {
        "account": account,
        "asset_": asset,
        "end": first[:-1] + _END if kind else _LAST,
        "most": limit + 1,
    }
    totals: dict[tuple[str, str], int] = defaultdict(int)
    for statement, sign in ((_DEBIT_PAGE, 1), (_CREDIT_PAGE, -1)):
        for *key, total in (yield statement(**page)):
            totals[key[0], key[1]] += sign * total
    # each side has its first limit + 1 keys, so that the first ones of both have all their sums
    keys = sorted(totals)
    return BalancePage(
        [(*key, totals[key]) for key in keys[:limit] if totals[key]],
        keys[limit - 1] if len(keys) > limit else None,
    )


@operation
def entries(payment_id: str) -> Op[list[Entry]]:
    """What was booked for a payment, the oldest first; looks at every journal."""
    rows = yield _ENTRIES(payment_id=payment_id)
    return [
        Entry(key, at_us, tx_hash, note, Posting(*posting))
        for key, at_us, tx_hash, note, *posting in rows
    ]


@operation
def begin(amounts: Mapping[WalletAsset, int], now_us: int) -> Op[None]:
    """Part of an operation: begins the books of wallets, with what is to be added, 0 or more."""
    for place, amount in sorted(amounts.items()):
        legs = postings.opened(*place, amount)
        yield from ledger.post(opening_of(place), journals.Kind.OPENING, None, None, legs, now_us)


@operation
def by_operator(key: str, place: WalletAsset, amount: int, note: str, now_us: int) -> Op[None]:
    """Part of an operation: books what the operator put in, or took out if it is below zero."""
    legs = postings.by_operator(*place, amount)
    yield from ledger.post(
        journals.operator(key), journals.Kind.OPERATOR, None, None, legs, now_us, note
    )
