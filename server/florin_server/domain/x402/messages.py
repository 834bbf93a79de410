"""The messages of x402 version 2, parsed strictly and within bounds.

A server answers 402 with what it requires; a client repeats its request with a signed payment; the
server answers with the settlement. Each message is one HTTP header: base64 of JSON.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

VERSION: Final = 2
EXACT: Final = "exact"
REQUIRED_HEADER: Final = "payment-required"
SIGNATURE_HEADER: Final = "payment-signature"
RESPONSE_HEADER: Final = "payment-response"
# clients send about one kilobyte; the longest transaction of Solana takes another one and a half
HEADER_CHARS_MAX: Final = 12_000
BODY_BYTES_MAX: Final = 32_768
_TEXT_CHARS_MAX = 256
_EXTRA_BYTES_MAX = 4_096
_AMOUNT = re.compile(r"0|[1-9][0-9]{0,77}", re.ASCII)
_UINT256_MAX = 2**256 - 1
_SECONDS_MAX = 2**31


class InvalidReason(StrEnum):
    """A reason to refuse a payment, in the words that servers of x402 know."""

    VERSION = "invalid_x402_version"
    PAYLOAD = "invalid_payload"
    REQUIREMENTS = "invalid_payment_requirements"
    SCHEME = "unsupported_scheme"
    NETWORK = "invalid_network"
    ASSET = "unsupported_asset"
    METHOD = "unsupported_asset_transfer_method"
    ACCEPTED = "accepted_requirements_mismatch"
    BLOCKED = "blocked_account"
    UNAVAILABLE = "network_unavailable"
    BUDGET = "facilitator_budget_exhausted"
    PENDING = "settlement_pending"
    OTHER_PAYMENT = "payment_already_processing"
    TRANSACTION_FAILED = "transaction_failed"
    SIMULATION = "transaction_simulation_failed"
    FUNDS = "insufficient_funds"
    EVM_PAYLOAD = "invalid_exact_evm_payload"
    EVM_SIGNATURE = "invalid_exact_evm_payload_signature"
    EVM_RECIPIENT = "invalid_exact_evm_payload_recipient_mismatch"
    EVM_VALUE = "invalid_exact_evm_payload_authorization_value"
    EVM_BEFORE = "invalid_exact_evm_payload_authorization_valid_before"
    EVM_AFTER = "invalid_exact_evm_payload_authorization_valid_after"
    EVM_NONCE_USED = "invalid_exact_evm_payload_authorization_nonce_used"
    PERMIT2_PAYLOAD = "invalid_permit2_payload_format"
    PERMIT2_SPENDER = "invalid_permit2_spender"
    PERMIT2_RECIPIENT = "invalid_permit2_recipient_mismatch"
    PERMIT2_DEADLINE = "permit2_deadline_expired"
    PERMIT2_NOT_YET = "permit2_not_yet_valid"
    PERMIT2_AMOUNT = "permit2_amount_mismatch"
    PERMIT2_TOKEN = "permit2_token_mismatch"  # noqa: S105  (a reason)
    PERMIT2_SIGNATURE = "invalid_permit2_signature"
    PERMIT2_ALLOWANCE = "permit2_allowance_required"
    PERMIT2_NONCE_USED = "permit2_invalid_nonce"
    SVM_TRANSACTION = "invalid_exact_svm_payload_transaction_could_not_be_decoded"
    SVM_INSTRUCTIONS = "invalid_exact_svm_payload_transaction_instructions_length"
    SVM_UNKNOWN = "invalid_exact_svm_payload_unknown_instruction"
    SVM_LIMIT = "invalid_exact_svm_payload_transaction_instructions_compute_limit_instruction"
    SVM_PRICE = "invalid_exact_svm_payload_transaction_instructions_compute_price_instruction"
    SVM_TRANSFER = "invalid_exact_svm_payload_no_transfer_instruction"
    SVM_MINT = "invalid_exact_svm_payload_mint_mismatch"
    SVM_RECIPIENT = "invalid_exact_svm_payload_recipient_mismatch"
    SVM_AMOUNT = "invalid_exact_svm_payload_amount_mismatch"
    SVM_FEE_PAYER = "fee_payer_not_managed_by_facilitator"
    SVM_FEE_PAYER_USED = "invalid_exact_svm_payload_transaction_fee_payer_transferring_funds"
    SVM_MEMO = "invalid_exact_svm_payload_memo_mismatch"
    SVM_SIGNATURE = "invalid_exact_svm_payload_signature"


class InvalidX402Payment(ValueError):  # noqa: N818  (what was sent, not a mistake of ours)
    """A message or a payment that is refused, with its reason and a sentence."""

    def __init__(self, reason: InvalidReason, message: str, payer: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.payer = payer


@dataclass(frozen=True, slots=True)
class X402Requirements:
    """One way to pay: minor units of an asset on a network (CAIP-2) to an address.

    `asset` and `pay_to` are bare addresses as they were sent. `extra` is what the network's scheme
    needs.
    """

    network: str
    asset: str
    amount: int
    pay_to: str
    timeout_s: int
    scheme: str = EXACT
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the members in the protocol's names."""
        return {
            "scheme": self.scheme,
            "network": self.network,
            "asset": self.asset,
            "amount": str(self.amount),
            "payTo": self.pay_to,
            "maxTimeoutSeconds": self.timeout_s,
            "extra": dict(self.extra),
        }


@dataclass(frozen=True, slots=True)
class X402Payment:
    """A signed payment: the way that the client says it accepted, and the scheme's own content."""

    accepted: X402Requirements
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SettlementAnswer:
    """The answer about a settlement. `transaction` is empty while none is known."""

    network: str
    payer: str
    transaction: str = ""
    reason: InvalidReason | None = None
    message: str = ""
    amount: int | None = None

    @property
    def is_success(self) -> bool:
        """Return True if the money moved, at final depth."""
        return self.reason is None

    def to_json(self) -> dict[str, Any]:
        """Return the members in the protocol's names."""
        answer: dict[str, Any] = {
            "success": self.is_success,
            "payer": self.payer,
            "transaction": self.transaction,
            "network": self.network,
        }
        if self.amount is not None:
            answer["amount"] = str(self.amount)
        if self.reason is not None:
            answer["errorReason"] = self.reason.value
            answer["errorMessage"] = self.message
        return answer


def encode_header(message: Mapping[str, Any]) -> str:
    """Return a message as the value of a header."""
    return base64.b64encode(orjson.dumps(message)).decode()


def build_required(
    url: str, description: str, accepts: Sequence[X402Requirements], error: str
) -> dict[str, Any]:
    """Return the message that requires a payment for a resource."""
    return {
        "x402Version": VERSION,
        "error": error,
        "resource": {"url": url, "description": description, "mimeType": "application/json"},
        "accepts": [requirements.to_json() for requirements in accepts],
    }


def parse_payment_header(value: str) -> X402Payment:
    """Parse the header of a signed payment; InvalidX402Payment if it is not one."""
    if len(value) > HEADER_CHARS_MAX:
        text = f"The header has more than {HEADER_CHARS_MAX} characters"
        raise InvalidX402Payment(InvalidReason.PAYLOAD, text)
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidX402Payment(InvalidReason.PAYLOAD, "The header is not base64") from None
    return parse_payment(_parse_json(raw))


def parse_request(body: bytes) -> tuple[X402Payment, X402Requirements]:
    """Parse what a server asks a facilitator: a payment, and what the server requires."""
    if len(body) > BODY_BYTES_MAX:
        text = f"The body has more than {BODY_BYTES_MAX} bytes"
        raise InvalidX402Payment(InvalidReason.PAYLOAD, text)
    request = _require_object(_parse_json(body), "the body")
    _require_version(request)
    return (
        parse_payment(request.get("paymentPayload")),
        parse_requirements(request.get("paymentRequirements"), "paymentRequirements"),
    )


def parse_payment(value: object) -> X402Payment:
    """Parse a signed payment."""
    message = _require_object(value, "the payment")
    _require_version(message)
    payload = _require_object(message.get("payload"), "payload")
    return X402Payment(parse_requirements(message.get("accepted"), "accepted"), payload)


def parse_requirements(value: object, name: str) -> X402Requirements:
    """Parse one way to pay; `name` is the member that holds it."""
    message = _require_object(value, name, InvalidReason.REQUIREMENTS)
    extra = message.get("extra")
    extra = {} if extra is None else _require_object(extra, f"{name}.extra")
    if len(orjson.dumps(extra)) > _EXTRA_BYTES_MAX:
        raise InvalidX402Payment(InvalidReason.REQUIREMENTS, f"{name}.extra is too long")
    timeout_s = message.get("maxTimeoutSeconds")
    is_number = isinstance(timeout_s, int) and not isinstance(timeout_s, bool)
    if not is_number or not 0 < int(str(timeout_s)) <= _SECONDS_MAX:
        text = f"{name}.maxTimeoutSeconds is not a number of seconds"
        raise InvalidX402Payment(InvalidReason.REQUIREMENTS, text)
    return X402Requirements(
        network=_require_text(message, "network", name),
        asset=_require_text(message, "asset", name),
        amount=parse_amount(message.get("amount"), f"{name}.amount", InvalidReason.REQUIREMENTS),
        pay_to=_require_text(message, "payTo", name),
        timeout_s=int(str(timeout_s)),
        scheme=_require_text(message, "scheme", name),
        extra=extra,
    )


def parse_amount(value: object, name: str, reason: InvalidReason = InvalidReason.PAYLOAD) -> int:
    """Return a uint256 from its decimal text."""
    if not isinstance(value, str) or not _AMOUNT.fullmatch(value) or int(value) > _UINT256_MAX:
        raise InvalidX402Payment(reason, f"{name} is not a number in decimal text")
    return int(value)


def _parse_json(raw: bytes) -> object:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise InvalidX402Payment(InvalidReason.PAYLOAD, "The content is not JSON") from None


def _require_object(
    value: object, name: str, reason: InvalidReason = InvalidReason.PAYLOAD
) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidX402Payment(reason, f"{name} is not an object")
    return value


def _require_version(message: Mapping[str, Any]) -> None:
    version = message.get("x402Version")
    if version != VERSION or isinstance(version, bool):
        text = f"x402Version is not {VERSION}, the only version that Florin knows"
        raise InvalidX402Payment(InvalidReason.VERSION, text)


def _require_text(message: Mapping[str, Any], member: str, name: str) -> str:
    value = message.get(member)
    if not isinstance(value, str) or not 0 < len(value) <= _TEXT_CHARS_MAX:
        text = f"{name}.{member} is not a text of 1 to {_TEXT_CHARS_MAX} characters"
        raise InvalidX402Payment(InvalidReason.REQUIREMENTS, text)
    return value
