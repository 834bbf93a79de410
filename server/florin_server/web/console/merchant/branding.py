"""The look of a merchant's checkout page: name, logo, color and contact, with a preview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import quote

from florin.v1 import account_pb2
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainResponse

from florin_server.accounts.store import keys
from florin_server.domain.accounts.contact import SupportContact, list_accent_issues, list_issues
from florin_server.domain.errors import FieldIssue, validation_error_for
from florin_server.domain.money import CURRENCIES, format_minor_units
from florin_server.features.icons.service import format_path
from florin_server.money.payments.service.conversion import list_accepted_currencies
from florin_server.web.console.refusals import ConsoleError, describe_refusal
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.language import get_translations
from florin_server.web.payments.accent import adjust_accent, build_accent_style
from florin_server.web.refusal import to_refused_error
from florin_server.web.render import allow_style

PATH: Final = "/console/merchants/{merchant_id}/branding"
PREVIEW_PATH: Final = f"{PATH}/preview"
# fields of the form, which are those of the record; "branding." and the name is their label's key
FIELDS: Final = ("name", "icon_url", "accent", "support_email", "support_url")
_NAME_CHARS: Final = 256
_MANAGE: Final = "manage"
_SAMPLE_MINOR_UNITS: Final = 4860
_SCOPE: Final = ".brand-preview"


class LogoState(StrEnum):
    """The state of a logo."""

    NONE = "none"
    OFF = "off"
    WAITING = "waiting"
    SHOWN = "shown"
    FAULTY = "faulty"


@dataclass(frozen=True, slots=True)
class LogoPreview:
    """A logo: `path` is where this host shows it, `fault` why it cannot be used."""

    state: LogoState
    path: str | None = None
    fault: str = ""


class BrandingChange(NamedTuple):
    """A saved change, for the reader."""

    label: str
    before: str
    after: str


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show the form with the present look."""
    record = await _get_record(console_request)
    return await _render(console_request, record, _get_values(record))


async def preview(console_request: ConsoleRequest) -> PlainResponse:
    """Show the form with the look in it; nothing is saved."""
    record = await _get_record(console_request)
    values = _read_values(console_request)
    issues = _list_issues(values)
    if issues:
        refused = to_refused_error(validation_error_for(issues))
        return await _render(console_request, record, values, error=refused)
    return await _render(console_request, record, values)


async def save(console_request: ConsoleRequest) -> PlainResponse:
    """Save the look, and show what changed."""
    record = await _get_record(console_request)
    values, before = _read_values(console_request), _get_values(record)
    changed = [name for name in FIELDS if values[name] != before[name]]
    if not changed:
        return await _render(console_request, record, values, is_saved=True)
    request = account_pb2.UpdateMerchantRequest(merchant_id=record.id)
    for name in changed:
        setattr(request, "merchant_name" if name == "name" else name, values[name])
    try:
        response = await console_request.call(
            "AdminService.UpdateMerchant", request, key=console_request.form.text("form")
        )
    except RefusedError as refused:
        if refused.status in {401, 403}:
            raise
        return await _render(console_request, record, values, error=refused)
    after = _get_values(response.merchant)
    changes = [
        BrandingChange(console_request.texts.plain(f"branding.{name}"), before[name], after[name])
        for name in changed
    ]
    return await _render(console_request, response.merchant, after, changes=changes, is_saved=True)


async def _get_record(console_request: ConsoleRequest) -> account_pb2.MerchantRecord:
    """Return the merchant; RefusedError unless it is one of the key's partner and mode."""
    request = account_pb2.GetMerchantRequest(
        merchant_id=console_request.get_path_variable("merchant_id")
    )
    response = await console_request.call("AdminService.GetMerchant", request)
    record: account_pb2.MerchantRecord = response.merchant.merchant
    return record


def _get_values(record: account_pb2.MerchantRecord) -> dict[str, str]:
    return {name: getattr(record, name) for name in FIELDS}


def _read_values(console_request: ConsoleRequest) -> dict[str, str]:
    return {name: console_request.form.text(name).strip() for name in FIELDS}


def _list_issues(values: Mapping[str, str]) -> Sequence[FieldIssue]:
    """Return the faults of a look, as the call that saves it finds them."""
    if len(values["name"]) > _NAME_CHARS:
        raise ConsoleError(400, "fault.long_name", limit=_NAME_CHARS)
    contact = SupportContact(values["support_email"], values["support_url"])
    return [
        *list_issues(values["name"], None, values["icon_url"] or None),
        *contact.list_issues(),
        *list_accent_issues(values["accent"]),
    ]


async def _render(
    console_request: ConsoleRequest,
    record: account_pb2.MerchantRecord,
    values: Mapping[str, str],
    *,
    error: RefusedError | None = None,
    changes: Sequence[BrandingChange] = (),
    is_saved: bool = False,
) -> PlainResponse:
    # what cannot be saved is not shown either
    shown = values if error is None else _get_values(record)
    color = shown["accent"] or _get_operator_accent(console_request, record.id)
    style = build_accent_style(color, _SCOPE) if color else ""
    response = console_request.render_page(
        "merchant/branding",
        console_request.texts.plain("branding"),
        200 if error is None else error.status,
        merchant=record,
        values=values,
        shown=shown,
        problem="" if error is None else describe_refusal(error, console_request.texts),
        changes=changes,
        is_saved=is_saved,
        accent_style=style,
        adjusted=_list_adjusted(shown["accent"]),
        logo=await _find_logo(console_request, record, shown["icon_url"]),
        sample=_get_sample(console_request),
        checkout=get_translations(console_request.texts.language, "checkout"),
        path=PATH.format(merchant_id=quote(record.id, "")),
    )
    return allow_style(response, style) if style else response


def _get_operator_accent(console_request: ConsoleRequest, merchant_id: str) -> str | None:
    checkout = console_request.console.app.settings.checkout
    return checkout.accents.get(merchant_id, checkout.accent)


def _list_adjusted(color: str) -> Sequence[tuple[str, str]]:
    """Return the colors that pages show instead, by scheme, where they differ."""
    if not color:
        return ()
    pairs = zip(("light", "dark"), adjust_accent(color), strict=True)
    return [(scheme, adjusted) for scheme, adjusted in pairs if adjusted != color.lower()]


async def _find_logo(
    console_request: ConsoleRequest, record: account_pb2.MerchantRecord, url: str
) -> LogoPreview:
    """Return the logo at a URL; have it fetched only for a key that could save it."""
    app = console_request.console.app
    if not url:
        return LogoPreview(LogoState.NONE)
    if not app.icons.enabled:
        return LogoPreview(LogoState.OFF)
    key = await app.store.read(keys.find_key(console_request.session.holder))
    if key is not None and key.partner_id and (url == record.icon_url or _MANAGE in key.scopes):
        await app.icons.find_path(url, key.partner_id)
    status = await app.icons.get_status(url)
    path = None if status.digest is None else format_path(status.digest)
    if status.fault is not None:
        return LogoPreview(LogoState.FAULTY, path, status.fault)
    return LogoPreview(LogoState.WAITING if path is None else LogoState.SHOWN, path)


def _get_sample(console_request: ConsoleRequest) -> tuple[str, str]:
    """Return an amount in a currency of the installation, and its symbol."""
    app, live = console_request.console.app, console_request.session.live
    accepted = list_accepted_currencies(app, live=live)
    currency = CURRENCIES[next(iter(accepted), "USD")]
    return format_minor_units(_SAMPLE_MINOR_UNITS, currency.decimals), currency.symbol
