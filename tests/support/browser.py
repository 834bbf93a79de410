"""Debian's chromium, driven by Playwright, and the checks that every page must pass.

Its headless shell draws the same pages with half of the processor time. Without a browser, tests of
pages are skipped with a reason; in CI (`CI=true`) they fail instead. Root gets one installed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    async_playwright,
    expect,
)

from tests.support import npm
from tests.support.debian import find_program

_SHELL, _WHOLE = "chromium-headless-shell", "chromium"
_NPM_FOLDER = npm.BUILD.parent / "tests/support/pages_npm"
_HOME = npm.BUILD / "pages"
# no wait of a test takes this long, not even on a busy machine
_PATIENCE_MS = 60_000
expect.set_options(timeout=_PATIENCE_MS)
# WCAG 2.2 AA and axe's best practices
_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
# the violations alone: reading all results takes longer than finding them
_AUDIT = (
    "async rules => (await axe.run(document, {resultTypes: ['violations'], "
    "runOnly: {type: 'tag', values: rules}})).violations"
    ".map(({id, help, nodes}) => ({id, help, targets: nodes.map(node => node.target)}))"
)

# elements that are drawn by another: a radio button by its card, a link by its row
_FOCUS = """() => {
    const element = document.activeElement;
    const shown = element.type === "radio" ? element.closest("label")
        : element.matches("a.cover") ? element.closest("tr") : element;
    const { outlineStyle, outlineWidth } = getComputedStyle(shown);
    const box = shown.getBoundingClientRect();
    const isInView = box.width > 0 && box.bottom > 0 && box.top < innerHeight;
    const isOutlined = outlineStyle === "solid" && parseFloat(outlineWidth) >= 2;
    const label = element.labels?.[0]?.innerText ?? element.getAttribute("aria-label");
    return [label ?? element.innerText, element !== document.body && isInView && isOutlined];
}"""


@cache
def get_program() -> str:
    """Return the path of a browser: of `$CHROMIUM`, of the headless shell, or of chromium."""
    result = os.environ.get("CHROMIUM") or find_program(_SHELL) or find_program(_WHOLE)
    if result is None:
        skip_or_fail("there is no chromium here")
    assert result
    return result


def skip_or_fail(why: str) -> None:
    """Skip a test that cannot run here, or fail it in CI."""
    end = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    end(f"NOT TESTED in a browser: {why}")


def get_axe_script() -> str:
    """Return the axe script, which finds accessibility violations."""
    if (fault := npm.install(_NPM_FOLDER, _HOME)) is not None:
        skip_or_fail(fault)
    return (_HOME / "node_modules/axe-core/axe.min.js").read_text()


def find_typescript() -> Sequence[str] | str:
    """Return the command that checks the types of scripts, or the reason why it is missing."""
    if (fault := npm.install(_NPM_FOLDER, _HOME)) is not None:
        return fault
    return ("node", str(_HOME / "node_modules/typescript/bin/tsc"))


@asynccontextmanager
async def launch_browser(
    *options: str, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Browser]:
    """Launch a browser with its own options; this takes half a second, so modules share one."""
    # tests are root in containers, where /dev/shm is small
    args = ["--no-sandbox", "--disable-dev-shm-usage", *options]
    env: dict[str, str | float | bool] = {**os.environ, **(variables or {})}
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=get_program(), args=args, env=env)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class BrowserVisitor:
    """A visitor with a browser context of their own, and the errors of its pages."""

    context: BrowserContext
    complaints: list[str] = field(default_factory=list)

    async def open(self, url: str) -> Page:
        """Open a page in a new tab and record its errors."""
        page = await self.tab()
        await page.goto(url)
        return page

    async def tab(self) -> Page:
        """Open an empty tab."""
        page = await self.context.new_page()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        return page

    def _console(self, message: ConsoleMessage) -> None:
        # violations of a page's policy are reported here too
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)


@asynccontextmanager
async def open_visitor(browser: Browser, **context: Any) -> AsyncIterator[BrowserVisitor]:
    """Open a visitor; fail at the end if a page reported an error."""
    opened = await browser.new_context(**context)
    opened.set_default_timeout(_PATIENCE_MS)
    try:
        person = BrowserVisitor(opened)
        yield person
        assert not person.complaints, person.complaints
    finally:
        await opened.close()


async def list_violations(page: Page) -> list[str]:
    """Return axe's findings in the page as displayed, each with its location."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(get_axe_script())
    return [
        f"{violation['id']}: {violation['help']} ({', '.join(map(str, violation['targets']))})"
        for violation in await page.evaluate(_AUDIT, list(_RULES))
    ]


async def read_visible_focus(page: Page) -> str:
    """Return the text or label of the focused element; fail if its focus cannot be seen."""
    name, is_visible = await page.evaluate(_FOCUS)
    assert is_visible, f"the focus of {name!r} is not visible"
    return " ".join(name.split())
