"""Everything that the settlement of one chain shares, in one value."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Protocol, Self

from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.settlement.chain_txs import ReorgWatcher
from florin_server.money.context import UsageContext
from florin_server.money.settlement.worker.address_payments import AddressPayments
from florin_server.money.settlement.worker.blocked_payers import BlockedPayers
from florin_server.money.settlement.worker.blocks import ChainFollower, create_follower
from florin_server.money.settlement.worker.direct_payments import DirectPayments
from florin_server.money.settlement.worker.durable_nonces import DurableNonceKeeper
from florin_server.money.settlement.worker.gas_spending import GasBudgets
from florin_server.money.settlement.worker.missed_blocks import MissedBlocks
from florin_server.money.settlement.worker.observations import ChainObservations
from florin_server.money.settlement.worker.open_payments import OpenPayments
from florin_server.money.settlement.worker.reorg_watch import ReorgWatch
from florin_server.money.settlement.worker.requested_payments import RequestedPayments
from florin_server.money.settlement.worker.senders import SenderPool
from florin_server.money.settlement.worker.stray_money import StrayMoney
from florin_server.money.settlement.worker.token_accounts import TokenAccountKeeper
from florin_server.money.x402.worker import FacilitatedTransfers
from florin_server.operations.context import QuarantineContext
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.settings.context import SettingsContext


class SettlementApp(
    ChainContext,
    EventContext,
    MeterContext,
    QuarantineContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    Protocol,
):
    """The parts of the application with which payments are settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementContext:
    """The parts of one chain's settlement; each exists once, and its users share it."""

    app: SettlementApp
    rail: Rail
    follower: ChainFollower
    open_payments: OpenPayments
    senders: SenderPool
    direct_payments: DirectPayments
    requested_payments: RequestedPayments
    address_payments: AddressPayments
    missed_blocks: MissedBlocks
    blocked_payers: BlockedPayers
    gas_budgets: GasBudgets
    durable_nonces: DurableNonceKeeper
    token_accounts: TokenAccountKeeper
    facilitated_transfers: FacilitatedTransfers
    stray_money: StrayMoney
    reorg_watch: ReorgWatch
    observations: ChainObservations

    @property
    def head(self) -> int:
        """Return the newest block that was seen; 0 if none was, or another process settles."""
        return self.follower.head if self.senders.list_leading() else 0

    @classmethod
    def create(
        cls,
        app: SettlementApp,
        rail: Rail,
        owner: str,
        pauses: Container[str],
        wake: Callable[[], None],
    ) -> Self:
        """Create all parts; `owner`, `pauses` and `wake` are those of the keys."""
        follower = create_follower(rail)
        open_payments = OpenPayments(app, rail, follower)
        reorg_watch = ReorgWatch(app, rail, follower, ReorgWatcher.SETTLER)
        address_payments = AddressPayments(app, rail, follower)
        direct_payments = DirectPayments(app, rail, follower, address_payments)
        return cls(
            app=app,
            rail=rail,
            follower=follower,
            open_payments=open_payments,
            senders=SenderPool(
                app,
                rail,
                owner,
                follower,
                may_send=open_payments.may_send,
                wake=wake,
                pauses=pauses,
            ),
            direct_payments=direct_payments,
            requested_payments=RequestedPayments(app, rail, direct_payments),
            address_payments=address_payments,
            missed_blocks=MissedBlocks(app, rail, follower, direct_payments),
            blocked_payers=BlockedPayers(app),
            gas_budgets=GasBudgets(app, rail),
            durable_nonces=DurableNonceKeeper(app, rail),
            token_accounts=TokenAccountKeeper(app, rail),
            facilitated_transfers=FacilitatedTransfers(app, rail),
            stray_money=StrayMoney(app, rail, reorg_watch),
            reorg_watch=reorg_watch,
            observations=ChainObservations(app, rail),
        )
