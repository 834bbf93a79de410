"""What the operator owes a customer: everything that is kept about an account, or its end."""

from __future__ import annotations

from florin_server.domain.caip import canonical_account
from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.payment import Payment
from florin_server.flows.app import App
from florin_server.store import customers
from florin_server.store.customers import Erased

# payments that are changed at once, so that others get their turn in between
_A_BATCH = 100


async def export(app: App, text: str) -> tuple[str, list[Payment]]:
    """The account in canonical form and its payments as they read now, the newest first."""
    account = _account(text)
    found = await app.store.survey(customers.payments_of(account))
    if not found:
        raise FlorinError(Code.CUSTOMER_NOT_FOUND)
    now_us = app.clock.now_us()
    return account, [payment.at(now_us) for payment in found]


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
