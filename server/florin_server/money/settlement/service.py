"""Budgets of gas for payments that fail, and the refusals when they are exhausted.

An account with code can answer a dry run one way and a block another way. Each time that costs a
relayer the gas of one payment. So the cost is bounded, in units of gas:

- a payment: three transactions (`FAILURES_MAX`), and a share of one of several that reverted as a
  whole;
- a payer in an hour: its budget and the gas of one more payment, on each chain; for a plain key
  also its open transactions when the budget ends;
- an app, and a whole chain, in an hour: their budgets likewise, for accounts with code. Payments of
  plain keys continue: to let such a payment fail, a payer has to move its money away in a
  transaction of its own. That costs more than the relayer's, and the payer's budget applies.

Creating accounts for successful payments has budgets of its own. Hours are those of the clock.

On Solana the units are lamports of fees. There all payers count like accounts with code: one
signature of a delegate can move the money of many payers away, which costs less than the fees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Protocol

from florin_server.base.context import MeterContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import PaymentOption
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.money.context import UsageContext
from florin_server.money.settlement.store import gas
from florin_server.money.settlement.store.gas import GasUsage
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, MeterContext, SettingsContext, StorageContext, UsageContext, Protocol):
    """The parts of the application that this module uses."""


HOUR_US: Final = 3_600_000_000


@dataclass(frozen=True, slots=True)
class HourlyGasBudgets:
    """Budgets of the relayers of one chain in an hour, in units of gas or in lamports.

    `covers_keys` means that payments of plain keys use all of them, not only their payer's.
    """

    payer: int
    app: int
    chain: int
    opening_app: int
    opening_chain: int
    covers_keys: bool


def get_budgets(app: _Context, chain_id: str) -> HourlyGasBudgets:
    """Return the budgets of a chain."""
    if app.rails[chain_id].gas is None:
        fees = app.settings.failed_fees
        # opening token accounts has daily limits
        return HourlyGasBudgets(fees.payer, fees.app, fees.chain, 0, 0, covers_keys=True)
    most = app.settings.failed_gas
    budgets = (most.payer, most.app, most.chain, most.opened_app, most.opened_chain)
    return HourlyGasBudgets(*budgets, covers_keys=False)


def get_hour_start(now_us: int) -> int:
    """Return the start of the hour of a time, microseconds since 1970."""
    return now_us - now_us % HOUR_US


def format_next_hour(now_us: int) -> str:
    """Return the start of the next hour, as operators read it."""
    return (
        f"{datetime.fromtimestamp((get_hour_start(now_us) + HOUR_US) // 1_000_000, UTC):%H:%M} UTC"
    )


def get_budget_owner(caller: Caller) -> str:
    """Return the owner of the budget of a caller's payments: its app, or its key."""
    return caller.app.app_id if caller.app else caller.credential


async def get_usage(app: _Context, chain_id: str) -> GasUsage:
    """Return what a chain spent in this hour.

    Writes of other processes can be missing for a moment.
    """
    now_us = app.clock.now_us()
    usage = app.usage_cache.get(chain_id, now_us)
    if usage is None or usage.since_us != get_hour_start(now_us):
        most = get_budgets(app, chain_id).payer
        usage = await app.store.read(gas.get_usage(chain_id, get_hour_start(now_us), most))
        app.usage_cache.put(chain_id, usage, now_us)
    return usage


async def list_manual_payers(
    app: _Context, caller: Caller, chain_id: str, payers: Sequence[str]
) -> Sequence[str]:
    """Return the payers (CAIP-10) whose signatures are refused now if they have code."""
    used = await get_usage(app, chain_id)
    if is_app_paused(get_budgets(app, chain_id), used, get_budget_owner(caller)):
        return payers
    return [payer for payer in payers if payer in used.payers]


async def check(app: _Context, caller: Caller, option: PaymentOption, kind: PayerKind) -> None:
    """Refuse a payment that would not be sent now; nothing of it is bound."""
    used = await get_usage(app, option.chain_id)
    own, budgets = get_budget_owner(caller), get_budgets(app, option.chain_id)
    if option.payer in used.payers:
        raise _refusal_error(
            app,
            "payer_paused",
            "Too many payments of this account failed: use a different account, or try again "
            "next hour",
        )
    if budgets.covers_keys and is_app_paused(budgets, used, own):
        raise _refusal_error(
            app,
            "payments_paused",
            "Too many payments on this chain failed: use a different chain, or try again next hour",
        )
    if kind is not PayerKind.KEY and is_app_paused(budgets, used, own):
        raise _refusal_error(
            app,
            "contract_accounts_paused",
            "Payments by contract accounts are paused: use a different account, or try again "
            "next hour",
        )
    if kind is PayerKind.UNBORN and is_opening_paused(budgets, used, own):
        raise _refusal_error(
            app,
            "account_creation_paused",
            "Payments that create their account are paused: use an existing account, or try "
            "again next hour",
        )


def is_app_paused(budgets: HourlyGasBudgets, gas_usage: GasUsage, app_id: str) -> bool:
    """Return True while no contract accounts' payments of an app are sent."""
    return (
        gas_usage.total_failed_gas >= budgets.chain
        or gas_usage.failed_gas_by_app.get(app_id, 0) >= budgets.app
    )


def is_opening_paused(budgets: HourlyGasBudgets, gas_usage: GasUsage, app_id: str) -> bool:
    """Return True while no payments of an app are sent that create their accounts."""
    return (
        gas_usage.total_opening_gas >= budgets.opening_chain
        or gas_usage.opening_gas_by_app.get(app_id, 0) >= budgets.opening_app
    )


class GasBudgetKind(StrEnum):
    """The kinds of budgets."""

    FAILED = "failed"
    FAILED_OF_APPS = "failed_of_apps"
    FAILED_OF_PAYERS = "failed_of_payers"
    OPENED = "opened"
    OPENED_OF_APPS = "opened_of_apps"


@dataclass(frozen=True, slots=True)
class ExhaustedGasBudget:
    """An exhausted budget, its owners (apps, or none in particular), and a sentence."""

    budget: GasBudgetKind
    app_ids: tuple[str, ...]
    reason: str


def list_exhausted(app: _Context, chain_id: str, gas_usage: GasUsage) -> list[ExhaustedGasBudget]:
    """Return the budgets of a chain that are used up in this hour."""
    most, end = get_budgets(app, chain_id), format_next_hour(app.clock.now_us())
    lost = "failed fees" if most.covers_keys else "failed gas"
    code = f"payments of accounts with code are paused until {end}"
    if most.covers_keys:
        code = f"payments are paused until {end}"
    creation = f"payments that create their accounts are paused until {end}"
    budgets = []
    if gas_usage.total_failed_gas >= most.chain:
        text = f"the hour's budget for {lost} is exhausted: {code}"
        budgets.append(ExhaustedGasBudget(GasBudgetKind.FAILED, (), text))
    if apps := _list_apps_above(gas_usage.failed_gas_by_app, most.app):
        text = f"the hour's budget of {', '.join(apps)} for {lost} is exhausted: their {code}"
        budgets.append(ExhaustedGasBudget(GasBudgetKind.FAILED_OF_APPS, apps, text))
    if gas_usage.payers:
        text = f"payers whose payments are paused until {end} because too many failed"
        budgets.append(
            ExhaustedGasBudget(
                GasBudgetKind.FAILED_OF_PAYERS, (), f"{text}: {len(gas_usage.payers)}"
            )
        )
    if gas_usage.total_opening_gas and gas_usage.total_opening_gas >= most.opening_chain:
        text = f"the hour's budget for creating accounts is exhausted: {creation}"
        budgets.append(ExhaustedGasBudget(GasBudgetKind.OPENED, (), text))
    if apps := _list_apps_above(gas_usage.opening_gas_by_app, most.opening_app):
        text = f"the hour's budget of {', '.join(apps)} for creating accounts is exhausted"
        budgets.append(
            ExhaustedGasBudget(GasBudgetKind.OPENED_OF_APPS, apps, f"{text}: {creation}")
        )
    return budgets


def _list_apps_above(by_app: Mapping[str, int], limit: int) -> tuple[str, ...]:
    return tuple(
        sorted(own or "callers without an app" for own, spent in by_app.items() if spent >= limit)
    )


def _refusal_error(app: _Context, reason: str, message: str) -> ApiError:
    app.meters.create_refusal_counter(reason)()
    now_us = app.clock.now_us()
    wait_s = -(-(get_hour_start(now_us) + HOUR_US - now_us) // 1_000_000)
    return ApiError(
        ErrorCode.INTERNAL_ERROR,
        message,
        details={"reason": reason},
        retry_after_s=wait_s,
        unavailable=True,
    )
