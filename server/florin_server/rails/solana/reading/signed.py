"""Signed transactions in a node's answers, whose signatures prove what they contain."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any

from solders.message import Message, MessageV0
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from florin_server.domain.chains.solana import spl
from florin_server.rails.solana.paying.terms import AnyMessage
from florin_server.rails.solana.reading.node import parse_object


def find_signed_message(answer: Any, signature: Signature) -> AnyMessage | None:
    """Return the message of the transaction with a signature, if all signatures are valid.

    Return None otherwise.
    """
    content = parse_object(answer).get("transaction")
    if not isinstance(content, list) or not content or not isinstance(content[0], str):
        return None
    try:
        versioned_transaction = VersionedTransaction.from_bytes(
            base64.b64decode(content[0], validate=True)
        )
        versioned_transaction.sanitize()
        is_valid = versioned_transaction.signatures[:1] == [signature] and all(
            versioned_transaction.verify_with_results()
        )
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        raise
    except (binascii.Error, ValueError):
        return None
    except BaseException:  # noqa: BLE001  (a library in Rust panics with an error that is not an Exception)
        return None
    message = versioned_transaction.message
    return message if is_valid and isinstance(message, Message | MessageV0) else None


def list_memos(message: AnyMessage) -> list[str]:
    """Return the notes of a message's own instructions, in order."""
    keys = message.account_keys
    return [
        bytes(compiled_instruction.data).decode(errors="replace")
        for compiled_instruction in message.instructions
        if keys[compiled_instruction.program_id_index] == spl.MEMO
    ]
