"""Transfers of tokens and coin out of the treasury: its key signs, the relayer pays the fee.

What would fail is not sent: the balance and a dry run are looked at first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_server.chains.solana import spl
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.rails.solana.paying.message import compile_message, unsigned
from florin_server.rails.solana.paying.terms import bare
from florin_server.rails.solana.reading.evidence import Evidence
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    AccountView,
    Blockhash,
    Node,
    fresh_blockhash,
    record,
    valued,
)
from florin_server.rails.solana.reading.receivers import (
    holds,
    no_account,
    not_a_wallet,
    place_of,
    short_of_rent,
)
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.solana.setup.discovery import Inspection
from florin_server.rails.types import Effect, NotReceivable, RailUnavailable, Signed, Transfer


@dataclass(frozen=True, slots=True)
class _Token:
    mint: Pubkey
    program: Pubkey
    decimals: int

    @property
    def is_coin(self) -> bool:
        """True if it is the cluster's own coin."""
        return self.program == spl.SYSTEM

    def place(self, owner: Pubkey) -> Pubkey:
        """Where an owner holds it."""
        if self.is_coin:
            return owner
        return spl.associated(owner, self.mint, self.program)

    def has_to_open(self, owner: Pubkey, account: AccountView | None) -> bool:
        """True if an owner has to have an account opened, as its place is found."""
        return not self.is_coin and not holds(account, str(owner), str(self.mint))


class SolanaPayouts:
    """Implements the Payouts protocol for one cluster and key.

    `found` tells what is taken now.
    """

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        node: Node,
        chain: SolanaChain,
        relayer: SolanaSigner,
        treasury: SolanaSigner,
        evidence: Evidence,
        found: Callable[[], Inspection],
    ) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer
        self._treasury = treasury
        self._evidence = evidence
        self._found = found

    @property
    def sender(self) -> str:
        """Address of the treasury's key."""
        return self._treasury.address

    @property
    def gas_payer(self) -> str:
        """The relayer pays fees and rent."""
        return self._relayer.address

    @property
    def problem(self) -> str:
        """Why nothing can be paid out at all; empty if it can."""
        treasury = bare(self._chain.treasury_account)
        if treasury == self._treasury.address:
            return ""
        return f"the treasury's key is of {self._treasury.address}, not of {treasury}"

    async def obstacle(self, transfer: Transfer, ahead: Sequence[Transfer]) -> str | None:
        """Why a transfer would fail if it were sent now; None if it would not."""
        token = self._token(transfer)
        if token is None:
            return f"{transfer.asset} cannot be paid out now"
        receiver = spl.pubkey(bare(transfer.account))
        source, owner, dest = await self._node.accounts(
            [token.place(self._treasury.pubkey), receiver, token.place(receiver)]
        )
        if (problem := not_a_wallet(str(receiver), owner)) is not None:
            return problem
        needed = transfer.value + sum(one.value for one in ahead if one.asset == transfer.asset)
        if short := self._short(token, source, needed):
            return (
                f"the treasury {self._treasury.address} lacks {short} minor units of "
                f"{transfer.asset}"
            )
        if token.is_coin and (problem := self._too_little(transfer, owner)) is not None:
            return problem
        opens = token.has_to_open(receiver, dest)
        if opens and not transfer.may_open:
            return self._no_account(token, receiver)
        message, _ = await self._message(transfer, token, opens=opens)
        config = {"encoding": "base64", "commitment": FINALIZED}
        tried = record(
            valued(await self._node.ask("simulateTransaction", unsigned(message), config))
        )
        if "err" not in tried:
            raise RailUnavailable(f"{self._chain.name}: the node did not try the transaction")
        return None if tried["err"] is None else f"the transfer would fail: {tried['err']}"

    async def sign(self, nonce: int, transfer: Transfer) -> Signed:  # noqa: ARG002
        """Signs the one transaction that makes a transfer, with both keys.

        It opens the receiver's account if that is missing, and may be opened; else NotReceivable.
        """
        token = self._token(transfer)
        if token is None:
            raise RailUnavailable(f"{self._chain.name}: {transfer.asset} is not taken now")
        receiver = spl.pubkey(bare(transfer.account))
        (dest,) = await self._node.accounts([token.place(receiver)])
        opens = token.has_to_open(receiver, dest)
        if opens and not transfer.may_open:
            raise NotReceivable(self._no_account(token, receiver))
        message, recent = await self._message(transfer, token, opens=opens)
        signed = self._relayer.co_sign(message, self._treasury.sign(message))
        return replace(signed, lapses_at=recent.last_valid, since_block=recent.slot, opens=opens)

    async def effect(self, tx: ChainTx, tx_hash: str, transfer: Transfer) -> Effect:
        """What a final transaction moved, by the token balances before and after it.

        The accounts are those of the message that we signed, whatever the node says it was.
        """
        message = VersionedTransaction.from_bytes(tx.raw).message
        token = self._token(transfer)
        if token is None or not isinstance(message, MessageV0):
            raise RailUnavailable(f"{self._chain.name}: {transfer.asset} is not taken now")
        changed = await self._evidence.changes(tx_hash, message, coin=token.is_coin)
        if changed is None:
            return Effect.NOTHING
        receiver = spl.pubkey(bare(transfer.account))
        promised = {
            token.place(self._treasury.pubkey): -transfer.value,
            token.place(receiver): transfer.value,
        }
        return Effect.EXACT if changed == promised else Effect.OTHER

    async def cannot_be_mined(self, tx: ChainTx, lapses_at: int | None) -> bool:
        """True if its blockhash lapsed and no block holds it."""
        return await self._evidence.end_of(tx.hash, lapses_at, tx.since_block or 0) is not None

    def _short(self, token: _Token, source: AccountView | None, needed: int) -> int:
        """What the treasury lacks."""
        if token.is_coin:
            lamports = source.lamports if source else 0
            # what is left must be nothing, or enough for an account to exist
            return 0 if lamports == needed else max(0, needed + self._found().rent - lamports)
        held = source.tokens if source else None
        return max(0, needed - (held.amount if held else 0))

    def _too_little(self, transfer: Transfer, owner: AccountView | None) -> str | None:
        """Why a receiver cannot take an amount of coin; None if it can."""
        receiver = bare(transfer.account)
        if receiver == self._relayer.address:
            return f"{receiver} pays the fees, and cannot receive beside that"
        return short_of_rent(receiver, transfer.value, owner, self._found().rent)

    def _token(self, transfer: Transfer) -> _Token | None:
        found = self._found()
        asset = found.assets.get(transfer.asset)
        if asset is None:
            return None
        program = spl.pubkey(found.programs[asset.address])
        return _Token(spl.pubkey(asset.address), program, asset.decimals)

    def _no_account(self, token: _Token, receiver: Pubkey) -> str:
        return no_account(place_of(self._chain.caip2, str(receiver), str(token.mint)))

    async def _message(
        self, transfer: Transfer, token: _Token, *, opens: bool
    ) -> tuple[MessageV0, Blockhash]:
        """The message with a fresh blockhash."""
        recent = await fresh_blockhash(self._node)
        receiver = spl.pubkey(bare(transfer.account))
        steps = [
            set_compute_unit_limit(self._chain.compute_units),
            set_compute_unit_price(self._chain.compute_price),
        ]
        if opens:
            opening = (self._relayer.pubkey, receiver, token.mint, token.program)
            steps.append(spl.create_associated(*opening))
        steps += [self._move(transfer, token, receiver), spl.memo(transfer.ref)]
        return compile_message(self._relayer.pubkey, steps, recent.hash), recent

    def _move(self, transfer: Transfer, token: _Token, receiver: Pubkey) -> Instruction:
        if token.is_coin:
            return spl.transfer_coin(self._treasury.pubkey, receiver, transfer.value)
        return spl.transfer_checked(
            token.program,
            token.mint,
            token.decimals,
            owner=self._treasury.pubkey,
            source=token.place(self._treasury.pubkey),
            dest=token.place(receiver),
            amount=transfer.value,
        )
