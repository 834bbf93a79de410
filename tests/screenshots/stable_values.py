"""Replacement of values that change with each load of a page.

Random numbers keep their length and their prefix, and stay distinguishable. The same applies to
addresses of this machine, the release, and gas costs, which depend on such numbers. Lists in their
order are sorted differently.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import segno
from playwright.async_api import Page

_CALM = Path(__file__).with_name("stable_values.js").read_text().partition("\n")[2]
_HOST = "https://pay.shop.example"
_LINK = f"{_HOST}/pay_9cf258be147ad0369cf258be147"
# ids of keys, and endings of secrets, which have no form of their own
_IDS = ", ".join(
    (
        ".side-foot code",
        *(f"[aria-label='API keys'] {item}" for item in ("th code", "button span")),
        "[aria-label='Keys that are signed in'] code",
        # parts of an address
        *("#send-address", "#send-address b"),
        # keys that did something, or were changed, and requests
        *(f"[aria-label='Audit log'] {item}" for item in (".two > span code", "td > .idc code")),
    )
)

# lists in the order of ids
_LISTS = (
    *("[aria-label='API keys'] tbody tr", "[aria-label=Wallets] tbody tr"),
    *("[aria-label='Your wallets'] tbody tr", "[aria-label='Relayers and treasuries'] tbody tr"),
    "[aria-label='Accounts on chain'] tbody tr",
)


async def calm(page: Page) -> None:
    """Replace the changing values of a page by constant ones."""
    await page.evaluate(_CALM, [_HOST, _code(), _IDS, _LISTS])


@cache
def _code() -> list[str]:
    """Return a QR code as pages have it: its size, and its path."""
    drawn = segno.make(_LINK, error="m", micro=False).svg_inline(border=2, omitsize=True)
    return [re.findall(f' {name}="([^"]+)"', drawn)[0] for name in ("viewBox", "d")]
