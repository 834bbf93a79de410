"""Routes of the form for buyer data: the page and its submission.

Programs send JSON and receive JSON. The page sends a form and receives a page, so that it works
without its script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from grpc_rest_gateway import jsonscan
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.parameters import parse_query
from grpc_rest_gateway.plain import PlainHandler, PlainRequest, PlainResponse

from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.domain.capture.buyer_data import BuyerDataFault, parse_prefill
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.features.buyer_forms import service as forms
from florin_server.features.icons.context import IconContext
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext
from florin_server.web import theme
from florin_server.web.capture import page
from florin_server.web.forms import FORM_BYTES_MAX, FORM_TYPE, get_media_type, is_same_site_form
from florin_server.web.language import LANGUAGES, PARAMETER, negotiate_language
from florin_server.web.refusal import to_refused_error


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    IconContext,
    LimitContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


PATH = "/collect"
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class _FormSubmission:
    """A submission of the form.

    `wants_page` expects a page as the answer, with the appearance `appearance`. With
    `is_language_change` the form is not submitted yet, but shown again in another language.
    """

    token: str
    data: Any
    wants_page: bool
    appearance: page.PageAppearance
    is_language_change: bool = False


def build_routes(app: _Context) -> Mapping[str, PlainHandler]:
    """Return the handlers by method."""

    async def show(request: PlainRequest) -> PlainResponse:
        query = dict(request.query)
        look = _parse_appearance(app, request, query)
        if wait_s := app.limits.count_page(request.peer):
            return page.render_rate_limit(look, wait_s)
        token = query.get("t", "")
        try:
            form = await forms.get_form(app, query.get("pid", ""), token)
        except ApiError as refused:
            return _render_closed(app, request, refused, look)
        if form.is_submitted:
            return page.render_done(look)
        prefill = parse_prefill(query.get("prefill", ""))
        return page.render_form(await _build_view(app, form, token, prefill), look)

    async def take(request: PlainRequest) -> PlainResponse:
        if wait_s := app.limits.count_page(request.peer):
            if _wants_page(request):
                return page.render_rate_limit(_parse_appearance(app, request, {}), wait_s)
            raise to_refused_error(ApiError(ErrorCode.RATE_LIMITED, retry_after_s=wait_s))
        sent: _FormSubmission | None = None
        try:
            _check_origin(app, request)
            sent = _parse_submission(app, request)
            if sent.is_language_change:
                return await _render_filled_form(app, sent)
            await forms.submit(app, sent.token, sent.data, peer=request.peer)
        except ApiError as refused:
            if sent is not None and sent.wants_page:
                return await _render_faults(app, request, sent, refused)
            _count_failed_attempt(app, request, refused)
            raise to_refused_error(refused) from refused
        return (
            page.render_done(sent.appearance)
            if sent.wants_page
            else PlainResponse.from_json({"status": "success"})
        )

    return {"GET": show, "HEAD": show, "POST": take}


def _parse_appearance(
    app: SettingsContext, request: PlainRequest, parameters: Mapping[str, str]
) -> page.PageAppearance:
    language = parameters.get(PARAMETER, "")
    return page.PageAppearance(
        language if language in LANGUAGES else negotiate_language(request),
        parameters.get(theme.PARAMETER, ""),
        parameters.get(theme.VARIABLES_PARAMETER, "")[: theme.VARIABLES_CHARS_MAX + 1],
        app.settings.capture.frame_origins,
    )


async def _render_filled_form(app: _Context, submission: _FormSubmission) -> PlainResponse:
    """Return the form with the entries so far."""
    form = await forms.get_form(app, None, submission.token)
    if form.is_submitted:
        return page.render_done(submission.appearance)
    return page.render_form(
        await _build_view(app, form, submission.token, submission.data), submission.appearance
    )


async def _render_faults(
    app: _Context, request: PlainRequest, submission: _FormSubmission, error: ApiError
) -> PlainResponse:
    """Return the form with its errors, or the page of an unusable form."""
    if error.code is not ErrorCode.PARAMS_VALIDATION:
        return _render_closed(app, request, error, submission.appearance)
    try:
        form = await forms.get_form(app, None, submission.token)
    except ApiError as closed:
        return _render_closed(app, request, closed, submission.appearance)
    errors = _list_faults(error)
    filled = await _build_view(app, form, submission.token, submission.data, errors)
    return page.render_form(filled, submission.appearance, error.http_status)


def _list_faults(error: ApiError) -> Mapping[str, str]:
    """Return the message keys of the errors by field, in the order of the form."""
    faults: dict[str, str] = {}
    for issue in error.issues:
        faults.setdefault(issue.field.removeprefix("data."), page.to_fault_key(issue.message))
    if page.TERMS in faults:
        # browsers do not send an unchecked box
        faults[page.TERMS] = BuyerDataFault.CONFIRM.name.lower()
    placed = {name: faults.pop(name) for name in page.INPUTS if name in faults}
    return {**placed, **faults}


async def _build_view(
    app: _Context,
    form: forms.BuyerForm,
    token: str,
    values: Any,
    errors: Mapping[str, str] | None = None,
) -> page.CaptureFormView:
    entered_values = values if isinstance(values, dict) else {}
    today = datetime.fromtimestamp(app.clock.now_us() // 1_000_000, UTC).date()
    return page.CaptureFormView(
        merchant=form.merchant.name,
        icon=await app.icons.find_path(form.merchant.icon_url, form.merchant.partner_id),
        token=token,
        live=form.payment.live,
        days=app.settings.capture.retention_days,
        today=today.isoformat(),
        terms_url=app.settings.capture.terms_url or "",
        values={
            name: entered_values[name]
            for name in page.INPUTS
            if isinstance(entered_values.get(name), str)
        },
        errors=errors or {},
    )


def _render_closed(
    app: LimitContext, request: PlainRequest, error: ApiError, appearance: page.PageAppearance
) -> PlainResponse:
    _count_failed_attempt(app, request, error)
    if error.code is ErrorCode.RATE_LIMITED:
        return page.render_rate_limit(appearance, error.retry_after_s or 1)
    return page.render_failure(error.code, error.message, appearance, error.http_status)


def _count_failed_attempt(app: LimitContext, request: PlainRequest, error: ApiError) -> None:
    """Count a wrong token as a failed authentication."""
    if error.code is ErrorCode.UNAUTHORIZED:
        try:
            app.limits.count_failure(request.peer)
        except ApiError as over:
            raise to_refused_error(over) from over


def _check_origin(app: SettingsContext, request: PlainRequest) -> None:
    """Refuse a form of another site; ApiError(unauthorized).

    Wallets' own programs name no site; the token of the form authenticates them.
    """
    if is_same_site_form(request, app.links.hosts) is False:
        raise ApiError(ErrorCode.UNAUTHORIZED, "Another site sent this form")


def _parse_submission(app: SettingsContext, request: PlainRequest) -> _FormSubmission:
    """Return the submission in either format; RefusedError or ApiError(params_validation)."""
    if len(request.body) > FORM_BYTES_MAX:
        raise RefusedError(413, ErrorCode.INVALID_PARAMS, "The body is too large")
    kind = get_media_type(request) or _JSON
    if kind == FORM_TYPE:
        return _parse_form_submission(app, request)
    if kind != _JSON:
        raise RefusedError(415, ErrorCode.INVALID_PARAMS, "Content-Type is neither JSON nor a form")
    try:
        body = jsonscan.parse_json(request.body)
    except jsonscan.StrictJsonError as error:
        raise ApiError(ErrorCode.PARAMS_VALIDATION, f"Validation error: the body {error}") from None
    if not isinstance(body, dict):
        raise ApiError(ErrorCode.PARAMS_VALIDATION, "Validation error: the body must be an object")
    token = body.get("token")
    if not isinstance(token, str):
        raise validation_error("token", "must be a string")
    if body.get("data") is None:
        raise validation_error("data", "is required")
    return _FormSubmission(token, body["data"], False, _parse_appearance(app, request, {}))


def _parse_form_submission(app: SettingsContext, request: PlainRequest) -> _FormSubmission:
    fields = dict(_parse_pairs(request.body))
    token, speak = fields.pop("token", ""), fields.pop("speak", "")
    chosen = {name: fields.pop(name, "") for name in page.APPEARANCE_PARAMETERS}
    if speak:
        chosen[PARAMETER] = speak
    data: Any = {
        name: _normalize_value(name, text) for name, text in fields.items() if name != "data"
    }
    if "data" in fields:
        try:
            data = jsonscan.parse_json(fields["data"].encode())
        except jsonscan.StrictJsonError as error:
            raise validation_error("data", str(error)) from None
    browser = _wants_page(request)
    return _FormSubmission(
        token, data, browser, _parse_appearance(app, request, chosen), browser and bool(speak)
    )


def _wants_page(request: PlainRequest) -> bool:
    return "text/html" in request.get_header(b"accept")


def _parse_pairs(body: bytes) -> Sequence[tuple[str, str]]:
    try:
        return parse_query(body)
    except RefusedError:
        raise ApiError(
            ErrorCode.PARAMS_VALIDATION, "Validation error: the body is not percent-encoded UTF-8"
        ) from None


def _normalize_value(name: str, text: str) -> str:
    """Return a value without surrounding white space, and country codes in capitals."""
    text = text.strip()
    return text.upper() if name.endswith("Country") else text
