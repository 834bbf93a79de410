"""Partners, their merchants, and where merchants want their money."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select

from florin_server.domain.account import Partner
from florin_server.domain.payment import Destination, Merchant
from florin_server.store.query import Op, Statement, any_of, columns, param, upsert
from florin_server.store.tables import merchant as merchant_table
from florin_server.store.tables import partner as partner_table
from florin_server.store.tables import settlement_dest

_PUT_PARTNER = Statement(upsert(partner_table, "id"))
_PARTNER = Statement(select(partner_table).where(partner_table.c.id == param("partner_id")))
_ANY_PARTNER = Statement(select(partner_table.c.id).limit(1))
_PUT_MERCHANT = Statement(upsert(merchant_table, "id"))
_MERCHANTS = Statement(select(merchant_table).where(any_of(merchant_table.c.id, "ids")))
_PUT_DESTINATION = Statement(upsert(settlement_dest, "merchant_id", "asset_key"))
_DESTINATION_COLUMNS = columns(settlement_dest, Destination)
_DESTINATIONS = Statement(
    select(*_DESTINATION_COLUMNS)
    .where(settlement_dest.c.merchant_id == param("merchant_id"))
    .order_by(settlement_dest.c.asset)
)
_DESTINATION = Statement(
    select(*_DESTINATION_COLUMNS).where(
        settlement_dest.c.merchant_id == param("merchant_id"),
        settlement_dest.c.asset_key == param("asset_key"),
    )
)


def put_partner(partner: Partner) -> Op[None]:
    """Stores a partner, or what changed about it."""
    yield _PUT_PARTNER.of(partner)


def partner(partner_id: str) -> Op[Partner | None]:
    """One partner."""
    rows = yield _PARTNER(partner_id=partner_id)
    return Partner(*rows[0]) if rows else None


def has_partners() -> Op[bool]:
    """True if anybody was ever registered."""
    return bool((yield _ANY_PARTNER()))


def put_merchant(merchant: Merchant) -> Op[None]:
    """Stores a merchant, or what changed about it."""
    yield _PUT_MERCHANT.of(merchant)


def merchants(ids: Collection[str]) -> Op[dict[str, Merchant]]:
    """The merchants that exist, by id, deleted ones too."""
    return {row[0]: Merchant(*row) for row in (yield _MERCHANTS(ids=ids))}


def merchant(merchant_id: str) -> Op[Merchant | None]:
    """One merchant, deleted or not."""
    return (yield from merchants((merchant_id,))).get(merchant_id)


def put_destination(destination: Destination) -> Op[None]:
    """Stores where a merchant wants an asset to go; one that is known keeps its id."""
    yield _PUT_DESTINATION.of(destination)


def destination(merchant_id: str, asset_key: str) -> Op[Destination | None]:
    """Where a merchant wants one asset (in canonical form) to go."""
    rows = yield _DESTINATION(merchant_id=merchant_id, asset_key=asset_key)
    return Destination(*rows[0]) if rows else None


def destinations(merchant_id: str) -> Op[list[Destination]]:
    """All places of a merchant, by asset."""
    return [Destination(*row) for row in (yield _DESTINATIONS(merchant_id=merchant_id))]
