"""Which pictures are asked for, in which order, and how many are wanted at most."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.clock import TestClock
from florin_server.flows.icons import icons
from florin_server.flows.icons.icons import FRESH_US, RETRY_US, Icons, is_due
from florin_server.store.icons.icons import Known

from tests.support.desk import START_S

NOW_US = START_S * 1_000_000
PARTNER = "par_1"


class Shelf:
    """A store that knows what it is told, and counts who asks."""

    def __init__(self, known: Known | None = None) -> None:
        self.known, self.asked = known, 0

    async def read(self, _operation):
        self.asked += 1
        return self.known


def made(known: Known | None = None, **options) -> tuple[Icons, Shelf, TestClock]:
    shelf, clock = Shelf(known), TestClock(NOW_US)
    return Icons(shelf, clock, **options), shelf, clock


def url(host: int, n: int = 0) -> str:
    return f"https://h{host}.example/{n}.png"


async def taken(wanted: Icons, count: int) -> list[str]:
    return [await asyncio.wait_for(wanted.next(), 5) for _ in range(count)]


async def nothing_wanted(wanted: Icons) -> bool:
    waiting = asyncio.ensure_future(wanted.next())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    return not waiting.done()


async def test_a_host_with_thousands_keeps_no_other_one_waiting():
    wanted, _, _ = made()
    for n in range(10_000):
        wanted.want(url(1, n), PARTNER)
    wanted.want(url(2), PARTNER)
    wanted.want(url(3), PARTNER)
    assert await taken(wanted, 4) == [url(1, 0), url(2), url(3), url(1, 1)]
    assert len(await taken(wanted, 14)) == 14
    assert await nothing_wanted(wanted)


async def test_so_many_hosts_are_wanted_and_none_twice(monkeypatch):
    monkeypatch.setattr(icons, "_HOSTS_MAX", 3)
    wanted, _, _ = made()
    for host in (1, 1, 2, 3, 4, 1):
        wanted.want(url(host), PARTNER)
    assert await taken(wanted, 3) == [url(1), url(2), url(3)]
    assert await nothing_wanted(wanted)


async def test_partner_with_thousands_of_hosts_leaves_the_queue_of_others_as_it_is():
    wanted, _, _ = made()
    for host in range(10_000):
        wanted.want(url(host), PARTNER)
    wanted.want(url(20_000), "par_2")
    assert await taken(wanted, 2) == [url(0), url(20_000)]
    # what is left of the first partner is bounded
    assert len(await taken(wanted, 31)) == 31
    assert await nothing_wanted(wanted)


async def test_queue_of_a_partner_is_bounded_over_all_its_hosts():
    wanted, _, _ = made()
    for host in range(30):
        for n in range(16):
            wanted.want(url(host, n), PARTNER)
    assert len(await taken(wanted, 64)) == 64
    assert await nothing_wanted(wanted)


async def test_a_picture_is_shown_while_it_is_asked_for_again():
    wanted, shelf, clock = made(Known("d1", None, NOW_US))
    assert await wanted.address(url(1), PARTNER) == "/icons/d1.png"
    assert await nothing_wanted(wanted)
    # whoever asks soon asks nobody
    assert await wanted.address(url(1), PARTNER) == "/icons/d1.png"
    assert shelf.asked == 1
    clock.advance(FRESH_US // 1_000_000)
    assert await wanted.address(url(1), PARTNER) == "/icons/d1.png"
    assert await taken(wanted, 1) == [url(1)]


async def test_what_was_not_found_is_asked_for_again_after_an_hour():
    failed = Known(None, "status 404", NOW_US)
    assert not is_due(failed, NOW_US + RETRY_US - 1)
    assert is_due(failed, NOW_US + RETRY_US)
    assert not is_due(Known("d1", None, NOW_US), NOW_US + FRESH_US - 1)
    assert is_due(None, NOW_US)


async def test_nothing_is_shown_or_asked_where_it_is_off():
    wanted, shelf, _ = made(Known("d1", None, NOW_US), enabled=False)
    assert await wanted.address(url(1), PARTNER) is None
    wanted.want(url(1), PARTNER)
    assert await nothing_wanted(wanted)
    assert shelf.asked == 0


@pytest.mark.parametrize(
    "none", [None, "", "data:image/png;base64,AA", "http://a.b/", "https://[::1"]
)
async def test_who_has_no_picture_costs_nothing(none):
    wanted, shelf, _ = made()
    assert await wanted.address(none, PARTNER) is None
    wanted.want(none or "", PARTNER)
    assert await nothing_wanted(wanted)
    assert shelf.asked == 0
