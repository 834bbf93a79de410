"""Test the destinations that merchants can set."""

from __future__ import annotations

import pytest
from florin_server.domain.accounts.destinations import (
    AssetAccount,
    check_same_chain,
    parse_destination,
    parse_destination_asset,
)
from florin_server.domain.chains.solana import spl

TOKEN = "0x8335 89fC D6eD b6E0 8f4c 7C32 D4f7 1b54 bdA0 2913".replace(" ", "")
SOLANA = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
KEY = "4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi"
EVM_FAULT = (
    "must contain an EVM address in lower case, in upper case or with a valid EIP-55 checksum"
)


@pytest.mark.parametrize(
    "asset",
    [
        f"eip155:8453/erc20:{TOKEN}",
        f"eip155:8453/erc20:{TOKEN.lower()}",
        "eip155:1/slip44:60",
        f"{SOLANA}/token:{KEY}",
        # the rules of one kind of token do not apply to other kinds
        "eip155:1/erc721:x",
        "other:1/erc20:x",
    ],
)
def test_asset_text_is_stored_as_written(asset):
    assert parse_destination_asset(asset) == parse_destination_asset(f"caip19/{asset}") == asset


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "must be a CAIP-19 asset type"),
        ("eip155:8453", "must be a CAIP-19 asset type"),
        (f"CAIP19/eip155:8453/erc20:{TOKEN}", "must be a CAIP-19 asset type"),
        (f"caip19/caip19/eip155:8453/erc20:{TOKEN}", "must be a CAIP-19 asset type"),
        (
            f"eip155:8453/erc20:{TOKEN[:-1]}",
            EVM_FAULT,
        ),
        (
            f"eip155:8453/erc20:{TOKEN.replace('f', 'F')}",
            EVM_FAULT,
        ),
        (f"eip155:8453/erc20:0x{'0' * 40}", "must not be the zero address"),
    ],
)
def test_invalid_asset_is_refused_with_its_reason(text, fault):
    with pytest.raises(ValueError, match=f"^{fault}$"):
        parse_destination_asset(text)


@pytest.mark.parametrize(
    "account", [f"eip155:8453:{TOKEN}", f"{SOLANA}:{KEY}", "other:1:0x00", "other:1:abc"]
)
def test_a_destination_is_an_account(account):
    assert str(parse_destination(account)) == account


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (TOKEN, "must be a CAIP-10 account"),
        ("eip155:8453", "must be a CAIP-10 account"),
        (
            f"eip155:8453:{TOKEN[2:]}",
            EVM_FAULT,
        ),
        (f"eip155:8453:0x{'0' * 40}", "must not be the zero address"),
        (f"{SOLANA}:{KEY[:-1]}", "must contain a valid Solana address"),
        (f"{SOLANA}:{spl.TOKEN}", "must not be the address of a program"),
        (f"{SOLANA}:{spl.SYSTEM}", "must not be the address of a program"),
    ],
)
def test_invalid_destination_is_refused_with_its_reason(text, fault):
    with pytest.raises(ValueError, match=f"^{fault}$"):
        parse_destination(text)


def test_an_account_has_to_be_on_the_chain_of_its_asset():
    account = parse_destination(f"eip155:8453:{TOKEN}")
    check_same_chain(account, f"eip155:8453/erc20:{TOKEN}")
    with pytest.raises(ValueError, match=r"^must be an account on eip155:1$"):
        check_same_chain(account, f"eip155:1/erc20:{TOKEN}")


def test_a_place_knows_its_chain():
    assert AssetAccount(f"{SOLANA}/token:{KEY}", f"{SOLANA}:{KEY}").chain_id == SOLANA
