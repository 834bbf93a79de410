"""The steps that transfers of an API key and of a payment have in common."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from math import ceil
from typing import Final, Protocol, TypeVar

from florin_server.base.clock import wait_for_first
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import check_lists, is_blocked
from florin_server.db.context import StorageContext
from florin_server.domain.errors import ApiError
from florin_server.domain.x402.messages import (
    InvalidReason,
    InvalidX402Payment,
    SettlementAnswer,
)
from florin_server.domain.x402.settlement import FacilitationState
from florin_server.money.x402 import store
from florin_server.money.x402.store import Facilitation, FacilitationBudget
from florin_server.rails.facilitation import FacilitatedTransfer
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable
from florin_server.settings.context import SettingsContext


class _Context(EventContext, ScreeningContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


T = TypeVar("T")

_log = logging.getLogger(__name__)

# another process can settle, and its notification can get lost
_LOOK_S: Final = 0.5


def get_budget_limits(app: SettingsContext, rail: Rail) -> Mapping[FacilitationBudget, int]:
    """Return the budgets of a chain, in units of gas or in lamports."""
    settings = app.settings
    budgets = settings.facilitated_fees if rail.gas is None else settings.facilitated_gas
    return {
        FacilitationBudget.CHAIN: budgets.chain,
        FacilitationBudget.KEY: budgets.key,
        FacilitationBudget.PAYER: budgets.payer,
    }


async def check_transfer(
    app: _Context, rail: Rail, transfer: FacilitatedTransfer
) -> FacilitatedTransfer:
    """Return a transfer that neither the operator nor the chain refuses now."""
    payer = get_address(transfer.payer)
    for account in (transfer.payer, transfer.pay_to):
        if account in rail.reserved_accounts or await is_blocked(app, account):
            text = f"{get_address(account)} cannot pay or be paid here"
            raise InvalidX402Payment(InvalidReason.BLOCKED, text, payer)
    try:
        await check_lists(app, live=rail.live)
        return await rail.facilitator.check(transfer, app.clock.now_us() // 1_000_000)
    except (RailUnavailable, ApiError) as error:
        _log.warning("%s: a payment of others is refused: %s", rail.chain_id, error)
        text = "The network cannot be asked at the moment: try again"
        raise InvalidX402Payment(InvalidReason.UNAVAILABLE, text, payer) from error


async def wait_for_end(app: _Context, stored: Facilitation) -> Facilitation:
    """Return a transfer once it has ended, or as it is after the longest wait."""

    async def read() -> Facilitation | None:
        return await app.store.read(store.find_facilitation(stored.key))

    def is_over(current: Facilitation) -> bool:
        return current.state.is_final

    return await wait_for_change(app, (Topic.FACILITATION, stored.key), stored, read, is_over)


async def wait_for_change(
    app: _Context,
    topic: tuple[Topic, str],
    value: T,
    read: Callable[[], Awaitable[T | None]],
    is_over: Callable[[T], bool],
) -> T:
    """Return a value once it is over, or as it is after the longest wait."""
    changed = asyncio.Event()
    unsubscribe = app.notifier.subscribe(topic[0], changed, topic[1])
    try:
        # the service's clock can stand still in tests
        for _ in range(ceil(app.settings.x402.wait_s / _LOOK_S) + 1):
            value = await read() or value
            if is_over(value):
                break
            await wait_for_first(changed.wait(), timeout_s=_LOOK_S)
            changed.clear()
    finally:
        unsubscribe()
    return value


def to_answer(stored: Facilitation) -> SettlementAnswer:
    """Return the answer about a transfer in its state."""
    payer, transaction = get_address(stored.payer), stored.tx_hash or ""
    if stored.state is FacilitationState.SUCCEEDED:
        return SettlementAnswer(stored.chain_id, payer, transaction, amount=stored.value)
    reason, text = InvalidReason.PENDING, "The payment is not final yet: ask again"
    if stored.state is FacilitationState.FAILED:
        reason = stored.reason or InvalidReason.TRANSACTION_FAILED
        text = "The payment failed, and moved no money"
    return SettlementAnswer(stored.chain_id, payer, transaction, reason, text)


def require_same(stored: Facilitation, transfer: FacilitatedTransfer) -> None:
    """Raise InvalidX402Payment if another message with the same nonce was taken before."""
    same = (stored.asset, stored.payer, stored.pay_to, stored.value) == (
        transfer.asset,
        transfer.payer,
        transfer.pay_to,
        transfer.value,
    )
    if not same:
        text = "The payer's nonce belongs to another payment"
        raise InvalidX402Payment(InvalidReason.OTHER_PAYMENT, text, get_address(transfer.payer))


def get_address(account: str) -> str:
    """Return the address of a CAIP-10 account."""
    return account.rpartition(":")[2]
