"""Wallets' balances according to the books, and money on its way to them, on one snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, Text, func, select, text, tuple_

from florin_server.db.engine.query import Op, Statement, operation, param, sum_u256
from florin_server.db.tables.settlement import OPEN_TX_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx_table,
    ledger_journal_table,
    ledger_transfer_table,
    watched_tx_table,
)
from florin_server.domain.ledger import accounts, journals, postings
from florin_server.domain.payments.payment import PaymentOption
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.store import payouts
from florin_server.money.settlement.store import settlement_items

WalletAsset = tuple[str, str]
"""A CAIP-10 account and a CAIP-19 asset."""

_WALLET = accounts.kind_prefix(accounts.LedgerAccountKind.WALLET)
_OPENING = journals.key_prefix(journals.JournalKind.OPENING)
# upper bounds of the texts that begin with a prefix
_END = ";"  # the character after a colon
_LAST = "~"  # account names begin with a kind, so that each is below it


def _select_sums(side: ColumnElement[str]) -> Select[Any]:
    asset = ledger_transfer_table.c.asset
    total = sum_u256(ledger_transfer_table.c.amount).label("total")
    sums = select(side.label("account"), asset, total)
    return sums.where(side < param("end")).group_by(side, asset)


def _page(side: ColumnElement[str]) -> Select[Any]:
    asset = ledger_transfer_table.c.asset
    position = tuple_(param("account", Text), param("asset_", Text))
    page = _select_sums(side).where(tuple_(side, asset) > position)
    return page.order_by(side, asset).limit(param("most"))


_SIDES = (ledger_transfer_table.c.debit, ledger_transfer_table.c.credit)


class _Total(NamedTuple):
    account: str
    asset: str
    total: int


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A transfer in a journal of a payment."""

    key: str
    at_us: int
    tx_hash: str | None
    note: str | None
    posting: LedgerPosting


_DEBITS, _CREDITS = (
    Statement(_select_sums(side).where(side >= param("first")), _Total) for side in _SIDES
)
_DEBIT_PAGE, _CREDIT_PAGE = (Statement(_page(side), _Total) for side in _SIDES)
_KEYS = Statement(
    select(ledger_journal_table.c.idem_key).where(
        ledger_journal_table.c.idem_key >= param("first"),
        ledger_journal_table.c.idem_key < param("end"),
    ),
    str,
)
_BUSY = Statement(select(chain_tx_table.c.chain_id).where(text(OPEN_TX_PREDICATE)).distinct(), str)
_NEWEST_BLOCK = Statement.nullable(
    select(func.max(watched_tx_table.c.block_number)).where(
        watched_tx_table.c.chain_id == param("chain")
    ),
    int,
)
_ENTRIES = Statement(
    select(
        ledger_journal_table.c.idem_key.label("key"),
        ledger_journal_table.c.at_us,
        ledger_journal_table.c.tx_hash,
        ledger_journal_table.c.note,
        ledger_transfer_table.c.debit,
        ledger_transfer_table.c.credit,
        ledger_transfer_table.c.asset,
        ledger_transfer_table.c.amount,
    )
    .join_from(
        ledger_journal_table,
        ledger_transfer_table,
        ledger_transfer_table.c.idem_key == ledger_journal_table.c.idem_key,
    )
    .where(ledger_journal_table.c.payment_id == param("payment_id"))
    .order_by(
        ledger_journal_table.c.at_us, ledger_journal_table.c.idem_key, ledger_transfer_table.c.n
    ),
    LedgerEntry,
    posting=LedgerPosting,
)


@dataclass(frozen=True, slots=True)
class ChainAccounting:
    """The data of a chain that is needed to compute money on its way.

    `expected_credits` returns what a payment that is being settled brings to which account.
    """

    treasury: str
    expected_credits: Callable[[PaymentOption], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class BookSnapshot:
    """Wallets' balances according to the books, and money on its way.

    `incoming` and `outgoing` are the most that open transactions can move. For a chain in
    `sending_chain_ids`, the coin on chain may be less than booked, by the fees of open
    transactions. `newest_blocks` are of final transactions that a reorganization could still
    remove, by chain, 0 without one; a node without such a block knows less than the books.
    """

    balances: Mapping[WalletAsset, int]
    opening_keys: frozenset[str]  # keys of journals
    incoming: Mapping[WalletAsset, int]
    outgoing: Mapping[WalletAsset, int]
    sending_chain_ids: frozenset[str]
    newest_blocks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BalancePage:
    """Accounts with their balances in an asset, debits less credits, in minor units.

    `last` is the account and asset after which the next page begins; None on the last page.
    """

    balances: list[tuple[str, str, int]]
    last: tuple[str, str] | None


def format_opening_key(wallet_asset: WalletAsset) -> str:
    """Return the key of the journal that opens a wallet's books in one asset."""
    return journals.opening_key(*wallet_asset)


@operation
def read_snapshot(chain_accounting: Mapping[str, ChainAccounting]) -> Op[BookSnapshot]:
    """Return the state of the books; reads every transfer of a wallet."""
    held: dict[WalletAsset, int] = defaultdict(int)
    for statement, sign in ((_DEBITS, 1), (_CREDITS, -1)):
        for wallet, asset, total in (
            yield from statement.all(first=_WALLET, end=_WALLET[:-1] + _END)
        ):
            held[wallet.removeprefix(_WALLET), asset] += sign * total
    opened = yield from _KEYS.all(first=_OPENING, end=_OPENING[:-1] + _END)
    coming: dict[WalletAsset, int] = defaultdict(int)
    going: dict[WalletAsset, int] = defaultdict(int)
    newest: dict[str, int] = {}
    for chain_id, chain in chain_accounting.items():
        for item in (yield from settlement_items.list_unsettled(chain_id)):
            for account, value in chain.expected_credits(item.option).items():
                coming[account, item.option.asset] += value
        for payout in (yield from payouts.list_submitted(chain_id)):
            going[chain.treasury, payout.asset] += payout.value
        newest[chain_id] = (yield from _NEWEST_BLOCK.single(chain=chain_id)) or 0
    sending = yield from _BUSY.all()
    return BookSnapshot(
        balances=dict(held),
        opening_keys=frozenset(opened),
        incoming=dict(coming),
        outgoing=dict(going),
        sending_chain_ids=frozenset(sending),
        newest_blocks=newest,
    )


@operation
def list_balances(
    kind: accounts.LedgerAccountKind | None, after: tuple[str, str] | None, limit: int
) -> Op[BalancePage]:
    """Return a page of the balances of all accounts, or of a kind, by account and asset.

    Zero balances are left out, but count against the limit: otherwise a page might read every
    transfer.
    """
    first = accounts.kind_prefix(kind) if kind else ""
    account, asset = after or (first, "")
    page = {
        "account": account,
        "asset_": asset,
        "end": first[:-1] + _END if kind else _LAST,
        "most": limit + 1,
    }
    totals: dict[tuple[str, str], int] = defaultdict(int)
    for statement, sign in ((_DEBIT_PAGE, 1), (_CREDIT_PAGE, -1)):
        for account, asset, total in (yield from statement.all(**page)):
            totals[account, asset] += sign * total
    # each side has its first limit + 1 keys, so that the first keys of both have all their sums
    keys = sorted(totals)
    return BalancePage(
        [(*key, totals[key]) for key in keys[:limit] if totals[key]],
        keys[limit - 1] if len(keys) > limit else None,
    )


@operation
def list_entries(payment_id: str) -> Op[list[LedgerEntry]]:
    """Return the book entries of a payment, the oldest first; reads every journal."""
    return (yield from _ENTRIES.all(payment_id=payment_id))


@operation
def open_books(amounts: Mapping[WalletAsset, int], now_us: int) -> Op[None]:
    """Open the books of wallets with added amounts, 0 or more; part of an operation."""
    for place, amount in sorted(amounts.items()):
        legs = postings.build_opening_postings(*place, amount)
        yield from ledger.post(
            format_opening_key(place), journals.JournalKind.OPENING, None, None, legs, now_us
        )


@operation
def post_operator_entry(  # noqa: PLR0917  (one of each, none alike)
    key: str,
    wallet_asset: WalletAsset,
    amount: int,
    note: str,
    now_us: int,
    merchant_id: str | None = None,
) -> Op[None]:
    """Book what the operator put in, or took out if negative; part of an operation.

    With `merchant_id` it is what that merchant put in.
    """
    if merchant_id is None:
        legs = postings.build_operator_postings(*wallet_asset, amount)
    else:
        legs = postings.build_merchant_deposit_postings(*wallet_asset, amount, merchant_id)
    yield from ledger.post(
        journals.operator_key(key), journals.JournalKind.OPERATOR, None, None, legs, now_us, note
    )
