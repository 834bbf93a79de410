"""Test that the embedded chain handles every kind of payment like anvil, to the exact gas."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.typed_data import PERMIT2
from florin_server.domain.payments.payment import PaymentOption
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.settings import EvmCoinSettings
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import PayableAsset, Split

from tests.support import chains
from tests.support.evm_harness import (
    ACCEPTS_ALL,
    CHAIN,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    TOKEN,
    EvmChainHarness,
    make_asset,
    make_buyer,
    make_euro_asset,
    make_payment,
    make_settlement_item,
    open_lab,
    sign_option,
    to_account,
)

ETHER = f"{CHAIN}/slip44:60"
FEE = 15_000
NOBODY_SIGNED = '"0x' + "5a" * 65 + '"'


@dataclass
class Script:
    """Transactions on one chain with their success, gas and events."""

    lab: EvmChainHarness
    outcomes: dict[str, tuple[str, int, list[Any]]] = field(default_factory=dict)

    async def note(self, name: str, tx_hash: str) -> None:
        receipt = await self.lab.control.call("eth_getTransactionReceipt", tx_hash)
        logs = [(log["address"], log["topics"], log["data"]) for log in receipt["logs"]]
        self.outcomes[name] = (receipt["status"], int(receipt["gasUsed"], 16), logs)

    def option(
        self,
        payer: LocalAccount | str,
        number: int,
        asset_id: str,
        approvals: tuple[int, ...] = (),
        method: str | None = None,
    ) -> PaymentOption:
        split = Split(to_account(MERCHANT), to_account(FEES), FEE, settled=True)
        account, token = to_account(payer), self.lab.rail.assets[asset_id]
        means = PayableAsset(account, asset_id, approvals, method)
        return self.lab.rail.offers.build_option(
            OptionOffer(make_payment(number), account, means, token, PRICE, split, 0)
        )

    def item(self, payer: LocalAccount, asset_id: str, number: int) -> SettlementItem:
        option = self.option(payer, number, asset_id)
        return make_settlement_item(make_payment(number), option, sign_option(payer, option))

    async def settle(self, name: str, *items: SettlementItem) -> None:
        await self.note(name, (await self.lab.settle(*items)).hash)

    async def perform(self, name: str, payer: LocalAccount, *how: Any) -> None:
        """Send the calls that a wallet sends on its own."""
        issued = await self.lab.rail.offers.resolve_build(self.option(payer, *how), (), 0)
        assert issued is not None
        for n, action in enumerate(issued.actions):
            await self.note(f"{name} {n}", (await self.lab.perform(payer, action)).strip('"'))

    async def call(self, name: str, payer: LocalAccount, to: str, data: str) -> None:
        fields = {"to": to, "data": bytes.fromhex(data)}
        sent = await self.lab.send(key=bytes(payer.key), **fields)
        await self.note(name, sent["transactionHash"])


async def play(script: Script) -> None:
    """Pay in every way."""
    lab = script.lab
    wallets = [make_buyer(n) for n in range(1, 12)]
    accounts = [to_account(wallet) for wallet in wallets]
    prices = {TOKEN: PRICE, EURO: PRICE, ETHER: PRICE}
    assert len(await lab.payable(accounts, prices)) == 3 * len(wallets)
    local_account, two, many = wallets[0], wallets[1], wallets[2:7]

    item = script.item(local_account, TOKEN, 1)
    await script.settle("to receivers that had nothing", item)
    await script.settle("to receivers that had some", script.item(local_account, TOKEN, 2))
    await script.settle("together", *(script.item(each, TOKEN, 3) for each in many))
    await script.settle("one of them is used", item, script.item(two, TOKEN, 4))

    approve = "095ea7b3" + PERMIT2[2:].rjust(64, "0") + f"{2 * PRICE:064x}"
    await script.call("approval", local_account, DEVNET.euro.address, approve)
    await script.settle("by Permit2", script.item(local_account, EURO, 5))
    mixed = (
        script.item(local_account, EURO, 6),
        script.item(two, TOKEN, 7),
        script.item(two, EURO, 8),
    )
    await script.settle("both kinds, and one without an allowance", *mixed)

    await script.perform("directly", two, 9, TOKEN, (PRICE,), "direct")
    await script.perform("directly, through zero", two, 10, EURO, (0, PRICE), "direct")
    await script.perform("coin", two, 11, ETHER)

    contract = await lab.deploy(ACCEPTS_ALL)
    await lab.send_tokens(contract, PRICE)
    option = script.option(contract, 12, TOKEN)
    await script.settle("a contract", make_settlement_item(make_payment(12), option, NOBODY_SIGNED))
    await lab.delegate(two, ACCEPTS_ALL)
    await script.settle("a key with code", script.item(two, TOKEN, 13))
    await lab.delegate(two, "00")
    await script.settle("a key with code that is mute", script.item(two, TOKEN, 14))
    await lab.delegate(two, "5b600056")
    burning = (script.item(two, TOKEN, 15), script.item(local_account, TOKEN, 16))
    await script.settle("a key with code that burns gas", *burning)


@pytest.fixture(scope="module")
def evm():
    """Start anvil, the reference chain."""
    with chains.open_chains("anvil") as opened:
        yield opened


@pytest.fixture
async def both(evm):
    """Run the script on the embedded chain and on anvil."""
    coin = EvmCoinSettings(name="Test Ether", symbol="tETH")
    labs = [
        await open_lab(evm=item, assets=(make_asset(), make_euro_asset()), coin=coin)
        for item in (chains.EmbeddedChains(), evm)
    ]
    yield labs
    for lab in labs:
        await lab.rail.close()
        await lab.chain.close()


async def test_every_payment_does_the_same_on_both_and_costs_the_same(both):
    own, other = [Script(lab) for lab in both]
    await asyncio.gather(play(own), play(other))
    assert own.outcomes == other.outcomes
    assert {status for status, _, _ in own.outcomes.values()} == {"0x1"}
    assert own.outcomes["one of them is used"][2] != own.outcomes["together"][2]


@pytest.mark.parametrize(
    "call",
    [
        {"to": DEVNET.token.address, "data": "0x313ce567"},
        {"to": DEVNET.token.address, "data": "0x70a08231" + "00" * 12 + "ab" * 20},
        {"from": DEVNET.faucet, "to": "0x" + "12" * 20, "value": "0x1", "data": "0x" + "ff" * 500},
        {"from": DEVNET.faucet, "data": "0x602a5f5260205ff3"},
    ],
    ids=["constant", "storage", "floor", "creation"],
)
async def test_a_call_needs_the_same_gas_on_both(both, call):
    async def works(lab: EvmChainHarness, gas: int) -> bool:
        try:
            await lab.control.call("eth_call", {**call, "gas": hex(gas)}, "latest")
        except RpcError:
            return False
        return True

    too_little, enough = 1, 1_000_000
    while too_little + 1 < enough:
        middle = (too_little + enough) // 2
        if await works(both[0], middle):
            enough = middle
        else:
            too_little = middle
    assert [await works(both[1], gas) for gas in (too_little, enough)] == [False, True]
    estimates = [await lab.control.call("eth_estimateGas", call) for lab in both]
    assert estimates[0] == estimates[1]


# members that only anvil returns: blob prices, and times that the block also has
ITS_OWN = {"blobGasPrice", "blockTimestamp"}


def spelled(value: Any) -> Any:
    """Normalize a value to its form, whatever its content."""
    if isinstance(value, dict):
        result = {name: spelled(item) for name, item in value.items() if name not in ITS_OWN}
        # these numbers are as long as a hash, unless they start with zeros
        return {**result, **{name: "number" for name in ("r", "s") if name in result}}
    if isinstance(value, list):
        return [spelled(item) for item in value]
    if not isinstance(value, str):
        return value
    assert value.startswith("0x")
    if len(value) in {18, 42, 66, 514}:
        return len(value), value == value.lower()
    return "quantity" if re.fullmatch(r"0x(0|[1-9a-f][0-9a-f]*)", value) else "data"


async def test_blocks_transactions_and_receipts_are_spelled_alike(both):
    async def read_newest_block(lab: EvmChainHarness) -> Any:
        block = await lab.control.call("eth_getBlockByNumber", "latest", True)
        (transaction,) = block["transactions"]
        return spelled(
            [
                block,
                await lab.control.call("eth_getTransactionByHash", transaction["hash"]),
                await lab.control.call("eth_getTransactionReceipt", transaction["hash"]),
                await lab.control.call("eth_getBlockReceipts", block["number"]),
                await lab.control.call("eth_getLogs", {"blockHash": block["hash"]}),
            ]
        )

    async def create_and_read_blocks(lab: EvmChainHarness) -> list[Any]:
        await lab.delegate(make_buyer(1), "00")
        delegated = await read_newest_block(lab)
        await lab.settle(await lab.create_verified_item(1))
        return [delegated, await read_newest_block(lab)]

    own, other = [await create_and_read_blocks(lab) for lab in both]
    assert own == other
