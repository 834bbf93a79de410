"""The faucet, which gives test money."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from florin_server.domain.chains.solana import spl
from florin_server.rails.networks.embedded import EmbeddedToken
from solders.pubkey import Pubkey

from florin_sandbox.devnet.faucet_limits import (
    ACCOUNT_MAX_UNITS,
    FaucetGift,
    GiftKind,
    compute_gift,
)
from florin_sandbox.devnet.solana.genesis import SOLANA_DEVNET
from florin_sandbox.devnet.solana.machine import SolanaMachine
from florin_sandbox.devnet.solana.sending import COIN, TransactionIntake

GIFT_UNITS: Final = 10_000

# the highest payment, in a token
TOKENS: Final = {
    token: GiftKind(
        token.symbol, GIFT_UNITS * 10**token.decimals, ACCOUNT_MAX_UNITS * 10**token.decimals
    )
    for token in SOLANA_DEVNET.tokens
}


def top_up_accounts(  # noqa: PLR0917  (each of another type)
    machine: SolanaMachine,
    sending: TransactionIntake,
    accounts: Sequence[Pubkey],
    tokens: Sequence[EmbeddedToken],
    lamports: int | None,
    units: int | None,
    *,
    only_below_half: bool = False,
) -> list[str]:
    """Fill each account up to an amount; return the signatures of the transactions.

    `lamports` is of the coin, `units` of each token. Without an amount an account gets the usual
    gift if it has less than half of it; with `only_below_half` that also applies to amounts. If
    the total exceeds the faucet's limits, raise RpcFault and give nothing.
    """
    gifts: list[FaucetGift] = []
    steps: list[list[Any]] = []
    for account in dict.fromkeys(accounts):
        of_account: list[Any] = []
        found_account = machine.find_account(account)
        usual = COIN.usual_amount if lamports is None else lamports
        has = found_account.lamports if found_account else 0
        if lacking := compute_gift(
            has, lamports, COIN.usual_amount, only_below_half=only_below_half
        ):
            gifts.append(FaucetGift(COIN, usual, lacking))
            of_account.append(sending.build_coin_instruction(account, lacking))
        for token in tokens:
            kind, has = TOKENS[token], _get_balance(machine, account, token)
            if lacking := compute_gift(
                has, units, kind.usual_amount, only_below_half=only_below_half
            ):
                gifts.append(
                    FaucetGift(kind, kind.usual_amount if units is None else units, lacking)
                )
                of_account += _build_mint_instructions(
                    sending.faucet.pubkey(), account, token, lacking
                )
        if of_account:
            steps.append(of_account)
    sending.take_gifts(gifts)
    return [sending.execute_instructions(step) for step in steps]


def _get_balance(machine: SolanaMachine, account: Pubkey, token: EmbeddedToken) -> int:
    place = spl.derive_associated_address(
        account, spl.parse_pubkey(token.address), spl.parse_pubkey(token.program)
    )
    found_account = machine.find_account(place)
    held = spl.parse_token_account(bytes(found_account.data)) if found_account else None
    return held.amount if held else 0


def _build_mint_instructions(
    faucet: Pubkey, account: Pubkey, token: EmbeddedToken, amount: int
) -> list[Any]:
    mint, program = spl.parse_pubkey(token.address), spl.parse_pubkey(token.program)
    return [
        spl.create_associated_account(faucet, account, mint, program),
        spl.mint_to(
            program, mint, spl.derive_associated_address(account, mint, program), faucet, amount
        ),
    ]
