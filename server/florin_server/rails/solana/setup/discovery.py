"""Inspection of a cluster, compared with the operator's settings, and reads of balances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solders.pubkey import Pubkey

from florin_server.domain.chains.solana import spl
from florin_server.rails.connection.node import require_result
from florin_server.rails.networks.registry import TokenClaim, find_contradiction
from florin_server.rails.solana.paying.terms import to_address
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    AccountView,
    SolanaNode,
    parse_account_views,
    parse_number,
    parse_value,
)
from florin_server.rails.solana.settings import (
    SolanaAssetSettings,
    SolanaChainSettings,
    SolanaCoinSettings,
)
from florin_server.rails.types import Asset, PayableAsset

METHOD = "solana"
# extensions of Token-2022 that describe a token and do not change what a transfer moves: pointers
# to metadata and groups, and the metadata and groups themselves
_HARMLESS_EXTENSIONS = frozenset({18, 19, 20, 21, 22, 23})


@dataclass(frozen=True, slots=True)
class SolanaInspection:
    """The assets that can be offered, by CAIP-19, their programs by mint, and the problems.

    `rent` is the least that any account must hold, in lamports.
    """

    assets: Mapping[str, Asset]
    programs: Mapping[str, str]
    problems: tuple[str, ...]
    rent: int = 0


async def inspect_chain(node: SolanaNode, chain: SolanaChainSettings) -> SolanaInspection:
    """Compare cluster and tokens with the settings; one batched read."""
    mints = [spl.parse_pubkey(token.mint) for token in chain.assets]
    total = {"commitment": FINALIZED, "encoding": "base64"}
    answers = await node.batch(
        [
            ("getGenesisHash", ()),
            ("getMultipleAccounts", ([str(mint) for mint in mints], total)),
            ("getMinimumBalanceForRentExemption", (0,)),
            ("getBalance", (to_address(chain.treasury_account), {"commitment": FINALIZED})),
        ]
    )
    genesis = str(require_result(answers[0]))
    if not genesis.startswith(chain.reference):
        fault = f"{chain.name}: the node serves solana:{genesis[:32]}, not {chain.caip2}"
        return SolanaInspection({}, {}, (fault,))
    problems: list[str] = []
    assets, programs, rent = {}, {}, parse_number(answers[2])
    if chain.coin is not None:
        coin = build_coin_asset(chain, chain.coin)
        assets[coin.id], programs[coin.address] = coin, str(spl.SYSTEM)
        if parse_number(parse_value(answers[3])) < rent:
            problems.append(
                f"{chain.name}: the treasury {to_address(chain.treasury_account)} has less than "
                f"{rent} "
                "lamports, which every account must hold: it cannot receive smaller "
                f"amounts of {chain.coin.symbol} than that, such as fees"
            )
    accounts = parse_account_views(answers[1])
    for token, account in zip(chain.assets, accounts, strict=True):
        claim = TokenClaim(token.symbol, token.mint, token.decimals, token.peg)
        difference = find_contradiction(chain.caip2, claim) or _find_token_problem(token, account)
        if difference is not None:
            problems.append(f"{chain.name}: {token.symbol} at {token.mint} {difference}")
            continue
        asset = build_token_asset(chain, token)
        assets[asset.id] = asset
        if account is not None:
            programs[token.mint] = str(account.owner)
    return SolanaInspection(assets, programs, tuple(problems), rent)


async def list_payable(
    node: SolanaNode,
    payers: Sequence[str],
    assets: Sequence[Asset],
    prices: Mapping[str, int],
    inspection: SolanaInspection,
) -> list[PayableAsset]:
    """Return which payer (CAIP-10) can pay the price of which asset; one batched read."""
    pairs = [(payer, asset) for payer in payers for asset in assets]
    places = [
        _get_token_address(to_address(payer), asset.address, inspection.programs[asset.address])
        for payer, asset in pairs
    ]
    accounts = await node.get_accounts(places)
    return [
        PayableAsset(payer, asset.id)
        for (payer, asset), account in zip(pairs, accounts, strict=True)
        if _is_payable(account, to_address(payer), asset.address, prices[asset.id], inspection.rent)
    ]


def _get_token_address(owner: str, mint: str, program: str) -> Pubkey:
    if program == str(spl.SYSTEM):
        return spl.parse_pubkey(owner)
    return spl.derive_associated_address(
        spl.parse_pubkey(owner), spl.parse_pubkey(mint), spl.parse_pubkey(program)
    )


def _is_payable(account: AccountView | None, owner: str, mint: str, price: int, rent: int) -> bool:
    if mint != str(spl.SYSTEM):
        return _get_spendable(account, owner, mint) >= price
    # an account with data cannot send coin itself
    plain = account is not None and account.owner == spl.SYSTEM and not account.data
    return plain and spl.is_rent_safe(account.lamports if account else 0, price, rent)


def build_coin_asset(chain: SolanaChainSettings, coin: SolanaCoinSettings) -> Asset:
    """Return a cluster's native coin as an asset."""
    return Asset(
        id=chain.coin_id,
        chain_id=chain.caip2,
        address=str(spl.SYSTEM),
        name=coin.name,
        symbol=coin.symbol,
        decimals=9,
        peg=None,
        method=METHOD,
        domain_name="",
        domain_version="",
        network_name=chain.name,
        icon_url=coin.icon_url,
        network_icon_url=chain.icon_url,
    )


def build_token_asset(chain: SolanaChainSettings, token: SolanaAssetSettings) -> Asset:
    """Return a token of the settings as an asset."""
    return Asset(
        id=f"{chain.caip2}/token:{token.mint}",
        chain_id=chain.caip2,
        address=token.mint,
        name=token.name,
        symbol=token.symbol,
        decimals=token.decimals,
        peg=token.peg,
        method=METHOD,
        domain_name="",
        domain_version="",
        network_name=chain.name,
        icon_url=token.icon_url,
        network_icon_url=chain.icon_url,
    )


def _get_spendable(account: AccountView | None, owner: str, mint: str) -> int:
    held = account.token_account if account else None
    # the owner of an associated account can transfer its ownership
    if held is None or held.frozen or str(held.owner) != owner or str(held.mint) != mint:
        return 0
    return held.amount


def _find_token_problem(token: SolanaAssetSettings, account: AccountView | None) -> str | None:
    """Return how a token differs from its settings, as the end of a sentence."""
    if account is None or account.owner not in spl.PROGRAMS:
        return "is not a token"
    mint = spl.parse_mint(account.data)
    if mint is None:
        return "is not a token"
    if mint.decimals != token.decimals:
        return f"has {mint.decimals} decimals, not {token.decimals}"
    if unsafe := sorted(mint.extensions - _HARMLESS_EXTENSIONS):
        # fees, hooks, delegates and others: less may arrive, or it may be taken back
        return f"has extensions that are not supported: {', '.join(map(str, unsafe))}"
    return None
