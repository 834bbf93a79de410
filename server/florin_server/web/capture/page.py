"""The form for buyer data, in the web view of a wallet or a browser.

It works without its script. The script reports the result to the wallet, removes personal data from
the address, and keeps the entries when a connection fails. Buyer data never goes to a wallet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.capture.buyer_data import (
    ADDRESS_CHARS_MAX,
    NAME_CHARS_MAX,
    BuyerDataFault,
)
from florin_server.domain.errors import ErrorCode
from florin_server.domain.text import escape_unsafe_texts
from florin_server.web.capture.countries import render_country_options
from florin_server.web.language import get_translations
from florin_server.web.notice import add_retry_after
from florin_server.web.render import build_security_headers, render_page
from florin_server.web.theme import build_style, normalize_theme

NOUN: Final = "capture"
# the query parameters that change the appearance of a page
APPEARANCE_PARAMETERS: Final = ("lang", "theme", "themeVariables")


@dataclass(frozen=True, slots=True)
class FormInput:
    """An input of the form; `kind` is text, date, country or checkbox."""

    id: str
    kind: str
    required: bool = False
    autocomplete: str = "off"
    chars_max: int = 0


@dataclass(frozen=True, slots=True)
class InputGroup:
    """Inputs under a common legend; `legend` is empty for inputs without one."""

    legend: str
    inputs: Sequence[FormInput]


TERMS: Final = "tosConfirmed"
# the form has both places, and the buyer must fill in one
GROUPS: Final = (
    InputGroup(
        "",
        (
            FormInput("fullName", "text", True, "name", NAME_CHARS_MAX),
            FormInput("dob", "date", True, "bday"),
        ),
    ),
    InputGroup(
        "birth",
        (
            FormInput("pobCountry", "country"),
            FormInput("pobAddress", "text", chars_max=ADDRESS_CHARS_MAX),
        ),
    ),
    InputGroup(
        "residence",
        (
            FormInput("porCountry", "country", autocomplete="country"),
            FormInput("porAddress", "text", False, "street-address", ADDRESS_CHARS_MAX),
        ),
    ),
    InputGroup("", (FormInput(TERMS, "checkbox", True),)),
)
INPUTS: Final = {form_input.id: form_input for group in GROUPS for form_input in group.inputs}
# as the settings count them
_DAYS_PER_YEAR: Final = 365
# errors that have their own text
_TEXTS: Final = {ErrorCode.PAYMENT_EXPIRED: "expired"}


@dataclass(frozen=True, slots=True)
class PageAppearance:
    """The appearance of a page: its language, and the wallet's choices.

    `theme` is light, dark or empty, `variables` are encoded, `frames` are the sites that can embed
    the page.
    """

    language: str = "en"
    theme: str = ""
    variables: str = ""
    frames: Sequence[str] = ()

    def to_parameters(self) -> Mapping[str, str]:
        """Return the appearance as parameters for the form; empty ones are left out."""
        report = dict(
            zip(APPEARANCE_PARAMETERS, (self.language, self.theme, self.variables), strict=True)
        )
        return {name: value for name, value in report.items() if value}


@dataclass(frozen=True, slots=True)
class CaptureFormView:
    """The content of the form: `values` and `errors` (message keys) by the ids of its inputs.

    An error with an empty id concerns the whole form.
    """

    merchant: str
    icon: str | None
    token: str
    live: bool
    days: int
    today: str
    terms_url: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)


def render_form(
    view: CaptureFormView, appearance: PageAppearance, status: int = 200
) -> PlainResponse:
    """Return the form, with its errors."""
    return _render(
        "form",
        appearance,
        status,
        view=view,
        groups=GROUPS,
        names=INPUTS,
        options=render_country_options,
        retention=_describe_retention(view.days, appearance.language),
        appearance_parameters=appearance.to_parameters(),
    )


def _describe_retention(days: int, language: str) -> str:
    """Return when the data is deleted: in years if they are whole ones, else in days."""
    years, rest = divmod(days, _DAYS_PER_YEAR)
    translations = get_translations(language, NOUN)
    return translations.count("kept", days) if rest else translations.count("kept_years", years)


def render_done(appearance: PageAppearance) -> PlainResponse:
    """Return the page after the form was sent; it signals success to the wallet."""
    return _render("done", appearance, 200, {"type": "IC_COMPLETE", "success": True})


def render_failure(
    code: ErrorCode, reason: str, appearance: PageAppearance, status: int
) -> PlainResponse:
    """Return the page of an unusable form; it reports the reason to the wallet in English."""
    message = {"type": "IC_ERROR", "success": False, "error": reason}
    text = _TEXTS.get(code, "unusable")
    return _render("failed", appearance, status, message, title="failed", text=text)


def render_rate_limit(appearance: PageAppearance, wait_s: int) -> PlainResponse:
    """Return the page of a rate limit; the wallet gets no message, as a retry can succeed."""
    answer = _render("failed", appearance, 429, title="too_many", text="too_many.next")
    return add_retry_after(answer, wait_s)


def to_fault_key(message: str) -> str:
    """Return the message key for the fault of a value."""
    return next((fault.name.lower() for fault in BuyerDataFault if fault == message), "unreadable")


def _render(
    name: str,
    appearance: PageAppearance,
    status: int,
    message: Mapping[str, object] | None = None,
    **values: Any,
) -> PlainResponse:
    theme = normalize_theme(appearance.theme)
    chosen = build_style(appearance.variables, theme)
    headers = build_security_headers(" ".join(appearance.frames) or "'none'", chosen or None)
    return render_page(
        f"capture/{name}.html",
        status,
        headers,
        texts=get_translations(appearance.language, NOUN),
        theme=theme,
        style=chosen,
        message="" if message is None else orjson.dumps(escape_unsafe_texts(message)).decode(),
        **values,
    )
