"""The notice with an Undo button after an action that another form takes back.

It comes in the address of the page that follows, signed for the session: no other site can make a
page offer an action, and after ten minutes it is not shown any more.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

import orjson

from florin_server.web.console.session import ConsoleSession, SessionManager

FIELD: Final = "undo"
_LIFE_US: Final = 600_000_000
_CHARS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class UndoOffer:
    """The key of a notice's text, and the form that takes the action back."""

    key: str
    path: str
    fields: Mapping[str, str] = field(default_factory=dict)


def build_undo_path(
    sessions: SessionManager, session: ConsoleSession, now_us: int, page: str, offer: UndoOffer
) -> str:
    """Return the path of a page, which then shows the notice."""
    text = orjson.dumps([now_us, offer.key, offer.path, dict(offer.fields)])
    encoded = base64.urlsafe_b64encode(text).decode()
    query = urlencode({FIELD: f"{_sign(sessions, session, encoded)}.{encoded}"})
    return f"{page}{'&' if '?' in page else '?'}{query}"


def make_pause_offer(path: str, *, paused: bool) -> UndoOffer:
    """Return the offer after an endpoint was paused or resumed by the form at a path."""
    key = "undo.endpoint_paused" if paused else "undo.endpoint_resumed"
    return UndoOffer(key, path, {"paused": "0" if paused else "1"})


def find_offer(
    sessions: SessionManager, session: ConsoleSession, now_us: int, query: Mapping[str, str]
) -> UndoOffer | None:
    """Return the offer of a page's address; None without one of this session."""
    signature, _, encoded = query.get(FIELD, "")[:_CHARS_MAX].partition(".")
    if not encoded.isascii() or not hmac.compare_digest(
        _sign(sessions, session, encoded).encode(), signature.encode()
    ):
        return None
    try:
        at_us, notice_key, path, fields = orjson.loads(base64.urlsafe_b64decode(encoded))
    except (binascii.Error, ValueError):
        return None
    # releases before 0.4 signed the text itself
    if not notice_key.startswith("undo.") or not 0 <= now_us - at_us < _LIFE_US:
        return None
    return UndoOffer(notice_key, path, fields)


def _sign(sessions: SessionManager, session: ConsoleSession, encoded: str) -> str:
    key = sessions.derive_confirmation_key(session)
    # the key's other texts are JSON, and none starts like this
    return hmac.new(key, f"undo {encoded}".encode(), hashlib.sha256).hexdigest()
