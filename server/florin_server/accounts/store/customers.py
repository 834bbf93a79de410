"""The data stored about one paying account, and its erasure.

No index leads from accounts to payments, as only the operator asks for them: these queries read
whole tables and belong into a scan.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import delete, exists, or_, select, update

from florin_server.compliance.buyer_data.store import erase as erase_data
from florin_server.db.engine.query import Command, Op, Statement, is_in, operation, param
from florin_server.db.tables.tables import (
    collected_data_table,
    deposit_claim_table,
    payment_note_table,
    payment_option_table,
    payment_table,
    resolved_build_table,
)
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.domain.payouts.deposit_claims import DepositClaim, DepositClaimState

# the name of a wallet that did not give one
_NAMELESS = "unknown"
# the money of these payments moved, or may move
_MUST_RETAIN = or_(
    payment_table.c.status == PaymentStatus.PROCESSING,
    payment_table.c.status == PaymentStatus.SUCCEEDED,
)

_PAID = Statement(select(payment_table.c.id).where(payment_table.c.payer == param("account_")), str)
_OFFERED = Statement(
    select(payment_option_table.c.payment_id).where(
        payment_option_table.c.payer == param("account_")
    ),
    str,
)
_COLLECTED = Statement(
    select(collected_data_table.c.payment_id).where(
        collected_data_table.c.account == param("account_")
    ),
    str,
)
_CLAIMED = Statement(
    select(deposit_claim_table.c.payment_id).where(
        deposit_claim_table.c.account == param("account_")
    ),
    str,
)
_LIST_CLAIMS = Statement(
    select(deposit_claim_table)
    .where(deposit_claim_table.c.account == param("account_"))
    .order_by(deposit_claim_table.c.created_at_us.desc(), deposit_claim_table.c.id.desc()),
    DepositClaim,
)
_GET = Statement(select(payment_table).where(is_in(payment_table.c.id, "ids")), Payment)
# accepting a confirm locks the payment too, so that an option in use is not deleted
_LOCK = Statement(
    select(payment_table.c.id)
    .where(is_in(payment_table.c.id, "ids"))
    .order_by(payment_table.c.id)
    .with_for_update(),
    str,
)
_ERASE_OFFERS = Statement(
    delete(payment_option_table)
    .where(
        is_in(payment_option_table.c.payment_id, "ids"),
        payment_option_table.c.payer == param("account_"),
        ~exists()
        .where(
            payment_table.c.id == payment_option_table.c.payment_id,
            payment_table.c.option_id == payment_option_table.c.id,
            _MUST_RETAIN,
        )
        .correlate(payment_option_table),
    )
    .returning(payment_option_table.c.id),
    str,
)
# issued builds contain the account too
_ERASE_ISSUED = Command(
    delete(resolved_build_table).where(
        is_in(resolved_build_table.c.payment_id, "ids"),
        ~exists()
        .where(
            payment_option_table.c.payment_id == resolved_build_table.c.payment_id,
            payment_option_table.c.id == resolved_build_table.c.option_id,
        )
        .correlate(resolved_build_table),
    )
)
_ERASE_NOTES = Command(
    delete(payment_note_table).where(is_in(payment_note_table.c.payment_id, "ids"))
)
# the account of a confirmed claim received money
_ERASE_CLAIMS = Statement(
    delete(deposit_claim_table)
    .where(
        is_in(deposit_claim_table.c.payment_id, "ids"),
        deposit_claim_table.c.account == param("account_"),
        deposit_claim_table.c.state != DepositClaimState.CONFIRMED,
    )
    .returning(deposit_claim_table.c.id),
    str,
)
_ERASE_MESSAGES = Command(
    update(deposit_claim_table)
    .where(is_in(deposit_claim_table.c.payment_id, "ids"))
    .values(message=None)
)
_ERASE_WALLETS = Statement(
    update(payment_table)
    .where(
        is_in(payment_table.c.id, "ids"),
        payment_table.c.payer == param("account_"),
        or_(payment_table.c.provider_name != _NAMELESS, payment_table.c.provider_icon.is_not(None)),
    )
    .values(provider_name=_NAMELESS, provider_icon=None)
    .returning(payment_table.c.id),
    str,
)
_ERASE_PAYERS = Command(
    update(payment_table)
    .where(
        is_in(payment_table.c.id, "ids"), payment_table.c.payer == param("account_"), ~_MUST_RETAIN
    )
    .values(payer=None)
)
_RETAINED = Statement(
    select(payment_table.c.id).where(
        is_in(payment_table.c.id, "ids"), payment_table.c.payer == param("account_")
    ),
    str,
)


@dataclass(frozen=True, slots=True)
class ErasureCounts:
    """The number of deleted offers, wallet names, records of buyer data, and claims.

    `retained_payments` is the number of payments that still contain the account.
    """

    offers: int = 0
    wallets: int = 0
    retained_payments: int = 0
    data: int = 0
    claims: int = 0

    def __add__(self, other: ErasureCounts) -> ErasureCounts:
        return ErasureCounts(
            self.offers + other.offers,
            self.wallets + other.wallets,
            self.retained_payments + other.retained_payments,
            self.data + other.data,
            self.claims + other.claims,
        )


@operation
def list_payment_ids(account: str) -> Op[set[str]]:
    """Return the payments that an account paid, was offered, was asked about, or claimed.

    A full scan.
    """
    paid = yield from _PAID.all(account_=account)
    offered = yield from _OFFERED.all(account_=account)
    report = yield from _COLLECTED.all(account_=account)
    claimed = yield from _CLAIMED.all(account_=account)
    return {*paid, *offered, *report, *claimed}


@operation
def list_payments(account: str) -> Op[list[Payment]]:
    """Return these payments in their current state, the newest first; a full scan."""
    ids = yield from list_payment_ids(account)
    payments = yield from _GET.all(ids=ids)
    return sorted(
        payments,
        key=lambda this_payment: (this_payment.created_at_us, this_payment.id),
        reverse=True,
    )


@operation
def list_claims(account: str) -> Op[list[DepositClaim]]:
    """Return the claims for money that name an account, the newest first; a full scan."""
    return (yield from _LIST_CLAIMS.all(account_=account))


@operation
def erase(account: str, payment_ids: Collection[str]) -> Op[ErasureCounts]:
    """Delete an account's data in some payments; where money moves, the account stays."""
    params = {"account_": account, "ids": payment_ids}
    yield from _LOCK.all(ids=payment_ids)
    offers = yield from _ERASE_OFFERS.all(**params)
    yield _ERASE_ISSUED(ids=payment_ids)
    # free text can be about the buyer, also where the account itself stays
    yield _ERASE_NOTES(ids=payment_ids)
    claims = yield from _ERASE_CLAIMS.all(**params)
    yield _ERASE_MESSAGES(ids=payment_ids)
    data = yield from erase_data(account, payment_ids)
    wallets = yield from _ERASE_WALLETS.all(**params)
    yield _ERASE_PAYERS(**params)
    retained = yield from _RETAINED.all(**params)
    return ErasureCounts(len(offers), len(wallets), len(retained), data, len(claims))
