"""What is another one each time a page is loaded, replaced by what is always the same.

Numbers that chance makes keep their length and what they begin with, and are told apart. So are
addresses of this machine, the release, and what gas cost, which depends on such numbers. Lists in
their order are put into another one.
"""

from __future__ import annotations

import re
from pathlib import Path

import segno
from playwright.async_api import Page

_CALM = Path(__file__).with_name("calm.js").read_text().partition("\n")[2]
_HOST = "https://pay.shop.example"
_LINK = f"{_HOST}/pay_9cf258be147ad0369cf258be147"
# ids of keys, and what secrets end with, which have no form of their own
_IDS = ", ".join(
    (
        "footer code",
        *(f"[aria-label=Keys] {one}" for one in ("th code", "td:nth-child(5) code", "button span")),
    )
)

# lists in the order of ids
_LISTS = (
    *("[aria-label=Keys] tbody tr", "[aria-label=Wallets] tbody tr"),
    *("[aria-label=Balances] tbody tr", 'section[aria-label*=":0x"]'),
)


async def calm(page: Page) -> None:
    """Has a page show nothing that is another one each time."""
    await page.evaluate(_CALM, [_HOST, _code(), _IDS, _LISTS])


def _code() -> list[str]:
    """A code as pages have it: its size, and what is drawn."""
    drawn = segno.make(_LINK, error="m", micro=False).svg_inline(border=2, omitsize=True)
    return [re.findall(f' {name}="([^"]+)"', drawn)[0] for name in ("viewBox", "d")]
