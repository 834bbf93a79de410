"""The books: append-only double entry, written in the same transaction as what they book.

One row is one transfer, so that it balances by itself. No statement here changes or deletes a row,
and a journal is booked once for its key. `domain/ledger` says which accounts and journals there
are, and what is booked when.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import Select, and_, or_, select

from florin_server.domain.ledger import accounts, journals
from florin_server.domain.ledger.postings import reversed_
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.store.engine.query import (
    Op,
    Params,
    Row,
    Statement,
    StoreError,
    any_of,
    exact_sum,
    insert,
    operation,
    param,
    record,
)
from florin_server.store.tables.tables import ledger_journal, ledger_transfer

# how the keys of journals begin by which a merchant may come to owe
_OWING = tuple(
    journals.prefix(kind)
    for kind in (journals.Kind.REFUND, journals.Kind.RETURN, journals.Kind.REVERSE)
)
# and by which more than came of a blocked payer may leave
_UNDOING = journals.prefix(journals.Kind.REVERSE)
_OPENING = journals.prefix(journals.Kind.OPENING)
_HELD = accounts.prefix(accounts.Kind.HELD)
_OWED = (accounts.prefix(accounts.Kind.MERCHANT), _HELD)
# rows that are looked at in one go while the books are checked
_PAGE = 500


class NotBooked(StoreError):  # noqa: N818  (a state of the books, told as it is)
    """What is to be taken back is not in the books, or was taken back; nothing was written."""


_POST = Statement(insert(ledger_journal).on_conflict_do_nothing().returning(ledger_journal.c.type))
_TRANSFER = Statement(insert(ledger_transfer))


def _total(side: str) -> Select[tuple[int]]:
    return select(exact_sum(ledger_transfer.c.amount)).where(
        ledger_transfer.c[side] == param("account"), ledger_transfer.c.asset == param("asset")
    )


def _totals(side: str) -> Select[tuple[str, int]]:
    account = ledger_transfer.c[side]
    return (
        select(account, exact_sum(ledger_transfer.c.amount))
        .where(any_of(account, "accounts"), ledger_transfer.c.asset == param("asset"))
        .group_by(account)
    )


_DEBITS_BY_ACCOUNT = Statement(_totals("debit"))
_CREDITS_BY_ACCOUNT = Statement(_totals("credit"))
_DEBITS = Statement(_total("debit"))
_CREDITS = Statement(_total("credit"))
_BOOKED = Statement(
    select(ledger_journal.c.idem_key).where(any_of(ledger_journal.c.idem_key, "keys"))
)
_JOURNALS = Statement(
    select(ledger_journal.c.idem_key, ledger_journal.c.note)
    .where(ledger_journal.c.idem_key > param("after"))
    .order_by(ledger_journal.c.idem_key)
    .limit(param("limit"))
)
_JOURNAL = Statement(
    select(ledger_journal.c.type, ledger_journal.c.payment_id, ledger_journal.c.tx_hash).where(
        ledger_journal.c.idem_key == param("key")
    )
)
_TRANSFERS_OF = Statement(
    select(
        ledger_transfer.c.debit,
        ledger_transfer.c.credit,
        ledger_transfer.c.asset,
        ledger_transfer.c.amount,
    )
    .where(ledger_transfer.c.idem_key == param("key"))
    .order_by(ledger_transfer.c.n)
)
_TRANSFERS = Statement(
    select(ledger_transfer)
    .where(
        or_(
            ledger_transfer.c.idem_key > param("after"),
            and_(
                ledger_transfer.c.idem_key == param("after"), ledger_transfer.c.n > param("after_n")
            ),
        )
    )
    .order_by(ledger_transfer.c.idem_key, ledger_transfer.c.n)
    .limit(param("limit"))
)


@operation
def post(  # noqa: PLR0917  (the columns of a journal)
    idem_key: str,
    kind: str,
    payment_id: str | None,
    tx_hash: str | None,
    postings: Sequence[Posting],
    now_us: int,
    note: str | None = None,
) -> Op[bool]:
    """Part of an operation: books a journal; False if its key is booked already.

    ValueError unless it has transfers, each between two accounts of known kinds; only where an
    account paid itself there may be none, which the journal's note says. A `note` is the operator's
    own words otherwise.
    """
    if not postings and journals.may_move_nothing(kind):
        note = journals.TO_ITSELF
    elif not postings and kind != journals.Kind.OPENING:
        raise ValueError(f"nothing to book for {idem_key}")
    for posting in postings:
        _check(posting)
    booked = yield _POST(
        idem_key=idem_key,
        type=kind,
        payment_id=payment_id,
        tx_hash=tx_hash,
        at_us=now_us,
        note=note,
    )
    if not booked:
        return False
    rows: list[Params] = [
        {"idem_key": idem_key, "n": n, **record(posting)} for n, posting in enumerate(postings)
    ]
    if rows:
        yield _TRANSFER.many(rows)
    return True


@operation
def post_again(  # noqa: PLR0917  (the columns of a journal)
    idem_key: str,
    kind: str,
    payment_id: str | None,
    tx_hash: str | None,
    postings: Sequence[Posting],
    now_us: int,
    note: str | None = None,
) -> Op[None]:
    """Part of an operation: books a journal that may have been booked, and reversed, before.

    Whoever calls this knows that it is not booked now.
    """
    n = 1
    while not (
        yield from post(
            journals.nth(idem_key, n), kind, payment_id, tx_hash, postings, now_us, note
        )
    ):
        n += 1


@operation
def repeat(idem_key: str, now_us: int) -> Op[None]:
    """Part of an operation: books a journal again that was reversed."""
    ((kind, payment_id, tx_hash),) = yield _JOURNAL(key=idem_key)
    postings = [Posting(*row) for row in (yield _TRANSFERS_OF(key=idem_key))]
    yield from post_again(idem_key, kind, payment_id, tx_hash, postings, now_us)


@operation
def reverse(idem_key: str, now_us: int, *, missing_ok: bool = False) -> Op[bool]:
    """Part of an operation: books the opposite of a journal.

    NotBooked if it is not booked now; False then with `missing_ok`, for what may be in the books
    or not.
    """
    n, last = 1, None
    while found := (yield _JOURNAL(key=journals.nth(idem_key, n))):
        last, n = found[0], n + 1
    if last is not None:
        key = journals.nth(idem_key, n - 1)
        booked_ = [Posting(*row) for row in (yield _TRANSFERS_OF(key=key))]
        kind, payment_id, tx_hash = last
        undoing = journals.reversal(key), journals.reversal_kind(kind)
        if (yield from post(*undoing, payment_id, tx_hash, reversed_(booked_), now_us)):
            return True
    if missing_ok:
        return False
    raise NotBooked(f"{idem_key} is to be reversed, and is not booked")


@operation
def balance(account: str, asset: str) -> Op[int]:
    """Debits less credits of an account in one asset: below zero for what is owed or earned."""
    ((debits,),) = yield _DEBITS(account=account, asset=asset)
    ((credits_,),) = yield _CREDITS(account=account, asset=asset)
    return (debits or 0) - (credits_ or 0)


@operation
def balances(accounts_: Collection[str], asset: str) -> Op[dict[str, int]]:
    """Return the balances of accounts in one asset; those without transfers are 0."""
    found = dict.fromkeys(accounts_, 0)
    for account, debits in (yield _DEBITS_BY_ACCOUNT(accounts=accounts_, asset=asset)):
        found[account] += debits
    for account, credits_ in (yield _CREDITS_BY_ACCOUNT(accounts=accounts_, asset=asset)):
        found[account] -= credits_
    return found


@operation
def booked(idem_keys: Collection[str]) -> Op[set[str]]:
    """Which of the keys are booked."""
    return {key for (key,) in (yield _BOOKED(keys=idem_keys))}


@operation
def check() -> Op[list[str]]:
    """Proves the books and tells, in sentences, what is wrong with them; nothing if they are whole.

    Looks at every row: no journal without transfers or the other way round, every transfer moves
    something between two accounts, so that balances add up to zero, no merchant owes us more than
    went back to its buyers, or was taken back: what else is paid out was owed before. Of a blocked
    payer's money no more leaves than came.
    """
    problems: list[str] = []
    balances: dict[tuple[str, str], int] = defaultdict(int)
    refunded: dict[tuple[str, str], int] = defaultdict(int)
    booked_keys: set[str] = set()
    after, after_n = "", -1
    while rows := (yield _TRANSFERS(after=after, after_n=after_n, limit=_PAGE)):
        for row in rows:
            problems += _row_problems(row)
            idem_key, _, debit, credit, asset, amount = row
            booked_keys.add(idem_key)
            balances[asset, debit] += amount
            balances[asset, credit] -= amount
            if idem_key.startswith(_UNDOING if debit.startswith(_HELD) else _OWING):
                refunded[asset, debit] += amount
        after, after_n = rows[-1][:2]
    after = ""
    while rows := (yield _JOURNALS(after=after, limit=_PAGE)):
        keys = [key for key, _ in rows]
        problems += [
            f"journal {key} has no transfers"
            for key, note in rows
            if key not in booked_keys
            and not key.startswith(_OPENING)
            and note != journals.TO_ITSELF
        ]
        booked_keys.difference_update(keys)
        after = keys[-1]
    problems += [f"transfers of {key} have no journal" for key in sorted(booked_keys)]
    return problems + list(_sum_problems(balances, refunded))


def _row_problems(row: Row) -> Iterator[str]:
    idem_key, n, *posting = row
    try:
        _check(Posting(*posting))
    except ValueError as error:
        yield f"transfer {n} of {idem_key}: {error}"


def _sum_problems(
    balances: Mapping[tuple[str, str], int], refunded: Mapping[tuple[str, str], int]
) -> Iterator[str]:
    for (asset, account), held in sorted(balances.items()):
        most = refunded.get((asset, account), 0)
        if account.startswith(_OWED) and held > most:
            what = "reorganisations" if account.startswith(_HELD) else "refunds"
            than = f", of which {what} explain {most}" if most else ""
            yield f"{account} owes us {held} of {asset}{than}"


def _check(posting: Posting) -> None:
    if posting.debit == posting.credit:
        raise ValueError(f"{posting.debit} is on both sides")
    if posting.amount <= 0:
        raise ValueError(f"amount {posting.amount} is not above zero")
    for account in (posting.debit, posting.credit):
        accounts.kind_of(account)
