"""The pictures of merchants, and the queue of pictures to fetch.

No page waits for the host of a picture: a missing picture is queued, and a worker fetches it. Cache
and queue are bounded for each partner alone. Partners take turns, and so do the hosts of a partner,
so that a partner with thousands of pictures delays no other.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final
from urllib.parse import urlsplit

from florin_server.base.clock import Clock
from florin_server.base.ttl_cache import TtlCache
from florin_server.db.engine.store import Store
from florin_server.domain.urls import is_https_url
from florin_server.features.icons import store as icons
from florin_server.features.icons.store import IconStatus

# pictures are fetched again after a day, missing ones after an hour
FRESH_US: Final = 86_400_000_000
RETRY_US: Final = 3_600_000_000
# the results of other processes are seen after a minute; a URL has 2 KiB at most
_CACHE_SIZE, _CACHE_MAX_AGE_US = 2000, 60_000_000
# bodies in memory: 48 KiB each at most
_PICTURES: Final = 128
_PARTNERS_MAX: Final = 500
_HOSTS_MAX: Final = 32
_QUEUED_PER_HOST_MAX: Final = 16
# of all hosts of a partner
_QUEUED_PER_PARTNER_MAX: Final = 64


class IconCache:
    """Pictures of one process; `enabled` is false where none are fetched."""

    def __init__(self, store: Store, clock: Clock, *, enabled: bool = True) -> None:
        self._store, self._clock, self._enabled = store, clock, enabled
        self._fetched: TtlCache[IconStatus] = TtlCache(_CACHE_SIZE, _CACHE_MAX_AGE_US)
        self._pictures: TtlCache[bytes] = TtlCache(_PICTURES, FRESH_US)
        # by partner and host
        self._requested: OrderedDict[str, OrderedDict[str, OrderedDict[str, None]]] = OrderedDict()
        self._queue_event = asyncio.Event()

    @property
    def enabled(self) -> bool:
        """Return whether this installation fetches pictures."""
        return self._enabled

    async def find_path(self, url: str | None, partner_id: str) -> str | None:
        """Return where our host shows the picture of a URL; None if it has none (yet)."""
        if url is None or not self._enabled or not is_https_url(url):
            return None
        status = await self.get_status(url)
        if is_due(status, self._clock.now_us()):
            self.request(url, partner_id)
        return None if status.digest is None else format_path(status.digest)

    async def get_status(self, url: str) -> IconStatus:
        """Return the result of fetching a URL; one without digest and fault if it is unknown."""
        now_us = self._clock.now_us()
        status = self._fetched.get(url, now_us)
        if status is None:
            status = await self._store.read(icons.find_status(url)) or IconStatus(None, None, 0)
            self._fetched.put(url, status, now_us)
        return status

    async def find_picture(self, digest: str) -> bytes | None:
        """Return the PNG that a digest names."""
        now_us = self._clock.now_us()
        picture = self._pictures.get(digest, now_us)
        if picture is None:
            picture = await self._store.read(icons.find_png(digest))
            if picture is not None:
                self._pictures.put(digest, picture, now_us)
        return picture

    def is_cached(self, digest: str) -> bool:
        """Return True if the answer is cached."""
        return self._pictures.get(digest, self._clock.now_us()) is not None

    def request(self, url: str, partner_id: str) -> None:
        """Queue a URL for the worker; drop it if its partner's share of the queue is full."""
        if not self._enabled or not is_https_url(url):
            return
        host = urlsplit(url).hostname or ""
        hosts = self._requested.get(partner_id, OrderedDict())
        if not hosts and len(self._requested) >= _PARTNERS_MAX:
            return
        urls = hosts.get(host, OrderedDict())
        if not urls and len(hosts) >= _HOSTS_MAX:
            return
        if (
            len(urls) >= _QUEUED_PER_HOST_MAX
            or sum(map(len, hosts.values())) >= _QUEUED_PER_PARTNER_MAX
        ):
            return
        urls[url] = None
        hosts[host] = urls
        self._requested[partner_id] = hosts
        self._queue_event.set()

    async def take_next(self) -> str:
        """Return the next address of the partner, and its host, that waits longest; wait for it."""
        while not self._requested:
            self._queue_event.clear()
            await self._queue_event.wait()
        partner_id, hosts = self._requested.popitem(last=False)
        host, urls = hosts.popitem(last=False)
        url, _ = urls.popitem(last=False)
        # the others' turn comes first
        if urls:
            hosts[host] = urls
        if hosts:
            self._requested[partner_id] = hosts
        return url

    def record_result(self, url: str, status: IconStatus) -> None:
        """Store the worker's result for a URL; it is used here at once."""
        self._fetched.put(url, status, self._clock.now_us())


def format_path(digest: str) -> str:
    """Return the path at which our host shows a picture."""
    return f"/icons/{digest}.png"


def is_due(status: IconStatus | None, now_us: int) -> bool:
    """Return True if an address should be asked (again)."""
    if status is None:
        return True
    fresh_us = FRESH_US if status.fault is None else RETRY_US
    # an attempt in the future means that the clock was set back since
    return not 0 <= now_us - status.tried_at_us < fresh_us
