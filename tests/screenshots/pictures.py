"""Which pictures there are, and how a browser gets to each."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from playwright.async_api import Page

from tests.support.checkout_states import STATES, reached
from tests.support.desk import Desk
from tests.support.injected import Purse

Reach = Callable[[Desk, Page], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: its file's name, the way to what it shows, and the browser's preferences."""

    name: str
    reach: Reach
    language: str = "en"
    scheme: Literal["light", "dark"] = "light"


def _state(state: str) -> Reach:
    async def reach(desk: Desk, page: Page) -> None:
        await page.goto(desk.rest.base + await reached(desk, state))

    return reach


async def _options(desk: Desk, page: Page) -> None:
    """What a wallet of the browser can pay with."""
    await Purse(desk.chain, name="Purse").put_into(page)
    await page.goto(desk.rest.base + await reached(desk, "requires_action"))
    await page.locator("#choose").click()
    await page.get_by_role("button", name="Purse").click()
    await page.get_by_role("button", name=re.compile("^Pay ")).wait_for()


PICTURES = (
    *(Picture(f"checkout_{state}", _state(state)) for state in STATES),
    Picture("checkout_options", _options),
    Picture("checkout_dark", _state("requires_action"), scheme="dark"),
    Picture("checkout_ar", _state("requires_action"), language="ar"),
)
