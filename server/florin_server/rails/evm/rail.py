"""One EVM chain as the service sees it: signatures in, one settlement transaction out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.caip import canonical_account, parse_account
from florin_server.domain.payments.payment import FreeNonce, Option, Payment, ResolvedBuild
from florin_server.domain.settlement.chain_txs import Accepted, ChainTx, PayerKind, Share
from florin_server.pricing.prices import Quote
from florin_server.rails.connection.agreed_payouts import AgreedPayouts
from florin_server.rails.connection.coalesce import Shared
from florin_server.rails.connection.connected import Connected
from florin_server.rails.connection.faucet import Tap
from florin_server.rails.connection.jsonrpc import Rpc, Transport
from florin_server.rails.evm.family import NEW_BLOCKS, EvmFamily, block_mark
from florin_server.rails.evm.paying import direct
from florin_server.rails.evm.paying.erc6492 import opener_problem
from florin_server.rails.evm.paying.payable import means, sample
from florin_server.rails.evm.paying.terms import DIRECT_METHOD, Terms, bare, build_option
from florin_server.rails.evm.paying.verify import Verifier, plausible
from florin_server.rails.evm.reading.dry_run import DryRuns
from florin_server.rails.evm.reading.evidence import Evidence
from florin_server.rails.evm.reading.guards import NO_GUARD, UNGUARDED, Guards
from florin_server.rails.evm.reading.holdings import holdings
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.reading.reader import Reader
from florin_server.rails.evm.reading.refusals import Refusals
from florin_server.rails.evm.sending.fees import RecentFees
from florin_server.rails.evm.sending.payouts import EvmPayouts
from florin_server.rails.evm.sending.relay import Relay
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.setup import discovery
from florin_server.rails.evm.setup.faucet import EvmFaucet
from florin_server.rails.evm.setup.reserved import reserved
from florin_server.rails.protocol import Payouts
from florin_server.rails.types import (
    Asset,
    BlockView,
    Fact,
    Head,
    Mined,
    Paid,
    Payable,
    RailUnavailable,
    Signed,
    Split,
)

OPEN_MAX = 16  # what nodes keep of one account in any case (geth's slots), executable at once
BATCH_MAX = 50  # the service's own limit; a transaction of so many stays below every gas limit


class EvmRail(Connected):
    """Implements the Rail protocol over JSON-RPC.

    `signer` is the relayer, `more` are others of its kind: they pay for gas and can neither
    redirect nor keep a buyer's money. `treasury` is the key that pays out. A transport leads to a
    node of this process; without one the settings' URLs are used.
    """

    def __init__(
        self,
        chain: EvmChain,
        signer: Signer,
        transport: Transport | None = None,
        more: Sequence[Signer] = (),
        treasury: Signer | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.chain = chain
        family = EvmFamily(chain.name, chain.chain_id, chain.lag_max, chain.genesis)
        super().__init__(
            chain, family, transport, now=now, announcements=NEW_BLOCKS, mark=block_mark
        )
        self._senders = tuple(one.address for one in (signer, *more))
        self._reserved = reserved(chain, self._senders)
        if treasury is not None and treasury.address in self._senders:
            raise ValueError(f"{chain.name}: treasury and relayer need keys of their own")
        self._node = Node(self.rpc)
        self.reader = Reader(self._node, chain.name, way=chain.reads, multicall=chain.multicall3)
        self._payable: Shared[list[Payable]] = Shared()
        tap = Tap(self.rpc, chain.name, self._payable.forget)
        self.faucet = EvmFaucet(tap, self.native_asset) if chain.faucet else None
        fees = RecentFees(self._node, chain, now)
        runs = DryRuns(self._node, chain, fees, self._senders, now)
        self._relay = Relay(self._node, chain, (signer, *more), runs, self.reader)
        self._refusals = Refusals(self._node, chain, now)
        self._verifier = Verifier(self._node, chain, runs, self.reader, self._refusals)
        self._evidence = Evidence(self._node, chain, self._senders)
        self._treasury = EvmPayouts(self._node, chain, treasury) if treasury else None
        self._payouts = self._payouts_of(treasury) if treasury else None
        self._assets: Mapping[str, Asset] = {}
        self._guards: Guards = UNGUARDED
        self._passkeys = False
        self._head: Head | None = None

    @property
    def by_block(self) -> bool:
        """Blocks are read one by one."""
        return True

    @property
    def confirmations(self) -> int:
        """Blocks, counting its own, that make an event final."""
        return self.chain.confirmations

    @property
    def open_max(self) -> int:
        """Transactions of one key that may wait for a block at the same time."""
        return OPEN_MAX

    @property
    def senders(self) -> Sequence[str]:
        """Addresses that sign our settlements and pay their gas, lower-case."""
        return self._senders

    @property
    def reserved(self) -> Mapping[str, str]:
        """What is ours or the chain's own, by CAIP-10."""
        return self._reserved

    @property
    def payouts(self) -> Payouts | None:
        """What pays out of the treasury; None if its key is not here."""
        return self._payouts

    @property
    def nonces(self) -> None:
        """None: what is signed lapses by time, and lasts as long as its payment."""
        return None

    @property
    def receiving(self) -> None:
        """Nothing: every account can hold every token."""
        return None

    @property
    def native_asset(self) -> str:
        """CAIP-19 of the coin that pays gas."""
        return f"{self.chain.caip2}/slip44:{self.chain.native_slip44}"

    @property
    def assets(self) -> Mapping[str, Asset]:
        """The assets that passed the last check, by CAIP-19."""
        return self._assets

    async def start(self) -> None:
        """Checks chain id, contracts and every token; disables what does not match."""
        self._take(await self._inspect())
        await self._probe()

    async def problems(self) -> tuple[str, ...]:
        """Checks again; a chain that does not answer keeps the assets that it had."""
        await self.rpc.look()
        try:
            found = await self._inspect()
            self._take(found)
            if not self.reader.probed:
                await self._probe()
            return (*found.problems, *self._refusals.problems(), *await self.shortages())
        except RailUnavailable as fault:
            return (f"{self.chain.name}: {fault}",)

    async def shortages(self) -> tuple[str, ...]:
        """Which keys are running out of coin; one batched read."""
        return await self._relay.shortages()

    async def close(self) -> None:
        """Ends connections after the checks under way."""
        await self._verifier.close()
        await self.reader.close()
        await self._disconnect()

    def payer(self, account: str) -> str | None:
        """The canonical CAIP-10 of an account on this chain that may pay; None for all else."""
        try:
            if str(parse_account(account).chain) != self.chain.caip2:
                return None
            payer = canonical_account(account)
        except ValueError:
            return None
        return None if payer in self._reserved else payer

    async def payable(
        self,
        payers: Sequence[str],
        prices: Mapping[str, int],
        by_hand: Collection[str] = (),
    ) -> list[Payable]:
        """Who can pay what price: their balance covers it; one batched read."""
        assets = [self._assets[one] for one in prices if one in self._assets]
        if not payers or not assets:
            return []
        slow = frozenset(by_hand)
        key = (*payers, *((asset.id, prices[asset.id]) for asset in assets), slow)
        return await self._payable(
            key,
            lambda: means(
                self.reader,
                self.chain,
                payers,
                assets,
                prices,
                by_hand=slow,
                guards=self._guards,
                passkeys=self._passkeys,
            ),
        )

    async def obstacle(
        self,
        asset: Asset,
        value: int,  # noqa: ARG002
        split: Split,
        openable: Collection[AssetAccount] = (),  # noqa: ARG002
    ) -> str | None:
        """Whom the token refuses of the receivers, if it tells that; None if it does not.

        What else a destination's code refuses is seen when a payment is tried out.
        """
        guard = self._guards.get(asset.id, NO_GUARD)
        refusal = await self._refusals.receivers(asset, guard, split)
        return str(refusal) if refusal else None

    def offer(  # noqa: PLR0917  (one of each, none alike)
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
        """Builds an option; equal arguments, but for `now_us`, give equal ids and actions."""
        return build_option(
            self.chain,
            payment,
            account=account,
            means=means,
            asset=asset,
            value=value,
            split=split,
            now_us=now_us,
            quote=quote,
        )

    async def build(
        self,
        option: Option,
        issued: Sequence[ResolvedBuild],
        now_us: int,
        spare: FreeNonce | None = None,  # noqa: ARG002
        openable: Collection[AssetAccount] = (),  # noqa: ARG002
    ) -> ResolvedBuild | None:
        """Resolves the option's build, once and for all; None if it was."""
        if issued:
            return None
        return direct.issue(option, (await self.head()).number, now_us)

    def submits(self, option: Option) -> bool:
        """False if the buyer's wallet calls the settlement contract by itself."""
        return option.method != DIRECT_METHOD

    def plausible(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> bool | None:
        """Whether the outputs may pay the option; None for hashes, and signatures of contracts."""
        if option.method == DIRECT_METHOD:
            return direct.plausible(issued, outputs)
        return plausible(option, outputs)

    async def verify(
        self,
        option: Option,
        issued: Sequence[ResolvedBuild],
        outputs: Sequence[str],
    ) -> PayerKind:
        """Proves that the outputs (JSON texts) pay the option if submitted now; who answers.

        What a wallet sends by itself is proven by the chain alone, later.
        """
        if option.method == DIRECT_METHOD:
            await direct.check(self._node, self.chain, option, issued, outputs)
            return PayerKind.KEY
        return await self._verifier.verify(option, outputs)

    def reference(self, option: Option) -> str:
        """The 0x-hex reference that the option's settlement event carries."""
        return "0x" + Terms.of(option).ref.hex()

    def split(self, option: Option) -> Split:
        """Where the option's money goes, as it was offered."""
        return Terms.of(option).split()

    def last_second(self, option: Option) -> int | None:
        """The newest block time (Unix seconds) that lets the option be paid."""
        return Terms.of(option).last_second

    def proves(self, option: Option, paid: Paid) -> bool:
        """True if the event is exactly what was offered: money, payer, receivers, way and end."""
        return Terms.of(option).proven_by(bare(option.payer), paid)

    def resembles(self, option: Option, paid: Paid) -> bool:
        """True if it moved an option's money to its receivers, but in another way or time."""
        return Terms.of(option).resembled_by(bare(option.payer), paid)

    def batches(self, items: Sequence[Accepted]) -> list[Sequence[Accepted]]:
        """Cuts items, as they stand, into what one transaction settles each."""
        return self._relay.batches(items, BATCH_MAX)

    async def look(self, items: Sequence[Accepted]) -> list[Accepted]:
        """The items with what their payers are now, one batched read."""
        return await self._relay.look(items)

    def share(self, item: Accepted) -> Share:
        """The most gas that an item may use of a transaction, as it stands."""
        return self._relay.share(item)

    async def simulate(self, items: Sequence[Accepted], sender: str | None = None) -> list[bool]:
        """Tells for each item whether it would settle if submitted now, with as many as fit."""
        settled = await self._relay.simulate(items, sender or self._senders[0])
        failed = [item for item, ok in zip(items, settled, strict=True) if not ok]
        await self._refusals.explain(failed)
        return settled

    async def next_nonce(self, sender: str) -> int:
        """A sender's next nonce as the chain knows it, pending transactions included."""
        return await self._relay.next_nonce(sender)

    async def sign(self, sender: str, nonce: int, items: Sequence[Accepted]) -> Signed:
        """Signs, with a sender's key, the one transaction that settles the items."""
        if self._treasury is not None and sender == self._treasury.sender and not items:
            return await self._treasury.fill(nonce)
        return await self._relay.sign(sender, nonce, items)

    async def bump(self, tx: ChainTx) -> Signed | None:
        """Signs a transaction again for a higher fee, within the limits."""
        if self._treasury is not None and tx.sender == self._treasury.sender:
            return await self._treasury.bump(tx)
        return await self._relay.bump(tx)

    async def broadcast(self, raw: bytes) -> None:
        """Hands a transaction to the chain; one that it already knows is fine."""
        await self._relay.broadcast(raw)

    async def knows(self, tx_hash: str) -> bool:
        """True if the chain or its pool has the transaction now."""
        return await self._relay.knows(tx_hash)

    async def nonce_used(self, sender: str, nonce: int) -> bool:
        """True if a transaction with a sender's nonce is final."""
        return await self._evidence.nonce_used(sender, nonce)

    async def head(self) -> Head:
        """The newest block."""
        head = await self._evidence.head()
        self._news.saw(head.number)
        if head != self._head:
            self._head = head
            self._relay.new_block()
        return head

    async def block(self, number: int) -> BlockView | None:
        """One block; None if the chain does not have it (yet, or any more)."""
        return await self._evidence.block(number)

    async def mined(self, tx_hashes: Sequence[str]) -> dict[str, Mined]:
        """Which of our transactions are in a block, one batched read; absent ones tell nothing."""
        return await self._evidence.mined(tx_hashes)

    async def paid(self, references: Sequence[str], from_block: int) -> list[Paid]:
        """Settlement events of the references from a block on, whoever submitted them."""
        return await self._evidence.paid(references, from_block)

    async def holdings(
        self, places: Collection[tuple[str, str]], least: int
    ) -> dict[tuple[str, str], int]:
        """What accounts hold of assets at the newest final block; one batched read."""
        return await holdings(self._node, self.chain, places, least)

    async def paid_between(self, first: int, last: int) -> list[Paid]:
        """All settlement events of a range of blocks, whoever submitted them."""
        return await self._evidence.paid_between(first, last)

    async def find(self, items: Sequence[Accepted]) -> list[Paid]:
        """Settlement events of the items, whoever submitted them."""
        references = [self.reference(item.option) for item in items]
        return await self.paid(references, min(item.from_block for item in items))

    async def gone(self, tx: ChainTx, issued: Sequence[ResolvedBuild]) -> bool:  # noqa: ARG002
        """True if another transaction with its nonce is final, or it is itself."""

        async def is_gone(rpc: Rpc) -> bool | None:
            evidence = self._evidence_of(rpc)
            if not await evidence.nonce_used(tx.sender, tx.nonce):
                return None
            # the caller looks for it too, but one node may hide it; any variant may be mined
            return None if await evidence.mined(tx.hashes) else True

        return await self._witnesses.unanimous(is_gone) is not None

    async def dead(self, item: Accepted, issued: Sequence[ResolvedBuild]) -> str | None:  # noqa: ARG002
        """Why the item's authorization can never be used again; None while it can."""

        async def reason(rpc: Rpc) -> str | None:
            evidence = self._evidence_of(rpc)
            found = await evidence.spent_or_lapsed(item.option)
            if found is None or self.agreement == 1:
                return found
            # the caller looks for the event too, but one node may hide it
            events = await evidence.paid([self.reference(item.option)], item.from_block)
            return None if any(self.proves(item.option, one) for one in events) else found

        dead = await self._witnesses.unanimous(reason)
        return dead and dead + await self._refusals.at_the_end(item.option)

    async def agreed(self, facts: Collection[Fact]) -> Mapping[Fact, bool]:
        """Which facts as many nodes tell as have to agree, at final depth."""
        wanted = frozenset(facts)
        return await self._witnesses.agreed(
            wanted, lambda rpc: self._evidence_of(rpc).testify(wanted)
        )

    async def spent_or_lapsed(self, option: Option) -> str | None:
        """Why the option can never be paid again, judged at final depth; None while it can."""
        return await self._evidence.spent_or_lapsed(option)

    async def is_paid(self, option: Option) -> bool:
        """True if the settlement contract says at final depth that the payer itself paid."""
        return await self._evidence.is_paid(option)

    async def replaced(self, number: int, block_hash: str) -> bool:
        """True if as many nodes as have to agree tell of another block in the place of one."""
        if self.agreement == 1:
            return True

        async def other(rpc: Rpc) -> bool | None:
            found = await self._evidence_of(rpc).hash_of(number)
            return None if found in {None, block_hash} else True

        return await self._witnesses.unanimous(other) is not None

    def _payouts_of(self, treasury: Signer) -> Payouts:
        def make(rpc: Rpc) -> Payouts:
            return EvmPayouts(Node(rpc), self.chain, treasury)

        return AgreedPayouts(make, self.rpc, self._witnesses)

    async def _probe(self) -> None:
        """Finds out how the chain is read best; without assets nobody reads it."""
        if self._assets:
            await self.reader.probe(sample(self.chain, list(self._assets.values())))

    def _take(self, found: discovery.Inspection) -> None:
        self._assets, self._guards = found.assets, found.guards
        self._passkeys = found.passkeys

    def _evidence_of(self, rpc: Rpc) -> Evidence:
        return Evidence(Node(rpc), self.chain, self._senders)

    async def _inspect(self) -> discovery.Inspection:
        found = await discovery.inspect(self._node, self.chain)
        problem = await opener_problem(self._node, self.chain) if found.assets else None
        return replace(found, problems=(*found.problems, problem)) if problem else found
