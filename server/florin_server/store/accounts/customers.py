"""What is kept about one account that pays, and what can be deleted of it.

No index leads from accounts to payments, as nobody but the operator asks for them: the questions
look at whole tables and belong into a survey.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import delete, exists, or_, select, update

from florin_server.domain.payments.payment import Payment, Status
from florin_server.store.capture.collected_data import erase as erase_data
from florin_server.store.engine.query import Op, Statement, any_of, operation, param
from florin_server.store.tables.tables import collected_data, issued, payment, payment_option

# what a payment says whose wallet did not name itself
_NAMELESS = "unknown"
# the money of those moved, or may move
_KEEPS = or_(payment.c.status == Status.PROCESSING, payment.c.status == Status.SUCCEEDED)

_PAID = Statement(select(payment.c.id).where(payment.c.payer == param("account_")))
_OFFERED = Statement(
    select(payment_option.c.payment_id).where(payment_option.c.payer == param("account_"))
)
_TOLD = Statement(
    select(collected_data.c.payment_id).where(collected_data.c.account == param("account_"))
)
_GET = Statement(select(payment).where(any_of(payment.c.id, "ids")))
# whoever accepts a confirm locks the payment too, so that no option goes that is just being taken
_LOCK = Statement(
    select(payment.c.id).where(any_of(payment.c.id, "ids")).order_by(payment.c.id).with_for_update()
)
_ERASE_OFFERS = Statement(
    delete(payment_option)
    .where(
        any_of(payment_option.c.payment_id, "ids"),
        payment_option.c.payer == param("account_"),
        ~exists()
        .where(
            payment.c.id == payment_option.c.payment_id,
            payment.c.option_id == payment_option.c.id,
            _KEEPS,
        )
        .correlate(payment_option),
    )
    .returning(payment_option.c.id)
)
# what was issued names the account too
_ERASE_ISSUED = Statement(
    delete(issued).where(
        any_of(issued.c.payment_id, "ids"),
        ~exists()
        .where(
            payment_option.c.payment_id == issued.c.payment_id,
            payment_option.c.id == issued.c.option_id,
        )
        .correlate(issued),
    )
)
_ERASE_WALLETS = Statement(
    update(payment)
    .where(
        any_of(payment.c.id, "ids"),
        payment.c.payer == param("account_"),
        or_(payment.c.provider_name != _NAMELESS, payment.c.provider_icon.is_not(None)),
    )
    .values(provider_name=_NAMELESS, provider_icon=None)
    .returning(payment.c.id)
)
_ERASE_PAYERS = Statement(
    update(payment)
    .where(any_of(payment.c.id, "ids"), payment.c.payer == param("account_"), ~_KEEPS)
    .values(payer=None)
)
_KEPT = Statement(
    select(payment.c.id).where(any_of(payment.c.id, "ids"), payment.c.payer == param("account_"))
)


@dataclass(frozen=True, slots=True)
class Erased:
    """How much was deleted: offers, names of wallets, data that the customer told about itself.

    `kept` is how many payments still name the account.
    """

    offers: int = 0
    wallets: int = 0
    kept: int = 0
    data: int = 0

    def __add__(self, other: Erased) -> Erased:
        return Erased(
            self.offers + other.offers,
            self.wallets + other.wallets,
            self.kept + other.kept,
            self.data + other.data,
        )


@operation
def named(account: str) -> Op[set[str]]:
    """The payments that an account pays, was offered, or was asked about; looks at every row."""
    paid = yield _PAID(account_=account)
    offered = yield _OFFERED(account_=account)
    told = yield _TOLD(account_=account)
    return {payment_id for (payment_id,) in (*paid, *offered, *told)}


@operation
def payments_of(account: str) -> Op[list[Payment]]:
    """The same payments as they stand, the newest first; looks at every row."""
    ids = yield from named(account)
    found = [Payment(*row) for row in (yield _GET(ids=ids))]
    return sorted(found, key=lambda one: (one.created_at_us, one.id), reverse=True)


@operation
def erase(account: str, payment_ids: Collection[str]) -> Op[Erased]:
    """Deletes what some payments tell about an account; where money moves, the account stays."""
    asked = {"account_": account, "ids": payment_ids}
    yield _LOCK(ids=payment_ids)
    offers = yield _ERASE_OFFERS(**asked)
    yield _ERASE_ISSUED(ids=payment_ids)
    data = yield from erase_data(account, payment_ids)
    wallets = yield _ERASE_WALLETS(**asked)
    yield _ERASE_PAYERS(**asked)
    kept = yield _KEPT(**asked)
    return Erased(len(offers), len(wallets), len(kept), data)
