"""What the operator owes a customer: everything that is kept about an account, or its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from florin_server.domain.caip import canonical_account
from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.payments.payment import Payment
from florin_server.flows.app import App
from florin_server.flows.capture.collected import opened
from florin_server.store.accounts import customers
from florin_server.store.accounts.customers import Erased
from florin_server.store.capture import collected_data
from florin_server.store.capture.collected_data import Collected

# payments that are changed at once, so that others get their turn in between
_A_BATCH = 100


@dataclass(frozen=True, slots=True)
class Customer:
    """What is kept about an account (canonical CAIP-10), the newest first.

    `data` is what was told about it, with its JSON; None where that cannot be read any more.
    """

    account: str
    payments: Sequence[Payment]
    data: Sequence[tuple[Collected, str | None]]


async def export(app: App, text: str) -> Customer:
    """Everything that is kept about an account, its payments as they read now."""
    account = _account(text)
    found = await app.store.survey(customers.payments_of(account))
    if not found:
        raise FlorinError(Code.CUSTOMER_NOT_FOUND)
    now_us = app.clock.now_us()
    told = await app.store.survey(collected_data.of_account(account))
    return Customer(
        account,
        [payment.at(now_us) for payment in found],
        [(one, opened(app.seal, one)) for one in told],
    )


async def erase(app: App, text: str) -> Erased:
    """Deletes what is kept about an account, except where its money moved or may still move.

    Each payment is changed as a whole. If it ends half-way, the same call does the rest.
    """
    account = _account(text)
    ids = sorted(await app.store.survey(customers.named(account)))
    if not ids:
        raise FlorinError(Code.CUSTOMER_NOT_FOUND)
    erased = Erased()
    for start in range(0, len(ids), _A_BATCH):
        erased += await app.store.write(customers.erase(account, ids[start : start + _A_BATCH]))
    return erased


def _account(text: str) -> str:
    try:
        return canonical_account(text)
    except ValueError as error:
        raise invalid("account", str(error)) from error
