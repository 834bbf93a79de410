"""Held money that buyers can claim: it came to a payment's own address from an unknown sender."""

from __future__ import annotations

from typing import Protocol

from florin_server.accounts.service.own_accounts import find_reserved_role
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import is_blocked
from florin_server.db.context import StorageContext
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.payments.payment import Payment
from florin_server.domain.payouts.deposit_claims import CLAIMABLE_REASONS
from florin_server.domain.payouts.held_money import HeldMoney, HeldMoneyState
from florin_server.money.payments.service.receivers import normalize_asset
from florin_server.money.payments.store import deposit_addresses
from florin_server.money.payments.store.deposit_addresses import OpenedAddress
from florin_server.money.payouts.store import held_money
from florin_server.rails.context import ChainContext


class _Context(ChainContext, ScreeningContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


async def list_claimable(app: _Context, payment: Payment) -> list[HeldMoney]:
    """Return the held money of a payment that a buyer can claim now.

    Its sender is an exchange, a contract, or not shown by the chain. Money of blocked payers cannot
    be claimed, nor what did not go to the treasury, out of which Florin pays.
    """
    waiting = [
        money
        for money in await app.store.read(held_money.list_of_payment(payment.id))
        if money.state is HeldMoneyState.HELD
        and money.address is not None
        and money.why in CLAIMABLE_REASONS
    ]
    if not waiting:
        return []
    opened = await app.store.read(deposit_addresses.list_opened(payment.id))
    return [
        money
        for money in waiting
        if _is_at_treasury(app, money, opened)
        # a list can name an exchange by now
        and (money.has_unknown_sender or not await is_blocked(app, money.payer))
    ]


def _is_at_treasury(app: ChainContext, money: HeldMoney, opened: list[OpenedAddress]) -> bool:
    rail = app.rails.get(money.chain_id)
    if rail is None or rail.payouts is None or money.address is None:
        return False
    bare_address = money.address.rpartition(":")[2]
    for address, option in opened:
        route_rail = app.rails.get(address.chain_id)
        if (
            address.address == bare_address
            and route_rail is not None
            and route_rail.addresses is not None
        ):
            home = route_rail.addresses.get_route(option).home.lower()
            return f"{money.chain_id}:{home}" == rail.treasury.lower()
    return False


def filter_by_asset(claimable: list[HeldMoney], asset: str) -> list[HeldMoney]:
    """Return the money of an asset (CAIP-19) as a caller wrote it; ApiError if it is none."""
    try:
        key = normalize_asset(asset)
    except ValueError as error:
        raise validation_error("asset", str(error)) from error
    return [money for money in claimable if normalize_asset(money.asset) == key]


async def parse_receiver(app: _Context, money: HeldMoney, account: str) -> str:
    """Return the account (CAIP-10) to which held money could go, in its usual spelling.

    ApiError for an account of another chain, of Florin, of the chain itself or of an exchange, for
    an address of a payment, and for a blocked account.
    """
    rail = app.rails[money.chain_id]
    receiver = rail.find_payer(account)
    if receiver is None:
        raise validation_error("account", f"Must be an account of a buyer on {money.chain_id}")
    if role := find_reserved_role(app.rails.values(), receiver):
        raise validation_error("account", f"Must not be {role}")
    address = receiver.rpartition(":")[2].lower()
    if rail.deposits is not None and address in rail.deposits.exchanges:
        raise validation_error("account", "Is of an exchange, which would not credit the money")
    is_own = money.address is not None and money.address.endswith(f":{address}")
    find_payment = deposit_addresses.find_payment(money.chain_id, address)
    if is_own or await app.store.read(find_payment) is not None:
        raise validation_error("account", "Is the address of a payment")
    if await is_blocked(app, receiver):
        raise ApiError(ErrorCode.SANCTIONED_USER)
    return receiver
