"""Audit entries about merchants."""

from __future__ import annotations

from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.payments.payment import Merchant


def describe_merchant(
    action: AuditAction, before: Merchant | None, after: Merchant | None
) -> AuditChange | None:
    """Return what changed of a merchant; None if the change was refused."""
    if after is None:
        return None
    changes = list_changes(_list_values(before), _list_values(after))
    return AuditChange(
        action, AuditObject.MERCHANT, after.id, after.partner_id, after.live, changes
    )


def _list_values(merchant: Merchant | None) -> dict[str, object]:
    if merchant is None:
        return {}
    return {
        "name": merchant.name,
        "email": merchant.email,
        "icon_url": merchant.icon_url,
        "support_email": merchant.support_email,
        "support_url": merchant.support_url,
        "accent": merchant.accent,
        "status": merchant.status,
    }
