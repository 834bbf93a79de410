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
ASSOCIATED_TOKEN: Final = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
MEMO: Final = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
COMPUTE_BUDGET: Final = Pubkey.from_string("ComputeBudget111111111111111111111111111111")
# guards that some wallets add: they read accounts and can fail the transaction, nothing else
LIGHTHOUSE: Final = Pubkey.from_string("L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95")

PROGRAMS: Final = (TOKEN, TOKEN_2022)

MINT_BYTES: Final = 82
ACCOUNT_BYTES: Final = 165
COMPUTE_UNIT_LIMIT: Final = b"\x02"  # the first byte of its data
COMPUTE_UNIT_PRICE: Final = b"\x03"
LAMPORTS_PER_SOL: Final = 10**9
NONCE_BYTES: Final = 80
ADVANCE_NONCE: Final = struct.pack("<I", 4)

_RECENT_BLOCKHASHES = Pubkey.from_string("SysvarRecentB1ockHashes11111111111111111111")
_RENT = Pubkey.from_string("SysvarRent111111111111111111111111111111111")

# no keys exist for them: money sent there stays there
RESERVED_ADDRESSES: Final = (
    *(SYSTEM, *PROGRAMS, ASSOCIATED_TOKEN, MEMO, COMPUTE_BUDGET, LIGHTHOUSE),
    *(_RECENT_BLOCKHASHES, _RENT),
)

_KIND_AT = ACCOUNT_BYTES  # the position of Token-2022's type of an extended account
_MINT_KIND, _ACCOUNT_KIND = 1, 2
_FROZEN = 2


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """The content of a token program's account, in minor units."""

    mint: Pubkey
    owner: Pubkey
    amount: int
    frozen: bool


@dataclass(frozen=True, slots=True)
class TokenMint:
    """A token. `extensions` are the type numbers of its Token-2022 extensions."""

    decimals: int
    extensions: frozenset[int]


@dataclass(frozen=True, slots=True)
class DurableNonce:
    """A durable nonce: its authority, and the value that acts as a blockhash until it advances."""

    authority: Pubkey
    value: Hash


def parse_pubkey(text: str) -> Pubkey:
    """Return the key of a text, which has a single spelling; raise ValueError if it is invalid."""
    try:
        return Pubkey.from_string(text)
    except ValueError:
        raise ValueError("not a Solana address") from None


@lru_cache(maxsize=4096)
def derive_associated_address(owner: Pubkey, mint: Pubkey, program: Pubkey) -> Pubkey:
    """Return the default address at which an owner holds a token."""
    seeds = [bytes(owner), bytes(program), bytes(mint)]
    return Pubkey.find_program_address(seeds, ASSOCIATED_TOKEN)[0]


def is_rent_safe(lamports: int, value: int, rent: int) -> bool:
    """Return True if an account can give coin: the rest is zero, or enough to exist."""
    return lamports == value or lamports - value >= rent


def parse_token_account(data: bytes) -> TokenAccount | None:
    """Parse a token account; return None if the bytes are not a token account in use."""
    extended = len(data) > _KIND_AT and data[_KIND_AT] == _ACCOUNT_KIND
    if not (len(data) == ACCOUNT_BYTES or extended) or not data[108]:
        return None
    return TokenAccount(
        mint=Pubkey.from_bytes(data[:32]),
        owner=Pubkey.from_bytes(data[32:64]),
        amount=int.from_bytes(data[64:72], "little"),
        frozen=data[108] == _FROZEN,
    )


def parse_mint(data: bytes) -> TokenMint | None:
    """Parse a token's mint; return None if the bytes are not a mint in use."""
    extended = len(data) > _KIND_AT and data[_KIND_AT] == _MINT_KIND
    if not (len(data) == MINT_BYTES or extended) or not data[45]:
        return None
    extensions, at = set(), _KIND_AT + 1
    while at + 4 <= len(data):
        kind, size = struct.unpack_from("<HH", data, at)
        if kind == 0:
            break
        extensions.add(kind)
        at += 4 + size
    return TokenMint(decimals=data[44], extensions=frozenset(extensions))


def transfer_coin(payer: Pubkey, dest: Pubkey, lamports: int) -> Instruction:
    """Return an instruction that moves coin; the payer signs."""
    return system_program.transfer(
        TransferParams(from_pubkey=payer, to_pubkey=dest, lamports=lamports)
    )


def parse_nonce(data: bytes) -> DurableNonce | None:
    """Parse a nonce account; return None if the bytes are not a nonce account in use."""
    if len(data) != NONCE_BYTES or data[:8] != struct.pack("<II", 1, 1):
        return None
    return DurableNonce(Pubkey.from_bytes(data[8:40]), Hash.from_bytes(data[40:72]))


def create_nonce(payer: Pubkey, seed: str, lamports: int) -> tuple[Instruction, Instruction]:
    """Return instructions that create the payer's nonce account of a seed."""
    return system_program.create_nonce_account_with_seed(
        from_pubkey=payer,
        nonce_pubkey=derive_nonce_address(payer, seed),
        base=payer,
        seed=seed,
        authority=payer,
        lamports=lamports,
    )


def derive_nonce_address(payer: Pubkey, seed: str) -> Pubkey:
    """Return the address of a seed's nonce account."""
    return Pubkey.create_with_seed(payer, seed, SYSTEM)


def advance_nonce(nonce: Pubkey, authority: Pubkey) -> Instruction:
    """Return an instruction that advances a nonce.

    In first place it permits one use of the old value.
    """
    return system_program.advance_nonce_account(
        AdvanceNonceAccountParams(nonce_pubkey=nonce, authorized_pubkey=authority)
    )


def create_associated_account(
    payer: Pubkey, owner: Pubkey, mint: Pubkey, program: Pubkey
) -> Instruction:
    """Return an instruction that creates an owner's token account, unless it exists.

    `payer` pays for it.
    """
    return Instruction(
        ASSOCIATED_TOKEN,
        b"\x01",
        [
            AccountMeta(payer, is_signer=True, is_writable=True),
            AccountMeta(
                derive_associated_address(owner, mint, program), is_signer=False, is_writable=True
            ),
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
    """Return an instruction that moves tokens between two accounts; the source's owner signs."""
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
    """Return an instruction that mints units of a token."""
    return Instruction(
        program,
        struct.pack("<BQ", 7, amount),
        [
            AccountMeta(mint, is_signer=False, is_writable=True),
            AccountMeta(dest, is_signer=False, is_writable=True),
            AccountMeta(authority, is_signer=True, is_writable=False),
        ],
    )


def create_memo(text: str) -> Instruction:
    """Return an instruction with a public note."""
    return Instruction(MEMO, text.encode(), [])
