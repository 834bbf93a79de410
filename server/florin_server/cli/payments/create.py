"""`florin payments create`: a payment, its link, and a code to scan."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from florin.v1 import merchant_pb2

from florin_server.cli.console import console, note, told, told_line
from florin_server.cli.operation import misused
from florin_server.cli.payments import amounts, tail
from florin_server.cli.server import At, as_merchant

if TYPE_CHECKING:
    from florin_client.calls.merchant import KeyedMerchantOptions

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([1-9]\d{0,8})([smhd])")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The payment that is asked for, as it was typed."""

    amount: Sequence[str]
    reference: str | None = None
    expires_in: str | None = None
    success_url: str | None = None
    error_url: str | None = None
    key: str | None = None


def run(at: At, wanted: Wanted, *, wait: bool, qr: bool | None) -> None:
    """Makes the payment and prints its link; with `wait` it follows it, and ends as it does."""
    try:
        money = amounts.read(wanted.amount)
    except ValueError as error:
        misused(f"AMOUNT: {error}")
    lasts_s = _seconds(wanted.expires_in)
    checkout = None
    if (wanted.success_url is None) is not (wanted.error_url is None):
        misused("--success-url and --error-url go together")
    if wanted.success_url is not None:
        checkout = merchant_pb2.CheckoutUrls(
            success_url=wanted.success_url, error_url=wanted.error_url or ""
        )
    keyed: KeyedMerchantOptions = {} if wanted.key is None else {"idempotency_key": wanted.key}
    with as_merchant(at) as client:
        made = client.merchant.create_payment(
            amount=money,
            reference_id=wanted.reference,
            expires_at=None if lasts_s is None else int(time.time()) + lasts_s,
            checkout=checkout,
            **keyed,
        )
        if not (told_line(made) if wait else told(made)):
            _show(made, qr=sys.stdout.isatty() if qr is None else qr)
        if wait:
            raise SystemExit(int(tail.follow(client, made.payment_id, None)))


def _show(made: merchant_pb2.CreatePaymentResponse, *, qr: bool) -> None:
    console.print(made.gateway_url)
    if qr:
        # only terminals show it
        import segno  # noqa: PLC0415

        segno.make(made.gateway_url, error="m").terminal(compact=True)
    note(f"Payment {made.payment_id}{'' if made.live else ', test data'}.")
    if made.checkout_problem:
        note(f"Buyers are not sent back: {made.checkout_problem}.")


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        misused(f"{text[:80]!r} is no time: 90s, 30m, 2h, 7d")
    return int(found[1]) * _UNITS_S[found[2]]
