"""Reading what a wallet returned, and comparing it with what it was asked to sign.

Nothing here asks the chain, and nothing is believed: bytes are read strictly, the message must be
one that was issued, and the payer's signature must be over it.
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

from florin_server.chains.solana import spl
from florin_server.chains.solana.limits import PACKET_BYTES, V1_BYTES, V1_FIRST_BYTE
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Option, ResolvedBuild
from florin_server.rails.solana.paying.message import WalletBounds, acceptable, restored
from florin_server.rails.solana.paying.terms import bare
from florin_server.rails.solana.settings import LAMPORTS_PER_SIGNATURE, SolanaChain
from florin_server.rails.types import NonceUnusable

_PAYER_AT = 1  # behind the relayer, in every message that we make
_MISMATCH = {"reason": "transaction_mismatch"}


@dataclass(frozen=True, slots=True)
class Submission:
    """A message that we made, as the payer signed it."""

    message: MessageV0
    signature: Signature

    @property
    def unsigned(self) -> bytes:
        """The transaction as the wallet returned it, the relayer's signature empty."""
        return bytes(
            VersionedTransaction.populate(self.message, [Signature.default(), self.signature])
        )


@dataclass(frozen=True, slots=True)
class IssuedMessage:
    """A message that was issued.

    No block above the height `last_valid` can hold it; or none that comes after its nonce got
    another value than it had in the final block `slot`. No block before the slot `head` can.
    """

    message: MessageV0
    head: int
    last_valid: int | None
    nonce: str | None = None
    slot: int = 0

    @classmethod
    def of(cls, issued: ResolvedBuild) -> IssuedMessage:
        """Reads back what was stored."""
        terms = issued.terms
        message = restored(str(terms["message"]))
        if (nonce := terms.get("nonce")) is not None:
            return cls(message, issued.head, None, str(nonce), int(str(terms["slot"])))
        return cls(message, issued.head, int(str(terms["last_valid"])))


def submission(outputs: Sequence[str]) -> Submission:
    """The one transaction in a wallet's outputs, signed by somebody as the payer."""
    if len(outputs) != 1:
        raise refused("unreadable_output", "One transaction was expected")
    transaction = _transaction(_wire(outputs[0]))
    message = transaction.message
    signatures = transaction.signatures
    if not isinstance(message, MessageV0) or len(signatures) != _PAYER_AT + 1:
        raise refused("transaction_mismatch", "The transaction is not the one that was issued")
    return Submission(message, signatures[_PAYER_AT])


def check(
    option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str], chain: SolanaChain
) -> Submission:
    """The submission, if it does what was issued and the payer signed it."""
    found = submission(outputs)
    ours = issue_of(found.message, issued)
    bounds = WalletBounds(chain.compute_price_max, chain.compute_units_max, chain.wallet_guards_max)
    if ours is None or not acceptable(ours.message, found.message, bounds):
        text = "The transaction is not the one that was issued"
        if _is_signed_with_a_nonce(option, found, issued):
            raise NonceUnusable(Code.INVALID_PARAMS, text, details=_MISMATCH)
        raise FlorinError(Code.INVALID_PARAMS, text, details=_MISMATCH)
    if (fee := highest_fee(found.message)) > chain.payment_fee_max:
        text = f"The transaction may cost {fee} lamports of fees, {chain.payment_fee_max} at most"
        raise refused("transaction_mismatch", f"{text} are paid for it")
    payer = Pubkey.from_string(bare(option.payer))
    content = to_bytes_versioned(found.message)
    if found.message.account_keys[_PAYER_AT] != payer or not found.signature.verify(payer, content):
        raise refused("signature_mismatch", "The signature is not the account's")
    return found


def _is_signed_with_a_nonce(
    option: Option, found: Submission, issued: Sequence[ResolvedBuild]
) -> bool:
    """Return True if the payer signed a change of a transaction that has a durable nonce.

    Nobody but the payer can, so nobody else can take the nonce away.
    """
    if not issued or not issued[0].has_nonce:
        return False
    signers = IssuedMessage.of(issued[0]).message.account_keys[: _PAYER_AT + 1]
    payer = Pubkey.from_string(bare(option.payer))
    content = to_bytes_versioned(found.message)
    same = found.message.account_keys[: _PAYER_AT + 1] == signers
    return same and found.signature.verify(payer, content)


def issue_of(message: MessageV0, issued: Sequence[ResolvedBuild]) -> IssuedMessage | None:
    """The issue that a message belongs to: no two share a blockhash, or a nonce and its value."""
    for one in map(IssuedMessage.of, issued):
        ours = one.nonce is None or spl.pubkey(one.nonce) in message.account_keys
        if ours and one.message.recent_blockhash == message.recent_blockhash:
            return one
    return None


def highest_fee(message: MessageV0) -> int:
    """What a transaction may cost whoever pays its fee, in lamports."""
    keys, units, price = message.account_keys, 0, 0
    for one in message.instructions:
        if keys[one.program_id_index] != spl.COMPUTE_BUDGET:
            continue
        data = bytes(one.data)
        if data[:1] == spl.COMPUTE_UNIT_PRICE:
            (price,) = struct.unpack("<Q", data[1:])
        else:
            (units,) = struct.unpack("<I", data[1:])
    signatures: int = message.header.num_required_signatures
    return LAMPORTS_PER_SIGNATURE * signatures - (-units * price // 1_000_000)


def refused(reason: str, message: str) -> FlorinError:
    """The refusal of a wallet's output."""
    return FlorinError(Code.INVALID_PARAMS, message, details={"reason": reason})


def _wire(output: str) -> bytes:
    """The bytes in an output: base64, alone or as the member `transaction` of an object."""
    try:
        value = orjson.loads(output)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict):
        value = value.get("transaction")
    if not isinstance(value, str):
        raise refused("unreadable_output", "The output is not a transaction")
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise refused("unreadable_output", "The output is not a transaction") from None
    is_v1 = raw[:1] == V1_FIRST_BYTE
    if len(raw) > (most := V1_BYTES if is_v1 else PACKET_BYTES):
        text = f"The transaction has {len(raw)} bytes, and clusters take {most}"
        raise refused("unreadable_output", text)
    if is_v1:
        text = "The transaction is of version 1, and the one that was issued is of version 0"
        raise refused("transaction_mismatch", text)
    return raw


def _transaction(raw: bytes) -> VersionedTransaction:
    """The transaction of exactly these bytes, its parts within bounds."""
    try:
        found = VersionedTransaction.from_bytes(raw)
        if bytes(found) != raw:
            raise ValueError("bytes are left over")
        found.sanitize()
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        raise
    except BaseException as fault:
        # a library in Rust panics with an error that is no Exception
        raise refused("unreadable_output", "The output is not a transaction") from fault
    return found
