"""Screening of an account: for options, at confirm, and before money is moved."""

from __future__ import annotations

import logging
from typing import Protocol

from florin_server.accounts.store import keys
from florin_server.compliance.screening import store as blocklists
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.caip import parse_account
from florin_server.domain.conditions import ConditionName
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.screening.blocklist import describe_list_problem, find_address
from florin_server.settings import Settings
from florin_server.settings.context import SettingsContext


class _Context(ScreeningContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)


async def is_blocked(app: ScreeningContext, account: str) -> bool:
    """Return True if the settings or a screening list contain a CAIP-10 account's address."""
    return app.blocklist.is_blocked(account) or await app.screening.is_listed(account)


async def describe_block(app: _Context, account: str) -> str:
    """Return what blocks a CAIP-10 account, in words; empty if nothing does."""
    if not await is_blocked(app, account):
        return ""
    why = ["the settings"] if app.blocklist.is_blocked(account) else []
    address = find_address(parse_account(account).address)
    if address is not None:
        names = await app.store.read(blocklists.list_matches(*address))
        why += [f"screening list {name}" for name in names]
    # another process may have removed a list
    return f"blocked by {', '.join(why) or 'a screening list'}"


@operation
def describe_lists_problem(settings: Settings, now_us: int) -> Op[str]:
    """Return the operator's text about the lists; empty if nothing. Keys for live data need one."""
    lists = yield from blocklists.list_blocklists()
    needed = settings.screening_required or (yield from keys.has_live_key())
    return describe_list_problem(lists, now_us, settings.screening_age_max_days, required=needed)


def get_lists_condition(settings: Settings) -> ConditionName:
    """Return the condition that lists raise: only where one is required does anything stop."""
    required = settings.screening_required
    return ConditionName.SCREENING_LISTS_STALE if required else ConditionName.SCREENING_LISTS_OLD


async def check_lists(app: _Context, *, live: bool) -> None:
    """Refuse to serve live data by lists that are missing or too old, if the operator wants so.

    ApiError(internal_error) as 503 then; the log says why.
    """
    if not live or not app.settings.screening_required:
        return
    days_max = app.settings.screening_age_max_days
    lists = await app.screening.get_lists()
    if problem := describe_list_problem(lists, app.clock.now_us(), days_max, required=True):
        _log.error("live payments are refused: %s", problem)
        raise ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True)
