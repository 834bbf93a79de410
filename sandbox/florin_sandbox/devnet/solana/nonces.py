"""Durable nonces: accounts whose value acts as a blockhash, once."""

from __future__ import annotations

import hashlib
from typing import Final, TypeAlias

from florin_server.domain.chains.solana import spl
from solders.account import Account
from solders.hash import Hash
from solders.message import Message, MessageV0, MessageV1
from solders.pubkey import Pubkey

_VALUE_AT: Final = 40

AnyMessage: TypeAlias = Message | MessageV0 | MessageV1


def find_nonce(message: AnyMessage) -> tuple[Pubkey, Pubkey] | None:
    """Return a message's nonce account and authority; None if it uses no nonce."""
    if not message.instructions:
        return None
    first, keys = message.instructions[0], message.account_keys
    at = bytes(first.accounts)
    if keys[first.program_id_index] != spl.SYSTEM or bytes(first.data) != spl.ADVANCE_NONCE:
        return None
    if len(at) < 3 or not message.is_signer(at[2]):
        return None
    return keys[at[0]], keys[at[2]]


def has_value(account: Account | None, value: Hash, authority: Pubkey) -> bool:
    """Return True if a nonce account has the value, and the authority can use it."""
    if account is None or account.owner != spl.SYSTEM:
        return False
    return spl.parse_nonce(bytes(account.data)) == spl.DurableNonce(authority, value)


def advance_nonce(account: Account) -> Account:
    """Return a nonce account with its next value: a failed transaction uses its nonce up too."""
    data = bytearray(account.data)
    value = bytes(data[_VALUE_AT : _VALUE_AT + 32])
    data[_VALUE_AT : _VALUE_AT + 32] = hashlib.sha256(b"DURABLE_NONCE" + value).digest()
    return Account(account.lamports, bytes(data), account.owner, account.executable)
