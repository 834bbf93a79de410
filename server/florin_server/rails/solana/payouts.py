"""Token transfers out of the treasury: its key signs, the relayer pays the fee.

What would fail is not sent: the balance and a dry run are looked at first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_server.domain import spl
from florin_server.domain.journal import ChainTx
from florin_server.rails.base import Asset, Effect, RailUnavailable, Signed, Transfer
from florin_server.rails.solana.evidence import Evidence
from florin_server.rails.solana.message import compile_message, unsigned
from florin_server.rails.solana.node import CONFIRMED, Node, number, record, valued
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.solana.signer import SolanaSigner
from florin_server.rails.solana.terms import bare


@dataclass(frozen=True, slots=True)
class _Token:
    mint: Pubkey
    program: Pubkey
    decimals: int

    def place(self, owner: Pubkey) -> Pubkey:
        """Where an owner holds the token."""
        return spl.associated(owner, self.mint, self.program)


class SolanaPayouts:
    """Implements the Payouts protocol for one cluster and key.

    `token` tells an asset (CAIP-19) and its token program, None if it is not taken now.
    """

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        node: Node,
        chain: SolanaChain,
        relayer: SolanaSigner,
        treasury: SolanaSigner,
        evidence: Evidence,
        token: Callable[[str], tuple[Asset, str] | None],
    ) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer
        self._treasury = treasury
        self._evidence = evidence
        self._known = token

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
        source, owner = await self._node.accounts([token.place(self._treasury.pubkey), receiver])
        if owner is not None and owner.owner in spl.PROGRAMS:
            # what an account of the token program is sent can never be moved again
            return f"{receiver} is no wallet, and cannot own"
        held = source.tokens if source else None
        needed = transfer.value + sum(one.value for one in ahead if one.asset == transfer.asset)
        if short := max(0, needed - (held.amount if held else 0)):
            return (
                f"the treasury {self._treasury.address} lacks {short} minor units of "
                f"{transfer.asset}"
            )
        message, _ = await self._message(transfer, token)
        config = {"encoding": "base64", "commitment": CONFIRMED}
        tried = record(
            valued(await self._node.ask("simulateTransaction", unsigned(message), config))
        )
        if "err" not in tried:
            raise RailUnavailable(f"{self._chain.name}: the node did not try the transaction")
        return None if tried["err"] is None else f"the transfer would fail: {tried['err']}"

    async def sign(self, nonce: int, transfer: Transfer) -> Signed:  # noqa: ARG002
        """Signs the one transaction that makes a transfer, with both keys."""
        token = self._token(transfer)
        if token is None:
            raise RailUnavailable(f"{self._chain.name}: {transfer.asset} is not taken now")
        message, lapses_at = await self._message(transfer, token)
        signed = self._relayer.co_sign(message, self._treasury.sign(message))
        return Signed(raw=signed.raw, hash=signed.hash, lapses_at=lapses_at)

    async def effect(self, tx: ChainTx, tx_hash: str, transfer: Transfer) -> Effect:
        """What a final transaction moved, by the token balances before and after it.

        The accounts are those of the message that we signed, whatever the node says it was.
        """
        message = VersionedTransaction.from_bytes(tx.raw).message
        token = self._token(transfer)
        if token is None or not isinstance(message, MessageV0):
            raise RailUnavailable(f"{self._chain.name}: {transfer.asset} is not taken now")
        changed = await self._evidence.changes(tx_hash, message)
        if changed is None:
            return Effect.NOTHING
        receiver = spl.pubkey(bare(transfer.account))
        promised = {
            token.place(self._treasury.pubkey): -transfer.value,
            token.place(receiver): transfer.value,
        }
        return Effect.EXACT if changed == promised else Effect.OTHER

    async def gone(self, tx: ChainTx, lapses_at: int | None) -> bool:
        """True if its blockhash lapsed and no block holds it."""
        return await self._evidence.end_of(tx.hash, lapses_at) is not None

    def _token(self, transfer: Transfer) -> _Token | None:
        known = self._known(transfer.asset)
        if known is None:
            return None
        asset, program = known
        return _Token(spl.pubkey(asset.address), spl.pubkey(program), asset.decimals)

    async def _message(self, transfer: Transfer, token: _Token) -> tuple[MessageV0, int]:
        """The message with a fresh blockhash, and the height up to which that is good."""
        latest = await self._node.ask("getLatestBlockhash", {"commitment": CONFIRMED})
        told = record(valued(latest))
        try:
            blockhash = Hash.from_string(str(told.get("blockhash")))
        except ValueError as error:
            raise RailUnavailable(f"{self._chain.name}: the node told no blockhash") from error
        message = compile_message(self._relayer.pubkey, self._steps(transfer, token), blockhash)
        return message, number(told.get("lastValidBlockHeight"))

    def _steps(self, transfer: Transfer, token: _Token) -> list[Instruction]:
        receiver = spl.pubkey(bare(transfer.account))
        return [
            spl.compute_unit_limit(self._chain.compute_units),
            spl.compute_unit_price(self._chain.compute_price),
            spl.create_associated(self._relayer.pubkey, receiver, token.mint, token.program),
            spl.transfer_checked(
                token.program,
                token.mint,
                token.decimals,
                owner=self._treasury.pubkey,
                source=token.place(self._treasury.pubkey),
                dest=token.place(receiver),
                amount=transfer.value,
            ),
            spl.memo(transfer.ref),
        ]
