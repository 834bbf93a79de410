"""`florin payments create`: create a payment, and show its link and a QR code."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from florin.v1 import merchant_pb2

from florin_server.cli.console import (
    console,
    print_hint,
    print_json,
    print_json_line,
)
from florin_server.cli.operation import usage_error
from florin_server.cli.payments import amounts, tail
from florin_server.cli.server import ConnectionOptions, connect_as_merchant

if TYPE_CHECKING:
    from florin_client.calls.merchant import KeyedMerchantCallOptions

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([1-9]\d{0,8})([smhd])")
# a name can contain "=": the last one is before the amount
_LINE = re.compile(r"(?:(?P<quantity>[1-9]\d{0,8}) ?[x×] )?(?P<name>.+)=\s*(?P<amount>[^=]+)")
_LINE_HELP = '"2 x Flat white=9.00"'


@dataclass(frozen=True, slots=True)
class CreatePaymentOptions:
    """The options of the command, not parsed yet."""

    amount: Sequence[str]
    reference: str | None = None
    expires_in: str | None = None
    success_url: str | None = None
    error_url: str | None = None
    idempotency_key: str | None = None
    description: str | None = None
    lines: Sequence[str] = ()
    metadata: Sequence[str] = ()


def create_payment(
    connection: ConnectionOptions, options: CreatePaymentOptions, *, wait: bool, qr: bool | None
) -> None:
    """Create the payment and print its link; with `wait`, follow it and exit with its outcome."""
    try:
        money = amounts.parse_amount(options.amount)
    except ValueError as error:
        usage_error(f"AMOUNT: {error}")
    lasts_s = _parse_duration(options.expires_in)
    checkout = None
    if (options.success_url is None) is not (options.error_url is None):
        usage_error("--success-url and --error-url need each other: pass both")
    if options.success_url is not None:
        checkout = merchant_pb2.CheckoutUrls(
            success_url=options.success_url, error_url=options.error_url or ""
        )
    keyed: KeyedMerchantCallOptions = (
        {} if options.idempotency_key is None else {"idempotency_key": options.idempotency_key}
    )
    with connect_as_merchant(connection) as client:
        response = client.merchant.create_payment(
            amount=money,
            reference_id=options.reference,
            expires_at=None if lasts_s is None else int(time.time()) + lasts_s,
            checkout=checkout,
            description=options.description,
            lines=[_parse_line(text, money[0]) for text in options.lines],
            metadata=_parse_metadata(options.metadata),
            **keyed,
        )
        if not (print_json_line(response) if wait else print_json(response)):
            _print_payment(response, qr=sys.stdout.isatty() if qr is None else qr)
        if wait:
            raise SystemExit(int(tail.follow_payment(client, response.payment_id, None)))


def _print_payment(response: merchant_pb2.CreatePaymentResponse, *, qr: bool) -> None:
    console.print(response.gateway_url)
    if qr:
        # slow to load, and only terminals need it
        import segno  # noqa: PLC0415

        segno.make(response.gateway_url, error="m").terminal(compact=True)
    print_hint(f"Payment {response.payment_id}{'' if response.live else ', test data'}.")
    if response.checkout_problem:
        print_hint(f"Buyers will not return to the shop: {response.checkout_problem}.")


def _parse_line(text: str, unit: str) -> merchant_pb2.PaymentLine:
    """Parse a line such as `2 x Flat white=9.00`, whose amount is in the payment's unit."""
    match = _LINE.fullmatch(text)
    if match is None:
        usage_error(f"--line: {text[:80]!r} is not a line; write {_LINE_HELP}")
    try:
        _, value = amounts.parse_amount((match["amount"], unit.removeprefix("iso4217/")))
    except ValueError as error:
        usage_error(f"--line {text[:80]!r}: {error}")
    return merchant_pb2.PaymentLine(
        name=match["name"], quantity=int(match["quantity"] or 1), amount=str(value)
    )


def _parse_metadata(texts: Sequence[str]) -> dict[str, str]:
    metadata: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            usage_error(f"--metadata: {text[:80]!r} is not metadata; write KEY=VALUE")
        if key in metadata:
            usage_error(f"--metadata: {key[:80]!r} is given twice")
        metadata[key] = value
    return metadata


def _parse_duration(text: str | None) -> int | None:
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        usage_error(f"--expires-in: {text[:80]!r} is not a duration; write 90s, 30m, 2h or 7d")
    return int(match[1]) * _UNITS_S[match[2]]
