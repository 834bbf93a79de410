"""Partners and their merchants."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import BigInteger, Text, func, or_, select, tuple_, update

from florin_server.domain.accounts.account import Partner
from florin_server.domain.payments.payment import Merchant
from florin_server.store.engine.query import (
    Op,
    Statement,
    any_of,
    holds,
    insert,
    operation,
    param,
    upsert,
)
from florin_server.store.hints import generations
from florin_server.store.tables.tables import merchant as merchant_table
from florin_server.store.tables.tables import partner as partner_table

_PUT_PARTNER = Statement(upsert(partner_table, "id"))
_PARTNER = Statement(select(partner_table).where(partner_table.c.id == param("partner_id")))
_ANY_PARTNER = Statement(select(partner_table.c.id).limit(1))
_PARTNERS = Statement(
    select(partner_table).order_by(partner_table.c.created_at_us.desc(), partner_table.c.id)
)
_PARTNER_STATUS = Statement(
    update(partner_table)
    .where(partner_table.c.id == param("partner_id"))
    .values(status=param("status"))
    .returning(*partner_table.c)
)
_PUT_MERCHANT = Statement(upsert(merchant_table, "id"))
_ADD = Statement(
    insert(merchant_table)
    .on_conflict_do_nothing(index_elements=["id"])
    .returning(merchant_table.c.id)
)
_MERCHANTS = Statement(select(merchant_table).where(any_of(merchant_table.c.id, "ids")))
_LOCK = Statement(
    select(merchant_table.c.id).where(merchant_table.c.id == param("id_")).with_for_update()
)
_OWN = (
    merchant_table.c.id == param("id_"),
    merchant_table.c.partner_id == param("owner"),
    merchant_table.c.live == param("mode"),
)
_THERE = merchant_table.c.deleted_at_us.is_(None)
_STATUS = Statement(
    update(merchant_table)
    .where(merchant_table.c.id == param("merchant_id"), _THERE)
    .values(status=param("status"))
    .returning(*merchant_table.c)
)
_CREATE = Statement(insert(merchant_table))
_OWNED = Statement(select(merchant_table).where(*_OWN, _THERE))
_CHANGE = Statement(
    update(merchant_table)
    .where(*_OWN, _THERE)
    .values(
        name=func.coalesce(param("new_name", Text), merchant_table.c.name),
        email=func.coalesce(param("new_email", Text), merchant_table.c.email),
        icon_url=func.nullif(
            func.coalesce(param("new_icon_url", Text), merchant_table.c.icon_url), ""
        ),
    )
    .returning(*merchant_table.c)
)
_DELETE = Statement(
    update(merchant_table)
    .where(*_OWN)
    .values(deleted_at_us=func.coalesce(merchant_table.c.deleted_at_us, param("now_us")))
    .returning(merchant_table.c.id)
)
_WANTED = (
    merchant_table.c.partner_id == param("owner"),
    merchant_table.c.live == param("mode"),
    _THERE,
    or_(param("status_", Text).is_(None), merchant_table.c.status == param("status_", Text)),
    or_(
        param("part", Text).is_(None),
        holds(merchant_table.c.name, param("part", Text)),
        holds(merchant_table.c.id, param("part", Text)),
    ),
)
_PAGE = Statement(
    select(merchant_table)
    .where(
        *_WANTED,
        tuple_(merchant_table.c.created_at_us, merchant_table.c.id)
        < tuple_(param("before_us", BigInteger), param("before_id", Text)),
    )
    .order_by(merchant_table.c.created_at_us.desc(), merchant_table.c.id.desc())
    .limit(param("most"))
)
_COUNT = Statement(select(func.count()).select_from(merchant_table).where(*_WANTED))
# newer than everything
_START = (2**63 - 1, "")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which merchants of a partner a list is about; None lets all through."""

    partner_id: str
    live: bool
    status: str | None = None
    search: str | None = None  # part of the name or the id, in any case

    def params(self) -> dict[str, object]:
        """The values of the statements."""
        return {
            "owner": self.partner_id,
            "mode": self.live,
            "status_": self.status,
            "part": self.search,
        }


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list; `total` counts all that the list is about."""

    merchants: list[Merchant]
    total: int
    more: bool


@operation
def put_partner(partner: Partner) -> Op[None]:
    """Stores a partner, or what changed about it."""
    yield _PUT_PARTNER.of(partner)
    yield from generations.bump(generations.Kind.ACCOUNTS)


@operation
def partner(partner_id: str) -> Op[Partner | None]:
    """One partner."""
    rows = yield _PARTNER(partner_id=partner_id)
    return Partner(*rows[0]) if rows else None


@operation
def has_partners() -> Op[bool]:
    """True if anybody was ever registered."""
    return bool((yield _ANY_PARTNER()))


@operation
def list_partners() -> Op[list[Partner]]:
    """All partners, newest first."""
    return [Partner(*row) for row in (yield _PARTNERS())]


@operation
def set_partner_status(partner_id: str, status: str) -> Op[Partner | None]:
    """Changes the status of a partner; None if there is no such partner."""
    rows = yield _PARTNER_STATUS(partner_id=partner_id, status=status)
    yield from generations.bump(generations.Kind.ACCOUNTS)
    return Partner(*rows[0]) if rows else None


@operation
def put_merchant(merchant: Merchant) -> Op[None]:
    """Stores a merchant, or what changed about it."""
    yield _PUT_MERCHANT.of(merchant)
    yield from generations.bump(generations.Kind.ACCOUNTS)


@operation
def add(merchant: Merchant) -> Op[bool]:
    """Stores a new merchant; False if its id is taken, by a deleted one too."""
    return bool((yield _ADD.of(merchant)))


@operation
def set_status(merchant_id: str, status: str) -> Op[Merchant | None]:
    """Changes the status of a merchant; None if there is none, or a deleted one."""
    rows = yield _STATUS(merchant_id=merchant_id, status=status)
    yield from generations.bump(generations.Kind.ACCOUNTS)
    return Merchant(*rows[0]) if rows else None


@operation
def merchants(ids: Collection[str]) -> Op[dict[str, Merchant]]:
    """The merchants that exist, by id, deleted ones too."""
    return {row[0]: Merchant(*row) for row in (yield _MERCHANTS(ids=ids))}


@operation
def merchant(merchant_id: str) -> Op[Merchant | None]:
    """One merchant, deleted or not."""
    return (yield from merchants((merchant_id,))).get(merchant_id)


@operation
def lock(merchant_id: str) -> Op[None]:
    """Part of an operation: whoever else locks the merchant waits until it ends."""
    yield _LOCK(id_=merchant_id)


@operation
def create(merchant: Merchant) -> Op[Merchant]:
    """Stores a new merchant; StoreError if its id is taken."""
    yield _CREATE.of(merchant)
    return merchant


@operation
def owned(merchant_id: str, partner_id: str, *, live: bool) -> Op[Merchant | None]:
    """A merchant of a partner; None if it is another's, of the other mode, or deleted."""
    rows = yield _OWNED(id_=merchant_id, owner=partner_id, mode=live)
    return Merchant(*rows[0]) if rows else None


@operation
def change(
    merchant_id: str,
    partner_id: str,
    *,
    live: bool,
    name: str | None = None,
    email: str | None = None,
    icon_url: str | None = None,
) -> Op[Merchant | None]:
    """Changes what is not None, an empty icon to none; the same merchants as `owned`.

    One statement, so that of two that change different members both count.
    """
    rows = yield _CHANGE(
        id_=merchant_id,
        owner=partner_id,
        mode=live,
        new_name=name,
        new_email=email,
        new_icon_url=icon_url,
    )
    yield from generations.bump(generations.Kind.ACCOUNTS)
    return Merchant(*rows[0]) if rows else None


@operation
def delete(merchant_id: str, partner_id: str, *, live: bool, now_us: int) -> Op[bool]:
    """Hides a merchant; one that is hidden stays as it is. False if there never was one."""
    rows = yield _DELETE(id_=merchant_id, owner=partner_id, mode=live, now_us=now_us)
    yield from generations.bump(generations.Kind.ACCOUNTS)
    return bool(rows)


@operation
def page(wanted: Wanted, after: tuple[int, str] | None, limit: int) -> Op[Page]:
    """The merchants after a position (created_at_us, id), newest first."""
    before_us, before_id = after or _START
    params = wanted.params()
    rows = yield _PAGE(**params, before_us=before_us, before_id=before_id, most=limit + 1)
    ((total,),) = yield _COUNT(**params)
    return Page([Merchant(*row) for row in rows[:limit]], total, more=len(rows) > limit)
