"""One EVM chain as the service sees it: signatures in, one settlement transaction out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from florin_server.domain.caip import canonicalize_account
from florin_server.rails.chain_settings import RailProperties
from florin_server.rails.connection.agreed_payouts import QuorumPayouts
from florin_server.rails.connection.connection import ChainConnection
from florin_server.rails.connection.faucet import FaucetClient
from florin_server.rails.connection.jsonrpc import ChainRpc, RpcTransport
from florin_server.rails.evm.dialect import NEW_BLOCKS, EvmNodeDialect, parse_head_mark
from florin_server.rails.evm.paying.addresses import EvmPaymentAddresses
from florin_server.rails.evm.paying.erc6492 import find_opener_problem
from florin_server.rails.evm.paying.mismatches import SignatureMismatches
from florin_server.rails.evm.paying.offers import EvmOffers
from florin_server.rails.evm.paying.payable import build_sample
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS, EvmTermsReader
from florin_server.rails.evm.paying.verifier import EvmVerifier
from florin_server.rails.evm.paying.verify import SignatureVerifier
from florin_server.rails.evm.reading.deposits import EvmDepositReader
from florin_server.rails.evm.reading.direct_settlement import EvmDirectSettlement
from florin_server.rails.evm.reading.dry_run import DryRunner
from florin_server.rails.evm.reading.finality import FinalityTracker
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.reading.observer import EvmObserver
from florin_server.rails.evm.reading.reader import EvmReader, list_strategies
from florin_server.rails.evm.reading.refusals import TokenRefusals
from florin_server.rails.evm.sending.data_fees import DataFeeReader
from florin_server.rails.evm.sending.facilitator import EvmTransferFacilitator
from florin_server.rails.evm.sending.fees import RecentFeeCache
from florin_server.rails.evm.sending.gas_learner import GasLearner
from florin_server.rails.evm.sending.gas_shares import GasShares
from florin_server.rails.evm.sending.payouts import EvmPayouts
from florin_server.rails.evm.sending.relay import EvmRelay
from florin_server.rails.evm.sending.sweeps import EvmAddressSweeper
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.evm.setup import discovery
from florin_server.rails.evm.setup.faucet import EvmFaucet
from florin_server.rails.evm.setup.forwarder import find_forwarder_problem
from florin_server.rails.evm.setup.reserved import list_reserved_accounts
from florin_server.rails.roles import TreasuryPayouts
from florin_server.rails.types import Asset, RailUnavailable

# blocks until a transaction raises its fee, but at least these seconds: some chains are fast
_STALE_BLOCKS = 3
_STALE_S = 6
OPEN_MAX = 16  # every node keeps as many executable transactions of one account (geth's slots)


class EvmRail(RailProperties):
    """Implement the Rail protocol over JSON-RPC.

    `signer` is the relayer, `additional_signers` are further relayers: they pay for gas and can
    neither redirect nor keep a buyer's money. `treasury` is the key that pays out. A transport
    leads to a node of this process; without it the settings' URLs are used.
    """

    open_max = OPEN_MAX
    treasury_history = None  # nonces replace it
    durable_nonces = None  # a signature expires by time, and lasts as long as its payment
    token_accounts = None  # every account can hold every token
    transaction_requests = transfer_requests = None
    terms = EvmTermsReader()

    def __init__(
        self,
        chain: EvmChainSettings,
        signer: EvmSigner,
        transport: RpcTransport | None = None,
        additional_signers: Sequence[EvmSigner] = (),
        treasury: EvmSigner | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(chain)
        self.chain = chain
        self.finality = finality = FinalityTracker(chain, now)
        self.pace, self.native_asset = finality.pace, chain.native_asset
        keys = (signer, *additional_signers)
        self.senders = tuple(relayer.address for relayer in keys)
        self.reserved_accounts = list_reserved_accounts(chain, self.senders)
        if treasury is not None and treasury.address in self.senders:
            raise ValueError(f"{chain.name}: treasury and relayer need different keys")
        self.nodes = _create_connection(chain, finality, transport, now)
        self.rpc = self.nodes.rpc
        self.inspection = discovery.EvmInspection({}, ())
        self._node = node = EvmNode(self.rpc)
        self.reader = _create_reader(node, chain, now)
        fees, data_fees = RecentFeeCache(node, chain, now, self.pace), DataFeeReader(node, now)
        dry_runner = DryRunner(node, chain, fees, self.senders, now)
        self._refusals = refusals = TokenRefusals(node, chain, now)
        mismatches = SignatureMismatches(now)
        self.gas_shares = shares = GasShares(min(chain.payment_gas_max, chain.gas_max // 2))
        self._learner = learner = GasLearner(node, dry_runner, shares, signer.address, now)
        self._signatures = SignatureVerifier(
            node, chain, dry_runner, self.reader, refusals, mismatches, learner=learner
        )
        own_payouts = EvmPayouts(node, chain, treasury, finality, shares) if treasury else None
        self.verifier = EvmVerifier(node, chain, self._signatures)
        self.relay = EvmRelay(
            node,
            chain,
            keys,
            dry_runner,
            self.reader,
            refusals=refusals,
            treasury=own_payouts,
            finality=finality,
            learner=learner,
        )
        self.gas = self.account_nonces = self.relay
        self.observer = self.blocks = EvmObserver(
            self.nodes,
            chain,
            self.senders,
            refusals,
            self.relay.record_new_block,
            finality=finality,
        )
        self.direct_settlement = EvmDirectSettlement(self.observer)
        self.facilitator = self._create_facilitator(keys, dry_runner)
        self.deposits = EvmDepositReader(self.nodes, chain, finality, self.reader)
        self.sweeper = EvmAddressSweeper(chain, keys, dry_runner, shares, data_fees)
        self.offers = EvmOffers(
            chain,
            self.reader,
            refusals,
            lambda: self.inspection,
            self.observer.get_head,
            mismatches,
        )
        self.addresses = self._own_addresses = _create_addresses(chain, fees, shares, data_fees)
        self.faucet = self._create_faucet() if chain.faucet else None
        self.payouts = self._create_payouts(treasury) if treasury else None

    def _create_facilitator(
        self, keys: Sequence[EvmSigner], runs: DryRunner
    ) -> EvmTransferFacilitator:
        return EvmTransferFacilitator(
            self._node,
            self.chain,
            keys,
            runs,
            shares=self.gas_shares,
            connection=self.nodes,
            observer=self.observer,
            get_assets=lambda: self.inspection.assets,
            has_proxy=lambda: self.inspection.has_x402_proxy,
        )

    def _create_faucet(self) -> EvmFaucet:
        client = FaucetClient(self.rpc, self.chain.name, self.offers.clear_reads)
        return EvmFaucet(client, self.chain.coin_asset)

    @property
    def confirmations(self) -> int:
        """Return the confirmations that make an event final at the measured pace."""
        return self.finality.get_depth

    def depth_of(self, asset: str, value: int) -> int:
        """Return the confirmations, its own block included, that make an amount's payment final."""
        return self.finality.depth_of(self._final_after(asset, value))

    def extra_wait_s(self, asset: str, value: int) -> int:
        """Return the seconds by which an amount is final later than the smallest."""
        return self._final_after(asset, value) - self.chain.final_after_s

    def _final_after(self, asset: str, value: int) -> int:
        _, is_token, address = asset.partition("/erc20:")
        return self.chain.final_after(address if is_token else ZERO_ADDRESS, value)

    @property
    def reorg_depth(self) -> int:
        """Return the most blocks that can be replaced before they are final."""
        return self.finality.get_reorg_depth

    @property
    def stale_blocks(self) -> int:
        """Return after how many blocks a transaction raises its fee: some seconds at least."""
        return max(_STALE_BLOCKS, self.finality.count_blocks(_STALE_S))

    @property
    def assets(self) -> Mapping[str, Asset]:
        """Return the assets that passed the last check, by CAIP-19."""
        return self.inspection.assets

    def find_payer(self, account: str) -> str | None:
        """Return the canonical CAIP-10 of an account of this chain that can pay; None otherwise."""
        if not account.startswith(f"{self.chain_id}:"):
            return None
        try:
            payer = canonicalize_account(account)
        except ValueError:
            return None
        return None if payer in self.reserved_accounts else payer

    async def start(self) -> None:
        """Check chain id, contracts and every token; disable what does not match."""
        self.inspection = await self._read_inspection()
        await self._probe()
        await self._learner.measure_prices()

    async def list_problems(self) -> tuple[str, ...]:
        """Check again and return the problems; a chain that does not answer keeps its assets."""
        await self.rpc.probe_due()
        try:
            self.inspection = inspection = await self._read_inspection()
            await self._learner.measure_prices()
            if not self.reader.is_probed:
                await self._probe()
        except RailUnavailable as fault:
            return (f"{self.chain.name}: {fault}",)
        gas = (f"{self.chain.name}: {problem}" for problem in self._learner.list_problems())
        finality_problems = (self.finality.get_problem,) if self.finality.get_problem else ()
        return (*inspection.problems, *finality_problems, *self._refusals.list_problems(), *gas)

    async def close(self) -> None:
        """Close the connections after the running checks."""
        await self._signatures.close()
        await self.reader.close()
        await self.nodes.close()

    def _create_payouts(self, treasury: EvmSigner) -> TreasuryPayouts:
        def create_payouts(rpc: ChainRpc) -> TreasuryPayouts:
            return EvmPayouts(EvmNode(rpc), self.chain, treasury, self.finality, self.gas_shares)

        return QuorumPayouts(create_payouts, self.rpc, self.nodes.quorum)

    async def _probe(self) -> None:
        """Find the best way to read the chain; skip it if there are no assets to read."""
        if self.assets:
            await self.reader.probe(build_sample(self.chain, list(self.assets.values())))

    async def _read_inspection(self) -> discovery.EvmInspection:
        inspection = await discovery.inspect_chain(self._node, self.chain)
        if not inspection.assets:
            return inspection
        faults = await find_opener_problem(self._node, self.chain), await self._check_forwarder()
        problems = (*inspection.problems, *filter(None, faults))
        return replace(inspection, problems=problems)

    async def _check_forwarder(self) -> str | None:
        """Return why no addresses are given out, although the settings have them."""
        if self._own_addresses is None:
            return None
        problem = await find_forwarder_problem(self._node, self.chain)
        self.addresses = None if problem else self._own_addresses
        return problem


def _create_addresses(
    chain: EvmChainSettings, fees: RecentFeeCache, shares: GasShares, data_fees: DataFeeReader
) -> EvmPaymentAddresses | None:
    if chain.forwarder is None:
        return None
    return EvmPaymentAddresses(chain, chain.forwarder, fees, shares, data_fees)


def _create_reader(node: EvmNode, chain: EvmChainSettings, now: Callable[[], float]) -> EvmReader:
    strategies = list_strategies(chain.multicall3)
    return EvmReader(node, chain.name, strategies, strategy=chain.reads, timer=now)


def _create_connection(
    chain: EvmChainSettings,
    finality: FinalityTracker,
    transport: RpcTransport | None,
    now: Callable[[], float],
) -> ChainConnection:
    dialect = EvmNodeDialect(
        chain.name,
        chain.chain_id,
        chain.lag_max,
        chain.genesis,
        get_block_s=lambda: finality.pace.block_s,
    )
    return ChainConnection(
        chain, dialect, transport, now=now, announcements=NEW_BLOCKS, read_mark=parse_head_mark
    )
