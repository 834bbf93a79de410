"""Test merchants' images: found by address and digest, bounded, deleted."""

from __future__ import annotations

import pytest
from florin_server.features.icons import store as icons
from florin_server.features.icons.store import Icon, IconStatus

from tests.support.store_factories import NOW_US

URL = "https://shop.example/icon.png"


def icon(n: int = 0, *, at: int = 0, png: bytes = b"png") -> Icon:
    return Icon(f"{URL}?{n}", f"digest-{n}", png, None, NOW_US + at)


async def test_icon_is_read_by_url_and_digest(store):
    assert await store.read(icons.find_status(URL)) is None
    assert await store.read(icons.find_png("digest-0")) is None
    await store.write(icons.put(icon()))
    assert await store.read(icons.find_status(f"{URL}?0")) == IconStatus("digest-0", None, NOW_US)
    assert await store.read(icons.find_png("digest-0")) == b"png"


async def test_icon_no_longer_available_keeps_its_last_picture(store):
    await store.write(icons.put(icon()))
    await store.write(icons.put(Icon(f"{URL}?0", None, None, "status 404", NOW_US + 5)))
    assert await store.read(icons.find_status(f"{URL}?0")) == IconStatus(
        "digest-0", "status 404", NOW_US + 5
    )
    assert await store.read(icons.find_png("digest-0")) == b"png"
    # and the next image replaces it
    await store.write(icons.put(Icon(f"{URL}?0", "digest-9", b"new", None, NOW_US + 9)))
    assert await store.read(icons.find_status(f"{URL}?0")) == IconStatus(
        "digest-9", None, NOW_US + 9
    )
    assert await store.read(icons.find_png("digest-0")) is None


async def test_icon_never_fetched_has_a_reason_and_no_picture(store):
    await store.write(icons.put(Icon(URL, None, None, "timeout", NOW_US)))
    assert await store.read(icons.find_status(URL)) == IconStatus(None, "timeout", NOW_US)


async def test_there_are_so_many_and_the_oldest_goes(store, monkeypatch):
    monkeypatch.setattr(icons, "ICONS_MAX", 3)
    for n in (2, 0, 1, 3):
        await store.write(icons.put(icon(n, at=n)))
    assert [await store.read(icons.find_status(f"{URL}?{n}")) is None for n in range(4)] == [
        *(True, False, False, False),
    ]


@pytest.mark.parametrize("limit", [1, 10])
async def test_icons_unused_for_long_are_deleted(store, limit):
    for n in range(3):
        await store.write(icons.put(icon(n, at=n)))
    assert await store.write(icons.forget(NOW_US + 2, limit)) == min(limit, 2)
    assert await store.read(icons.find_status(f"{URL}?2")) is not None
