"""Transactions in the JSON that callers get."""

from __future__ import annotations

import base64
from typing import Any

from solders.message import Message, MessageV0, MessageV1
from solders.transaction import VersionedTransaction

from florin_server.devnet.solana.params import base58


def transaction_view(transaction: VersionedTransaction, raw: bytes, encoding: str) -> Any:
    """A transaction as bytes, or its message taken apart."""
    if encoding == "base64":
        return [base64.b64encode(raw).decode(), "base64"]
    if encoding == "base58":
        return [base58(raw), "base58"]
    return {
        "signatures": [str(one) for one in transaction.signatures],
        "message": _message(transaction.message),
    }


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
                "stackHeight": None,
            }
            for one in message.instructions
        ],
    }
    if isinstance(message, MessageV0):
        # nobody can have made a lookup table here: transactions that use one do not execute
        view["addressTableLookups"] = []
    return view
