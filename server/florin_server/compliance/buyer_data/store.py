"""Data about buyers: its sources, which data counts, and when it is deleted.

This module cannot decrypt the data. Each source has its own row for an account of a payment, and
its first submission stays. A stranger's data never replaces the buyer's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import delete, select, tuple_, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Operation,
    Statement,
    insert,
    is_in,
    operation,
    param,
    to_row_params,
)
from florin_server.db.tables.tables import collected_data_table, payment_option_table, payment_table
from florin_server.domain.cipher import Ciphertext
from florin_server.domain.payments.payment import Payment, PaymentStatus

# Unproven data about an account for one payment from one app. The operator creates the apps, and a
# buyer has few devices; a row has at most 6 KB. When it is full, the oldest row is deleted. An
# attacker with a hundred installations of one app can make that app's buyers submit again, but
# cannot block data that comes with a confirm.
ROWS_AN_APP = 100


class DataSource(StrEnum):
    """The way in which data was submitted."""

    FORM = "form"
    INLINE = "inline"  # the wallet sent it with its request


@dataclass(frozen=True, slots=True)
class BuyerDataRecord:
    """Submitted data about an account (canonical CAIP-10) for a payment; times in microseconds.

    `format_source` builds `source`; `app` is the id of the wallet's registration or key. Both are
    empty in older records, which never count. `proven` is true if the credential also confirmed the
    payment with a signature of the account.
    """

    payment_id: str
    account: str
    source: str
    app: str
    sealed: Ciphertext
    created_at_us: int
    kept_until_us: int
    proven: bool = False

    @property
    def data_source(self) -> DataSource | None:
        """Return how it was submitted; None if that was not recorded."""
        return DataSource(self.source.partition(":")[0]) if self.source else None


@dataclass(frozen=True, slots=True)
class ConfirmedBuyerData:
    """The data requirements of a confirm; `sources` are its credential's, the preferred first.

    `inline_entry` comes with the confirm itself. `is_required` is true if data of these sources
    must exist; otherwise data from an earlier payment of the account can replace it.
    """

    sources: Sequence[str] = ()
    inline_entry: BuyerDataRecord | None = None
    is_required: bool = False


def format_source(data_source: DataSource, supplier_id: str) -> str:
    """Return the source of a credential's data; `supplier_id` is a hash of the credential."""
    return f"{data_source}:{supplier_id}"


class _RecordKey(NamedTuple):
    payment_id: str
    account: str
    source: str


_PUT = Command(insert(collected_data_table).on_conflict_do_nothing())
# accepting a confirm changes the payment too, so that no data is stored after it
_OPEN = Statement(
    select(payment_table.c.id)
    .where(
        payment_table.c.id == param("payment_id"),
        payment_table.c.status == PaymentStatus.REQUIRES_ACTION,
    )
    .with_for_update(),
    str,
)
_OFFERED = Statement(
    select(payment_option_table.c.payer)
    .where(payment_option_table.c.payment_id == param("payment_id"))
    .distinct(),
    str,
)
_other = collected_data_table.alias("other")
_MAKE_ROOM = Command(
    delete(collected_data_table).where(
        collected_data_table.c.payment_id == param("payment_id"),
        collected_data_table.c.account == param("account_"),
        collected_data_table.c.app == param("app_"),
        collected_data_table.c.source != param("source_"),
        collected_data_table.c.source.not_in(
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
_HAS_DATA = Statement(
    select(collected_data_table.c.account)
    .where(
        collected_data_table.c.payment_id == param("payment_id"),
        is_in(collected_data_table.c.account, "accounts"),
        is_in(collected_data_table.c.source, "sources"),
        collected_data_table.c.kept_until_us > param("now_us"),
    )
    .distinct(),
    str,
)
# anyone who knows a payment can submit data about any account: it counts elsewhere only if the
# account signed the confirm that it came with, and only for that app
_HAS_REUSABLE_DATA = Statement(
    select(collected_data_table.c.account)
    .join(payment_table, payment_table.c.id == collected_data_table.c.payment_id)
    .where(
        is_in(collected_data_table.c.account, "accounts"),
        collected_data_table.c.app == param("app_"),
        collected_data_table.c.proven.is_(True),
        collected_data_table.c.kept_until_us > param("now_us"),
        payment_table.c.live == param("live"),
        payment_table.c.payer == collected_data_table.c.account,
    )
    .distinct(),
    str,
)
_SOURCES = Statement(
    select(collected_data_table.c.source).where(
        collected_data_table.c.payment_id == param("payment_id"),
        collected_data_table.c.account == param("account_"),
    ),
    str,
)
_PROVE = Command(
    update(collected_data_table)
    .where(
        collected_data_table.c.payment_id == param("payment_id"),
        collected_data_table.c.account == param("account_"),
        collected_data_table.c.source == param("source_"),
    )
    .values(proven=True)
)
_COLUMNS = (
    collected_data_table.c.payment_id,
    collected_data_table.c.account,
    collected_data_table.c.source,
    collected_data_table.c.app,
    collected_data_table.c.key_id,
    collected_data_table.c.nonce,
    collected_data_table.c.ciphertext,
    collected_data_table.c.created_at_us,
    collected_data_table.c.kept_until_us,
    collected_data_table.c.proven,
)
_OF = Statement(
    select(*_COLUMNS)
    .where(collected_data_table.c.account == param("account_"))
    .order_by(
        collected_data_table.c.created_at_us.desc(),
        collected_data_table.c.payment_id.desc(),
        collected_data_table.c.source,
    ),
    BuyerDataRecord,
    sealed=Ciphertext,
)
_ALL = Statement(
    select(*_COLUMNS)
    .where(
        tuple_(
            collected_data_table.c.payment_id,
            collected_data_table.c.account,
            collected_data_table.c.source,
        )
        > tuple_(param("payment_id"), param("account_"), param("source_"))
    )
    .order_by(
        collected_data_table.c.payment_id,
        collected_data_table.c.account,
        collected_data_table.c.source,
    )
    .limit(param("limit")),
    BuyerDataRecord,
    sealed=Ciphertext,
)
_FROM = Statement(
    select(*_COLUMNS).where(
        collected_data_table.c.payment_id == param("payment_id"),
        is_in(collected_data_table.c.account, "accounts"),
        collected_data_table.c.source == param("source_"),
    ),
    BuyerDataRecord,
    sealed=Ciphertext,
)
_ERASE = Statement(
    delete(collected_data_table)
    .where(
        is_in(collected_data_table.c.payment_id, "ids"),
        collected_data_table.c.account == param("account_"),
    )
    .returning(collected_data_table.c.payment_id),
    str,
)
_LAPSED = Statement(
    select(
        collected_data_table.c.payment_id,
        collected_data_table.c.account,
        collected_data_table.c.source,
    )
    .where(collected_data_table.c.kept_until_us <= param("now_us"))
    .order_by(collected_data_table.c.kept_until_us)
    .limit(param("limit")),
    _RecordKey,
)
_ROW = (
    collected_data_table.c.payment_id == param("payment_id"),
    collected_data_table.c.account == param("account_"),
    collected_data_table.c.source == param("source_"),
)
_FORGET = Command(delete(collected_data_table).where(*_ROW))
_FORGET_LAPSED = Command(
    delete(collected_data_table).where(
        *_ROW, collected_data_table.c.kept_until_us <= param("now_us")
    )
)


@operation
def list_offered_accounts(payment_id: str) -> Op[set[str]]:
    """Return the accounts that a payment is offered to, without erased accounts."""
    return set((yield from _OFFERED.all(payment_id=payment_id)))


@operation
def put(data: Sequence[BuyerDataRecord]) -> Op[None]:
    """Store a source's data for one payment, about accounts that the payment is offered to.

    The source's earlier data stays. Nothing is stored once the payment is confirmed or over.
    """
    payment_id = data[0].payment_id
    if not (yield from _OPEN.any(payment_id=payment_id)):
        return
    accounts = yield from list_offered_accounts(payment_id)
    new = [record for record in data if record.account in accounts]
    if not new:
        return
    yield _PUT.bind_many(
        [
            {
                "payment_id": record.payment_id,
                "account": record.account,
                "source": record.source,
                "app": record.app,
                **to_row_params(record.sealed),
                "created_at_us": record.created_at_us,
                "kept_until_us": record.kept_until_us,
                "proven": False,
            }
            for record in new
        ]
    )
    yield _MAKE_ROOM.bind_many(
        [
            {
                "payment_id": record.payment_id,
                "account_": record.account,
                "app_": record.app,
                "source_": record.source,
                "others": ROWS_AN_APP - 1,
            }
            for record in new
        ]
    )


@operation
def submit(data: Sequence[BuyerDataRecord]) -> Op[list[BuyerDataRecord]]:
    """Store data like `put`; return the source's current data about these accounts."""
    yield from put(data)
    first = data[0]
    return (
        yield from list_by_source(
            first.payment_id, [record.account for record in data], first.source
        )
    )


@operation
def list_by_source(
    payment_id: str, accounts: Collection[str], source: str
) -> Op[list[BuyerDataRecord]]:
    """Return one source's data about accounts for a payment."""
    return (yield from _FROM.all(payment_id=payment_id, accounts=accounts, source_=source))


@operation
def filter_accounts_with_data(
    payment_id: str, accounts: Collection[str], sources: Collection[str], now_us: int
) -> Op[set[str]]:
    """Return the accounts that have data of these sources for this payment."""
    return set(
        (
            yield from _HAS_DATA.all(
                payment_id=payment_id, accounts=accounts, sources=sources, now_us=now_us
            )
        )
    )


@operation
def filter_accounts_with_reusable_data(
    accounts: Collection[str], app: str, now_us: int, *, live: bool
) -> Op[set[str]]:
    """Return the accounts with data from earlier payments that counts for an app's requirements."""
    return set(
        (yield from _HAS_REUSABLE_DATA.all(accounts=accounts, app_=app, now_us=now_us, live=live))
    )


@operation
def accept_proven(
    accept: Operation[Payment | None], payment_id: str, account: str, buyer_data: ConfirmedBuyerData
) -> Op[Payment | None]:
    """Accept a confirm that the account signed; its credential's data becomes the buyer's own.

    All other data about the account for the payment is deleted. Return None, without accepting,
    also if needed data no longer exists.
    """
    params = {"payment_id": payment_id, "account_": account}
    # no data is stored or erased from here on
    if not (yield from _OPEN.any(payment_id=payment_id)):
        return None
    if buyer_data.inline_entry is not None:
        yield from put([buyer_data.inline_entry])
    sources = set((yield from _SOURCES.all(**params)))
    own = next((source for source in buyer_data.sources if source in sources), None)
    if buyer_data.is_required and own is None:
        return None
    changed_payment = yield from accept
    if changed_payment is None:
        return None
    if own is not None:
        yield _PROVE(**params, source_=own)
    if unused_sources := sources - {own}:
        yield _FORGET.bind_many(
            [{**params, "source_": source} for source in sorted(unused_sources)]
        )
    return changed_payment


@operation
def list_by_account(account: str) -> Op[list[BuyerDataRecord]]:
    """Return all data about an account, the newest first."""
    return (yield from _OF.all(account_=account))


@operation
def list_page(last: BuyerDataRecord | None, limit: int) -> Op[list[BuyerDataRecord]]:
    """Return a page of all data, after the record read last."""
    at = ("", "", "") if last is None else (last.payment_id, last.account, last.source)
    return (yield from _ALL.all(payment_id=at[0], account_=at[1], source_=at[2], limit=limit))


@operation
def erase(account: str, payment_ids: Collection[str]) -> Op[int]:
    """Delete the account's data of some payments, from all sources; part of an operation."""
    return len((yield from _ERASE.all(account_=account, ids=payment_ids)))


@operation
def forget(now_us: int, limit: int) -> Op[int]:
    """Delete up to `limit` expired records; return how many."""
    lapsed = yield from _LAPSED.all(now_us=now_us, limit=limit)
    if lapsed:
        yield _FORGET_LAPSED.bind_many(
            [
                {
                    "payment_id": payment_id,
                    "account_": account,
                    "source_": source,
                    "now_us": now_us,
                }
                for payment_id, account, source in sorted(lapsed)
            ]
        )
    return len(lapsed)
