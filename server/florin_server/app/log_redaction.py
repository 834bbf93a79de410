"""Secrets that no log line can contain: all that this process knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from florin_server.app.home import InstallationSecrets
from florin_server.base import logs
from florin_server.settings import Settings

# a shorter part of a URL is a word: v2, rpc
_PART_MIN = 12


def hide_settings(settings: Settings, *more: str) -> None:
    """Hide the secrets of the settings, and more values, from the log."""
    logs.redactor.hide((*_list_strings(settings), *more))


def list_secret_forms(installation_secrets: InstallationSecrets) -> Iterator[str]:
    """Return the secrets of an installation, in every form that something might write them in."""
    keys = (
        installation_secrets.pepper,
        installation_secrets.relayer_key,
        installation_secrets.demo_destination_key,
        installation_secrets.treasury_key,
    )
    for key in (*keys, *installation_secrets.capture_keys):
        yield key.hex()
        yield repr(key)[2:-1]
    yield from (installation_secrets.operator_token, installation_secrets.gateway_token)


def _list_strings(value: Any) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, item in value:
            yield from _list_strings(item)
    elif isinstance(value, str):
        yield from _list_url_secrets(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _list_strings(item)
    elif isinstance(value, tuple | list):
        # nothing else that is iterable: a network consists of all its addresses
        for item in value:
            yield from _list_strings(item)


def _list_url_secrets(text: str) -> Iterator[str]:
    """Return the parts of a URL that can be a key: password, path and query."""
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
    except ValueError:
        return
    if parts.password:
        yield parts.password
    pieces = [*parts.path.split("/"), *parts.query.replace("=", "&").split("&")]
    yield from (piece for piece in pieces if len(piece) >= _PART_MIN)
