"""Debian's chromium, driven by Playwright, and what every page is held to in it.

Without it tests of pages are skipped, and say so; in CI (`CI=true`) they fail instead. Root gets it
installed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright

from tests.support import npm

_WANTED = npm.BUILD.parent / "tests/support/pages_npm"
_HOME = npm.BUILD / "pages"
_INSTALL_S = 240
# WCAG 2.2 AA and what axe calls best practice
_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_AUDIT = "rules => axe.run(document, {runOnly: {type: 'tag', values: rules}})"


def program() -> str:
    """Where chromium is."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or _installed()
    if found is None:
        missing("there is no chromium here")
    assert found
    return found


def missing(why: str) -> None:
    """Ends a test that cannot be made here."""
    end = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    end(f"NOT TESTED in a browser: {why}")


def _installed() -> str | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    npm.BUILD.mkdir(parents=True, exist_ok=True)
    with (npm.BUILD / "chromium.lock").open("w") as lock:
        # processes that start together install it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        for step in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            if (found := shutil.which("chromium")) is not None:
                return found
            env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(
                ["apt-get", *step], env=env, capture_output=True, timeout=_INSTALL_S, check=False
            )
    return shutil.which("chromium")


def axe() -> str:
    """The program that finds what people with impairments cannot use."""
    if (fault := npm.install(_WANTED, _HOME)) is not None:
        missing(fault)
    return (_HOME / "node_modules/axe-core/axe.min.js").read_text()


def typescript() -> Sequence[str] | str:
    """The command that checks the types of scripts; why there is none."""
    if (fault := npm.install(_WANTED, _HOME)) is not None:
        return fault
    return ("node", str(_HOME / "node_modules/typescript/bin/tsc"))


@asynccontextmanager
async def launched(
    *options: str, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Browser]:
    """A browser, with options of its own; half a second to start, so that modules share one."""
    # tests are root in containers, where /dev/shm is small
    args = ["--no-sandbox", "--disable-dev-shm-usage", *options]
    env: dict[str, str | float | bool] = {**os.environ, **(variables or {})}
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program(), args=args, env=env)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Visitor:
    """A person with a browser of their own, and what went wrong in it."""

    context: BrowserContext
    complaints: list[str] = field(default_factory=list)

    async def open(self, url: str) -> Page:
        """A page in a new tab; what it complains of is noted."""
        page = await self.tab()
        await page.goto(url)
        return page

    async def tab(self) -> Page:
        """An empty tab."""
        page = await self.context.new_page()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        return page

    def _console(self, message: ConsoleMessage) -> None:
        # breaches of a page's policy are told here too
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)


@asynccontextmanager
async def visitor(browser: Browser, **context: Any) -> AsyncIterator[Visitor]:
    """A visitor, who must have had nothing to complain of at the end."""
    opened = await browser.new_context(**context)
    # no answer that a test waits for takes this long, not on a busy machine either
    opened.set_default_timeout(20_000)
    try:
        person = Visitor(opened)
        yield person
        assert not person.complaints, person.complaints
    finally:
        await opened.close()


async def violations(page: Page) -> list[str]:
    """What axe finds in a page as it is shown, told with where it is."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(axe())
    found = await page.evaluate(_AUDIT, list(_RULES))
    return [
        f"{one['id']}: {one['help']} ({', '.join(str(node['target']) for node in one['nodes'])})"
        for one in found["violations"]
    ]
