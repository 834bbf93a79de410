"""The registry of public networks: every row is well-formed, and what contradicts it is told."""

from __future__ import annotations

from itertools import chain

import pytest
from florin_server.chains.solana.spl import pubkey
from florin_server.domain.caip import canonical_asset, checksum_address, parse_chain
from florin_server.domain.money import CURRENCIES
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.networks.registry import (
    NETWORKS,
    Claim,
    contradiction,
    defaults_of,
    network,
)
from florin_server.rails.solana.settings import SolanaChain
from pydantic import ValidationError

BASE = "eip155:8453"
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
SETTLER, TREASURY = "0x" + "ab" * 20, "0x" + "fe" * 20
SOLANA = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"

TOKENS = [(one, token) for one in NETWORKS for token in one.tokens]
EVM = [(one, token) for one, token in TOKENS if one.id.startswith("eip155:")]


def evm(**changes):
    values = {"chain_id": 8453, "settler": SETTLER, "treasury": TREASURY}
    return EvmChain(**{**values, **changes})


def named(rows):
    return pytest.mark.parametrize(
        ("of", "token"), rows, ids=[f"{one.name} {token.symbol}" for one, token in rows]
    )


@pytest.mark.parametrize("one", NETWORKS, ids=lambda one: one.name)
def test_every_network_is_well_formed(one):
    assert str(parse_chain(one.id)) == one.id
    assert canonical_asset(one.coin_id) == one.coin_id
    assert one.coin.decimals == (18 if one.id.startswith("eip155:") else 9)
    assert one.pace.confirmations >= 1
    assert 100 <= one.pace.poll_ms <= 15_000
    assert one.pace.eta_s >= 1
    assert one.tokens


@pytest.mark.parametrize("one", NETWORKS, ids=lambda one: one.name)
def test_only_where_money_is_real_somebody_always_has_blocks_made(one):
    assert defaults_of(one)["stalled_after_s"] == (300 if one.live else 0)


def test_a_chain_stalls_after_what_was_said_of_it():
    assert evm().stalled_after_s == 300
    assert [evm(stalled_after_s=one).stalled_after_s for one in (0, 60, 86_400)] == [0, 60, 86_400]
    for wrong in (-1, 1, 59, 86_401):
        with pytest.raises(ValidationError):
            evm(stalled_after_s=wrong)


@named(TOKENS)
def test_every_token_is_well_formed(of, token):
    asset = of.asset_id(token.address)
    assert canonical_asset(asset) == asset
    assert of.at(token.address) is of.token(token.symbol) is token
    assert token.peg is None or token.peg in CURRENCIES
    assert token.decimals is None or 2 <= token.decimals <= 18
    assert (token.method == "solana") == of.id.startswith("solana:")
    assert token.domain is None or token.method == "eip3009"


@named(EVM)
def test_every_address_carries_its_checksum(of, token):
    assert token.address == checksum_address(token.address)


def test_every_mint_is_a_key():
    mints = [token.address for of, token in TOKENS if of.id.startswith("solana:")]
    assert [str(pubkey(one)) for one in mints] == mints


def test_nothing_is_there_twice():
    everything = chain(
        (one.id for one in NETWORKS),
        (one.name for one in NETWORKS),
        (of.asset_id(token.address) for of, token in TOKENS),
        ((of.id, token.symbol.casefold()) for of, token in TOKENS),
    )
    seen = list(everything)
    assert len(set(seen)) == len(seen)


def test_a_symbol_stands_for_all_of_a_token():
    made = evm(tokens=("usdc", "WETH"))
    assert (made.name, made.live, made.confirmations, made.poll_ms) == ("Base", True, 5, 1000)
    dollar, ether = made.assets
    assert (dollar.address, dollar.decimals, dollar.peg) == (USDC.lower(), 6, "USD")
    assert (dollar.method, dollar.signing_name, dollar.domain_version) == (
        "eip3009",
        "USD Coin",
        "2",
    )
    assert (ether.symbol, ether.decimals, ether.peg, ether.method) == ("WETH", 18, None, "permit2")
    solana = SolanaChain(reference=SOLANA, treasury="1" * 32, tokens=("EURC",))
    (euro,) = solana.assets
    assert (solana.name, solana.live) == ("Solana", True)
    assert (euro.mint, euro.decimals, euro.peg) == (
        "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr",
        6,
        "EUR",
    )


def test_what_the_operator_says_wins_over_defaults():
    made = evm(confirmations=40, name="Mine", live=False, poll_ms=50)
    assert (made.confirmations, made.name, made.live, made.poll_ms) == (40, "Mine", False, 50)
    assert (evm(chain_id=137).native_slip44, evm(chain_id=137, native_slip44=60).native_slip44) == (
        966,
        60,
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokens": ("DOGE",)}, "no token DOGE is registered"),
        ({"tokens": ("EURAU",)}, "florin chain add"),
        ({"tokens": ("EURC",)}, "florin chain add"),
        ({"chain_id": 424_242, "name": "Own", "tokens": ("USDC",)}, "no token USDC is registered"),
        ({"chain_id": 84532, "live": True}, "test network"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes, words):
    with pytest.raises(ValidationError, match=words):
        evm(**changes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, None),
        ({"symbol": "Dollars"}, None),
        ({"decimals": 18}, "has 6 decimals on Base, not 18"),
        ({"peg": None}, None),
        ({"peg": "EUR"}, "is worth one USD, not one EUR"),
        ({"domain": ("USDC", "2")}, "signs as 'USD Coin', version '2', not 'USDC', version '2'"),
        ({"address": "0x" + "12" * 20}, f"is not USDC: that is {USDC}"),
        ({"address": "0x" + "12" * 20, "symbol": "USDC.e"}, None),
    ],
)
def test_what_contradicts_the_registry_is_told(changes, told):
    claim = {"symbol": "USDC", "address": USDC, "decimals": 6, "peg": "USD", **changes}
    assert contradiction(BASE, Claim(**claim)) == told
    assert contradiction("eip155:424242", Claim(**claim)) is None
    lower = {**claim, "address": claim["address"].lower()}
    assert contradiction(BASE, Claim(**lower)) == told


def test_coins_at_a_rate_are_worth_no_currency():
    weth = network(BASE).token("weth")
    told = contradiction(BASE, Claim("WETH", weth.address, 18, "USD"))
    assert told == "is worth no fixed amount of a currency, not one USD"
