"""The books: append-only double entry, written in the same transaction as what they book.

One row is one transfer, so that it balances by itself. No statement here changes or deletes a row,
and a journal is booked once for its key. Accounts, in minor units of one asset (CAIP-19) each:

- `wallet:<CAIP-10>`: what we hold on a chain; relayers hold coin, treasuries coin and assets
- `merchant:<id>`: what a merchant is owed (credit), or owes (debit)
- `held:<CAIP-10>`: what a blocked payer paid, and nobody may have (credit)
- `income:fee`: fees of payments; `expense:gas`: fees of our transactions; `expense:rent`: coin that
  they left in accounts that they opened
- `external:<CAIP-10>`: whoever pays us or is paid past us; `external:opening`: what a wallet held
  when its books began; `external:operator`: what the operator put in or took out

Journals: `settle:<payment>` and `held:<payment>` (and `reverse:` of them),
`late:<payment>:<transaction>:<reference>`, `refund:`, `return:` and `payout:<payout>`,
`gas:<transaction of ours>`, `opening:<wallet>:<asset>`, which has no transfer for a wallet that
held nothing, and `operator:<id>`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import Select, and_, or_, select

from florin_server.domain.settlement.chain_txs import Posting
from florin_server.store.engine.query import (
    Op,
    Params,
    Row,
    Statement,
    any_of,
    exact_sum,
    insert,
    param,
    record,
)
from florin_server.store.tables.tables import ledger_journal, ledger_transfer

# accounts of what is ours or passes by, and of what is owed or earned
_KINDS = frozenset({"wallet", "expense", "external", "merchant", "held", "income"})
# journals of what left the treasury on a merchant's account
REFUND, RETURN, PAYOUT = "refund", "return", "payout"
OPENING, LATE, OPERATOR, SETTLE, HELD = "opening", "late", "operator", "settle", "held"
GAS, RENT, FEE = "expense:gas", "expense:rent", "income:fee"
# the other side of what no payment explains
BEGINNING, BY_OPERATOR = "external:opening", "external:operator"
# how the keys of journals begin by which a merchant may come to owe
_OWING = (f"{REFUND}:", f"{RETURN}:", "reverse:")
# and by which more than came of a blocked payer may leave
_UNDOING = "reverse:"
# rows that are looked at in one go while the books are checked
_PAGE = 500

_POST = Statement(insert(ledger_journal).on_conflict_do_nothing().returning(ledger_journal.c.type))
_TRANSFER = Statement(insert(ledger_transfer))


def _total(side: str) -> Select[tuple[int]]:
    return select(exact_sum(ledger_transfer.c.amount)).where(
        ledger_transfer.c[side] == param("account"), ledger_transfer.c.asset == param("asset")
    )


_DEBITS = Statement(_total("debit"))
_CREDITS = Statement(_total("credit"))
_BOOKED = Statement(
    select(ledger_journal.c.idem_key).where(any_of(ledger_journal.c.idem_key, "keys"))
)
_JOURNALS = Statement(
    select(ledger_journal.c.idem_key)
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

    ValueError unless it has transfers, each between two accounts of known kinds. A `note` is the
    operator's own words.
    """
    if not postings and kind != OPENING:
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
        yield from post(_nth(idem_key, n), kind, payment_id, tx_hash, postings, now_us, note)
    ):
        n += 1


def repeat(idem_key: str, now_us: int) -> Op[None]:
    """Part of an operation: books a journal again that was reversed."""
    ((kind, payment_id, tx_hash),) = yield _JOURNAL(key=idem_key)
    postings = [Posting(*row) for row in (yield _TRANSFERS_OF(key=idem_key))]
    yield from post_again(idem_key, kind, payment_id, tx_hash, postings, now_us)


def reverse(idem_key: str, now_us: int) -> Op[bool]:
    """Part of an operation: books the opposite of a journal; False if it is not booked now."""
    n, last = 1, None
    while found := (yield _JOURNAL(key=_nth(idem_key, n))):
        last, n = found[0], n + 1
    if last is None:
        return False
    key = _nth(idem_key, n - 1)
    postings = [
        Posting(credit, debit, asset, amount)
        for debit, credit, asset, amount in (yield _TRANSFERS_OF(key=key))
    ]
    kind, payment_id, tx_hash = last
    return (
        yield from post(f"reverse:{key}", f"reverse_{kind}", payment_id, tx_hash, postings, now_us)
    )


def _nth(idem_key: str, n: int) -> str:
    return idem_key if n == 1 else f"{idem_key}#{n}"


def balance(account: str, asset: str) -> Op[int]:
    """Debits less credits of an account in one asset: below zero for what is owed or earned."""
    ((debits,),) = yield _DEBITS(account=account, asset=asset)
    ((credits_,),) = yield _CREDITS(account=account, asset=asset)
    return (debits or 0) - (credits_ or 0)


def booked(idem_keys: Collection[str]) -> Op[set[str]]:
    """Which of the keys are booked."""
    return {key for (key,) in (yield _BOOKED(keys=idem_keys))}


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
            if idem_key.startswith(_UNDOING if debit.startswith(f"{HELD}:") else _OWING):
                refunded[asset, debit] += amount
        after, after_n = rows[-1][:2]
    after = ""
    while rows := (yield _JOURNALS(after=after, limit=_PAGE)):
        keys = [key for (key,) in rows]
        problems += [
            f"journal {key} has no transfers"
            for key in keys
            if key not in booked_keys and not key.startswith(f"{OPENING}:")
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
        if account.startswith(("merchant:", f"{HELD}:")) and held > most:
            what = "reorganisations" if account.startswith(f"{HELD}:") else "refunds"
            than = f", of which {what} explain {most}" if most else ""
            yield f"{account} owes us {held} of {asset}{than}"


def _check(posting: Posting) -> None:
    if posting.debit == posting.credit:
        raise ValueError(f"{posting.debit} is on both sides")
    if posting.amount <= 0:
        raise ValueError(f"amount {posting.amount} is not above zero")
    for account in (posting.debit, posting.credit):
        if account.partition(":")[0] not in _KINDS:
            raise ValueError(f"unknown kind of account: {account}")
