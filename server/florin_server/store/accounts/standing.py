"""Whether who calls still may, read again in the transaction that moves money.

What is known of a caller before is remembered for seconds, in each process by itself. Of a key that
is revoked, or may do less, while a transaction runs, the transaction counts as the one that came
first.
"""

from __future__ import annotations

from sqlalchemy import select

from florin_server.domain.accounts.account import Standing
from florin_server.domain.errors import Code, FlorinError
from florin_server.store.engine.query import Op, Operation, Row, Statement, T, operation, param
from florin_server.store.tables.tables import api_key, merchant, partner, wallet_app

_KEY = Statement(
    select(
        api_key.c.revoked_at_us,
        api_key.c.scopes,
        api_key.c.partner_id,
        partner.c.status,
        merchant.c.id,
        merchant.c.deleted_at_us,
        merchant.c.status,
    )
    .select_from(
        api_key.outerjoin(partner, partner.c.id == api_key.c.partner_id).outerjoin(
            merchant, merchant.c.id == param("for_merchant")
        )
    )
    .where(api_key.c.key_id == param("id_"))
)
_APP = Statement(select(wallet_app.c.revoked_at_us).where(wallet_app.c.app_id == param("id_")))


@operation
def checked(standing: Standing | None, work: Operation[T]) -> Op[T]:
    """Does the work of a caller that still may; nothing, and a FlorinError, for any other.

    The refusals are those of a call that comes later. None is ourselves, or the operator.
    """
    yield from require(standing)
    return (yield from work)


@operation
def require(standing: Standing | None) -> Op[None]:
    """The same without any work."""
    if standing is None:
        return
    if standing.app_id is not None:
        apps = yield _APP(id_=standing.app_id)
        if not apps or apps[0][0] is not None:
            raise FlorinError(Code.INVALID_APP_ID)
        return
    rows = yield _KEY(id_=standing.key_id, for_merchant=standing.merchant_id)
    if (refused := _refusal(standing, rows)) is not None:
        raise FlorinError(refused)


def _refusal(standing: Standing, rows: list[Row]) -> Code | None:
    """The first that holds, in the order of calls that come later."""
    if not rows or rows[0][0] is not None:
        return Code.INVALID_API_KEY
    _, scopes, partner_id, partner_status, merchant_id, deleted_at_us, merchant_status = rows[0]
    if standing.scope and standing.scope not in scopes:
        return Code.FORBIDDEN
    if partner_id is not None and partner_status != "active":
        return Code.FORBIDDEN
    if standing.merchant_id is None:
        return None
    if merchant_id is None or (standing.active_merchant and deleted_at_us is not None):
        return Code.MERCHANT_NOT_FOUND
    if standing.active_merchant and merchant_status != "active":
        return Code.FORBIDDEN
    return None
