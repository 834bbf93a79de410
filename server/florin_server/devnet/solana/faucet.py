"""Gives test money away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.devnet.gifts import DEAREST, Gift, Kind, missing
from florin_server.devnet.solana.genesis import SOLNET, DevMint
from florin_server.devnet.solana.machine import Machine
from florin_server.devnet.solana.sending import COIN, Sending

GIFT_UNITS: Final = 10_000

# the dearest payment, in a token
TOKENS: Final = {
    token: Kind(token.symbol, GIFT_UNITS * 10**token.decimals, DEAREST * 10**token.decimals)
    for token in SOLNET.tokens
}


def top_up(  # noqa: PLR0917  (one of each, none alike)
    machine: Machine,
    sending: Sending,
    accounts: Sequence[Pubkey],
    tokens: Sequence[DevMint],
    lamports: int | None,
    units: int | None,
    *,
    rarely: bool = False,
) -> list[str]:
    """Sees to it that each account has that much; returns the signatures of what was sent.

    `lamports` is of the coin, `units` of each token. Without an amount an account gets the usual
    gift once it has less than half of it; with `rarely` that goes for amounts too. RpcFault, and
    nobody gets anything, if that is more than the faucet may give.
    """
    gifts: list[Gift] = []
    steps: list[list[Any]] = []
    for account in dict.fromkeys(accounts):
        of_account: list[Any] = []
        found = machine.account(account)
        wanted = COIN.usual if lamports is None else lamports
        has = found.lamports if found else 0
        if lacking := missing(has, lamports, COIN.usual, rarely=rarely):
            gifts.append(Gift(COIN, wanted, lacking))
            of_account.append(sending.coin(account, lacking))
        for token in tokens:
            kind, has = TOKENS[token], _held(machine, account, token)
            if lacking := missing(has, units, kind.usual, rarely=rarely):
                gifts.append(Gift(kind, kind.usual if units is None else units, lacking))
                of_account += _minting(sending.faucet.pubkey(), account, token, lacking)
        if of_account:
            steps.append(of_account)
    sending.may_give(gifts)
    return [sending.give(one) for one in steps]


def _held(machine: Machine, account: Pubkey, token: DevMint) -> int:
    place = spl.associated(account, spl.pubkey(token.address), spl.pubkey(token.program))
    found = machine.account(place)
    held = spl.token_account(bytes(found.data)) if found else None
    return held.amount if held else 0


def _minting(faucet: Pubkey, account: Pubkey, token: DevMint, amount: int) -> list[Any]:
    mint, program = spl.pubkey(token.address), spl.pubkey(token.program)
    return [
        spl.create_associated(faucet, account, mint, program),
        spl.mint_to(program, mint, spl.associated(account, mint, program), faucet, amount),
    ]
