"""A rail whose chain is the test, which sets the outputs of wallets and the time of blocks.

Everything above it (services, stores, settler, protocols) is the service's own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence

from florin_server.base.clock import Clock
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.caip import canonicalize_account
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.node_hours import NodeActivity
from florin_server.domain.payments.payment import (
    Action,
    FreeNonce,
    PaymentOption,
    ResolvedBuild,
)
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    GasShare,
    PayerKind,
    SettlementItem,
)
from florin_server.rails.option_offer import OptionOffer, OptionOutline
from florin_server.rails.pace import PaceMeter
from florin_server.rails.types import (
    Asset,
    BlockView,
    ChainFact,
    ChainHead,
    GasShortage,
    HeadUpdate,
    MinedTransaction,
    NodeState,
    ObservedHead,
    OptionCommitment,
    PayableAsset,
    SettlementEvent,
    SignedTransaction,
    Split,
)

CHAIN = "eip155:31337"
TOKEN = "0x" + "70" * 20
ASSET = f"{CHAIN}/erc20:{TOKEN}"
SENDER = "0x" + "5e" * 20
GRACE_S = 300
_TURN_S = 0.05


def _hash(*parts: object) -> str:
    return "0x" + hashlib.sha256(repr(parts).encode()).hexdigest()


def signature(option_id: str) -> str:
    """Return the one output that pays an option."""
    half = _hash("signature", option_id)[2:]
    return f"0x{half}{half}1b"


class FakeRail:
    """A chain in memory. Only `mine` seals blocks, at the clock's time."""

    live = False
    open_max = 16
    confirmations = reorg_depth = 1
    stale_blocks = 3
    eta_s = 1
    agreement = 1
    disagreement = ""
    stall_problem = ""
    chain_id = CHAIN
    senders = (SENDER,)
    treasury = f"{CHAIN}:{SENDER}"
    reserved_accounts: Mapping[str, str] = {}
    native_asset = f"{CHAIN}/slip44:60"
    pegs: Mapping[str, str | None] = {ASSET: "USD"}
    payouts = None
    durable_nonces = None
    token_accounts = None
    transaction_requests = transfer_requests = None
    deposits = None
    sweeper = None
    addresses = None
    faucet = None

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pace = PaceMeter()
        # one object has all roles
        self.offers = self.terms = self.verifier = self.relay = self.observer = self.nodes = self
        self.blocks = self.direct_settlement = self.account_nonces = self.gas = self
        self.assets: Mapping[str, Asset] = {
            ASSET: Asset(
                id=ASSET,
                chain_id=CHAIN,
                address=TOKEN,
                name="Test dollar",
                symbol="TUSD",
                decimals=6,
                peg="USD",
                method="eip3009",
                domain_name="Test dollar",
                domain_version="1",
                network_name="Test chain",
            )
        }
        self._signed: dict[bytes, tuple[int, tuple[SettlementItem, ...], str]] = {}
        self._pool: dict[bytes, None] = {}
        self._mined: dict[str, MinedTransaction] = {}
        self._paid: dict[str, SettlementEvent] = {}
        self._sealed = 0
        self._sealed_blocks = [BlockView(0, _hash("block", 0), _hash("none"), self._now(), (), ())]

    def _now(self) -> int:
        return self._clock.now_us() // 1_000_000

    def mine(self) -> None:
        """Seal a block of all broadcast transactions; lapsed ones move no money."""
        number = len(self._sealed_blocks)
        block_hash = _hash("block", number)
        paid: list[SettlementEvent] = []
        mined: list[MinedTransaction] = []
        for raw in self._pool:
            _, items, tx_hash = self._signed[raw]
            mined.append(MinedTransaction(tx_hash, number, block_hash, success=True, gas_cost=0))
            options = [item.option for item in items if self._now() < _until(item.option)]
            paid += [self._event(option, tx_hash, number, block_hash) for option in options]
        self._sealed += len(self._pool)
        self._pool.clear()
        self._mined.update(
            (mined_transaction.tx_hash, mined_transaction) for mined_transaction in mined
        )
        self._paid.update((event.ref, event) for event in paid)
        parent = self._sealed_blocks[-1].hash
        view = BlockView(number, block_hash, parent, self._now(), tuple(paid), tuple(mined))
        self._sealed_blocks.append(view)

    def _event(
        self, option: PaymentOption, tx_hash: str, number: int, block_hash: str
    ) -> SettlementEvent:
        split = self.get_split(option)
        return SettlementEvent(
            ref=self.get_reference(option),
            tx_hash=tx_hash,
            block_number=number,
            block_hash=block_hash,
            payer=option.payer,
            dest=split.dest,
            fee_to=split.fee_to or "",
            token=TOKEN,
            value=option.value,
            fee=split.fee,
            nonce="",
        )

    async def start(self) -> None:
        pass

    async def list_problems(self) -> tuple[str, ...]:
        return ()

    def list_states(self) -> Sequence[NodeState]:
        return ()

    def record_checks(self) -> None:
        pass

    def take_activities(self) -> Mapping[str, NodeActivity]:
        return {}

    @property
    def calls_by_method(self) -> Mapping[str, int]:
        return {}

    async def wait_for_block(self, waiter: str = "") -> None:
        # the test signals new work; this pause is for turns without a result
        await asyncio.sleep(_TURN_S)

    def depth_of(self, asset: str, value: int) -> int:
        return self.confirmations

    def extra_wait_s(self, asset: str, value: int) -> int:
        return 0

    async def confirm_facts(self, facts: Collection[ChainFact]) -> Mapping[ChainFact, bool]:
        return dict.fromkeys(facts, True)

    def list_observed_heads(self) -> Sequence[ObservedHead]:
        return ()

    async def restore_observed_heads(self, heads: Sequence[ObservedHead]) -> None:
        assert not heads, "nothing was kept"

    async def poll_head(self, since: int) -> HeadUpdate:
        newest = self._sealed_blocks[-1]
        quiet = not any(block.events for block in self._sealed_blocks[since + 1 :])
        return HeadUpdate(await self.get_head(), newest.parent_hash, quiet)

    def is_deep(self, event: SettlementEvent, head: int) -> bool:
        return True

    async def is_replaced(self, number: int, block_hash: str) -> bool:
        return True

    async def list_shortages(self) -> tuple[GasShortage, ...]:
        return ()

    async def close(self) -> None:
        pass

    def find_payer(self, account: str) -> str | None:
        return canonicalize_account(account) if account.startswith(CHAIN + ":0x") else None

    async def list_payable(
        self, payers: Sequence[str], prices: Mapping[str, int], manual_payers: Collection[str] = ()
    ) -> list[PayableAsset]:
        return [PayableAsset(payer, asset) for payer in payers for asset in prices]

    async def check_receivable(
        self,
        asset: Asset,
        value: int,
        split: Split,
        openable_accounts: Collection[AssetAccount] = (),
    ) -> str | None:
        return None

    def outline_option(self, offer: OptionOffer) -> OptionOutline:
        return OptionOutline(
            "opt_" + _hash(offer.payment.id, offer.payer, offer.asset.id, offer.value)[2:34], 1
        )

    def build_option(self, offer: OptionOffer) -> PaymentOption:
        payment, payer, asset, value = offer.payment, offer.payer, offer.asset, offer.value
        option_id, eta_s = self.outline_option(offer)
        params = json.dumps([payer.rpartition(":")[2], json.dumps({"option": option_id})])
        return PaymentOption(
            id=option_id,
            payment_id=payment.id,
            account=offer.account,
            payer=payer,
            chain_id=CHAIN,
            asset=asset.id,
            value=value,
            eta_s=eta_s,
            expires_at=None,
            method="eip3009",
            actions=(Action(CHAIN, "eth_signTypedData_v4", params),),
            terms={
                "ref": _hash("reference", option_id),
                "until": payment.expires_at + GRACE_S,
                "dest": offer.split.dest,
                "settled": offer.split.settled,
            },
            created_at_us=offer.now_us,
            reference=_hash("reference", option_id),
        )

    async def resolve_build(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        now_us: int,
        free_nonce: FreeNonce | None = None,
        openable_accounts: Collection[AssetAccount] = (),
    ) -> ResolvedBuild | None:
        raise AssertionError("every action is inline")

    def is_direct(self, option: PaymentOption) -> bool:
        return False

    def is_plausible(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        outputs: Sequence[str],
    ) -> bool | None:
        return list(outputs) == [json.dumps(signature(option.id))] or None

    async def verify(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        outputs: Sequence[str],
    ) -> PayerKind:
        if [json.loads(output) for output in outputs] != [signature(option.id)]:
            reason = {"reason": "signature_mismatch"}
            raise ApiError(ErrorCode.INVALID_PARAMS, "The signature is not good", details=reason)
        return PayerKind.KEY

    def get_reference(self, option: PaymentOption) -> str:
        return str(option.terms["ref"])

    def get_split(self, option: PaymentOption) -> Split:
        return Split(str(option.terms["dest"]), None, 0, bool(option.terms["settled"]))

    def get_commitment(self, option: PaymentOption) -> OptionCommitment:
        return OptionCommitment(None, str(option.terms["dest"]), None, None)

    def find_last_second(self, option: PaymentOption) -> int | None:
        return None

    def is_proven(self, option: PaymentOption, event: SettlementEvent) -> bool:
        return event.ref == self.get_reference(option) and event.value == option.value

    def is_resembled(self, option: PaymentOption, event: SettlementEvent) -> bool:
        return False

    def split_into_batches(self, items: Sequence[SettlementItem]) -> list[Sequence[SettlementItem]]:
        return [items] if items else []

    async def refresh_payers(self, items: Sequence[SettlementItem]) -> list[SettlementItem]:
        return list(items)

    async def is_short_of_gas(self, item, gas_share) -> bool:
        return False

    def get_gas_share(self, item: SettlementItem) -> GasShare:
        return GasShare(PayerKind.KEY, 0)

    async def simulate(
        self, items: Sequence[SettlementItem], sender: str | None = None
    ) -> list[bool]:
        return [self._now() < _until(item.option) for item in items]

    async def get_next_nonce(self, sender: str) -> int:
        return self._sealed + len(self._pool)

    async def sign(
        self, sender: str, nonce: int, items: Sequence[SettlementItem]
    ) -> SignedTransaction:
        tx_hash = _hash("transaction", nonce, [item.payment.id for item in items])
        raw = tx_hash.encode()
        self._signed[raw] = (nonce, tuple(items), tx_hash)
        return SignedTransaction(raw, tx_hash)

    async def sign_noop(self, sender: str, nonce: int) -> SignedTransaction:
        return await self.sign(sender, nonce, ())

    async def bump_fee(self, tx: ChainTx) -> SignedTransaction:
        raise AssertionError("the next block takes all that was sent")

    async def broadcast(self, raw: bytes) -> None:
        if self._signed[raw][2] not in self._mined:
            self._pool[raw] = None

    async def has_transaction(self, tx_hash: str) -> bool:
        return tx_hash in self._mined or tx_hash.encode() in self._pool

    async def is_nonce_used(self, sender: str, nonce: int) -> bool:
        return nonce < self._sealed

    async def get_head(self) -> ChainHead:
        newest = self._sealed_blocks[-1]
        return ChainHead(newest.number, newest.hash, newest.time)

    async def find_block(self, number: int) -> BlockView | None:
        return self._sealed_blocks[number] if number < len(self._sealed_blocks) else None

    async def find_mined(self, tx_hashes: Sequence[str]) -> dict[str, MinedTransaction]:
        return {tx_hash: self._mined[tx_hash] for tx_hash in tx_hashes if tx_hash in self._mined}

    async def list_settlement_events(
        self, references: Sequence[str], from_block: int
    ) -> list[SettlementEvent]:
        events = [self._paid[reference] for reference in references if reference in self._paid]
        return [event for event in events if event.block_number >= from_block]

    async def read_holdings(
        self, asset_accounts: Collection[tuple[str, str]], min_block: int
    ) -> dict:
        return dict.fromkeys(asset_accounts, 0)

    async def list_settlement_events_between(self, first: int, last: int) -> list[SettlementEvent]:
        return [event for event in self._paid.values() if first <= event.block_number <= last]

    async def find_settlement_events(
        self, items: Sequence[SettlementItem]
    ) -> list[SettlementEvent]:
        return await self.list_settlement_events(
            [self.get_reference(item.option) for item in items], 0
        )

    async def cannot_be_mined(self, tx: ChainTx, resolved_builds: Sequence[ResolvedBuild]) -> bool:
        return await self.is_nonce_used(tx.sender, tx.nonce)

    async def is_paid(self, option: PaymentOption) -> bool:
        return False

    async def find_unpayable_reason(
        self, item: SettlementItem, resolved_builds: Sequence[ResolvedBuild]
    ) -> str | None:
        if self.get_reference(item.option) in self._paid:
            return "used"
        return "lapsed" if self._sealed_blocks[-1].time >= _until(item.option) else None


def _until(option: PaymentOption) -> int:
    return int(str(option.terms["until"]))
