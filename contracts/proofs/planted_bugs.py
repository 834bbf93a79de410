"""Bugs to plant in the settlement contract, which the campaigns must find."""

from __future__ import annotations

from collections.abc import Mapping

# the original text, and its replacement
PLANTED_BUGS: Mapping[str, tuple[str, str]] = {
    "the end is no part of the nonce": ("                p.validBefore,\n", "                0,\n"),
    "the way is no part of the nonce": ("                kind,\n", "                0,\n"),
    "a direct payment is made twice": ("isPaid[p.from][nonce] = true;", ""),
    "the fee stays here": (
        "if (p.fee > 0) _transfer(p.token, p.feeTo, p.fee);",
        "",
    ),
    "any caller pays in the name of another account": (
        "if (msg.sender != p.from) revert NotTheBuyer();",
        "",
    ),
    "a payment may be given less than its gas": (
        "if (left - left / 64 < most + CALL_GAS) revert NotEnoughGas();",
        "",
    ),
}
