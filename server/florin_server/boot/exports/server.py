"""An export of what a server tells a merchant: its payments and their refunds.

Nothing tells which payments changed, so each run asks for all of them, and a cursor has a digest of
each.
"""

from __future__ import annotations

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

from florin_server.boot.servers.upstream import Link
from florin_server.clock import SystemClock
from florin_server.domain.exports.error import NotExported
from florin_server.domain.exports.roots import Page, Root
from florin_server.domain.exports.tables import PAYMENTS, REFUNDS
from florin_server.flows.exports.feeds import Origin

KEY, MERCHANT = "FLORIN_PARTNER_KEY", "FLORIN_MERCHANT_ID"
_LIMIT = 200
_TIMEOUT_S = 60
_MICRO = 1_000
# somebody waits who may have named the wrong server
_RETRIES = Retries(patience_s=5)


class ServerFeed:
    """The payments of one merchant, the oldest first, as it is told them at a target."""

    name = "server"
    tables = (PAYMENTS.name, REFUNDS.name)
    whole = True

    def __init__(self, merchant: Merchant, target: str) -> None:
        self._merchant = merchant
        self._target = target
        self._rest: Iterator[listing_pb2.ListPaymentsResponse] = iter(())
        self._decimals: dict[str, int] = {}

    def decimals(self, unit: str) -> int | None:
        """As the amounts were shown that were told with the unit."""
        return self._decimals.get(unit)

    def pages(self, after: str, since_us: int) -> Page:  # noqa: ARG002  (it does not help)
        """The first page, or the one that follows the page that was told last."""
        if not after:
            self._rest = self._merchant.list_merchant_payments(
                sort_by=listing_pb2.PAYMENT_SORT_DATE,
                sort_dir=listing_pb2.SORT_DIRECTION_ASC,
                limit=_LIMIT,
            ).pages()
        try:
            answer = next(self._rest)
        except FlorinError as error:
            raise NotExported(_why(error, self._target)) from error
        more = answer.next_cursor if answer.HasField("next_cursor") else None
        return Page([self._root(one) for one in answer.data], more)

    def some(self, keys: Sequence[str]) -> list[Root]:  # noqa: ARG002  (all come again anyway)
        """None: every run asks for all."""
        return []

    def _root(self, one: listing_pb2.PaymentRow) -> Root:
        # a refund may be asked for at any time
        root = Root(one.payment_id, _us(one, "created_at") or 0, closed=False)
        root.rows.append((PAYMENTS.name, _row(PAYMENTS.read, self._payment(one))))
        for refund in _list_refunds(one):
            root.rows.append((REFUNDS.name, _row(REFUNDS.read, self._refund(one, refund))))
        return root

    def _payment(self, one: listing_pb2.PaymentRow) -> Mapping[str, Any]:
        asked = one.fiat_amount if one.HasField("fiat_amount") else one.token_amount
        told = {
            "payment_id": one.payment_id,
            "merchant_id": one.merchant_id,
            "live": one.live,
            "status": _word(payment_pb2.PaymentStatus.Name(one.status), "PAYMENT_STATUS_"),
            "unit": asked.unit,
            "requested_minor": self._minor(asked),
            "reference_id": one.reference_id,
            "created_at": _us(one, "created_at"),
            "updated_at": _us(one, "last_updated_at"),
        }
        if one.HasField("buyer"):
            told["payer"] = one.buyer.account_caip10
            told["wallet"] = one.buyer.account_provider_name
        if one.HasField("transaction"):
            told["paid_unit"] = one.token_amount.unit
            told["paid_minor"] = self._minor(one.token_amount)
            told["tx_hash"] = one.transaction.hash or None
        if one.settlement.HasField("amount"):
            told["settled_minor"] = self._minor(one.settlement.amount)
        return told

    def _refund(self, one: listing_pb2.PaymentRow, told: refund_pb2.Refund) -> Mapping[str, Any]:
        return {
            "refund_id": told.refund_id,
            "payment_id": one.payment_id,
            "status": _word(refund_pb2.RefundStatus.Name(told.status), "REFUND_STATUS_"),
            "unit": told.amount.unit,
            "amount_minor": self._minor(told.amount),
            "payment_unit": told.payment_amount.unit or None,
            "payment_amount_minor": self._minor(told.payment_amount)
            if told.HasField("payment_amount")
            else None,
            "reason": told.reason or None,
            "tx_hash": told.tx_id or None,
            "created_at": _us(told, "created_at"),
            "completed_at": _us(told, "completed_at"),
        }

    def _minor(self, amount: money_pb2.Amount) -> int:
        self._decimals[amount.unit] = amount.display.decimals
        return int(amount.value)


@contextmanager
def of_server(
    target: str, link: Link, env: Mapping[str, str], retries: Retries = _RETRIES
) -> Iterator[Origin]:
    """What the server at host:port tells the merchant whose key is in the environment.

    Refused, or NotExported, if it cannot be asked.
    """
    key, merchant = env.get(KEY, ""), env.get(MERCHANT, "")
    if not key or not merchant:
        raise NotExported(
            f"a server tells payments to a merchant: set {KEY} and {MERCHANT} in the environment"
        )
    link.check(target)
    try:
        client = Client(
            target,
            api_key=key,
            merchant_id=merchant,
            plaintext=not link.encrypts,
            root_certificates=None if link.ca is None else link.ca.read_bytes(),
            timeout=_TIMEOUT_S,
            retries=retries,
        )
    except ValueError as error:
        raise NotExported(f"{target} cannot be asked: {error}") from error
    with client:
        feed = ServerFeed(client.merchant, target)
        yield Origin(f"merchant {merchant}", [feed], feed.decimals, SystemClock().now_us())


def _why(error: FlorinError, target: str) -> str:
    """Why a server was not asked, and what to do."""
    if isinstance(error, RateLimitedError):
        return f"{target} lets this key ask too seldom: try again later"
    if error.status is grpc.StatusCode.UNIMPLEMENTED:
        return (
            f"{target} lists no payments: it is no Florin, or one that is too old for this command;"
            " bring it up to date, or export where its state folder is"
        )
    if isinstance(error, AuthenticationError | ForbiddenError):
        return (
            f"{target} refuses the key: {error.message}; {KEY} must be a key of the partner whose "
            f"merchant {MERCHANT} names, with the scope read"
        )
    if isinstance(error, UnavailableError | DeadlineError):
        return f"{target} does not answer by gRPC: {error.message}"
    return f"{target} refused: {error.message}"


def _row(names: Sequence[str], told: Mapping[str, Any]) -> tuple[Any, ...]:
    """A row with the columns that a merchant is told."""
    return tuple(told.get(name) for name in names)


def _list_refunds(row: listing_pb2.PaymentRow) -> Sequence[refund_pb2.Refund]:
    """Return the refunds of a payment; servers before 0.4 have one, and send no list."""
    if row.refunds or not row.HasField("refund"):
        return row.refunds
    return [row.refund]


def _word(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).lower()


def _us(message: Message, member: str) -> int | None:
    if not message.HasField(member):
        return None
    at = getattr(message, member)
    return int(at.seconds * 1_000_000 + at.nanos // _MICRO)
