"""Pictures that merchants name: found again by address and digest, bounded, forgotten."""

from __future__ import annotations

import pytest
from florin_server.store.icons import icons
from florin_server.store.icons.icons import Icon, Known

from tests.support.store_kit import NOW_US

URL = "https://shop.example/icon.png"


def icon(n: int = 0, *, at: int = 0, png: bytes = b"png") -> Icon:
    return Icon(f"{URL}?{n}", f"digest-{n}", png, None, NOW_US + at)


async def test_a_picture_is_found_by_its_address_and_its_digest(store):
    assert await store.read(icons.known(URL)) is None
    assert await store.read(icons.picture("digest-0")) is None
    await store.write(icons.put(icon()))
    assert await store.read(icons.known(f"{URL}?0")) == Known("digest-0", None, NOW_US)
    assert await store.read(icons.picture("digest-0")) == b"png"


async def test_one_that_is_not_found_any_more_stays_as_it_was(store):
    await store.write(icons.put(icon()))
    await store.write(icons.put(Icon(f"{URL}?0", None, None, "status 404", NOW_US + 5)))
    assert await store.read(icons.known(f"{URL}?0")) == Known("digest-0", "status 404", NOW_US + 5)
    assert await store.read(icons.picture("digest-0")) == b"png"
    # and is replaced by the next
    await store.write(icons.put(Icon(f"{URL}?0", "digest-9", b"new", None, NOW_US + 9)))
    assert await store.read(icons.known(f"{URL}?0")) == Known("digest-9", None, NOW_US + 9)
    assert await store.read(icons.picture("digest-0")) is None


async def test_one_that_was_never_found_has_a_reason_and_no_picture(store):
    await store.write(icons.put(Icon(URL, None, None, "timeout", NOW_US)))
    assert await store.read(icons.known(URL)) == Known(None, "timeout", NOW_US)


async def test_there_are_so_many_and_the_oldest_goes(store, monkeypatch):
    monkeypatch.setattr(icons, "ICONS_MAX", 3)
    for n in (2, 0, 1, 3):
        await store.write(icons.put(icon(n, at=n)))
    assert [await store.read(icons.known(f"{URL}?{n}")) is None for n in range(4)] == [
        *(True, False, False, False),
    ]


@pytest.mark.parametrize("limit", [1, 10])
async def test_what_nobody_wanted_for_long_is_forgotten(store, limit):
    for n in range(3):
        await store.write(icons.put(icon(n, at=n)))
    assert await store.write(icons.forget(NOW_US + 2, limit)) == min(limit, 2)
    assert await store.read(icons.known(f"{URL}?2")) is not None
