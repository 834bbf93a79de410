"""Claims on the page of an ended payment: what is held, a form for each asset, and their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple, Protocol

from florin_server.accounts.service.wallets import create_checkout_caller
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Payment
from florin_server.domain.payouts.deposit_claims import DepositClaimState
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payouts.service.claimable_money import list_claimable
from florin_server.money.payouts.service.deposit_claims import claim_deposit, list_claims
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.types import Asset
from florin_server.settings.context import SettingsContext
from florin_server.web.language import Translations, trim_zeros

# the id of a claim, which only its maker has
CLAIM_PARAMETER: Final = "claim"


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


@dataclass(frozen=True, slots=True)
class ClaimForm:
    """The content of the form, and the message key of why it was refused."""

    account: str = ""
    message: str = ""
    refusal_key: str = ""


NO_FORM: Final = ClaimForm()


class ClaimableAmount(NamedTuple):
    """Held money of one asset, in whole units."""

    asset: str
    symbol: str
    network: str
    value: Decimal


class ClaimEntry(NamedTuple):
    """A claim of the buyer, in whole units."""

    symbol: str
    value: Decimal
    state: DepositClaimState


@dataclass(frozen=True, slots=True)
class ClaimData:
    """The amounts that can be claimed, and the claims of the account in the page's link."""

    amounts: Sequence[ClaimableAmount] = ()
    claims: Sequence[ClaimEntry] = ()
    form: ClaimForm = NO_FORM


NO_CLAIMS: Final = ClaimData()


class ClaimableRow(NamedTuple):
    """Held money of one asset, in the words of one language."""

    asset: str
    amount: str
    network: str


class ClaimRow(NamedTuple):
    """A claim, in the words of one language."""

    amount: str
    state: str
    look: str
    sign: str


@dataclass(frozen=True, slots=True)
class ClaimBox:
    """The section of the page about claims, in one language."""

    amounts: Sequence[ClaimableRow]
    claims: Sequence[ClaimRow]
    form: ClaimForm


_LOOKS: Final = {
    DepositClaimState.OPEN: ("plain", "clock"),
    DepositClaimState.CONFIRMED: ("good", "check"),
    DepositClaimState.REJECTED: ("warn", "alert"),
}


async def post_claim(
    app: _Context, payment: Payment, form: Mapping[str, str], peer: str
) -> tuple[str, ClaimForm]:
    """Claim the asset in a form; return the claim's id, or an empty one and the refused form."""
    account, message = form.get("account", "").strip(), form.get("message", "").strip()
    asset = form.get("asset", "")
    network = get_peer_network(peer)
    caller = await create_checkout_caller(app, live=payment.live, network=network, use="page")
    # buyers know the address alone
    full_account = account if ":" in account else f"{asset.partition('/')[0]}:{account}"
    try:
        claims = await claim_deposit(app, caller, payment.id, asset, full_account, message=message)
    except ApiError as error:
        return "", ClaimForm(account, message, _find_refusal_key(error))
    return claims[0].id, NO_FORM


def _find_refusal_key(error: ApiError) -> str:
    if error.code is ErrorCode.RATE_LIMITED:
        return "send.refused.busy"
    if any(issue.field == "account" for issue in error.issues):
        return "claims.refused.account"
    return "claims.refused"


async def load_claims(
    app: _Context, payment: Payment, claim_id: str | None, form: ClaimForm
) -> ClaimData:
    """Return what the page of an ended payment shows about claims."""
    if not payment.status.is_final or not any(
        rail.live is payment.live and rail.addresses is not None for rail in app.rails.values()
    ):
        return NO_CLAIMS
    claims = await list_claims(app, payment) if claim_id else []
    linked = next((claim for claim in claims if claim.id == claim_id), None)
    own = [
        (asset, claim)
        for claim in claims
        if linked is not None
        and (claim.account, claim.asset) == (linked.account, linked.asset)
        and (asset := _find_asset(app, claim.asset)) is not None
    ]
    claimed = {claim.asset for _, claim in own if claim.state is DepositClaimState.OPEN}
    values: dict[str, int] = {}
    for money in await list_claimable(app, payment):
        if money.asset not in claimed:
            values[money.asset] = values.get(money.asset, 0) + money.held
    return ClaimData(
        [
            ClaimableAmount(asset_id, asset.symbol, asset.network_name, _scale(asset, value))
            for asset_id, value in values.items()
            if (asset := _find_asset(app, asset_id)) is not None
        ],
        [ClaimEntry(asset.symbol, _scale(asset, claim.value), claim.state) for asset, claim in own],
        form,
    )


def _find_asset(app: ChainContext, asset: str) -> Asset | None:
    rail = app.rails.get(asset.partition("/")[0])
    return None if rail is None else rail.assets.get(asset)


def _scale(asset: Asset, value: int) -> Decimal:
    return Decimal(value).scaleb(-asset.decimals)


def build_claim_box(data: ClaimData, translations: Translations) -> ClaimBox | None:
    """Return the section in one language; None if nothing is claimed and nothing can be."""
    if not data.amounts and not data.claims:
        return None
    return ClaimBox(
        [
            ClaimableRow(
                item.asset,
                translations.format_amount(trim_zeros(item.value), item.symbol),
                item.network,
            )
            for item in data.amounts
        ],
        [
            ClaimRow(
                translations.format_amount(trim_zeros(item.value), item.symbol),
                item.state,
                *_LOOKS[item.state],
            )
            for item in data.claims
        ],
        data.form,
    )
