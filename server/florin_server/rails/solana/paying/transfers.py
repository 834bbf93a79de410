"""Transfer requests of Solana Pay: links by which wallets pay a merchant without asking Florin.

The wallet builds the transaction, so it has one receiver and no note. Its transfer names the
address of the payment; who sends it is known once the chain shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from solders.hash import Hash
from solders.message import MessageV0
from solders.signature import Signature

from florin_server.domain.chains.solana import spl
from florin_server.domain.payments.option_names import (
    build_option_id_parts,
    derive_option_id,
    derive_reference,
)
from florin_server.domain.payments.payment import BuildAction, Payment, PaymentOption
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.connection.node import require_result
from florin_server.rails.option_offer import OptionOffer, list_expiry_steps
from florin_server.rails.solana.paying.terms import (
    AnyMessage,
    SolanaOptionTerms,
    build_option,
)
from florin_server.rails.solana.reading import referenced
from florin_server.rails.solana.reading.evidence import (
    TransactionRecord,
    compute_coin_changes,
    compute_token_changes,
    parse_record,
)
from florin_server.rails.solana.reading.node import SolanaNode
from florin_server.rails.solana.reading.signed import find_signed_message
from florin_server.rails.solana.reading.transfers import (
    find_named_transfer,
    find_paying_transfer,
    is_paid_by_transfer,
)
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.solana.setup import discovery
from florin_server.rails.transfers import (
    ExactTransfer,
    ObservedTransfer,
    ObservedTransfers,
    TransferCandidate,
)
from florin_server.rails.types import TRANSFER_METHOD, Asset, RailUnavailable


class SolanaTransferRequests:
    """Implement the TransferRequests protocol on one cluster."""

    method = TRANSFER_METHOD

    def __init__(
        self,
        node: SolanaNode,
        chain: SolanaChainSettings,
        get_inspection: Callable[[], discovery.SolanaInspection],
    ) -> None:
        self._node = node
        self._chain = chain
        self._get_inspection = get_inspection

    def get_account(self, payment: Payment) -> str:
        """Return the CAIP-10 account of the address that transfers name."""
        return f"{self._chain.caip2}:{referenced.derive_address(payment)}"

    def build_option(self, offer: OptionOffer) -> PaymentOption:
        """Build the option of a link, without a sender."""
        account = self.get_account(offer.payment)
        payable = replace(offer.payable, payer=account, method=TRANSFER_METHOD)
        program = self._get_inspection().programs[offer.asset.address]
        option = build_option(
            self._chain, replace(offer, account=account, payable=payable), program
        )
        terms = {**option.terms, "named": account.rpartition(":")[2]}
        # nothing on the chain carries it: each sender has an option of its own
        return replace(option, terms=terms, reference=None)

    async def find_obstacle(self, option: PaymentOption) -> str | None:
        """Return that the merchant's wallet does not exist for wallets, as it never had coin."""
        terms = SolanaOptionTerms.from_option(option)
        (account,) = await self._node.get_accounts([spl.parse_pubkey(terms.dest)])
        if account is not None:
            return None
        return f"{terms.dest} holds no coin, so that wallets do not find it: send it some first"

    def format_uri(self, option: PaymentOption, label: str) -> str:
        """Return the link of Solana Pay, with the amount in whole units."""
        terms = SolanaOptionTerms.from_option(option)
        amount = Decimal(terms.value).scaleb(-terms.decimals)
        token = "" if terms.is_coin else f"&spl-token={terms.mint}"
        return (
            f"solana:{terms.dest}?amount={_format_amount(amount)}{token}"
            f"&reference={terms.named}&label={quote(label, safe='')}"
        )

    async def find_transfers(self, candidates: Sequence[TransferCandidate]) -> ObservedTransfers:
        """Return what finalized transactions moved to the merchants; one batched read."""
        answers = await self._node.batch(
            [
                ("getTransaction", (candidate.tx_hash, referenced.TRANSACTION_CONFIG))
                for candidate in candidates
            ]
        )
        transfers: list[ObservedTransfer] = []
        unread = set()
        for candidate, answer in zip(candidates, answers, strict=True):
            try:
                transfers += self._find_transfers(candidate, answer)
            except RailUnavailable as error:
                referenced.log_unread(self._chain, candidate.tx_hash, error)
                unread.add(candidate.tx_hash)
        return ObservedTransfers(tuple(transfers), frozenset(unread))

    def _find_transfers(self, candidate: TransferCandidate, answer: Any) -> list[ObservedTransfer]:
        if isinstance(answer, RpcError) and answer.code == referenced.UNSUPPORTED_VERSION:
            return []
        if require_result(answer) is None:
            raise RailUnavailable("the node does not have it")
        record = parse_record(answer, self._chain.name)
        if record.error is not None:
            return []
        message = find_signed_message(answer, Signature.from_string(candidate.tx_hash))
        if message is None:
            raise RailUnavailable("the node returned another transaction than requested")
        if isinstance(message, MessageV0) and message.address_table_lookups:
            return []
        for offer in candidate.offers:
            terms = SolanaOptionTerms.from_option(offer)
            transfer = find_paying_transfer(message, terms.named)
            if transfer is None:
                continue
            sender = str(transfer.sender)
            if not is_paid_by_transfer(terms, sender, message, record):
                continue
            option = bind_sender(candidate.payment, offer, sender)
            event = referenced.build_event(
                SolanaOptionTerms.from_option(option), sender, candidate.tx_hash, message, answer
            )
            exact = ExactTransfer(option, event)
            return [_build_observed(candidate, record, offer.asset, terms.value, sender, exact)]
        return self._list_other(candidate, message, record)

    def _list_other(
        self, candidate: TransferCandidate, message: AnyMessage, record: TransactionRecord
    ) -> list[ObservedTransfer]:
        """Return what merchants received without paying anything by it."""
        inspection = self._get_inspection()
        observed: dict[str, ObservedTransfer] = {}
        for offer in candidate.offers:
            terms = SolanaOptionTerms.from_option(offer)
            transfer = find_named_transfer(message, terms.named)
            sender = "" if transfer is None else str(transfer.sender)
            for asset in inspection.assets.values():
                value = _find_received(terms, asset, inspection, message, record)
                if value > 0:
                    observed[asset.id] = _build_observed(
                        candidate, record, asset.id, value, sender, None
                    )
        return list(observed.values())


def bind_sender(payment: Payment, option: PaymentOption, sender: str) -> PaymentOption:
    """Return the option that a sender (bare) pays by the link of an option."""
    split, payer = SolanaOptionTerms.from_option(option).to_split(), f"{option.chain_id}:{sender}"
    parts = build_option_id_parts(
        payment.id,
        payer,
        option.asset,
        option.value,
        (),
        split.dest,
        split.fee_to,
        split.fee,
        settled=split.settled,
        steps=(TRANSFER_METHOD, *list_expiry_steps(option.expires_at)),
    )
    option_id = derive_option_id(parts)
    ref = str(Hash.from_bytes(derive_reference(payment.salt, option_id)))
    return replace(
        option,
        id=option_id,
        account=payer,
        payer=payer,
        actions=(BuildAction(option_id.replace("-", "")),),
        terms={**option.terms, "ref": ref},
        reference=ref,
    )


def _find_received(
    terms: SolanaOptionTerms,
    asset: Asset,
    inspection: discovery.SolanaInspection,
    message: AnyMessage,
    record: TransactionRecord,
) -> int:
    """Return how much of an asset the merchant of an option got."""
    program = inspection.programs[asset.address]
    held = replace(terms, mint=asset.address, program=program)
    changes = (
        compute_coin_changes(message, record)
        if held.is_coin
        else compute_token_changes(message, record)
    )
    return changes.get(held.get_token_address(terms.dest), 0)


def _build_observed(  # noqa: PLR0917  (one of each, none alike)
    candidate: TransferCandidate,
    record: TransactionRecord,
    asset: str,
    value: int,
    sender: str,
    exact: ExactTransfer | None,
) -> ObservedTransfer:
    return ObservedTransfer(
        candidate.tx_hash, candidate.payment.id, record.slot, asset, value, sender, exact
    )


def _format_amount(amount: Decimal) -> str:
    """Return a decimal without an exponent and without zeros at its end."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
