"""Pages of a browser that show states, one after the other.

States with the same settings share a page: opening a new one takes a second of a processor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page

from tests.screenshots.fonts import alike
from tests.screenshots.page_state import PageState
from tests.screenshots.sheet import HEIGHT
from tests.support.browser import BrowserVisitor, open_visitor
from tests.support.service_harness import START_S

PATIENCE_MS = 120_000
Spoil = Callable[[Page], Awaitable[None]]


@dataclass
class StatePages:
    """A browser, and its pages by the settings of their states."""

    browser: Browser
    _stack: AsyncExitStack
    _shared: dict[tuple[object, ...], tuple[BrowserVisitor, Page]] = field(default_factory=dict)

    @asynccontextmanager
    async def open(
        self, stage: Any, state: PageState, spoil: Spoil | None = None
    ) -> AsyncIterator[Page]:
        """Open a page in a state; fail at the end if a script or the policy reported an error.

        `spoil` can change the page before it loads.
        """
        async with AsyncExitStack() as stack:
            if state.has_own_page:
                visitor, page = await _open_page(stack, self.browser, state)
            else:
                visitor, page = await self._get_shared(state)
                stack.push_async_callback(_clear, visitor, page)
            if spoil is not None:
                await spoil(page)
            await state.reach(stage, page)
            yield page
            # browsers report answers that are refusals, and lost connections
            complaints = [
                complaint
                for complaint in visitor.complaints
                if not complaint.startswith("Failed to load resource")
            ]
            visitor.complaints.clear()
            assert not complaints, complaints

    async def _get_shared(self, state: PageState) -> tuple[BrowserVisitor, Page]:
        key = (state.language, state.has_scripts, state.is_phone)
        if key not in self._shared:
            self._shared[key] = await _open_page(self._stack, self.browser, state)
        visitor, page = self._shared[key]
        width, _ = state.looks[0]
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        await page.emulate_media(color_scheme="light", reduced_motion="reduce")
        return visitor, page


async def _open_page(
    stack: AsyncExitStack, browser: Browser, state: PageState
) -> tuple[BrowserVisitor, Page]:
    context = {
        "viewport": {"width": state.looks[0][0], "height": HEIGHT},
        "locale": state.language,
        "timezone_id": "UTC",
        "reduced_motion": "reduce",
        "java_script_enabled": state.has_scripts,
        "has_touch": state.is_phone,
        "is_mobile": state.is_phone,
    }
    visitor = await stack.enter_async_context(open_visitor(browser, **context))
    page = await visitor.tab()
    page.set_default_timeout(PATIENCE_MS)
    await page.clock.set_fixed_time(START_S * 1000)
    return visitor, page


async def _clear(visitor: BrowserVisitor, page: Page) -> None:
    """Remove what a state leaves for the next one: routes, cookies, the session's storage, streams.

    The page is left, as its stage can end before the next state.
    """
    await page.unroute_all(behavior="ignoreErrors")
    await page.context.clear_cookies()
    await page.evaluate("window.origin !== 'null' && sessionStorage.clear()")
    await page.goto("about:blank")
    visitor.complaints.clear()


@asynccontextmanager
async def open_state_pages(folder: Path) -> AsyncIterator[StatePages]:
    """Yield pages of a browser that renders equally everywhere; the folder gets its fonts."""
    async with alike(folder) as browser, AsyncExitStack() as stack:
        yield StatePages(browser, stack)
