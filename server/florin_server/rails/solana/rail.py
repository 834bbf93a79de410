"""One Solana cluster as the service sees it: signed transactions in, co-signed ones out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from florin_server.chains.solana import spl
from florin_server.domain.caip import parse_account
from florin_server.rails.connection.agreed_payouts import AgreedPayouts
from florin_server.rails.connection.connection import Connection
from florin_server.rails.connection.faucet import Tap
from florin_server.rails.connection.jsonrpc import Rpc, Transport
from florin_server.rails.facts import Facts
from florin_server.rails.pace import PaceMeter
from florin_server.rails.roles import Payouts
from florin_server.rails.solana.family import NEW_BLOCKS, SolanaFamily, slot_mark
from florin_server.rails.solana.paying.offers import SolanaOffers
from florin_server.rails.solana.paying.terms import SolanaTerms
from florin_server.rails.solana.paying.verify import SolanaVerifier
from florin_server.rails.solana.reading.gaps import Gaps
from florin_server.rails.solana.reading.node import Node
from florin_server.rails.solana.reading.observer import SolanaObserver
from florin_server.rails.solana.sending.durable_nonces import SolanaDurableNonces
from florin_server.rails.solana.sending.history import SolanaTreasuryHistory
from florin_server.rails.solana.sending.payouts import SolanaPayouts
from florin_server.rails.solana.sending.relay import SolanaRelay
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.sending.token_accounts import SolanaTokenAccounts
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.solana.setup import discovery
from florin_server.rails.solana.setup.faucet import SolanaFaucet
from florin_server.rails.solana.setup.reserved import reserved
from florin_server.rails.types import Asset, RailUnavailable


class SolanaRail(Facts):
    """Implements the Rail protocol over JSON-RPC.

    `signer` is the relayer: it pays fees and rent, and signs what was verified, last. `treasury` is
    the key that pays out. A transport leads to a node of this process; without one the settings'
    URLs are used.
    """

    open_max = 1000  # nothing has to wait for another; this only bounds what is looked for at once
    confirmations = reorg_depth = 1  # the head is the newest finalized slot
    stale_blocks = 3  # final slots; what is sent again is the same
    blocks = None  # nearly everything in them is other people's, and what is final stays
    direct = None  # nobody can send a payment without the relayer's signature
    account_nonces = None  # what is signed lasts as long as its blockhash, or its durable nonce
    gas = None  # a fee does not depend on what is computed

    def __init__(
        self,
        chain: SolanaChain,
        signer: SolanaSigner,
        transport: Transport | None = None,
        treasury: SolanaSigner | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if treasury is not None and treasury.address == signer.address:
            raise ValueError(f"{chain.name}: treasury and relayer need keys of their own")
        super().__init__(chain)
        self.chain = chain
        self.native_asset = chain.coin_id
        # one address: it is written into what buyers sign
        self.senders = (signer.address,)
        self.reserved = reserved(chain, signer.pubkey)
        self._signer = signer
        family = SolanaFamily(chain.name, chain.reference, chain.lag_max)
        gaps = Gaps(now)
        self.pace = PaceMeter()
        self.nodes = Connection(
            chain,
            family,
            transport,
            now=now,
            announcements=NEW_BLOCKS,
            mark=slot_mark,
            lacking=lambda: gaps.problem,
        )
        self.rpc = self.nodes.rpc
        self.found = discovery.Inspection({}, {}, ())
        self._node = node = Node(self.rpc)
        self.terms = SolanaTerms()
        self.verifier = SolanaVerifier(node, chain, signer.pubkey, self.rpc)
        self.offers = SolanaOffers(node, chain, signer.pubkey, self._now_found)
        self.relay = SolanaRelay(node, chain, signer, self.verifier)
        self.observer = SolanaObserver(
            self.nodes,
            chain,
            gaps,
            self.relay.landing_of,
            lambda slot: self.pace.record(slot, now()),
        )
        self.durable_nonces = SolanaDurableNonces(node, chain, signer)
        self.token_accounts = SolanaTokenAccounts(node, chain, signer, self._now_found)
        tap = Tap(self.rpc, chain.name, self.offers.forget)
        rent = self._rent
        self.faucet = SolanaFaucet(tap, chain.coin_id, rent) if chain.faucet else None
        self.payouts = self._payouts_of(treasury) if treasury else None
        self.treasury_history = SolanaTreasuryHistory(node, treasury.pubkey) if treasury else None

    def depth_of(self, asset: str, value: int) -> int:  # noqa: ARG002
        """Return the blocks, counting its own, that make a payment of an amount final."""
        return self.confirmations

    @property
    def assets(self) -> Mapping[str, Asset]:
        """The assets that passed the last check, by CAIP-19."""
        return self.found.assets

    def payer(self, account: str) -> str | None:
        """The account if it is one on this chain that can sign, and none of ours."""
        if not account.startswith(f"{self.chain_id}:"):
            return None
        try:
            found = parse_account(account)
            key = spl.pubkey(found.address)
        except ValueError:
            return None
        if not key.is_on_curve():
            return None
        return None if str(found) in self.reserved else str(found)

    async def start(self) -> None:
        """Checks the cluster and every token; disables what does not match."""
        self.found = await self._inspect()

    async def problems(self) -> tuple[str, ...]:
        """Checks again; a chain that does not answer keeps the assets that it had."""
        await self.rpc.look()
        try:
            self.found = found = await self._inspect()
        except RailUnavailable as fault:
            return (f"{self.chain.name}: {fault}",)
        return found.problems

    async def close(self) -> None:
        """Ends connections after the checks under way."""
        await self.verifier.close()
        await self.offers.close()
        await self.nodes.close()

    def _payouts_of(self, treasury: SolanaSigner) -> Payouts:
        def make(rpc: Rpc) -> Payouts:
            evidence = self.observer.evidence_of(rpc)
            return SolanaPayouts(
                Node(rpc), self.chain, self._signer, treasury, evidence, self._now_found
            )

        return AgreedPayouts(make, self.rpc, self.nodes.witnesses)

    def _now_found(self) -> discovery.Inspection:
        return self.found

    def _rent(self) -> int:
        return self.found.rent

    async def _inspect(self) -> discovery.Inspection:
        return await discovery.inspect(self._node, self.chain)
