"""The senders of money at payments' own addresses, where others ask for the payer of an option.

The payer of such an option is the address itself, which has no key and is listed nowhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Protocol

from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import describe_block, is_blocked
from florin_server.db.context import StorageContext
from florin_server.domain.payments.deposits import Deposit, list_senders
from florin_server.domain.payments.payment import PaymentOption
from florin_server.money.payments.store import deposit_addresses, deposits
from florin_server.rails.protocol import Rail, has_own_address
from florin_server.settings.context import SettingsContext


class _Context(ScreeningContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


class PayerBlock(NamedTuple):
    """The account (CAIP-10) whose money is blocked, and what blocks it, in words."""

    payer: str
    reason: str


async def list_paying_deposits(app: StorageContext, option: PaymentOption) -> list[Deposit]:
    """Return what arrived of an option's asset at its address."""
    address = option.payer.rpartition(":")[2]
    recorded = await app.store.read(deposits.list_of_addresses(option.chain_id, [address]))
    return [item.deposit for item in recorded if item.deposit.asset == option.asset]


async def sum_unblocked(app: ScreeningContext, chain_id: str, arrived: list[Deposit]) -> int:
    """Return how much of deposits no blocked account sent, in minor units."""
    blocked = {
        sender for sender in list_senders(arrived) if await is_blocked(app, f"{chain_id}:{sender}")
    }
    return sum(deposit.value for deposit in arrived if deposit.sender not in blocked)


async def is_payer_blocked(app: _Context, option: PaymentOption) -> bool:
    """Return True if an option's payer is blocked, or too much of what arrived at its address."""
    if not has_own_address(option):
        return await is_blocked(app, option.payer)
    arrived = await list_paying_deposits(app, option)
    total = sum(deposit.value for deposit in arrived)
    unblocked = await sum_unblocked(app, option.chain_id, arrived)
    return unblocked < option.value and unblocked < total


async def find_payer_block(app: _Context, option: PaymentOption) -> PayerBlock | None:
    """Return who is blocked of those whose money paid an option; None if it is enough without."""
    if not has_own_address(option):
        reason = await describe_block(app, option.payer)
        return PayerBlock(option.payer, reason) if reason else None
    if not await is_payer_blocked(app, option):
        return None
    for sender in list_senders(await list_paying_deposits(app, option)):
        account = f"{option.chain_id}:{sender}"
        if reason := await describe_block(app, account):
            return PayerBlock(account, reason)
    return None


async def find_return_account(app: _Context, rail: Rail, option: PaymentOption) -> str | None:
    """Return the account (CAIP-10) to which an option's money can go back; None if unknown.

    At an address that is the account that the buyer named, or else the only sender. A contract
    credits nothing that comes back to it, and several senders would each need their share.
    """
    if not has_own_address(option):
        return option.payer
    address = option.payer.rpartition(":")[2]
    named = await app.store.read(deposit_addresses.find_refund_account(option.chain_id, address))
    if named is not None:
        return named if named.startswith(f"{option.chain_id}:") else None
    arrived = await list_paying_deposits(app, option)
    if rail.deposits is None or any(not deposit.sender for deposit in arrived):
        return None
    senders = list_senders(arrived)
    if len(senders) != 1 or await rail.deposits.find_contracts(senders):
        return None
    return f"{option.chain_id}:{senders[0]}"


def with_payer(option: PaymentOption, payer: str) -> PaymentOption:
    """Return an option for the books, as if an account had paid it."""
    return replace(option, payer=payer)
