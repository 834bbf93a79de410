"""Durable nonces of a relayer: for buyers who take longer to sign than a blockhash lasts.

Their addresses follow from the relayer's own, so that none is ever made twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.rails.provisioning import Affordable, Values
from florin_server.rails.solana.paying.message import compile_message, lapse_note
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    Node,
    account_views,
    accounts_call,
    fresh_blockhash,
    number,
    slot_of,
    valued,
)
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.types import RailUnavailable, Signed

# what one transaction makes or advances; each names an account of 32 bytes, and making takes a seed
AT_ONCE = 5
_UNITS = 50_000
# what the relayer keeps for payments when it makes nonces: some 4,900 of them at the usual fee
RESERVE_LAMPORTS = 50_000_000
# of one account, twice what it was before rent fell: a node must not lock the relayer's coin up
RENT_MAX_LAMPORTS = 3_000_000


def seeds_of(relayer: Pubkey, count: int) -> dict[str, str]:
    """The seeds of a relayer's first nonces, by address."""
    seeds = (f"florin nonce {number}" for number in range(count))
    return {str(spl.nonce_address(relayer, seed)): seed for seed in seeds}


class SolanaDurableNonces:
    """Implements the DurableNonces protocol for one cluster and relayer."""

    def __init__(self, node: Node, chain: SolanaChain, relayer: SolanaSigner) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer
        self._seeds = seeds_of(relayer.pubkey, chain.durable_nonces)

    @property
    def addresses(self) -> Sequence[str]:
        """The accounts that are to be used, made or not."""
        return tuple(self._seeds)

    async def values(self, addresses: Sequence[str]) -> Values:
        """What accounts hold at final depth; one read."""
        keys = [spl.pubkey(address) for address in addresses]
        (answer,) = await self._node.batch([accounts_call(keys, FINALIZED)])
        held = {}
        for address, account in zip(addresses, account_views(answer), strict=True):
            nonce = None if account is None else spl.nonce_of(account.data)
            if nonce is not None and nonce.authority == self._relayer.pubkey:
                held[address] = str(nonce.value)
        return Values(slot_of(answer), held)

    async def affordable(self, missing: int) -> Affordable:
        """Return how many of so many missing accounts the relayer can pay for, its reserve left."""
        rent, coin = await self._rent_and_coin()
        if rent > RENT_MAX_LAMPORTS:
            return Affordable(0, f"{self._chain.name}: {_dear(rent)}")
        count = min(missing, max(0, coin - RESERVE_LAMPORTS) // rent) if rent else missing
        if count == missing:
            return Affordable(count, "")
        short = RESERVE_LAMPORTS + rent * missing - coin
        text = f"{missing - count} durable nonces are missing, so more buyers have to sign while a"
        needs = f"{self._relayer.address} needs {short} lamports more"
        return Affordable(count, f"{self._chain.name}: {text} blockhash lasts: {needs}")

    async def create(self, addresses: Sequence[str]) -> Signed:
        """Sign the one transaction that makes accounts; it fails if one is there.

        RailUnavailable if the relayer would keep less than its reserve, or the rent is too high.
        """
        rent, coin = await self._rent_and_coin()
        relayer = self._relayer.pubkey
        if rent > RENT_MAX_LAMPORTS or coin < RESERVE_LAMPORTS + rent * len(addresses):
            raise RailUnavailable(f"{self._chain.name}: the relayer cannot pay for durable nonces")
        steps = [spl.create_nonce(relayer, self._seeds[one], rent) for one in addresses]
        return await self._signed([step for pair in steps for step in pair])

    async def advance(self, addresses: Sequence[str]) -> Signed:
        """Signs the one transaction that gives accounts other values.

        It has a blockhash of its own: the first nonce does not stand for it.
        """
        relayer = self._relayer.pubkey
        return await self._signed(
            [spl.advance_nonce(spl.pubkey(one), relayer) for one in addresses]
        )

    async def _rent_and_coin(self) -> tuple[int, int]:
        """Read what an account has to hold, and what the relayer has; lamports."""
        rent, balance = await self._node.batch(
            [
                ("getMinimumBalanceForRentExemption", (spl.NONCE_BYTES, {"commitment": FINALIZED})),
                ("getBalance", (self._relayer.address, {"commitment": FINALIZED})),
            ]
        )
        return number(rent), number(valued(balance))

    async def _signed(self, steps: list[Instruction]) -> Signed:
        if not steps:
            raise RailUnavailable(f"{self._chain.name}: no nonce is named")
        recent = await fresh_blockhash(self._node)
        all_steps = [
            # in front: a nonce that came first would be taken for the blockhash
            set_compute_unit_limit(_UNITS),
            set_compute_unit_price(self._chain.compute_price),
            *steps,
            lapse_note(recent.last_valid),
        ]
        message = compile_message(self._relayer.pubkey, all_steps, recent.hash)
        return self._relayer.seal(message, recent)


def _dear(rent: int) -> str:
    return (
        f"a durable nonce would cost {rent} lamports, more than {RENT_MAX_LAMPORTS}: none is made"
    )
