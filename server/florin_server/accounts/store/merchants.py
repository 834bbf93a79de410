"""Partners and their merchants."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Column, ColumnElement, Text, func, or_, select, tuple_, update

from florin_server.db import generations
from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    icontains,
    insert,
    is_in,
    operation,
    param,
    upsert,
)
from florin_server.db.tables.tables import merchant_table, partner_table
from florin_server.domain.accounts.account import Partner
from florin_server.domain.accounts.contact import SupportContact
from florin_server.domain.payments.payment import Merchant


def _keep_or_remove(column: Column[Any]) -> ColumnElement[Any]:
    """Return the new value of a column: NULL keeps the present one, empty text removes it."""
    return func.nullif(func.coalesce(param(f"new_{column.name}", Text), column), "")


_PUT_PARTNER = Command(upsert(partner_table, "id"))
_PARTNER = Statement(
    select(partner_table).where(partner_table.c.id == param("partner_id")), Partner
)
_ANY_PARTNER = Statement(select(partner_table.c.id).limit(1), str)
_PARTNERS = Statement(
    select(partner_table).order_by(partner_table.c.created_at_us.desc(), partner_table.c.id),
    Partner,
)
_PARTNER_STATUS = Statement(
    update(partner_table)
    .where(partner_table.c.id == param("partner_id"))
    .values(status=param("status"))
    .returning(*partner_table.c),
    Partner,
)
_PUT_MERCHANT = Command(upsert(merchant_table, "id"))
_ADD = Statement(
    insert(merchant_table)
    .on_conflict_do_nothing(index_elements=["id"])
    .returning(merchant_table.c.id),
    str,
)
_MERCHANTS = Statement(select(merchant_table).where(is_in(merchant_table.c.id, "ids")), Merchant)
_LOCK = Statement(
    select(merchant_table.c.id).where(merchant_table.c.id == param("id_")).with_for_update(), str
)
_OWN = (
    merchant_table.c.id == param("id_"),
    merchant_table.c.partner_id == param("owner"),
    merchant_table.c.live == param("mode"),
)
_NOT_DELETED = merchant_table.c.deleted_at_us.is_(None)
_STATUS = Statement(
    update(merchant_table)
    .where(merchant_table.c.id == param("merchant_id"), _NOT_DELETED)
    .values(status=param("status"))
    .returning(*merchant_table.c),
    Merchant,
)
_SUPPORT = Statement(
    update(merchant_table)
    .where(merchant_table.c.id == param("merchant_id"), _NOT_DELETED)
    .values(
        support_email=_keep_or_remove(merchant_table.c.support_email),
        support_url=_keep_or_remove(merchant_table.c.support_url),
    )
    .returning(*merchant_table.c),
    Merchant,
)
_CREATE = Command(insert(merchant_table))
_FIND_OWNED = Statement(select(merchant_table).where(*_OWN, _NOT_DELETED), Merchant)
_CHANGE = Statement(
    update(merchant_table)
    .where(*_OWN, _NOT_DELETED)
    .values(
        name=func.coalesce(param("new_name", Text), merchant_table.c.name),
        email=func.coalesce(param("new_email", Text), merchant_table.c.email),
        icon_url=_keep_or_remove(merchant_table.c.icon_url),
        support_email=_keep_or_remove(merchant_table.c.support_email),
        support_url=_keep_or_remove(merchant_table.c.support_url),
        accent=_keep_or_remove(merchant_table.c.accent),
    )
    .returning(*merchant_table.c),
    Merchant,
)
_DELETE = Statement(
    update(merchant_table)
    .where(*_OWN)
    .values(deleted_at_us=func.coalesce(merchant_table.c.deleted_at_us, param("now_us")))
    .returning(merchant_table.c.id),
    str,
)
_MATCHES_QUERY = (
    merchant_table.c.partner_id == param("owner"),
    merchant_table.c.live == param("mode"),
    _NOT_DELETED,
    or_(param("status_", Text).is_(None), merchant_table.c.status == param("status_", Text)),
    or_(
        param("part", Text).is_(None),
        icontains(merchant_table.c.name, param("part", Text)),
        icontains(merchant_table.c.id, param("part", Text)),
    ),
)
_PAGE = Statement(
    select(merchant_table)
    .where(
        *_MATCHES_QUERY,
        tuple_(merchant_table.c.created_at_us, merchant_table.c.id)
        < tuple_(param("before_us", BigInteger), param("before_id", Text)),
    )
    .order_by(merchant_table.c.created_at_us.desc(), merchant_table.c.id.desc())
    .limit(param("most")),
    Merchant,
)
_COUNT = Statement(select(func.count()).select_from(merchant_table).where(*_MATCHES_QUERY), int)
# before the newest possible entry
_START = (2**63 - 1, "")
_NO_SUPPORT = SupportContact()


@dataclass(frozen=True, slots=True)
class MerchantListQuery:
    """A filter for a partner's merchants; None matches all."""

    partner_id: str
    live: bool
    status: str | None = None
    search: str | None = None  # part of the name or the id, ignoring case

    def to_params(self) -> dict[str, object]:
        """Return the parameters of the statements."""
        return {
            "owner": self.partner_id,
            "mode": self.live,
            "status_": self.status,
            "part": self.search,
        }


@dataclass(frozen=True, slots=True)
class MerchantPage:
    """One page of a list; `total` counts all matches."""

    merchants: list[Merchant]
    total: int
    has_more: bool


@operation
def put_partner(partner: Partner) -> Op[None]:
    """Store a partner, or its changes."""
    yield _PUT_PARTNER(partner)
    yield from generations.bump(generations.CacheKind.ACCOUNTS)


@operation
def find_partner(partner_id: str) -> Op[Partner | None]:
    """Return a partner; None if it does not exist."""
    return (yield from _PARTNER.first(partner_id=partner_id))


@operation
def has_partners() -> Op[bool]:
    """Return True if any partner exists."""
    return (yield from _ANY_PARTNER.any())


@operation
def list_partners() -> Op[list[Partner]]:
    """Return all partners, newest first."""
    return (yield from _PARTNERS.all())


@operation
def set_partner_status(partner_id: str, status: str) -> Op[Partner | None]:
    """Change a partner's status; return None if it does not exist."""
    partner = yield from _PARTNER_STATUS.first(partner_id=partner_id, status=status)
    yield from generations.bump(generations.CacheKind.ACCOUNTS)
    return partner


@operation
def put_merchant(merchant: Merchant) -> Op[None]:
    """Store a merchant, or its changes."""
    yield _PUT_MERCHANT(merchant)
    yield from generations.bump(generations.CacheKind.ACCOUNTS)


@operation
def add(merchant: Merchant) -> Op[bool]:
    """Store a new merchant; return False if its id is taken, even by a deleted merchant."""
    return (yield from _ADD.any(merchant))


@operation
def set_status(merchant_id: str, status: str) -> Op[Merchant | None]:
    """Change a merchant's status; return None if it does not exist or is deleted."""
    merchant = yield from _STATUS.first(merchant_id=merchant_id, status=status)
    yield from generations.bump(generations.CacheKind.ACCOUNTS)
    return merchant


@operation
def set_support(merchant_id: str, support: SupportContact) -> Op[Merchant | None]:
    """Change a merchant's contact for buyers; return None if it does not exist or is deleted."""
    merchant = yield from _SUPPORT.first(
        merchant_id=merchant_id, new_support_email=support.email, new_support_url=support.url
    )
    yield from generations.bump(generations.CacheKind.ACCOUNTS)
    return merchant


@operation
def find_merchants(ids: Collection[str]) -> Op[dict[str, Merchant]]:
    """Return the merchants that exist, by id, including deleted merchants."""
    return {merchant.id: merchant for merchant in (yield from _MERCHANTS.all(ids=ids))}


@operation
def find_merchant(merchant_id: str) -> Op[Merchant | None]:
    """Return a merchant, deleted or not; None if it does not exist."""
    return (yield from find_merchants((merchant_id,))).get(merchant_id)


@operation
def lock(merchant_id: str) -> Op[None]:
    """Lock a merchant until the surrounding operation ends."""
    yield from _LOCK.all(id_=merchant_id)


@operation
def create(merchant: Merchant) -> Op[Merchant]:
    """Store a new merchant; raise StoreError if its id is taken."""
    yield _CREATE(merchant)
    return merchant


@operation
def find_owned(merchant_id: str, partner_id: str, *, live: bool) -> Op[Merchant | None]:
    """Return a partner's merchant; None if it is another's, of the other mode, or deleted."""
    return (yield from _FIND_OWNED.first(id_=merchant_id, owner=partner_id, mode=live))


@operation
def change(
    merchant_id: str,
    partner_id: str,
    *,
    live: bool,
    name: str | None = None,
    email: str | None = None,
    icon_url: str | None = None,
    support: SupportContact = _NO_SUPPORT,
    accent: str | None = None,
) -> Op[Merchant | None]:
    """Change the members that are not None; empty text removes icon and accent.

    Same checks as `find_owned`. It is one statement, so that two concurrent changes of different
    members both take effect.
    """
    merchant = yield from _CHANGE.first(
        id_=merchant_id,
        owner=partner_id,
        mode=live,
        new_name=name,
        new_email=email,
        new_icon_url=icon_url,
        new_support_email=support.email,
        new_support_url=support.url,
        new_accent=accent,
    )
    yield from generations.bump(generations.CacheKind.ACCOUNTS)
    return merchant


@operation
def delete(merchant_id: str, partner_id: str, *, live: bool, now_us: int) -> Op[bool]:
    """Hide a merchant; a hidden merchant stays unchanged. Return False if it never existed."""
    existed = yield from _DELETE.any(id_=merchant_id, owner=partner_id, mode=live, now_us=now_us)
    yield from generations.bump(generations.CacheKind.ACCOUNTS)
    return existed


@operation
def list_newest(partner_id: str, *, live: bool, limit: int) -> Op[list[Merchant]]:
    """Return a partner's newest merchants in one mode, without counting all."""
    params = MerchantListQuery(partner_id, live).to_params()
    before_us, before_id = _START
    return (yield from _PAGE.all(**params, before_us=before_us, before_id=before_id, most=limit))


@operation
def list_page(
    query: MerchantListQuery, after: tuple[int, str] | None, limit: int
) -> Op[MerchantPage]:
    """Return the merchants after a position (created_at_us, id), newest first."""
    before_us, before_id = after or _START
    params = query.to_params()
    merchants = yield from _PAGE.all(
        **params, before_us=before_us, before_id=before_id, most=limit + 1
    )
    total = yield from _COUNT.single(**params)
    return MerchantPage(merchants[:limit], total, has_more=len(merchants) > limit)
