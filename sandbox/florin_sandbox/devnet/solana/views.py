"""The JSON of transactions for callers."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

from solders.instruction import CompiledInstruction
from solders.message import Message, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_sandbox.devnet.solana import parsed
from florin_sandbox.devnet.solana.params import encode_base58

_OUTERMOST: Final = 1  # the call depth of the message's own instructions


def build_transaction_view(transaction: VersionedTransaction, raw: bytes, encoding: str) -> Any:
    """Return a transaction as bytes, or with its message parsed."""
    if encoding == "base64":
        return [base64.b64encode(raw).decode(), "base64"]
    if encoding == "base58":
        return [encode_base58(raw), "base58"]
    build_message = _build_parsed_message if encoding == "jsonParsed" else _build_message
    return {
        "signatures": [str(signature) for signature in transaction.signatures],
        "message": build_message(transaction.message),
    }


def _build_parsed_message(message: Message | MessageV0 | MessageV1) -> dict[str, Any]:
    keys = message.account_keys
    view: dict[str, Any] = {
        "accountKeys": [
            {
                "pubkey": str(pubkey),
                "writable": _is_writable(message, at),
                "signer": message.is_signer(at),
                "source": "transaction",
            }
            for at, pubkey in enumerate(keys)
        ],
        "recentBlockhash": str(message.recent_blockhash),
        "instructions": [
            _build_parsed_instruction(compiled_instruction, keys)
            for compiled_instruction in message.instructions
        ],
    }
    if isinstance(message, MessageV0):
        view["addressTableLookups"] = []
    return view


def _is_writable(message: Message | MessageV0 | MessageV1, index: int) -> bool:
    header = message.header
    signers, count = header.num_required_signatures, len(message.account_keys)
    if index < signers:
        return index < signers - header.num_readonly_signed_accounts
    return index < count - header.num_readonly_unsigned_accounts


def _build_parsed_instruction(
    instruction: CompiledInstruction, keys: Sequence[Pubkey]
) -> dict[str, Any]:
    program, data = keys[instruction.program_id_index], bytes(instruction.data)
    accounts = [keys[at] for at in bytes(instruction.accounts)]
    view = parsed.parse_instruction(program, data, accounts) or {
        "programId": str(program),
        "accounts": [str(account) for account in accounts],
        "data": encode_base58(data),
    }
    return {**view, "stackHeight": _OUTERMOST}


def _build_message(message: Message | MessageV0 | MessageV1) -> dict[str, Any]:
    header = message.header
    view: dict[str, Any] = {
        "header": {
            "numRequiredSignatures": header.num_required_signatures,
            "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
            "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
        },
        "accountKeys": [str(pubkey) for pubkey in message.account_keys],
        "recentBlockhash": str(message.recent_blockhash),
        "instructions": [
            {
                "programIdIndex": compiled_instruction.program_id_index,
                "accounts": list(bytes(compiled_instruction.accounts)),
                "data": encode_base58(bytes(compiled_instruction.data)),
                "stackHeight": _OUTERMOST,
            }
            for compiled_instruction in message.instructions
        ],
    }
    if isinstance(message, MessageV0):
        # lookup tables cannot exist here: transactions that use them do not execute
        view["addressTableLookups"] = []
    return view
