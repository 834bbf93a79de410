"""The health of a webhook endpoint: how its deliveries went, and what is queued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DAY_HOURS: Final = 24
WEEK_HOURS: Final = 7 * 24


@dataclass(frozen=True, slots=True)
class WebhookHealth:
    """Attempts of 24 hours and of 7 days, and how many of them the endpoint accepted.

    `median_ms` is of the answers among the attempts that are kept, None without an answer.
    `queued_payments` have undelivered events; they are not all with `has_more_queued`.
    `next_attempt_at_us` is None if nothing is due, while it is paused, and if events are fetched.
    """

    attempts_day: int
    successes_day: int
    attempts_week: int
    successes_week: int
    median_ms: int | None
    queued_payments: int
    has_more_queued: bool
    next_attempt_at_us: int | None
