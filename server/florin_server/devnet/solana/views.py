"""Transactions in the JSON that callers get."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

from solders.instruction import CompiledInstruction
from solders.message import Message, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_server.devnet.solana import parsed
from florin_server.devnet.solana.params import base58

_OUTERMOST: Final = 1  # how deep an instruction of the message itself is called


def transaction_view(transaction: VersionedTransaction, raw: bytes, encoding: str) -> Any:
    """A transaction as bytes, or its message taken apart."""
    if encoding == "base64":
        return [base64.b64encode(raw).decode(), "base64"]
    if encoding == "base58":
        return [base58(raw), "base58"]
    told = _parsed if encoding == "jsonParsed" else _message
    return {
        "signatures": [str(one) for one in transaction.signatures],
        "message": told(transaction.message),
    }


def _parsed(message: Message | MessageV0 | MessageV1) -> dict[str, Any]:
    keys = message.account_keys
    view: dict[str, Any] = {
        "accountKeys": [
            {
                "pubkey": str(one),
                "writable": _is_writable(message, at),
                "signer": message.is_signer(at),
                "source": "transaction",
            }
            for at, one in enumerate(keys)
        ],
        "recentBlockhash": str(message.recent_blockhash),
        "instructions": [_parsed_instruction(one, keys) for one in message.instructions],
    }
    if isinstance(message, MessageV0):
        view["addressTableLookups"] = []
    return view


def _is_writable(message: Message | MessageV0 | MessageV1, at: int) -> bool:
    header = message.header
    signers, count = header.num_required_signatures, len(message.account_keys)
    if at < signers:
        return at < signers - header.num_readonly_signed_accounts
    return at < count - header.num_readonly_unsigned_accounts


def _parsed_instruction(one: CompiledInstruction, keys: Sequence[Pubkey]) -> dict[str, Any]:
    program, data = keys[one.program_id_index], bytes(one.data)
    accounts = [keys[at] for at in bytes(one.accounts)]
    told = parsed.instruction(program, data, accounts) or {
        "programId": str(program),
        "accounts": [str(account) for account in accounts],
        "data": base58(data),
    }
    return {**told, "stackHeight": _OUTERMOST}


def _message(message: Message | MessageV0 | MessageV1) -> dict[str, Any]:
    header = message.header
    view: dict[str, Any] = {
        "header": {
            "numRequiredSignatures": header.num_required_signatures,
            "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
            "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
        },
        "accountKeys": [str(one) for one in message.account_keys],
        "recentBlockhash": str(message.recent_blockhash),
        "instructions": [
            {
                "programIdIndex": one.program_id_index,
                "accounts": list(bytes(one.accounts)),
                "data": base58(bytes(one.data)),
                "stackHeight": _OUTERMOST,
            }
            for one in message.instructions
        ],
    }
    if isinstance(message, MessageV0):
        # nobody can have made a lookup table here: transactions that use one do not execute
        view["addressTableLookups"] = []
    return view
