"""One Solana cluster as the service sees it: signed transactions in, co-signed ones out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from florin_server.domain.caip import parse_account
from florin_server.domain.chains.solana import spl
from florin_server.rails.chain_settings import RailProperties
from florin_server.rails.connection.agreed_payouts import QuorumPayouts
from florin_server.rails.connection.connection import ChainConnection
from florin_server.rails.connection.faucet import FaucetClient
from florin_server.rails.connection.jsonrpc import ChainRpc, RpcTransport
from florin_server.rails.pace import PaceMeter
from florin_server.rails.roles import TreasuryPayouts
from florin_server.rails.solana.dialect import NEW_BLOCKS, SolanaNodeDialect, parse_slot_mark
from florin_server.rails.solana.paying.offers import SolanaOffers
from florin_server.rails.solana.paying.requests import SolanaTransactionRequests
from florin_server.rails.solana.paying.terms import SolanaTermsReader
from florin_server.rails.solana.paying.transfers import SolanaTransferRequests
from florin_server.rails.solana.paying.verify import SolanaVerifier
from florin_server.rails.solana.reading.gaps import HistoryGaps
from florin_server.rails.solana.reading.node import SolanaNode
from florin_server.rails.solana.reading.observer import SolanaObserver
from florin_server.rails.solana.sending.durable_nonces import SolanaDurableNonces
from florin_server.rails.solana.sending.facilitator import SolanaTransferFacilitator
from florin_server.rails.solana.sending.history import SolanaTreasuryHistory
from florin_server.rails.solana.sending.payouts import SolanaPayouts
from florin_server.rails.solana.sending.relay import SolanaRelay
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.sending.token_accounts import SolanaTokenAccounts
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.solana.setup import discovery
from florin_server.rails.solana.setup.faucet import SolanaFaucet
from florin_server.rails.solana.setup.reserved import list_reserved_accounts
from florin_server.rails.types import Asset, RailUnavailable


class SolanaRail(RailProperties):
    """Implement the Rail protocol over JSON-RPC.

    `signer` is the relayer: it pays fees and rent, and signs last, what was verified. `treasury` is
    the key that pays out. A transport leads to a node of this process; without it the settings'
    URLs are used.
    """

    open_max = 1000  # transactions need not wait for others; this only limits concurrent searches
    confirmations = reorg_depth = 1  # the head is the newest finalized slot
    stale_blocks = 3  # final slots; the same transaction is sent again
    # nearly all transactions in them are other people's, and final blocks never change
    blocks = None
    direct_settlement = None  # what wallets send is found by its address, not by an event
    # no program gives payments addresses of their own
    addresses = deposits = sweeper = None
    account_nonces = None  # a signature lasts as long as its blockhash, or its durable nonce
    gas = None  # a fee does not depend on computation

    def __init__(
        self,
        chain: SolanaChainSettings,
        signer: SolanaSigner,
        transport: RpcTransport | None = None,
        treasury: SolanaSigner | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if treasury is not None and treasury.address == signer.address:
            raise ValueError(f"{chain.name}: treasury and relayer need different keys")
        super().__init__(chain)
        self.chain = chain
        self.native_asset = chain.coin_id
        # a single address: it is part of what buyers sign
        self.senders = (signer.address,)
        self.reserved_accounts = list_reserved_accounts(chain, signer.pubkey)
        self._signer = signer
        family = SolanaNodeDialect(chain.name, chain.reference, chain.lag_max)
        gaps = HistoryGaps(now)
        self.pace = PaceMeter()
        self.nodes = ChainConnection(
            chain,
            family,
            transport,
            now=now,
            announcements=NEW_BLOCKS,
            read_mark=parse_slot_mark,
            get_problem=lambda: gaps.problem,
        )
        self.rpc = self.nodes.rpc
        self.inspection = discovery.SolanaInspection({}, {}, ())
        self._node = node = SolanaNode(self.rpc)
        self.terms = SolanaTermsReader()
        self.verifier = SolanaVerifier(node, chain, signer.pubkey, self.rpc)
        self.offers = SolanaOffers(node, chain, signer.pubkey, self._get_inspection)
        self.transaction_requests = SolanaTransactionRequests(
            node, chain, signer.pubkey, self._get_inspection
        )
        self.transfer_requests = SolanaTransferRequests(node, chain, self._get_inspection)
        self.relay = SolanaRelay(node, chain, signer, self.verifier)
        self.observer = SolanaObserver(
            self.nodes,
            chain,
            gaps,
            self.relay.get_settlement_transaction,
            lambda slot: self.pace.record_head(slot, now()),
        )
        self.facilitator = SolanaTransferFacilitator(
            node,
            chain,
            signer,
            self.verifier,
            connection=self.nodes,
            observer=self.observer,
            get_inspection=self._get_inspection,
        )
        self.durable_nonces = SolanaDurableNonces(node, chain, signer)
        self.token_accounts = SolanaTokenAccounts(node, chain, signer, self._get_inspection)
        tap = FaucetClient(self.rpc, chain.name, self.offers.clear_reads)
        rent = self._get_rent
        self.faucet = SolanaFaucet(tap, chain.coin_id, rent) if chain.faucet else None
        self.payouts = self._create_payouts(treasury) if treasury else None
        self.treasury_history = SolanaTreasuryHistory(node, treasury.pubkey) if treasury else None

    def depth_of(self, asset: str, value: int) -> int:  # noqa: ARG002
        """Return the confirmations, its own block included, that make an amount's payment final."""
        return self.confirmations

    @property
    def assets(self) -> Mapping[str, Asset]:
        """Return the assets that passed the last check, by CAIP-19."""
        return self.inspection.assets

    def find_payer(self, account: str) -> str | None:
        """Return the account if it can sign on this chain and is not ours; None otherwise."""
        if not account.startswith(f"{self.chain_id}:"):
            return None
        try:
            account_id = parse_account(account)
            key = spl.parse_pubkey(account_id.address)
        except ValueError:
            return None
        if not key.is_on_curve():
            return None
        return None if str(account_id) in self.reserved_accounts else str(account_id)

    async def start(self) -> None:
        """Check the cluster and every token; disable what does not match."""
        self.inspection = await self._read_inspection()

    async def list_problems(self) -> tuple[str, ...]:
        """Check again and return the problems; a chain that does not answer keeps its assets."""
        await self.rpc.probe_due()
        try:
            self.inspection = inspection = await self._read_inspection()
        except RailUnavailable as fault:
            return (f"{self.chain.name}: {fault}",)
        return inspection.problems

    async def close(self) -> None:
        """Close the connections after the running checks."""
        await self.verifier.close()
        await self.offers.close()
        await self.nodes.close()

    def _create_payouts(self, treasury: SolanaSigner) -> TreasuryPayouts:
        def make(rpc: ChainRpc) -> TreasuryPayouts:
            evidence = self.observer.create_evidence(rpc)
            return SolanaPayouts(
                SolanaNode(rpc), self.chain, self._signer, treasury, evidence, self._get_inspection
            )

        return QuorumPayouts(make, self.rpc, self.nodes.quorum)

    def _get_inspection(self) -> discovery.SolanaInspection:
        return self.inspection

    def _get_rent(self) -> int:
        return self.inspection.rent

    async def _read_inspection(self) -> discovery.SolanaInspection:
        return await discovery.inspect_chain(self._node, self.chain)
