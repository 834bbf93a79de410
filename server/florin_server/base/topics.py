"""The topics of notifications."""

from __future__ import annotations

from enum import StrEnum


class Topic(StrEnum):
    """A kind of change; a comment says what its key is."""

    # a payment, by id
    PAYMENT = "payment"
    # a payout, by id; the payout of a refund has the refund's id
    PAYOUT = "payout"
    # there can be something to pay out; without key
    PAYOUTS_DUE = "payouts_due"
    # a chain has something to settle, by CAIP-2
    SETTLEMENT = "settlement"
    # token accounts to open were queued for a chain, by CAIP-2; only releases before 0.4 do that
    RECEIVERS = "receivers"
    # a transfer of others ended or was sent, by its key; for this process only
    FACILITATION = "facilitation"
    # there can be events to deliver; without key, and for this process only
    WEBHOOKS = "webhooks"
    # cached data, of which the store counts the changes; without keys
    ACCOUNTS = "accounts"
    SCREENING = "screening"
    EXECUTORS = "executors"
    QUARANTINE = "quarantine"
