"""Test reading and writing for Solana's programs against solders."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from florin_server.domain.chains.solana import spl
from hypothesis import given
from hypothesis import strategies as st
from solders import system_program
from solders.hash import Hash
from solders.instruction import AccountMeta
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from solders.token.state import Mint, TokenAccount, TokenAccountState

PAYER, OWNER, MINT, SOURCE, DEST = (Pubkey([number] * 32) for number in range(1, 6))
TEXT = str(PAYER)
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
RECENT = Pubkey.from_string("SysvarRecentB1ockHashes11111111111111111111")

INITIALIZED = TokenAccountState.Initialized  # type: ignore[attr-defined]  # missing from its stubs
FROZEN = TokenAccountState.Frozen  # type: ignore[attr-defined]


def signs(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=True, is_writable=True)


def confirms(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=True, is_writable=False)


def changes(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=False, is_writable=True)


def reads(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=False, is_writable=False)


def account_bytes(state=INITIALIZED, amount: int = 2**63 + 5) -> bytes:
    # with a delegate, whose marker is right after the amount
    return bytes(TokenAccount(MINT, OWNER, amount, PAYER, state, None, 0, None))


def mint_bytes(decimals: int = 9) -> bytes:
    return bytes(Mint(PAYER, 1_000, decimals, is_initialized=True, freeze_authority=None))


def test_public_key_has_a_single_spelling():
    assert spl.parse_pubkey(TEXT) == PAYER
    for wrong in (
        "",
        TEXT[:-1],
        TEXT + "11",
        "1" + TEXT,
        f" {TEXT}",
        "0" + TEXT[1:],
        "0x" + "11" * 20,
    ):
        with pytest.raises(ValueError, match="^not a Solana address$"):
            spl.parse_pubkey(wrong)


@given(st.text(BASE58, min_size=43, max_size=44))
def test_no_text_is_taken_for_another(text):
    with suppress(ValueError):
        assert str(spl.parse_pubkey(text)) == text


def test_a_token_account_is_read():
    token_account = spl.parse_token_account(account_bytes())
    assert token_account == spl.TokenAccount(MINT, OWNER, 2**63 + 5, frozen=False)
    frozen = spl.parse_token_account(account_bytes(FROZEN))
    assert frozen is not None
    assert frozen.frozen


def test_an_extended_token_account_is_read():
    token_account = spl.parse_token_account(account_bytes() + b"\x02" + struct.pack("<HH", 7, 0))
    assert token_account == spl.TokenAccount(MINT, OWNER, 2**63 + 5, frozen=False)
    assert spl.parse_token_account(account_bytes() + b"\x02") == token_account


@pytest.mark.parametrize(
    "data",
    [
        b"",
        account_bytes()[:-1],
        account_bytes()[:108] + b"\x00" + account_bytes()[109:],
        account_bytes() + b"\x00",
        account_bytes() + b"\x01\x02",
        mint_bytes(),
    ],
    ids=["nothing", "too short", "not in use", "too long", "a mint's kind", "a mint"],
)
def test_invalid_token_account_is_not_parsed(data):
    assert spl.parse_token_account(data) is None


def test_a_mint_is_read():
    assert spl.parse_mint(mint_bytes()) == spl.TokenMint(9, frozenset())


def extended_mint(*extensions: tuple[int, bytes], rest: bytes = b"") -> bytes:
    result = b"".join(struct.pack("<HH", kind, len(value)) + value for kind, value in extensions)
    return mint_bytes(6).ljust(spl.ACCOUNT_BYTES, b"\x00") + b"\x01" + result + rest


@pytest.mark.parametrize(
    ("data", "extensions"),
    [
        (extended_mint(), []),
        (extended_mint((1, b"x" * 108)), [1]),
        (extended_mint((258, b"x" * 9), (3, b"x")), [3, 258]),
        (extended_mint((18, b"")), [18]),
        (extended_mint((0x8001, b"x"), (19, b"")), [19, 0x8001]),
        (extended_mint((18, b"x"), rest=b"\x01\x00\x00"), [18]),
        (extended_mint((18, b"x"), (0, b"x"), (5, b"x")), [18]),
        # the last extension claims to be longer than the account
        (extended_mint(rest=b"\x0e\x00\xff\xff"), [14]),
    ],
)
def test_mint_extensions_are_parsed(data, extensions):
    assert spl.parse_mint(data) == spl.TokenMint(6, frozenset(extensions))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        mint_bytes()[:-1],
        mint_bytes()[:45] + b"\x00" + mint_bytes()[46:],
        mint_bytes() + b"\x00",
        account_bytes(),
        account_bytes() + b"\x02",
    ],
    ids=["nothing", "too short", "not in use", "too long", "an account", "an account's kind"],
)
def test_invalid_mint_is_not_parsed(data):
    assert spl.parse_mint(data) is None


def nonce_bytes(version: int = 1, state: int = 1) -> bytes:
    return struct.pack("<II", version, state) + bytes(PAYER) + b"\x07" * 32 + struct.pack("<Q", 5)


def test_a_nonce_account_is_read():
    assert spl.parse_nonce(nonce_bytes()) == spl.DurableNonce(PAYER, Hash(b"\x07" * 32))
    for other in (b"", nonce_bytes()[:-1], nonce_bytes() + b"\x00"):
        assert spl.parse_nonce(other) is None
    assert spl.parse_nonce(nonce_bytes(state=0)) is None
    assert spl.parse_nonce(nonce_bytes(version=0)) is None


@pytest.mark.parametrize(
    ("lamports", "value", "possible"),
    [(100, 100, True), (100, 101, False), (100, 99, False), (100, 90, True), (100, 91, False)],
)
def test_remaining_balance_must_be_zero_or_rent_exempt(lamports, value, possible):
    assert spl.is_rent_safe(lamports, value, rent=10) is possible


def test_where_an_owner_holds_a_token():
    pubkey = spl.derive_associated_address(OWNER, MINT, spl.TOKEN)
    assert pubkey == get_associated_token_address(OWNER, MINT)
    newer = spl.derive_associated_address(OWNER, MINT, spl.TOKEN_2022)
    assert newer == get_associated_token_address(OWNER, MINT, spl.TOKEN_2022)
    assert newer != pubkey


def test_associated_token_account_is_created_idempotently():
    instruction = spl.create_associated_account(PAYER, OWNER, MINT, spl.TOKEN)
    assert (instruction.program_id, instruction.data) == (spl.ASSOCIATED_TOKEN, b"\x01")
    assert instruction.accounts == [
        signs(PAYER),
        changes(get_associated_token_address(OWNER, MINT)),
        reads(OWNER),
        reads(MINT),
        reads(spl.SYSTEM),
        reads(spl.TOKEN),
    ]


def test_a_transfer_of_tokens():
    instruction = spl.transfer_checked(
        spl.TOKEN, MINT, 6, owner=OWNER, source=SOURCE, dest=DEST, amount=2**63 + 1
    )
    assert (instruction.program_id, instruction.data) == (
        spl.TOKEN,
        struct.pack("<BQB", 12, 2**63 + 1, 6),
    )
    assert instruction.accounts == [changes(SOURCE), reads(MINT), changes(DEST), confirms(OWNER)]


def test_new_units_of_a_token():
    instruction = spl.mint_to(spl.TOKEN_2022, MINT, DEST, OWNER, 2**63 + 1)
    assert (instruction.program_id, instruction.data) == (
        spl.TOKEN_2022,
        struct.pack("<BQ", 7, 2**63 + 1),
    )
    assert instruction.accounts == [changes(MINT), changes(DEST), confirms(OWNER)]


def test_a_transfer_of_coin():
    instruction = spl.transfer_coin(PAYER, DEST, 2**63 + 1)
    assert (instruction.program_id, instruction.data) == (
        spl.SYSTEM,
        struct.pack("<IQ", 2, 2**63 + 1),
    )
    assert instruction.accounts == [signs(PAYER), changes(DEST)]


def test_nonce_account_is_created_at_its_seed_address():
    instruction, initialization = spl.create_nonce(PAYER, "florin:7", 1_447_680)
    place = spl.derive_nonce_address(PAYER, "florin:7")
    assert place == Pubkey.create_with_seed(PAYER, "florin:7", spl.SYSTEM)
    assert system_program.decode_create_account_with_seed(instruction) == {
        "from_pubkey": PAYER,
        "to_pubkey": place,
        "base": PAYER,
        "seed": "florin:7",
        "lamports": 1_447_680,
        "space": spl.NONCE_BYTES,
        "owner": spl.SYSTEM,
    }
    assert system_program.decode_initialize_nonce_account(initialization) == {
        "nonce_pubkey": place,
        "authority": PAYER,
    }


def test_a_nonce_is_advanced_by_its_authority():
    instruction = spl.advance_nonce(SOURCE, OWNER)
    assert (instruction.program_id, instruction.data) == (spl.SYSTEM, spl.ADVANCE_NONCE)
    assert instruction.accounts == [changes(SOURCE), reads(RECENT), confirms(OWNER)]


def test_a_note():
    instruction = spl.create_memo("Tée")
    assert (instruction.program_id, instruction.data, instruction.accounts) == (
        spl.MEMO,
        "Tée".encode(),
        [],
    )
