"""What the tests of the Solana rail share: the rail on an embedded chain, and a node that lies."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from florin_server.devnet.solana import SOLNET
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.payments.payment import (
    Confirmation,
    FreeNonce,
    Option,
    Payment,
    ResolvedBuild,
)
from florin_server.domain.settlement.chain_txs import Accepted, ChainTx, TxState
from florin_server.flows.payments import funding
from florin_server.flows.payouts.opening import places
from florin_server.rails.connection.jsonrpc import LocalTransport
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaAsset, SolanaChain
from florin_server.rails.types import Payable, Signed, Split
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.transaction import VersionedTransaction

from tests.support.chainlab.selection import selected_solana
from tests.support.evm_lab import Meddler, new_payment
from tests.support.solana import ASSETS, SolanaWallet
from tests.support.solana_kit import START_S, Node, opened, wallet

RELAYER = SolanaSigner(b"\x52" * 32)
TREASURY = str(wallet(90).pubkey())
MERCHANT = str(wallet(91).pubkey())
PRICE = 1_500_000
PROFILE = selected_solana()
FINAL = PROFILE.finalized_slots if PROFILE else 4  # slots on top


def settings(**changes: Any) -> SolanaChain:
    """The embedded chain as an operator would write it down."""
    return SolanaChain(
        **{
            "reference": SOLNET.chain_id.removeprefix("solana:"),
            "name": SOLNET.name,
            "treasury": TREASURY,
            "faucet": True,
            "assets": tuple(asset(number) for number in range(2)),
        }
        | changes
    )


def asset(number: int = 0, **changes: Any) -> SolanaAsset:
    token = SOLNET.tokens[number]
    return SolanaAsset(
        **{
            "mint": token.address,
            "name": token.name,
            "symbol": token.symbol,
            "decimals": token.decimals,
            "peg": token.peg,
        }
        | changes
    )


def split(fee: int = 0, dest: str = MERCHANT) -> Split:
    chain = SOLNET.chain_id
    return Split(f"{chain}:{dest}", f"{chain}:{TREASURY}" if fee else None, fee, settled=True)


@dataclass
class Lab:
    node: Node
    between: Meddler
    rail: SolanaRail

    async def payable(self, payers: Sequence[str], prices: Mapping[str, int]) -> list[Payable]:
        """Who can pay what, as options are made: whoever lacks something is given it."""
        return await funding.payable(self.rail, payers, prices)

    async def offer(
        self,
        buyer: SolanaWallet,
        number: int = 1,
        token: int = 0,
        value: int = PRICE,
        asset_id: str = "",
        **route: Any,
    ) -> tuple[Payment, Option]:
        payment, asset_id = new_payment(number), asset_id or ASSETS[token]
        payer = self.rail.payer(buyer.account)
        assert payer is not None
        await self.payable([payer], {asset_id: value})
        option = self.rail.offers.offer(
            payment,
            buyer.account,
            Payable(payer, asset_id),
            self.rail.assets[asset_id],
            value,
            split(**route),
            START_S * 1_000_000,
        )
        return payment, option

    async def issued(self, option: Option, *before: ResolvedBuild) -> ResolvedBuild:
        found = await self.built(option, before)
        assert found is not None
        return found

    async def built(
        self, option: Option, before: Sequence[ResolvedBuild], spare: FreeNonce | None = None
    ) -> ResolvedBuild | None:
        now_us = START_S * 1_000_000
        return await self.rail.offers.build(option, before, now_us, spare, self.openable(option))

    def openable(self, option: Option) -> list[AssetAccount]:
        """All that may have to be opened, as if nothing ever was."""
        return places(option.asset, self.rail.terms.split(option))

    async def accepted(self, buyer: SolanaWallet, **offer: Any) -> tuple[Accepted, ResolvedBuild]:
        """A payment that was verified, as the service remembers it."""
        payment, option = await self.offer(buyer, **offer)
        issued = await self.issued(option)
        output = json.dumps(signed(buyer, issued))
        await self.rail.verifier.verify(option, [issued], [output])
        content = Confirmation(payment.id, option.id, (output,), b"", START_S * 1_000_000)
        return Accepted(payment, option, content, issued.head), issued

    async def sent(self, item: Accepted) -> ChainTx:
        made = await self.rail.relay.sign(RELAYER.address, 0, [item])
        await self.rail.relay.broadcast(made.raw)
        return journaled(made, item)

    async def slots(self, count: int) -> None:
        await self.node.fault("slots", slots=count)


def signed(buyer: SolanaWallet, issued: ResolvedBuild) -> str:
    return buyer.sign(transaction(issued))


def transaction(issued: ResolvedBuild) -> VersionedTransaction:
    (action,) = issued.actions
    assert action.method == "solana_signTransaction"
    (one,) = json.loads(action.params_json)
    return VersionedTransaction.from_bytes(base64.b64decode(one["transaction"]))


def message(issued: ResolvedBuild) -> MessageV0:
    found = transaction(issued).message
    assert isinstance(found, MessageV0)
    return found


def journaled(made: Signed, item: Accepted) -> ChainTx:
    return ChainTx(
        id="tx_1",
        chain_id=SOLNET.chain_id,
        sender=RELAYER.address,
        nonce=0,
        raw=made.raw,
        hash=made.hash,
        payment_ids=(item.payment.id,),
        state=TxState.SIGNED,
        created_at_us=START_S * 1_000_000,
    )


@asynccontextmanager
async def open_lab(**changes: Any) -> AsyncIterator[Lab]:
    """Open the rail on a cluster that refuses the commitment `confirmed`, as clusters will."""
    async with opened(confirmed_slots=None, finalized_slots=FINAL) as node:
        await node.fund(Keypair.from_seed(b"\x52" * 32), lamports=10**11, tokens=[])
        await node.fault("slots", slots=2 * FINAL)
        between = Meddler(LocalTransport(node.chain.handle))
        rail = SolanaRail(settings(**changes), RELAYER, between)
        await rail.start()
        yield Lab(node, between, rail)
        await rail.close()


def outputs(*values: Any) -> Sequence[str]:
    return [json.dumps(value) for value in values]
