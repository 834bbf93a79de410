"""Transfers to a merchant for a payment's address: who sent what, and whether it pays.

Anyone can name the address, in any transaction. So the transfer itself must name it, and nothing
else: then one transfer can never pay two payments. Clients of x402 cannot name it there: for them
the transaction has one transfer, and the address as its only note. A transaction with the note of
an option, or of another payment, is the payment of that one, and no other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from solders.pubkey import Pubkey

from florin_server.domain.chains.solana import spl
from florin_server.rails.solana.paying.terms import AnyMessage, SolanaOptionTerms
from florin_server.rails.solana.reading.evidence import TransactionRecord, is_moved
from florin_server.rails.solana.reading.signed import list_memos

_REFERENCE: Final = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}")
_TRANSFER_CHECKED: Final = 12
_COIN_TRANSFER: Final = (2).to_bytes(4, "little")
# the accounts of a transfer, before those that it only names
_TOKEN_ACCOUNTS: Final = 4
_COIN_ACCOUNTS: Final = 2


@dataclass(frozen=True, slots=True)
class NamedTransfer:
    """A transfer for a payment's address: its program, token, receiving account and sender."""

    program: Pubkey
    mint: Pubkey
    dest: Pubkey
    sender: Pubkey


def find_named_transfer(message: AnyMessage, address: str) -> NamedTransfer | None:
    """Return the only transfer of a message that names an address, and no other address."""
    named = spl.parse_pubkey(address)
    transfers = [
        transfer
        for program, data, accounts in _list_instructions(message)
        if named in accounts and (transfer := _parse_transfer(program, data, accounts, named=1))
    ]
    return transfers[0] if len(transfers) == 1 else None


def find_paying_transfer(message: AnyMessage, address: str) -> NamedTransfer | None:
    """Return the transfer of a message that can pay the payment with an address; None if none can.

    No transfer can pay the payments of two addresses.
    """
    memos = list_memos(message)
    if memos == [address]:
        transfers = [
            transfer
            for program, data, accounts in _list_instructions(message)
            if (transfer := _parse_transfer(program, data, accounts, named=0))
        ]
        return transfers[0] if len(transfers) == 1 else None
    if any(_REFERENCE.fullmatch(memo) for memo in memos):
        return None
    return find_named_transfer(message, address)


def is_paid_by_transfer(
    terms: SolanaOptionTerms, payer: str, message: AnyMessage, record: TransactionRecord
) -> bool:
    """Return True if a transfer of the payer is for the address, and moved exactly the price."""
    transfer = find_paying_transfer(message, terms.named)
    if transfer is None:
        return False
    expected = NamedTransfer(
        spl.parse_pubkey(terms.program),
        spl.parse_pubkey(terms.mint),
        terms.get_token_address(terms.dest),
        spl.parse_pubkey(payer),
    )
    return transfer == expected and is_moved(terms, payer, message, record)


def _list_instructions(message: AnyMessage) -> list[tuple[Pubkey, bytes, list[Pubkey]]]:
    keys = message.account_keys
    return [
        (
            keys[compiled_instruction.program_id_index],
            bytes(compiled_instruction.data),
            [keys[index] for index in bytes(compiled_instruction.accounts) if index < len(keys)],
        )
        for compiled_instruction in message.instructions
        if compiled_instruction.program_id_index < len(keys)
    ]


def _parse_transfer(
    program: Pubkey, data: bytes, accounts: list[Pubkey], *, named: int
) -> NamedTransfer | None:
    """Return a transfer with `named` more accounts than it needs; None for all else."""
    if program in spl.PROGRAMS and data[:1] == bytes([_TRANSFER_CHECKED]):
        if len(accounts) != _TOKEN_ACCOUNTS + named:
            return None
        _, mint, dest, sender, *_ = accounts
        return NamedTransfer(program, mint, dest, sender)
    if program == spl.SYSTEM and data[:4] == _COIN_TRANSFER:
        if len(accounts) != _COIN_ACCOUNTS + named:
            return None
        sender, dest, *_ = accounts
        return NamedTransfer(program, spl.SYSTEM, dest, sender)
    return None
