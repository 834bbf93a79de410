"""The form for data about a buyer as routes of the gateway: the page, and what is handed in.

Programs hand in JSON and are answered with it; the page hands in a form and is answered with a
page, so that it works without its script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from florin_gateway import jsonscan
from florin_gateway.errors import RefusedError
from florin_gateway.parameters import parse_query
from florin_gateway.plain import PlainAnswer, PlainHandler, PlainRequest

from florin_server.domain.capture.buyer_data import Fault, prefill
from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.flows.app import App
from florin_server.flows.capture import forms
from florin_server.web.capture import page
from florin_server.web.language import LANGUAGES, spoken
from florin_server.web.origin import is_own_form
from florin_server.web.refusal import refusal
from florin_server.web.theme import VARIABLES_CHARS_MAX

PATH = "/collect"
# a name and two places fit hundreds of times; what a wallet may send to the gateway calls
_BODY_BYTES_MAX = 64 * 1024
_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class _Sent:
    """What was handed in.

    `browser` wants a page as an answer, `look` is how that is shown; `speak` tells that the form is
    not handed in yet: it is wanted in another language.
    """

    token: str
    data: Any
    browser: bool
    look: page.Look
    speak: bool = False


def routes(app: App) -> Mapping[str, PlainHandler]:
    """The handlers by method."""

    async def show(request: PlainRequest) -> PlainAnswer:
        asked = dict(request.query)
        look = _look(app, request, asked)
        if wait_s := app.limits.page(request.peer):
            return page.too_many(look, wait_s)
        token = asked.get("t", "")
        try:
            form = await forms.form(app, asked.get("pid", ""), token)
        except FlorinError as refused:
            return _closed(app, request, refused, look)
        if form.done:
            return page.done(look)
        known = prefill(asked.get("prefill", ""))
        return page.form(await _filled(app, form, token, known), look)

    async def take(request: PlainRequest) -> PlainAnswer:
        if wait_s := app.limits.page(request.peer):
            if _wants_page(request):
                return page.too_many(_look(app, request, {}), wait_s)
            raise refusal(FlorinError(Code.RATE_LIMITED, retry_after_s=wait_s))
        sent: _Sent | None = None
        try:
            _check_site(app, request)
            sent = _read(app, request)
            if sent.speak:
                return await _shown(app, sent)
            await forms.hand_in(app, sent.token, sent.data, peer=request.peer)
        except FlorinError as refused:
            if sent is not None and sent.browser:
                return await _again(app, request, sent, refused)
            _count(app, request, refused)
            raise refusal(refused) from refused
        return page.done(sent.look) if sent.browser else PlainAnswer.json({"status": "success"})

    return {"GET": show, "HEAD": show, "POST": take}


def _look(app: App, request: PlainRequest, asked: Mapping[str, str]) -> page.Look:
    language = asked.get("lang", "")
    return page.Look(
        language if language in LANGUAGES else spoken(request),
        asked.get("theme", ""),
        asked.get("themeVariables", "")[: VARIABLES_CHARS_MAX + 1],
        app.settings.capture.frame_origins,
    )


async def _shown(app: App, sent: _Sent) -> PlainAnswer:
    """The form as far as it is filled in."""
    form = await forms.form(app, None, sent.token)
    if form.done:
        return page.done(sent.look)
    return page.form(await _filled(app, form, sent.token, sent.data), sent.look)


async def _again(app: App, request: PlainRequest, sent: _Sent, refused: FlorinError) -> PlainAnswer:
    """The form once more with its faults, or why it is of no use."""
    if refused.code is not Code.PARAMS_VALIDATION:
        return _closed(app, request, refused, sent.look)
    try:
        form = await forms.form(app, None, sent.token)
    except FlorinError as closed:
        return _closed(app, request, closed, sent.look)
    errors = _faults(refused)
    filled = await _filled(app, form, sent.token, sent.data, errors)
    return page.form(filled, sent.look, refused.http)


def _faults(refused: FlorinError) -> Mapping[str, str]:
    """The names of the texts for what is wrong, by field, in the order of the form."""
    found: dict[str, str] = {}
    for issue in refused.issues:
        found.setdefault(issue.field.removeprefix("data."), page.fault(issue.message))
    if page.TERMS in found:
        # a box that is not ticked is not sent
        found[page.TERMS] = Fault.CONFIRM.name.lower()
    placed = {name: found.pop(name) for name in page.INPUTS if name in found}
    return {**placed, **found}


async def _filled(
    app: App, form: forms.Form, token: str, values: Any, errors: Mapping[str, str] | None = None
) -> page.Form:
    known = values if isinstance(values, dict) else {}
    today = datetime.fromtimestamp(app.clock.now_us() // 1_000_000, UTC).date()
    return page.Form(
        merchant=form.merchant.name,
        icon=await app.icons.address(form.merchant.icon_url, form.merchant.partner_id),
        token=token,
        live=form.payment.live,
        days=app.settings.capture.retention_days,
        today=today.isoformat(),
        values={name: known[name] for name in page.INPUTS if isinstance(known.get(name), str)},
        errors=errors or {},
    )


def _closed(app: App, request: PlainRequest, refused: FlorinError, look: page.Look) -> PlainAnswer:
    _count(app, request, refused)
    if refused.code is Code.RATE_LIMITED:
        return page.too_many(look, refused.retry_after_s or 1)
    return page.failed(refused.code, refused.message, look, refused.http)


def _count(app: App, request: PlainRequest, refused: FlorinError) -> None:
    """Guessing tokens is a failed authentication like any other."""
    if refused.code is Code.UNAUTHORIZED:
        try:
            app.limits.failed(request.peer)
        except FlorinError as over:
            raise refusal(over) from over


def _check_site(app: App, request: PlainRequest) -> None:
    """Refuse what another site sent; FlorinError(unauthorized).

    Wallets' own programs say nothing of a site; the token of the form is their proof.
    """
    if is_own_form(request, app.links.hosts) is False:
        raise FlorinError(Code.UNAUTHORIZED, "This form was sent by another site")


def _read(app: App, request: PlainRequest) -> _Sent:
    """What was sent, in either form; RefusedError or FlorinError(params_validation)."""
    if len(request.body) > _BODY_BYTES_MAX:
        raise RefusedError(413, Code.INVALID_PARAMS, "The body is too large")
    kind = request.header(b"content-type").partition(";")[0].strip().lower() or _JSON
    if kind == _FORM:
        return _read_form(app, request)
    if kind != _JSON:
        raise RefusedError(415, Code.INVALID_PARAMS, "Content-Type is neither JSON nor a form")
    try:
        body = jsonscan.parse(request.body)
    except jsonscan.JsonError as error:
        raise FlorinError(Code.PARAMS_VALIDATION, f"Validation error: the body {error}") from None
    if not isinstance(body, dict):
        raise FlorinError(Code.PARAMS_VALIDATION, "Validation error: the body must be an object")
    token = body.get("token")
    if not isinstance(token, str):
        raise invalid("token", "must be a string")
    if body.get("data") is None:
        raise invalid("data", "is required")
    return _Sent(token, body["data"], False, _look(app, request, {}))


def _read_form(app: App, request: PlainRequest) -> _Sent:
    given = dict(_pairs(request.body))
    token, speak = given.pop("token", ""), given.pop("speak", "")
    chosen = {name: given.pop(name, "") for name in page.LOOKS}
    if speak:
        chosen["lang"] = speak
    data: Any = {name: _tidied(name, text) for name, text in given.items() if name != "data"}
    if "data" in given:
        try:
            data = jsonscan.parse(given["data"].encode())
        except jsonscan.JsonError as error:
            raise invalid("data", str(error)) from None
    browser = _wants_page(request)
    return _Sent(token, data, browser, _look(app, request, chosen), browser and bool(speak))


def _wants_page(request: PlainRequest) -> bool:
    return "text/html" in request.header(b"accept")


def _pairs(body: bytes) -> Sequence[tuple[str, str]]:
    try:
        return parse_query(body)
    except RefusedError:
        raise FlorinError(
            Code.PARAMS_VALIDATION, "Validation error: the body is not percent-encoded UTF-8"
        ) from None


def _tidied(name: str, text: str) -> str:
    """What people write by hand, without the blanks around it; countries in capitals."""
    text = text.strip()
    return text.upper() if name.endswith("Country") else text
