"""The operator moves a version pin forward."""

from __future__ import annotations

from florin_server.domain.accounts.credentials import KeyKind
from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.versions import downgrade, up_to
from florin_server.flows.app import App
from florin_server.store.accounts import keys, pins


async def move(app: App, version: str, *, partner_id: str, app_id: str, key_id: str) -> str:
    """Moves the pin of the one account whose id is not empty, to a preview too; gives the pin.

    A pin never moves back: api_version_downgrade. Moving it to where it is changes nothing.
    """
    kinds = (
        (partner_id, pins.PARTNER, Code.PARTNER_NOT_FOUND),
        (app_id, pins.WALLET, Code.WALLET_NOT_FOUND),
        (key_id, pins.KEY, Code.API_KEY_NOT_FOUND),
    )
    named = [kind for kind in kinds if kind[0]]
    if len(named) != 1:
        raise invalid("partnerId", "exactly one of partnerId, appId and keyId is required")
    ((id_, kind, unknown),) = named
    movable = up_to(version)
    if key_id:
        await _refuse_partner_key(app, key_id)
    pin = await app.store.write(pins.move_pin(kind, id_, movable, version))
    if pin is None:
        raise FlorinError(unknown)
    if pin != version:
        raise downgrade(pin)
    app.accounts.changed()
    return pin


async def _refuse_partner_key(app: App, key_id: str) -> None:
    key = await app.store.read(keys.key_by_id(key_id))
    if key is not None and key.kind is KeyKind.PARTNER:
        raise invalid("keyId", "is a partner key: its partner has the pin")
