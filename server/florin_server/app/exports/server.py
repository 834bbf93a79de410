"""An export of a merchant's data from a server: its payments and their refunds.

The server does not say which payments changed, so each run requests all of them, and a cursor has a
digest of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
from florin.v1 import listing_pb2, money_pb2, payment_pb2, refund_pb2
from florin_client import (
    AuthenticationError,
    Client,
    DeadlineError,
    FlorinError,
    ForbiddenError,
    RateLimitedError,
    Retries,
    UnavailableError,
)
from florin_client.sync import Merchant
from google.protobuf.message import Message

from florin_server.app.servers.upstream import UpstreamConnection
from florin_server.base.clock import SystemClock
from florin_server.domain.exports.error import ExportError
from florin_server.domain.exports.roots import ExportPage, ExportRoot
from florin_server.domain.exports.tables import PAYMENTS, REFUNDS
from florin_server.features.exports.service.feeds import ExportOrigin

PARTNER_KEY_VARIABLE, MERCHANT_ID_VARIABLE = "FLORIN_PARTNER_KEY", "FLORIN_MERCHANT_ID"
_LIMIT = 200
_TIMEOUT_S = 60
_MICRO = 1_000
# a person waits who may have named the wrong server
_RETRIES = Retries(patience_s=5)


class MerchantServerFeed:
    """The payments of one merchant, the oldest first, as a target returns them."""

    name = "server"
    tables = (PAYMENTS.name, REFUNDS.name)
    is_complete = True

    def __init__(self, merchant: Merchant, target: str) -> None:
        self._merchant = merchant
        self._target = target
        self._remaining_rows: Iterator[listing_pb2.ListPaymentsResponse] = iter(())
        self._decimals: dict[str, int] = {}

    def find_decimals(self, unit: str) -> int | None:
        """Return the decimals that the server showed with the unit."""
        return self._decimals.get(unit)

    def read_page(self, after_key: str, since_us: int) -> ExportPage:  # noqa: ARG002  (it does not help)
        """Yield the first page, or the page after the last one."""
        if not after_key:
            self._remaining_rows = self._merchant.list_merchant_payments(
                sort_by=listing_pb2.PAYMENT_SORT_DATE,
                sort_dir=listing_pb2.SORT_DIRECTION_ASC,
                limit=_LIMIT,
            ).pages()
        try:
            answer = next(self._remaining_rows)
        except FlorinError as error:
            raise ExportError(_explain_error(error, self._target)) from error
        more = answer.next_cursor if answer.HasField("next_cursor") else None
        return ExportPage([self._to_root(payment_row) for payment_row in answer.data], more)

    def read_roots(self, keys: Sequence[str]) -> list[ExportRoot]:  # noqa: ARG002  (all come again anyway)
        """Return none: every run requests all."""
        return []

    def _to_root(self, payment_row: listing_pb2.PaymentRow) -> ExportRoot:
        # a refund can be requested at any time
        root = ExportRoot(
            payment_row.payment_id, _get_microseconds(payment_row, "created_at") or 0, closed=False
        )
        root.rows.append(
            (PAYMENTS.name, _to_row(PAYMENTS.source_columns, self._to_payment_values(payment_row)))
        )
        for refund in _list_refunds(payment_row):
            root.rows.append(
                (
                    REFUNDS.name,
                    _to_row(REFUNDS.source_columns, self._to_refund_values(payment_row, refund)),
                )
            )
        return root

    def _to_payment_values(self, payment_row: listing_pb2.PaymentRow) -> Mapping[str, Any]:
        amount = (
            payment_row.fiat_amount
            if payment_row.HasField("fiat_amount")
            else payment_row.token_amount
        )
        report = {
            "payment_id": payment_row.payment_id,
            "merchant_id": payment_row.merchant_id,
            "live": payment_row.live,
            "status": _get_enum_word(
                payment_pb2.PaymentStatus.Name(payment_row.status), "PAYMENT_STATUS_"
            ),
            "unit": amount.unit,
            "requested_minor": self._to_minor_units(amount),
            "reference_id": payment_row.reference_id,
            "created_at": _get_microseconds(payment_row, "created_at"),
            "updated_at": _get_microseconds(payment_row, "last_updated_at"),
            "description": payment_row.description or None,
            "metadata": _to_json(payment_row.metadata),
        }
        if payment_row.HasField("buyer"):
            report["payer"] = payment_row.buyer.account_caip10
            report["wallet"] = payment_row.buyer.account_provider_name
        if payment_row.HasField("transaction"):
            report["paid_unit"] = payment_row.token_amount.unit
            report["paid_minor"] = self._to_minor_units(payment_row.token_amount)
            report["tx_hash"] = payment_row.transaction.hash or None
        if payment_row.settlement.HasField("amount"):
            report["settled_minor"] = self._to_minor_units(payment_row.settlement.amount)
        return report

    def _to_refund_values(
        self, payment_row: listing_pb2.PaymentRow, refund: refund_pb2.Refund
    ) -> Mapping[str, Any]:
        return {
            "refund_id": refund.refund_id,
            "payment_id": payment_row.payment_id,
            "status": _get_enum_word(refund_pb2.RefundStatus.Name(refund.status), "REFUND_STATUS_"),
            "unit": refund.amount.unit,
            "amount_minor": self._to_minor_units(refund.amount),
            "payment_unit": refund.payment_amount.unit or None,
            "payment_amount_minor": self._to_minor_units(refund.payment_amount)
            if refund.HasField("payment_amount")
            else None,
            "reason": refund.reason or None,
            "tx_hash": refund.tx_id or None,
            "created_at": _get_microseconds(refund, "created_at"),
            "completed_at": _get_microseconds(refund, "completed_at"),
        }

    def _to_minor_units(self, amount: money_pb2.Amount) -> int:
        self._decimals[amount.unit] = amount.display.decimals
        return int(amount.value)


@contextmanager
def open_server_origin(
    target: str, connection: UpstreamConnection, env: Mapping[str, str], retries: Retries = _RETRIES
) -> Iterator[ExportOrigin]:
    """Return the data at host:port for the merchant whose key is in the environment.

    SetupError, or ExportError, if the server cannot be called.
    """
    key, merchant = env.get(PARTNER_KEY_VARIABLE, ""), env.get(MERCHANT_ID_VARIABLE, "")
    if not key or not merchant:
        raise ExportError(
            f"an export from a server needs a merchant: set {PARTNER_KEY_VARIABLE} and "
            f"{MERCHANT_ID_VARIABLE} in the environment"
        )
    connection.require_usable(target)
    try:
        client = Client(
            target,
            api_key=key,
            merchant_id=merchant,
            plaintext=not connection.is_encrypted,
            root_certificates=None if connection.ca is None else connection.ca.read_bytes(),
            timeout=_TIMEOUT_S,
            retries=retries,
        )
    except ValueError as error:
        raise ExportError(f"{target} cannot be reached: {error}") from error
    with client:
        feed = MerchantServerFeed(client.merchant, target)
        yield ExportOrigin(
            f"merchant {merchant}", [feed], feed.find_decimals, SystemClock().now_us()
        )


def _explain_error(error: FlorinError, target: str) -> str:
    """Return why the call of a server failed, and what to do."""
    if isinstance(error, RateLimitedError):
        return f"{target} limits the rate of this key too much for an export: try again later"
    if error.status is grpc.StatusCode.UNIMPLEMENTED:
        return (
            f"{target} lists no payments: it is not Florin, or too old for this command; upgrade "
            "it, or export on the machine of its state folder"
        )
    if isinstance(error, AuthenticationError | ForbiddenError):
        return (
            f"{target} refuses the key: {error.message}; {PARTNER_KEY_VARIABLE} must be a key of "
            f"the partner of the merchant in {MERCHANT_ID_VARIABLE}, with the scope read"
        )
    if isinstance(error, UnavailableError | DeadlineError):
        return f"{target} does not answer by gRPC: {error.message}"
    return f"{target} refused: {error.message}"


def _to_row(names: Sequence[str], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a row with the columns that a merchant gets."""
    return tuple(values.get(name) for name in names)


def _list_refunds(row: listing_pb2.PaymentRow) -> Sequence[refund_pb2.Refund]:
    """Return the refunds of a payment; servers before 0.4 have one, and send no list."""
    if row.refunds or not row.HasField("refund"):
        return row.refunds
    return [row.refund]


def _get_enum_word(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).lower()


def _get_microseconds(message: Message, member: str) -> int | None:
    if not message.HasField(member):
        return None
    at = getattr(message, member)
    return int(at.seconds * 1_000_000 + at.nanos // _MICRO)


def _to_json(metadata: Mapping[str, str]) -> str | None:
    """Return metadata as the store has it."""
    if not metadata:
        return None
    return json.dumps(dict(sorted(metadata.items())), ensure_ascii=False, separators=(",", ":"))
