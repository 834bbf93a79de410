"""Words and signs of states in a console: a word, an icon and a color, always all three."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from florin_server.web.language import Translations


@dataclass(frozen=True, slots=True)
class StatePill:
    """A state for people: `look` is a class of the style sheet, `sign` the name of an icon.

    `name` is the same in all languages, for scripts.
    """

    name: str
    word: str
    look: str
    sign: str


_PLAIN: Final = "plain"
# look and sign by name: a kind, and a value of its enum or a state that no enum has. Kinds share no
# word, because adjectives follow the gender of a noun; the word's key is "state." and the name
LOOKS: Final[Mapping[str, tuple[str, str]]] = {
    "payment.requires_action": (_PLAIN, "clock"),
    "payment.processing": ("info", "again"),
    "payment.succeeded": ("good", "check"),
    "payment.failed": ("bad", "cross"),
    "payment.expired": (_PLAIN, "clock"),
    "payment.cancelled": (_PLAIN, "ban"),
    "payment.refunding": ("info", "undo"),
    "payment.refunded": (_PLAIN, "undo"),
    "payment.partly_refunded": (_PLAIN, "undo"),
    "refund.pending": (_PLAIN, "clock"),
    "refund.processing": ("info", "send"),
    "refund.succeeded": (_PLAIN, "undo"),
    "refund.failed": ("bad", "cross"),
    "payout.waiting": (_PLAIN, "clock"),
    "payout.submitted": ("info", "send"),
    "payout.done": ("good", "check"),
    "payout.refused": (_PLAIN, "ban"),
    "payout.unresolved": ("warn", "alert"),
    "held.held": ("warn", "hold"),
    "held.released": ("good", "check"),
    "held.returned": (_PLAIN, "undo"),
    "held.kept": (_PLAIN, "hold"),
    "held.undone": ("warn", "alert"),
    "claim.open": (_PLAIN, "clock"),
    "claim.confirmed": ("good", "check"),
    "claim.rejected": (_PLAIN, "ban"),
    "deposit.seen": ("info", "again"),
    "deposit.final": ("good", "check"),
    "deposit.returned": (_PLAIN, "undo"),
    "quarantine.set_aside": ("warn", "alert"),
    "quarantine.retried": ("info", "again"),
    "quarantine.resolved": ("good", "check"),
    "verdict.exact": ("good", "check"),
    "verdict.under_way": ("info", "again"),
    "verdict.not_begun": (_PLAIN, "clock"),
    "verdict.unbooked": ("warn", "alert"),
    "verdict.missing": ("bad", "cross"),
    "verdict.not_read": ("warn", "alert"),
    "condition.ok": ("good", "check"),
    "condition.notice": ("info", "info"),
    "condition.warning": ("warn", "alert"),
    "condition.critical": ("bad", "alert"),
    "merchant.active": ("good", "check"),
    "merchant.inactive": (_PLAIN, "pause"),
    "merchant.suspended": ("bad", "ban"),
    "partner.active": ("good", "check"),
    "partner.suspended": ("bad", "ban"),
    "endpoint.active": ("good", "check"),
    "endpoint.paused": ("warn", "pause"),
    "endpoint.retrying": ("warn", "again"),
    "node.healthy": ("good", "check"),
    "node.not_used": ("bad", "cross"),
    "chain.healthy": ("good", "check"),
    "chain.check_it": ("warn", "alert"),
    "chain.behind": ("warn", "clock"),
    "chain.down": ("bad", "cross"),
    "chain.low_coin": ("warn", "alert"),
    "chain.paused": ("warn", "pause"),
    "executor.active": ("good", "check"),
    "executor.paused": ("warn", "pause"),
    "key.active": ("good", "check"),
    "key.revoked": (_PLAIN, "ban"),
    "wallet.active": ("good", "check"),
    "wallet.revoked": (_PLAIN, "ban"),
    "delivery.succeeded": ("good", "check"),
    "delivery.failed": ("bad", "cross"),
    "mode.live": ("good", "bolt"),
    "mode.test": ("warn", "flask"),
}


def list_payment_pills(texts: Translations) -> list[StatePill]:
    """Return the pills that a payment can have, for scripts to copy."""
    return [get_pill(texts, name) for name in LOOKS if name.startswith("payment.")]


def get_pill(texts: Translations, name: str) -> StatePill:
    """Return the pill of a state; of an unknown one, the last part of its name."""
    if name in LOOKS:
        return StatePill(name, texts.plain(f"state.{name}"), *LOOKS[name])
    word = name.rpartition(".")[2].replace("_", " ").capitalize()
    return StatePill(name, word or texts.plain("unknown"), _PLAIN, "info")
