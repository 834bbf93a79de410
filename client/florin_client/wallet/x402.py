"""Payments by x402 (version 2): a signed transfer to a payment's own address, in an HTTP header.

A server can lie here too. The wallet signs only for an address that follows from the payment's
route, and only for the route's price.
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
from florin_client.wallet.evm_steps import TransferAuthorization
from florin_client.wallet.terms import OptionTerms, parse_evm_address, parse_option
from florin_client.wallet.transfers import TransferRoute

_VERSION: Final = 2
_SCHEME: Final = "exact"
_METHOD: Final = "eip3009"
_WAYS_MAX: Final = 64
_NAME_CHARS_MAX: Final = 200
_SECONDS_MAX: Final = 2**31
_ANSWER_BYTES_MAX: Final = 64 * 1024
# a server waits for the transfer before it answers
_ANSWER_TIMEOUT_S: Final = 90
_PAYMENT_REQUIRED: Final = 402


@dataclass(frozen=True, slots=True)
class X402Way:
    """A way to pay that a server requires: a transfer by EIP-3009 from one account.

    `requirements` is the way as it was received, which the signed message repeats.
    """

    terms: OptionTerms
    receiver: str
    timeout_s: int
    domain_name: str
    domain_version: str
    requirements: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AddressAuthorization:
    """A signature with which anyone can send the price to a payment's address, once."""

    method = "eth_signTypedData_v4"

    authorization: TransferAuthorization
    route: TransferRoute

    @property
    def amount(self) -> int:
        """Return the amount in minor units of the token."""
        return self.authorization.amount

    def to_document(self) -> dict[str, Any]:
        """Return the EIP-712 document."""
        return self.authorization.to_document()

    def to_payload(self, signature: str) -> dict[str, Any]:
        """Return the signed transfer in the form of x402."""
        signed = self.authorization
        return {
            "signature": signature,
            "authorization": {
                "from": signed.payer,
                "to": signed.receiver,
                "value": str(signed.amount),
                "validAfter": "0",
                "validBefore": str(signed.valid_before),
                "nonce": "0x" + signed.nonce.hex(),
            },
        }


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


def encode_x402_header(way: X402Way, step: AddressAuthorization, signature: str) -> str:
    """Return the header PAYMENT-SIGNATURE of a signed step."""
    message = {
        "x402Version": _VERSION,
        "accepted": dict(way.requirements),
        "payload": step.to_payload(signature),
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
    if not isinstance(chain_id, str) or not chain_id.startswith("eip155:"):
        return None
    if chain_id not in accounts or not isinstance(extra, Mapping):
        return None
    names = [extra.get(name) for name in ("name", "version")]
    if not all(isinstance(name, str) and 0 < len(name) <= _NAME_CHARS_MAX for name in names):
        return None
    is_number = isinstance(timeout_s, int) and not isinstance(timeout_s, bool)
    if not is_number or not 0 < int(str(timeout_s)) <= _SECONDS_MAX:
        return None
    if extra.get("assetTransferMethod", _METHOD) != _METHOD:
        return None
    unit = f"caip19/{chain_id}/erc20:{way.get('asset')}"
    amount = {"unit": unit, "value": way.get("amount")}
    try:
        terms = parse_option({"account": accounts[chain_id], "amount": amount})
        receiver = parse_evm_address(way.get("payTo"))
    except WalletError:
        return None
    return X402Way(terms, receiver, int(str(timeout_s)), str(names[0]), str(names[1]), way)
