"""Files with a user's key for NATS: with a JWT (.creds), or the seed of an nkey alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import nkeys  # type: ignore[import-untyped]
from nats.aio.client import RawCredentials

# base32 of a user's seed, and what stands before a JWT
_SEED: Final = re.compile(r"^SU[A-Z2-7]{56}$", re.MULTILINE)
_JWT_TITLE: Final = "BEGIN NATS USER JWT"
_JWT: Final = re.compile(rf"{_JWT_TITLE}-+\r?\n[\w.-]+\r?\n")
_SEED_TITLE: Final = re.compile(r"BEGIN USER NKEY SEED-+\r?\n(SU[A-Z2-7]{56})\r?\n")


class CredentialsError(ValueError):
    """A file has no usable key; the message has no part of the file."""


def read_seed(path: Path) -> str:
    """Return the seed in a file. Raise CredentialsError or OSError."""
    return _read(path)[1]


def read_credentials(path: Path) -> Mapping[str, Any]:
    """Return the options with which the client signs in. Raise CredentialsError or OSError.

    The file is read at each connection, as its JWT can be renewed.
    """
    text, seed = _read(path)
    if _JWT_TITLE in text:
        return {"user_credentials": RawCredentials(text)}
    return {"nkeys_seed_str": seed}


def _read(path: Path) -> tuple[str, str]:
    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise CredentialsError("it is not a text") from error
    if _JWT_TITLE in text:
        # the client would read on for ever without the JWT's line
        seeds = _SEED_TITLE.findall(text) if _JWT.search(text) else []
    else:
        seeds = _SEED.findall(text)
    if len(seeds) != 1:
        raise CredentialsError("it has no user's key: neither a JWT with its seed, nor a seed")
    (seed,) = seeds
    prefix, key = nkeys.decode_seed(seed.encode())
    # the library does not compare the checksum
    if nkeys.encode_seed(key, prefix).decode() != seed:
        raise CredentialsError("the seed in it is invalid")
    return text, seed
