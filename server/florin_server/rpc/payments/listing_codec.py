"""Lists of payments: requests to plain values, pages to messages."""

from __future__ import annotations

from typing import TypeAlias

from florin.v1 import listing_pb2, payment_pb2

from florin_server.domain.errors import Code, FlorinError, Issue
from florin_server.domain.payments.payment import Payment, Status
from florin_server.flows.payments.lists import Page, Wanted
from florin_server.rpc.payments import codec
from florin_server.rpc.server.timestamps import microseconds, timestamp
from florin_server.store.payments.listed import Fee, Listed
from florin_server.store.payments.listing import Order, Totals

Asked: TypeAlias = listing_pb2.ListPaymentsRequest | listing_pb2.ListMerchantPaymentsRequest

_LIMIT_DEFAULT = 50
_ASSET = "caip19/"
_INT32_MAX = 2**31 - 1
_STATUSES: dict[int, Status] = {
    payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{s.upper()}"): s for s in Status
}


def wanted(request: Asked) -> Wanted:
    """What is asked for. FlorinError invalid_params for what no list can have."""
    return Wanted(
        order=_order(request.sort_by, request.sort_dir),
        limit=request.limit or _LIMIT_DEFAULT,
        cursor=request.cursor if request.HasField("cursor") else None,
        start_us=microseconds(request.start_ts, "startTs")
        if request.HasField("start_ts")
        else None,
        end_us=microseconds(request.end_ts, "endTs") if request.HasField("end_ts") else None,
        statuses=[_status(number) for number in request.status],
        symbols=request.token_symbol,
        assets=request.asset,
        networks=request.network,
        reference=request.reference_id,
    )


def wanted_legacy(request: listing_pb2.ListPaymentsLegacyRequest) -> Wanted:
    """The same of the older call."""
    return Wanted(
        order=_order(request.sort_by, request.sort_dir),
        limit=request.limit or _LIMIT_DEFAULT,
        cursor=request.cursor if request.HasField("cursor") else None,
        start_us=microseconds(request.start_ts, "start_ts")
        if request.HasField("start_ts")
        else None,
        end_us=microseconds(request.end_ts, "end_ts") if request.HasField("end_ts") else None,
        statuses=[_status(number) for number in request.status],
        assets=request.asset,
        networks=request.network,
    )


def _order(by: int, direction: int) -> Order:
    return Order(
        by_amount=by == listing_pb2.PAYMENT_SORT_AMOUNT,
        descending=direction != listing_pb2.SORT_DIRECTION_ASC,
    )


def _status(number: int) -> Status:
    found = _STATUSES.get(number)
    if found is None:
        raise _invalid("status", "is unknown")
    return found


def _invalid(field: str, why: str) -> FlorinError:
    return FlorinError(Code.INVALID_PARAMS, f"{field} {why}", issues=(Issue(field, why),))


class ListingCodec:
    """Builds the answers."""

    def __init__(self, answers: codec.Codec) -> None:
        self._answers = answers

    def page(self, page: Page) -> listing_pb2.ListPaymentsResponse:
        """One page of a list."""
        return listing_pb2.ListPaymentsResponse(
            data=[self._row(row) for row in page.rows],
            next_cursor=page.next_cursor,
            stats=listing_pb2.PaymentStats(
                total_revenue=self._revenue(page.totals),
                total_transactions=page.totals.payments,
                total_customers=page.totals.payers,
            ),
        )

    def _revenue(self, totals: Totals) -> list[listing_pb2.Revenue]:
        revenue = []
        for unit, value in totals.revenue:
            display = self._answers.amount(unit, value).display
            revenue.append(
                listing_pb2.Revenue(
                    amount=value / 10**display.decimals,
                    currency=display.asset_symbol,
                    unit=unit,
                    value=str(value),
                )
            )
        return revenue

    def _row(self, row: Listed) -> listing_pb2.PaymentRow:
        payment, merchant = row.payment, row.merchant
        asked = self._answers.amount(payment.unit, payment.value)
        is_fiat = not payment.unit.startswith(_ASSET)
        token = None if is_fiat else asked
        if (unit := _token(payment)) and payment.option_value is not None:
            token = self._answers.amount(unit, payment.option_value)
        settled = _settled_at(payment)
        return listing_pb2.PaymentRow(
            payment_id=payment.id,
            merchant=payment_pb2.PaymentMerchant(
                id=merchant.id, name=merchant.name, icon_url=merchant.icon_url
            ),
            merchant_id=merchant.id,
            reference_id=payment.reference_id,
            status=codec.payment_status(payment),
            is_terminal=payment.status.is_final,
            live=payment.live,
            fiat_amount=asked if is_fiat else None,
            token_amount=token,
            buyer=codec.buyer(payment),
            transaction=_transaction(row),
            fees=self._fees(payment, row.fee),
            settlement=self._settlement(payment),
            refund=self._answers.refund(payment, row.refunds[-1]) if row.refunds else None,
            refunds=[self._answers.refund(payment, refund) for refund in row.refunds],
            created_at=timestamp(payment.created_at_us),
            last_updated_at=timestamp(payment.updated_at_us),
            settled_at=None if settled is None else timestamp(settled),
        )

    def _fees(self, payment: Payment, fee: Fee | None) -> listing_pb2.PaymentFees | None:
        unit = _token(payment)
        if unit is None or fee is None or fee.total <= 0:
            return None
        return listing_pb2.PaymentFees(
            total=self._answers.amount(unit, fee.total),
            fixed=self._answers.amount(unit, fee.fixed) if fee.fixed > 0 else None,
            percentage=_percent(fee.basis_points) if fee.basis_points > 0 else None,
        )

    def _settlement(self, payment: Payment) -> listing_pb2.PaymentSettlement | None:
        if payment.status is not Status.SUCCEEDED:
            return None
        if payment.settled_value is None or (unit := _token(payment)) is None:
            return listing_pb2.PaymentSettlement(
                settled=False, status=listing_pb2.SETTLEMENT_STATUS_PENDING
            )
        return listing_pb2.PaymentSettlement(
            settled=True,
            status=listing_pb2.SETTLEMENT_STATUS_SETTLED,
            amount=self._answers.amount(unit, payment.settled_value),
            tx_hash=payment.tx_id,
        )

    def legacy(self, page: Page) -> listing_pb2.ListPaymentsLegacyResponse:
        """One page in the older form."""
        most = max(self._revenue(page.totals), key=lambda one: one.amount, default=None)
        return listing_pb2.ListPaymentsLegacyResponse(
            data=[self._legacy_row(row) for row in page.rows],
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

    def _legacy_row(self, row: Listed) -> listing_pb2.LegacyPaymentRow:
        now = self._row(row)
        told = listing_pb2.LegacyPaymentRow(
            payment_id=now.payment_id,
            merchant_id=now.merchant_id,
            reference_id=now.reference_id,
            status=now.status,
            is_terminal=now.is_terminal,
            wallet_name=now.buyer.account_provider_name or "unknown",
            tx_hash=row.tx_hash,
            nonce=row.nonce,
            buyer_caip10=row.payment.payer,
            wallet_logo=row.payment.provider_icon,
            settlement_status=now.settlement.status,
            created_at=now.created_at,
            last_updated_at=now.last_updated_at,
            settled_at=now.settled_at if now.HasField("settled_at") else None,
        )
        if now.settlement.HasField("tx_hash"):
            told.settlement_tx_hash = now.settlement.tx_hash
        if now.HasField("token_amount"):
            _put_token(told, now)
        if now.HasField("fiat_amount"):
            told.fiat_currency = now.fiat_amount.unit.removeprefix("iso4217/")
            if row.payment.value <= _INT32_MAX:
                told.fiat_amount = row.payment.value
        return told


def _put_token(told: listing_pb2.LegacyPaymentRow, now: listing_pb2.PaymentRow) -> None:
    asset, display = now.token_amount.unit.removeprefix(_ASSET), now.token_amount.display
    told.chain_id = asset.partition("/")[0]
    told.token_caip19 = asset
    told.token_amount = now.token_amount.value
    told.token_symbol = display.asset_symbol
    told.token_decimals = display.decimals
    if display.HasField("icon_url"):
        told.token_logo = display.icon_url
    if display.HasField("network_icon_url"):
        told.chain_logo = display.network_icon_url


def _transaction(row: Listed) -> listing_pb2.PaymentTransaction | None:
    unit = _token(row.payment)
    if unit is None:
        return None
    chain = unit.removeprefix(_ASSET).partition("/")[0]
    return listing_pb2.PaymentTransaction(
        network_id=chain.partition(":")[2], hash=row.tx_hash, nonce=row.nonce
    )


def _token(payment: Payment) -> str | None:
    """The unit that is paid in, from the accepted confirm on; a simulated payment may have none."""
    unit = payment.option_unit
    return unit if unit is not None and unit.startswith(_ASSET) else None


def _settled_at(payment: Payment) -> int | None:
    """A payment changes for the last time when its merchant gets the money."""
    if payment.status is not Status.SUCCEEDED or payment.settled_value is None:
        return None
    return payment.updated_at_us


def _percent(basis_points: int) -> str:
    """Hundredths of a percent as percent: 40 is "0.4"."""
    whole, rest = divmod(basis_points, 100)
    return f"{whole}.{rest:02}".rstrip("0").rstrip(".")
