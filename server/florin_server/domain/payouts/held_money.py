"""Money of payers who were blocked when it came: kept apart until the operator gives a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from florin_server.domain.ledger import accounts


class HeldState(StrEnum):
    """What has become of held money."""

    HELD = "held"  # no verdict yet
    RELEASED = "released"  # its payment succeeded with it
    RETURNED = "returned"  # a payout returns it to its payer
    KEPT = "kept"  # it stays held, e.g. for an authority; it may be returned later
    UNDONE = "undone"  # it was returned, and then a reorganisation undid that it had come


# what each verdict may follow; nothing takes a release or a return back
FOLLOWS = {
    HeldState.RELEASED: frozenset({HeldState.HELD}),
    HeldState.RETURNED: frozenset({HeldState.HELD, HeldState.KEPT}),
    HeldState.KEPT: frozenset({HeldState.HELD}),
}


@dataclass(frozen=True, slots=True)
class HeldMoney:
    """What one final transaction brought from a blocked payer (CAIP-10), by one option.

    Amounts are in minor units of `asset` (CAIP-19). `value` is what was paid, and `held` what of it
    came to wallets of ours, the fee included; the rest is `settled_value`, at the merchant's own
    destination, None if the merchant has none. `event` tells the settlement event apart from all
    others of the payment. `late` money was not what its payment waited for, which ended otherwise.
    `why` tells what blocked the payer. `note` is the operator's reason for its verdict, and
    `payout_id` what returns the money; with `even_if_blocked` it does so to a blocked payer.
    """

    id: str
    payment_id: str
    chain_id: str
    asset: str
    payer: str
    value: int
    held: int
    fee: int
    settled_value: int | None
    tx_hash: str
    event: str
    late: bool
    why: str
    since_us: int
    state: HeldState = HeldState.HELD
    note: str | None = None
    decided_at_us: int | None = None
    payout_id: str | None = None
    even_if_blocked: bool = False

    @property
    def account(self) -> str:
        """The account of the books that owes it."""
        return accounts.held(self.payer)
