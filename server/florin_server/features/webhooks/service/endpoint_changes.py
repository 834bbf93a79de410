"""Audit entries about webhook endpoints."""

from __future__ import annotations

from florin_server.base.logs import Redactor
from florin_server.domain.audit import (
    AuditAction,
    AuditChange,
    AuditObject,
    FieldChange,
    list_changes,
)
from florin_server.domain.webhooks.endpoint import EndpointState, WebhookEndpoint

# paths and queries of addresses can hold secrets
_redact = Redactor()


def describe_created(endpoint: WebhookEndpoint) -> AuditChange:
    """Return the entry of a new endpoint."""
    return _describe(
        AuditAction.WEBHOOK_CREATED, endpoint, list_changes({}, _list_values(endpoint))
    )


def describe_deleted(endpoint: WebhookEndpoint) -> AuditChange:
    """Return the entry of a deleted endpoint."""
    return _describe(
        AuditAction.WEBHOOK_DELETED, endpoint, list_changes(_list_values(endpoint), {})
    )


def describe_rotation(endpoint: WebhookEndpoint) -> AuditChange:
    """Return the entry of a rotated secret."""
    return _describe(AuditAction.WEBHOOK_SECRET_ROTATED, endpoint, ())


def describe_update(before: WebhookEndpoint, after: WebhookEndpoint) -> AuditChange | None:
    """Return what an update changed; None if nothing."""
    changes = list_changes(_list_values(before), _list_values(after))
    if before.url != after.url and all(change.name != "url" for change in changes):
        changes = (*changes, FieldChange("url", _redact(before.url), _redact(after.url)))
    if before.state is not after.state:
        is_paused = after.state is EndpointState.PAUSED
        action = AuditAction.WEBHOOK_PAUSED if is_paused else AuditAction.WEBHOOK_RESUMED
        return _describe(action, after, changes)
    return _describe(AuditAction.WEBHOOK_CHANGED, after, changes) if changes else None


def _describe(
    action: AuditAction, endpoint: WebhookEndpoint, changes: tuple[FieldChange, ...]
) -> AuditChange:
    return AuditChange(
        action, AuditObject.WEBHOOK, endpoint.id, endpoint.partner_id, endpoint.live, changes
    )


def _list_values(endpoint: WebhookEndpoint) -> dict[str, object]:
    return {
        "url": _redact(endpoint.url),
        "events": endpoint.events,
        "merchant": endpoint.merchant_id,
        "description": endpoint.description,
    }
