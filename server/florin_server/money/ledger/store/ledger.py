"""The books: append-only double entry, written in the transaction of the booked event.

One row is one transfer, so that each row balances. No statement here changes or deletes a row, and
a journal is booked once per key. `domain/ledger` defines the accounts and journals, and when each
is booked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Select, Text, and_, func, literal_column, or_, select

from florin_server.db.engine.query import (
    Command,
    Op,
    Params,
    Statement,
    StoreError,
    insert,
    is_in,
    operation,
    param,
    sum_u256,
    to_row_params,
)
from florin_server.db.tables.tables import (
    fee_debtor_table,
    ledger_journal_table,
    ledger_transfer_table,
    payment_table,
)
from florin_server.domain.ledger import accounts, journals
from florin_server.domain.ledger.postings import is_owed_fee, reverse_postings
from florin_server.domain.settlement.chain_txs import LedgerPosting

# key prefixes of journals by which a merchant can come to owe money
_OWING = tuple(
    journals.key_prefix(kind)
    for kind in (
        journals.JournalKind.REFUND,
        journals.JournalKind.RETURN,
        journals.JournalKind.REVERSE,
    )
)
# and by which more money than a blocked payer sent can leave
_UNDOING = journals.key_prefix(journals.JournalKind.REVERSE)
_OPENING = journals.key_prefix(journals.JournalKind.OPENING)
_HELD = accounts.kind_prefix(accounts.LedgerAccountKind.HELD)
_STRAY = accounts.kind_prefix(accounts.LedgerAccountKind.STRAY)
_OWED_TO_SENDERS = (_HELD, _STRAY)
_OWED = (accounts.kind_prefix(accounts.LedgerAccountKind.MERCHANT), *_OWED_TO_SENDERS)
# rows read at once while the books are checked
_PAGE = 500


class JournalNotBooked(StoreError):  # noqa: N818  (a state of the books, not a mistake)
    """A journal to reverse is not in the books, or was reversed before; nothing was written."""


class _Total(NamedTuple):
    account: str
    total: int


class _NotedKey(NamedTuple):
    idem_key: str
    note: str | None


class _Journal(NamedTuple):
    type: str
    payment_id: str | None
    tx_hash: str | None


class _Transfer(NamedTuple):
    idem_key: str
    n: int
    posting: LedgerPosting


_MERCHANT = accounts.kind_prefix(accounts.LedgerAccountKind.MERCHANT)
_POST = Statement(
    insert(ledger_journal_table)
    .values(
        idem_key=param("key"),
        type=param("kind"),
        payment_id=param("payment"),
        tx_hash=param("tx"),
        at_us=param("now_us"),
        note=param("text"),
        merchant_id=func.coalesce(
            param("merchant", Text),
            select(payment_table.c.merchant_id)
            .where(payment_table.c.id == param("payment"))
            .scalar_subquery(),
            literal_column("''"),
        ),
    )
    .on_conflict_do_nothing()
    .returning(ledger_journal_table.c.type),
    str,
)
_TRANSFER = Command(insert(ledger_transfer_table))
_ADD_DEBTOR = Command(insert(fee_debtor_table).on_conflict_do_nothing())


def _select_total(side: str) -> Select[tuple[int]]:
    return select(sum_u256(ledger_transfer_table.c.amount)).where(
        ledger_transfer_table.c[side] == param("account"),
        ledger_transfer_table.c.asset == param("asset"),
    )


def _select_totals(side: str) -> Select[tuple[str, int]]:
    account = ledger_transfer_table.c[side]
    return (
        select(account.label("account"), sum_u256(ledger_transfer_table.c.amount).label("total"))
        .where(is_in(account, "accounts"), ledger_transfer_table.c.asset == param("asset"))
        .group_by(account)
    )


_DEBITS_BY_ACCOUNT = Statement(_select_totals("debit"), _Total)
_CREDITS_BY_ACCOUNT = Statement(_select_totals("credit"), _Total)
_DEBITS = Statement.nullable(_select_total("debit"), int)
_CREDITS = Statement.nullable(_select_total("credit"), int)
_BOOKED = Statement(
    select(ledger_journal_table.c.idem_key).where(is_in(ledger_journal_table.c.idem_key, "keys")),
    str,
)
_JOURNALS = Statement(
    select(ledger_journal_table.c.idem_key, ledger_journal_table.c.note)
    .where(ledger_journal_table.c.idem_key > param("after"))
    .order_by(ledger_journal_table.c.idem_key)
    .limit(param("limit")),
    _NotedKey,
)
_JOURNAL = Statement(
    select(
        ledger_journal_table.c.type,
        ledger_journal_table.c.payment_id,
        ledger_journal_table.c.tx_hash,
    ).where(ledger_journal_table.c.idem_key == param("key")),
    _Journal,
)
_TRANSFERS_OF = Statement(
    select(
        ledger_transfer_table.c.debit,
        ledger_transfer_table.c.credit,
        ledger_transfer_table.c.asset,
        ledger_transfer_table.c.amount,
    )
    .where(ledger_transfer_table.c.idem_key == param("key"))
    .order_by(ledger_transfer_table.c.n),
    LedgerPosting,
)
_TRANSFERS = Statement(
    select(ledger_transfer_table)
    .where(
        or_(
            ledger_transfer_table.c.idem_key > param("after"),
            and_(
                ledger_transfer_table.c.idem_key == param("after"),
                ledger_transfer_table.c.n > param("after_n"),
            ),
        )
    )
    .order_by(ledger_transfer_table.c.idem_key, ledger_transfer_table.c.n)
    .limit(param("limit")),
    _Transfer,
    posting=LedgerPosting,
)


@operation
def post(  # noqa: PLR0917  (the columns of a journal)
    idem_key: str,
    kind: str,
    payment_id: str | None,
    tx_hash: str | None,
    postings: Sequence[LedgerPosting],
    now_us: int,
    note: str | None = None,
) -> Op[bool]:
    """Book a journal; return False if its key is already booked. Part of an operation.

    Raise ValueError unless it has transfers, each between two accounts of known kinds. Only a
    payment of an account to itself can have none; the journal's note then says so. Otherwise `note`
    is the operator's own text.
    """
    if not postings and journals.may_be_empty(kind):
        note = journals.SELF_PAYMENT_NOTE
    elif not postings and kind != journals.JournalKind.OPENING:
        raise ValueError(f"nothing to book for {idem_key}")
    for posting in postings:
        _require_valid(posting)
    merchant_id = _find_merchant_id(postings)
    booked = yield from _POST.all(
        key=idem_key,
        kind=kind,
        payment=payment_id,
        tx=tx_hash,
        now_us=now_us,
        text=note,
        merchant=merchant_id,
    )
    if not booked:
        return False
    rows: list[Params] = [
        {"idem_key": idem_key, "n": n, **to_row_params(posting)}
        for n, posting in enumerate(postings)
    ]
    if rows:
        yield _TRANSFER.bind_many(rows)
    for posting in filter(is_owed_fee, postings):
        yield _ADD_DEBTOR(asset=posting.asset, merchant_id=merchant_id)
    return True


@operation
def post_again(  # noqa: PLR0917  (the columns of a journal)
    idem_key: str,
    kind: str,
    payment_id: str | None,
    tx_hash: str | None,
    postings: Sequence[LedgerPosting],
    now_us: int,
    note: str | None = None,
) -> Op[None]:
    """Book a journal that may have been booked and reversed before; part of an operation.

    The caller must know that it is not booked now.
    """
    n = 1
    while not (
        yield from post(
            journals.nth_key(idem_key, n), kind, payment_id, tx_hash, postings, now_us, note
        )
    ):
        n += 1


@operation
def post_unless_booked(  # noqa: PLR0917  (the columns of a journal)
    idem_key: str,
    kind: str,
    payment_id: str | None,
    tx_hash: str | None,
    postings: Sequence[LedgerPosting],
    now_us: int,
) -> Op[bool]:
    """Book a journal, also after its reversal; return False if it is booked now.

    Part of an operation.
    """
    n = 1
    while (yield from _JOURNAL.first(key=journals.nth_key(idem_key, n))):
        undoing = journals.reversal_key(journals.nth_key(idem_key, n))
        if not (yield from _JOURNAL.first(key=undoing)):
            return False
        n += 1
    key = journals.nth_key(idem_key, n)
    return (yield from post(key, kind, payment_id, tx_hash, postings, now_us))


@operation
def post_reversed_again(idem_key: str, now_us: int) -> Op[None]:
    """Book a reversed journal again; part of an operation."""
    kind, payment_id, tx_hash = yield from _JOURNAL.single(key=idem_key)
    postings = yield from _TRANSFERS_OF.all(key=idem_key)
    yield from post_again(idem_key, kind, payment_id, tx_hash, postings, now_us)


@operation
def reverse(idem_key: str, now_us: int, *, missing_ok: bool = False) -> Op[bool]:
    """Book the opposite of a journal; part of an operation.

    Raise JournalNotBooked if it is not booked now; with `missing_ok` return False instead.
    """
    n, last = 1, None
    while journal := (yield from _JOURNAL.first(key=journals.nth_key(idem_key, n))):
        last, n = journal, n + 1
    if last is not None:
        key = journals.nth_key(idem_key, n - 1)
        booked_postings = yield from _TRANSFERS_OF.all(key=key)
        kind, payment_id, tx_hash = last
        undoing = journals.reversal_key(key), journals.format_reversal_kind(kind)
        if (
            yield from post(
                *undoing, payment_id, tx_hash, reverse_postings(booked_postings), now_us
            )
        ):
            return True
    if missing_ok:
        return False
    raise JournalNotBooked(f"{idem_key} cannot be reversed, as it is not booked")


@operation
def get_balance(account: str, asset: str) -> Op[int]:
    """Return an account's debits less credits in an asset: below zero if owed or earned."""
    debits = yield from _DEBITS.single(account=account, asset=asset)
    credits_ = yield from _CREDITS.single(account=account, asset=asset)
    return (debits or 0) - (credits_ or 0)


@operation
def get_balances(accounts_: Collection[str], asset: str) -> Op[dict[str, int]]:
    """Return the balances of accounts in one asset; accounts without transfers are 0."""
    balances = dict.fromkeys(accounts_, 0)
    for account, debits in (yield from _DEBITS_BY_ACCOUNT.all(accounts=accounts_, asset=asset)):
        balances[account] += debits
    for account, credits_ in (yield from _CREDITS_BY_ACCOUNT.all(accounts=accounts_, asset=asset)):
        balances[account] -= credits_
    return balances


@operation
def filter_booked(idem_keys: Collection[str]) -> Op[set[str]]:
    """Return which of the keys are booked."""
    return set((yield from _BOOKED.all(keys=idem_keys)))


@operation
def check() -> Op[list[str]]:
    """Check the books; return their errors in sentences, or an empty list.

    It reads every row. Every journal has transfers, and every transfer has a journal. Every
    transfer moves an amount between two accounts, so that balances add up to zero. No merchant owes
    more than its fees, and what was refunded to its buyers or taken back: every other payout was
    owed before. No more of a blocked payer's money, or of money that paid nothing, leaves than
    came.
    """
    problems: list[str] = []
    balances: dict[tuple[str, str], int] = defaultdict(int)
    refunded: dict[tuple[str, str], int] = defaultdict(int)
    booked_keys: set[str] = set()
    after, after_n = "", -1
    while transfers := (yield from _TRANSFERS.all(after=after, after_n=after_n, limit=_PAGE)):
        for transfer in transfers:
            problems += _transfer_problems(transfer)
            idem_key, posting = transfer.idem_key, transfer.posting
            booked_keys.add(idem_key)
            balances[posting.asset, posting.debit] += posting.amount
            balances[posting.asset, posting.credit] -= posting.amount
            if is_owed_fee(posting) or idem_key.startswith(
                _UNDOING if posting.debit.startswith(_OWED_TO_SENDERS) else _OWING
            ):
                refunded[posting.asset, posting.debit] += posting.amount
        after, after_n = transfers[-1].idem_key, transfers[-1].n
    after = ""
    while noted_keys := (yield from _JOURNALS.all(after=after, limit=_PAGE)):
        keys = [key for key, _ in noted_keys]
        problems += [
            f"journal {key} has no transfers"
            for key, note in noted_keys
            if key not in booked_keys
            and not key.startswith(_OPENING)
            and note != journals.SELF_PAYMENT_NOTE
        ]
        booked_keys.difference_update(keys)
        after = keys[-1]
    problems += [f"transfers of {key} have no journal" for key in sorted(booked_keys)]
    return problems + list(_sum_problems(balances, refunded))


def _find_merchant_id(postings: Sequence[LedgerPosting]) -> str | None:
    """Return the merchant whose balance changes; None if none does."""
    for posting in postings:
        for account in (posting.debit, posting.credit):
            if account.startswith(_MERCHANT):
                return account.removeprefix(_MERCHANT)
    return None


def _transfer_problems(transfer: _Transfer) -> Iterator[str]:
    try:
        _require_valid(transfer.posting)
    except ValueError as error:
        yield f"transfer {transfer.n} of {transfer.idem_key}: {error}"


def _sum_problems(
    balances: Mapping[tuple[str, str], int], refunded: Mapping[tuple[str, str], int]
) -> Iterator[str]:
    for (asset, account), held in sorted(balances.items()):
        most = refunded.get((asset, account), 0)
        if account.startswith(_OWED) and held > most:
            what = "reorganizations" if account.startswith(_OWED_TO_SENDERS) else "refunds and fees"
            than = f", of which {what} explain {most}" if most else ""
            yield f"{account} owes us {held} of {asset}{than}"


def _require_valid(posting: LedgerPosting) -> None:
    if posting.debit == posting.credit:
        raise ValueError(f"{posting.debit} is on both sides")
    if posting.amount <= 0:
        raise ValueError(f"amount {posting.amount} is not above zero")
    for account in (posting.debit, posting.credit):
        accounts.parse_kind(account)
