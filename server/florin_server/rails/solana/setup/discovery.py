"""What a cluster really is, compared with what the operator said; and what accounts hold on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.rails.connection.node import answered
from florin_server.rails.networks.registry import Claim, contradiction
from florin_server.rails.solana.paying.terms import bare
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    AccountView,
    Node,
    account_views,
    number,
    valued,
)
from florin_server.rails.solana.settings import SolanaAsset, SolanaChain, SolanaCoin
from florin_server.rails.types import Asset, Payable

METHOD = "solana"
# additions of Token-2022 that tell about a token, and do not change what a transfer moves:
# pointers to metadata and groups, and these themselves
_HARMLESS = frozenset({18, 19, 20, 21, 22, 23})


@dataclass(frozen=True, slots=True)
class Inspection:
    """The assets that may be offered, by CAIP-19, their programs by mint, and what is wrong.

    `rent` is what any account must hold, in lamports.
    """

    assets: Mapping[str, Asset]
    programs: Mapping[str, str]
    problems: tuple[str, ...]
    rent: int = 0


async def inspect(node: Node, chain: SolanaChain) -> Inspection:
    """Compares cluster and tokens with the settings; one batched read."""
    mints = [spl.pubkey(token.mint) for token in chain.assets]
    whole = {"commitment": FINALIZED, "encoding": "base64"}
    answers = await node.batch(
        [
            ("getGenesisHash", ()),
            ("getMultipleAccounts", ([str(mint) for mint in mints], whole)),
            ("getMinimumBalanceForRentExemption", (0,)),
            ("getBalance", (bare(chain.treasury_account), {"commitment": FINALIZED})),
        ]
    )
    genesis = str(answered(answers[0]))
    if not genesis.startswith(chain.reference):
        fault = f"{chain.name}: the node serves solana:{genesis[:32]}, not {chain.caip2}"
        return Inspection({}, {}, (fault,))
    problems: list[str] = []
    assets, programs, rent = {}, {}, number(answers[2])
    if chain.coin is not None:
        coin = coin_of(chain, chain.coin)
        assets[coin.id], programs[coin.address] = coin, str(spl.SYSTEM)
        if number(valued(answers[3])) < rent:
            problems.append(
                f"{chain.name}: the treasury {bare(chain.treasury_account)} has less than {rent} "
                "lamports, which the network wants any account to hold: it cannot receive smaller "
                f"amounts of {chain.coin.symbol} than that, fees for one"
            )
    accounts = account_views(answers[1])
    for token, account in zip(chain.assets, accounts, strict=True):
        claim = Claim(token.symbol, token.mint, token.decimals, token.peg)
        difference = contradiction(chain.caip2, claim) or _token_fault(token, account)
        if difference is not None:
            problems.append(f"{chain.name}: {token.symbol} at {token.mint} {difference}")
            continue
        asset = asset_of(chain, token)
        assets[asset.id] = asset
        if account is not None:
            programs[token.mint] = str(account.owner)
    return Inspection(assets, programs, tuple(problems), rent)


async def able(
    node: Node,
    payers: Sequence[str],
    assets: Sequence[Asset],
    prices: Mapping[str, int],
    found: Inspection,
) -> list[Payable]:
    """Which payer (CAIP-10) can pay the price of which asset; one batched read."""
    pairs = [(payer, asset) for payer in payers for asset in assets]
    places = [
        _place(bare(payer), asset.address, found.programs[asset.address]) for payer, asset in pairs
    ]
    accounts = await node.accounts(places)
    return [
        Payable(payer, asset.id)
        for (payer, asset), account in zip(pairs, accounts, strict=True)
        if _can_pay(account, bare(payer), asset.address, prices[asset.id], found.rent)
    ]


def _place(owner: str, mint: str, program: str) -> Pubkey:
    if program == str(spl.SYSTEM):
        return spl.pubkey(owner)
    return spl.associated(spl.pubkey(owner), spl.pubkey(mint), spl.pubkey(program))


def _can_pay(account: AccountView | None, owner: str, mint: str, price: int, rent: int) -> bool:
    if mint != str(spl.SYSTEM):
        return _spendable(account, owner, mint) >= price
    # an account with data cannot send coin by itself
    plain = account is not None and account.owner == spl.SYSTEM and not account.data
    return plain and spl.keeps(account.lamports if account else 0, price, rent)


def coin_of(chain: SolanaChain, coin: SolanaCoin) -> Asset:
    """A cluster's own coin as the service knows it."""
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


def asset_of(chain: SolanaChain, token: SolanaAsset) -> Asset:
    """A token of the settings as the service knows it."""
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


def _spendable(account: AccountView | None, owner: str, mint: str) -> int:
    held = account.tokens if account else None
    # the owner of an associated account can give it away
    if held is None or held.frozen or str(held.owner) != owner or str(held.mint) != mint:
        return 0
    return held.amount


def _token_fault(token: SolanaAsset, account: AccountView | None) -> str | None:
    """What differs between a token and its settings, as the end of a sentence."""
    if account is None or account.owner not in spl.PROGRAMS:
        return "is no token"
    mint = spl.mint_of(account.data)
    if mint is None:
        return "is no token"
    if mint.decimals != token.decimals:
        return f"has {mint.decimals} decimals, not {token.decimals}"
    if unsafe := sorted(mint.extensions - _HARMLESS):
        # fees, hooks, delegates and the like: what arrives may be less, or be taken back
        return f"has extensions that are not supported: {', '.join(map(str, unsafe))}"
    return None
