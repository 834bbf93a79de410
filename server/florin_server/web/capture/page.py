"""The form for data about a buyer, in the web view of a wallet or a browser.

It works without its script. The script tells the wallet how it ended, takes what is personal out of
the address, and keeps what was written when a connection fails; no data ever goes to a wallet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from florin_gateway.plain import PlainAnswer

from florin_server.domain.capture.buyer_data import ADDRESS_CHARS_MAX, NAME_CHARS_MAX, Fault
from florin_server.domain.errors import Code
from florin_server.domain.text import escape_unsafe_texts
from florin_server.web.capture.countries import options
from florin_server.web.language import words
from florin_server.web.notice import waiting
from florin_server.web.render import html, strict
from florin_server.web.theme import named, style

NOUN: Final = "capture"
# what a page is shown by, beside the data in it
LOOKS: Final = ("lang", "theme", "themeVariables")


@dataclass(frozen=True, slots=True)
class Input:
    """One value of the form; `kind` is text, date, country or checkbox."""

    id: str
    kind: str
    required: bool = False
    autocomplete: str = "off"
    chars_max: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Inputs that belong together, under the text of their legend; alone if it is empty."""

    legend: str
    inputs: Sequence[Input]


TERMS: Final = "tosConfirmed"
# both places are asked for, and one of them is needed
GROUPS: Final = (
    Group(
        "",
        (
            Input("fullName", "text", True, "name", NAME_CHARS_MAX),
            Input("dob", "date", True, "bday"),
        ),
    ),
    Group(
        "birth",
        (
            Input("pobCountry", "country"),
            Input("pobAddress", "text", chars_max=ADDRESS_CHARS_MAX),
        ),
    ),
    Group(
        "residence",
        (
            Input("porCountry", "country", autocomplete="country"),
            Input("porAddress", "text", False, "street-address", ADDRESS_CHARS_MAX),
        ),
    ),
    Group("", (Input(TERMS, "checkbox", True),)),
)
INPUTS: Final = {one.id: one for group in GROUPS for one in group.inputs}
# refusals that have a text of their own
_TEXTS: Final = {Code.PAYMENT_EXPIRED: "expired"}


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is shown: its language, and what the wallet chose.

    `theme` is light, dark or empty, `variables` are encoded, `frames` are the sites around it.
    """

    language: str = "en"
    theme: str = ""
    variables: str = ""
    frames: Sequence[str] = ()

    def given(self) -> Mapping[str, str]:
        """The same as parameters, for the form to hand on; those that say nothing are left out."""
        told = dict(zip(LOOKS, (self.language, self.theme, self.variables), strict=True))
        return {name: value for name, value in told.items() if value}


@dataclass(frozen=True, slots=True)
class Form:
    """What the form holds: `values` and `errors` (texts' names) by the ids of its inputs.

    An error of an empty id is about the whole.
    """

    merchant: str
    icon: str | None
    token: str
    live: bool
    days: int
    today: str
    values: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)


def form(told: Form, look: Look, status: int = 200) -> PlainAnswer:
    """The form, with what is wrong with it."""
    return _html(
        "form",
        look,
        status,
        told=told,
        groups=GROUPS,
        names=INPUTS,
        options=options,
        given=look.given(),
    )


def done(look: Look) -> PlainAnswer:
    """The page after the form was handed in; it tells the wallet to go on."""
    return _html("done", look, 200, {"type": "IC_COMPLETE", "success": True})


def failed(code: Code, why: str, look: Look, status: int) -> PlainAnswer:
    """The page of a form that is of no use; it tells the wallet so, in English."""
    message = {"type": "IC_ERROR", "success": False, "error": why}
    text = _TEXTS.get(code, "unusable")
    return _html("failed", look, status, message, title="failed", text=text)


def too_many(look: Look, wait_s: int) -> PlainAnswer:
    """The page for who asked too often; the wallet is told nothing, as it can be tried again."""
    answer = _html("failed", look, 429, title="too_many", text="too_many.next")
    return waiting(answer, wait_s)


def fault(message: str) -> str:
    """The name of the text for what is wrong with a value."""
    return next((one.name.lower() for one in Fault if one == message), "unreadable")


def _html(
    name: str,
    look: Look,
    status: int,
    message: Mapping[str, object] | None = None,
    **values: Any,
) -> PlainAnswer:
    theme = named(look.theme)
    chosen = style(look.variables, theme)
    headers = strict(" ".join(look.frames) or "'none'", chosen or None)
    return html(
        f"capture/{name}.html",
        status,
        headers,
        words=words(look.language, NOUN),
        theme=theme,
        style=chosen,
        message="" if message is None else orjson.dumps(escape_unsafe_texts(message)).decode(),
        **values,
    )
