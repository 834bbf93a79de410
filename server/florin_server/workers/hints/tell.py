"""Tells other processes what this one changed."""

from __future__ import annotations

import logging

from florin_server.flows.app import Core
from florin_server.store.engine.notices import Notices
from florin_server.store.engine.query import StoreError

_log = logging.getLogger(__name__)

_BACK_OFF_S, _BACK_OFF_MAX_S, _DOUBLED_MAX = 0.1, 5.0, 6


async def tell(app: Core, notices: Notices) -> None:
    """Works until cancelled: one text at a time, with all that was changed since the last."""
    failures = 0
    while True:
        text, count = await app.hints.next()
        try:
            await notices.tell(text)
        except StoreError as error:
            app.meters.hints("dropped", count)
            if not failures:
                _log.warning("other processes learn of changes by their sweeps: %s", error)
            await app.clock.sleep(back_off_s(failures))
            failures += 1
        else:
            app.meters.hints("sent", count)
            failures = 0


def back_off_s(failures: int) -> float:
    """How long to wait before the next attempt."""
    return min(_BACK_OFF_MAX_S, _BACK_OFF_S * 2.0 ** min(failures, _DOUBLED_MAX))
