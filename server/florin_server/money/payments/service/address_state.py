"""The addresses of a payment as callers see them, with what arrived there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import is_blocked
from florin_server.db.context import StorageContext
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.domain.payments.deposits import DepositTotals, compute_totals, list_senders
from florin_server.domain.payments.payment import Payment
from florin_server.money.payments.service.addresses import PaymentAddress
from florin_server.money.payments.store import deposit_addresses, deposits
from florin_server.money.payments.store.deposit_addresses import OpenedAddress
from florin_server.money.payments.store.deposits import RecordedDeposit
from florin_server.rails.context import ChainContext


class _Context(ChainContext, ScreeningContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


@dataclass(frozen=True, slots=True)
class AddressView:
    """An address with its route, link and totals; `address` is in its usual spelling.

    `min_value` is None where no caller requests an address.
    """

    address: str
    asset: str
    value: int
    uri: str
    expires_at: int
    route: ForwardRoute
    totals: DepositTotals
    min_value: int | None = None


@dataclass(frozen=True, slots=True)
class DepositView:
    """Money that arrived; `sender` and `address` are CAIP-10, the sender empty if unknown."""

    recorded: RecordedDeposit
    sender: str
    address: str


@dataclass(frozen=True, slots=True)
class PaymentAddressState:
    """All addresses of a payment, what arrived there, and whose money (CAIP-10) paid it."""

    addresses: tuple[AddressView, ...] = ()
    deposits: tuple[DepositView, ...] = ()
    payers: tuple[str, ...] = ()


NO_ADDRESSES = PaymentAddressState()


async def load_address_state(app: _Context, payment: Payment) -> PaymentAddressState:
    """Return the addresses of a payment and what is known of the money there."""
    if not any(
        rail.live is payment.live
        and (rail.addresses is not None or rail.transaction_requests is not None)
        for rail in app.rails.values()
    ):
        return NO_ADDRESSES
    opened = await app.store.read(deposit_addresses.list_opened(payment.id))
    if not opened:
        return NO_ADDRESSES
    recorded = await app.store.read(deposits.list_of_payment(payment.id))
    blocked = await list_blocked_senders(app, recorded)
    chains = {item.address.address: item.address.chain_id for item in opened}
    views = tuple(
        DepositView(
            item,
            f"{chain}:{item.deposit.sender}" if item.deposit.sender else "",
            f"{chain}:{item.deposit.address}",
        )
        for item in recorded
        if (chain := chains.get(item.deposit.address)) is not None
    )
    addresses = [_build_view(app, payment, item, recorded, blocked) for item in opened]
    return PaymentAddressState(
        tuple(view for view in addresses if view is not None),
        views,
        _list_payers(payment, opened, recorded, blocked),
    )


async def build_requested_views(
    app: _Context, payment: Payment, requested: Sequence[PaymentAddress]
) -> list[AddressView]:
    """Return the views of addresses that a caller requested."""
    recorded = await app.store.read(deposits.list_of_payment(payment.id))
    blocked = await list_blocked_senders(app, recorded)
    views = [
        _build_view(app, payment, item.opened, recorded, blocked, item.min_value)
        for item in requested
    ]
    return [view for view in views if view is not None]


async def list_blocked_senders(
    app: ScreeningContext, recorded: Sequence[RecordedDeposit]
) -> frozenset[str]:
    """Return which senders of deposits are blocked, as bare addresses."""
    blocked = set()
    for deposit in {item.deposit.sender: item.deposit for item in recorded}.values():
        chain_id = deposit.asset.partition("/")[0]
        if deposit.sender and await is_blocked(app, f"{chain_id}:{deposit.sender}"):
            blocked.add(deposit.sender)
    return frozenset(blocked)


def _build_view(  # noqa: PLR0917  (one of each, none alike)
    app: ChainContext,
    payment: Payment,
    opened: OpenedAddress,
    recorded: Sequence[RecordedDeposit],
    blocked: frozenset[str],
    min_value: int | None = None,
) -> AddressView | None:
    """Return the view of an address; None if its chain's settings no longer have addresses."""
    address, option = opened
    rail = app.rails.get(address.chain_id)
    if rail is None or rail.addresses is None:
        return None
    route = rail.addresses.get_route(option)
    own = [
        item.deposit
        for item in recorded
        if item.deposit.address == address.address and item.deposit.asset == option.asset
    ]
    totals = compute_totals(option.value, own, blocked)
    return AddressView(
        address=option.account.rpartition(":")[2],
        asset=option.asset,
        value=option.value,
        uri=rail.addresses.format_uri(option, totals.missing or option.value),
        expires_at=option.expires_at or payment.expires_at,
        route=route,
        totals=totals,
        min_value=min_value,
    )


def _list_payers(
    payment: Payment,
    opened: Sequence[OpenedAddress],
    recorded: Sequence[RecordedDeposit],
    blocked: frozenset[str],
) -> tuple[str, ...]:
    """Return whose money was, or is being, forwarded for a payment."""
    paid = next((item for item in opened if item.option.id == payment.option_id), None)
    if paid is None:
        return ()
    own = [
        item.deposit
        for item in recorded
        if item.deposit.address == paid.address.address
        and item.deposit.asset == paid.option.asset
        and item.deposit.sender not in blocked
    ]
    return tuple(f"{paid.address.chain_id}:{sender}" for sender in list_senders(own))
