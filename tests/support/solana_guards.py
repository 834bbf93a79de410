"""Guards as wallets add them: assertions of the Lighthouse program, as bytes."""

from __future__ import annotations

import struct

from florin_server.domain.chains.solana import spl
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

EQUAL, GREATER_OR_EQUAL, LESS_OR_EQUAL = 0, 4, 5
LAMPORTS, DATA_LENGTH, KNOWN_OWNER = 0, 1, 3
_AMOUNT = 2
_SYSTEM_OWNER = 0


def make_guard(
    key: Pubkey, data: bytes, *, signer: bool = False, writable: bool = False
) -> Instruction:
    return Instruction(spl.LIGHTHOUSE, data, [AccountMeta(key, signer, writable)])


def make_lamports_guard(key: Pubkey, value: int, operator: int = GREATER_OR_EQUAL) -> Instruction:
    """Assert that an account holds so many lamports; 12 bytes."""
    return make_guard(key, struct.pack("<BBBQB", 4, 0, LAMPORTS, value, operator))


def make_plain_account_guard(key: Pubkey, value: int) -> Instruction:
    """Assert that a system program's account holds at least so many lamports; 16 bytes."""
    both = struct.pack("<BQB", LAMPORTS, value, GREATER_OR_EQUAL)
    return make_guard(key, bytes([5, 0, 2]) + both + bytes([KNOWN_OWNER, _SYSTEM_OWNER, EQUAL]))


def make_tokens_guard(place: Pubkey, value: int, operator: int = GREATER_OR_EQUAL) -> Instruction:
    """Assert that a token account holds so much; 12 bytes."""
    return make_guard(place, struct.pack("<BBBQB", 8, 0, _AMOUNT, value, operator))


def make_long_guard(key: Pubkey, count: int) -> Instruction:
    """Assert `count` times that an account holds at least nothing; 3 and 10 bytes each."""
    each = struct.pack("<BQB", LAMPORTS, 0, GREATER_OR_EQUAL)
    return make_guard(key, bytes([5, 0, count]) + each * count)


def add_phantom_guards(
    own: list[Instruction], relayer: Pubkey, buyer: Pubkey, place: Pubkey, left: int, units: int
) -> list[Instruction]:
    """Return instructions as Phantom does: three guards before the transfer, one behind.

    One of them reads the fee payer. `left` is the buyer's balance after the payment.
    """
    limit = Instruction(spl.COMPUTE_BUDGET, b"\x02" + struct.pack("<I", units), [])
    before = [
        make_plain_account_guard(relayer, 1),
        make_tokens_guard(place, 1),
        make_lamports_guard(buyer, 0),
    ]
    after = [make_tokens_guard(place, left)]
    return [limit, own[1], *before, *own[2:], *after]
