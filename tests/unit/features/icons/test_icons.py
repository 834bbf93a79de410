"""Test which icons are fetched, in which order, and how many can be pending."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.base.clock import TestClock
from florin_server.features.icons import service as icons
from florin_server.features.icons.service import (
    FRESH_US,
    RETRY_US,
    IconCache,
    is_due,
)
from florin_server.features.icons.store import IconStatus

from tests.support.service_harness import START_S

NOW_US = START_S * 1_000_000
PARTNER = "par_1"


class Shelf:
    """An icon store that a test fills, and that counts its reads."""

    def __init__(self, status: IconStatus | None = None) -> None:
        self.status, self.read_count = status, 0

    async def read(self, _operation):
        self.read_count += 1
        return self.status


def build_cache(status: IconStatus | None = None, **options) -> tuple[IconCache, Shelf, TestClock]:
    shelf, clock = Shelf(status), TestClock(NOW_US)
    return IconCache(shelf, clock, **options), shelf, clock


def url(host: int, n: int = 0) -> str:
    return f"https://h{host}.example/{n}.png"


async def taken(expected_icons: IconCache, count: int) -> list[str]:
    return [await asyncio.wait_for(expected_icons.take_next(), 5) for _ in range(count)]


async def is_queue_empty(expected_icons: IconCache) -> bool:
    waiting = asyncio.ensure_future(expected_icons.take_next())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    return not waiting.done()


async def test_host_with_thousands_of_icons_delays_no_other_host():
    expected_icons, _, _ = build_cache()
    for n in range(10_000):
        expected_icons.request(url(1, n), PARTNER)
    expected_icons.request(url(2), PARTNER)
    expected_icons.request(url(3), PARTNER)
    assert await taken(expected_icons, 4) == [url(1, 0), url(2), url(3), url(1, 1)]
    assert len(await taken(expected_icons, 14)) == 14
    assert await is_queue_empty(expected_icons)


async def test_requested_hosts_are_bounded_and_unique(monkeypatch):
    monkeypatch.setattr(icons, "_HOSTS_MAX", 3)
    expected_icons, _, _ = build_cache()
    for host in (1, 1, 2, 3, 4, 1):
        expected_icons.request(url(host), PARTNER)
    assert await taken(expected_icons, 3) == [url(1), url(2), url(3)]
    assert await is_queue_empty(expected_icons)


async def test_partner_with_thousands_of_hosts_delays_no_other_partner():
    expected_icons, _, _ = build_cache()
    for host in range(10_000):
        expected_icons.request(url(host), PARTNER)
    expected_icons.request(url(20_000), "par_2")
    assert await taken(expected_icons, 2) == [url(0), url(20_000)]
    # the first partner's remaining icons are bounded
    assert len(await taken(expected_icons, 31)) == 31
    assert await is_queue_empty(expected_icons)


async def test_queue_of_a_partner_is_bounded_over_all_its_hosts():
    expected_icons, _, _ = build_cache()
    for host in range(30):
        for n in range(16):
            expected_icons.request(url(host, n), PARTNER)
    assert len(await taken(expected_icons, 64)) == 64
    assert await is_queue_empty(expected_icons)


async def test_stale_icon_is_shown_while_it_is_refetched():
    expected_icons, shelf, clock = build_cache(IconStatus("d1", None, NOW_US))
    assert await expected_icons.find_path(url(1), PARTNER) == "/icons/d1.png"
    assert await is_queue_empty(expected_icons)
    # a repeated call does not read the store
    assert await expected_icons.find_path(url(1), PARTNER) == "/icons/d1.png"
    assert shelf.read_count == 1
    clock.advance(FRESH_US // 1_000_000)
    assert await expected_icons.find_path(url(1), PARTNER) == "/icons/d1.png"
    assert await taken(expected_icons, 1) == [url(1)]


async def test_missing_icon_is_refetched_after_an_hour():
    failed = IconStatus(None, "status 404", NOW_US)
    assert not is_due(failed, NOW_US + RETRY_US - 1)
    assert is_due(failed, NOW_US + RETRY_US)
    assert not is_due(IconStatus("d1", None, NOW_US), NOW_US + FRESH_US - 1)
    assert is_due(None, NOW_US)


async def test_disabled_icons_are_neither_shown_nor_fetched():
    expected_icons, shelf, _ = build_cache(IconStatus("d1", None, NOW_US), enabled=False)
    assert await expected_icons.find_path(url(1), PARTNER) is None
    expected_icons.request(url(1), PARTNER)
    assert await is_queue_empty(expected_icons)
    assert shelf.read_count == 0


@pytest.mark.parametrize(
    "none", [None, "", "data:image/png;base64,AA", "http://a.b/", "https://[::1"]
)
async def test_missing_or_invalid_icon_url_causes_no_lookup(none):
    expected_icons, shelf, _ = build_cache()
    assert await expected_icons.find_path(none, PARTNER) is None
    expected_icons.request(none or "", PARTNER)
    assert await is_queue_empty(expected_icons)
    assert shelf.read_count == 0
