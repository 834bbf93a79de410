"""Payments by x402 (version 2): a signed transfer of the price, in an HTTP header.

A server can lie here too. On EVM chains the wallet signs only for an address that follows from the
payment's route, and only for the route's price. On Solana it signs only a transfer of what the
payment's own option takes, to the same merchant.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import IO, Any, Final

from florin_client.wallet.actions import WalletError, parse_json
from florin_client.wallet.terms import (
    OptionTerms,
    parse_evm_address,
    parse_option,
    parse_solana_address,
)
from florin_client.wallet.x402_steps import X402Step

# how a transfer is signed
EIP3009: Final = "eip3009"
PERMIT2_METHOD: Final = "permit2"
SOLANA_METHOD: Final = "transaction"

_VERSION: Final = 2
_SCHEME: Final = "exact"
_WAYS_MAX: Final = 64
_NAME_CHARS_MAX: Final = 200
_SECONDS_MAX: Final = 2**31
_ANSWER_BYTES_MAX: Final = 64 * 1024
# a server waits for the transfer before it answers
_ANSWER_TIMEOUT_S: Final = 90
_PAYMENT_REQUIRED: Final = 402


@dataclass(frozen=True, slots=True)
class X402Way:
    """A way to pay that a server requires: a transfer of a token from one account.

    `method` is EIP-3009, with the token's domain, or Permit2; on Solana it is a transaction with a
    fee payer, and a memo that names the payment. `requirements` is the way as it was received,
    which the signed message repeats.
    """

    terms: OptionTerms
    receiver: str
    timeout_s: int
    method: str
    requirements: Mapping[str, Any]
    domain_name: str = ""
    domain_version: str = ""
    fee_payer: str = ""
    memo: str = ""


@dataclass(frozen=True, slots=True)
class X402Answer:
    """The answer of a server: its HTTP status, its body, and the settlement if it has one."""

    status: int
    body: Mapping[str, Any]
    settlement: Mapping[str, Any] | None = None

    @property
    def requires_payment(self) -> bool:
        """Return True if the server requires a payment."""
        return self.status == _PAYMENT_REQUIRED

    @property
    def error(self) -> str:
        """Return the reason of a refusal in the server's words, empty without one."""
        return str(self.body.get("error", ""))[:200]


def list_x402_ways(required: Mapping[str, Any], accounts: Mapping[str, str]) -> list[X402Way]:
    """Return the ways to pay that this wallet knows, of the message with which a server requires.

    `accounts` are the payer's accounts (CAIP-10) by chain (CAIP-2). Other ways are left out.
    """
    ways = required.get("accepts")
    if required.get("x402Version") != _VERSION or not isinstance(ways, list):
        raise WalletError(f"the server requires no payment by version {_VERSION} of x402")
    payable = [_find_way(way, accounts) for way in ways[:_WAYS_MAX]]
    return [way for way in payable if way is not None]


def encode_x402_header(way: X402Way, step: X402Step, output: str) -> str:
    """Return the header PAYMENT-SIGNATURE of a signed step, from the output of its execution."""
    message = {
        "x402Version": _VERSION,
        "accepted": dict(way.requirements),
        "payload": step.to_payload(output),
    }
    return base64.b64encode(json.dumps(message).encode()).decode()


def request_x402(url: str, signature: str | None = None) -> X402Answer:
    """Request a URL, with a signed payment or without; WalletError without an answer of x402.

    Redirects are not followed. `signature` is the header of the payment.
    """
    if not url.startswith(("https://", "http://")):
        raise WalletError("the payment cannot be paid by x402: the server names no URL for it")
    headers = {"Accept": "application/json"}
    if signature is not None:
        headers["PAYMENT-SIGNATURE"] = signature
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  (looked at above)
    opener = urllib.request.build_opener(_RedirectRefuser)
    try:
        try:
            with opener.open(request, timeout=_ANSWER_TIMEOUT_S) as answer:
                return _parse_answer(answer.status, answer.headers, answer)
        except urllib.error.HTTPError as error:
            with error:
                return _parse_answer(error.code, error.headers, error)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise WalletError(f"{url[:200]}: no answer ({type(error).__name__})") from None


class _RedirectRefuser(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect: another server could get the signature."""


def _parse_answer(status: int, headers: Message, content: IO[bytes]) -> X402Answer:
    text = content.read(_ANSWER_BYTES_MAX + 1)
    if len(text) > _ANSWER_BYTES_MAX:
        raise WalletError("the answer by x402 is too large")
    body = parse_json(text)
    if not isinstance(body, dict):
        raise WalletError("the answer by x402 is not an object")
    if status == _PAYMENT_REQUIRED:
        # the header is the message, and servers can send any body
        required = _decode_header(headers.get("PAYMENT-REQUIRED"))
        return X402Answer(status, body if required is None else required)
    return X402Answer(status, body, _decode_header(headers.get("PAYMENT-RESPONSE")))


def _decode_header(value: str | None) -> dict[str, Any] | None:
    if value is None or len(value) > _ANSWER_BYTES_MAX:
        return None
    try:
        message = parse_json(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return None
    return message if isinstance(message, dict) else None


def _find_way(way: object, accounts: Mapping[str, str]) -> X402Way | None:
    """Return a way if this wallet can pay it, by an account on its chain."""
    if not isinstance(way, Mapping) or way.get("scheme") != _SCHEME:
        return None
    chain_id, extra, timeout_s = way.get("network"), way.get("extra"), way.get("maxTimeoutSeconds")
    if not isinstance(chain_id, str) or chain_id not in accounts or not isinstance(extra, Mapping):
        return None
    is_number = isinstance(timeout_s, int) and not isinstance(timeout_s, bool)
    if not is_number or not 0 < int(str(timeout_s)) <= _SECONDS_MAX:
        return None
    is_evm = chain_id.startswith("eip155:")
    unit = f"caip19/{chain_id}/{'erc20' if is_evm else 'token'}:{way.get('asset')}"
    amount = {"unit": unit, "value": way.get("amount")}
    try:
        terms = parse_option({"account": accounts[chain_id], "amount": amount})
        parse = parse_evm_address if is_evm else parse_solana_address
        receiver = parse(way.get("payTo"))
        scheme = _parse_evm_extra(extra) if is_evm else _parse_solana_extra(extra)
    except WalletError:
        return None
    return X402Way(terms, receiver, int(str(timeout_s)), requirements=way, **scheme)


def _parse_evm_extra(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return how the transfer is signed; WalletError if this wallet does not know the method."""
    method = extra.get("assetTransferMethod", EIP3009)
    if method == PERMIT2_METHOD:
        return {"method": method}
    names = [extra.get(name) for name in ("name", "version")]
    if method != EIP3009 or not all(
        isinstance(name, str) and 0 < len(name) <= _NAME_CHARS_MAX for name in names
    ):
        raise WalletError("the transfer cannot be signed")
    return {"method": method, "domain_name": str(names[0]), "domain_version": str(names[1])}


def _parse_solana_extra(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return fee payer and memo; WalletError unless both are addresses."""
    fee_payer, memo = (parse_solana_address(extra.get(name)) for name in ("feePayer", "memo"))
    return {"method": SOLANA_METHOD, "fee_payer": fee_payer, "memo": memo}
