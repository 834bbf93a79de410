"""Signing receipts, and reading those that others hand in, of which nothing is believed.

A receipt is a JWS in compact form whose header has three members and no others: `alg` is Ed25519
(RFC 9864), `kid` the thumbprint of the key, `typ` says what it is. A key is taken from those that
the reader brings, never from the receipt, and must be the one that its name says.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey
from pydantic import ValidationError

from florin_server.domain.receipts import keys
from florin_server.domain.receipts.receipt import Receipt
from florin_server.domain.receipts.verdict import Check, NotGenuine

TYPE: Final = "florin-receipt+jwt"
MEDIA_TYPE: Final = "application/jose"  # of a JWS in compact form, RFC 7515
RECEIPT_BYTES_MAX: Final = 16 * 1024
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}", re.ASCII)
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_KEYS_MAX = 1000


def sign(receipt: Receipt, seed: bytes, key_id: str) -> str:
    """The signed receipt; `seed` is the key's secret part."""
    header = {"alg": keys.ALGORITHM, "kid": key_id, "typ": TYPE}
    key = keys.of_seed(seed)
    return jws.serialize_compact(header, receipt.encoded(), key, algorithms=[keys.ALGORITHM])


def key_id_of(text: str) -> str:
    """The name of the key that a receipt says it is signed with. NotGenuine if it is no receipt."""
    if len(text) > RECEIPT_BYTES_MAX or not _COMPACT.fullmatch(text):
        _refuse(
            Check.FORM, "it is no receipt: three parts of base64url, of a certain length, make one"
        )
    header = _object(_decoded(text.split(".", maxsplit=1)[0]))
    if header.keys() != {"alg", "kid", "typ"}:
        _refuse(Check.FORM, "its header has not just the members alg, kid and typ")
    if (header["alg"], header["typ"]) != (keys.ALGORITHM, TYPE):
        _refuse(
            Check.FORM, f"its header is not that of a {TYPE} that is signed by {keys.ALGORITHM}"
        )
    key_id = header["kid"]
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        _refuse(Check.FORM, "its header does not name a key by its thumbprint")
    return key_id


def issuer_of(text: str) -> str:
    """Who a receipt says it is of, before anything is proven. NotGenuine if it says none."""
    key_id_of(text)
    found = _object(_decoded(text.split(".")[1])).get("iss")
    if not isinstance(found, str):
        _refuse(Check.CONTENT, "what was signed names no issuer")
    return found


def verified(text: str, known: Mapping[str, OKPKey]) -> Receipt:
    """What a receipt says, once its signature is a known key's. NotGenuine otherwise."""
    key_id = key_id_of(text)
    key = known.get(key_id)
    if key is None:
        _refuse(Check.KEY, f"its key {key_id} is none of the {len(known)} that are known")
    try:
        content = jws.deserialize_compact(text, key, algorithms=[keys.ALGORITHM]).payload
    except (JoseError, ValueError):
        _refuse(Check.SIGNATURE, "it was altered, or never signed by its key")
    try:
        return Receipt.model_validate(_object(content))
    except ValidationError as fault:
        where = ".".join(map(str, fault.errors()[0]["loc"]))
        _refuse(Check.CONTENT, f"what was signed is not what a receipt says: {where}")


def key_set(content: bytes) -> dict[str, OKPKey]:
    """The keys of a JWK set that receipts may be signed with, by their thumbprints.

    Others are left out; one that goes by another name than its own is refused. ValueError if it is
    no key set.
    """
    try:
        told = _object(content).get("keys")
    except NotGenuine:
        told = None
    if not isinstance(told, list) or len(told) > _KEYS_MAX:
        raise ValueError("it is no set of keys (JWKS)")
    found: dict[str, OKPKey] = {}
    for one in told:
        if not isinstance(one, dict) or (one.get("kty"), one.get("crv")) != ("OKP", keys.ALGORITHM):
            continue
        try:
            key = keys.of_public(_part(one.get("x")))
        except (ValueError, NotGenuine):
            raise ValueError("one of its keys is broken") from None
        if one.get("kid", key.thumbprint()) != key.thumbprint():
            raise ValueError(f"it has another key as {one['kid']}")
        found[key.thumbprint()] = key
    return found


def _part(text: object) -> bytes:
    return _decoded(text if isinstance(text, str) else "")


def _decoded(part: str) -> bytes:
    """The bytes of base64url text, of which only one spelling is right."""
    try:
        found = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        _refuse(Check.FORM, "a part of it is not base64url")
    if base64.urlsafe_b64encode(found).decode().rstrip("=") != part:
        _refuse(Check.FORM, "a part of it is not base64url as it is written")
    return found


def _object(content: bytes) -> dict[str, Any]:
    """A JSON object in which no member comes twice."""
    try:
        found = json.loads(
            content.decode(), object_pairs_hook=_members, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        _refuse(Check.FORM, "a part of it is no JSON that can be read in one way only")
    if not isinstance(found, dict):
        _refuse(Check.FORM, "a part of it is no JSON object")
    return found


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member comes twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _refuse(check: Check, why: str) -> NoReturn:
    raise NotGenuine(check, why)
