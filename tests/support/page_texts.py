"""What pages say, read without a browser."""

from __future__ import annotations

import re

NASTY = """<script>alert(1)</script> & "Söhne" <img src=x onerror='alert(2)'>"""


def headers_of(answer) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def text_of(page: str) -> str:
    """What a reader sees."""
    body = page[page.index("<body") :]
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())
