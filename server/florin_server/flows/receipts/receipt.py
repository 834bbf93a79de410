"""The receipt of a payment: what is known of it now, signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from florin_server.domain.caip import canonical_account
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import (
    Confirmation,
    Merchant,
    Option,
    Payment,
    Refund,
    Status,
)
from florin_server.domain.receipts import keys, receipt, signature
from florin_server.domain.receipts.effect import PaymentEffect
from florin_server.domain.receipts.keys import ReceiptKey
from florin_server.domain.receipts.receipt import Receipt
from florin_server.flows.app import App
from florin_server.flows.receipts.keys import seed_of
from florin_server.flows.receipts.lookup import looked_up
from florin_server.rails.protocol import Rail
from florin_server.store.accounts import merchants
from florin_server.store.engine.query import Op, on_snapshot
from florin_server.store.payments import payments, simulation
from florin_server.store.payouts import refunds
from florin_server.store.receipts import effects
from florin_server.store.receipts import receipt_keys as kept

_CAIP19 = "caip19/"


@dataclass(frozen=True, slots=True)
class Signed:
    """A receipt and its JWS; `page_url` leads the buyer to it."""

    receipt: Receipt
    jws: str
    key_id: str
    page_url: str


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is kept of a payment that succeeded; without an effect it is not known where it is."""

    merchant: Merchant
    option: Option | None
    bound: Confirmation | None
    refunds: Sequence[Refund]
    effect: PaymentEffect | None
    keys: list[ReceiptKey]


async def signed(app: App, payment: Payment, *, public: bool) -> Signed:
    """Sign the receipt of a payment as it stands; a `public` one is without the merchant's members.

    payment_not_succeeded before the end and after any other one; invalid_state if no money moved,
    since the end was simulated, or if it is not known where it did, as after a reorganisation;
    internal_error, unavailable, if the chain has to be asked and does not answer.
    """
    if payment.status is not Status.SUCCEEDED:
        raise FlorinError(Code.PAYMENT_NOT_SUCCEEDED)
    if payment.tx_id == simulation.tx_id_of(payment.id):
        raise FlorinError(
            Code.INVALID_STATE,
            "The payment was simulated: no money moved that a receipt could prove",
        )
    facts = await app.store.read(_facts(payment))
    option, effect = facts.option, facts.effect
    if option is None or facts.bound is None:
        raise FlorinError(Code.INVALID_STATE, "It is not known any more how the payment was paid")
    rail = app.rails.get(option.chain_id)
    if rail is None:
        raise FlorinError(Code.INVALID_STATE, f"The chain {option.chain_id} is not set up any more")
    effect = effect or await looked_up(rail, payment, option, facts.bound)
    if effect is None:
        raise FlorinError(
            Code.INVALID_STATE,
            "The payment is not where the chain had it: a reorganisation undid it, and it is "
            "settled again, or it is too old for the nodes",
        )
    now_us = app.clock.now_us()
    key = keys.signer(facts.keys, now_us)
    if key is None:
        raise FlorinError(Code.INTERNAL_ERROR)
    said = _said(app, payment, facts, option, effect, rail, now_us // 1_000_000)
    if public:
        said = said.to_public()
    jws = signature.sign(said, seed_of(app, key), key.id)
    return Signed(said, jws, key.id, page_url(app, payment))


def page_path(payment_id: str) -> str:
    """Where a buyer finds the receipt, below the address of links."""
    return f"/{payment_id}/receipt"


def page_url(app: App, payment: Payment) -> str:
    """The same whole, and with the account that paid, to whom the page tells all."""
    told = f"?account={quote(payment.payer, safe=':')}" if payment.payer else ""
    return app.links.base + page_path(payment.id) + told


def is_payer(payment: Payment, account: str) -> bool:
    """True if a text names the account that paid: as CAIP-10, or its address alone."""
    if payment.payer is None:
        return False
    chain, _, address = payment.payer.rpartition(":")
    written = account if ":" in account else f"{chain}:{account}"
    try:
        return canonical_account(written, checksum=False) == f"{chain}:{address}"
    except ValueError:
        return False


@on_snapshot
def _facts(payment: Payment) -> Op[_Facts]:
    merchant = yield from merchants.merchant(payment.merchant_id)
    if merchant is None:
        raise RuntimeError(f"payment {payment.id} has no merchant")
    option = None
    if payment.option_id is not None:
        option = yield from payments.option(payment.id, payment.option_id)
    refunded = yield from refunds.list_refunds(payment.id)
    effect = yield from effects.get(payment.id)
    bound = yield from payments.confirmation(payment.id)
    return _Facts(merchant, option, bound, refunded, effect, (yield from kept.all_()))


def _said(  # noqa: PLR0917  (one of each, none alike)
    app: App,
    payment: Payment,
    facts: _Facts,
    option: Option,
    effect: PaymentEffect,
    rail: Rail,
    now_s: int,
) -> Receipt:
    asset, split = rail.assets.get(option.asset), rail.terms.split(option)
    made_of = rail.terms.commitment(option)
    return Receipt(
        iss=app.links.base,
        iat=now_s,
        sub=payment.id,
        live=payment.live,
        merchant=receipt.Merchant(id=facts.merchant.id, name=facts.merchant.name),
        reference=payment.reference_id or None,
        asked=receipt.Asked(unit=payment.unit, value=str(payment.value)),
        paid=receipt.Money(
            asset=option.asset,
            symbol=asset.symbol if asset else "",
            decimals=asset.decimals if asset else 0,
            value=str(option.value),
            fee=str(split.fee),
        ),
        payer=option.payer,
        recipient=made_of.dest,
        fee_to=made_of.fee_to,
        settled=split.settled,
        option=receipt.Way(
            id=option.id,
            method=option.method,
            reference=rail.terms.reference(option),
            salt=payment.salt.hex(),
            contract=made_of.contract,
            steps=None if made_of.steps is None else list(made_of.steps),
        ),
        transaction=receipt.Place(
            chain=option.chain_id,
            hash=effect.tx_hash,
            block=effect.block_number,
            block_hash=effect.block_hash or None,
            position=effect.position,
        ),
        succeeded_at=payment.updated_at_us // 1_000_000,
        refund=_refunded(facts.refunds[-1]) if facts.refunds else None,
        refunds=[_refunded(refund) for refund in facts.refunds] if len(facts.refunds) > 1 else None,
    )


def _refunded(one: Refund) -> receipt.Refunded:
    return receipt.Refunded(
        id=one.id,
        status=one.status,
        asset=one.unit.removeprefix(_CAIP19),
        value=str(one.value),
        account=one.account,
        transaction=one.tx_id,
        completed_at=None if one.completed_at_us is None else one.completed_at_us // 1_000_000,
    )
