"""Reports about money at payments' own addresses, of which merchants are notified."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import is_blocked
from florin_server.domain.payments.deposits import (
    Deposit,
    DepositReport,
    compute_totals,
    list_senders,
)
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.money.payments.store.deposit_events import NamedReport, name_deposit

_SEEN: Final = PaymentStateEvent.DEPOSIT_SEEN


class AddressPrice(NamedTuple):
    """The price at an address of a payment: minor units of an asset (CAIP-19)."""

    payment_id: str
    asset: str
    value: int


async def build_seen_reports(  # noqa: PLR0917  (one of each, none alike)
    app: ScreeningContext,
    chain_id: str,
    price: AddressPrice,
    arrived: Sequence[Deposit],
    new: Collection[Deposit],
    final_block: int,
) -> list[NamedReport]:
    """Return the reports of new deposits at one address; `arrived` are all deposits in their order.

    Each has the totals after it. Blocked money does not count.
    """
    senders = list_senders(arrived) if new else ()
    blocked = [sender for sender in senders if await is_blocked(app, f"{chain_id}:{sender}")]
    reports = []
    for index, deposit in enumerate(arrived):
        if deposit not in new:
            continue
        paying = [item for item in arrived[: index + 1] if item.asset == price.asset]
        totals = compute_totals(price.value, paying, blocked)
        report = DepositReport(
            address=f"{chain_id}:{deposit.address}",
            asset=deposit.asset,
            value=deposit.value,
            sender=f"{chain_id}:{deposit.sender}" if deposit.sender else None,
            tx_hash=deposit.tx_hash or None,
            is_final=deposit.block_number <= final_block,
            route_asset=price.asset,
            received=totals.received,
            missing=totals.missing,
            over=totals.over,
        )
        name = name_deposit(chain_id, deposit)
        reports.append(NamedReport(price.payment_id, name, _SEEN, report))
    return reports
