"""Money of payers who were blocked when it arrived: held until the operator decides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from florin_server.domain.ledger import accounts

_ADDRESS = re.compile(r"0x[0-9a-f]{40}")


class HeldMoneyState(StrEnum):
    """The state of held money."""

    HELD = "held"  # not decided yet
    RELEASED = "released"  # its payment succeeded with it
    RETURNED = "returned"  # a payout returns it to its payer
    KEPT = "kept"  # it stays held, for example for an authority; it can be returned later
    UNDONE = "undone"  # it was returned, and then a reorganization removed its arrival


# the decisions that can follow each other; a release or a return is never taken back
ALLOWED_VERDICTS = {
    HeldMoneyState.RELEASED: frozenset({HeldMoneyState.HELD}),
    HeldMoneyState.RETURNED: frozenset({HeldMoneyState.HELD, HeldMoneyState.KEPT}),
    HeldMoneyState.KEPT: frozenset({HeldMoneyState.HELD}),
}


@dataclass(frozen=True, slots=True)
class HeldMoney:
    """The money of one final transaction from a blocked payer (CAIP-10), by one option.

    Amounts are in minor units of `asset` (CAIP-19). `value` was paid, and `held` of it arrived at
    wallets of Florin, including the fee; `settled_value` arrived at the merchant's own destination,
    None if it has none. `event` identifies the settlement event among those of the payment. `late`
    money arrived for a payment that ended in another way. `why` names what blocked the payer.
    Money that came to a payment's own address and paid nothing has that `address` (CAIP-10), which
    is also its payer if the sender is unknown; it is held because its sender may not be the buyer.
    `note` is the operator's reason for the decision. `payout_id` returns the money, with
    `even_if_blocked` even to a blocked payer.
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
    state: HeldMoneyState = HeldMoneyState.HELD
    note: str | None = None
    decided_at_us: int | None = None
    payout_id: str | None = None
    even_if_blocked: bool = False
    address: str | None = None

    @property
    def account(self) -> str:
        """Return the ledger account that owes it."""
        if self.address is not None:
            return accounts.stray_money(self.address)
        return accounts.held_money(self.payer)

    @property
    def deposit_address(self) -> str | None:
        """Return the payment's address (CAIP-10) that it came to; None for other money."""
        if self.address is not None:
            return self.address
        # money of a blocked sender is not owed by the address
        address = self.event.split(":")[1] if ":" in self.event else ""
        return f"{self.chain_id}:{address}" if self.late and _ADDRESS.fullmatch(address) else None

    @property
    def has_unknown_sender(self) -> bool:
        """Return True if its sender is unknown: the operator names the account to return it to."""
        return self.payer == self.address
