"""Convert payments' own addresses, and the money there, to messages."""

from __future__ import annotations

from collections.abc import Callable

from florin.v1 import address_pb2, money_pb2

from florin_server.domain.caip import format_checksum_address
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.money.payments.service.address_state import AddressView, DepositView


def to_pay_address(
    view: AddressView, to_amount: Callable[[str, int], money_pb2.Amount]
) -> address_pb2.PayAddress:
    """Return an address to which a payment can be sent."""
    totals = view.totals
    return address_pb2.PayAddress(
        address=view.address,
        asset=view.asset,
        amount=to_amount(f"caip19/{view.asset}", view.value),
        uri=view.uri,
        expires_at=view.expires_at,
        min_amount=None if view.min_value is None else str(view.min_value),
        route=_to_route(view.route),
        received=str(totals.received),
        missing=str(totals.missing),
        over=str(totals.over),
    )


def _to_route(route: ForwardRoute) -> address_pb2.AddressRoute:
    return address_pb2.AddressRoute(
        forwarder=format_checksum_address(route.forwarder),
        chain_id=route.chain_id,
        token=format_checksum_address(route.token),
        value=str(route.value),
        valid_before=route.valid_before,
        dest=format_checksum_address(route.dest),
        fee_to=format_checksum_address(route.fee_to),
        fee=str(route.fee),
        ref="0x" + route.ref.hex(),
        home=format_checksum_address(route.home),
    )


def to_deposit(view: DepositView) -> address_pb2.PaymentDeposit:
    """Return money that arrived at an address."""
    deposit = view.recorded.deposit
    return address_pb2.PaymentDeposit(
        tx_id=deposit.tx_hash,
        sender=view.sender,
        address=view.address,
        asset=deposit.asset,
        amount=str(deposit.value),
        is_final=bool(view.recorded.is_final),
        returned_by=view.recorded.returned_by,
    )
