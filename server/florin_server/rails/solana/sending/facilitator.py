"""Token transfers that payers signed with our relayer as the fee payer; we co-sign and send them.

The relayer's signature covers whatever the transaction contains. So every instruction must be one
of a short list, none may name the relayer, and its fee is bounded.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey

from florin_server.domain.chains.solana import spl
from florin_server.domain.chains.solana.limits import PACKET_BYTES
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import PaymentOption
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.domain.x402.messages import (
    EXACT,
    InvalidReason,
    InvalidX402Payment,
    X402Payment,
    X402Requirements,
)
from florin_server.rails.connection.connection import ChainConnection
from florin_server.rails.connection.jsonrpc import ChainRpc
from florin_server.rails.facilitation import FacilitatedOutcome, FacilitatedTransfer
from florin_server.rails.solana.paying.check import (
    PayerSignedMessage,
    compute_highest_fee,
    parse_submission,
)
from florin_server.rails.solana.paying.message import is_guard, list_steps
from florin_server.rails.solana.paying.terms import SolanaOptionTerms, to_address
from florin_server.rails.solana.paying.verify import SolanaVerifier
from florin_server.rails.solana.reading.evidence import is_moved
from florin_server.rails.solana.reading.node import FINALIZED, SolanaNode, parse_number
from florin_server.rails.solana.reading.observer import SolanaObserver
from florin_server.rails.solana.reading.signed import list_memos
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.solana.setup import discovery
from florin_server.rails.types import RailUnavailable, SignedTransaction

METHOD: Final = "x402"
_PAYLOAD_CHARS_MAX = 4 * -(-PACKET_BYTES // 3)
# blocks after a blockhash in which it can be used; and one, as nodes count differently
_BLOCKHASH_BLOCKS = 151
# longer than a blockhash lasts at slots of 400 ms; a transfer that waits longer is not sent
_LIFE_S = 90
_MEMO_BYTES_MAX = 256
_UNITS_MAX = 200_000
_INSTRUCTIONS_MAX = 6

_Step: TypeAlias = tuple[Pubkey, tuple[Pubkey, ...], bytes]
_Refuse: TypeAlias = Callable[[InvalidReason, str], InvalidX402Payment]
_REFUSALS: Final[Mapping[str, InvalidReason]] = {
    "insufficient_funds": InvalidReason.FUNDS,
}


class SolanaTransferFacilitator:
    """Implement the TransferFacilitator protocol on one cluster."""

    def __init__(
        self,
        node: SolanaNode,
        chain: SolanaChainSettings,
        signer: SolanaSigner,
        verifier: SolanaVerifier,
        *,
        connection: ChainConnection,
        observer: SolanaObserver,
        get_inspection: Callable[[], discovery.SolanaInspection],
    ) -> None:
        self._node = node
        self._chain = chain
        self._signer = signer
        self._verifier = verifier
        self._connection = connection
        self._observer = observer
        self._get_inspection = get_inspection

    @property
    def signers(self) -> Sequence[str]:
        """Return the relayer's address."""
        return [self._signer.address]

    @property
    def methods(self) -> Collection[str]:
        """Return the only way: the payer signs a transaction."""
        return (METHOD,)

    @property
    def extra(self) -> Mapping[str, str]:
        """Return the fee payer that clients name in their transaction."""
        return {"feePayer": self._signer.address}

    def read_transfer(
        self, payment: X402Payment, requirements: X402Requirements, now_s: int
    ) -> FacilitatedTransfer:
        """Return a payment's transfer if its transaction does nothing else than required."""
        terms = self._build_terms(requirements)
        submission = _parse_transaction(payment)
        message = submission.message
        payer = self._check_signers(submission)
        self._check_instructions(message, payer, terms, requirements)
        fee = compute_highest_fee(message)
        if fee > self._chain.payment_fee_max:
            text = f"The transaction can cost {fee} lamports of fees, more than the limit of"
            raise InvalidX402Payment(
                InvalidReason.SVM_PRICE, f"{text} {self._chain.payment_fee_max}", str(payer)
            )
        if not submission.signature.verify(payer, to_bytes_versioned(message)):
            text = "The signature is not the payer's"
            raise InvalidX402Payment(InvalidReason.SVM_SIGNATURE, text, str(payer))
        asset = self._get_inspection().assets
        asset_id = next(each.id for each in asset.values() if each.address == terms.mint)
        digest = hashlib.sha256(to_bytes_versioned(message)).hexdigest()
        return FacilitatedTransfer(
            key=f"{self._chain.caip2}/{terms.mint}/{payer}/{digest}",
            chain_id=self._chain.caip2,
            asset=asset_id,
            payer=f"{self._chain.caip2}:{payer}",
            pay_to=f"{self._chain.caip2}:{terms.dest}",
            value=terms.value,
            content={
                "transaction": base64.b64encode(submission.unsigned_bytes).decode(),
                "terms": terms.to_json(),
            },
            gas=fee,
            expires_at=now_s + _LIFE_S,
            note="".join(list_memos(message)),
        )

    async def check(self, transfer: FacilitatedTransfer, now_s: int) -> FacilitatedTransfer:  # noqa: ARG002
        """Dry-run the transaction; the relayer must lose no more than its fee."""
        # read before the dry run, so that no earlier block can have the transaction
        slot = parse_number(await self._node.call("getSlot", {"commitment": FINALIZED}))
        try:
            await self._verifier.require_payable(_to_option(transfer), _get_submission(transfer))
        except ApiError as error:
            payer = to_address(transfer.payer)
            if error.code is ErrorCode.QUOTE_EXPIRED:
                text = "The transaction's blockhash has expired"
                raise InvalidX402Payment(InvalidReason.SIMULATION, text, payer) from error
            named = str((error.details or {}).get("reason", ""))
            reason = _REFUSALS.get(named, InvalidReason.SIMULATION)
            raise InvalidX402Payment(reason, error.message, payer) from error
        # read after it, as the client chose the blockhash, which may be as new as the newest final
        # block; and another node may have done the dry run, ahead of this one
        height = parse_number(await self._node.call("getBlockHeight", {"commitment": FINALIZED}))
        last_valid = height + self._chain.lag_max + _BLOCKHASH_BLOCKS
        content = {"last_valid": last_valid, **transfer.content}
        return replace(transfer, content=content, head=slot)

    async def sign(
        self,
        sender: str,  # noqa: ARG002
        nonce: int,  # noqa: ARG002
        transfer: FacilitatedTransfer,
    ) -> SignedTransaction:
        """Co-sign the payer's transaction; equal transfers give equal bytes."""
        submission = _get_submission(transfer)
        signed = self._signer.co_sign(submission.message, submission.signature)
        last_valid = int(str(transfer.content["last_valid"]))
        return replace(signed, lapses_at=last_valid, since_block=transfer.head)

    async def find_outcome(
        self, transfer: FacilitatedTransfer, tx_hash: str | None
    ) -> FacilitatedOutcome:
        """Return whether the final transaction moved exactly the money; no other one can."""
        if tx_hash is None:
            # without our signature the payer's is worth nothing
            return FacilitatedOutcome(None, 0)
        terms = SolanaOptionTerms.from_option(_to_option(transfer))
        message, payer = _get_submission(transfer).message, to_address(transfer.payer)

        async def answer(rpc: ChainRpc) -> FacilitatedOutcome | None:
            evidence = self._observer.create_evidence(rpc)
            record = (await evidence.read_records([tx_hash])).get(tx_hash)
            if record is None:
                return None
            paid = is_moved(terms, payer, message, record)
            return FacilitatedOutcome(tx_hash if paid else None, record.fee)

        outcome = await self._connection.quorum.read_unanimous(answer)
        if outcome is None:
            raise RailUnavailable(f"{self._chain.name}: transaction {tx_hash} is not final yet")
        return outcome

    async def cannot_be_mined(self, transfer: FacilitatedTransfer, tx: ChainTx) -> bool:
        """Return True once its blockhash has expired, and no block has the transaction."""
        last_valid = int(str(transfer.content["last_valid"]))

        async def answer(rpc: ChainRpc) -> bool | None:
            reason = await self._observer.create_evidence(rpc).find_end_reason_by_height(
                self._signer.address, tx.hash, last_valid, transfer.head
            )
            return None if reason is None or reason.has_landed else True

        return await self._connection.quorum.read_unanimous(answer) is not None

    def _build_terms(self, requirements: X402Requirements) -> SolanaOptionTerms:
        """Return the required transfer in the form of an option's terms, without a fee."""
        if requirements.scheme != EXACT:
            raise InvalidX402Payment(InvalidReason.SCHEME, f"Only the scheme {EXACT} is served")
        if requirements.extra.get("feePayer") != self._signer.address:
            text = f"extra.feePayer is not {self._signer.address}, the fee payer here"
            raise InvalidX402Payment(InvalidReason.SVM_FEE_PAYER, text)
        inspection = self._get_inspection()
        asset = next(
            (each for each in inspection.assets.values() if each.address == requirements.asset),
            None,
        )
        program = inspection.programs.get(requirements.asset)
        if asset is None or program is None or program == str(spl.SYSTEM):
            raise InvalidX402Payment(InvalidReason.ASSET, "The asset is not a token listed here")
        try:
            dest = spl.parse_pubkey(requirements.pay_to)
        except ValueError:
            text = "payTo is not a Solana address"
            raise InvalidX402Payment(InvalidReason.REQUIREMENTS, text) from None
        if not 0 < requirements.amount < 2**64:
            text = "amount is not a number of minor units that a token account can hold"
            raise InvalidX402Payment(InvalidReason.REQUIREMENTS, text)
        return SolanaOptionTerms(
            chain_id=self._chain.caip2,
            mint=asset.address,
            program=program,
            decimals=asset.decimals,
            value=requirements.amount,
            dest=str(dest),
            fee_to=None,
            fee=0,
            settled=True,
            ref=str(requirements.extra.get("memo") or ""),
        )

    def _check_signers(self, submission: PayerSignedMessage) -> Pubkey:
        """Return the payer: exactly the relayer and the payer sign, in this order."""
        message = submission.message
        header, keys = message.header, message.account_keys
        if keys[0] != self._signer.pubkey:
            text = "The transaction names another fee payer"
            raise InvalidX402Payment(InvalidReason.SVM_FEE_PAYER, text)
        if header.num_required_signatures != 2 or message.address_table_lookups:
            text = "The transaction needs other signatures than those of fee payer and payer"
            raise InvalidX402Payment(InvalidReason.SVM_TRANSACTION, text)
        payer: Pubkey = keys[1]
        if payer == self._signer.pubkey:
            text = "The fee payer does not pay for others"
            raise InvalidX402Payment(InvalidReason.SVM_FEE_PAYER_USED, text)
        return payer

    def _check_instructions(
        self,
        message: MessageV0,
        payer: Pubkey,
        terms: SolanaOptionTerms,
        requirements: X402Requirements,
    ) -> None:
        """Raise InvalidX402Payment unless each instruction is known and has its place.

        Two limits for fees, the transfer, then at most one memo and the guards of wallets.
        """

        def refuse(reason: InvalidReason, text: str) -> InvalidX402Payment:
            return InvalidX402Payment(reason, text, str(payer))

        steps = list_steps(message)
        relayer = self._signer.pubkey
        if not 3 <= len(steps) <= _INSTRUCTIONS_MAX:
            text = f"The transaction has {len(steps)} instructions, not 3 to {_INSTRUCTIONS_MAX}"
            raise refuse(InvalidReason.SVM_INSTRUCTIONS, text)
        if any(relayer in accounts or relayer == program for program, accounts, _ in steps):
            text = "An instruction uses the fee payer's account"
            raise refuse(InvalidReason.SVM_FEE_PAYER_USED, text)
        units, price, transfer, *additions = steps
        if not _is_limit(units, spl.COMPUTE_UNIT_LIMIT, 4, _UNITS_MAX):
            text = f"The first instruction does not limit compute units to at most {_UNITS_MAX}"
            raise refuse(InvalidReason.SVM_LIMIT, text)
        price_max = self._chain.compute_price_max
        if not _is_limit(price, spl.COMPUTE_UNIT_PRICE, 8, price_max):
            text = f"The second instruction does not set a compute price of at most {price_max}"
            raise refuse(InvalidReason.SVM_PRICE, text)
        places = _check_transfer(transfer, payer, terms, refuse)
        self._check_additions(additions, requirements, refuse)
        needed = {relayer, payer, *places, *(step[0] for step in steps)}
        guarded = {key for _, accounts, _ in additions for key in accounts}
        for index, key in enumerate(message.account_keys):
            is_writable = message.is_maybe_writable(index)
            if key not in needed | guarded or (is_writable and key not in {relayer, *places}):
                text = "The transaction names an account that no instruction needs"
                raise refuse(InvalidReason.SVM_UNKNOWN, text)

    def _check_additions(
        self,
        additions: Sequence[_Step],
        requirements: X402Requirements,
        refuse: _Refuse,
    ) -> None:
        """Check what follows the transfer: a memo, and guards that only compare accounts."""
        memos = [step for step in additions if step[0] == spl.MEMO]
        guards = [step for step in additions if step[0] != spl.MEMO]
        if len(guards) > self._chain.wallet_guards_max or not all(
            is_guard(step, relayer=self._signer.pubkey) for step in guards
        ):
            text = "The transaction has an instruction that is neither a memo nor a wallet's guard"
            raise refuse(InvalidReason.SVM_UNKNOWN, text)
        if any(accounts or len(data) > _MEMO_BYTES_MAX for _, accounts, data in memos):
            text = f"The memo has accounts, or more than {_MEMO_BYTES_MAX} bytes"
            raise refuse(InvalidReason.SVM_MEMO, text)
        required = requirements.extra.get("memo")
        exact = [str(required).encode()] if required else None
        if len(memos) > 1 or (exact is not None and [step[2] for step in memos] != exact):
            raise refuse(InvalidReason.SVM_MEMO, "The memo is not the required one")


def _check_transfer(
    transfer: _Step, payer: Pubkey, terms: SolanaOptionTerms, refuse: _Refuse
) -> tuple[Pubkey, ...]:
    """Return the accounts of the required transfer; raise a refusal for any other instruction."""
    expected = terms.build_transfers(str(payer))[0]
    program, accounts, data = transfer
    if program != expected.program_id or data[:1] != bytes(expected.data)[:1]:
        text = "The third instruction is not a transfer of the token (TransferChecked)"
        raise refuse(InvalidReason.SVM_TRANSFER, text)
    places = tuple(account.pubkey for account in expected.accounts)
    if len(accounts) != len(places) or accounts[0] != places[0] or accounts[3] != places[3]:
        text = "The transfer is not from the payer's own account, signed by the payer alone"
        raise refuse(InvalidReason.SVM_TRANSFER, text)
    if accounts[1] != places[1]:
        raise refuse(InvalidReason.SVM_MINT, "The transfer moves another token")
    if accounts[2] != places[2]:
        raise refuse(InvalidReason.SVM_RECIPIENT, "The transfer pays another account")
    if data != bytes(expected.data):
        raise refuse(InvalidReason.SVM_AMOUNT, "The transfer moves another amount")
    return places


def _parse_transaction(payment: X402Payment) -> PayerSignedMessage:
    """Parse the transaction of a payment, of exactly its bytes."""
    text = "payload.transaction is not a transaction of version 0 in base64"
    encoded = payment.payload.get("transaction")
    if not isinstance(encoded, str) or len(encoded) > _PAYLOAD_CHARS_MAX:
        raise InvalidX402Payment(InvalidReason.SVM_TRANSACTION, text)
    try:
        base64.b64decode(encoded, validate=True)
        return parse_submission([f'"{encoded}"'])
    except (ApiError, binascii.Error, ValueError):
        raise InvalidX402Payment(InvalidReason.SVM_TRANSACTION, text) from None


def _is_limit(step: _Step, kind: bytes, size: int, most: int) -> bool:
    """Return True for a compute budget of a kind up to a value."""
    program, accounts, data = step
    is_kind = program == spl.COMPUTE_BUDGET and not accounts and data[:1] == kind
    return is_kind and len(data) == 1 + size and int.from_bytes(data[1:], "little") <= most


def _get_submission(transfer: FacilitatedTransfer) -> PayerSignedMessage:
    return parse_submission([f'"{transfer.content["transaction"]}"'])


def _to_option(transfer: FacilitatedTransfer) -> PaymentOption:
    """Return a transfer in the form of an option, for what reads options."""
    terms = transfer.content["terms"]
    return PaymentOption(
        payment_id="",
        id=transfer.key,
        account=transfer.payer,
        payer=transfer.payer,
        chain_id=transfer.chain_id,
        asset=transfer.asset,
        value=transfer.value,
        eta_s=0,
        expires_at=transfer.expires_at,
        method=METHOD,
        actions=(),
        terms=dict(terms) if isinstance(terms, dict) else {},
        created_at_us=0,
    )
