"""Asks for the pictures that are wanted, one at a time, and forgets those that nobody wants."""

from __future__ import annotations

import hashlib
import logging

from florin_server.clock import rest
from florin_server.flows.app import Core
from florin_server.flows.icons.icons import is_due
from florin_server.flows.quarantine.quarantine import is_unexpected
from florin_server.outbound.outbound import Outbound
from florin_server.outbound.pictures import NoPicture, fetched
from florin_server.outbound.reach import Reach
from florin_server.store.icons import icons
from florin_server.store.icons.icons import Icon, Known

_log = logging.getLogger(__name__)

_A_BATCH = 500
_KEPT_US = 30 * 86_400_000_000
_FORGET_S = 3600.0
_DIGEST_CHARS = 32
_UNKNOWN_FAULT = "it could not be asked for"


async def fetch_icons(app: Core, outbound: Outbound | None = None) -> None:
    """Works until cancelled."""
    asking = outbound or Outbound(Reach())
    try:
        while True:
            url = await app.icons.next()
            try:
                await _fetch(app, asking, url)
            except Exception as error:
                if not is_unexpected(error):
                    raise
                # a stranger's picture: it is asked for again when somebody wants it later
                _log.exception("the picture at %s could not be kept", url)
                app.icons.found(url, Known(None, _UNKNOWN_FAULT, app.clock.now_us()))
    finally:
        await asking.close()


async def forget_icons(app: Core) -> None:
    """Deletes what nobody wanted for a month, in small batches until cancelled."""
    while True:
        now_us = app.clock.now_us()
        if await app.store.write(icons.forget(now_us - _KEPT_US, _A_BATCH)) < _A_BATCH:
            await rest(app.clock, _FORGET_S, now_us)


async def _fetch(app: Core, outbound: Outbound, url: str) -> None:
    known = await app.store.read(icons.known(url))
    # another process may have asked meanwhile
    if known is None or is_due(known, app.clock.now_us()):
        known = await _ask(app, outbound, url, known)
    app.icons.found(url, known)


async def _ask(app: Core, outbound: Outbound, url: str, before: Known | None) -> Known:
    now_us = app.clock.now_us()
    fault: str | None = None
    try:
        png = await fetched(outbound, url)
    except NoPicture as none:
        fault = str(none)
        _log.info("no picture at %s: %s", url, fault)
    except Exception:  # noqa: BLE001  (a stranger's picture ends no process that moves money)
        fault = _UNKNOWN_FAULT
        _log.exception("the picture at %s could not be asked for", url)
    if fault is not None:
        await app.store.write(icons.put(Icon(url, None, None, fault, now_us)))
        return Known(before.digest if before else None, fault, now_us)
    digest = hashlib.sha256(png).hexdigest()[:_DIGEST_CHARS]
    await app.store.write(icons.put(Icon(url, digest, png, None, now_us)))
    return Known(digest, None, now_us)
