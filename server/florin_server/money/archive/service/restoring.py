"""Puts the rows of an archived payment back into the store, for example for a refund."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.archive.store import files, rows
from florin_server.money.archive.store.files import ArchivedPaymentKey
from florin_server.money.archive.store.rows import ARCHIVED_TABLES, StoredRow
from florin_server.money.payments.store import payments
from florin_server.operations.service.audit_log import audited


class _Context(ArchiveContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


async def restore_payment(app: _Context, payment_id: str) -> None:
    """Put an archived payment back into the store; a later pass archives it again.

    payment_not_found if it is in no file, invalid_state if it is in the store; internal_error,
    unavailable, if its file cannot be read.
    """
    key = await app.archive.find_key(payment_id)
    if key is None:
        raise ApiError(ErrorCode.PAYMENT_NOT_FOUND)
    stored_rows = await app.archive.read_rows(key)
    change = AuditChange(
        AuditAction.PAYMENT_RESTORED, AuditObject.PAYMENT, payment_id, key.partner_id, key.live
    )
    await app.store.write(audited(app, _restore(key, stored_rows), lambda _: change))
    app.archive.forget(payment_id)


@operation
def _restore(key: ArchivedPaymentKey, stored_rows: Mapping[str, Sequence[StoredRow]]) -> Op[None]:
    # two simultaneous calls: the second finds the payment, or its insert conflicts
    if (yield from payments.find(key.payment_id)) is not None:
        raise ApiError(ErrorCode.INVALID_STATE, "The payment is in the store")
    for table in ARCHIVED_TABLES:
        yield from rows.insert_rows(table, stored_rows[table.name])
    yield from files.forget_keys([key.payment_id])
