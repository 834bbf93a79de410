"""The balances of accounts at the newest finalized slot."""

from __future__ import annotations

from collections.abc import Collection

from solders.pubkey import Pubkey

from florin_server.domain.caip import parse_asset
from florin_server.domain.chains.solana import spl
from florin_server.rails.solana.paying.terms import to_address
from florin_server.rails.solana.reading.node import (
    ACCOUNTS_MAX,
    FINALIZED,
    AccountView,
    SolanaNode,
    build_accounts_call,
    parse_account_views,
    parse_slot,
)
from florin_server.rails.types import RailUnavailable


async def read_holdings(
    node: SolanaNode, coin: str, asset_accounts: Collection[tuple[str, str]], min_slot: int
) -> dict[tuple[str, str], int]:
    """Return coin (`coin` is its CAIP-19) and token balances by account and asset.

    One batched read.

    A token is read for both token programs. Raise RailUnavailable if the node has not reached the
    slot `min_slot`.
    """
    keys: dict[tuple[str, str], list[Pubkey]] = {}
    for account, asset in asset_accounts:
        owner, kind = spl.parse_pubkey(to_address(account)), parse_asset(asset)
        if asset == coin:
            keys[account, asset] = [owner]
        elif kind.namespace == "token":
            mint = spl.parse_pubkey(kind.reference)
            keys[account, asset] = [
                spl.derive_associated_address(owner, mint, pubkey) for pubkey in spl.PROGRAMS
            ]
    accounts = await _read_accounts(
        node, [pubkey for of_place in keys.values() for pubkey in of_place], min_slot
    )
    return {
        (account, asset): sum(
            _get_balance(accounts[pubkey], is_coin=asset == coin) for pubkey in of_place
        )
        for (account, asset), of_place in keys.items()
    }


async def _read_accounts(
    node: SolanaNode, keys: list[Pubkey], min_slot: int
) -> dict[Pubkey, AccountView | None]:
    parts = [keys[first : first + ACCOUNTS_MAX] for first in range(0, len(keys), ACCOUNTS_MAX)]
    answers = await node.batch([build_accounts_call(part, FINALIZED) for part in parts])
    accounts: dict[Pubkey, AccountView | None] = {}
    for part, answer in zip(parts, answers, strict=True):
        if parse_slot(answer) < min_slot:
            raise RailUnavailable("the node lags behind what was seen before")
        views = parse_account_views(answer)
        if len(views) != len(part):
            raise RailUnavailable("the node did not return every account")
        accounts.update(zip(part, views, strict=True))
    return accounts


def _get_balance(view: AccountView | None, *, is_coin: bool) -> int:
    if view is None:
        return 0
    if is_coin:
        return view.lamports
    return view.token_account.amount if view.token_account else 0
