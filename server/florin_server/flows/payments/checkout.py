"""What a buyer's page tells of a payment; whoever has the link may see it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from florin_server.domain.addresses import network_of
from florin_server.domain.payments.payment import Merchant, Payment, Status
from florin_server.domain.urls import with_parameter
from florin_server.flows.app import App
from florin_server.flows.limits.held_answers import Release
from florin_server.flows.payments.load import current, merchant_of, payment_id_of
from florin_server.flows.payments.watch import watch


async def named(app: App, payment_ref: str) -> Payment | None:
    """The payment that a link names, as it stands; None if there is none."""
    payment_id = payment_id_of(app, payment_ref)
    payment = await app.store.reader.payment(payment_id) if payment_id else None
    return None if payment is None else await current(app, payment)


async def checkout(app: App, payment_ref: str) -> tuple[Payment, Merchant] | None:
    """The payment that a link names, with its merchant; None if there is none."""
    payment = await named(app, payment_ref)
    return None if payment is None else (payment, await merchant_of(app, payment))


def back_to_shop(payment: Payment) -> str | None:
    """Where the merchant wants its buyer once a payment is over, with the payment's id.

    None before that, and if the merchant did not say.
    """
    if not payment.status.is_final:
        return None
    paid = payment.status is Status.SUCCEEDED
    url = payment.success_url if paid else payment.error_url
    return with_parameter(url, "payment_id", payment.id) if url else None


def follow(
    app: App, payment: Payment, after_version: int | None, peer: str
) -> tuple[AsyncIterator[Payment], Release]:
    """The states of a payment for a page, and what gives the page's place back.

    FlorinError(rate_limited) if the payment, or the address of `peer`, has no place left.
    """
    release = app.limits.held.by_page(network_of(peer), payment.id)
    return watch(app, payment, after_version), release
