"""Checks of a wallet's outputs against the transaction that it was asked to sign.

Nothing here reads the chain, and nothing is trusted: bytes are parsed strictly, the message must be
an issued message, and the payer's signature must cover it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from florin_server.domain.chains.solana import spl
from florin_server.domain.chains.solana.limits import PACKET_BYTES, V1_BYTES, V1_FIRST_BYTE
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import PaymentOption, ResolvedBuild
from florin_server.rails.solana.paying.message import (
    WalletBounds,
    deserialize_message,
    is_acceptable,
)
from florin_server.rails.solana.paying.terms import to_address
from florin_server.rails.solana.settings import LAMPORTS_PER_SIGNATURE, SolanaChainSettings
from florin_server.rails.types import NonceUnusable

_PAYER_INDEX = 1  # after the relayer, in every message that we build
_MISMATCH = {"reason": "transaction_mismatch"}


@dataclass(frozen=True, slots=True)
class PayerSignedMessage:
    """A message that we built, with the payer's signature."""

    message: MessageV0
    signature: Signature

    @property
    def unsigned_bytes(self) -> bytes:
        """Return the transaction as the wallet returned it, without the relayer's signature."""
        return bytes(
            VersionedTransaction.populate(self.message, [Signature.default(), self.signature])
        )


@dataclass(frozen=True, slots=True)
class IssuedMessage:
    """An issued message.

    No block above the height `last_valid` can include it. With a nonce, no block can include it
    once the nonce has another value than in the final block `slot`. No block before the slot `head`
    can include it.
    """

    message: MessageV0
    head: int
    last_valid: int | None
    nonce: str | None = None
    slot: int = 0

    @classmethod
    def from_resolved_build(cls, resolved_build: ResolvedBuild) -> IssuedMessage:
        """Parse the stored form."""
        terms = resolved_build.terms
        message = deserialize_message(str(terms["message"]))
        if (nonce := terms.get("nonce")) is not None:
            return cls(message, resolved_build.head, None, str(nonce), int(str(terms["slot"])))
        return cls(message, resolved_build.head, int(str(terms["last_valid"])))


def parse_submission(outputs: Sequence[str]) -> PayerSignedMessage:
    """Return the single transaction in a wallet's outputs, with any signature as the payer."""
    if len(outputs) != 1:
        raise build_output_refusal("unreadable_output", "One transaction was expected")
    transaction = _parse_transaction(_decode_output(outputs[0]))
    message = transaction.message
    signatures = transaction.signatures
    if not isinstance(message, MessageV0) or len(signatures) != _PAYER_INDEX + 1:
        raise build_output_refusal(
            "transaction_mismatch", "The transaction is not the one that was issued"
        )
    return PayerSignedMessage(message, signatures[_PAYER_INDEX])


def check_submission(
    option: PaymentOption,
    resolved_builds: Sequence[ResolvedBuild],
    outputs: Sequence[str],
    chain: SolanaChainSettings,
) -> PayerSignedMessage:
    """Return the submission if it does what was issued and the payer signed it."""
    submission = parse_submission(outputs)
    issued_message = find_issued_message(submission.message, resolved_builds)
    bounds = WalletBounds(chain.compute_price_max, chain.compute_units_max, chain.wallet_guards_max)
    if issued_message is None or not is_acceptable(
        issued_message.message, submission.message, bounds
    ):
        text = "The transaction is not the one that was issued"
        if _is_signed_with_a_nonce(option, submission, resolved_builds):
            raise NonceUnusable(ErrorCode.INVALID_PARAMS, text, details=_MISMATCH)
        raise ApiError(ErrorCode.INVALID_PARAMS, text, details=_MISMATCH)
    if (fee := compute_highest_fee(submission.message)) > chain.payment_fee_max:
        text = f"The transaction can cost {fee} lamports of fees, more than the limit of"
        raise build_output_refusal("transaction_mismatch", f"{text} {chain.payment_fee_max}")
    payer = Pubkey.from_string(to_address(option.payer))
    content = to_bytes_versioned(submission.message)
    if submission.message.account_keys[_PAYER_INDEX] != payer or not submission.signature.verify(
        payer, content
    ):
        raise build_output_refusal("signature_mismatch", "The signature is not the account's")
    return submission


def _is_signed_with_a_nonce(
    option: PaymentOption, submission: PayerSignedMessage, resolved_builds: Sequence[ResolvedBuild]
) -> bool:
    """Return True if the payer signed a changed transaction with a durable nonce.

    Only the payer can sign it, so no other party can use up the nonce this way.
    """
    if not resolved_builds or not resolved_builds[0].has_nonce:
        return False
    signers = IssuedMessage.from_resolved_build(resolved_builds[0]).message.account_keys[
        : _PAYER_INDEX + 1
    ]
    payer = Pubkey.from_string(to_address(option.payer))
    content = to_bytes_versioned(submission.message)
    same = submission.message.account_keys[: _PAYER_INDEX + 1] == signers
    return same and submission.signature.verify(payer, content)


def find_issued_message(
    message: MessageV0, resolved_builds: Sequence[ResolvedBuild]
) -> IssuedMessage | None:
    """Return the issue of a message: no two share a blockhash, or a nonce and its value."""
    for issued_message in map(IssuedMessage.from_resolved_build, resolved_builds):
        is_same_nonce = (
            issued_message.nonce is None
            or spl.parse_pubkey(issued_message.nonce) in message.account_keys
        )
        if is_same_nonce and issued_message.message.recent_blockhash == message.recent_blockhash:
            return issued_message
    return None


def compute_highest_fee(message: MessageV0) -> int:
    """Return the most that a transaction can cost its fee payer, in lamports."""
    keys, units, price = message.account_keys, 0, 0
    for compiled_instruction in message.instructions:
        if keys[compiled_instruction.program_id_index] != spl.COMPUTE_BUDGET:
            continue
        data = bytes(compiled_instruction.data)
        if data[:1] == spl.COMPUTE_UNIT_PRICE:
            (price,) = struct.unpack("<Q", data[1:])
        else:
            (units,) = struct.unpack("<I", data[1:])
    signatures: int = message.header.num_required_signatures
    return LAMPORTS_PER_SIGNATURE * signatures - (-units * price // 1_000_000)


def build_output_refusal(reason: str, message: str) -> ApiError:
    """Build the refusal of a wallet's output."""
    return ApiError(ErrorCode.INVALID_PARAMS, message, details={"reason": reason})


def _decode_output(output: str) -> bytes:
    """Return an output's bytes: base64, alone or as the member `transaction` of an object."""
    try:
        value = orjson.loads(output)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict):
        value = value.get("transaction")
    if not isinstance(value, str):
        raise build_output_refusal("unreadable_output", "The output is not a transaction")
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise build_output_refusal("unreadable_output", "The output is not a transaction") from None
    is_v1 = raw[:1] == V1_FIRST_BYTE
    if len(raw) > (most := V1_BYTES if is_v1 else PACKET_BYTES):
        text = f"The transaction has {len(raw)} bytes, but clusters accept at most {most}"
        raise build_output_refusal("unreadable_output", text)
    if is_v1:
        text = "The transaction has version 1, but the issued transaction has version 0"
        raise build_output_refusal("transaction_mismatch", text)
    return raw


def _parse_transaction(raw: bytes) -> VersionedTransaction:
    """Parse a transaction of exactly these bytes, with its parts within bounds."""
    try:
        versioned_transaction = VersionedTransaction.from_bytes(raw)
        if bytes(versioned_transaction) != raw:
            raise ValueError("bytes are left over")
        versioned_transaction.sanitize()
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        raise
    except BaseException as fault:
        # a library in Rust panics with an error that is not an Exception
        raise build_output_refusal(
            "unreadable_output", "The output is not a transaction"
        ) from fault
    return versioned_transaction
