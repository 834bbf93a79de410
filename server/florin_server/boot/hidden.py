"""What no line of the log may hold: every secret that this process knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from florin_server import logs
from florin_server.boot.home import Secrets
from florin_server.config import Settings

# a shorter part of an address is a word: v2, rpc
_PART_MIN = 12


def hide(settings: Settings, *more: str) -> None:
    """Hides what the settings keep secret, and more values, from the log."""
    logs.redactor.hide((*_in(settings), *more))


def of(kept: Secrets) -> Iterator[str]:
    """The secrets of an installation, in every form that something might write them in."""
    keys = (kept.pepper, kept.relayer_key, kept.demo_destination_key, kept.treasury_key)
    for one in (*keys, *kept.capture_keys):
        yield one.hex()
        yield repr(one)[2:-1]
    yield from (kept.operator_token, kept.gateway_token)


def _in(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, one in value:
            yield from _in(one)
    elif isinstance(value, str):
        yield from _of_url(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _in(one)
    elif isinstance(value, tuple | list):
        # nothing else that can be iterated: a network is all of its addresses
        for one in value:
            yield from _in(one)


def _of_url(text: str) -> Iterator[str]:
    """The parts of an address that may be a key: password, path and query."""
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
    except ValueError:
        return
    if parts.password:
        yield parts.password
    pieces = [*parts.path.split("/"), *parts.query.replace("=", "&").split("&")]
    yield from (one for one in pieces if len(one) >= _PART_MIN)
