"""Partners: made, listed, suspended."""

from __future__ import annotations

from florin_server.domain.accounts.account import Partner
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.ids import short_id
from florin_server.domain.versions import NEWEST_STABLE
from florin_server.flows.accounts.contact import check
from florin_server.flows.app import App
from florin_server.store.accounts import merchants


async def create(app: App, name: str) -> Partner:
    """Makes a partner that may call at once; params_validation."""
    check(name)
    partner = Partner(
        id=short_id("prtn_", app.randbytes),
        name=name,
        version_pin=NEWEST_STABLE,
        status="active",
        created_at_us=app.clock.now_us(),
    )
    await app.store.write(merchants.put_partner(partner))
    app.accounts.changed()
    return partner


async def listed(app: App) -> list[Partner]:
    """All partners, newest first."""
    return await app.store.survey(merchants.list_partners())


async def known(app: App, partner_id: str) -> Partner:
    """One partner; partner_not_found."""
    partner = await app.store.read(merchants.partner(partner_id))
    if partner is None:
        raise FlorinError(Code.PARTNER_NOT_FOUND)
    return partner


async def set_status(app: App, partner_id: str, status: str) -> Partner:
    """Suspends a partner or lets it work again; partner_not_found."""
    partner = await app.store.write(merchants.set_partner_status(partner_id, status))
    if partner is None:
        raise FlorinError(Code.PARTNER_NOT_FOUND)
    app.accounts.changed()
    return partner
