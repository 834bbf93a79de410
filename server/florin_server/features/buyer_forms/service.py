"""Forms for data about buyers: their content and their submission."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.compliance.buyer_data import store as collected_data
from florin_server.compliance.buyer_data.service.collected import (
    decrypt_data,
    encode_data,
    encrypt_data,
)
from florin_server.compliance.buyer_data.service.form_links import FormTicket, parse_token
from florin_server.db.context import StorageContext
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Merchant, Payment, PaymentStatus
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.service.load import expire_if_due, get_merchant
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


@dataclass(frozen=True, slots=True)
class BuyerForm:
    """A form that a buyer has open; `is_submitted` means that it was submitted."""

    payment: Payment
    merchant: Merchant
    is_submitted: bool


async def get_form(app: _Context, payment_id: str | None, token: str) -> BuyerForm:
    """Return the form of a token; ApiError(unauthorized), or payment_expired after its end.

    `payment_id` is the id in the link beside the token.
    """
    ticket = _read_token(app, token)
    if payment_id not in {None, ticket.payment_id}:
        raise _unauthorized_error()
    payment, accounts = await _get_payment(app, ticket)
    records = await app.store.read(
        collected_data.list_by_source(payment.id, accounts, ticket.source)
    )
    done = accounts == {record.account for record in records}
    if not done:
        _check_open(payment)
    return BuyerForm(payment, await get_merchant(app, payment), done)


async def submit(app: _Context, token: str, value: object, *, peer: str = "") -> None:
    """Store the data of a form for the accounts of its token; equal data again changes nothing.

    `peer` is the sender, in gRPC's form. ApiError: unauthorized, payment_expired, rate_limited,
    params_validation.
    """
    ticket = _read_token(app, token)
    # each form has a budget: no caller uses up the buyer's
    app.limits.count_form(f"{ticket.payment_id}/{ticket.supplier_id}", peer)
    payment, accounts = await _get_payment(app, ticket)
    records = await app.store.read(
        collected_data.list_by_source(payment.id, accounts, ticket.source)
    )
    done = accounts == {record.account for record in records}
    if not done:
        _check_open(payment)
    data = encode_data(value, "data")
    if not done:
        new = [
            encrypt_data(app, payment, account, ticket.source, ticket.app_id, data)
            for account in sorted(accounts)
        ]
        records = await app.store.write(collected_data.submit(new))
    # of several simultaneous forms the first wins; a form for more accounts keeps the data of known
    # ones
    if not any(_is_same_data(decrypt_data(app.cipher, record), data) for record in records):
        raise _unauthorized_error()


def _read_token(app: StorageContext, token: str) -> FormTicket:
    ticket = parse_token(app, token)
    if ticket is None:
        raise _unauthorized_error()
    return ticket


async def _get_payment(app: _Context, ticket: FormTicket) -> tuple[Payment, set[str]]:
    """Return the payment, and those of the ticket's accounts that it is offered to.

    After an erasure, options must be requested again before a form works.
    """
    payment = await app.store.payments.find(ticket.payment_id)
    if payment is None:
        raise _unauthorized_error()
    offered = await app.store.read(collected_data.list_offered_accounts(payment.id))
    accounts = {account for account in offered if ticket.is_for(account)}
    if not accounts:
        raise _unauthorized_error()
    return await expire_if_due(app, payment), accounts


def _is_same_data(stored: str | None, data: bytes) -> bool:
    return stored is not None and hmac.compare_digest(stored.encode(), data)


def _check_open(payment: Payment) -> None:
    if payment.status is PaymentStatus.EXPIRED:
        raise ApiError(ErrorCode.PAYMENT_EXPIRED)
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        raise _unauthorized_error()


def _unauthorized_error() -> ApiError:
    return ApiError(ErrorCode.UNAUTHORIZED, "This form cannot be used")
