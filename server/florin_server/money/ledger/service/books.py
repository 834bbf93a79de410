"""The comparison of the ledger with the chains: what every wallet has, and why it differs.

A difference that work in progress explains is ignored. A shortage raises an alarm. A surplus is
unbooked until the operator says that it was a deposit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Protocol

from florin_server.accounts.store import merchants
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, on_snapshot
from florin_server.domain import cursor
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.caip import canonicalize_account, canonicalize_asset
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.ids import generate_short_id
from florin_server.domain.ledger.accounts import LedgerAccountKind
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.money.ledger.service import postings
from florin_server.money.ledger.store import books, ledger
from florin_server.money.ledger.store.books import (
    BookSnapshot,
    ChainAccounting,
    LedgerEntry,
    WalletAsset,
    format_opening_key,
)
from florin_server.money.payments.store import history
from florin_server.money.payouts.store import payouts
from florin_server.operations.context import QuarantineContext, WorkerContext
from florin_server.operations.service.audit_log import audited
from florin_server.rails import wallets
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable


class _Context(ChainContext, QuarantineContext, StorageContext, WorkerContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# reads of ledger and chain until nothing changed in between; a busy service is reported as such
_READ_ATTEMPTS = 3
NOTE_MAX = 256
# balances in one response, if the caller gives no limit
BALANCES = 200


class ReconciliationStatus(StrEnum):
    """The meaning of a difference between ledger and chain."""

    EXACT = "exact"
    UNDER_WAY = "under_way"  # unfinished work explains the difference
    UNBOOKED = "unbooked"  # the wallet has more
    MISSING = "missing"  # the wallet has less
    NOT_BEGUN = "not_begun"  # the ledger of the wallet is not open yet
    NOT_READ = "not_read"  # the chain was not called, or did not answer


@dataclass(frozen=True, slots=True)
class ReconciliationLine:
    """One wallet in one asset, in minor units. `chain_balance` is None if the chain was not read.

    `incoming` and `outgoing` are the most that work in progress can move; `is_busy` means that
    there is more work whose amount is unknown.
    """

    wallet: WalletAsset
    booked_balance: int
    chain_balance: int | None
    has_opening_balance: bool
    incoming: int = 0
    outgoing: int = 0
    is_busy: bool = False

    @property
    def difference(self) -> int:
        """Return what the wallet has in excess of the ledger."""
        return 0 if self.chain_balance is None else self.chain_balance - self.booked_balance

    @property
    def is_quiet(self) -> bool:
        """Return True if no work is in progress."""
        return not (self.incoming or self.outgoing or self.is_busy)

    @property
    def status(self) -> ReconciliationStatus:
        """Return the meaning of the difference."""
        if self.chain_balance is None:
            return ReconciliationStatus.NOT_READ
        if not self.difference:
            return (
                ReconciliationStatus.EXACT
                if self.has_opening_balance
                else ReconciliationStatus.NOT_BEGUN
            )
        if self.is_busy or -self.outgoing <= self.difference <= self.incoming:
            return ReconciliationStatus.UNDER_WAY
        if self.difference < 0:
            return ReconciliationStatus.MISSING
        return (
            ReconciliationStatus.UNBOOKED
            if self.has_opening_balance
            else ReconciliationStatus.NOT_BEGUN
        )


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Every wallet, and the chains (CAIP-2) that were not read, with the reason."""

    lines: Sequence[ReconciliationLine]
    read_failures: Mapping[str, str]

    def list_missing(self, chain_id: str = "") -> list[ReconciliationLine]:
        """Return the wallets with a shortage, of one chain or all."""
        return [
            line
            for line in self.lines
            if line.status is ReconciliationStatus.MISSING
            and _is_on_chain(line.wallet, chain_id or _get_chain_id(line.wallet))
        ]


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """The faults of the ledger itself, in sentences, and its comparison with the chains."""

    problems: Sequence[str]
    reconciliation: Reconciliation


@dataclass(frozen=True, slots=True)
class BalanceList:
    """A page of (account, asset, debits less credits); `next_cursor` is empty on the last one."""

    balances: Sequence[tuple[str, str, int]]
    next_cursor: str


def describe(line: ReconciliationLine) -> str:
    """Return the shortage of a wallet, in a sentence."""
    account, asset = line.wallet
    lacking = -line.difference - line.outgoing
    return f"{account} holds {lacking} minor units of {asset} less than the ledger says"


async def check(app: _Context) -> LedgerCheck:
    """Check the ledger and the histories of payments, and compare wallets with every chain."""
    wrong = [
        problem
        for op in (ledger.check(), payouts.check(), history.check())
        for problem in await app.store.scan(op)
    ]
    return LedgerCheck(wrong, await reconcile(app))


async def reconcile(app: _Context, rails: Iterable[Rail] | None = None) -> Reconciliation:
    """Compare the ledger with some chains, or all; one batched read of each."""
    chosen = list(app.rails.values() if rails is None else rails)
    chains = get_ledger_chains(chosen)
    before = await app.store.scan(books.read_snapshot(chains))
    for _ in range(_READ_ATTEMPTS):
        held, unread = await _read_balances(app, chosen, before)
        after = await app.store.scan(books.read_snapshot(chains))
        lines = _build_lines(chosen, held, before, after)
        if after == before:
            break
        before = after
    here = chains.keys() | unread.keys()
    if rails is None:
        absent = {_get_chain_id(line.wallet) for line in lines} - here
        unread |= dict.fromkeys(absent, "it is not running here")
    return Reconciliation(lines, unread)


async def _read_balances(
    app: _Context, rails: Sequence[Rail], snapshot: BookSnapshot
) -> tuple[dict[WalletAsset, int], dict[str, str]]:
    """Return the balances of the wallets, and the chains without an answer, with the reason."""
    held: dict[WalletAsset, int] = {}
    unread: dict[str, str] = {}
    for rail in rails:
        try:
            held |= await _read_chain_balances(
                app, rail, _list_wallets(rail, snapshot), _find_min_block(app, rail, snapshot)
            )
        except RailUnavailable as error:
            unread[rail.chain_id] = str(error) or type(error).__name__
    return held, unread


async def _read_chain_balances(
    app: _Context, rail: Rail, wallets: Collection[WalletAsset], min_block: int
) -> dict[WalletAsset, int]:
    """Return the balances of wallets; a wallet whose read fails unexpectedly is quarantined."""
    quarantine, chain_id = app.quarantine, rail.chain_id
    left = [
        place
        for place in sorted(wallets)
        if not quarantine.contains(QuarantinedItemKind.WALLET, chain_id, "/".join(place))
    ]
    held: dict[WalletAsset, int] = {}
    for holdings in await quarantine.run_each(
        QuarantinedItemKind.WALLET,
        chain_id,
        left,
        "/".join,
        "read its balance",
        lambda part: rail.observer.read_holdings(part, min_block),
    ):
        held |= holdings
    return held


def _build_lines(
    rails: Sequence[Rail],
    chain_balances: Mapping[WalletAsset, int],
    before: BookSnapshot,
    after: BookSnapshot,
) -> list[ReconciliationLine]:
    coins = {rail.native_asset: rail.chain_id for rail in rails}
    places = {
        place for rail in rails for place in _list_wallets(rail, after)
    } | after.balances.keys()
    lines = []
    for place in sorted(places):
        booked = after.balances.get(place, 0)
        sends = {*before.sending_chain_ids, *after.sending_chain_ids}
        lines.append(
            ReconciliationLine(
                wallet=place,
                booked_balance=booked,
                chain_balance=chain_balances.get(place),
                has_opening_balance=format_opening_key(place) in after.opening_keys,
                incoming=max(before.incoming.get(place, 0), after.incoming.get(place, 0)),
                outgoing=max(before.outgoing.get(place, 0), after.outgoing.get(place, 0)),
                is_busy=coins.get(place[1]) in sends or before.balances.get(place, 0) != booked,
            )
        )
    return lines


def get_ledger_chains(rails: Iterable[Rail]) -> dict[str, ChainAccounting]:
    """Return what the store must know about chains."""
    return {
        rail.chain_id: ChainAccounting(rail.treasury, partial(postings.get_received_amounts, rail))
        for rail in rails
    }


def _list_wallets(rail: Rail, snapshot: BookSnapshot) -> set[WalletAsset]:
    """Return the wallets of a chain that the ledger has or can have."""
    coins = {(account, rail.native_asset) for account in wallets.list_wallets(rail)}
    treasury_assets = {(rail.treasury, asset) for asset in rail.assets}
    booked = {place for place in snapshot.balances if _is_on_chain(place, rail.chain_id)}
    return coins | treasury_assets | booked


def _find_min_block(app: WorkerContext, rail: Rail, snapshot: BookSnapshot) -> int:
    """Return the newest block that the ledger can refer to; a node must have it."""
    workers = (app.settlers.get(rail.chain_id), app.payout_workers.get(rail.chain_id))
    seen = [worker.seen_block for worker in workers if worker is not None]
    # another process may have seen more than this one
    return max([snapshot.newest_blocks[rail.chain_id], *seen])


def _get_chain_id(wallet: WalletAsset) -> str:
    return wallet[1].partition("/")[0]


def _is_on_chain(wallet: WalletAsset, chain_id: str) -> bool:
    return _get_chain_id(wallet) == chain_id


# ---- opening


async def record_opening_balances(app: _Context, rail: Rail) -> bool:
    """Open the ledger of a chain's wallets with their balances; return False if some must wait.

    This needs wallets without work in progress, so that nothing is posted twice. RailUnavailable if
    the chain does not answer.
    """
    chains = get_ledger_chains([rail])
    seen = await app.store.scan(books.read_snapshot(chains))
    required = {
        place
        for place in _list_wallets(rail, seen)
        if format_opening_key(place) not in seen.opening_keys
    }
    if not required:
        return True
    held = await _read_chain_balances(app, rail, required, _find_min_block(app, rail, seen))
    opened = await app.store.write(
        _record_opening_balances(rail, chains, seen, held, app.clock.now_us())
    )
    return opened >= required


@on_snapshot
def _record_opening_balances(
    rail: Rail,
    chains: Mapping[str, ChainAccounting],
    expected: BookSnapshot,
    chain_balances: Mapping[WalletAsset, int],
    now_us: int,
) -> Op[set[WalletAsset]]:
    now = yield from books.read_snapshot(chains)
    lines = {line.wallet: line for line in _build_lines([rail], chain_balances, expected, now)}
    opening_balances = {
        place: lines[place].difference
        for place in chain_balances
        if lines[place].is_quiet and lines[place].difference >= 0
    }
    yield from books.open_books(opening_balances, now_us)
    return set(opening_balances)


# ---- the operator's adjustments


async def record_adjustment(
    app: _Context, account: str, asset: str, note: str, merchant_id: str | None = None
) -> ReconciliationLine:
    """Record the whole difference of a wallet in one asset as the operator's own transfer.

    With `merchant_id` it is money that this merchant paid to the operator, such as fees that it
    owed. Return the line as it was. params_validation for a wallet that is not Florin's,
    merchant_not_found, invalid_state while work is in progress there, without a difference, for
    missing money of a merchant, or if the chain cannot be read.
    """
    if (
        merchant_id is not None
        and await app.store.read(merchants.find_merchant(merchant_id)) is None
    ):
        raise ApiError(ErrorCode.MERCHANT_NOT_FOUND)
    try:
        place = (canonicalize_account(account), canonicalize_asset(asset.removeprefix("caip19/")))
    except ValueError as fault:
        raise validation_error(
            "account", "must be a CAIP-10 account with a CAIP-19 asset"
        ) from fault
    rail = app.rails.get(_get_chain_id(place))
    if rail is None:
        raise validation_error("account", "is on a chain that is not in the settings")
    chains = get_ledger_chains([rail])
    seen = await app.store.scan(books.read_snapshot(chains))
    if place not in _list_wallets(rail, seen):
        raise validation_error("account", "is not a wallet of the ledger")
    try:
        held = await rail.observer.read_holdings([place], _find_min_block(app, rail, seen))
    except RailUnavailable as error:
        raise ApiError(ErrorCode.INVALID_STATE, f"The chain does not answer: {error}") from error
    key = generate_short_id("book_", app.randbytes)
    now_us = app.clock.now_us()
    work = _record_adjustment(rail, chains, seen, held, key, note, now_us, merchant_id)
    describe = partial(_describe_adjustment, place, merchant_id)
    done = await app.store.write(audited(app, work, describe))
    _log.warning("the operator booked %d of %s for %s: %s", done.difference, *place[::-1], note)
    return done


def _describe_adjustment(
    place: WalletAsset, merchant_id: str | None, line: ReconciliationLine
) -> AuditChange:
    account, asset = place
    return AuditChange(
        AuditAction.BOOKS_DIFFERENCE_BOOKED,
        AuditObject.BOOKS,
        account,
        changes=list_changes(
            {}, {"difference": f"{line.difference} caip19/{asset}", "merchant_id": merchant_id}
        ),
    )


@on_snapshot
def _record_adjustment(  # noqa: PLR0917  (one of each, none alike)
    rail: Rail,
    chains: Mapping[str, ChainAccounting],
    expected: BookSnapshot,
    chain_balances: Mapping[WalletAsset, int],
    key: str,
    note: str,
    now_us: int,
    merchant_id: str | None,
) -> Op[ReconciliationLine]:
    (place,) = chain_balances
    now = yield from books.read_snapshot(chains)
    (line,) = [
        each_line
        for each_line in _build_lines([rail], chain_balances, expected, now)
        if each_line.wallet == place
    ]
    if not line.has_opening_balance:
        raise ApiError(ErrorCode.INVALID_STATE, "The ledger of this wallet is not open yet")
    if not line.is_quiet:
        raise ApiError(
            ErrorCode.INVALID_STATE, "Transactions of this wallet are in progress: try again later"
        )
    if not line.difference:
        raise ApiError(
            ErrorCode.INVALID_STATE, "The ledger agrees with the chain: there is nothing to adjust"
        )
    if merchant_id is not None and line.difference < 0:
        raise ApiError(
            ErrorCode.INVALID_STATE, "Money is missing: only money that arrived is a merchant's"
        )
    yield from books.post_operator_entry(key, place, line.difference, note, now_us, merchant_id)
    return line


async def list_balances(
    app: StorageContext,
    kind: LedgerAccountKind | None = None,
    after: str = "",
    limit: int | None = None,
) -> BalanceList:
    """Return a page of the balances of accounts; `after` is the cursor of the former page.

    ApiError invalid_params for a cursor of another list.
    """
    binding = json.dumps(["balances", kind])
    position = cursor.decode_cursor(after, binding, str, str) if after else None
    page = await app.store.scan(books.list_balances(kind, position, limit or BALANCES))
    return BalanceList(page.balances, cursor.encode_cursor(page.last, binding) if page.last else "")


async def list_entries(app: StorageContext, payment_id: str) -> list[LedgerEntry]:
    """Return the postings of a payment, the oldest first."""
    return await app.store.scan(books.list_entries(payment_id))
