"""Guards as wallets add them: assertions of the Lighthouse program, as bytes."""

from __future__ import annotations

import struct

from florin_server.chains.solana import spl
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

EQUAL, GREATER_OR_EQUAL, LESS_OR_EQUAL = 0, 4, 5
LAMPORTS, DATA_LENGTH, KNOWN_OWNER = 0, 1, 3
_AMOUNT = 2
_SYSTEM_OWNER = 0


def guard(key: Pubkey, data: bytes, *, signer: bool = False, writable: bool = False) -> Instruction:
    return Instruction(spl.LIGHTHOUSE, data, [AccountMeta(key, signer, writable)])


def lamports(key: Pubkey, value: int, operator: int = GREATER_OR_EQUAL) -> Instruction:
    """An account holds so many lamports; 12 bytes."""
    return guard(key, struct.pack("<BBBQB", 4, 0, LAMPORTS, value, operator))


def plain_account(key: Pubkey, value: int) -> Instruction:
    """An account holds so many lamports at least and is the system program's; 16 bytes."""
    both = struct.pack("<BQB", LAMPORTS, value, GREATER_OR_EQUAL)
    return guard(key, bytes([5, 0, 2]) + both + bytes([KNOWN_OWNER, _SYSTEM_OWNER, EQUAL]))


def tokens(place: Pubkey, value: int, operator: int = GREATER_OR_EQUAL) -> Instruction:
    """A token account holds so much; 12 bytes."""
    return guard(place, struct.pack("<BBBQB", 8, 0, _AMOUNT, value, operator))


def long_guard(key: Pubkey, count: int) -> Instruction:
    """An account holds no less than nothing, said so many times; 3 and 10 bytes each."""
    each = struct.pack("<BQB", LAMPORTS, 0, GREATER_OR_EQUAL)
    return guard(key, bytes([5, 0, count]) + each * count)


def as_phantom(
    own: list[Instruction], relayer: Pubkey, buyer: Pubkey, place: Pubkey, left: int, units: int
) -> list[Instruction]:
    """Instructions as Phantom returns them: three guards in front of the transfer, one behind.

    One of them reads the fee payer. `left` is what the buyer holds after the payment.
    """
    limit = Instruction(spl.COMPUTE_BUDGET, b"\x02" + struct.pack("<I", units), [])
    before = [plain_account(relayer, 1), tokens(place, 1), lamports(buyer, 0)]
    after = [tokens(place, left)]
    return [limit, own[1], *before, *own[2:], *after]
