"""Books what went home from payments' addresses, and returns it to its senders or holds it.

The senders are those of the chain's transfers, the last one first, as far as nodes agree on them.
Exchanges and other contracts may not credit it to the buyer, and some coin has no sender: such
money is held until the operator names an account.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

from florin_server.accounts.service.own_accounts import find_reserved_role
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import describe_block, is_blocked
from florin_server.db.context import StorageContext
from florin_server.domain.ids import generate_short_id
from florin_server.domain.ledger import journals, postings
from florin_server.domain.payments.deposits import (
    UNKNOWN_SENDER,
    Deposit,
    DepositStack,
    ReturnShare,
    explain_unknown,
    list_senders,
    merge_shares,
)
from florin_server.domain.payouts.deposit_claims import (
    SENDER_IS_CONTRACT,
    SENDER_IS_EXCHANGE,
    SENDER_NOT_SHOWN,
)
from florin_server.domain.payouts.held_money import HeldMoney, HeldMoneyState
from florin_server.domain.settlement.chain_txs import WatchedTransaction
from florin_server.money.payments.store import deposits as recorded_deposits
from florin_server.money.payments.store.deposit_events import NamedReport
from florin_server.money.payouts.service.held_money import build_payout
from florin_server.money.settlement.store import address_sweeps
from florin_server.money.settlement.store.address_sweeps import AddressLook, StrayShare
from florin_server.money.settlement.worker.deposit_reports import (
    AddressPrice,
    build_seen_reports,
)
from florin_server.money.settlement.worker.reorg_watch import ReorgWatch
from florin_server.rails.address_roles import DepositReader
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import (
    NO_TOKEN,
    AddressActivity,
    HomeTransfer,
    RailUnavailable,
    SettlementEvent,
)
from florin_server.settings.context import SettingsContext

_log = logging.getLogger(__name__)

_RETURNED_NOTE: Final = "returned automatically"
_KEPT_NOTE: Final = "too small to return automatically"


class _Context(
    ChainContext, EventContext, ScreeningContext, SettingsContext, StorageContext, Protocol
):
    """The parts of the application that this module uses."""


_Step: TypeAlias = Deposit | SettlementEvent | HomeTransfer
# within a block, money comes before it leaves
_ORDER: Final = (Deposit, SettlementEvent, HomeTransfer)


@dataclass(frozen=True, slots=True)
class _Stray:
    """The money of one asset that one transaction moved home from an address, by sender."""

    tx_hash: str
    block_number: int
    block_hash: str
    home: str
    asset: str
    shares: tuple[ReturnShare, ...]

    @property
    def value(self) -> int:
        return sum(share.value for share in self.shares)


class StrayReturns:
    """The returns of one chain. `is_worth` says whether an asset's value is worth a transaction."""

    def __init__(
        self,
        app: _Context,
        rail: Rail,
        deposits: DepositReader,
        reorg_watch: ReorgWatch,
        is_worth: Callable[[str, int], bool],
    ) -> None:
        self._app = app
        self._is_worth = is_worth
        self._rail = rail
        self._deposits = deposits
        self._reorg_watch = reorg_watch

    async def record(self, look: AddressLook, transfers: Collection[HomeTransfer]) -> None:
        """Book final transfers home from an address, each once.

        Raise RailUnavailable until as many nodes as must agree confirm them, and all that came.
        """
        activity = await self._read_history(look)
        facts: set[Deposit | HomeTransfer] = {
            *(deposit for deposit in activity.deposits if deposit.tx_hash),
            *activity.home_transfers,
        }
        verdicts = await self._rail.observer.confirm_facts(facts)
        if not all(verdicts.get(fact) for fact in facts):
            raise RailUnavailable(f"nodes do not confirm what came to {look.address} yet")
        expected = {
            (transfer.tx_hash, self._deposits.get_asset(transfer.token)) for transfer in transfers
        }
        senders = list_senders(activity.deposits)
        chain_id = self._rail.chain_id
        blocked = {item for item in senders if await is_blocked(self._app, f"{chain_id}:{item}")}
        for stray in self._attribute(activity, blocked):
            if (stray.tx_hash, stray.asset) in expected:
                await self._record(look, stray, await self._build_reports(look, stray, activity))

    async def _build_reports(
        self, look: AddressLook, stray: _Stray, activity: AddressActivity
    ) -> list[NamedReport]:
        """Return the reports of deposits that went home, also of those that were reported."""
        # what has no transaction was perhaps reported in another block
        swept = {deposit for share in stray.shares for deposit in share.deposits if deposit.tx_hash}
        price = AddressPrice(look.payment.id, look.option.asset, look.option.value)
        arrived = sorted(activity.deposits, key=lambda deposit: deposit.block_number)
        return await build_seen_reports(
            self._app, self._rail.chain_id, price, arrived, swept, activity.final
        )

    async def _read_history(self, look: AddressLook) -> AddressActivity:
        """Return what moved to and from an address up to the newest final block, in its order."""
        is_of_route = look.route_chain_id == self._rail.chain_id
        # on another chain nothing was watched, so all senders before the first look are unknown
        first = start = look.from_block if is_of_route else (look.read_to or 0) + 1
        deposits: list[Deposit] = []
        payments: list[SettlementEvent] = []
        transfers: list[HomeTransfer] = []
        while True:
            part = await self._deposits.read_activity([look.address], first)
            deposits += [item for item in part.deposits if item.block_number <= part.final]
            payments += [item for item in part.payments if item.block_number <= part.final]
            transfers += [item for item in part.home_transfers if item.block_number <= part.final]
            if part.last >= part.final:
                break
            first = part.last + 1
        activity = AddressActivity(
            start, part.final, part.final, tuple(deposits), tuple(payments), tuple(transfers)
        )
        coin = self._deposits.get_asset(NO_TOKEN)
        if not any(self._deposits.get_asset(transfer.token) == coin for transfer in transfers):
            return activity
        coins = await self._deposits.find_coin_deposits({look.address: 0}, activity)
        if is_of_route and any(not deposit.sender for deposit in coins):
            recorded = await self._app.store.read(
                recorded_deposits.list_of_addresses(self._rail.chain_id, [look.address])
            )
            seen = [item.deposit for item in recorded if item.is_final]
            coins = explain_unknown(coins, [item for item in seen if item.asset == coin])
        return replace(activity, deposits=(*deposits, *coins))

    def _attribute(self, activity: AddressActivity, blocked: Collection[str]) -> list[_Stray]:
        """Return the senders of what each transaction moved home: the last one first."""
        get_asset = self._deposits.get_asset
        stacks: dict[str, DepositStack] = defaultdict(DepositStack)
        strays: dict[tuple[str, str], _Stray] = {}
        steps: list[_Step] = sorted(
            (*activity.deposits, *activity.payments, *activity.home_transfers),
            key=lambda step: (step.block_number, _ORDER.index(type(step))),
        )
        for step in steps:
            if isinstance(step, Deposit):
                stacks[step.asset].add(step)
            elif isinstance(step, SettlementEvent):
                stacks[get_asset(step.token)].pay(step.value, blocked)
            else:
                asset = get_asset(step.token)
                earlier = strays.get((step.tx_hash, asset))
                shares = (*(earlier.shares if earlier else ()), *stacks[asset].sweep(step.value))
                strays[step.tx_hash, asset] = _Stray(
                    step.tx_hash,
                    step.block_number,
                    step.block_hash,
                    step.home,
                    asset,
                    tuple(merge_shares(shares)),
                )
        return list(strays.values())

    async def _record(
        self, look: AddressLook, stray: _Stray, reports: Sequence[NamedReport]
    ) -> None:
        app, now_us, chain_id = self._app, self._app.clock.now_us(), self._rail.chain_id
        address, home = f"{chain_id}:{look.address}", f"{chain_id}:{stray.home}"
        contracts = await self._deposits.find_contracts(
            [share.sender for share in stray.shares if share.sender]
        )
        refund_account = look.refund_account
        if refund_account is not None and self._rail.find_payer(refund_account) is None:
            refund_account = None  # of another chain
        held_by_sender: dict[str, int] = {}
        shares: list[StrayShare] = []
        refunded: list[ReturnShare] = []
        for share in stray.shares:
            sender = f"{chain_id}:{share.sender}" if share.sender else address
            if share.sender and (reason := await describe_block(app, sender)):
                held_by_sender[sender] = share.value
                held = self._build_held(look, stray, sender, share.value, reason)
                shares.append(StrayShare(held, share.deposits))
            elif refund_account is not None:
                refunded.append(share)
            else:
                reason = self._find_obstacle(home, share.sender, contracts)
                held = self._build_held(look, stray, sender, share.value, reason, address)
                shares.append(self._build_share(look, held, share.deposits))
        if refund_account is not None and refunded:
            reason = await describe_block(app, refund_account) or self._find_home_obstacle(home)
            total = sum(share.value for share in refunded)
            held = self._build_held(look, stray, refund_account, total, reason, address)
            origins = tuple(deposit for share in refunded for deposit in share.deposits)
            shares.append(self._build_share(look, held, origins))
        watched_txs = self._reorg_watch.list_new(
            [WatchedTransaction(stray.tx_hash, stray.block_number, stray.block_hash)]
        )
        entries = postings.build_stray_postings(
            home, address, stray.asset, stray.value, held_by_sender
        )
        key = journals.stray_key(stray.tx_hash, address, stray.asset)
        recorded = address_sweeps.record(
            key,
            look.payment.id,
            stray.tx_hash,
            entries,
            shares,
            reports,
            self._reorg_watch.record_watched(watched_txs),
            now_us,
        )
        if await app.store.write(recorded):
            self._reorg_watch.add(watched_txs)
            _log_shares(look, shares)
            app.notifier.publish(Topic.PAYOUTS_DUE)

    def _find_obstacle(self, home: str, sender: str, contracts: Collection[str]) -> str:
        """Return why money cannot be returned to its sender; empty if it can."""
        if sender == UNKNOWN_SENDER:
            return SENDER_NOT_SHOWN
        if sender in self._deposits.exchanges:
            return SENDER_IS_EXCHANGE
        if sender in contracts:
            return SENDER_IS_CONTRACT
        account = f"{self._rail.chain_id}:{sender}"
        if role := find_reserved_role(self._app.rails.values(), account):
            return f"sent by {role}"
        return self._find_home_obstacle(home)

    def _find_home_obstacle(self, home: str) -> str:
        is_treasury = home == self._rail.treasury and self._rail.payouts is not None
        return "" if is_treasury else f"moved to {home}, from which Florin pays nothing"

    def _build_held(  # noqa: PLR0917  (one of each, none alike)
        self,
        look: AddressLook,
        stray: _Stray,
        payer: str,
        value: int,
        reason: str,
        address: str | None = None,
    ) -> HeldMoney:
        return HeldMoney(
            id=generate_short_id("held_", self._app.randbytes),
            payment_id=look.payment.id,
            chain_id=self._rail.chain_id,
            asset=stray.asset,
            payer=payer,
            value=value,
            held=value,
            fee=0,
            settled_value=None,
            tx_hash=stray.tx_hash,
            event=f"{stray.tx_hash}:{look.address}:{stray.asset}:{payer}",
            late=True,
            why=reason,
            since_us=self._app.clock.now_us(),
            address=address,
        )

    def _build_share(
        self, look: AddressLook, held: HeldMoney, deposits: tuple[Deposit, ...]
    ) -> StrayShare:
        """Return a share that is held for a reason, or else with the payout that returns it."""
        if held.why:
            return StrayShare(held, deposits)
        if not self._is_worth(held.asset, held.held):
            # many small deposits must not cost the treasury a transaction each
            small = replace(
                held,
                state=HeldMoneyState.KEPT,
                why="not worth a transaction",
                note=_KEPT_NOTE,
                decided_at_us=held.since_us,
            )
            return StrayShare(small, deposits)
        payout = build_payout(self._app, held, look.payment, held.payer, held.since_us)
        returned = replace(
            held,
            state=HeldMoneyState.RETURNED,
            why="not part of the payment",
            note=_RETURNED_NOTE,
            decided_at_us=held.since_us,
            payout_id=payout.id,
        )
        return StrayShare(returned, deposits, payout)


def _log_shares(look: AddressLook, shares: Iterable[StrayShare]) -> None:
    for share in shares:
        held = share.held
        if share.payout is not None:
            text = "payment %s: %d of %s at its address were not part of it: payout %s returns them"
            _log.warning(text, look.payment.id, held.held, held.asset, share.payout.id)
        elif held.state is HeldMoneyState.HELD:
            text = "payment %s: %s holds %d of %s, %s, until you decide: see `florin payments held`"
            _log.error(text, look.payment.id, held.id, held.held, held.asset, held.why)
