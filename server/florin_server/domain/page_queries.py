"""JSON objects that callers put into addresses of pages."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import orjson


def decode_json_object(text: str, bytes_max: int) -> dict[str, Any]:
    """Return the object in a Base64 text; empty if it is unreadable or longer than allowed.

    Both alphabets are accepted, padded or not; a space means a plus sign that was not escaped.
    """
    if len(text) > bytes_max:
        return {}
    plain = text.replace(" ", "+").replace("-", "+").replace("_", "/")
    try:
        decoded = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        value = orjson.loads(decoded)
    except (binascii.Error, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
