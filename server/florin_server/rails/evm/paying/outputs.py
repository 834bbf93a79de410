"""Outputs of wallets that sign: the signature, and a signed approval before it."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.signatures import parse_hex
from florin_server.domain.chains.evm.typed_data import TokenPermit, get_digest
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import PaymentOption
from florin_server.rails.evm.paying import erc6492
from florin_server.rails.evm.paying.erc6492 import is_wrapped
from florin_server.rails.evm.paying.terms import (
    PERMIT,
    EvmOptionTerms,
    build_proof,
    to_address,
)

SIGNATURE_BYTES_MIN = 64
SIGNATURE_BYTES_MAX = 4096  # a wallet with a dozen passkey owners needs less


def parse_signature(option: PaymentOption, outputs: Sequence[str]) -> bytes:
    """Return the signature, which is the last of a wallet's outputs.

    A hash of an approval before it proves nothing and is not read. A signed approval before it
    becomes a part: the call that submits it is wrapped around the signature, as the creation of an
    account is.
    """
    if len(outputs) != len(option.actions):
        raise build_output_refusal("unreadable_output", "One output for each action was expected")
    signature = _parse_signature_output(outputs[-1])
    terms, payer = EvmOptionTerms.from_option(option), to_address(option.payer)
    if (permit := terms.build_permit(payer)) is None:
        return signature
    proof = build_proof(get_digest(permit), payer, _parse_signature_output(outputs[-2]))
    if not proof.is_key_signature or is_wrapped(signature):
        raise build_output_refusal("signature_mismatch", "The signature is not the account's")
    call = encode_permit_call(permit, proof.signature)
    return erc6492.WrappedSignature(terms.route.token, call, signature).encode()


def encode_permit_call(permit: TokenPermit, signature: bytes) -> bytes:
    """Encode the call that gives a token a signed approval; the signature is canonical."""
    return b"".join(
        (
            PERMIT,
            abi.encode_address(permit.owner),
            abi.encode_address(permit.spender),
            abi.encode_uint256(permit.value),
            abi.encode_uint256(permit.deadline),
            abi.encode_uint256(signature[64]),
            signature[:64],
        )
    )


def _parse_signature_output(output: str) -> bytes:
    try:
        signature = parse_hex(orjson.loads(output), SIGNATURE_BYTES_MAX)
    except ValueError:
        raise build_output_refusal("unreadable_output", "The output is not a signature") from None
    if len(signature) < SIGNATURE_BYTES_MIN:
        raise build_output_refusal("unreadable_output", "The output is too short for a signature")
    return signature


def build_output_refusal(reason: str, message: str, **more: str) -> ApiError:
    """Build the refusal of a wallet's output."""
    return ApiError(ErrorCode.INVALID_PARAMS, message, details={"reason": reason, **more})
