"""One EVM chain as the service sees it: signatures in, one settlement transaction out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from florin_server.domain.caip import canonical_account
from florin_server.rails.connection.agreed_payouts import AgreedPayouts
from florin_server.rails.connection.connection import Connection
from florin_server.rails.connection.faucet import Tap
from florin_server.rails.connection.jsonrpc import Rpc, Transport
from florin_server.rails.evm.family import NEW_BLOCKS, EvmFamily, block_mark
from florin_server.rails.evm.paying.erc6492 import opener_problem
from florin_server.rails.evm.paying.mismatches import Mismatches
from florin_server.rails.evm.paying.offers import EvmOffers
from florin_server.rails.evm.paying.payable import sample
from florin_server.rails.evm.paying.terms import NOBODY, EvmTerms
from florin_server.rails.evm.paying.verifier import EvmVerifier
from florin_server.rails.evm.paying.verify import Signatures
from florin_server.rails.evm.reading.direct_settlement import EvmDirectSettlement
from florin_server.rails.evm.reading.dry_run import DryRuns
from florin_server.rails.evm.reading.finality import Finality
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.reading.observer import EvmObserver
from florin_server.rails.evm.reading.reader import Reader, ways
from florin_server.rails.evm.reading.refusals import Refusals
from florin_server.rails.evm.sending.fees import RecentFees
from florin_server.rails.evm.sending.gas_learner import GasLearner
from florin_server.rails.evm.sending.gas_shares import GasShares
from florin_server.rails.evm.sending.payouts import EvmPayouts
from florin_server.rails.evm.sending.relay import EvmRelay
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.setup import discovery
from florin_server.rails.evm.setup.faucet import EvmFaucet
from florin_server.rails.evm.setup.reserved import reserved
from florin_server.rails.facts import Facts
from florin_server.rails.roles import Payouts
from florin_server.rails.types import Asset, RailUnavailable

# or as many as make so many seconds: fast chains would be offered twice as much within a few
_STALE_BLOCKS = 3
_STALE_S = 6
OPEN_MAX = 16  # what nodes keep of one account in any case (geth's slots), executable at once


class EvmRail(Facts):
    """Implements the Rail protocol over JSON-RPC.

    `signer` is the relayer, `more` are others of its kind: they pay for gas and can neither
    redirect nor keep a buyer's money. `treasury` is the key that pays out. A transport leads to a
    node of this process; without one the settings' URLs are used.
    """

    open_max = OPEN_MAX
    treasury_history = None  # nonces tell of it
    durable_nonces = None  # what is signed lapses by time, and lasts as long as its payment
    token_accounts = None  # every account can hold every token

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
        super().__init__(chain)
        self.chain = chain
        self.finality = finality = Finality(chain, now)
        self.pace = finality.pace
        self.native_asset = chain.native_asset
        self.senders = tuple(one.address for one in (signer, *more))
        self.reserved = reserved(chain, self.senders)
        if treasury is not None and treasury.address in self.senders:
            raise ValueError(f"{chain.name}: treasury and relayer need keys of their own")
        family = EvmFamily(
            chain.name,
            chain.chain_id,
            chain.lag_max,
            chain.genesis,
            block_s=lambda: finality.pace.block_s,
        )
        self.nodes = Connection(
            chain, family, transport, now=now, announcements=NEW_BLOCKS, mark=block_mark
        )
        self.rpc = self.nodes.rpc
        self.found = discovery.Inspection({}, ())
        self._node = node = Node(self.rpc)
        known = ways(chain.multicall3)
        self.reader = Reader(node, chain.name, known, way=chain.reads, timer=now)
        runs = DryRuns(node, chain, RecentFees(node, chain, now, self.pace), self.senders, now)
        self._refusals = refusals = Refusals(node, chain, now)
        mismatches = Mismatches(now)
        ceiling = min(chain.payment_gas_max, chain.gas_max // 2)
        self.gas_shares = shares = GasShares(ceiling)
        self._learner = learner = GasLearner(node, runs, shares, signer.address, now)
        self._signatures = Signatures(
            node, chain, runs, self.reader, refusals, mismatches, learner=learner
        )
        own_payouts = EvmPayouts(node, chain, treasury, finality, shares) if treasury else None
        self.terms = EvmTerms()
        self.verifier = EvmVerifier(node, chain, self._signatures)
        self.relay = EvmRelay(
            node,
            chain,
            (signer, *more),
            runs,
            self.reader,
            refusals=refusals,
            treasury=own_payouts,
            finality=finality,
            learner=learner,
        )
        self.gas = self.account_nonces = self.relay
        self.observer = EvmObserver(
            self.nodes, chain, self.senders, refusals, self.relay.new_block, finality=finality
        )
        self.blocks = self.observer
        self.direct = EvmDirectSettlement(self.observer)
        self.offers = EvmOffers(
            chain, self.reader, refusals, lambda: self.found, self.observer.head, mismatches
        )
        tap = Tap(self.rpc, chain.name, self.offers.forget)
        self.faucet = EvmFaucet(tap, chain.coin_asset) if chain.faucet else None
        self.payouts = self._payouts_of(treasury) if treasury else None

    @property
    def confirmations(self) -> int:
        """Blocks, counting its own, that make an event final at the pace that was measured."""
        return self.finality.depth

    def depth_of(self, asset: str, value: int) -> int:
        """Return the blocks, counting its own, that make a payment of an amount final."""
        return self.finality.depth_of(self._final_after(asset, value))

    def extra_wait_s(self, asset: str, value: int) -> int:
        """Return the seconds by which an amount is final later than the smallest."""
        return self._final_after(asset, value) - self.chain.final_after_s

    def _final_after(self, asset: str, value: int) -> int:
        _, is_token, address = asset.partition("/erc20:")
        return self.chain.final_after(address if is_token else NOBODY, value)

    @property
    def reorg_depth(self) -> int:
        """Blocks that may be replaced before they are final; the most there may be at the start."""
        return self.finality.reorg_depth

    @property
    def stale_blocks(self) -> int:
        """Blocks that pass over a transaction before it offers more: of some seconds at least."""
        return max(_STALE_BLOCKS, self.finality.count_blocks(_STALE_S))

    @property
    def assets(self) -> Mapping[str, Asset]:
        """The assets that passed the last check, by CAIP-19."""
        return self.found.assets

    def payer(self, account: str) -> str | None:
        """The canonical CAIP-10 of an account on this chain that may pay; None for all else."""
        if not account.startswith(f"{self.chain_id}:"):
            return None
        try:
            payer = canonical_account(account)
        except ValueError:
            return None
        return None if payer in self.reserved else payer

    async def start(self) -> None:
        """Checks chain id, contracts and every token; disables what does not match."""
        self.found = await self._inspect()
        await self._probe()
        await self._learner.measure()

    async def problems(self) -> tuple[str, ...]:
        """Checks again; a chain that does not answer keeps the assets that it had."""
        await self.rpc.look()
        try:
            self.found = found = await self._inspect()
            await self._learner.measure()
            if not self.reader.probed:
                await self._probe()
        except RailUnavailable as fault:
            return (f"{self.chain.name}: {fault}",)
        gas = (f"{self.chain.name}: {one}" for one in self._learner.problems())
        untagged = (self.finality.problem,) if self.finality.problem else ()
        return (*found.problems, *untagged, *self._refusals.problems(), *gas)

    async def close(self) -> None:
        """Ends connections after the checks under way."""
        await self._signatures.close()
        await self.reader.close()
        await self.nodes.close()

    def _payouts_of(self, treasury: Signer) -> Payouts:
        def make(rpc: Rpc) -> Payouts:
            return EvmPayouts(Node(rpc), self.chain, treasury, self.finality, self.gas_shares)

        return AgreedPayouts(make, self.rpc, self.nodes.witnesses)

    async def _probe(self) -> None:
        """Finds out how the chain is read best; without assets nobody reads it."""
        if self.assets:
            await self.reader.probe(sample(self.chain, list(self.assets.values())))

    async def _inspect(self) -> discovery.Inspection:
        found = await discovery.inspect(self._node, self.chain)
        problem = await opener_problem(self._node, self.chain) if found.assets else None
        return replace(found, problems=(*found.problems, problem)) if problem else found
