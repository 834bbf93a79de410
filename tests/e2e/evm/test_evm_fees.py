"""The shares of a payment on an EVM chain, for every way to pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from florin_sandbox.devnet.evm import DEVNET

from tests.support import operator
from tests.support.merchant_tenant import set_destinations
from tests.support.service_harness import PartnerTenant, ServiceHarness, open_service
from tests.support.wallet import EvmTestWallet

CHAIN = f"eip155:{DEVNET.chain_id}"
ETHER = f"{CHAIN}/slip44:60"
MERCHANT = "0x" + "5a" * 20
PRICE = 12_500_000  # 12.50 in a token of six decimals
WEI = 5 * 10**15  # 12.50 at 2500.00
MILLIONTHS = 7  # of a dollar, a euro or a pound
WEI_OF_MILLIONTHS = 2_800_000_000

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.both_chains,
    pytest.mark.parametrize(
        ("currency", "asset", "price"),
        [
            ("USD", f"{CHAIN}/erc20:{DEVNET.token.address}", PRICE),
            ("EUR", f"{CHAIN}/erc20:{DEVNET.euro.address}", PRICE),
            ("GBP", ETHER, WEI),
        ],
        ids=["eip3009", "permit2", "coin"],
    ),
]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory, evm):
    home = tmp_path_factory.mktemp("fees") / "home"
    fees = {"fee_fixed": MILLIONTHS, "fee_basis_points": 100}
    async with open_service(home, evm=evm, rates={ETHER: {"GBP": "2500.00"}}, **fees) as desk:
        yield desk


@dataclass
class FeePos:
    desk: ServiceHarness
    tenant: PartnerTenant
    asset: str

    async def treasury(self) -> str:
        return await operator.get_treasury(self.desk, CHAIN)

    async def held(self, address: str) -> int:
        """Return an address's balance of the asset."""
        if self.asset == ETHER:
            return await self.desk.chain.coin(address)
        return await self.desk.chain.balance(address, self.asset.rpartition(":")[2])

    async def booked(self, account: str) -> int:
        return await operator.get_balance(self.desk, account, self.asset)

    async def pay(self, currency: str) -> dict[str, Any]:
        """Return the option that a new buyer has paid."""
        desk, wallet = self.desk, EvmTestWallet()
        await desk.chain.fund(wallet.address)
        amount = {"unit": f"iso4217/{currency}", "value": "1250"}
        created = await desk.rest.call(
            "POST", "/v1/payments", self.tenant.headers, {"amount": amount}
        )
        payment_id = created["paymentId"]
        (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
        actions = (await desk.rest.fetch(payment_id, option["id"]))["actions"]
        outputs = await wallet.perform(desk.chain, actions)
        await desk.rest.confirm(payment_id, option["id"], outputs)
        assert (await desk.wait_final(payment_id))["status"] == "succeeded"
        await operator.check_ledger(desk)
        return option


@pytest_asyncio.fixture(loop_scope="module")
async def pos(desk, asset) -> FeePos:
    return FeePos(desk, await desk.tenant(), asset)


def fee_of(asset: str, price: int) -> int:
    """Return the fixed fee, of equal value in every asset, plus the share."""
    return (WEI_OF_MILLIONTHS if asset == ETHER else MILLIONTHS) + price // 100


async def test_a_fee_goes_to_the_operator_in_the_same_transaction(pos, currency, asset, price):
    await set_destinations(pos.tenant, {asset: f"{CHAIN}:{MERCHANT}"})
    treasury = await pos.treasury()
    paid, earned, booked = (
        await pos.held(MERCHANT),
        await pos.held(treasury),
        await pos.booked("income:fee"),
    )
    await pos.pay(currency)
    fee = fee_of(asset, price)
    assert await pos.held(MERCHANT) == paid + price - fee
    assert await pos.held(treasury) == earned + fee
    assert await pos.booked("income:fee") == booked - fee


async def test_treasury_holds_payments_without_a_merchant_destination(pos, currency, asset, price):
    treasury = await pos.treasury()
    held = await pos.held(treasury)
    await pos.pay(currency)
    assert await pos.held(treasury) == held + price
    assert await pos.booked(f"merchant:{pos.tenant.merchant.id}") == fee_of(asset, price) - price
