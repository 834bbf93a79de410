"""Plain values to messages and back."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from florin.v1 import gateway_pb2, merchant_pb2, money_pb2, payment_pb2, refund_pb2

from florin_server.domain.capture.buyer_data import FIELDS, SCHEMA_JSON
from florin_server.domain.money import CURRENCIES
from florin_server.domain.payments.payment import (
    Action,
    Build,
    CancelledReason,
    FailureCode,
    Merchant,
    Option,
    Payment,
    Refund,
    RefundStatus,
    Status,
)
from florin_server.domain.payouts.refund_amounts import (
    RequestedRefund,
    get_payment_value,
    sum_refunds,
)
from florin_server.flows.app import App
from florin_server.flows.payments.create import NewPayment
from florin_server.flows.payments.trace import Change
from florin_server.flows.payouts.refund import CreatedRefund, RefundRequest
from florin_server.rpc.server.timestamps import timestamp

# the documented pace: a buyer thinks, a chain works
_BUYER_MS, _CHAIN_MS = 1000, 2000
# four polls a second are a fifth of what one device may ask, and faster than any chain is final
_CHAIN_MS_LEAST = 250

_STATUS = {s: payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{s.upper()}") for s in Status}
_FAILURE = {
    c: payment_pb2.PaymentFailureCode.Value(f"PAYMENT_FAILURE_CODE_{c.upper()}")
    for c in FailureCode
}
_REASON = {
    r: payment_pb2.CancelledReason.Value(f"CANCELLED_REASON_{r.upper()}") for r in CancelledReason
}
_REFUND = {s: refund_pb2.RefundStatus.Value(f"REFUND_STATUS_{s.upper()}") for s in RefundStatus}

_COLLECTED_FIELDS = [
    gateway_pb2.CollectDataField(
        id=field.id,
        name=field.name,
        type=gateway_pb2.CollectDataFieldType.Value(
            f"COLLECT_DATA_FIELD_TYPE_{field.kind.upper()}"
        ),
        required=field.required,
    )
    for field in FIELDS
]


class Codec:
    """Builds answers; knows the assets, whose names amounts carry."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._display = functools.lru_cache(maxsize=1024)(self._find_display)

    def amount(self, unit: str, value: int) -> money_pb2.Amount:
        """An amount with its names."""
        return money_pb2.Amount(unit=unit, value=str(value), display=self._display(unit))

    def _find_display(self, unit: str) -> money_pb2.AmountDisplay:
        kind, _, name = unit.partition("/")
        if kind == "iso4217":
            currency = CURRENCIES[name]
            return money_pb2.AmountDisplay(
                asset_name=currency.name, asset_symbol=name, decimals=currency.decimals
            )
        asset = self._app.asset(name)
        if asset is None:
            # an asset that was taken out of the registry still has payments
            return money_pb2.AmountDisplay(asset_name=name, asset_symbol=name)
        return money_pb2.AmountDisplay(
            asset_name=asset.name,
            asset_symbol=asset.symbol,
            decimals=asset.decimals,
            icon_url=asset.icon_url,
            network_icon_url=asset.network_icon_url,
            network_name=asset.network_name,
        )

    def information(self, payment: Payment) -> payment_pb2.PaymentInformation | None:
        """The effect of a succeeded payment."""
        if payment.status is not Status.SUCCEEDED or payment.tx_id is None:
            return None
        amount = None
        if payment.option_unit is not None and payment.option_value is not None:
            amount = self.amount(payment.option_unit, payment.option_value)
        return payment_pb2.PaymentInformation(tx_id=payment.tx_id, option_amount=amount)

    def status(self, payment: Payment) -> payment_pb2.GetPaymentStatusResponse:
        """The status of a payment."""
        return payment_pb2.GetPaymentStatusResponse(
            status=_STATUS[payment.status],
            is_final=payment.status.is_final,
            poll_in_ms=self._poll_ms(payment),
            info=self.information(payment),
            failure_code=failure(payment),
        )

    def _poll_ms(self, payment: Payment) -> int | None:
        """When it is worth asking again, in milliseconds; None if nothing will change.

        A chain is asked twice within the time that it usually takes, so that nobody waits for an
        end that is there already; never more seldom than documented.
        """
        if payment.status is not Status.PROCESSING:
            return None if payment.status.is_final else _BUYER_MS
        asset = (payment.option_unit or "").removeprefix("caip19/")
        rail = self._app.rails.get(asset.rpartition("/")[0])
        if rail is None:
            return _CHAIN_MS
        takes_s = self._app.chains[rail.chain_id].promise_s(rail.eta_s, rail.eta_s)
        takes_s += rail.extra_wait_s(asset, payment.option_value or 0)
        return min(_CHAIN_MS, max(_CHAIN_MS_LEAST, round(takes_s * 500)))

    def update(self, payment: Payment) -> payment_pb2.WatchPaymentResponse:
        """One state of a watched payment."""
        return payment_pb2.WatchPaymentResponse(
            payment=self.status(payment), version=payment.version
        )

    def cancelled(self, payment: Payment) -> payment_pb2.CancelPaymentResponse:
        """A payment that was called off; its last change was that."""
        return payment_pb2.CancelPaymentResponse(
            payment_id=payment.id,
            status=_STATUS[payment.status],
            cancelled_reason=_reason(payment) or payment_pb2.CANCELLED_REASON_UNSPECIFIED,
            cancelled_at=timestamp(payment.updated_at_us),
        )

    def info(self, payment: Payment, merchant: Merchant) -> gateway_pb2.PaymentInfo:
        """What a payment is about, for wallets."""
        return gateway_pb2.PaymentInfo(
            payment_id=payment.id,
            status=_STATUS[payment.status],
            is_final=payment.status.is_final,
            live=payment.live,
            amount=self.amount(payment.unit, payment.value),
            expires_at=payment.expires_at,
            merchant=payment_pb2.MerchantSummary(name=merchant.name, icon_url=merchant.icon_url),
            buyer=buyer(payment),
        )

    def option(self, option: Option, form_url: str | None = None) -> gateway_pb2.PaymentOption:
        """One way to pay; with the form that has to be filled in before."""
        return gateway_pb2.PaymentOption(
            id=option.id,
            account=option.account,
            amount=self.amount(f"caip19/{option.asset}", option.value),
            eta_s=option.eta_s,
            expires_at=option.expires_at,
            actions=[action(step) for step in option.actions],
            collect_data=collect_data(form_url),
        )

    def created(
        self, payment: Payment, checkout_problem: str | None = None
    ) -> merchant_pb2.CreatePaymentResponse:
        """Return a new payment, and why its buyer is not sent back if that was asked for."""
        return merchant_pb2.CreatePaymentResponse(
            payment_id=payment.id,
            gateway_url=self._app.links.of(payment.id),
            status=_STATUS[payment.status],
            is_final=False,
            poll_in_ms=_BUYER_MS,
            expires_at=payment.expires_at,
            live=payment.live,
            checkout_problem=checkout_problem,
        )

    def detail(
        self, payment: Payment, merchant: Merchant, refunds: Sequence[Refund]
    ) -> merchant_pb2.PaymentDetail:
        """Return everything about a payment for its merchant; `refunds` begin with the oldest."""
        checkout = None
        if payment.success_url is not None and payment.error_url is not None:
            checkout = merchant_pb2.CheckoutUrls(
                success_url=payment.success_url, error_url=payment.error_url
            )
        return merchant_pb2.PaymentDetail(
            status=_STATUS[payment.status],
            reference_id=payment.reference_id,
            info=self.information(payment),
            failure_code=failure(payment),
            failure_reason=_failure_reason(payment),
            settlement=settlement(payment),
            payment_id=payment.id,
            is_final=payment.status.is_final,
            version=payment.version,
            live=payment.live,
            amount=self.amount(payment.unit, payment.value),
            merchant=payment_pb2.PaymentMerchant(
                id=merchant.id, name=merchant.name, icon_url=merchant.icon_url
            ),
            gateway_url=self._app.links.of(payment.id),
            checkout=checkout,
            created_at=timestamp(payment.created_at_us),
            expires_at=payment.expires_at,
            last_updated_at=timestamp(payment.updated_at_us),
            buyer=buyer(payment),
            cancelled_reason=_reason(payment),
            cancelled_at=timestamp(payment.updated_at_us) if payment.cancelled_reason else None,
            refund=self.refund(payment, refunds[-1]) if refunds else None,
            refunds=[self.refund(payment, refund) for refund in refunds],
            refunded=self._refunded(payment, refunds) if refunds else None,
        )

    def _refunded(self, payment: Payment, refunds: Sequence[Refund]) -> refund_pb2.RefundTotal:
        totals = sum_refunds(payment, refunds)
        return refund_pb2.RefundTotal(
            amount=self.amount(totals.unit, totals.refunded),
            payment_amount=self.amount(payment.unit, totals.payment_refunded),
            refundable=self.amount(totals.unit, totals.refundable),
            payment_refundable=self.amount(payment.unit, totals.payment_refundable),
        )

    def refund(self, payment: Payment, refund: Refund) -> refund_pb2.Refund:
        """Return a refund of a payment."""
        completed_at_us = refund.completed_at_us
        return refund_pb2.Refund(
            refund_id=refund.id,
            status=_REFUND[refund.status],
            amount=self.amount(refund.unit, refund.value),
            tx_id=refund.tx_id,
            created_at=timestamp(refund.created_at_us),
            completed_at=None if completed_at_us is None else timestamp(completed_at_us),
            reason=refund.reason,
            payment_amount=self.amount(payment.unit, get_payment_value(payment, refund)),
        )

    def refunded(self, outcome: CreatedRefund) -> refund_pb2.CreateRefundResponse:
        """Return the answer to a request for a refund."""
        refund = outcome.refund
        return refund_pb2.CreateRefundResponse(
            payment_id=refund.payment_id,
            refund_id=refund.id,
            status=_REFUND[refund.status],
            tx_id=refund.tx_id,
            amount=self.amount(refund.unit, refund.value),
            payment_amount=self.amount(outcome.payment_unit, refund.payment_value),
        )


def payment_status(payment: Payment) -> payment_pb2.PaymentStatus.ValueType:
    """Where a payment stands."""
    return _STATUS[payment.status]


def happened(change: Change) -> payment_pb2.PaymentEvent:
    """One change of a payment."""
    return payment_pb2.PaymentEvent(
        version=change.version,
        status=_STATUS[Status(change.status)],
        cause=change.cause,
        at=timestamp(change.at_us),
        request_id=change.request_id or None,
    )


def _reason(payment: Payment) -> payment_pb2.CancelledReason.ValueType | None:
    return _REASON[payment.cancelled_reason] if payment.cancelled_reason else None


def failure(payment: Payment) -> payment_pb2.PaymentFailureCode.ValueType | None:
    """Set for failed payments only; unspecified where no code is told."""
    if payment.status is not Status.FAILED:
        return None
    if payment.failure_code is None:
        return payment_pb2.PAYMENT_FAILURE_CODE_UNSPECIFIED
    return _FAILURE[payment.failure_code]


def _failure_reason(payment: Payment) -> str | None:
    """In words, of failed payments without a code."""
    told = payment.status is Status.FAILED and payment.failure_code is None
    return payment.failure_detail if told else None


def buyer(payment: Payment) -> payment_pb2.Buyer | None:
    """Who pays, from the accepted confirm on."""
    if payment.payer is None:
        return None
    return payment_pb2.Buyer(
        account_caip10=payment.payer,
        account_provider_name=payment.provider_name or "unknown",
        account_provider_icon=payment.provider_icon,
    )


def settlement(payment: Payment) -> merchant_pb2.SettlementInfo | None:
    """Where the merchant's money stands; without a destination of its own it is still owed."""
    if payment.status is not Status.SUCCEEDED:
        return None
    if payment.settled_value is None or payment.tx_id is None or payment.option_unit is None:
        return merchant_pb2.SettlementInfo()
    amount = money_pb2.AmountValue(unit=payment.option_unit, value=str(payment.settled_value))
    return merchant_pb2.SettlementInfo(
        successful=merchant_pb2.SettledAmount(tx_id=payment.tx_id, amount=amount)
    )


def action(value: Action | Build) -> gateway_pb2.Action:
    """A call that a wallet executes, or what fetch resolves into such calls."""
    if isinstance(value, Build):
        return gateway_pb2.Action(build=gateway_pb2.BuildAction(data=value.data))
    return gateway_pb2.Action(
        wallet_rpc=gateway_pb2.WalletRpcAction(
            chain_id=value.chain_id, method=value.method, params_json=value.params_json
        )
    )


def collect_data(url: str | None) -> gateway_pb2.CollectData | None:
    """The form behind a link, and what it asks for."""
    if url is None:
        return None
    return gateway_pb2.CollectData(url=url, schema_json=SCHEMA_JSON, fields=_COLLECTED_FIELDS)


def refund_request(request: refund_pb2.CreateRefundRequest) -> RefundRequest:
    """Return what a merchant asks to be refunded."""
    amount = None
    if request.HasField("amount"):
        amount = RequestedRefund(request.amount.unit, request.amount.value)
    reason = request.reason if request.HasField("reason") else None
    return RefundRequest(request.payment_id, amount, reason)


def new_payment(request: merchant_pb2.CreatePaymentRequest) -> NewPayment:
    """What a merchant asks for."""
    return NewPayment(
        unit=request.amount.unit,
        value=request.amount.value,
        reference_id=request.reference_id,
        expires_at=request.expires_at if request.HasField("expires_at") else None,
        success_url=request.checkout.success_url,
        error_url=request.checkout.error_url,
    )
