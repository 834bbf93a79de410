"""What relayers may lose on payments that are not paid, and what is refused when they have.

An account with code answers for itself, and may answer a trial one way and a block another way.
Each time that costs a relayer the gas of one payment. So it is bounded, all in units of gas:

- a payment: three transactions (`journal.FAILURES_MAX`), and a share of one of several that was
  reverted as a whole;
- a payer in an hour: its budget and the gas of one payment more, on each chain; of a plain key
  also what is on its way when the budget ends;
- an app, and all of a chain, in an hour: the same with theirs, for accounts with code. Plain keys
  go on: whoever lets such a payment fail has to move its money away in a transaction of its own,
  which costs more than our failing one, and meets the budget of its payer.

Creating accounts for payments that are paid has budgets of its own. Hours are those of the clock.

On Solana the units are lamports of fees. There all payers count as accounts with code do elsewhere:
one signature of a delegate moves the money of many payers away, which costs less than our fees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Option
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.flows.app import Caller, Core
from florin_server.store.settlement import gas
from florin_server.store.settlement.gas import Usage

HOUR_US: Final = 3_600_000_000


@dataclass(frozen=True, slots=True)
class HourlyBudgets:
    """What relayers of one chain may lose in an hour, in units of gas or in lamports.

    `covers_keys` says that payments of plain keys draw on all of them, not on their payer's alone.
    """

    payer: int
    app: int
    chain: int
    opened_app: int
    opened_chain: int
    covers_keys: bool


def budgets_of(app: Core, chain_id: str) -> HourlyBudgets:
    """Return the budgets of a chain."""
    if app.rails[chain_id].gas is None:
        fees = app.settings.failed_fees
        # opening token accounts is bounded by the day
        return HourlyBudgets(fees.payer, fees.app, fees.chain, 0, 0, covers_keys=True)
    most = app.settings.failed_gas
    budgets = (most.payer, most.app, most.chain, most.opened_app, most.opened_chain)
    return HourlyBudgets(*budgets, covers_keys=False)


def hour_of(now_us: int) -> int:
    """When the hour of a time began, microseconds since 1970."""
    return now_us - now_us % HOUR_US


def until(now_us: int) -> str:
    """When the next hour begins, as operators read it."""
    return f"{datetime.fromtimestamp((hour_of(now_us) + HOUR_US) // 1_000_000, UTC):%H:%M} UTC"


def app_of(caller: Caller) -> str:
    """Whose budget a caller's payments count in: its app's, or its key's."""
    return caller.app.app_id if caller.app else caller.credential


async def usage(app: Core, chain_id: str) -> Usage:
    """What a chain spent in this hour; what other processes wrote may be missing for a moment."""
    now_us = app.clock.now_us()
    known = app.spent.get(chain_id, now_us)
    if known is None or known.since_us != hour_of(now_us):
        most = budgets_of(app, chain_id).payer
        known = await app.store.read(gas.usage(chain_id, hour_of(now_us), most))
        app.spent.keep(chain_id, known, now_us)
    return known


async def by_hand(app: Core, caller: Caller, chain_id: str, payers: Sequence[str]) -> Sequence[str]:
    """Those payers (CAIP-10) of whom no signature is taken now if they have code."""
    used = await usage(app, chain_id)
    if paused(budgets_of(app, chain_id), used, app_of(caller)):
        return payers
    return [one for one in payers if one in used.payers]


async def check(app: Core, caller: Caller, option: Option, kind: PayerKind) -> None:
    """Refuses a payment that would not be sent now; nothing of it is bound."""
    used = await usage(app, option.chain_id)
    own, budgets = app_of(caller), budgets_of(app, option.chain_id)
    if option.payer in used.payers:
        raise _refusal(app, "payer_paused", "Too many payments of the account failed")
    if budgets.covers_keys and paused(budgets, used, own):
        raise _refusal(app, "payments_paused", "Too many payments on the chain failed")
    if kind is not PayerKind.KEY and paused(budgets, used, own):
        raise _refusal(
            app, "contract_accounts_paused", "No signatures of contract accounts are taken now"
        )
    if kind is PayerKind.UNBORN and opening_paused(budgets, used, own):
        raise _refusal(
            app, "account_creation_paused", "No accounts are created by their payments now"
        )


def paused(most: HourlyBudgets, used: Usage, own: str) -> bool:
    """True while no contract accounts' payments of an app are sent."""
    return used.failed >= most.chain or used.failed_by_app.get(own, 0) >= most.app


def opening_paused(most: HourlyBudgets, used: Usage, own: str) -> bool:
    """True while no payments of an app are sent that create their accounts."""
    return used.opened >= most.opened_chain or used.opened_by_app.get(own, 0) >= most.opened_app


class Budget(StrEnum):
    """What can be used up."""

    FAILED = "failed"
    FAILED_OF_APPS = "failed_of_apps"
    FAILED_OF_PAYERS = "failed_of_payers"
    OPENED = "opened"
    OPENED_OF_APPS = "opened_of_apps"


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A budget that is used up, whose it is (apps, or nobody's in particular), and a sentence."""

    budget: Budget
    whose: tuple[str, ...]
    reason: str


def exhausted(app: Core, chain_id: str, used: Usage) -> list[Exhausted]:
    """The budgets of a chain that are used up in this hour."""
    most, end = budgets_of(app, chain_id), until(app.clock.now_us())
    lost = "failed fees" if most.covers_keys else "failed gas"
    code = f"payments of accounts with code are paused until {end}"
    if most.covers_keys:
        code = f"payments are paused until {end}"
    creation = f"payments that create their accounts are paused until {end}"
    found = []
    if used.failed >= most.chain:
        text = f"the hour's budget for {lost} is exhausted: {code}"
        found.append(Exhausted(Budget.FAILED, (), text))
    if apps := _above(used.failed_by_app, most.app):
        text = f"the hour's budget of {', '.join(apps)} for {lost} is exhausted: their {code}"
        found.append(Exhausted(Budget.FAILED_OF_APPS, apps, text))
    if used.payers:
        text = f"payers whose payments are paused until {end} because they failed"
        found.append(Exhausted(Budget.FAILED_OF_PAYERS, (), f"{text}: {len(used.payers)}"))
    if used.opened and used.opened >= most.opened_chain:
        text = f"the hour's budget for creating accounts is exhausted: {creation}"
        found.append(Exhausted(Budget.OPENED, (), text))
    if apps := _above(used.opened_by_app, most.opened_app):
        text = f"the hour's budget of {', '.join(apps)} for creating accounts is exhausted"
        found.append(Exhausted(Budget.OPENED_OF_APPS, apps, f"{text}: {creation}"))
    return found


def _above(by_app: Mapping[str, int], most: int) -> tuple[str, ...]:
    return tuple(sorted(own or "nobody" for own, spent in by_app.items() if spent >= most))


def _refusal(app: Core, reason: str, message: str) -> FlorinError:
    app.meters.refusal(reason)()
    now_us = app.clock.now_us()
    wait_s = -(-(hour_of(now_us) + HOUR_US - now_us) // 1_000_000)
    return FlorinError(
        Code.INTERNAL_ERROR,
        message,
        details={"reason": reason},
        retry_after_s=wait_s,
        unavailable=True,
    )
