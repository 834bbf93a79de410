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
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import orjson

if TYPE_CHECKING:
    from florin_server.web.console.site import ConsoleRequest

FIELD: Final = "undo"
_LIFE_S: Final = 600
_CHARS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class UndoOffer:
    """What was done, and the form that takes it back."""

    text: str
    path: str
    fields: Mapping[str, str] = field(default_factory=dict)


def build_undo_path(console_request: ConsoleRequest, page: str, offer: UndoOffer) -> str:
    """Return the path of a page, which then shows the notice."""
    text = orjson.dumps([_get_now_s(console_request), offer.text, offer.path, dict(offer.fields)])
    encoded = base64.urlsafe_b64encode(text).decode()
    query = urlencode({FIELD: f"{_sign(console_request, encoded)}.{encoded}"})
    return f"{page}{'&' if '?' in page else '?'}{query}"


def make_pause_offer(path: str, *, paused: bool) -> UndoOffer:
    """Return the offer after an endpoint was paused or resumed by the form at a path."""
    text = "The endpoint is paused." if paused else "The endpoint is resumed."
    return UndoOffer(text, path, {"paused": "0" if paused else "1"})


def find_offer(console_request: ConsoleRequest) -> UndoOffer | None:
    """Return the offer of a page's address; None without one of this session."""
    signature, _, encoded = console_request.query.get(FIELD, "")[:_CHARS_MAX].partition(".")
    if not encoded.isascii() or not hmac.compare_digest(
        _sign(console_request, encoded).encode(), signature.encode()
    ):
        return None
    try:
        at_s, text, path, fields = orjson.loads(base64.urlsafe_b64decode(encoded))
    except (binascii.Error, ValueError):
        return None
    is_fresh = 0 <= _get_now_s(console_request) - at_s < _LIFE_S
    return UndoOffer(text, path, fields) if is_fresh else None


def _sign(console_request: ConsoleRequest, encoded: str) -> str:
    sessions = console_request.console.sessions
    key = sessions.derive_confirmation_key(console_request.session)
    # the key's other texts are JSON, and none starts like this
    return hmac.new(key, f"undo {encoded}".encode(), hashlib.sha256).hexdigest()


def _get_now_s(console_request: ConsoleRequest) -> int:
    return console_request.console.app.clock.now_us() // 1_000_000
