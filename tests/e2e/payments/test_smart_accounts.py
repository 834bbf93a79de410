"""Wallets whose account does not exist yet pay through REST; the chain tells what came of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from eth_account import Account
from florin_server.devnet.genesis import DEVNET

from tests.support.api import Refused
from tests.support.desk import Desk, Offer, Tenant, opened
from tests.support.shop import shop
from tests.support.smart import Smart, approval, smart, wrapped
from tests.support.wallet import typed_data_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

EURO = DEVNET.euro.address
MERCHANT = "0x" + "6a" * 20
PRICE = 12_500_000
EUR = {"unit": "iso4217/EUR", "value": "1250"}
HASH = "0x" + "11" * 32


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("smart") / "home") as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def tenant(desk):
    return await shop(desk, MERCHANT)


@dataclass
class Purse:
    """A wallet app with one account, which the app has not created so far."""

    smart: Smart

    @property
    def account(self) -> str:
        return f"eip155:{DEVNET.chain_id}:{self.smart.address}"

    def execute_all(self, option: dict[str, Any]) -> list[str]:
        """An approval is part of the account's beginning: there is no transaction to tell of."""
        *approvals, permit = option["actions"]
        return [*(HASH for _ in approvals), self.smart.wrap(typed_data_of(permit))]


def purse(**how: Any) -> Purse:
    return Purse(smart(Account.create(), **how))


async def offer(desk: Desk, tenant: Tenant, wallet: Purse, **order: Any) -> Offer:
    return await desk.offer(wallet, tenant=tenant, **order)


async def exists(desk: Desk, wallet: Purse) -> bool:
    return await desk.chain.ask("eth_getCode", wallet.smart.address, "latest") != "0x"


async def refusal(desk: Desk, made: Offer, output: str) -> Any:
    with pytest.raises(Refused) as caught:
        await desk.rest.confirm(made.payment_id, made.option_id, [output])
    status = (await desk.rest.status(made.payment_id))["status"]
    return caught.value.http, caught.value.details["reason"], status


async def test_an_account_that_does_not_exist_pays_and_is_there_afterwards(desk, tenant):
    wallet = purse()
    before = await desk.chain.balance(MERCHANT)
    made = await offer(desk, tenant, wallet)
    held = await desk.chain.balance(wallet.smart.address)
    assert not await exists(desk, wallet)
    await desk.confirm(made)
    final = await desk.final(made.payment_id)
    assert final["status"] == "succeeded"
    assert final["info"]["optionAmount"]["value"] == str(PRICE)
    assert await exists(desk, wallet)
    assert await desk.chain.balance(MERCHANT) == before + PRICE
    assert await desk.chain.balance(wallet.smart.address) == held - PRICE
    receipt = await desk.chain.ask("eth_getTransactionReceipt", final["info"]["txId"])
    assert (receipt["status"], receipt["to"].lower()) == ("0x1", DEVNET.opener)
    detail = await desk.rest.call("GET", f"/v1/payments/{made.payment_id}", tenant.headers)
    assert detail["buyer"]["accountCaip10"] == wallet.account
    assert detail["settlement"]["successful"]["amount"]["value"] == str(PRICE)

    # the next time the account exists, and its wallet may say so or not
    for sign in (wallet.smart.sign, wallet.smart.wrap):
        again = await offer(desk, tenant, wallet)
        output = sign(typed_data_of(again.option["actions"][0]))
        await desk.rest.confirm(again.payment_id, again.option_id, [output])
        assert (await desk.final(again.payment_id))["status"] == "succeeded"
    assert await desk.chain.balance(MERCHANT) == before + 3 * PRICE


async def test_one_that_approves_at_its_beginning_pays_by_permit2(desk, tenant):
    wallet = purse(calls=[approval(EURO, DEVNET.permit2, PRICE)])
    before = await desk.chain.balance(MERCHANT, EURO)
    made = await offer(desk, tenant, wallet, amount=EUR)
    methods = [one["data"]["method"] for one in made.option["actions"]]
    assert methods == ["eth_sendTransaction", "eth_signTypedData_v4"]
    held = await desk.chain.balance(wallet.smart.address, EURO)
    await desk.confirm(made)
    assert (await desk.ended(made.payment_id))["status"] == "succeeded"
    assert await exists(desk, wallet)
    assert await desk.chain.balance(MERCHANT, EURO) == before + PRICE
    assert await desk.chain.balance(wallet.smart.address, EURO) == held - PRICE


async def test_one_that_never_approves_moves_nothing(desk, tenant):
    wallet = purse()
    made = await offer(desk, tenant, wallet, amount=EUR)
    held = await desk.chain.balance(wallet.smart.address, EURO)
    assert (await desk.confirm(made))["status"] == "processing"
    final = await desk.lapse(made.payment_id)
    assert (final["status"], final["info"]) == ("failed", None)
    assert await desk.chain.balance(wallet.smart.address, EURO) == held
    assert not await exists(desk, wallet)


async def test_what_does_not_pay_is_refused_and_leaves_the_payment_payable(desk, tenant):
    wallet, stranger = purse(), Account.create()
    made = await offer(desk, tenant, wallet)
    asked = typed_data_of(made.option["actions"][0])
    inner = bytes.fromhex(wallet.smart.sign(asked)[2:])
    own, good = wallet.smart, wallet.smart.wrap(asked)
    for output, reason in (
        (wrapped(DEVNET.settler, own.data, inner), "unreadable_output"),
        (wrapped(own.factory, smart(own.owner, salt=1).data, inner), "signature_mismatch"),
        (wrapped(own.factory, b"\xff" * 100, inner), "signature_mismatch"),
        (own.owned_by(stranger).wrap(asked), "signature_mismatch"),
        (own.sign(asked), "signature_mismatch"),
        (good[:-128] + good[-64:], "unreadable_output"),
        ("0x" + "ff" * 96 + good[-64:], "unreadable_output"),
        (wrapped(own.factory, b"\xff" * 4_000, inner), "unreadable_output"),
    ):
        refused = await refusal(desk, made, output)
        assert refused == (400, reason, "requires_action")
    assert not await exists(desk, wallet)
    await desk.confirm(made)
    assert (await desk.final(made.payment_id))["status"] == "succeeded"


async def test_a_wallet_that_is_created_meanwhile_still_pays(desk, tenant):
    wallet = purse()
    before = await desk.chain.balance(MERCHANT)
    made = await offer(desk, tenant, wallet)
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    assert (await desk.confirm(made))["status"] == "processing"
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
    assert (await desk.ended(made.payment_id))["status"] == "succeeded"
    assert await desk.chain.balance(MERCHANT) == before + PRICE


async def test_payments_of_all_kinds_of_accounts_settle_together(desk, tenant):
    before = await desk.chain.balance(MERCHANT)
    wallets = [purse(), None, purse(), None, purse()]
    offers = [await desk.offer(wallet, tenant=tenant) for wallet in wallets]
    await asyncio.gather(*(desk.confirm(one) for one in offers))
    finals = [await desk.final(one.payment_id) for one in offers]
    assert [one["status"] for one in finals] == ["succeeded"] * 5
    assert await desk.chain.balance(MERCHANT) == before + 5 * PRICE
