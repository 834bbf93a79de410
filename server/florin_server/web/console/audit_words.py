"""The actions and objects of the audit log in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from florin_server.domain.audit import AuditAction as Action

ACTIONS: Final[Mapping[str, str]] = {
    Action.BOOKS_DIFFERENCE_BOOKED: "Booked a difference",
    Action.CLOCK_ADVANCED: "Advanced the test clock",
    Action.CUSTOMER_ERASED: "Erased a customer's data",
    Action.EXECUTOR_PAUSED: "Paused executor",
    Action.EXECUTOR_RESUMED: "Resumed executor",
    Action.HELD_MONEY_RELEASED: "Released held money",
    Action.HELD_MONEY_RETURNED: "Returned held money",
    Action.HELD_MONEY_KEPT: "Kept held money",
    Action.KEY_CREATED: "Created API key",
    Action.KEY_CHANGED: "Changed API key",
    Action.KEY_REVOKED: "Revoked API key",
    Action.LEASE_RELEASED: "Released lease",
    Action.MERCHANT_CREATED: "Created merchant",
    Action.MERCHANT_CHANGED: "Changed merchant",
    Action.MERCHANT_DELETED: "Deleted merchant",
    Action.MERCHANT_STATUS_CHANGED: "Changed merchant's status",
    Action.MERCHANT_DESTINATION_ADDED: "Added destination",
    Action.MERCHANT_DESTINATION_CHANGED: "Changed destination",
    Action.MERCHANT_DESTINATION_REMOVED: "Removed destination",
    Action.MERCHANT_BANK_ACCOUNT_ADDED: "Added bank account",
    Action.PARTNER_CREATED: "Created partner",
    Action.PARTNER_STATUS_CHANGED: "Changed partner's status",
    Action.PAYMENT_CANCELLED: "Cancelled payment",
    Action.PAYMENT_REFUNDED: "Refunded",
    Action.PAYMENT_NOTE_ADDED: "Added note",
    Action.PAYMENT_NOTE_DELETED: "Deleted note",
    Action.PAYMENT_NOTE_RESTORED: "Restored note",
    Action.PAYOUT_CREATED: "Created payout",
    Action.PAYOUT_REFUSED: "Cancelled payout",
    Action.PAYOUT_RESOLVED: "Resolved payout",
    Action.QUARANTINED_ITEM_RETRIED: "Retried quarantined item",
    Action.QUARANTINED_ITEM_RESOLVED: "Resolved quarantined item",
    Action.RECEIPT_KEY_ROTATED: "Rotated receipt key",
    Action.RECEIPT_KEY_REVOKED: "Revoked receipt key",
    Action.SCREENING_LIST_IMPORTED: "Imported screening list",
    Action.SCREENING_LIST_REMOVED: "Removed screening list",
    Action.SERVICE_STARTED: "Read the settings",
    Action.SIGN_IN_DONE: "Signed in",
    Action.SIGN_IN_FAILED: "Failed sign-in",
    Action.VERSION_CHANGED: "Changed API version",
    Action.WALLET_REGISTERED: "Registered wallet",
    Action.WALLET_REVOKED: "Revoked wallet",
    Action.WEBHOOK_CREATED: "Created endpoint",
    Action.WEBHOOK_CHANGED: "Changed endpoint",
    Action.WEBHOOK_PAUSED: "Paused endpoint",
    Action.WEBHOOK_RESUMED: "Resumed endpoint",
    Action.WEBHOOK_DELETED: "Deleted endpoint",
    Action.WEBHOOK_SECRET_ROTATED: "Rotated endpoint's secret",
    Action.WEBHOOK_REPLAYED: "Replayed events",
}
# the parts before the dots of the actions
OBJECTS: Final[Mapping[str, str]] = {
    "books": "Books",
    "clock": "Test clock",
    "customer": "Customers",
    "executor": "Executors",
    "held_money": "Held money",
    "key": "API keys",
    "lease": "Leases",
    "merchant": "Merchants",
    "partner": "Partners",
    "payment": "Payments",
    "payout": "Payouts",
    "quarantined_item": "Quarantine",
    "receipt_key": "Receipt keys",
    "screening_list": "Screening lists",
    "service": "Settings",
    "sign_in": "Sign-ins",
    "version": "API versions",
    "wallet": "Wallets",
    "webhook": "Webhooks",
}


def describe_action(action: str) -> str:
    """Return an action in words; one of a newer release as it is named."""
    return ACTIONS.get(action, action)
