"""What accounts hold at the newest finalized slot."""

from __future__ import annotations

from collections.abc import Collection

from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.domain.caip import parse_asset
from florin_server.rails.solana.paying.terms import bare
from florin_server.rails.solana.reading.node import (
    ACCOUNTS_MAX,
    FINALIZED,
    AccountView,
    Node,
    account_views,
    accounts_call,
    slot_of,
)
from florin_server.rails.types import RailUnavailable


async def holdings(
    node: Node, coin: str, places: Collection[tuple[str, str]], least: int
) -> dict[tuple[str, str], int]:
    """Coin (`coin` is its CAIP-19) and tokens by account and asset; one batched read.

    A token is looked for where either token program keeps it. RailUnavailable if the node is not
    as far as the slot `least`.
    """
    keys: dict[tuple[str, str], list[Pubkey]] = {}
    for account, asset in places:
        owner, kind = spl.pubkey(bare(account)), parse_asset(asset)
        if asset == coin:
            keys[account, asset] = [owner]
        elif kind.namespace == "token":
            mint = spl.pubkey(kind.reference)
            keys[account, asset] = [spl.associated(owner, mint, one) for one in spl.PROGRAMS]
    found = await _accounts(node, [one for of_place in keys.values() for one in of_place], least)
    return {
        (account, asset): sum(_held(found[one], is_coin=asset == coin) for one in of_place)
        for (account, asset), of_place in keys.items()
    }


async def _accounts(node: Node, keys: list[Pubkey], least: int) -> dict[Pubkey, AccountView | None]:
    parts = [keys[first : first + ACCOUNTS_MAX] for first in range(0, len(keys), ACCOUNTS_MAX)]
    answers = await node.batch([accounts_call(part, FINALIZED) for part in parts])
    found: dict[Pubkey, AccountView | None] = {}
    for part, answer in zip(parts, answers, strict=True):
        if slot_of(answer) < least:
            raise RailUnavailable("the node lags behind what was seen before")
        views = account_views(answer)
        if len(views) != len(part):
            raise RailUnavailable("the node did not tell about every account")
        found.update(zip(part, views, strict=True))
    return found


def _held(view: AccountView | None, *, is_coin: bool) -> int:
    if view is None:
        return 0
    if is_coin:
        return view.lamports
    return view.tokens.amount if view.tokens else 0
