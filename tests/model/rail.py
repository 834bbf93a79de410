"""A rail whose chain is the test: what a wallet must return and when a block comes is said here.

Everything above it (flows, store, settler, protocols) is the service's own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence

from florin_server.clock import Clock
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.caip import canonical_account
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Action, FreeNonce, Option, Payment, ResolvedBuild
from florin_server.domain.settlement.chain_txs import Accepted, ChainTx, PayerKind, Share
from florin_server.pricing.prices import Quote
from florin_server.rails.pace import PaceMeter
from florin_server.rails.types import (
    Asset,
    BlockView,
    Commitment,
    Fact,
    Glance,
    Head,
    Mined,
    NodeState,
    Paid,
    Payable,
    SeenHead,
    Shortage,
    Signed,
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
    """The one output that pays an option."""
    half = _hash("signature", option_id)[2:]
    return f"0x{half}{half}1b"


class FakeRail:
    """One chain in memory. A block is sealed by `mine` only, at the clock's time."""

    live = False
    open_max = 16
    confirmations = reorg_depth = 1
    stale_blocks = 3
    eta_s = 1
    agreement = 1
    disagreement = ""
    stalled = ""
    chain_id = CHAIN
    senders = (SENDER,)
    treasury = f"{CHAIN}:{SENDER}"
    reserved: Mapping[str, str] = {}
    native_asset = f"{CHAIN}/slip44:60"
    pegs: Mapping[str, str | None] = {ASSET: "USD"}
    payouts = None
    durable_nonces = None
    token_accounts = None
    faucet = None

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pace = PaceMeter()
        # it plays every role that it has by itself
        self.offers = self.terms = self.verifier = self.relay = self.observer = self.nodes = self
        self.blocks = self.direct = self.account_nonces = self.gas = self
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
        self._signed: dict[bytes, tuple[int, tuple[Accepted, ...], str]] = {}
        self._pool: dict[bytes, None] = {}
        self._mined: dict[str, Mined] = {}
        self._paid: dict[str, Paid] = {}
        self._sealed = 0
        self._sealed_blocks = [BlockView(0, _hash("block", 0), _hash("none"), self._now(), (), ())]

    def _now(self) -> int:
        return self._clock.now_us() // 1_000_000

    def mine(self) -> None:
        """Seals a block of all that was broadcast; what has lapsed moves no money in it."""
        number = len(self._sealed_blocks)
        block_hash = _hash("block", number)
        paid: list[Paid] = []
        mined: list[Mined] = []
        for raw in self._pool:
            _, items, tx_hash = self._signed[raw]
            mined.append(Mined(tx_hash, number, block_hash, success=True, gas_cost=0))
            options = [item.option for item in items if self._now() < _until(item.option)]
            paid += [self._event(option, tx_hash, number, block_hash) for option in options]
        self._sealed += len(self._pool)
        self._pool.clear()
        self._mined.update((one.tx_hash, one) for one in mined)
        self._paid.update((one.ref, one) for one in paid)
        parent = self._sealed_blocks[-1].hash
        view = BlockView(number, block_hash, parent, self._now(), tuple(paid), tuple(mined))
        self._sealed_blocks.append(view)

    def _event(self, option: Option, tx_hash: str, number: int, block_hash: str) -> Paid:
        split = self.split(option)
        return Paid(
            ref=self.reference(option),
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

    async def problems(self) -> tuple[str, ...]:
        return ()

    def states(self) -> Sequence[NodeState]:
        return ()

    @property
    def calls_by_method(self) -> Mapping[str, int]:
        return {}

    async def wait_for_block(self, waiter: str = "") -> None:
        # the test tells when there is something to look at; this is for turns that came to nothing
        await asyncio.sleep(_TURN_S)

    def depth_of(self, asset: str, value: int) -> int:
        return self.confirmations

    def extra_wait_s(self, asset: str, value: int) -> int:
        return 0

    async def agreed(self, facts: Collection[Fact]) -> Mapping[Fact, bool]:
        return dict.fromkeys(facts, True)

    def list_seen(self) -> Sequence[SeenHead]:
        return ()

    async def restore_seen(self, heads: Sequence[SeenHead]) -> None:
        assert not heads, "nothing was kept"

    async def glance(self, since: int) -> Glance:
        newest = self._sealed_blocks[-1]
        quiet = not any(one.paid for one in self._sealed_blocks[since + 1 :])
        return Glance(await self.head(), newest.parent_hash, quiet)

    def is_deep(self, paid: Paid, head: int) -> bool:
        return True

    async def replaced(self, number: int, block_hash: str) -> bool:
        return True

    async def shortages(self) -> tuple[Shortage, ...]:
        return ()

    async def close(self) -> None:
        pass

    def payer(self, account: str) -> str | None:
        return canonical_account(account) if account.startswith(CHAIN + ":0x") else None

    async def payable(
        self, payers: Sequence[str], prices: Mapping[str, int], by_hand: Collection[str] = ()
    ) -> list[Payable]:
        return [Payable(payer, asset) for payer in payers for asset in prices]

    async def obstacle(
        self, asset: Asset, value: int, split: Split, openable: Collection[AssetAccount] = ()
    ) -> str | None:
        return None

    def offer(
        self,
        payment: Payment,
        account: str,
        means: Payable,
        asset: Asset,
        value: int,
        split: Split,
        now_us: int,
        quote: Quote | None = None,
    ) -> Option:
        payer = means.payer
        option_id = "opt_" + _hash(payment.id, payer, asset.id, value)[2:34]
        params = json.dumps([payer.rpartition(":")[2], json.dumps({"option": option_id})])
        return Option(
            id=option_id,
            payment_id=payment.id,
            account=account,
            payer=payer,
            chain_id=CHAIN,
            asset=asset.id,
            value=value,
            eta_s=1,
            expires_at=None,
            method="eip3009",
            actions=(Action(CHAIN, "eth_signTypedData_v4", params),),
            terms={
                "ref": _hash("reference", option_id),
                "until": payment.expires_at + GRACE_S,
                "dest": split.dest,
                "settled": split.settled,
            },
            created_at_us=now_us,
            reference=_hash("reference", option_id),
        )

    async def build(
        self,
        option: Option,
        issued: Sequence[ResolvedBuild],
        now_us: int,
        spare: FreeNonce | None = None,
        openable: Collection[AssetAccount] = (),
    ) -> ResolvedBuild | None:
        raise AssertionError("every action is inline")

    def is_direct(self, option: Option) -> bool:
        return False

    def plausible(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> bool | None:
        return list(outputs) == [json.dumps(signature(option.id))] or None

    async def verify(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> PayerKind:
        if [json.loads(one) for one in outputs] != [signature(option.id)]:
            reason = {"reason": "signature_mismatch"}
            raise FlorinError(Code.INVALID_PARAMS, "The signature is not good", details=reason)
        return PayerKind.KEY

    def reference(self, option: Option) -> str:
        return str(option.terms["ref"])

    def split(self, option: Option) -> Split:
        return Split(str(option.terms["dest"]), None, 0, bool(option.terms["settled"]))

    def commitment(self, option: Option) -> Commitment:
        return Commitment(None, str(option.terms["dest"]), None, None)

    def last_second(self, option: Option) -> int | None:
        return None

    def proves(self, option: Option, paid: Paid) -> bool:
        return paid.ref == self.reference(option) and paid.value == option.value

    def resembles(self, option: Option, paid: Paid) -> bool:
        return False

    def batches(self, items: Sequence[Accepted]) -> list[Sequence[Accepted]]:
        return [items] if items else []

    async def look(self, items: Sequence[Accepted]) -> list[Accepted]:
        return list(items)

    async def had_too_little_gas(self, item, had) -> bool:
        return False

    def share(self, item: Accepted) -> Share:
        return Share(PayerKind.KEY, 0)

    async def simulate(self, items: Sequence[Accepted], sender: str | None = None) -> list[bool]:
        return [self._now() < _until(item.option) for item in items]

    async def next_nonce(self, sender: str) -> int:
        return self._sealed + len(self._pool)

    async def sign(self, sender: str, nonce: int, items: Sequence[Accepted]) -> Signed:
        tx_hash = _hash("transaction", nonce, [item.payment.id for item in items])
        raw = tx_hash.encode()
        self._signed[raw] = (nonce, tuple(items), tx_hash)
        return Signed(raw, tx_hash)

    async def fill(self, sender: str, nonce: int) -> Signed:
        return await self.sign(sender, nonce, ())

    async def bump(self, tx: ChainTx) -> Signed:
        raise AssertionError("the next block takes all that was sent")

    async def broadcast(self, raw: bytes) -> None:
        if self._signed[raw][2] not in self._mined:
            self._pool[raw] = None

    async def knows(self, tx_hash: str) -> bool:
        return tx_hash in self._mined or tx_hash.encode() in self._pool

    async def nonce_used(self, sender: str, nonce: int) -> bool:
        return nonce < self._sealed

    async def head(self) -> Head:
        newest = self._sealed_blocks[-1]
        return Head(newest.number, newest.hash, newest.time)

    async def block(self, number: int) -> BlockView | None:
        return self._sealed_blocks[number] if number < len(self._sealed_blocks) else None

    async def mined(self, tx_hashes: Sequence[str]) -> dict[str, Mined]:
        return {one: self._mined[one] for one in tx_hashes if one in self._mined}

    async def paid(self, references: Sequence[str], from_block: int) -> list[Paid]:
        found = [self._paid[one] for one in references if one in self._paid]
        return [one for one in found if one.block_number >= from_block]

    async def holdings(self, places: Collection[tuple[str, str]], least: int) -> dict:
        return dict.fromkeys(places, 0)

    async def paid_between(self, first: int, last: int) -> list[Paid]:
        return [one for one in self._paid.values() if first <= one.block_number <= last]

    async def find(self, items: Sequence[Accepted]) -> list[Paid]:
        return await self.paid([self.reference(item.option) for item in items], 0)

    async def cannot_be_mined(self, tx: ChainTx, issued: Sequence[ResolvedBuild]) -> bool:
        return await self.nonce_used(tx.sender, tx.nonce)

    async def is_paid(self, option: Option) -> bool:
        return False

    async def unpayable_reason(self, item: Accepted, issued: Sequence[ResolvedBuild]) -> str | None:
        if self.reference(item.option) in self._paid:
            return "used"
        return "lapsed" if self._sealed_blocks[-1].time >= _until(item.option) else None


def _until(option: Option) -> int:
    return int(str(option.terms["until"]))
