"""Which picture stands for a merchant, and which ones are wanted.

Nobody who opens a page waits for the host of a picture: what is not there yet is wanted, and a
worker asks for it. What is remembered and wanted is bounded, for each partner alone; partners take
turns, and hosts of a partner, so that one with thousands of pictures keeps no other one waiting.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final
from urllib.parse import urlsplit

from florin_server.clock import Clock
from florin_server.domain.urls import is_https_url
from florin_server.flows.recent import Recent
from florin_server.store.engine.store import Store
from florin_server.store.icons import icons
from florin_server.store.icons.icons import Known

# pictures are asked for again after a day, those that were not found after an hour
FRESH_US: Final = 86_400_000_000
RETRY_US: Final = 3_600_000_000
# what another process found is seen after a minute; an address has 2 KiB at most
_REMEMBERED, _REMEMBERED_US = 2000, 60_000_000
# bodies in memory: 48 KiB each at most
_PICTURES: Final = 128
_PARTNERS_MAX: Final = 500
_HOSTS_MAX: Final = 32
_A_HOST: Final = 16
# of all hosts of a partner
_A_PARTNER: Final = 64


class Icons:
    """Pictures of one process; `enabled` is false where none are fetched."""

    def __init__(self, store: Store, clock: Clock, *, enabled: bool = True) -> None:
        self._store, self._clock, self._enabled = store, clock, enabled
        self._known: Recent[Known] = Recent(_REMEMBERED, _REMEMBERED_US)
        self._pictures: Recent[bytes] = Recent(_PICTURES, FRESH_US)
        # by partner and host
        self._wanted: OrderedDict[str, OrderedDict[str, OrderedDict[str, None]]] = OrderedDict()
        self._more = asyncio.Event()

    async def address(self, url: str | None, partner_id: str) -> str | None:
        """Where our host shows the picture of an address; None if it has none (yet)."""
        if url is None or not self._enabled or not is_https_url(url):
            return None
        now_us = self._clock.now_us()
        known = self._known.get(url, now_us)
        if known is None:
            known = await self._store.read(icons.known(url)) or Known(None, None, 0)
            self._known.keep(url, known, now_us)
        if is_due(known, now_us):
            self.want(url, partner_id)
        return None if known.digest is None else f"/icons/{known.digest}.png"

    async def picture(self, digest: str) -> bytes | None:
        """The PNG that a digest names."""
        now_us = self._clock.now_us()
        found = self._pictures.get(digest, now_us)
        if found is None:
            found = await self._store.read(icons.picture(digest))
            if found is not None:
                self._pictures.keep(digest, found, now_us)
        return found

    def remembers(self, digest: str) -> bool:
        """True if a picture is told without asking the store."""
        return self._pictures.get(digest, self._clock.now_us()) is not None

    def want(self, url: str, partner_id: str) -> None:
        """Queue an address for the worker; drop it if its partner's share of the queue is full."""
        if not self._enabled or not is_https_url(url):
            return
        host = urlsplit(url).hostname or ""
        hosts = self._wanted.get(partner_id, OrderedDict())
        if not hosts and len(self._wanted) >= _PARTNERS_MAX:
            return
        urls = hosts.get(host, OrderedDict())
        if not urls and len(hosts) >= _HOSTS_MAX:
            return
        if len(urls) >= _A_HOST or sum(map(len, hosts.values())) >= _A_PARTNER:
            return
        urls[url] = None
        hosts[host] = urls
        self._wanted[partner_id] = hosts
        self._more.set()

    async def next(self) -> str:
        """Return the next address of the partner, and its host, that waits longest; wait for it."""
        while not self._wanted:
            self._more.clear()
            await self._more.wait()
        partner_id, hosts = self._wanted.popitem(last=False)
        host, urls = hosts.popitem(last=False)
        url, _ = urls.popitem(last=False)
        # the others' turn comes first
        if urls:
            hosts[host] = urls
        if hosts:
            self._wanted[partner_id] = hosts
        return url

    def found(self, url: str, known: Known) -> None:
        """What a worker learned of an address counts here at once."""
        self._known.keep(url, known, self._clock.now_us())


def is_due(known: Known | None, now_us: int) -> bool:
    """True if an address should be asked (again)."""
    if known is None:
        return True
    fresh_us = FRESH_US if known.fault is None else RETRY_US
    # nothing was tried in the future: the clock was set back since
    return not 0 <= now_us - known.tried_at_us < fresh_us
