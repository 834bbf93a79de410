"""Somebody who uses a console without a browser: cookies, forms, and what pages say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
from yarl import URL

HOSTILE = """</script><script>alert(1)</script>"'&<b onclick='x'>{{ 7 * 7 }}"""
ENTRY = "console.localhost"
OWN = {"Sec-Fetch-Site": "same-origin"}
_HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')
_FORM = re.compile(r'<form method="post" action="([^"]+)".*?</form>', re.DOTALL)


@dataclass
class Seen:
    """An answer."""

    status: int
    headers: Any
    text: str

    @property
    def place(self) -> str:
        """Where it leads to, in the console."""
        parts = urlsplit(self.url)
        inside = (parts.hostname or "").endswith(ENTRY)
        return f"{parts.path}?{parts.query}".rstrip("?") if inside else self.url

    @property
    def url(self) -> str:
        """The same as it was told."""
        return str(self.headers.get("Location", ""))


@dataclass
class Person:
    """A visitor of the console at `base`; `cookie` is the session's, as it came.

    `host` is the name that it is at, as nothing but browsers finds names below `localhost`.
    """

    session: aiohttp.ClientSession
    base: str
    cookie: str = ""
    host: str = ENTRY
    given: list[str] = field(default_factory=list)

    async def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, data: Any = None
    ) -> Seen:
        """One request; redirects are not followed."""
        at = f"{self.host}:{urlsplit(self.base).port}"
        kept = {"Cookie": self.cookie} if self.cookie else {}
        sent = {"Host": at, **kept, **(headers or {})}
        url = URL(self.base + path, encoded=True)
        async with self.session.request(
            method, url, headers=sent, data=data, allow_redirects=False
        ) as answer:
            for told in answer.headers.getall("Set-Cookie", ()):
                self.given.append(told)
                self.cookie = told.partition(";")[0]
            return Seen(answer.status, answer.headers, await answer.text())

    async def get(self, path: str) -> Seen:
        return await self.ask("GET", path)

    async def sign_in(self, secret: str, back: str = "/console") -> Seen:
        """Signs in, and goes where that leads."""
        told = await self.entered(secret, back)
        return await self.follow(told) if told.status == 303 else told

    async def entered(self, secret: str, back: str = "/console") -> Seen:
        """Sends the form of the sign-in, and goes nowhere."""
        self.host = ENTRY
        return await self.send("/console/login", {"secret": secret, "back": back})

    async def follow(self, told: Seen) -> Seen:
        """Goes where an answer leads to, at the host that it names."""
        parts = urlsplit(told.url)
        self.host = parts.hostname or self.host
        return await self.ask("GET", told.place, {"Sec-Fetch-Site": "same-site"})

    async def send(self, path: str, values: Any, headers: dict[str, str] | None = None) -> Seen:
        """A form of this site."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        given = OWN if headers is None else headers
        return await self.ask("POST", path, {**kind, **given}, urlencode(values, doseq=True))

    async def fill(self, page: str, action: str, **values: Any) -> Seen:
        """Sends the form of a page that leads to `action`, with what is hidden in it."""
        return await self.send(action, {**await self.hidden(page, action), **values})

    async def hidden(self, page: str, action: str) -> dict[str, str]:
        """What the form of a page brings by itself."""
        return self.shown(await self.get(page), action)

    @staticmethod
    def shown(page: Seen, action: str) -> dict[str, str]:
        """The same of a page that came."""
        for found in _FORM.finditer(page.text):
            if unescape(found[1]) == action:
                return {name: unescape(value) for name, value in _HIDDEN.findall(found[0])}
        raise AssertionError(f"no form leads to {action}")
