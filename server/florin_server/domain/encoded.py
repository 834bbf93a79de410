"""JSON objects that callers put into addresses of pages."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import orjson


def json_object(text: str, bytes_max: int) -> dict[str, Any]:
    """The object in a text of Base64; empty if it cannot be read, or is longer than allowed.

    Either alphabet, padded or not; a blank stands for a plus sign that was not escaped.
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
