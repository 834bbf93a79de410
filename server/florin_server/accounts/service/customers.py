"""Export and erasure of everything that Florin stores about an account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from florin_server.accounts.store import customers
from florin_server.accounts.store.customers import ErasureCounts
from florin_server.compliance.buyer_data import store as collected_data
from florin_server.compliance.buyer_data.service.collected import decrypt_data
from florin_server.compliance.buyer_data.store import BuyerDataRecord
from florin_server.db.context import StorageContext
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject
from florin_server.domain.caip import canonicalize_account
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.payments.payment import Payment
from florin_server.domain.payouts.deposit_claims import DepositClaim
from florin_server.operations.service.audit_log import audited

# payments in one change, so that other writes get their turn in between
_BATCH_SIZE = 100


@dataclass(frozen=True, slots=True)
class CustomerData:
    """The stored data about an account (canonical CAIP-10), the newest first.

    `buyer_data` is the data given about it, with its JSON; None where it is no longer readable.
    """

    account: str
    payments: Sequence[Payment]
    buyer_data: Sequence[tuple[BuyerDataRecord, str | None]]
    claims: Sequence[DepositClaim]


async def export(app: StorageContext, text: str) -> CustomerData:
    """Return everything that is stored about an account, with its payments at present.

    Archived payments are not read: any number of files could contain them.
    """
    account = _parse_account(text)
    payments = await app.store.scan_standby(customers.list_payments(account))
    records = await app.store.scan(collected_data.list_by_account(account))
    # the data can outlive the payments, which the archive has then
    if not payments and not records:
        raise ApiError(ErrorCode.CUSTOMER_NOT_FOUND)
    now_us = app.clock.now_us()
    return CustomerData(
        account,
        [payment.with_expiry(now_us) for payment in payments],
        [(record, decrypt_data(app.cipher, record)) for record in records],
        await app.store.scan(customers.list_claims(account)),
    )


async def erase(app: StorageContext, text: str) -> ErasureCounts:
    """Delete what is stored about an account, except where its money moved or can still move.

    Each payment is changed as a whole. If it ends half-way, the same call completes it.
    """
    account = _parse_account(text)
    ids = sorted(await app.store.scan(customers.list_payment_ids(account)))
    if not ids:
        raise ApiError(ErrorCode.CUSTOMER_NOT_FOUND)
    erased = ErasureCounts()
    # not whose: the log outlives the erasure
    change = AuditChange(AuditAction.CUSTOMER_ERASED, AuditObject.CUSTOMER, "")
    for start in range(0, len(ids), _BATCH_SIZE):
        work = customers.erase(account, ids[start : start + _BATCH_SIZE])
        if start == 0:
            work = audited(app, work, lambda _: change)
        erased += await app.store.write(work)
    return erased


def _parse_account(text: str) -> str:
    try:
        return canonicalize_account(text)
    except ValueError as error:
        raise validation_error("account", str(error)) from error
