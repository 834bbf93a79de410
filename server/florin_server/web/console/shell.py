"""What the frame of every page shows: keys that are signed in, merchants, and waiting items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from florin_server.accounts.store import keys, merchants
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, StoreUnavailable, operation
from florin_server.domain.payments.payment import Merchant
from florin_server.features.webhooks.store import endpoints
from florin_server.money.payouts.store import held_money
from florin_server.operations.store import quarantine
from florin_server.web.console.paths import ROOT
from florin_server.web.console.session import ConsoleSession

# above that, "99+" is shown
COUNT_MAX: Final = 99
# merchants of the switch, the newest first; others are found on their page
_MERCHANTS_SHOWN: Final = 20
_MERCHANT_CHARS: Final = 64
WEBHOOKS: Final = f"{ROOT}/webhooks"
HELD: Final = f"{ROOT}/held"
QUARANTINE: Final = f"{ROOT}/quarantine"


@dataclass(frozen=True, slots=True)
class SignedInKey:
    """A key that is signed in in this browser; `ending` has its last four characters."""

    holder: str
    live: bool
    name: str = ""
    ending: str = ""
    partner_id: str = ""
    partner_name: str = ""


@dataclass(frozen=True, slots=True)
class Shell:
    """The values of the frame.

    `signed_in` has the chosen key first. `waiting` is the number of items that wait for a person,
    by the path of their page, at most one above COUNT_MAX.
    """

    signed_in: Sequence[SignedInKey] = ()
    merchants: Sequence[Merchant] = ()
    has_more_merchants: bool = False
    waiting: Mapping[str, int] = field(default_factory=dict)

    @property
    def partner_name(self) -> str:
        """Return the name of the chosen key's partner."""
        return self.signed_in[0].partner_name if self.signed_in else ""

    def find_other_mode(self) -> SignedInKey | None:
        """Return the key of the same partner in the other mode; None if none is signed in."""
        if not self.signed_in:
            return None
        chosen, *remaining = self.signed_in
        return next(
            (
                key
                for key in remaining
                if key.live is not chosen.live and key.partner_id == chosen.partner_id
            ),
            None,
        )

    def get_merchant_name(self, merchant_id: str) -> str:
        """Return the name of a merchant; its id if it is not among the newest."""
        names = {merchant.id: merchant.name for merchant in self.merchants}
        return names.get(merchant_id, merchant_id)

    def get_count(self, path: str) -> str:
        """Return the number of items that wait on a page: "7", "99+"; empty for none."""
        count = self.waiting.get(path, 0)
        if count > COUNT_MAX:
            return f"{COUNT_MAX}+"
        return str(count) if count else ""


EMPTY: Final = Shell()


def parse_merchant(query: Mapping[str, str]) -> str:
    """Return the merchant that an address names; empty without one, or if it cannot be an id."""
    merchant = query.get("merchant", "").strip()
    return merchant if merchant.isprintable() and len(merchant) <= _MERCHANT_CHARS else ""


async def read_merchant_shell(app: StorageContext, session: ConsoleSession) -> Shell:
    """Return the frame of the merchant console; an empty one while the store does not answer."""
    try:
        return await app.store.read(_read_for_merchant(session))
    except StoreUnavailable:
        return EMPTY


async def read_operator_shell(app: StorageContext, alarms: int) -> Shell:
    """Return the frame of the operator console; an empty one while the store does not answer."""
    try:
        return await app.store.read(_read_for_operator(alarms))
    except StoreUnavailable:
        return EMPTY


@operation
def _read_for_merchant(session: ConsoleSession) -> Op[Shell]:
    signed_in: list[SignedInKey] = []
    for each in session.list_all():
        signed_in += [(yield from _describe(each))]
    api_key = yield from keys.find_key(session.holder)
    if api_key is None or api_key.partner_id is None or api_key.revoked_at_us is not None:
        return Shell(signed_in)
    newest = yield from merchants.list_newest(
        api_key.partner_id, live=session.live, limit=_MERCHANTS_SHOWN + 1
    )
    waiting = {}
    if "manage" in api_key.scopes:
        waiting[WEBHOOKS] = yield from endpoints.count_failing(
            api_key.partner_id, live=session.live, limit=COUNT_MAX + 1
        )
    return Shell(signed_in, newest[:_MERCHANTS_SHOWN], len(newest) > _MERCHANTS_SHOWN, waiting)


def _describe(session: ConsoleSession) -> Op[SignedInKey]:
    api_key = yield from keys.find_key(session.holder)
    if api_key is None or api_key.partner_id is None:
        return SignedInKey(session.holder, session.live)
    partner = yield from merchants.find_partner(api_key.partner_id)
    return SignedInKey(
        session.holder,
        session.live,
        name=api_key.name,
        ending=api_key.last4,
        partner_id=api_key.partner_id,
        partner_name="" if partner is None else partner.name,
    )


@operation
def _read_for_operator(alarms: int) -> Op[Shell]:
    limit = COUNT_MAX + 1
    return Shell(
        waiting={
            ROOT: alarms,
            HELD: (yield from held_money.count_waiting(limit)),
            QUARANTINE: (yield from quarantine.count_set_aside(limit)),
            WEBHOOKS: (yield from endpoints.count_paused(limit)),
        }
    )
