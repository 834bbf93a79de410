"""Shared helpers of the Solana rail's tests: the rail on an embedded chain, and a lying node."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.payments.payment import (
    Confirmation,
    FreeNonce,
    Payment,
    PaymentOption,
    ResolvedBuild,
)
from florin_server.domain.settlement.chain_txs import ChainTx, SettlementItem, TxState
from florin_server.money.payments.service import funding
from florin_server.money.payouts.service.account_opening import list_receiving_accounts
from florin_server.rails.connection.jsonrpc import LocalTransport
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaAssetSettings, SolanaChainSettings
from florin_server.rails.types import PayableAsset, SignedTransaction, Split
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.transaction import VersionedTransaction

from tests.support.chainlab.selection import get_selected_solana_profile
from tests.support.evm_harness import TamperingTransport, make_payment
from tests.support.solana import ASSETS, SolanaTestWallet
from tests.support.solana_devnet import START_S, SolanaDevnetNode, make_wallet, open_node

RELAYER = SolanaSigner(b"\x52" * 32)
TREASURY = str(make_wallet(90).pubkey())
MERCHANT = str(make_wallet(91).pubkey())
PRICE = 1_500_000
PROFILE = get_selected_solana_profile()
FINAL = PROFILE.finalized_slots if PROFILE else 4  # slots on top


def make_chain_settings(**changes: Any) -> SolanaChainSettings:
    """Return the embedded chain's settings as an operator would write them."""
    return SolanaChainSettings(
        **{
            "reference": SOLANA_DEVNET.chain_id.removeprefix("solana:"),
            "name": SOLANA_DEVNET.name,
            "treasury": TREASURY,
            "faucet": True,
            "assets": tuple(make_asset(number) for number in range(2)),
        }
        | changes
    )


def make_asset(number: int = 0, **changes: Any) -> SolanaAssetSettings:
    token = SOLANA_DEVNET.tokens[number]
    return SolanaAssetSettings(
        **{
            "mint": token.address,
            "name": token.name,
            "symbol": token.symbol,
            "decimals": token.decimals,
            "peg": token.peg,
        }
        | changes
    )


def make_split(fee: int = 0, dest: str = MERCHANT) -> Split:
    chain = SOLANA_DEVNET.chain_id
    return Split(f"{chain}:{dest}", f"{chain}:{TREASURY}" if fee else None, fee, settled=True)


@dataclass
class SolanaRailHarness:
    node: SolanaDevnetNode
    transport: TamperingTransport
    rail: SolanaRail

    async def payable(self, payers: Sequence[str], prices: Mapping[str, int]) -> list[PayableAsset]:
        """Return the payable assets; payers that lack balance get it first."""
        return await funding.list_payables(self.rail, payers, prices)

    async def offer(
        self,
        buyer: SolanaTestWallet,
        number: int = 1,
        token: int = 0,
        value: int = PRICE,
        asset_id: str = "",
        **route: Any,
    ) -> tuple[Payment, PaymentOption]:
        payment, asset_id = make_payment(number), asset_id or ASSETS[token]
        payer = self.rail.find_payer(buyer.account)
        assert payer is not None
        await self.payable([payer], {asset_id: value})
        option = self.rail.offers.build_option(
            OptionOffer(
                payment,
                buyer.account,
                PayableAsset(payer, asset_id),
                self.rail.assets[asset_id],
                value,
                make_split(**route),
                START_S * 1_000_000,
            )
        )
        return payment, option

    async def build_option(self, option: PaymentOption, *before: ResolvedBuild) -> ResolvedBuild:
        resolved_build = await self.resolve_build(option, before)
        assert resolved_build is not None
        return resolved_build

    async def resolve_build(
        self, option: PaymentOption, before: Sequence[ResolvedBuild], spare: FreeNonce | None = None
    ) -> ResolvedBuild | None:
        now_us = START_S * 1_000_000
        return await self.rail.offers.resolve_build(
            option, before, now_us, spare, self.list_openable_accounts(option)
        )

    def list_openable_accounts(self, option: PaymentOption) -> list[AssetAccount]:
        """Return all accounts that may have to be opened, as if none was opened before."""
        return list_receiving_accounts(option.asset, self.rail.terms.get_split(option))

    async def create_item(
        self, buyer: SolanaTestWallet, **offer: Any
    ) -> tuple[SettlementItem, ResolvedBuild]:
        """Return a verified payment in the form that the service stores."""
        payment, option = await self.offer(buyer, **offer)
        issued = await self.build_option(option)
        output = json.dumps(sign_build(buyer, issued))
        await self.rail.verifier.verify(option, [issued], [output])
        content = Confirmation(payment.id, option.id, (output,), b"", START_S * 1_000_000)
        return SettlementItem(payment, option, content, issued.head), issued

    async def submit_item(self, item: SettlementItem) -> ChainTx:
        signed_transaction = await self.rail.relay.sign(RELAYER.address, 0, [item])
        await self.rail.relay.broadcast(signed_transaction.raw)
        return make_chain_tx(signed_transaction, item)

    async def slots(self, count: int) -> None:
        await self.node.fault("slots", slots=count)


def sign_build(buyer: SolanaTestWallet, issued: ResolvedBuild) -> str:
    return buyer.sign(get_transaction(issued))


def get_transaction(issued: ResolvedBuild) -> VersionedTransaction:
    (action,) = issued.actions
    assert action.method == "solana_signTransaction"
    (item,) = json.loads(action.params_json)
    return VersionedTransaction.from_bytes(base64.b64decode(item["transaction"]))


def get_message(issued: ResolvedBuild) -> MessageV0:
    message = get_transaction(issued).message
    assert isinstance(message, MessageV0)
    return message


def make_chain_tx(signed_transaction: SignedTransaction, item: SettlementItem) -> ChainTx:
    return ChainTx(
        id="tx_1",
        chain_id=SOLANA_DEVNET.chain_id,
        sender=RELAYER.address,
        nonce=0,
        raw=signed_transaction.raw,
        hash=signed_transaction.hash,
        payment_ids=(item.payment.id,),
        state=TxState.SIGNED,
        created_at_us=START_S * 1_000_000,
    )


@asynccontextmanager
async def open_lab(**changes: Any) -> AsyncIterator[SolanaRailHarness]:
    """Open the rail on a cluster that refuses the commitment `confirmed`, as clusters may."""
    async with open_node(confirmed_slots=None, finalized_slots=FINAL) as node:
        await node.fund(Keypair.from_seed(b"\x52" * 32), lamports=10**11, tokens=[])
        await node.fault("slots", slots=2 * FINAL)
        between = TamperingTransport(LocalTransport(node.chain.handle))
        rail = SolanaRail(make_chain_settings(**changes), RELAYER, between)
        await rail.start()
        yield SolanaRailHarness(node, between, rail)
        await rail.close()


def make_outputs(*values: Any) -> Sequence[str]:
    return [json.dumps(value) for value in values]
