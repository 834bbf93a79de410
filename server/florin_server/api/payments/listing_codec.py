"""Lists of payments: convert requests to plain values, and pages to messages."""

from __future__ import annotations

from typing import TypeAlias

from florin.v1 import listing_pb2, payment_pb2

from florin_server.api.payments import codec
from florin_server.api.server.timestamps import to_microseconds, to_timestamp
from florin_server.domain.errors import ApiError, ErrorCode, FieldIssue
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.money.payments.service.lists import PaymentListPage, PaymentListQuery
from florin_server.money.payments.store.listed import OptionFee, PaymentListRow
from florin_server.money.payments.store.listing import PaymentListOrder, PaymentTotals

PaymentListRequest: TypeAlias = (
    listing_pb2.ListPaymentsRequest | listing_pb2.ListMerchantPaymentsRequest
)

_LIMIT_DEFAULT = 50
_ASSET_PREFIX = "caip19/"
_INT32_MAX = 2**31 - 1
_STATUSES: dict[int, PaymentStatus] = {
    payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{s.upper()}"): s for s in PaymentStatus
}


def parse_list_query(request: PaymentListRequest) -> PaymentListQuery:
    """Return the requested list; raise ApiError(invalid_params) for impossible filters."""
    return PaymentListQuery(
        order=_parse_order(request.sort_by, request.sort_dir),
        limit=request.limit or _LIMIT_DEFAULT,
        cursor=request.cursor if request.HasField("cursor") else None,
        start_us=to_microseconds(request.start_ts, "startTs")
        if request.HasField("start_ts")
        else None,
        end_us=to_microseconds(request.end_ts, "endTs") if request.HasField("end_ts") else None,
        statuses=[_parse_status(number) for number in request.status],
        symbols=request.token_symbol,
        assets=request.asset,
        networks=request.network,
        reference=request.reference_id,
    )


def parse_legacy_list_query(request: listing_pb2.ListPaymentsLegacyRequest) -> PaymentListQuery:
    """Return the requested list of the older call."""
    return PaymentListQuery(
        order=_parse_order(request.sort_by, request.sort_dir),
        limit=request.limit or _LIMIT_DEFAULT,
        cursor=request.cursor if request.HasField("cursor") else None,
        start_us=to_microseconds(request.start_ts, "start_ts")
        if request.HasField("start_ts")
        else None,
        end_us=to_microseconds(request.end_ts, "end_ts") if request.HasField("end_ts") else None,
        statuses=[_parse_status(number) for number in request.status],
        assets=request.asset,
        networks=request.network,
    )


def _parse_order(sort: int, direction: int) -> PaymentListOrder:
    return PaymentListOrder(
        by_amount=sort == listing_pb2.PAYMENT_SORT_AMOUNT,
        descending=direction != listing_pb2.SORT_DIRECTION_ASC,
    )


def _parse_status(number: int) -> PaymentStatus:
    status = _STATUSES.get(number)
    if status is None:
        raise _make_field_error("status", "is unknown")
    return status


def _make_field_error(field: str, problem: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PARAMS, f"{field} {problem}", issues=(FieldIssue(field, problem),)
    )


class PaymentListCodec:
    """Builds the responses of lists."""

    def __init__(self, payment_codec: codec.PaymentCodec) -> None:
        self._payment_codec = payment_codec

    def to_list_response(self, page: PaymentListPage) -> listing_pb2.ListPaymentsResponse:
        """Return one page of a list."""
        return listing_pb2.ListPaymentsResponse(
            data=[self._to_row(row) for row in page.rows],
            next_cursor=page.next_cursor,
            stats=listing_pb2.PaymentStats(
                total_revenue=self._to_revenue(page.totals),
                total_transactions=page.totals.payments,
                total_customers=page.totals.payers,
            ),
        )

    def _to_revenue(self, totals: PaymentTotals) -> list[listing_pb2.Revenue]:
        revenue = []
        for unit, value in totals.revenue:
            display = self._payment_codec.to_amount(unit, value).display
            revenue.append(
                listing_pb2.Revenue(
                    amount=value / 10**display.decimals,
                    currency=display.asset_symbol,
                    unit=unit,
                    value=str(value),
                )
            )
        return revenue

    def _to_row(self, row: PaymentListRow) -> listing_pb2.PaymentRow:
        payment, merchant = row.payment, row.merchant
        amount = self._payment_codec.to_amount(payment.unit, payment.value)
        is_fiat = not payment.unit.startswith(_ASSET_PREFIX)
        token = None if is_fiat else amount
        if (unit := _find_token_unit(payment)) and payment.option_value is not None:
            token = self._payment_codec.to_amount(unit, payment.option_value)
        settled = _find_settled_at_us(payment)
        return listing_pb2.PaymentRow(
            payment_id=payment.id,
            merchant=payment_pb2.PaymentMerchant(
                id=merchant.id, name=merchant.name, icon_url=merchant.icon_url
            ),
            merchant_id=merchant.id,
            reference_id=payment.reference_id,
            status=codec.to_payment_status(payment),
            is_terminal=payment.status.is_final,
            live=payment.live,
            fiat_amount=amount if is_fiat else None,
            token_amount=token,
            buyer=codec.to_buyer(payment),
            transaction=_to_transaction(row),
            fees=self._to_fees(payment, row.fee),
            settlement=self._to_settlement(payment),
            refund=self._payment_codec.to_refund(payment, row.refunds[-1]) if row.refunds else None,
            refunds=[self._payment_codec.to_refund(payment, refund) for refund in row.refunds],
            created_at=to_timestamp(payment.created_at_us),
            last_updated_at=to_timestamp(payment.updated_at_us),
            settled_at=None if settled is None else to_timestamp(settled),
            description=payment.description,
            metadata=dict(payment.metadata),
        )

    def _to_fees(self, payment: Payment, fee: OptionFee | None) -> listing_pb2.PaymentFees | None:
        unit = _find_token_unit(payment)
        if unit is None or fee is None or fee.total <= 0:
            return None
        return listing_pb2.PaymentFees(
            total=self._payment_codec.to_amount(unit, fee.total),
            fixed=self._payment_codec.to_amount(unit, fee.fixed) if fee.fixed > 0 else None,
            percentage=_format_percent(fee.basis_points) if fee.basis_points > 0 else None,
        )

    def _to_settlement(self, payment: Payment) -> listing_pb2.PaymentSettlement | None:
        if payment.status is not PaymentStatus.SUCCEEDED:
            return None
        if payment.settled_value is None or (unit := _find_token_unit(payment)) is None:
            return listing_pb2.PaymentSettlement(
                settled=False, status=listing_pb2.SETTLEMENT_STATUS_PENDING
            )
        return listing_pb2.PaymentSettlement(
            settled=True,
            status=listing_pb2.SETTLEMENT_STATUS_SETTLED,
            amount=self._payment_codec.to_amount(unit, payment.settled_value),
            tx_hash=payment.tx_id,
        )

    def to_legacy_response(self, page: PaymentListPage) -> listing_pb2.ListPaymentsLegacyResponse:
        """Return one page in the older form."""
        most = max(self._to_revenue(page.totals), key=lambda revenue: revenue.amount, default=None)
        return listing_pb2.ListPaymentsLegacyResponse(
            data=[self._to_legacy_row(row) for row in page.rows],
            next_cursor=page.next_cursor,
            stats=listing_pb2.LegacyPaymentStats(
                total_customers=page.totals.payers,
                total_transactions=page.totals.payments,
                total_revenue=listing_pb2.LegacyRevenue(
                    amount=most.amount if most else 0.0,
                    currency=most.currency if most else "USD",
                ),
            ),
        )

    def _to_legacy_row(self, list_row: PaymentListRow) -> listing_pb2.LegacyPaymentRow:
        row = self._to_row(list_row)
        legacy_row = listing_pb2.LegacyPaymentRow(
            payment_id=row.payment_id,
            merchant_id=row.merchant_id,
            reference_id=row.reference_id,
            status=row.status,
            is_terminal=row.is_terminal,
            wallet_name=row.buyer.account_provider_name or "unknown",
            tx_hash=list_row.tx_hash,
            nonce=list_row.nonce,
            buyer_caip10=list_row.payment.payer,
            wallet_logo=list_row.payment.provider_icon,
            settlement_status=row.settlement.status,
            created_at=row.created_at,
            last_updated_at=row.last_updated_at,
            settled_at=row.settled_at if row.HasField("settled_at") else None,
        )
        if row.settlement.HasField("tx_hash"):
            legacy_row.settlement_tx_hash = row.settlement.tx_hash
        if row.HasField("token_amount"):
            _set_token(legacy_row, row)
        if row.HasField("fiat_amount"):
            legacy_row.fiat_currency = row.fiat_amount.unit.removeprefix("iso4217/")
            if list_row.payment.value <= _INT32_MAX:
                legacy_row.fiat_amount = list_row.payment.value
        return legacy_row


def _set_token(legacy_row: listing_pb2.LegacyPaymentRow, row: listing_pb2.PaymentRow) -> None:
    asset, display = row.token_amount.unit.removeprefix(_ASSET_PREFIX), row.token_amount.display
    legacy_row.chain_id = asset.partition("/")[0]
    legacy_row.token_caip19 = asset
    legacy_row.token_amount = row.token_amount.value
    legacy_row.token_symbol = display.asset_symbol
    legacy_row.token_decimals = display.decimals
    if display.HasField("icon_url"):
        legacy_row.token_logo = display.icon_url
    if display.HasField("network_icon_url"):
        legacy_row.chain_logo = display.network_icon_url


def _to_transaction(row: PaymentListRow) -> listing_pb2.PaymentTransaction | None:
    unit = _find_token_unit(row.payment)
    if unit is None:
        return None
    chain = unit.removeprefix(_ASSET_PREFIX).partition("/")[0]
    return listing_pb2.PaymentTransaction(
        network_id=chain.partition(":")[2], hash=row.tx_hash, nonce=row.nonce
    )


def _find_token_unit(payment: Payment) -> str | None:
    """Return the paid unit, from the accepted confirm on; a simulated payment can have none."""
    unit = payment.option_unit
    return unit if unit is not None and unit.startswith(_ASSET_PREFIX) else None


def _find_settled_at_us(payment: Payment) -> int | None:
    """Return the last change of a settled payment: the settlement is always the last change."""
    if payment.status is not PaymentStatus.SUCCEEDED or payment.settled_value is None:
        return None
    return payment.updated_at_us


def _format_percent(basis_points: int) -> str:
    """Return basis points as percent: 40 is "0.4"."""
    total, rest = divmod(basis_points, 100)
    return f"{total}.{rest:02}".rstrip("0").rstrip(".")
