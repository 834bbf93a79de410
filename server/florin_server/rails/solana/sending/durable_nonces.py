"""Durable nonces of a relayer, for buyers who take longer to sign than a blockhash lasts.

Their addresses derive from the relayer's own, so that none is ever created twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_server.domain.chains.solana import spl
from florin_server.rails.provisioning import AffordableAccounts, NonceValues
from florin_server.rails.solana.paying.message import build_lapse_note, compile_message
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    SolanaNode,
    build_accounts_call,
    get_blockhash,
    parse_account_views,
    parse_number,
    parse_slot,
    parse_value,
)
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.types import RailUnavailable, SignedTransaction

_UNITS = 50_000
# kept for payments when the relayer creates nonces: about 4,900 of them at the usual fee
RESERVE_LAMPORTS = 50_000_000
# of one account, twice its rent before rent fell: a node must not lock up the relayer's coin
RENT_MAX_LAMPORTS = 3_000_000


def compute_seeds(relayer: Pubkey, count: int) -> dict[str, str]:
    """Return the seeds of a relayer's first nonces, by address."""
    seeds = (f"florin nonce {number}" for number in range(count))
    return {str(spl.derive_nonce_address(relayer, seed)): seed for seed in seeds}


class SolanaDurableNonces:
    """Implement the DurableNonces protocol for one cluster and relayer."""

    def __init__(self, node: SolanaNode, chain: SolanaChainSettings, relayer: SolanaSigner) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer
        self._seeds = compute_seeds(relayer.pubkey, chain.durable_nonces)

    @property
    def addresses(self) -> Sequence[str]:
        """Return the nonce accounts to use, created or not."""
        return tuple(self._seeds)

    def is_preparation(self, raw: bytes, addresses: Collection[str]) -> bool:
        """Return True if a transaction of ours creates or advances one of the accounts.

        Transfers of others have no instruction of the system program, which does both.
        """
        message = VersionedTransaction.from_bytes(raw).message
        keys = message.account_keys
        return any(
            keys[compiled_instruction.program_id_index] == spl.SYSTEM
            and any(
                index < len(keys) and str(keys[index]) in addresses
                for index in bytes(compiled_instruction.accounts)
            )
            for compiled_instruction in message.instructions
        )

    async def get_values(self, addresses: Sequence[str]) -> NonceValues:
        """Return the values of accounts at final depth; one read."""
        keys = [spl.parse_pubkey(address) for address in addresses]
        (answer,) = await self._node.batch([build_accounts_call(keys, FINALIZED)])
        held = {}
        for address, account in zip(addresses, parse_account_views(answer), strict=True):
            nonce = None if account is None else spl.parse_nonce(account.data)
            if nonce is not None and nonce.authority == self._relayer.pubkey:
                held[address] = str(nonce.value)
        return NonceValues(parse_slot(answer), held)

    async def get_affordable(self, missing_count: int) -> AffordableAccounts:
        """Return how many of the missing accounts the relayer can pay for beyond its reserve."""
        rent, coin = await self._read_rent_and_coin()
        if rent > RENT_MAX_LAMPORTS:
            return AffordableAccounts(0, f"{self._chain.name}: {_format_rent_problem(rent)}")
        count = (
            min(missing_count, max(0, coin - RESERVE_LAMPORTS) // rent) if rent else missing_count
        )
        if count == missing_count:
            return AffordableAccounts(count, "")
        short = RESERVE_LAMPORTS + rent * missing_count - coin
        text = (
            f"{missing_count - count} durable nonces are missing, so more buyers must sign while a"
        )
        needs = f"{self._relayer.address} needs {short} lamports more"
        return AffordableAccounts(count, f"{self._chain.name}: {text} blockhash lasts: {needs}")

    async def sign_creation(self, addresses: Sequence[str]) -> SignedTransaction:
        """Sign the single transaction that creates accounts; it fails if an account exists.

        Raise RailUnavailable if the relayer would keep less than its reserve, or the rent is too
        high.
        """
        rent, coin = await self._read_rent_and_coin()
        relayer = self._relayer.pubkey
        if rent > RENT_MAX_LAMPORTS or coin < RESERVE_LAMPORTS + rent * len(addresses):
            raise RailUnavailable(f"{self._chain.name}: the relayer cannot pay for durable nonces")
        steps = [spl.create_nonce(relayer, self._seeds[address], rent) for address in addresses]
        return await self._sign([step for pair in steps for step in pair])

    async def sign_advance(self, addresses: Sequence[str]) -> SignedTransaction:
        """Sign the single transaction that advances accounts to new values.

        It has a blockhash of its own; the first nonce does not act as the blockhash.
        """
        relayer = self._relayer.pubkey
        return await self._sign(
            [spl.advance_nonce(spl.parse_pubkey(address), relayer) for address in addresses]
        )

    async def _read_rent_and_coin(self) -> tuple[int, int]:
        """Return an account's rent and the relayer's balance, in lamports."""
        rent, balance = await self._node.batch(
            [
                ("getMinimumBalanceForRentExemption", (spl.NONCE_BYTES, {"commitment": FINALIZED})),
                ("getBalance", (self._relayer.address, {"commitment": FINALIZED})),
            ]
        )
        return parse_number(rent), parse_number(parse_value(balance))

    async def _sign(self, steps: list[Instruction]) -> SignedTransaction:
        if not steps:
            raise RailUnavailable(f"{self._chain.name}: no nonce is named")
        recent = await get_blockhash(self._node)
        all_steps = [
            # in front: a nonce in first place would act as the blockhash
            set_compute_unit_limit(_UNITS),
            set_compute_unit_price(self._chain.compute_price),
            *steps,
            build_lapse_note(recent.last_valid_height),
        ]
        message = compile_message(self._relayer.pubkey, all_steps, recent.hash)
        return self._relayer.sign_transaction(message, recent)


def _format_rent_problem(rent: int) -> str:
    return f"a durable nonce would cost {rent} lamports, above the limit of {RENT_MAX_LAMPORTS}"
