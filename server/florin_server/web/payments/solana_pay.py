"""The links of Solana Pay: what a wallet shows of a payment, and the transaction that it sends.

A wallet reads the label first, then names the account that pays. It knows nothing of the API, and
has no credential: the link is all it needs, as for the checkout page. A second link holds
receiver and amount, so that the wallet makes the transfer and fetches nothing.
"""

from __future__ import annotations

from typing import Final, Protocol

import orjson
from grpc_rest_gateway.plain import PlainHandler, PlainRequest, PlainResponse

from florin_server.accounts.service.wallets import create_checkout_caller
from florin_server.api.payments.codec import PaymentCodec
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.money import format_minor_units
from florin_server.domain.payments.payment import Merchant, Payment
from florin_server.features.icons.context import IconContext
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service.checkout import find_checkout
from florin_server.money.payments.service.transaction_request import (
    request_transaction,
    require_acceptance,
)
from florin_server.money.payments.service.transfer_request import open_link
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext
from florin_server.web.assets import get_asset_url
from florin_server.web.handlers import Routes, build_read_routes
from florin_server.web.refusal import check_page_rate, to_refused_error


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    IconContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_PATH: Final = "/solana/{payment_id}"
_TRANSFER_PATH: Final = f"{_PATH}/transfer"
# wallets in browsers call it too
CORS_PATHS: Final = ("/solana/*", "/solana/*/transfer")
_BODY_BYTES_MAX: Final = 4096
_ICON: Final = "site/icon.png"


def build_routes(app: _Context, codec: PaymentCodec) -> Routes:
    """Return the handlers by method and path."""
    return {
        **build_read_routes({_PATH: _make_label_handler(app)}),
        ("POST", _PATH): _make_transaction_handler(app, codec),
        ("POST", _TRANSFER_PATH): _make_transfer_handler(app, codec),
    }


def _make_label_handler(app: _Context) -> PlainHandler:
    async def answer(request: PlainRequest) -> PlainResponse:
        payment, merchant = await _get_checkout(app, request)
        try:
            require_acceptance(app, payment)
        except ApiError as error:
            raise to_refused_error(error) from error
        path = await app.icons.find_path(merchant.icon_url, merchant.partner_id)
        icon = f"{app.links.base_url}{path or get_asset_url(_ICON)}"
        return PlainResponse.from_json({"label": merchant.name, "icon": icon})

    return answer


def _make_transaction_handler(app: _Context, codec: PaymentCodec) -> PlainHandler:
    async def answer(request: PlainRequest) -> PlainResponse:
        payment, merchant = await _get_checkout(app, request)
        try:
            requested = await request_transaction(
                app, payment, _parse_account(request.body), get_peer_network(request.peer)
            )
        except ApiError as error:
            raise to_refused_error(error) from error
        option = requested.option
        amount = codec.to_amount(f"caip19/{option.asset}", option.value)
        value = format_minor_units(option.value, amount.display.decimals)
        text = f"{value} {amount.display.asset_symbol} to {merchant.name}"
        return PlainResponse.from_json({"transaction": requested.transaction, "message": text})

    return answer


def _make_transfer_handler(app: _Context, codec: PaymentCodec) -> PlainHandler:
    async def answer(request: PlainRequest) -> PlainResponse:
        payment, merchant = await _get_checkout(app, request)
        try:
            asset = _parse_asset(request.body)
            network = get_peer_network(request.peer)
            caller = await create_checkout_caller(
                app, live=payment.live, network=network, use="transfer"
            )
            link = await open_link(app, caller, payment, merchant, asset)
        except ApiError as error:
            raise to_refused_error(error) from error
        option = link.option
        amount = codec.to_amount(f"caip19/{option.asset}", option.value)
        return PlainResponse.from_json(
            {
                "url": link.uri,
                "asset": option.asset,
                "amount": {
                    "value": str(option.value),
                    "decimals": amount.display.decimals,
                    "symbol": amount.display.asset_symbol,
                },
                "reference": option.payer.rpartition(":")[2],
                "expiresAt": min(option.expires_at or payment.expires_at, payment.expires_at),
            }
        )

    return answer


async def _get_checkout(app: _Context, request: PlainRequest) -> tuple[Payment, Merchant]:
    """Return the payment in the path; RefusedError if unknown or above the rate limit."""
    check_page_rate(app, request)
    checkout = await find_checkout(app, request.variables["payment_id"])
    if checkout is None:
        raise to_refused_error(ApiError(ErrorCode.PAYMENT_NOT_FOUND))
    return checkout


def _parse_body(body: bytes) -> dict[str, object] | None:
    try:
        content = orjson.loads(body) if len(body) <= _BODY_BYTES_MAX else None
    except orjson.JSONDecodeError:
        return None
    return content if isinstance(content, dict) else None


def _parse_asset(body: bytes) -> str | None:
    """Return the asset in a request, None without one; ApiError(params_validation) if invalid."""
    content = _parse_body(body or b"{}")
    asset = None if content is None else content.get("asset")
    if content is None or not isinstance(asset, str | None):
        text = "The body must be a JSON object; its member asset is a CAIP-19 id"
        raise ApiError(ErrorCode.PARAMS_VALIDATION, text)
    return asset


def _parse_account(body: bytes) -> str:
    """Return the account in a wallet's request; ApiError(params_validation) without one."""
    content = _parse_body(body)
    account = None if content is None else content.get("account")
    if not isinstance(account, str):
        text = "The body must be a JSON object with the member account, a wallet's address"
        raise ApiError(ErrorCode.PARAMS_VALIDATION, text)
    return account
