"""Test the registry of public networks: all rows are well-formed, contradictions are reported."""

from __future__ import annotations

from datetime import date
from itertools import chain
from pathlib import Path

import pytest
from florin_server.app.chains.finality_rules import list_missing
from florin_server.domain.caip import canonicalize_asset, format_checksum_address, parse_chain
from florin_server.domain.chains.solana.spl import parse_pubkey
from florin_server.domain.money import CURRENCIES
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.networks.known_networks import NETWORKS, UNSUPPORTED
from florin_server.rails.networks.registry import (
    TokenClaim,
    find_contradiction,
    find_network,
    find_unsupported,
    get_defaults,
)
from florin_server.rails.solana.settings import SolanaChainSettings
from pydantic import ValidationError

BASE = "eip155:8453"
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
SETTLER, TREASURY = "0x" + "ab" * 20, "0x" + "fe" * 20
SOLANA = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"

TOKENS = [(network, token) for network in NETWORKS for token in network.tokens]
EVM = [(network, token) for network, token in TOKENS if network.id.startswith("eip155:")]


def evm(**changes):
    values = {"chain_id": 8453, "settler": SETTLER, "treasury": TREASURY}
    return EvmChainSettings(**{**values, **changes})


def named(rows):
    return pytest.mark.parametrize(
        ("of", "token"), rows, ids=[f"{item.name} {token.symbol}" for item, token in rows]
    )


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_every_network_is_well_formed(network):
    assert str(parse_chain(network.id)) == network.id
    if network.coin is not None:
        assert canonicalize_asset(network.coin_id) == network.coin_id
        assert network.coin.decimals == (18 if network.id.startswith("eip155:") else 9)
    assert network.pace.confirmations >= 1
    assert 100 <= network.pace.poll_ms <= 15_000
    assert network.pace.eta_s >= 1
    assert network.tokens


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_only_live_networks_stall_by_default(network):
    assert get_defaults(network)["stalled_after_s"] == (300 if network.live else 0)


def test_stall_time_defaults_to_300_seconds_and_is_configurable():
    assert evm().stalled_after_s == 300
    assert [evm(stalled_after_s=item).stalled_after_s for item in (0, 60, 86_400)] == [
        0,
        60,
        86_400,
    ]
    for wrong in (-1, 1, 59, 86_401):
        with pytest.raises(ValidationError):
            evm(stalled_after_s=wrong)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_every_network_names_its_finality_rule(network):
    assert network.pace.confirmations >= (2 if network.id.startswith("eip155:") else 1)
    if network.id.startswith("eip155:"):
        assert network.pace.final_after_s > 0
        created_chain = EvmChainSettings(
            chain_id=int(network.id[7:]), settler=SETTLER, treasury=TREASURY
        )
        assert (created_chain.final_after_s, created_chain.finality_tag) == (
            network.pace.final_after_s,
            network.pace.finality_tag,
        )


@pytest.mark.parametrize("network", [*NETWORKS, *UNSUPPORTED], ids=lambda network: network.name)
def test_every_network_names_its_source_and_the_day_of_its_check(network):
    assert len(network.source) > 10
    assert date(2026, 1, 1) <= date.fromisoformat(network.checked_on) <= date(2027, 12, 31)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_gas_is_paid_in_a_coin_or_in_a_registered_token_of_six_decimals(network):
    assert (network.coin is None) == (network.fee_token is not None)
    if network.fee_token is None:
        assert network.gas_money is network.coin
    else:
        assert network.fee_token == format_checksum_address(network.fee_token)
        assert (network.gas_money.decimals, network.coin_id) == (6, None)


def test_limits_of_a_network_are_defaults_that_settings_allow():
    sei, hyper, tempo = (evm(chain_id=number) for number in (1329, 999, 4217))
    assert (sei.gas_max, hyper.gas_max) == (9_000_000, 1_900_000)
    assert (tempo.payment_gas_max, tempo.gas_max) == (2_000_000, 15_000_000)
    assert tempo.fee_token == "0x20c0000000000000000000000000000000000000"
    assert tempo.native_asset == f"eip155:4217/erc20:{tempo.fee_token}"
    assert evm().native_asset == "eip155:8453/slip44:60"
    with pytest.raises(ValidationError, match="has no coin to accept"):
        evm(chain_id=4217, coin={"name": "Ether", "symbol": "ETH"})


def test_every_network_is_in_the_documents_with_its_rule_or_the_reason_why_not():
    page = (Path(__file__).parents[4] / "docs" / "chains.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for network in NETWORKS:
        if not network.id.startswith("eip155:"):
            continue
        pace = network.pace
        tag = pace.finality_tag if pace.finality_tag == "none" else f"`{pace.finality_tag}`"
        rule = f"| {pace.final_after_s} s | {pace.confirmations} | {tag} |"
        assert any(f"{network.name} ({network.id[7:]})" in row and rule in row for row in rows), (
            network.name
        )
    for other in UNSUPPORTED:
        assert any(f"{other.name} ({other.id[7:]})" in row for row in rows), other.name


def test_only_a_live_chain_with_a_count_alone_lacks_a_finality_rule():
    own = {"chain_id": 424_242, "name": "Own", "live": True, "confirmations": 7}
    (output,) = list_missing([evm(), evm(**own), evm(**own | {"live": False})])
    assert output.startswith("Own: 7 blocks alone make a payment final")
    ruled = [evm(**own, final_after_s=9), evm(**own, finality_tag="safe")]
    solana = SolanaChainSettings(reference=SOLANA, treasury="1" * 32, tokens=("EURC",))
    assert list(list_missing([*ruled, solana])) == []


def test_unsupported_networks_are_not_registered():
    for network in UNSUPPORTED:
        assert find_unsupported(network.id) is network
        assert find_network(network.id) is None
    assert find_unsupported("eip155:1") is None


@named(TOKENS)
def test_every_token_is_well_formed(of, token):
    asset = of.to_asset_id(token.address)
    assert canonicalize_asset(asset) == asset
    assert of.find_token_at(token.address) is of.find_token(token.symbol) is token
    assert token.peg is None or token.peg in CURRENCIES
    assert token.decimals is None or 2 <= token.decimals <= 18
    assert (token.method == "solana") == of.id.startswith("solana:")
    assert token.domain is None or token.method == "eip3009"


@named(EVM)
def test_every_address_carries_its_checksum(of, token):
    assert token.address == format_checksum_address(token.address)


def test_every_mint_is_a_key():
    mints = [token.address for of, token in TOKENS if of.id.startswith("solana:")]
    assert [str(parse_pubkey(mint)) for mint in mints] == mints


def test_nothing_is_there_twice():
    everything = chain(
        (network.id for network in NETWORKS),
        (network.name for network in NETWORKS),
        (network.id for network in UNSUPPORTED),
        (network.name for network in UNSUPPORTED),
        (of.to_asset_id(token.address) for of, token in TOKENS),
        ((of.id, token.symbol.casefold()) for of, token in TOKENS),
    )
    seen = list(everything)
    assert len(set(seen)) == len(seen)


def test_a_symbol_stands_for_all_of_a_token():
    created = evm(tokens=("usdc", "WETH"))
    assert (created.name, created.live, created.confirmations, created.poll_ms) == (
        "Base",
        True,
        5,
        1000,
    )
    dollar, ether = created.assets
    assert (dollar.address, dollar.decimals, dollar.peg) == (USDC.lower(), 6, "USD")
    assert (dollar.method, dollar.signing_name, dollar.domain_version) == (
        "eip3009",
        "USD Coin",
        "2",
    )
    assert (ether.symbol, ether.decimals, ether.peg, ether.method) == ("WETH", 18, None, "permit2")
    solana = SolanaChainSettings(reference=SOLANA, treasury="1" * 32, tokens=("EURC",))
    (euro,) = solana.assets
    assert (solana.name, solana.live) == ("Solana", True)
    assert (euro.mint, euro.decimals, euro.peg) == (
        "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr",
        6,
        "EUR",
    )


def test_operator_settings_override_the_registry_defaults():
    created = evm(confirmations=40, name="Mine", live=False, poll_ms=50)
    assert (created.confirmations, created.name, created.live, created.poll_ms) == (
        40,
        "Mine",
        False,
        50,
    )
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
    ("changes", "expected"),
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
def test_token_that_contradicts_the_registry_is_reported(changes, expected):
    claim = {"symbol": "USDC", "address": USDC, "decimals": 6, "peg": "USD", **changes}
    assert find_contradiction(BASE, TokenClaim(**claim)) == expected
    assert find_contradiction("eip155:424242", TokenClaim(**claim)) is None
    lower = {**claim, "address": claim["address"].lower()}
    assert find_contradiction(BASE, TokenClaim(**lower)) == expected


def test_coins_at_a_rate_are_worth_no_currency():
    weth = find_network(BASE).find_token("weth")
    contradiction = find_contradiction(BASE, TokenClaim("WETH", weth.address, 18, "USD"))
    assert contradiction == "is worth no fixed amount of a currency, not one USD"
