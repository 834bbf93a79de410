"""Console user without a browser: cookies, forms, and the texts of pages."""

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
_TYPED = re.compile(r'<label for="typed">[^<]*<bdi>([^<]*)</bdi>')
_FORM = re.compile(r'<form method="post" action="([^"]+)".*?</form>', re.DOTALL)


@dataclass
class ConsoleResponse:
    """An answer of the console."""

    status: int
    headers: Any
    text: str

    @property
    def location(self) -> str:
        """Return the path in the console that the answer redirects to."""
        parts = urlsplit(self.url)
        inside = (parts.hostname or "").endswith(ENTRY)
        return f"{parts.path}?{parts.query}".rstrip("?") if inside else self.url

    @property
    def page(self) -> str:
        """Return the path that the answer redirects to, without an offer to undo the action."""
        return self.location.partition("?undo=")[0]

    @property
    def url(self) -> str:
        """Return the redirect's address as it was sent."""
        return str(self.headers.get("Location", ""))


@dataclass
class ConsoleUser:
    """A visitor of the console at `base`; `cookie` is the session's, as it came.

    `language_cookie` is the one of a chosen language.
    `host` is the name that it is at, because only browsers resolve names below `localhost`.
    """

    session: aiohttp.ClientSession
    base: str
    cookie: str = ""
    language_cookie: str = ""
    host: str = ENTRY
    cookies_received: list[str] = field(default_factory=list)

    async def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, data: Any = None
    ) -> ConsoleResponse:
        """Send one request; redirects are not followed."""
        at = f"{self.host}:{urlsplit(self.base).port}"
        cookies = "; ".join(filter(None, (self.cookie, self.language_cookie)))
        stored = {"Cookie": cookies} if cookies else {}
        sent = {"Host": at, **stored, **(headers or {})}
        url = URL(self.base + path, encoded=True)
        async with self.session.request(
            method, url, headers=sent, data=data, allow_redirects=False
        ) as answer:
            for output in answer.headers.getall("Set-Cookie", ()):
                self.cookies_received.append(output)
                cookie = output.partition(";")[0]
                if cookie.startswith("florin_language="):
                    self.language_cookie = cookie
                else:
                    self.cookie = cookie
            return ConsoleResponse(answer.status, answer.headers, await answer.text())

    async def get(self, path: str) -> ConsoleResponse:
        return await self.ask("GET", path)

    async def sign_in(self, secret: str, back: str = "/console") -> ConsoleResponse:
        """Sign in, and follow the redirect."""
        response = await self.submit_sign_in(secret, back)
        return await self.follow(response) if response.status == 303 else response

    async def submit_sign_in(self, secret: str, back: str = "/console") -> ConsoleResponse:
        """Send the sign-in form without following the redirect."""
        self.host = ENTRY
        return await self.send("/console/login", {"secret": secret, "back": back})

    async def follow(self, response: ConsoleResponse) -> ConsoleResponse:
        """Follow an answer's redirect, at the host that it names."""
        parts = urlsplit(response.url)
        self.host = parts.hostname or self.host
        return await self.ask("GET", response.location, {"Sec-Fetch-Site": "same-site"})

    async def send(
        self, path: str, values: Any, headers: dict[str, str] | None = None
    ) -> ConsoleResponse:
        """Send a form of this site."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        given_values = OWN if headers is None else headers
        return await self.ask("POST", path, {**kind, **given_values}, urlencode(values, doseq=True))

    async def fill(self, page: str, action: str, **values: Any) -> ConsoleResponse:
        """Send the form of a page that leads to `action`, with its hidden fields."""
        return await self.send(action, {**await self.hidden(page, action), **values})

    async def act(self, page: str, action: str, **values: Any) -> ConsoleResponse:
        """Send a form of a page, and confirm it if the console asks."""
        return await self.confirm(action, await self.fill(page, action, **values))

    async def confirm(self, action: str, prompt: ConsoleResponse, **typed: str) -> ConsoleResponse:
        """Send the form of a confirming page; an answer that asks nothing is returned."""
        if 'name="confirmed"' not in prompt.text:
            return prompt
        name = _TYPED.search(prompt.text)
        typed_values = {"typed_name": unescape(name[1])} if name else {}
        hidden = self.list_hidden_fields(prompt, action)
        return await self.send(action, {**hidden, **typed_values, **typed})

    async def hidden(self, page: str, action: str) -> dict[str, str]:
        """Return the hidden fields of a page's form."""
        return self.list_hidden_fields(await self.get(page), action)

    @staticmethod
    def list_hidden_fields(page: ConsoleResponse, action: str) -> dict[str, str]:
        """Return the hidden fields of a form in a page that was fetched."""
        for match in _FORM.finditer(page.text):
            if unescape(match[1]) == action:
                return {name: unescape(value) for name, value in _HIDDEN.findall(match[0])}
        raise AssertionError(f"no form leads to {action}")
