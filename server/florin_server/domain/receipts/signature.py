"""Signatures of receipts, and reading receipts of others, which are not trusted.

A receipt is a JWS in compact form whose header has exactly three members: `alg` is Ed25519 (RFC
9864), `kid` the thumbprint of the key, `typ` its type. Keys come from the reader, never from the
receipt, and must match their name.
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
from florin_server.domain.receipts.verdict import ReceiptCheck, ReceiptNotGenuine

TYPE: Final = "florin-receipt+jwt"
MEDIA_TYPE: Final = "application/jose"  # of a JWS in compact form, RFC 7515
RECEIPT_BYTES_MAX: Final = 16 * 1024
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}", re.ASCII)
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_KEYS_MAX = 1000


def sign_receipt(receipt: Receipt, seed: bytes, key_id: str) -> str:
    """Return the signed receipt; `seed` is the key's secret part."""
    header = {"alg": keys.ALGORITHM, "kid": key_id, "typ": TYPE}
    key = keys.load_private_key(seed)
    return jws.serialize_compact(header, receipt.encode(), key, algorithms=[keys.ALGORITHM])


def parse_key_id(text: str) -> str:
    """Return the name of a receipt's key. ReceiptNotGenuine if the text is not a receipt."""
    if len(text) > RECEIPT_BYTES_MAX or not _COMPACT.fullmatch(text):
        _refuse(
            ReceiptCheck.FORM,
            "it is not a receipt, which has three parts of base64url of a limited length",
        )
    header = _parse_object(_decode_base64url(text.split(".", maxsplit=1)[0]))
    if header.keys() != {"alg", "kid", "typ"}:
        _refuse(ReceiptCheck.FORM, "its header must have exactly the members alg, kid and typ")
    if (header["alg"], header["typ"]) != (keys.ALGORITHM, TYPE):
        _refuse(
            ReceiptCheck.FORM,
            f"its header is not that of a {TYPE} that is signed by {keys.ALGORITHM}",
        )
    key_id = header["kid"]
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        _refuse(ReceiptCheck.FORM, "its header does not contain the thumbprint of a key")
    return key_id


def parse_issuer(text: str) -> str:
    """Return the issuer in a receipt, before any proof. ReceiptNotGenuine if it has none."""
    parse_key_id(text)
    issuer = _parse_object(_decode_base64url(text.split(".")[1])).get("iss")
    if not isinstance(issuer, str):
        _refuse(ReceiptCheck.CONTENT, "its signed content has no issuer")
    return issuer


def verify_receipt(text: str, trusted_keys: Mapping[str, OKPKey]) -> Receipt:
    """Return the content of a receipt signed by a known key. ReceiptNotGenuine otherwise."""
    key_id = parse_key_id(text)
    key = trusted_keys.get(key_id)
    if key is None:
        _refuse(
            ReceiptCheck.KEY, f"its key {key_id} is none of the {len(trusted_keys)} that are known"
        )
    try:
        content = jws.deserialize_compact(text, key, algorithms=[keys.ALGORITHM]).payload
    except (JoseError, ValueError):
        _refuse(
            ReceiptCheck.SIGNATURE,
            "its signature is wrong: it was altered, or signed by another key",
        )
    try:
        return Receipt.model_validate(_parse_object(content))
    except ValidationError as fault:
        where = ".".join(map(str, fault.errors()[0]["loc"]))
        _refuse(ReceiptCheck.CONTENT, f"its signed content is not that of a receipt: {where}")


def parse_key_set(content: bytes) -> dict[str, OKPKey]:
    """Return the keys of a JWK set that can sign receipts, by their thumbprints.

    Other keys are left out; a key with a wrong name is refused. ValueError if it is not a key set.
    """
    try:
        jwks = _parse_object(content).get("keys")
    except ReceiptNotGenuine:
        jwks = None
    if not isinstance(jwks, list) or len(jwks) > _KEYS_MAX:
        raise ValueError("it is not a set of keys (JWKS)")
    okp_keys: dict[str, OKPKey] = {}
    for jwk in jwks:
        if not isinstance(jwk, dict) or (jwk.get("kty"), jwk.get("crv")) != (
            "OKP",
            keys.ALGORITHM,
        ):
            continue
        try:
            key = keys.load_public_key(_decode_member(jwk.get("x")))
        except (ValueError, ReceiptNotGenuine):
            raise ValueError("one of its keys is broken") from None
        if jwk.get("kid", key.thumbprint()) != key.thumbprint():
            raise ValueError(f"it has another key as {jwk['kid']}")
        okp_keys[key.thumbprint()] = key
    return okp_keys


def _decode_member(text: object) -> bytes:
    return _decode_base64url(text if isinstance(text, str) else "")


def _decode_base64url(part: str) -> bytes:
    """Return the bytes of base64url text, of which only one spelling is right."""
    try:
        decoded = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        _refuse(ReceiptCheck.FORM, "a part of it is not base64url")
    if base64.urlsafe_b64encode(decoded).decode().rstrip("=") != part:
        _refuse(ReceiptCheck.FORM, "a part of it is not canonical base64url")
    return decoded


def _parse_object(content: bytes) -> dict[str, Any]:
    """Return a JSON object in which no member occurs twice."""
    try:
        parsed = json.loads(
            content.decode(), object_pairs_hook=_to_unique_members, parse_constant=_reject_constant
        )
    except (ValueError, RecursionError):
        _refuse(ReceiptCheck.FORM, "a part of it is not unambiguous JSON")
    if not isinstance(parsed, dict):
        _refuse(ReceiptCheck.FORM, "a part of it is not a JSON object")
    return parsed


def _to_unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member occurs twice")
    return members


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _refuse(check: ReceiptCheck, why: str) -> NoReturn:
    raise ReceiptNotGenuine(check, why)
