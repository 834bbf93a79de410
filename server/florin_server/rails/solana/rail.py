"""One Solana cluster as the service sees it: signed transactions in, co-signed ones out."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_server.chains.solana import spl
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.caip import parse_account
from florin_server.domain.errors import FlorinError
from florin_server.domain.payments.payment import FreeNonce, Option, Payment, ResolvedBuild
from florin_server.domain.settlement.chain_txs import Accepted, ChainTx, PayerKind, Share
from florin_server.pricing.prices import Quote
from florin_server.rails.connection.agreed_payouts import AgreedPayouts
from florin_server.rails.connection.coalesce import Coalescer, Shared
from florin_server.rails.connection.connected import Connected
from florin_server.rails.connection.faucet import Tap
from florin_server.rails.connection.jsonrpc import Rpc, RpcError, Transport
from florin_server.rails.protocol import Payouts
from florin_server.rails.solana.family import NEW_BLOCKS, SolanaFamily, slot_mark
from florin_server.rails.solana.paying.check import Submission, check, submission
from florin_server.rails.solana.paying.issue import Issuer
from florin_server.rails.solana.paying.terms import Terms, bare, build_option, terms_of
from florin_server.rails.solana.paying.verify import Verifier
from florin_server.rails.solana.reading import receivers
from florin_server.rails.solana.reading.evidence import Evidence, Landing
from florin_server.rails.solana.reading.gaps import Gaps
from florin_server.rails.solana.reading.holdings import holdings
from florin_server.rails.solana.reading.node import AccountView, Node
from florin_server.rails.solana.sending.durable_nonces import SolanaNonces
from florin_server.rails.solana.sending.payouts import SolanaPayouts
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.sending.token_accounts import SolanaReceiving
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.solana.setup import discovery
from florin_server.rails.solana.setup.faucet import SolanaFaucet
from florin_server.rails.solana.setup.reserved import reserved
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

# a transaction that was confirmed as its quote ended has this long to land: twice what the
# blockhash in it may last
QUOTE_GRACE_S = 120


class SolanaRail(Connected):
    """Implements the Rail protocol over JSON-RPC.

    `signer` is the relayer: it pays fees and rent, and signs what was verified, last. `treasury` is
    the key that pays out. A transport leads to a node of this process; without one the settings'
    URLs are used.
    """

    by_block = False
    open_max = 1000  # nothing has to wait for another; this only bounds what is looked for at once
    confirmations = 1  # the head is the newest finalized slot

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
        self.chain = chain
        family = SolanaFamily(chain.name, chain.reference, chain.lag_max)
        super().__init__(
            chain, family, transport, now=now, announcements=NEW_BLOCKS, mark=slot_mark
        )
        self._signer = signer
        self._reserved = reserved(chain, signer.pubkey)
        self._node = Node(self.rpc)
        self._verifier = Verifier(self._node, chain, signer.pubkey)
        self._issuer = Issuer(self._node, chain, signer.pubkey)
        self._gaps = Gaps(now)
        self._evidence = Evidence(self._node, chain, self._gaps)
        self._found = discovery.Inspection({}, {}, ())
        self._payable: Shared[list[Payable]] = Shared()
        tap = Tap(self.rpc, chain.name, self._payable.forget)
        self.faucet = (
            SolanaFaucet(tap, chain.coin_id, lambda: self._found.rent) if chain.faucet else None
        )
        self._receivers: Coalescer[Sequence[Pubkey], Sequence[AccountView | None]] = Coalescer(
            self._look_at
        )
        self._payouts = self._payouts_of(treasury) if treasury else None
        self._nonces = SolanaNonces(self._node, chain, signer)
        self._receiving = SolanaReceiving(self._node, chain, signer, lambda: self._found)
        self._landing = lru_cache(maxsize=1024)(self._co_signed)

    @property
    def senders(self) -> Sequence[str]:
        """The one address that signs settlements and pays their fee.

        It is written into what buyers sign, and nothing that is sent has to wait for another.
        """
        return (self._signer.address,)

    @property
    def reserved(self) -> Mapping[str, str]:
        """What is ours or the chain's own, by CAIP-10."""
        return self._reserved

    @property
    def payouts(self) -> Payouts | None:
        """What pays out of the treasury; None if its key is not here."""
        return self._payouts

    @property
    def nonces(self) -> SolanaNonces:
        """The durable nonces for buyers who sign slowly."""
        return self._nonces

    @property
    def receiving(self) -> SolanaReceiving:
        """What opens token accounts before they receive."""
        return self._receiving

    @property
    def native_asset(self) -> str:
        """CAIP-19 of the coin that pays fees."""
        return self.chain.coin_id

    @property
    def assets(self) -> Mapping[str, Asset]:
        """The assets that passed the last check, by CAIP-19."""
        return self._found.assets

    @property
    def doubt(self) -> str:
        """What keeps nodes from agreeing on what ends payments, or from telling it."""
        return "; ".join(text for text in (super().doubt, self._gaps.problem) if text)

    async def start(self) -> None:
        """Checks the cluster and every token; disables what does not match."""
        self._found = await self._inspect()

    async def problems(self) -> tuple[str, ...]:
        """Checks again; a chain that does not answer keeps the assets that it had."""
        await self.rpc.look()
        try:
            found = await self._inspect()
        except RailUnavailable as fault:
            return (f"{self.chain.name}: {fault}",)
        self._found = found
        return found.problems

    async def shortages(self) -> tuple[str, ...]:
        """Nothing: `problems` tells that already."""
        return ()

    async def close(self) -> None:
        """Ends connections after the checks under way."""
        await self._verifier.close()
        await self._receivers.close()
        await self._disconnect()

    # ---- offering

    def payer(self, account: str) -> str | None:
        """The account if it is one on this chain that can sign, and none of ours."""
        try:
            found = parse_account(account)
            key = spl.pubkey(found.address)
        except ValueError:
            return None
        if str(found.chain) != self.chain.caip2 or not key.is_on_curve():
            return None
        return None if str(found) in self._reserved else str(found)

    async def payable(
        self,
        payers: Sequence[str],
        prices: Mapping[str, int],
        by_hand: Collection[str] = (),  # noqa: ARG002
    ) -> list[Payable]:
        """Who can pay what price: their balance covers it; one batched read."""
        found = self._found
        assets = [found.assets[one] for one in prices if one in found.assets]
        if not payers or not assets:
            return []
        key = (*payers, *((asset.id, prices[asset.id]) for asset in assets))
        able = discovery.able
        return await self._payable(key, lambda: able(self._node, payers, assets, prices, found))

    async def obstacle(
        self, asset: Asset, value: int, split: Split, openable: Collection[AssetAccount] = ()
    ) -> str | None:
        """Why the receivers of a split cannot take a value now.

        Nothing can be too little of a token, and who has no account for it may have one opened:
        the chain is asked about others only, about all that are offered at a time together.
        """
        found, relayer = self._found, self._signer.pubkey
        terms = terms_of(self.chain, asset, found.programs[asset.address], value, split)
        if not terms.is_coin and set(receivers.wanting(terms, ())).issubset(openable):
            return None
        accounts = await self._receivers(receivers.places(terms))
        return receivers.judge(terms, accounts, found.rent, relayer, openable).problem

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
            payer=means.payer,
            asset=asset,
            program=self._found.programs[asset.address],
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
        spare: FreeNonce | None = None,
        openable: Collection[AssetAccount] = (),
    ) -> ResolvedBuild | None:
        """A transaction to sign; None if the newest one is good for long enough."""
        rent = self._found.rent
        return await self._issuer.issue(option, issued, rent, now_us, spare, openable)

    def submits(self, option: Option) -> bool:  # noqa: ARG002
        """Every option is a transaction that the relayer co-signs and sends."""
        return True

    def plausible(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> bool | None:
        """True if the payer signed a message that was issued; nobody else can."""
        try:
            check(option, issued, outputs, self.chain.compute_price_max)
        except FlorinError:
            return False
        return True

    async def verify(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> PayerKind:
        """Proves that the outputs (JSON texts) pay the option if submitted now."""
        await self._verifier.verify(option, issued, outputs)
        return PayerKind.KEY

    # ---- submitting

    def reference(self, option: Option) -> str:
        """The text of the memo in the option's transaction."""
        return Terms.of(option).ref

    def split(self, option: Option) -> Split:
        """Where the option's money goes, as it was offered."""
        return Terms.of(option).split()

    def last_second(self, option: Option) -> int | None:
        """When a payment at a rate may be sent last: its quote's end, and as long as it takes.

        The chain knows nothing of quotes, and a durable nonce does not lapse by itself.
        """
        return None if option.expires_at is None else option.expires_at + QUOTE_GRACE_S

    def proves(self, option: Option, paid: Paid) -> bool:
        """True if the transaction moved exactly what the option says."""
        return Terms.of(option).proven_by(bare(option.payer), paid)

    def resembles(self, option: Option, paid: Paid) -> bool:  # noqa: ARG002
        """False: nobody but Florin can settle."""
        return False

    def batches(self, items: Sequence[Accepted]) -> list[Sequence[Accepted]]:
        """Each payment is a transaction of its own."""
        return [[one] for one in items]

    async def look(self, items: Sequence[Accepted]) -> list[Accepted]:
        """The same items: accounts that pay here are keys, and nothing else of theirs runs."""
        return list(items)

    def share(self, item: Accepted) -> Share:  # noqa: ARG002
        """Nothing: a fee does not depend on what is computed."""
        return Share(PayerKind.KEY, 0)

    async def simulate(
        self,
        items: Sequence[Accepted],
        sender: str | None = None,  # noqa: ARG002
    ) -> list[bool]:
        """Tells for each item whether it would settle if submitted now."""
        return await asyncio.gather(*(self._would_settle(item) for item in items))

    async def next_nonce(self, sender: str) -> int:  # noqa: ARG002
        """There are no nonces: what was written down last decides."""
        return 0

    async def nonce_used(self, sender: str, nonce: int) -> bool:  # noqa: ARG002
        """There are no nonces: the numbers only tell our own transactions apart."""
        return True

    async def sign(
        self,
        sender: str,  # noqa: ARG002
        nonce: int,  # noqa: ARG002
        items: Sequence[Accepted],
    ) -> Signed:
        """Co-signs the one item's transaction; equal items give equal bytes."""
        (item,) = items
        found = submission(item.confirmation.outputs)
        return self._signer.co_sign(found.message, found.signature)

    async def bump(self, tx: ChainTx) -> Signed | None:  # noqa: ARG002
        """Nothing: what lasts is what the buyer signed, and what lapses is signed anew."""
        return None

    async def broadcast(self, raw: bytes) -> None:
        """Hands a transaction to the chain; one that it already knows is fine."""
        config = {"encoding": "base64", "skipPreflight": True}
        try:
            await self.rpc.call("sendTransaction", base64.b64encode(raw).decode(), config)
        except RpcError as refusal:
            # nodes have many words for "I have it": only having it counts
            signature = VersionedTransaction.from_bytes(raw).signatures[0]
            if not await self.knows(str(signature)):
                raise RailUnavailable(f"{self.chain.name}: {refusal}") from refusal

    async def knows(self, tx_hash: str) -> bool:
        """True if the chain has the transaction now."""
        return await self._evidence.knows(tx_hash)

    # ---- looking

    async def head(self) -> Head:
        """The newest finalized slot."""
        head = await self._evidence.head()
        self._news.saw(head.number)
        return head

    async def block(self, number: int) -> BlockView | None:  # noqa: ARG002
        """Blocks are not read here: nearly everything in them is other people's."""
        return None

    async def mined(self, tx_hashes: Sequence[str]) -> dict[str, Mined]:
        """Which of our transactions are final; absent ones tell nothing."""
        return await self._evidence.mined(tx_hashes)

    async def paid(
        self,
        references: Sequence[str],  # noqa: ARG002
        from_block: int,  # noqa: ARG002
    ) -> list[Paid]:
        """Nothing: no wallet can send a payment by itself."""
        return []

    async def holdings(
        self, places: Collection[tuple[str, str]], least: int
    ) -> dict[tuple[str, str], int]:
        """What accounts hold of assets at the newest finalized slot; one batched read."""
        return await holdings(self._node, self.native_asset, places, least)

    async def paid_between(self, first: int, last: int) -> list[Paid]:  # noqa: ARG002
        """Nothing: nobody can send a payment without the relayer's signature."""
        return []

    async def find(self, items: Sequence[Accepted]) -> list[Paid]:
        """What the items' transactions paid, as far as they are final.

        Nobody else can have sent them: they need the relayer's signature.
        """
        return await self._evidence.paid([self._landing_of(item) for item in items])

    async def gone(self, tx: ChainTx, issued: Sequence[ResolvedBuild]) -> bool:
        """True if the transaction lapsed: no block can hold it any more, and none does."""
        message = VersionedTransaction.from_bytes(tx.raw).message
        if not isinstance(message, MessageV0):
            return False
        end = await self._end(tx.hash, message, issued, tx.since_block or 0)
        return end is not None

    async def is_paid(self, option: Option) -> bool:  # noqa: ARG002
        """False: no wallet can send a payment by itself."""
        return False

    async def dead(self, item: Accepted, issued: Sequence[ResolvedBuild]) -> str | None:
        """Why the item will never be paid, judged at final depth; None while it may."""
        one = self._landing_of(item)
        return await self._end(one.hash, one.submission.message, issued)

    async def agreed(self, facts: Collection[Fact]) -> Mapping[Fact, bool]:
        """Which facts as many nodes tell as have to agree."""
        wanted = frozenset(facts)
        verdicts = await self._witnesses.agreed(
            wanted, lambda rpc: self._evidence_of(rpc).testify(wanted, self._evidence)
        )
        self._evidence.forget(fact.tx_hash for fact, is_true in verdicts.items() if not is_true)
        return verdicts

    async def replaced(self, number: int, block_hash: str) -> bool:  # noqa: ARG002
        """What is final stays."""
        return False

    async def _end(
        self, tx_hash: str, message: MessageV0, issued: Sequence[ResolvedBuild], since: int = 0
    ) -> str | None:
        return await self._witnesses.unanimous(
            lambda rpc: self._evidence_of(rpc).end(tx_hash, message, issued, since)
        )

    def _payouts_of(self, treasury: SolanaSigner) -> Payouts:
        def make(rpc: Rpc) -> Payouts:
            node, evidence = Node(rpc), self._evidence_of(rpc)
            return SolanaPayouts(
                node, self.chain, self._signer, treasury, evidence, lambda: self._found
            )

        return AgreedPayouts(make, self.rpc, self._witnesses)

    def _evidence_of(self, rpc: Rpc) -> Evidence:
        return Evidence(Node(rpc), self.chain, self._gaps)

    async def _look_at(
        self, questions: Sequence[Sequence[Pubkey]]
    ) -> list[Sequence[AccountView | None]]:
        keys = list(dict.fromkeys(key for keys in questions for key in keys))
        found = dict(zip(keys, await self._node.accounts(keys), strict=True))
        return [[found[key] for key in keys] for keys in questions]

    async def _would_settle(self, item: Accepted) -> bool:
        try:
            await self._verifier.judge(item.option, submission(item.confirmation.outputs))
        except FlorinError:
            return False
        return True

    def _landing_of(self, item: Accepted) -> Landing:
        found, tx_hash = self._landing(item.confirmation.outputs)
        return Landing(item.option, found, tx_hash)

    def _co_signed(self, outputs: tuple[str, ...]) -> tuple[Submission, str]:
        found = submission(outputs)
        return found, self._signer.co_sign(found.message, found.signature).hash

    async def _inspect(self) -> discovery.Inspection:
        return await discovery.inspect(self._node, self.chain, self._signer.pubkey)
