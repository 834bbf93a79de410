"""Test saved views of the console: bounded, and of one partner in one mode."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.accounts.service.console_views import VIEWS_MAX
from florin_server.accounts.store import console_views
from florin_server.accounts.store.console_views import SavedView
from florin_server.accounts.store.merchants import put_partner
from florin_server.domain.accounts.account import Partner

from tests.support.store_factories import NOW_US


@pytest.fixture
async def views(store):
    for partner in ("par_1", "par_2"):
        await store.write(put_partner(Partner(partner, "Tenant", "2026-02-18", "active", NOW_US)))
    return store


def save(name: str, partner: str = "par_1", *, live: bool = False, query: str = "status=failed"):
    view = SavedView(name, query)
    return console_views.save(partner, view, live=live, now_us=NOW_US, limit=VIEWS_MAX)


async def list_names(store, partner: str = "par_1", *, live: bool = False) -> list[str]:
    rows = await store.read(console_views.list_views(partner, live=live, limit=VIEWS_MAX + 5))
    return [view.name for view in rows]


async def test_number_of_views_is_bounded_also_when_saved_at_once(views):
    saved = await asyncio.gather(*(views.write(save(f"v{n:02}")) for n in range(VIEWS_MAX + 5)))
    assert sorted(saved) == [False] * 5 + [True] * VIEWS_MAX
    assert len(await list_names(views)) == VIEWS_MAX
    # one of the same name is replaced
    name = (await list_names(views))[0]
    assert await views.write(save(name, query="token=USDC"))
    rows = await views.read(console_views.list_views("par_1", live=False, limit=20))
    assert SavedView(name, "token=USDC") in rows


async def test_views_are_of_one_partner_and_mode(views):
    await views.write(save("late"))
    await views.write(save("other", "par_2"))
    await views.write(save("live", live=True))
    assert await list_names(views) == ["late"]
    assert await list_names(views, live=True) == ["live"]
    for partner, live in (("par_2", False), ("par_1", True)):
        await views.write(console_views.remove(partner, "late", live=live))
    assert await list_names(views) == ["late"]
    await views.write(console_views.remove("par_1", "late", live=False))
    assert await list_names(views) == []
