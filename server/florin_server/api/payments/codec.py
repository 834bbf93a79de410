"""Convert payments and refunds to messages and back."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

from florin.v1 import address_pb2, gateway_pb2, merchant_pb2, money_pb2, payment_pb2, refund_pb2

from florin_server.api.payments.address_codec import to_deposit, to_pay_address
from florin_server.api.server.timestamps import to_timestamp
from florin_server.db.context import StorageContext
from florin_server.domain.capture.buyer_data import BUYER_DATA_FIELDS, SCHEMA_JSON
from florin_server.domain.money import CURRENCIES
from florin_server.domain.payments.order import Order, PaymentLine
from florin_server.domain.payments.payment import (
    Action,
    BuildAction,
    CancellationReason,
    FailureCode,
    Merchant,
    Payment,
    PaymentOption,
    PaymentStatus,
    Refund,
    RefundStatus,
)
from florin_server.domain.payments.polling import BUYER_POLL_MS, compute_poll_ms
from florin_server.domain.payouts.refund_amounts import RefundAmount, get_payment_value, sum_refunds
from florin_server.money.payments.service.address_state import (
    NO_ADDRESSES,
    AddressView,
    PaymentAddressState,
)
from florin_server.money.payments.service.create import NewPayment
from florin_server.money.payments.service.trace import PaymentEventRecord
from florin_server.money.payments.service.transaction_request import accepts_requests
from florin_server.money.payments.service.ways import find_usual_s
from florin_server.money.refunds.service import CreatedRefund, RefundRequest
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_STATUS = {s: payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{s.upper()}") for s in PaymentStatus}
_FAILURE = {
    c: payment_pb2.PaymentFailureCode.Value(f"PAYMENT_FAILURE_CODE_{c.upper()}")
    for c in FailureCode
}
_CANCELLED_REASON = {
    r: payment_pb2.CancelledReason.Value(f"CANCELLED_REASON_{r.upper()}")
    for r in CancellationReason
}
_REFUND_STATUS = {
    s: refund_pb2.RefundStatus.Value(f"REFUND_STATUS_{s.upper()}") for s in RefundStatus
}

_COLLECTED_FIELDS = [
    gateway_pb2.CollectDataField(
        id=field.id,
        name=field.name,
        type=gateway_pb2.CollectDataFieldType.Value(
            f"COLLECT_DATA_FIELD_TYPE_{field.kind.upper()}"
        ),
        required=field.required,
    )
    for field in BUYER_DATA_FIELDS
]


class PaymentCodec:
    """Builds responses; knows the assets, whose names amounts carry."""

    def __init__(self, app: _Context) -> None:
        self._app = app
        self._get_display = functools.lru_cache(maxsize=1024)(self._load_display)

    def to_amount(self, unit: str, value: int) -> money_pb2.Amount:
        """Return an amount with its display names."""
        return money_pb2.Amount(unit=unit, value=str(value), display=self._get_display(unit))

    def _load_display(self, unit: str) -> money_pb2.AmountDisplay:
        kind, _, name = unit.partition("/")
        if kind == "iso4217":
            currency = CURRENCIES[name]
            return money_pb2.AmountDisplay(
                asset_name=currency.name, asset_symbol=name, decimals=currency.decimals
            )
        asset = self._app.find_asset(name)
        if asset is None:
            # an asset that was removed from the registry still has payments
            return money_pb2.AmountDisplay(asset_name=name, asset_symbol=name)
        return money_pb2.AmountDisplay(
            asset_name=asset.name,
            asset_symbol=asset.symbol,
            decimals=asset.decimals,
            icon_url=asset.icon_url,
            network_icon_url=asset.network_icon_url,
            network_name=asset.network_name,
        )

    def to_payment_information(self, payment: Payment) -> payment_pb2.PaymentInformation | None:
        """Return the transaction of a succeeded payment; None otherwise."""
        if payment.status is not PaymentStatus.SUCCEEDED or payment.tx_id is None:
            return None
        amount = None
        if payment.option_unit is not None and payment.option_value is not None:
            amount = self.to_amount(payment.option_unit, payment.option_value)
        return payment_pb2.PaymentInformation(tx_id=payment.tx_id, option_amount=amount)

    def to_status_response(self, payment: Payment) -> payment_pb2.GetPaymentStatusResponse:
        """Return the status of a payment."""
        return payment_pb2.GetPaymentStatusResponse(
            status=_STATUS[payment.status],
            is_final=payment.status.is_final,
            poll_in_ms=compute_poll_ms(payment.status, find_usual_s(self._app, payment)),
            info=self.to_payment_information(payment),
            failure_code=to_failure_code(payment),
        )

    def to_watch_response(self, payment: Payment) -> payment_pb2.WatchPaymentResponse:
        """Return one state of a watched payment."""
        return payment_pb2.WatchPaymentResponse(
            payment=self.to_status_response(payment), version=payment.version
        )

    def to_cancel_response(self, payment: Payment) -> payment_pb2.CancelPaymentResponse:
        """Return a cancelled payment; the cancellation was its last change."""
        return payment_pb2.CancelPaymentResponse(
            payment_id=payment.id,
            status=_STATUS[payment.status],
            cancelled_reason=_to_cancelled_reason(payment)
            or payment_pb2.CANCELLED_REASON_UNSPECIFIED,
            cancelled_at=to_timestamp(payment.updated_at_us),
        )

    def to_payment_info(
        self,
        payment: Payment,
        merchant: Merchant,
        state: PaymentAddressState = NO_ADDRESSES,
        *,
        accepts_x402: bool = False,
    ) -> gateway_pb2.PaymentInfo:
        """Return the payment as wallets see it; `state` is that of its addresses."""
        return gateway_pb2.PaymentInfo(
            payment_id=payment.id,
            status=_STATUS[payment.status],
            is_final=payment.status.is_final,
            live=payment.live,
            amount=self.to_amount(payment.unit, payment.value),
            expires_at=payment.expires_at,
            merchant=payment_pb2.MerchantSummary(name=merchant.name, icon_url=merchant.icon_url),
            buyer=to_buyer(payment),
            solana_pay_url=self._find_solana_pay_url(payment),
            addresses=self.to_pay_addresses(state.addresses),
            deposits=map(to_deposit, state.deposits),
            payers=state.payers,
            x402_url=self._app.links.get_x402_url(payment.id) if accepts_x402 else None,
        )

    def to_pay_addresses(self, views: Sequence[AddressView]) -> list[address_pb2.PayAddress]:
        """Return addresses to which a payment can be sent."""
        return [to_pay_address(view, self.to_amount) for view in views]

    def _find_solana_pay_url(self, payment: Payment) -> str | None:
        if not accepts_requests(self._app, payment):
            return None
        return self._app.links.get_solana_pay_url(payment.id)

    def to_option(
        self, option: PaymentOption, form_url: str | None = None
    ) -> gateway_pb2.PaymentOption:
        """Return one option, with the form that the buyer must complete first."""
        return gateway_pb2.PaymentOption(
            id=option.id,
            account=option.account,
            amount=self.to_amount(f"caip19/{option.asset}", option.value),
            eta_s=option.eta_s,
            expires_at=option.expires_at,
            actions=[to_action(step) for step in option.actions],
            collect_data=to_collect_data(form_url),
        )

    def to_create_response(
        self, payment: Payment, checkout_problem: str | None = None
    ) -> merchant_pb2.CreatePaymentResponse:
        """Return a new payment, and why a requested redirect is off."""
        return merchant_pb2.CreatePaymentResponse(
            payment_id=payment.id,
            gateway_url=self._app.links.get_url(payment.id),
            status=_STATUS[payment.status],
            is_final=False,
            poll_in_ms=BUYER_POLL_MS,
            expires_at=payment.expires_at,
            live=payment.live,
            checkout_problem=checkout_problem,
        )

    def to_payment_detail(
        self,
        payment: Payment,
        merchant: Merchant,
        refunds: Sequence[Refund],
        state: PaymentAddressState = NO_ADDRESSES,
        *,
        accepts_x402: bool = False,
    ) -> merchant_pb2.PaymentDetail:
        """Return all details of a payment for its merchant; `refunds` are sorted oldest first.

        `state` is that of its addresses.
        """
        checkout = None
        if payment.success_url is not None and payment.error_url is not None:
            checkout = merchant_pb2.CheckoutUrls(
                success_url=payment.success_url, error_url=payment.error_url
            )
        return merchant_pb2.PaymentDetail(
            status=_STATUS[payment.status],
            reference_id=payment.reference_id,
            info=self.to_payment_information(payment),
            failure_code=to_failure_code(payment),
            failure_reason=_find_failure_reason(payment),
            settlement=to_settlement_info(payment),
            payment_id=payment.id,
            is_final=payment.status.is_final,
            version=payment.version,
            live=payment.live,
            amount=self.to_amount(payment.unit, payment.value),
            merchant=payment_pb2.PaymentMerchant(
                id=merchant.id, name=merchant.name, icon_url=merchant.icon_url
            ),
            gateway_url=self._app.links.get_url(payment.id),
            checkout=checkout,
            created_at=to_timestamp(payment.created_at_us),
            expires_at=payment.expires_at,
            last_updated_at=to_timestamp(payment.updated_at_us),
            buyer=to_buyer(payment),
            cancelled_reason=_to_cancelled_reason(payment),
            cancelled_at=to_timestamp(payment.updated_at_us) if payment.cancelled_reason else None,
            refund=self.to_refund(payment, refunds[-1]) if refunds else None,
            refunds=[self.to_refund(payment, refund) for refund in refunds],
            refunded=self._to_refund_total(payment, refunds) if refunds else None,
            description=payment.description,
            lines=[
                merchant_pb2.PaymentLine(
                    name=line.name, quantity=line.quantity, amount=str(line.amount)
                )
                for line in payment.lines
            ],
            metadata=dict(payment.metadata),
            solana_pay_url=self._find_solana_pay_url(payment),
            addresses=self.to_pay_addresses(state.addresses),
            deposits=map(to_deposit, state.deposits),
            payers=state.payers,
            x402_url=self._app.links.get_x402_url(payment.id) if accepts_x402 else None,
        )

    def _to_refund_total(
        self, payment: Payment, refunds: Sequence[Refund]
    ) -> refund_pb2.RefundTotal:
        totals = sum_refunds(payment, refunds)
        return refund_pb2.RefundTotal(
            amount=self.to_amount(totals.unit, totals.refunded),
            payment_amount=self.to_amount(payment.unit, totals.payment_refunded),
            refundable=self.to_amount(totals.unit, totals.refundable),
            payment_refundable=self.to_amount(payment.unit, totals.payment_refundable),
        )

    def to_refund(self, payment: Payment, refund: Refund) -> refund_pb2.Refund:
        """Return a refund of a payment."""
        completed_at_us = refund.completed_at_us
        return refund_pb2.Refund(
            refund_id=refund.id,
            status=_REFUND_STATUS[refund.status],
            amount=self.to_amount(refund.unit, refund.value),
            tx_id=refund.tx_id,
            created_at=to_timestamp(refund.created_at_us),
            completed_at=None if completed_at_us is None else to_timestamp(completed_at_us),
            reason=refund.reason,
            payment_amount=self.to_amount(payment.unit, get_payment_value(payment, refund)),
        )

    def to_refund_response(self, created_refund: CreatedRefund) -> refund_pb2.CreateRefundResponse:
        """Return the response to a refund request."""
        refund = created_refund.refund
        return refund_pb2.CreateRefundResponse(
            payment_id=refund.payment_id,
            refund_id=refund.id,
            status=_REFUND_STATUS[refund.status],
            tx_id=refund.tx_id,
            amount=self.to_amount(refund.unit, refund.value),
            payment_amount=self.to_amount(created_refund.payment_unit, refund.payment_value),
        )


def to_payment_status(payment: Payment) -> payment_pb2.PaymentStatus.ValueType:
    """Return the status of a payment."""
    return _STATUS[payment.status]


def to_payment_event(change: PaymentEventRecord) -> payment_pb2.PaymentEvent:
    """Return one change of a payment."""
    return payment_pb2.PaymentEvent(
        version=change.version,
        status=_STATUS[PaymentStatus(change.status)],
        cause=change.cause,
        at=to_timestamp(change.at_us),
        request_id=change.request_id or None,
    )


def _to_cancelled_reason(payment: Payment) -> payment_pb2.CancelledReason.ValueType | None:
    return _CANCELLED_REASON[payment.cancelled_reason] if payment.cancelled_reason else None


def to_failure_code(payment: Payment) -> payment_pb2.PaymentFailureCode.ValueType | None:
    """Return the failure code of a failed payment: unspecified if undisclosed. None otherwise."""
    if payment.status is not PaymentStatus.FAILED:
        return None
    if payment.failure_code is None:
        return payment_pb2.PAYMENT_FAILURE_CODE_UNSPECIFIED
    return _FAILURE[payment.failure_code]


def _find_failure_reason(payment: Payment) -> str | None:
    """Return the reason in words of a failed payment without a code."""
    needs_reason = payment.status is PaymentStatus.FAILED and payment.failure_code is None
    return payment.failure_detail if needs_reason else None


def to_buyer(payment: Payment) -> payment_pb2.Buyer | None:
    """Return the buyer, from the accepted confirm on."""
    if payment.payer is None:
        return None
    return payment_pb2.Buyer(
        account_caip10=payment.payer,
        account_provider_name=payment.provider_name or "unknown",
        account_provider_icon=payment.provider_icon,
    )


def to_settlement_info(payment: Payment) -> merchant_pb2.SettlementInfo | None:
    """Return the settlement to the merchant; without its own destination it is still owed."""
    if payment.status is not PaymentStatus.SUCCEEDED:
        return None
    if payment.settled_value is None or payment.tx_id is None or payment.option_unit is None:
        return merchant_pb2.SettlementInfo()
    amount = money_pb2.AmountValue(unit=payment.option_unit, value=str(payment.settled_value))
    return merchant_pb2.SettlementInfo(
        successful=merchant_pb2.SettledAmount(tx_id=payment.tx_id, amount=amount)
    )


def to_action(value: Action | BuildAction) -> gateway_pb2.Action:
    """Return a wallet call, or a build action that fetch resolves into wallet calls."""
    if isinstance(value, BuildAction):
        return gateway_pb2.Action(build=gateway_pb2.BuildAction(data=value.data))
    return gateway_pb2.Action(
        wallet_rpc=gateway_pb2.WalletRpcAction(
            chain_id=value.chain_id, method=value.method, params_json=value.params_json
        )
    )


def to_collect_data(url: str | None) -> gateway_pb2.CollectData | None:
    """Return the form behind a link, and its fields."""
    if url is None:
        return None
    return gateway_pb2.CollectData(url=url, schema_json=SCHEMA_JSON, fields=_COLLECTED_FIELDS)


def parse_refund_request(request: refund_pb2.CreateRefundRequest) -> RefundRequest:
    """Return the refund that a merchant requests."""
    amount = None
    if request.HasField("amount"):
        amount = RefundAmount(request.amount.unit, request.amount.value)
    reason = request.reason if request.HasField("reason") else None
    return RefundRequest(request.payment_id, amount, reason)


def parse_new_payment(request: merchant_pb2.CreatePaymentRequest) -> NewPayment:
    """Return the payment that a merchant requests."""
    return NewPayment(
        unit=request.amount.unit,
        value=request.amount.value,
        reference_id=request.reference_id,
        expires_at=request.expires_at if request.HasField("expires_at") else None,
        success_url=request.checkout.success_url,
        error_url=request.checkout.error_url,
        order=Order(
            request.description if request.HasField("description") else None,
            tuple(
                PaymentLine(
                    line.name, line.quantity if line.HasField("quantity") else 1, int(line.amount)
                )
                for line in request.lines
            ),
            tuple(sorted(request.metadata.items())),
        ),
    )
