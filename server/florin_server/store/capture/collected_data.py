"""Data about buyers: who told what about whom, what counts, and when it is deleted.

Nothing here can read the data. Each source has a place of its own for an account of a payment, and
what it told first stays there; a stranger's never stands in for the buyer's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import delete, select, tuple_, update

from florin_server.domain.payments.payment import Payment, Status
from florin_server.domain.sealed import Sealed
from florin_server.store.engine.query import (
    Op,
    Operation,
    Row,
    Statement,
    any_of,
    insert,
    operation,
    param,
    record,
)
from florin_server.store.tables.tables import collected_data, payment, payment_option

# what is kept unproven about an account for one payment from one app. The operator makes the apps,
# a buyer has a few devices; a row takes 6 KB at most. When it is full the oldest goes: who fills
# it, with a hundred installations of one app, makes buyers of that app tell theirs again, and
# cannot keep out what comes with a confirm.
ROWS_AN_APP = 100


class Way(StrEnum):
    """How data came in."""

    FORM = "form"
    INLINE = "inline"  # a wallet brought it along


@dataclass(frozen=True, slots=True)
class Collected:
    """What was told about an account (canonical CAIP-10) for a payment; times are microseconds.

    `source` is made by `source_of`, `app` the id of the wallet's registration or key; both are
    empty in what is older than they are, which never counts. `proven` tells that the same
    credential confirmed the payment with a signature of the account.
    """

    payment_id: str
    account: str
    source: str
    app: str
    sealed: Sealed
    created_at_us: int
    kept_until_us: int
    proven: bool = False

    @property
    def way(self) -> Way | None:
        """How it came in; None if that was not kept."""
        return Way(self.source.partition(":")[0]) if self.source else None


@dataclass(frozen=True, slots=True)
class Told:
    """What a confirm goes along with: the sources of its credential, those that win first.

    `brought` comes with the confirm itself. `needed` tells that there must be data of these
    sources; without it the account may have told it for an earlier payment.
    """

    sources: Sequence[str] = ()
    brought: Collected | None = None
    needed: bool = False


def source_of(way: Way, teller: str) -> str:
    """The source of what a credential tells in one way; `teller` is a hash that stands for it."""
    return f"{way}:{teller}"


_PUT = Statement(insert(collected_data).on_conflict_do_nothing())
# whoever accepts a confirm changes the payment too, so that nothing is told after it
_OPEN = Statement(
    select(payment.c.id)
    .where(payment.c.id == param("payment_id"), payment.c.status == Status.REQUIRES_ACTION)
    .with_for_update()
)
_OFFERED = Statement(
    select(payment_option.c.payer)
    .where(payment_option.c.payment_id == param("payment_id"))
    .distinct()
)
_other = collected_data.alias("other")
_MAKE_ROOM = Statement(
    delete(collected_data).where(
        collected_data.c.payment_id == param("payment_id"),
        collected_data.c.account == param("account_"),
        collected_data.c.app == param("app_"),
        collected_data.c.source != param("source_"),
        collected_data.c.source.not_in(
            select(_other.c.source)
            .where(
                _other.c.payment_id == param("payment_id"),
                _other.c.account == param("account_"),
                _other.c.app == param("app_"),
                _other.c.source != param("source_"),
            )
            .order_by(_other.c.created_at_us.desc(), _other.c.source)
            .limit(param("others"))
        ),
    )
)
_GIVEN = Statement(
    select(collected_data.c.account)
    .where(
        collected_data.c.payment_id == param("payment_id"),
        any_of(collected_data.c.account, "accounts"),
        any_of(collected_data.c.source, "sources"),
        collected_data.c.kept_until_us > param("now_us"),
    )
    .distinct()
)
# whoever knows a payment may tell anything about any account: it counts elsewhere only where the
# account itself went along with it, and only for the app through which it did
_REUSABLE = Statement(
    select(collected_data.c.account)
    .join(payment, payment.c.id == collected_data.c.payment_id)
    .where(
        any_of(collected_data.c.account, "accounts"),
        collected_data.c.app == param("app_"),
        collected_data.c.proven.is_(True),
        collected_data.c.kept_until_us > param("now_us"),
        payment.c.live == param("live"),
        payment.c.payer == collected_data.c.account,
    )
    .distinct()
)
_SOURCES = Statement(
    select(collected_data.c.source).where(
        collected_data.c.payment_id == param("payment_id"),
        collected_data.c.account == param("account_"),
    )
)
_PROVE = Statement(
    update(collected_data)
    .where(
        collected_data.c.payment_id == param("payment_id"),
        collected_data.c.account == param("account_"),
        collected_data.c.source == param("source_"),
    )
    .values(proven=True)
)
_COLUMNS = (
    collected_data.c.payment_id,
    collected_data.c.account,
    collected_data.c.source,
    collected_data.c.app,
    collected_data.c.key_id,
    collected_data.c.nonce,
    collected_data.c.ciphertext,
    collected_data.c.created_at_us,
    collected_data.c.kept_until_us,
    collected_data.c.proven,
)
_OF = Statement(
    select(*_COLUMNS)
    .where(collected_data.c.account == param("account_"))
    .order_by(
        collected_data.c.created_at_us.desc(),
        collected_data.c.payment_id.desc(),
        collected_data.c.source,
    )
)
_ALL = Statement(
    select(*_COLUMNS)
    .where(
        tuple_(collected_data.c.payment_id, collected_data.c.account, collected_data.c.source)
        > tuple_(param("payment_id"), param("account_"), param("source_"))
    )
    .order_by(collected_data.c.payment_id, collected_data.c.account, collected_data.c.source)
    .limit(param("limit"))
)
_FROM = Statement(
    select(*_COLUMNS).where(
        collected_data.c.payment_id == param("payment_id"),
        any_of(collected_data.c.account, "accounts"),
        collected_data.c.source == param("source_"),
    )
)
_ERASE = Statement(
    delete(collected_data)
    .where(
        any_of(collected_data.c.payment_id, "ids"), collected_data.c.account == param("account_")
    )
    .returning(collected_data.c.payment_id)
)
_LAPSED = Statement(
    select(collected_data.c.payment_id, collected_data.c.account, collected_data.c.source)
    .where(collected_data.c.kept_until_us <= param("now_us"))
    .order_by(collected_data.c.kept_until_us)
    .limit(param("limit"))
)
_ROW = (
    collected_data.c.payment_id == param("payment_id"),
    collected_data.c.account == param("account_"),
    collected_data.c.source == param("source_"),
)
_FORGET = Statement(delete(collected_data).where(*_ROW))
_FORGET_LAPSED = Statement(
    delete(collected_data).where(*_ROW, collected_data.c.kept_until_us <= param("now_us"))
)


@operation
def offered(payment_id: str) -> Op[set[str]]:
    """The accounts that a payment was offered to, and not erased since."""
    return {account for (account,) in (yield _OFFERED(payment_id=payment_id))}


@operation
def put(data: Sequence[Collected]) -> Op[None]:
    """Stores what one source tells for one payment, about accounts that the payment is offered to.

    What the source told before stays. Nothing is stored once the payment is confirmed or over.
    """
    payment_id = data[0].payment_id
    if not (yield _OPEN(payment_id=payment_id)):
        return
    accounts = yield from offered(payment_id)
    new = [one for one in data if one.account in accounts]
    if not new:
        return
    yield _PUT.many(
        [
            {
                "payment_id": one.payment_id,
                "account": one.account,
                "source": one.source,
                "app": one.app,
                **record(one.sealed),
                "created_at_us": one.created_at_us,
                "kept_until_us": one.kept_until_us,
                "proven": False,
            }
            for one in new
        ]
    )
    yield _MAKE_ROOM.many(
        [
            {
                "payment_id": one.payment_id,
                "account_": one.account,
                "app_": one.app,
                "source_": one.source,
                "others": ROWS_AN_APP - 1,
            }
            for one in new
        ]
    )


@operation
def hand_in(data: Sequence[Collected]) -> Op[list[Collected]]:
    """Stores like `put`; gives what the source has told about these accounts now."""
    yield from put(data)
    first = data[0]
    return (yield from told_by(first.payment_id, [one.account for one in data], first.source))


@operation
def told_by(payment_id: str, accounts: Collection[str], source: str) -> Op[list[Collected]]:
    """What one source told about accounts for a payment."""
    rows = yield _FROM(payment_id=payment_id, accounts=accounts, source_=source)
    return [_collected(row) for row in rows]


@operation
def given(
    payment_id: str, accounts: Collection[str], sources: Collection[str], now_us: int
) -> Op[set[str]]:
    """Of which accounts there is data of these sources for this very payment."""
    rows = yield _GIVEN(payment_id=payment_id, accounts=accounts, sources=sources, now_us=now_us)
    return {account for (account,) in rows}


@operation
def reusable(accounts: Collection[str], app: str, now_us: int, *, live: bool) -> Op[set[str]]:
    """Of which accounts there is data from earlier payments that counts for what an app asks."""
    rows = yield _REUSABLE(accounts=accounts, app_=app, now_us=now_us, live=live)
    return {account for (account,) in rows}


@operation
def proven(
    accept: Operation[Payment | None], payment_id: str, account: str, told: Told
) -> Op[Payment | None]:
    """Accepts a confirm that the account signed: what its credential told is the buyer's own.

    Whatever else was told about the account for the payment is deleted. None, with nothing
    accepted, also if needed data is there no more.
    """
    asked = {"payment_id": payment_id, "account_": account}
    # nothing is told or erased from here on
    if not (yield _OPEN(payment_id=payment_id)):
        return None
    if told.brought is not None:
        yield from put([told.brought])
    sources = {source for (source,) in (yield _SOURCES(**asked))}
    own = next((source for source in told.sources if source in sources), None)
    if told.needed and own is None:
        return None
    accepted = yield from accept
    if accepted is None:
        return None
    if own is not None:
        yield _PROVE(**asked, source_=own)
    if others := sources - {own}:
        yield _FORGET.many([{**asked, "source_": source} for source in sorted(others)])
    return accepted


@operation
def of_account(account: str) -> Op[list[Collected]]:
    """All that was told about an account, the newest first."""
    rows = yield _OF(account_=account)
    return [_collected(row) for row in rows]


@operation
def behind(last: Collected | None, limit: int) -> Op[list[Collected]]:
    """Everything that is kept, page by page, from the one that was read last."""
    at = ("", "", "") if last is None else (last.payment_id, last.account, last.source)
    rows = yield _ALL(payment_id=at[0], account_=at[1], source_=at[2], limit=limit)
    return [_collected(row) for row in rows]


@operation
def erase(account: str, payment_ids: Collection[str]) -> Op[int]:
    """Part of an operation: deletes what was told for some payments, whoever told it."""
    return len((yield _ERASE(account_=account, ids=payment_ids)))


@operation
def forget(now_us: int, limit: int) -> Op[int]:
    """Deletes data whose time is over, at most so many sets of it; tells how many."""
    lapsed = yield _LAPSED(now_us=now_us, limit=limit)
    if lapsed:
        yield _FORGET_LAPSED.many(
            [
                {
                    "payment_id": one,
                    "account_": account,
                    "source_": source,
                    "now_us": now_us,
                }
                for one, account, source in sorted(lapsed)
            ]
        )
    return len(lapsed)


def _collected(row: Row) -> Collected:
    payment_id, account, source, app, *sealed, created_at_us, kept_until_us, proven = row
    return Collected(
        payment_id, account, source, app, Sealed(*sealed), created_at_us, kept_until_us, proven
    )
