"""Fetches the queued pictures, one at a time, and deletes unused ones."""

from __future__ import annotations

import hashlib
import logging
from typing import Protocol

from florin_server.base.clock import sleep_remaining
from florin_server.base.outbound.address_policy import AddressPolicy
from florin_server.base.outbound.outbound import SafeHttpClient
from florin_server.base.outbound.pictures import PictureUnavailable, fetch_picture
from florin_server.db.context import StorageContext
from florin_server.features.icons import store as icons
from florin_server.features.icons.context import IconContext
from florin_server.features.icons.service import is_due
from florin_server.features.icons.store import Icon, IconStatus
from florin_server.operations.service.quarantine import is_unexpected


class _Context(IconContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_BATCH_SIZE = 500
_RETENTION_US = 30 * 86_400_000_000
_DELETE_INTERVAL_S = 3600.0
_DIGEST_CHARS = 32
_UNKNOWN_FAULT = "it could not be fetched"


async def fetch_icons(app: _Context, outbound: SafeHttpClient | None = None) -> None:
    """Run until canceled."""
    asking = outbound or SafeHttpClient(AddressPolicy())
    try:
        while True:
            url = await app.icons.take_next()
            try:
                await _fetch(app, asking, url)
            except Exception as error:
                if not is_unexpected(error):
                    raise
                # a stranger's picture: it is fetched again at a later request
                _log.exception("the icon at %s could not be stored", url)
                app.icons.record_result(url, IconStatus(None, _UNKNOWN_FAULT, app.clock.now_us()))
    finally:
        await asking.close()


async def delete_old_icons(app: StorageContext) -> None:
    """Delete pictures without a use for a month, in small batches until canceled."""
    while True:
        now_us = app.clock.now_us()
        if await app.store.write(icons.forget(now_us - _RETENTION_US, _BATCH_SIZE)) < _BATCH_SIZE:
            await sleep_remaining(app.clock, _DELETE_INTERVAL_S, now_us)


async def _fetch(app: _Context, outbound: SafeHttpClient, url: str) -> None:
    status = await app.store.read(icons.find_status(url))
    # another process may have fetched it meanwhile
    if status is None or is_due(status, app.clock.now_us()):
        status = await _request_icon(app, outbound, url, status)
    app.icons.record_result(url, status)


async def _request_icon(
    app: StorageContext, outbound: SafeHttpClient, url: str, previous: IconStatus | None
) -> IconStatus:
    now_us = app.clock.now_us()
    fault: str | None = None
    try:
        png = await fetch_picture(outbound, url)
    except PictureUnavailable as none:
        fault = str(none)
        _log.info("no icon at %s: %s", url, fault)
    except Exception:  # noqa: BLE001  (a stranger's picture ends no process that moves money)
        fault = _UNKNOWN_FAULT
        _log.exception("fetching the icon at %s failed", url)
    if fault is not None:
        await app.store.write(icons.put(Icon(url, None, None, fault, now_us)))
        return IconStatus(previous.digest if previous else None, fault, now_us)
    digest = hashlib.sha256(png).hexdigest()[:_DIGEST_CHARS]
    await app.store.write(icons.put(Icon(url, digest, png, None, now_us)))
    return IconStatus(digest, None, now_us)
