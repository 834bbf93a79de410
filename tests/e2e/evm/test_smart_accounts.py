"""Wallets whose account does not exist yet pay over REST; the chain shows the result."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from eth_account import Account
from florin_sandbox.devnet.genesis import DEVNET

from tests.support.api import ApiCallError
from tests.support.contract_accounts import (
    ContractAccount,
    make_approval,
    make_contract_account,
    wrap_signature,
)
from tests.support.merchant_tenant import create_merchant_tenant
from tests.support.service_harness import PartnerTenant, PaymentOffer, ServiceHarness, open_service
from tests.support.wallet import get_typed_data

pytestmark = pytest.mark.asyncio(loop_scope="module")

EURO = DEVNET.euro.address
MERCHANT = "0x" + "6a" * 20
PRICE = 12_500_000
EUR = {"unit": "iso4217/EUR", "value": "1250"}
HASH = "0x" + "11" * 32


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("smart") / "home") as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def tenant(desk):
    return await create_merchant_tenant(desk, MERCHANT)


@dataclass
class Purse:
    """A wallet app with one account, which is not created yet."""

    smart: ContractAccount

    @property
    def account(self) -> str:
        return f"eip155:{DEVNET.chain_id}:{self.smart.address}"

    def execute_all(self, option: dict[str, Any]) -> list[str]:
        """Sign an option; an approval happens at the account's creation, without a transaction."""
        *approvals, permit = option["actions"]
        return [*(HASH for _ in approvals), self.smart.wrap(get_typed_data(permit))]


def purse(**how: Any) -> Purse:
    return Purse(make_contract_account(Account.create(), **how))


async def offer(
    desk: ServiceHarness, tenant: PartnerTenant, wallet: Purse, **order: Any
) -> PaymentOffer:
    return await desk.offer(wallet, tenant=tenant, **order)


async def exists(desk: ServiceHarness, wallet: Purse) -> bool:
    return await desk.chain.ask("eth_getCode", wallet.smart.address, "latest") != "0x"


async def refusal(desk: ServiceHarness, created_offer: PaymentOffer, output: str) -> Any:
    with pytest.raises(ApiCallError) as caught:
        await desk.rest.confirm(created_offer.payment_id, created_offer.option_id, [output])
    status = (await desk.rest.status(created_offer.payment_id))["status"]
    return caught.value.http, caught.value.details["reason"], status


async def test_an_account_that_does_not_exist_pays_and_is_there_afterwards(desk, tenant):
    wallet = purse()
    before = await desk.chain.balance(MERCHANT)
    created_offer = await offer(desk, tenant, wallet)
    held = await desk.chain.balance(wallet.smart.address)
    assert not await exists(desk, wallet)
    await desk.confirm(created_offer)
    final = await desk.wait_final(created_offer.payment_id)
    assert final["status"] == "succeeded"
    assert final["info"]["optionAmount"]["value"] == str(PRICE)
    assert await exists(desk, wallet)
    assert await desk.chain.balance(MERCHANT) == before + PRICE
    assert await desk.chain.balance(wallet.smart.address) == held - PRICE
    receipt = await desk.chain.ask("eth_getTransactionReceipt", final["info"]["txId"])
    assert (receipt["status"], receipt["to"].lower()) == ("0x1", DEVNET.opener)
    detail = await desk.rest.call("GET", f"/v1/payments/{created_offer.payment_id}", tenant.headers)
    assert detail["buyer"]["accountCaip10"] == wallet.account
    assert detail["settlement"]["successful"]["amount"]["value"] == str(PRICE)

    # the next time the account exists, and its wallet may or may not report that
    for sign in (wallet.smart.sign, wallet.smart.wrap):
        again = await offer(desk, tenant, wallet)
        output = sign(get_typed_data(again.option["actions"][0]))
        await desk.rest.confirm(again.payment_id, again.option_id, [output])
        assert (await desk.wait_final(again.payment_id))["status"] == "succeeded"
    assert await desk.chain.balance(MERCHANT) == before + 3 * PRICE


async def test_undeployed_account_that_approves_at_creation_pays_by_permit2(desk, tenant):
    wallet = purse(calls=[make_approval(EURO, DEVNET.permit2, PRICE)])
    before = await desk.chain.balance(MERCHANT, EURO)
    created_offer = await offer(desk, tenant, wallet, amount=EUR)
    methods = [action["data"]["method"] for action in created_offer.option["actions"]]
    assert methods == ["eth_sendTransaction", "eth_signTypedData_v4"]
    held = await desk.chain.balance(wallet.smart.address, EURO)
    await desk.confirm(created_offer)
    assert (await desk.wait_ended(created_offer.payment_id))["status"] == "succeeded"
    assert await exists(desk, wallet)
    assert await desk.chain.balance(MERCHANT, EURO) == before + PRICE
    assert await desk.chain.balance(wallet.smart.address, EURO) == held - PRICE


async def test_undeployed_account_that_never_approves_moves_nothing(desk, tenant):
    wallet = purse()
    created_offer = await offer(desk, tenant, wallet, amount=EUR)
    held = await desk.chain.balance(wallet.smart.address, EURO)
    assert (await desk.confirm(created_offer))["status"] == "processing"
    final = await desk.wait_lapsed(created_offer.payment_id)
    assert (final["status"], final["info"]) == ("failed", None)
    assert await desk.chain.balance(wallet.smart.address, EURO) == held
    assert not await exists(desk, wallet)


async def test_invalid_output_of_an_undeployed_account_leaves_the_payment_payable(desk, tenant):
    wallet, stranger = purse(), Account.create()
    created_offer = await offer(desk, tenant, wallet)
    typed_data = get_typed_data(created_offer.option["actions"][0])
    inner = bytes.fromhex(wallet.smart.sign(typed_data)[2:])
    own, good = wallet.smart, wallet.smart.wrap(typed_data)
    for output, reason in (
        (wrap_signature(DEVNET.settler, own.data, inner), "unreadable_output"),
        (
            wrap_signature(own.factory, make_contract_account(own.owner, salt=1).data, inner),
            "signature_mismatch",
        ),
        (wrap_signature(own.factory, b"\xff" * 100, inner), "signature_mismatch"),
        (own.with_owner(stranger).wrap(typed_data), "signature_mismatch"),
        (own.sign(typed_data), "signature_mismatch"),
        (good[:-128] + good[-64:], "unreadable_output"),
        ("0x" + "ff" * 96 + good[-64:], "unreadable_output"),
        (wrap_signature(own.factory, b"\xff" * 4_000, inner), "unreadable_output"),
    ):
        refused = await refusal(desk, created_offer, output)
        assert refused == (400, reason, "requires_action")
    assert not await exists(desk, wallet)
    await desk.confirm(created_offer)
    assert (await desk.wait_final(created_offer.payment_id))["status"] == "succeeded"


async def test_a_wallet_that_is_created_meanwhile_still_pays(desk, tenant):
    wallet = purse()
    before = await desk.chain.balance(MERCHANT)
    created_offer = await offer(desk, tenant, wallet)
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    assert (await desk.confirm(created_offer))["status"] == "processing"
    maker = Account.create()
    coin = {"accounts": [maker.address], "nativeWei": hex(10**18), "tokenUnits": "0x0"}
    await desk.chain.ask("florin_faucet", coin)
    raw = maker.sign_transaction(
        {
            "chainId": DEVNET.chain_id,
            "nonce": 0,
            "gas": 1_000_000,
            "maxFeePerGas": 10**12,
            "maxPriorityFeePerGas": 10**11,
            "to": bytes.fromhex(wallet.smart.factory[2:]),
            "value": 0,
            "data": wallet.smart.data,
        }
    ).raw_transaction
    await desk.chain.ask("eth_sendRawTransaction", "0x" + bytes(raw).hex())
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await desk.chain.ask("evm_mine")
    assert (await desk.wait_ended(created_offer.payment_id))["status"] == "succeeded"
    assert await desk.chain.balance(MERCHANT) == before + PRICE


async def test_payments_of_all_kinds_of_accounts_settle_together(desk, tenant):
    before = await desk.chain.balance(MERCHANT)
    wallets = [purse(), None, purse(), None, purse()]
    offers = [await desk.offer(wallet, tenant=tenant) for wallet in wallets]
    await asyncio.gather(*(desk.confirm(each_offer) for each_offer in offers))
    finals = [await desk.wait_final(each_offer.payment_id) for each_offer in offers]
    assert [final["status"] for final in finals] == ["succeeded"] * 5
    assert await desk.chain.balance(MERCHANT) == before + 5 * PRICE
