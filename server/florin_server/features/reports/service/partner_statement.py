"""Statements for partners: of all their merchants, or of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from florin_server.accounts.store import merchants
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.refusals import merchant_not_found_error
from florin_server.domain.reports.assets import FindReportAsset, ReportAsset, make_unknown_asset
from florin_server.domain.reports.period import ReportPeriod
from florin_server.features.reports.context import StatementContext
from florin_server.features.reports.service.statement import (
    MonthStatement,
    build_statement,
    read_statement,
)
from florin_server.features.reports.store.scope import ReportScope
from florin_server.money.payments.service.checkout import find_registered
from florin_server.rails.context import ChainContext


class _Context(ChainContext, StatementContext, Protocol):
    """The parts of the application that this module uses."""


# statements of a period that is not over are as old as this at most
_FRESH_US: Final = 10_000_000
_COIN_DECIMALS: Final = {"eip155": 18, "solana": 9}


@dataclass(frozen=True, slots=True)
class PartnerStatement:
    """A statement, and its merchant; None for all merchants of the partner."""

    statement: MonthStatement
    merchant: Merchant | None


async def get_statement(
    app: _Context, partner_id: str, period: ReportPeriod, merchant_id: str, *, live: bool
) -> PartnerStatement:
    """Return the statement of a partner's merchant, deleted or not, or of all if the id is empty.

    ApiError(merchant_not_found) for a merchant of another partner or mode. The ledger is read at
    most once in ten seconds for each period and scope, and once a minute after the period.
    """
    merchant = None
    if merchant_id:
        merchant = await app.store.read(merchants.find_merchant(merchant_id))
        if merchant is None or (merchant.partner_id, merchant.live) != (partner_id, live):
            raise merchant_not_found_error(wcp_profile=False)
    scope = ReportScope(live, partner_id, merchant_id or None)
    now_us = app.clock.now_us()
    age = 0 if period.is_over(now_us) else now_us // _FRESH_US
    key = (scope, period, age)
    data = app.statement_cache.get(key, now_us)
    if data is None:
        data = await app.store.scan_standby(read_statement(scope, period))
        app.statement_cache.put(key, data, now_us)
    return PartnerStatement(
        build_statement(data, scope, period, build_asset_finder(app), now_us), merchant
    )


def build_asset_finder(app: ChainContext) -> FindReportAsset:
    """Return a finder of the names of assets of the running chains; it never fails."""
    networks = {
        rail.chain_id: asset.network_name
        for live in (False, True)
        for rail, asset in app.list_assets(live=live).values()
    }

    def find_asset(asset_id: str) -> ReportAsset:
        if (asset := app.find_asset(asset_id)) is not None:
            return ReportAsset(asset_id, asset.symbol, asset.network_name, asset.decimals)
        chain_id, _, name = asset_id.rpartition("/")
        network = networks.get(chain_id, chain_id)
        if (registered := find_registered(asset_id)) is not None:
            return ReportAsset(asset_id, registered[1], network, registered[0])
        decimals = _COIN_DECIMALS.get(chain_id.partition(":")[0])
        if name.startswith("slip44:") and decimals is not None:
            return ReportAsset(asset_id, "coin", network, decimals)
        return make_unknown_asset(asset_id)

    return find_asset
