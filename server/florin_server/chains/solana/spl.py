"""Solana's system and token programs: addresses, accounts and instructions, as bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from solders import system_program
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import AdvanceNonceAccountParams, TransferParams

SYSTEM: Final = Pubkey.from_string("11111111111111111111111111111111")
TOKEN: Final = Pubkey.from_string("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022: Final = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
ASSOCIATED: Final = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
MEMO: Final = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
COMPUTE_BUDGET: Final = Pubkey.from_string("ComputeBudget111111111111111111111111111111")
# guards that some wallets add: they read accounts and fail the transaction, nothing else
LIGHTHOUSE: Final = Pubkey.from_string("L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95")

PROGRAMS: Final = (TOKEN, TOKEN_2022)

MINT_BYTES: Final = 82
ACCOUNT_BYTES: Final = 165
COMPUTE_UNIT_LIMIT: Final = b"\x02"  # how its data begins
COMPUTE_UNIT_PRICE: Final = b"\x03"
LAMPORTS_PER_SOL: Final = 10**9
NONCE_BYTES: Final = 80
ADVANCE_NONCE: Final = struct.pack("<I", 4)

_RECENT_BLOCKHASHES = Pubkey.from_string("SysvarRecentB1ockHashes11111111111111111111")
_RENT = Pubkey.from_string("SysvarRent111111111111111111111111111111111")

# nobody has their keys: what they are sent stays there
SET_UP: Final = (
    *(SYSTEM, *PROGRAMS, ASSOCIATED, MEMO, COMPUTE_BUDGET, LIGHTHOUSE),
    *(_RECENT_BLOCKHASHES, _RENT),
)

_KIND_AT = ACCOUNT_BYTES  # where Token-2022 says what an extended account is
_MINT_KIND, _ACCOUNT_KIND = 1, 2
_FROZEN = 2


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """What an account of a token program holds, in minor units."""

    mint: Pubkey
    owner: Pubkey
    amount: int
    frozen: bool


@dataclass(frozen=True, slots=True)
class Mint:
    """A token. `extensions` are the type numbers of Token-2022's additions to it."""

    decimals: int
    extensions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Nonce:
    """A durable nonce: who may advance it, and what stands for a blockhash until then."""

    authority: Pubkey
    value: Hash


def pubkey(text: str) -> Pubkey:
    """The key that a text names, each in one spelling. ValueError if it is none."""
    try:
        return Pubkey.from_string(text)
    except ValueError:
        raise ValueError("not a Solana address") from None


@lru_cache(maxsize=4096)
def associated(owner: Pubkey, mint: Pubkey, program: Pubkey) -> Pubkey:
    """The address where an owner holds a token unless it decided otherwise."""
    seeds = [bytes(owner), bytes(program), bytes(mint)]
    return Pubkey.find_program_address(seeds, ASSOCIATED)[0]


def keeps(lamports: int, value: int, rent: int) -> bool:
    """True if an account can give coin away: what is left is nothing, or enough to exist."""
    return lamports == value or lamports - value >= rent


def token_account(data: bytes) -> TokenAccount | None:
    """Reads a token account; None if the bytes are none that is in use."""
    extended = len(data) > _KIND_AT and data[_KIND_AT] == _ACCOUNT_KIND
    if not (len(data) == ACCOUNT_BYTES or extended) or not data[108]:
        return None
    return TokenAccount(
        mint=Pubkey.from_bytes(data[:32]),
        owner=Pubkey.from_bytes(data[32:64]),
        amount=int.from_bytes(data[64:72], "little"),
        frozen=data[108] == _FROZEN,
    )


def mint_of(data: bytes) -> Mint | None:
    """Reads a token's mint; None if the bytes are none that is in use."""
    extended = len(data) > _KIND_AT and data[_KIND_AT] == _MINT_KIND
    if not (len(data) == MINT_BYTES or extended) or not data[45]:
        return None
    found, at = set(), _KIND_AT + 1
    while at + 4 <= len(data):
        kind, size = struct.unpack_from("<HH", data, at)
        if kind == 0:
            break
        found.add(kind)
        at += 4 + size
    return Mint(decimals=data[44], extensions=frozenset(found))


def transfer_coin(payer: Pubkey, dest: Pubkey, lamports: int) -> Instruction:
    """Moves coin; the payer signs."""
    return system_program.transfer(
        TransferParams(from_pubkey=payer, to_pubkey=dest, lamports=lamports)
    )


def nonce_of(data: bytes) -> Nonce | None:
    """Reads a nonce account; None if the bytes are none that is in use."""
    if len(data) != NONCE_BYTES or data[:8] != struct.pack("<II", 1, 1):
        return None
    return Nonce(Pubkey.from_bytes(data[8:40]), Hash.from_bytes(data[40:72]))


def create_nonce(payer: Pubkey, seed: str, lamports: int) -> tuple[Instruction, Instruction]:
    """Makes the payer's nonce account of a seed, which only the payer may advance."""
    return system_program.create_nonce_account_with_seed(
        from_pubkey=payer,
        nonce_pubkey=nonce_address(payer, seed),
        base=payer,
        seed=seed,
        authority=payer,
        lamports=lamports,
    )


def nonce_address(payer: Pubkey, seed: str) -> Pubkey:
    """Where the nonce account of a seed is."""
    return Pubkey.create_with_seed(payer, seed, SYSTEM)


def advance_nonce(nonce: Pubkey, authority: Pubkey) -> Instruction:
    """Gives a nonce another value; in front of a transaction it lets the old one be used once."""
    return system_program.advance_nonce_account(
        AdvanceNonceAccountParams(nonce_pubkey=nonce, authorized_pubkey=authority)
    )


def create_associated(payer: Pubkey, owner: Pubkey, mint: Pubkey, program: Pubkey) -> Instruction:
    """Makes the owner's account for a token, paid by `payer`; nothing happens if it exists."""
    return Instruction(
        ASSOCIATED,
        b"\x01",
        [
            AccountMeta(payer, is_signer=True, is_writable=True),
            AccountMeta(associated(owner, mint, program), is_signer=False, is_writable=True),
            AccountMeta(owner, is_signer=False, is_writable=False),
            AccountMeta(mint, is_signer=False, is_writable=False),
            AccountMeta(SYSTEM, is_signer=False, is_writable=False),
            AccountMeta(program, is_signer=False, is_writable=False),
        ],
    )


def transfer_checked(
    program: Pubkey,
    mint: Pubkey,
    decimals: int,
    *,
    owner: Pubkey,
    source: Pubkey,
    dest: Pubkey,
    amount: int,
) -> Instruction:
    """Moves an amount between two accounts of a token; the owner of the source signs."""
    return Instruction(
        program,
        struct.pack("<BQB", 12, amount, decimals),
        [
            AccountMeta(source, is_signer=False, is_writable=True),
            AccountMeta(mint, is_signer=False, is_writable=False),
            AccountMeta(dest, is_signer=False, is_writable=True),
            AccountMeta(owner, is_signer=True, is_writable=False),
        ],
    )


def mint_to(
    program: Pubkey, mint: Pubkey, dest: Pubkey, authority: Pubkey, amount: int
) -> Instruction:
    """Makes new units of a token."""
    return Instruction(
        program,
        struct.pack("<BQ", 7, amount),
        [
            AccountMeta(mint, is_signer=False, is_writable=True),
            AccountMeta(dest, is_signer=False, is_writable=True),
            AccountMeta(authority, is_signer=True, is_writable=False),
        ],
    )


def memo(text: str) -> Instruction:
    """A note that everybody can read."""
    return Instruction(MEMO, text.encode(), [])
