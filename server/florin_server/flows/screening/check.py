"""Whether somebody is served: asked for options, at confirm, and before money is moved."""

from __future__ import annotations

import logging

from florin_server.config import Settings
from florin_server.domain.caip import parse_account
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.screening.blocklist import address_of, problem_of
from florin_server.flows.app import Core
from florin_server.store.accounts import keys
from florin_server.store.engine.query import Op, operation
from florin_server.store.screening import blocklists

_log = logging.getLogger(__name__)


async def is_blocked(app: Core, account: str) -> bool:
    """True if the operator's settings or a screening list name a CAIP-10 account's address."""
    return app.blocked.blocks(account) or await app.screening.lists_account(account)


async def why_blocked(app: Core, account: str) -> str:
    """What blocks a CAIP-10 account, in words; empty if nothing does."""
    if not await is_blocked(app, account):
        return ""
    why = ["the settings"] if app.blocked.blocks(account) else []
    address = address_of(parse_account(account).address)
    if address is not None:
        names = await app.store.read(blocklists.on(*address))
        why += [f"screening list {name}" for name in names]
    # a list may have been taken out of force by another process
    return f"blocked by {', '.join(why) or 'a screening list'}"


@operation
def lists_problem(settings: Settings, now_us: int) -> Op[str]:
    """What the operator is told about the lists; empty if nothing. Keys for live data need one."""
    lists = yield from blocklists.lists()
    needed = settings.screening_required or (yield from keys.any_live())
    return problem_of(lists, now_us, settings.screening_age_max_days, needed=needed)


def lists_condition(settings: Settings) -> ConditionName:
    """Return the condition that lists raise: only where one is required does anything stop."""
    required = settings.screening_required
    return ConditionName.SCREENING_LISTS_STALE if required else ConditionName.SCREENING_LISTS_OLD


async def check_lists(app: Core, *, live: bool) -> None:
    """Refuses to serve live data by lists that are missing or too old, if the operator wants so.

    FlorinError(internal_error) as 503 then; the log says why.
    """
    if not live or not app.settings.screening_required:
        return
    days_max = app.settings.screening_age_max_days
    lists = await app.screening.lists()
    if problem := problem_of(lists, app.clock.now_us(), days_max, needed=True):
        _log.error("live payments are refused: %s", problem)
        raise FlorinError(Code.INTERNAL_ERROR, unavailable=True)
