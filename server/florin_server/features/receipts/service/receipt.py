"""The receipt of a payment: what is known of it now, signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import quote

from florin_server.accounts.store import merchants
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, on_snapshot
from florin_server.domain.caip import canonicalize_account
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import (
    Confirmation,
    Merchant,
    Payment,
    PaymentOption,
    PaymentStatus,
    Refund,
)
from florin_server.domain.receipts import keys, receipt, signature
from florin_server.domain.receipts.effect import PaymentEffect
from florin_server.domain.receipts.keys import ReceiptKey
from florin_server.domain.receipts.receipt import Receipt
from florin_server.features.receipts import store as receipt_keys
from florin_server.features.receipts.service.keys import decrypt_seed
from florin_server.features.receipts.service.lookup import find_effect
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.store import effects, payments, simulation
from florin_server.money.refunds import store as refunds
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.settings.context import SettingsContext


class _Context(ArchiveContext, ChainContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_CAIP19 = "caip19/"


@dataclass(frozen=True, slots=True)
class SignedReceipt:
    """A receipt and its JWS; `page_url` leads the buyer to it."""

    receipt: Receipt
    jws: str
    key_id: str
    page_url: str


@dataclass(frozen=True, slots=True)
class _ReceiptFacts:
    """The stored facts of a succeeded payment; without an effect its place is unknown."""

    merchant: Merchant
    option: PaymentOption | None
    confirmation: Confirmation | None
    refunds: Sequence[Refund]
    effect: PaymentEffect | None
    keys: list[ReceiptKey]


async def sign_receipt(app: _Context, payment: Payment, *, is_public: bool) -> SignedReceipt:
    """Sign the present receipt of a payment, without the merchant's members if `is_public`.

    payment_not_succeeded before the end and after any other one; invalid_state if no money moved,
    since the end was simulated, or if its place is unknown, as after a reorganization;
    internal_error, unavailable, if the chain has to be read and does not answer.
    """
    if payment.status is not PaymentStatus.SUCCEEDED:
        raise ApiError(ErrorCode.PAYMENT_NOT_SUCCEEDED)
    if payment.tx_id == simulation.format_tx_id(payment.id):
        raise ApiError(
            ErrorCode.INVALID_STATE,
            "The payment was simulated: no money moved, so there is nothing to prove",
        )
    facts = await app.store.read(_read_facts(payment))
    if facts.option is None and (archived := await app.archive.find(payment.id)) is not None:
        facts = replace(
            facts,
            option=archived.option,
            confirmation=archived.confirmation,
            effect=archived.effect,
        )
    option, effect = facts.option, facts.effect
    if option is None or facts.confirmation is None:
        raise ApiError(ErrorCode.INVALID_STATE, "Florin no longer knows how the payment was paid")
    rail = app.rails.get(option.chain_id)
    if rail is None:
        raise ApiError(
            ErrorCode.INVALID_STATE, f"Chain {option.chain_id} is no longer in the settings"
        )
    effect = effect or await find_effect(rail, payment, option, facts.confirmation)
    if effect is None:
        raise ApiError(
            ErrorCode.INVALID_STATE,
            "The nodes do not return the payment's transaction: a reorganization removed it and "
            "Florin settles the payment again, or it is too old for the nodes",
        )
    now_us = app.clock.now_us()
    key = keys.find_signing_key(facts.keys, now_us)
    if key is None:
        raise ApiError(ErrorCode.INTERNAL_ERROR)
    signed_content = _build_receipt(app, payment, facts, option, effect, rail, now_us // 1_000_000)
    if is_public:
        signed_content = signed_content.to_public()
    jws = signature.sign_receipt(signed_content, decrypt_seed(app, key), key.id)
    return SignedReceipt(signed_content, jws, key.id, get_page_url(app, payment))


def get_page_path(payment_id: str) -> str:
    """Return the path of a buyer's receipt, below the URL of links."""
    return f"/{payment_id}/receipt"


def get_page_url(app: SettingsContext, payment: Payment) -> str:
    """Return the full URL with the paying account, for which the page shows everything."""
    query = f"?account={quote(payment.payer, safe=':')}" if payment.payer else ""
    return app.links.base_url + get_page_path(payment.id) + query


def is_payer(payment: Payment, account: str) -> bool:
    """Return True if a text names the account that paid: as CAIP-10, or its address alone."""
    if payment.payer is None:
        return False
    chain, _, address = payment.payer.rpartition(":")
    written = account if ":" in account else f"{chain}:{account}"
    try:
        return canonicalize_account(written, checksum=False) == f"{chain}:{address}"
    except ValueError:
        return False


@on_snapshot
def _read_facts(payment: Payment) -> Op[_ReceiptFacts]:
    merchant = yield from merchants.find_merchant(payment.merchant_id)
    if merchant is None:
        raise RuntimeError(f"payment {payment.id} has no merchant")
    option = None
    if payment.option_id is not None:
        option = yield from payments.find_option(payment.id, payment.option_id)
    refunded = yield from refunds.list_refunds(payment.id)
    effect = yield from effects.find(payment.id)
    confirmation = yield from payments.find_confirmation(payment.id)
    return _ReceiptFacts(
        merchant, option, confirmation, refunded, effect, (yield from receipt_keys.list_keys())
    )


def _build_receipt(  # noqa: PLR0917  (one of each, none alike)
    app: SettingsContext,
    payment: Payment,
    facts: _ReceiptFacts,
    option: PaymentOption,
    effect: PaymentEffect,
    rail: Rail,
    now_s: int,
) -> Receipt:
    asset, split = rail.assets.get(option.asset), rail.terms.get_split(option)
    commitment = rail.terms.get_commitment(option)
    return Receipt(
        iss=app.links.base_url,
        iat=now_s,
        sub=payment.id,
        live=payment.live,
        merchant=receipt.ReceiptMerchant(id=facts.merchant.id, name=facts.merchant.name),
        reference=payment.reference_id or None,
        asked=receipt.RequestedAmount(unit=payment.unit, value=str(payment.value)),
        paid=receipt.ReceiptAmount(
            asset=option.asset,
            symbol=asset.symbol if asset else "",
            decimals=asset.decimals if asset else 0,
            value=str(option.value),
            fee=str(split.fee),
        ),
        payer=option.payer,
        recipient=commitment.dest,
        fee_to=commitment.fee_to,
        settled=split.settled,
        option=receipt.ReceiptOption(
            id=option.id,
            method=option.method,
            reference=rail.terms.get_reference(option),
            salt=payment.salt.hex(),
            contract=commitment.contract,
            steps=None if commitment.steps is None else list(commitment.steps),
        ),
        transaction=receipt.ReceiptTransaction(
            chain=option.chain_id,
            hash=effect.tx_hash,
            block=effect.block_number,
            block_hash=effect.block_hash or None,
            position=effect.position,
        ),
        succeeded_at=payment.updated_at_us // 1_000_000,
        refund=_to_refunded(facts.refunds[-1]) if facts.refunds else None,
        refunds=[_to_refunded(refund) for refund in facts.refunds]
        if len(facts.refunds) > 1
        else None,
    )


def _to_refunded(refund: Refund) -> receipt.ReceiptRefund:
    return receipt.ReceiptRefund(
        id=refund.id,
        status=refund.status,
        asset=refund.unit.removeprefix(_CAIP19),
        value=str(refund.value),
        account=refund.account,
        transaction=refund.tx_id,
        completed_at=None
        if refund.completed_at_us is None
        else refund.completed_at_us // 1_000_000,
    )
