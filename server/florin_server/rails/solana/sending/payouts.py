"""Transfers out of the treasury: its key signs, the relayer pays the fee.

The balance and a dry run are checked first, so that a transfer that would fail is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_server.domain.chains.solana import spl
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.rails.solana.paying.message import compile_message, encode_unsigned
from florin_server.rails.solana.paying.terms import to_address
from florin_server.rails.solana.reading.evidence import SolanaEvidenceReader
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    AccountView,
    RecentBlockhash,
    SolanaNode,
    get_blockhash,
    parse_object,
    parse_value,
)
from florin_server.rails.solana.reading.receivers import (
    build_asset_account,
    find_rent_problem,
    find_wallet_problem,
    format_missing_account,
    is_token_account_of,
)
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.solana.setup.discovery import SolanaInspection
from florin_server.rails.types import (
    RailUnavailable,
    ReceiverUnavailable,
    SignedTransaction,
    TransferEffect,
    TreasuryTransfer,
)


@dataclass(frozen=True, slots=True)
class _PayoutToken:
    mint: Pubkey
    program: Pubkey
    decimals: int

    @property
    def is_coin(self) -> bool:
        """Return True if it is the cluster's native coin."""
        return self.program == spl.SYSTEM

    def get_token_address(self, owner: Pubkey) -> Pubkey:
        """Return the account in which an owner holds it."""
        if self.is_coin:
            return owner
        return spl.derive_associated_address(owner, self.mint, self.program)

    def needs_account(self, owner: Pubkey, account: AccountView | None) -> bool:
        """Return True if an owner needs an account opened, given the current account."""
        return not self.is_coin and not is_token_account_of(account, str(owner), str(self.mint))


class SolanaPayouts:
    """Implement the TreasuryPayouts protocol for one cluster and key.

    `get_inspection` returns the assets that are accepted now.
    """

    def __init__(  # noqa: PLR0917  (each of another type)
        self,
        node: SolanaNode,
        chain: SolanaChainSettings,
        relayer: SolanaSigner,
        treasury: SolanaSigner,
        evidence: SolanaEvidenceReader,
        get_inspection: Callable[[], SolanaInspection],
    ) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer
        self._treasury = treasury
        self._evidence = evidence
        self._get_inspection = get_inspection

    @property
    def sender(self) -> str:
        """Return the address of the treasury's key."""
        return self._treasury.address

    @property
    def gas_payer(self) -> str:
        """Return the relayer's address: it pays fees and rent."""
        return self._relayer.address

    @property
    def problem(self) -> str:
        """Return why no payout is possible at all; empty if payouts are possible."""
        treasury = to_address(self._chain.treasury_account)
        if treasury == self._treasury.address:
            return ""
        return f"the treasury's key belongs to {self._treasury.address}, not to {treasury}"

    async def check_transfer(
        self, transfer: TreasuryTransfer, pending_transfers: Sequence[TreasuryTransfer]
    ) -> str | None:
        """Return why a transfer would fail if it were sent now; None if it would succeed."""
        token = self._find_token(transfer)
        if token is None:
            return f"{transfer.asset} cannot be paid out now"
        receiver = spl.parse_pubkey(to_address(transfer.account))
        source, owner, dest = await self._node.get_accounts(
            [
                token.get_token_address(self._treasury.pubkey),
                receiver,
                token.get_token_address(receiver),
            ]
        )
        if (problem := find_wallet_problem(str(receiver), owner)) is not None:
            return problem
        needed = transfer.value + sum(
            each_transfer.value
            for each_transfer in pending_transfers
            if each_transfer.asset == transfer.asset
        )
        if short := self._compute_shortfall(token, source, needed):
            return (
                f"the treasury {self._treasury.address} lacks {short} minor units of "
                f"{transfer.asset}"
            )
        if token.is_coin and (problem := self._find_rent_problem(transfer, owner)) is not None:
            return problem
        opens = token.needs_account(receiver, dest)
        if opens and not transfer.may_open_account:
            return self._format_missing_account(token, receiver)
        message, _ = await self._build_message(transfer, token, opens_account=opens)
        config = {"encoding": "base64", "commitment": FINALIZED}
        tried = parse_object(
            parse_value(
                await self._node.call("simulateTransaction", encode_unsigned(message), config)
            )
        )
        if "err" not in tried:
            raise RailUnavailable(f"{self._chain.name}: the node did not simulate the transaction")
        return None if tried["err"] is None else f"the transfer would fail: {tried['err']}"

    async def sign(self, nonce: int, transfer: TreasuryTransfer) -> SignedTransaction:  # noqa: ARG002
        """Sign the single transaction that makes a transfer, with both keys.

        It opens the receiver's account if that is missing and can be opened; otherwise raise
        ReceiverUnavailable.
        """
        token = self._find_token(transfer)
        if token is None:
            raise RailUnavailable(f"{self._chain.name}: {transfer.asset} is not accepted now")
        receiver = spl.parse_pubkey(to_address(transfer.account))
        (dest,) = await self._node.get_accounts([token.get_token_address(receiver)])
        opens = token.needs_account(receiver, dest)
        if opens and not transfer.may_open_account:
            raise ReceiverUnavailable(self._format_missing_account(token, receiver))
        message, recent = await self._build_message(transfer, token, opens_account=opens)
        signed = self._relayer.co_sign(message, self._treasury.sign(message))
        return replace(
            signed, lapses_at=recent.last_valid_height, since_block=recent.slot, opens_account=opens
        )

    async def read_effect(
        self, tx: ChainTx, tx_hash: str, transfer: TreasuryTransfer
    ) -> TransferEffect:
        """Return what a final transaction moved, by the token balances before and after it.

        The accounts come from the message that we signed, not from the node.
        """
        message = VersionedTransaction.from_bytes(tx.raw).message
        token = self._find_token(transfer)
        if token is None or not isinstance(message, MessageV0):
            raise RailUnavailable(f"{self._chain.name}: {transfer.asset} is not accepted now")
        changed = await self._evidence.find_changes(tx_hash, message, is_coin=token.is_coin)
        if changed is None:
            return TransferEffect.NOTHING
        receiver = spl.parse_pubkey(to_address(transfer.account))
        promised = {
            token.get_token_address(self._treasury.pubkey): -transfer.value,
            token.get_token_address(receiver): transfer.value,
        }
        return TransferEffect.EXACT if changed == promised else TransferEffect.OTHER

    async def cannot_be_mined(self, tx: ChainTx, lapses_at: int | None) -> bool:
        """Return True if its blockhash expired and no block includes it."""
        reason = await self._evidence.find_end_reason_by_height(
            self._relayer.address, tx.hash, lapses_at, tx.since_block or 0
        )
        return reason is not None and not reason.has_landed

    def _compute_shortfall(
        self, token: _PayoutToken, source: AccountView | None, required: int
    ) -> int:
        """Return what the treasury lacks, in minor units."""
        if token.is_coin:
            lamports = source.lamports if source else 0
            # the rest must be zero, or enough for an account to exist
            return (
                0
                if lamports == required
                else max(0, required + self._get_inspection().rent - lamports)
            )
        held = source.token_account if source else None
        return max(0, required - (held.amount if held else 0))

    def _find_rent_problem(
        self, transfer: TreasuryTransfer, owner: AccountView | None
    ) -> str | None:
        """Return why a receiver cannot take an amount of coin; None if it can."""
        receiver = to_address(transfer.account)
        if receiver == self._relayer.address:
            return f"{receiver} pays the fees, so it cannot receive too"
        return find_rent_problem(receiver, transfer.value, owner, self._get_inspection().rent)

    def _find_token(self, transfer: TreasuryTransfer) -> _PayoutToken | None:
        inspection = self._get_inspection()
        asset = inspection.assets.get(transfer.asset)
        if asset is None:
            return None
        program = spl.parse_pubkey(inspection.programs[asset.address])
        return _PayoutToken(spl.parse_pubkey(asset.address), program, asset.decimals)

    def _format_missing_account(self, token: _PayoutToken, receiver: Pubkey) -> str:
        return format_missing_account(
            build_asset_account(self._chain.caip2, str(receiver), str(token.mint))
        )

    async def _build_message(
        self, transfer: TreasuryTransfer, token: _PayoutToken, *, opens_account: bool
    ) -> tuple[MessageV0, RecentBlockhash]:
        """Return the message with a fresh blockhash."""
        recent = await get_blockhash(self._node)
        receiver = spl.parse_pubkey(to_address(transfer.account))
        steps = [
            set_compute_unit_limit(self._chain.compute_units),
            set_compute_unit_price(self._chain.compute_price),
        ]
        if opens_account:
            opening = (self._relayer.pubkey, receiver, token.mint, token.program)
            steps.append(spl.create_associated_account(*opening))
        steps += [self._build_transfer(transfer, token, receiver), spl.create_memo(transfer.ref)]
        return compile_message(self._relayer.pubkey, steps, recent.hash), recent

    def _build_transfer(
        self, transfer: TreasuryTransfer, token: _PayoutToken, receiver: Pubkey
    ) -> Instruction:
        if token.is_coin:
            return spl.transfer_coin(self._treasury.pubkey, receiver, transfer.value)
        return spl.transfer_checked(
            token.program,
            token.mint,
            token.decimals,
            owner=self._treasury.pubkey,
            source=token.get_token_address(self._treasury.pubkey),
            dest=token.get_token_address(receiver),
            amount=transfer.value,
        )
