"""Checks a caller's credential again, in the transaction that moves money.

Each process caches a caller's data for seconds. If a key is revoked or restricted while a
transaction runs, the transaction counts as earlier.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import select

from florin_server.db.engine.query import Op, Operation, Statement, T, operation, param
from florin_server.db.tables.tables import (
    api_key_table,
    merchant_table,
    partner_table,
    wallet_app_table,
)
from florin_server.domain.accounts.account import CredentialStatus
from florin_server.domain.errors import ApiError, ErrorCode


class _KeyStatus(NamedTuple):
    revoked_at_us: int | None
    scopes: frozenset[str]
    partner_id: str | None
    partner_status: str | None
    merchant_id: str | None
    deleted_at_us: int | None
    merchant_status: str | None


_KEY = Statement(
    select(
        api_key_table.c.revoked_at_us,
        api_key_table.c.scopes,
        api_key_table.c.partner_id,
        partner_table.c.status.label("partner_status"),
        merchant_table.c.id.label("merchant_id"),
        merchant_table.c.deleted_at_us,
        merchant_table.c.status.label("merchant_status"),
    )
    .select_from(
        api_key_table.outerjoin(
            partner_table, partner_table.c.id == api_key_table.c.partner_id
        ).outerjoin(merchant_table, merchant_table.c.id == param("for_merchant"))
    )
    .where(api_key_table.c.key_id == param("id_")),
    _KeyStatus,
)
_APP = Statement.nullable(
    select(wallet_app_table.c.revoked_at_us).where(wallet_app_table.c.app_id == param("id_")), int
)


@operation
def run_if_active(credential_status: CredentialStatus | None, work: Operation[T]) -> Op[T]:
    """Run the work of a caller with a valid credential; raise ApiError for any other caller.

    The errors are those of a later call. None means the service itself, or the operator.
    """
    yield from require_active(credential_status)
    return (yield from work)


@operation
def require_active(credential_status: CredentialStatus | None) -> Op[None]:
    """Raise ApiError unless the caller's credential is valid; None means the service itself."""
    if credential_status is None:
        return
    if credential_status.app_id is not None:
        revocations = yield from _APP.all(id_=credential_status.app_id)
        if not revocations or revocations[0] is not None:
            raise ApiError(ErrorCode.INVALID_APP_ID)
        return
    key_status = yield from _KEY.first(
        id_=credential_status.key_id, for_merchant=credential_status.merchant_id
    )
    if (refused := _find_refusal(credential_status, key_status)) is not None:
        raise ApiError(refused)


def _find_refusal(
    credential_status: CredentialStatus, key_status: _KeyStatus | None
) -> ErrorCode | None:
    """Return the first reason that applies, in the order of later calls' checks."""
    if key_status is None or key_status.revoked_at_us is not None:
        return ErrorCode.INVALID_API_KEY
    if credential_status.scope and credential_status.scope not in key_status.scopes:
        return ErrorCode.FORBIDDEN
    if key_status.partner_id is not None and key_status.partner_status != "active":
        return ErrorCode.FORBIDDEN
    if credential_status.merchant_id is None:
        return None
    if key_status.merchant_id is None or (
        credential_status.requires_active_merchant and key_status.deleted_at_us is not None
    ):
        return ErrorCode.MERCHANT_NOT_FOUND
    if credential_status.requires_active_merchant and key_status.merchant_status != "active":
        return ErrorCode.FORBIDDEN
    return None
