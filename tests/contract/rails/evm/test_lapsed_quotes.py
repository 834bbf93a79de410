"""A price holds as long as its quote: payments that come later, or differ from it, are returned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio
from eth_abi import encode
from florin.v1 import payout_pb2
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.domain.chains.evm import abi
from florin_server.money.payments.store import payments
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS, EvmOptionTerms
from florin_server.rails.evm.settler import PayArguments

from tests.support.books import book_all, get_balance, wait_exact
from tests.support.late_money import (
    list_payouts,
    make_non_signing_wallet,
    submit_authorization,
    wait_returned,
)
from tests.support.payout_merchant import CHAIN, DOLLAR, ETHER, PayoutMerchant, wait_faucet_booked
from tests.support.service_harness import PaymentOffer, ServiceHarness, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOLLARS = f"{CHAIN}/erc20:{DOLLAR}"
RATES = {ETHER: {"GBP": "2500.00"}, DOLLARS: {"GBP": "0.80"}}
GBP = {"unit": "iso4217/GBP", "value": "1250"}
WEI, CENTS = 5 * 10**15, 15_625_000  # 12.50 pounds
QUOTE_S, HOURS_S, DAY_S = 300, 3 * 3600, 86_400
FOR_EVER = 2**64


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("lapsed") / "home"
    async with open_service(home, rates=RATES, fee_fixed=7, fee_basis_points=100) as desk:
        # a token that is worth what its rate says
        rail = desk.service.app.rails[CHAIN]
        tokens = [asset.model_copy(update={"peg": None}) for asset in rail.chain.assets]
        rail.chain = rail.chain.model_copy(update={"assets": tuple(tokens)})
        await rail.start()
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> PayoutMerchant:
    return PayoutMerchant(desk, await desk.tenant())


@dataclass
class Offered:
    """The payment that a wallet can send, as the settlement contract reads it."""

    payment_id: str
    wallet: EvmTestWallet
    actions: list[dict[str, Any]]
    pay: PayArguments


async def offered(shop: PayoutMerchant, wallet: EvmTestWallet, asset: str) -> Offered:
    """Offer a payment of pounds, open for a day; return what a wallet has to send for it."""
    rest = shop.service.rest
    body = {"amount": GBP, "expiresAt": shop.service.now + DAY_S}
    created = await rest.call("POST", "/v1/payments", shop.tenant.headers, body)
    payment_id = created["paymentId"]
    options = (await rest.options(payment_id, [wallet.account]))["options"]
    # for an account that may be unable to sign, the option by transactions comes last
    *_, option = [
        each_option for each_option in options if each_option["amount"]["unit"] == f"caip19/{asset}"
    ]
    fetched = await rest.fetch(payment_id, option["id"], option["actions"][0]["data"]["data"])
    pay = await pay_of(shop.service, wallet, payment_id, option["id"])
    return Offered(payment_id, wallet, fetched["actions"], pay)


async def payer(desk: ServiceHarness, asset: str) -> EvmTestWallet:
    """Return a wallet that sends its payment itself."""
    if asset != ETHER:
        return await make_non_signing_wallet(desk)
    wallet = EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    return wallet


async def pay_of(
    desk: ServiceHarness, wallet: EvmTestWallet, payment_id: str, option_id: str
) -> PayArguments:
    option = await desk.service.app.store.read(payments.find_option(payment_id, option_id))
    assert option is not None
    return EvmOptionTerms.from_option(option).build_pay_arguments(wallet.address.lower(), b"")


async def send(desk: ServiceHarness, wallet: EvmTestWallet, pay: PayArguments) -> str:
    """Call the settlement contract from the wallet with modified arguments."""
    receipt = await wallet.transact(
        desk.chain,
        gas=400_000,
        to=bytes.fromhex(DEVNET.settler[2:]),
        value=pay.value if pay.token == ZERO_ADDRESS else 0,
        data="0x" + settler.encode_pay(pay).hex(),
    )
    return str(receipt["transactionHash"])


async def held(desk: ServiceHarness, wallet: EvmTestWallet, asset: str) -> int:
    if asset == DOLLARS:
        return await desk.chain.balance(wallet.address)
    return int(await desk.chain.ask("eth_getBalance", wallet.address, "latest"), 16)


async def whole_again(
    desk: ServiceHarness, created_offered: Offered, asset: str, value: int
) -> None:
    """Assert that the money was returned, once, without any income."""
    payout = await wait_returned(desk, created_offered.payment_id)
    assert payout.kind == payout_pb2.PAYOUT_KIND_RETURN
    assert (payout.amount, payout.account) == (str(value), created_offered.wallet.account.lower())
    assert len(await list_payouts(desk, created_offered.payment_id)) == 1
    await wait_exact(desk)


@pytest.mark.parametrize(("asset", "value"), [(ETHER, WEI), (DOLLARS, CENTS)])
async def test_lapsed_quote_with_a_postponed_deadline_does_not_pay(desk, shop, asset, value):
    """Three hours after a quote of five minutes, with calldata that claims to be valid forever."""
    wallet = await payer(desk, asset)
    created_offered = await offered(shop, wallet, asset)
    assert created_offered.pay.valid_before == desk.now + QUOTE_S
    # if needed, the wallet lets the contract take the tokens
    await wallet.perform(desk.chain, created_offered.actions[:-1])
    desk.clock.advance(HOURS_S)
    before = await held(desk, wallet, asset)
    await send(desk, wallet, replace(created_offered.pay, valid_before=FOR_EVER))
    assert await held(desk, wallet, asset) <= before - value
    await whole_again(desk, created_offered, asset, value)
    assert (await desk.rest.status(created_offered.payment_id))["status"] == "requires_action"
    assert await held(desk, wallet, asset) > before - value
    assert await get_balance(desk, f"merchant:{shop.tenant.merchant.id}", asset) == 0


@pytest.mark.parametrize("asset", [ETHER, DOLLARS])
async def test_contract_refuses_the_offered_payment_after_its_quote_lapses(desk, shop, asset):
    wallet = await payer(desk, asset)
    created_offered = await offered(shop, wallet, asset)
    await wallet.perform(desk.chain, created_offered.actions[:-1])
    desk.clock.advance(QUOTE_S)
    with pytest.raises(AssertionError):
        await send(desk, wallet, created_offered.pay)
    desk.clock.advance(DAY_S)
    assert (await desk.wait_final(created_offered.payment_id))["status"] == "expired"
    assert await list_payouts(desk, created_offered.payment_id) == []


async def signed(shop: PayoutMerchant) -> PaymentOffer:
    """Return a payment whose buyer signed at a price of five minutes, and did not confirm."""
    wallet = EvmTestWallet()
    await wait_faucet_booked(shop.service, wallet)
    created = await shop.service.rest.call(
        "POST", "/v1/payments", shop.tenant.headers, {"amount": GBP}
    )
    options = await shop.service.rest.options(created["paymentId"], [wallet.account])
    (option,) = [
        each_option
        for each_option in options["options"]
        if each_option["amount"]["unit"] == f"caip19/{DOLLARS}"
    ]
    outputs = wallet.execute_all(option)
    return PaymentOffer(created["paymentId"], option["id"], outputs, wallet, option)


@pytest.mark.parametrize(("after_s", "in_time"), [(QUOTE_S - 1, True), (QUOTE_S, False)])
async def test_settlement_by_a_stranger_counts_until_the_quote_lapses(desk, shop, after_s, in_time):
    """The signature stays valid for some time longer, for those who confirmed in time."""
    stranger = EvmTestWallet()
    await wait_faucet_booked(desk, stranger)
    offer = await signed(shop)
    before = await desk.chain.balance(offer.wallet.address)
    desk.clock.advance(after_s)
    await submit_authorization(desk, stranger, offer.wallet, offer)
    assert await desk.chain.balance(offer.wallet.address) == before - CENTS
    if in_time:
        assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
        assert await list_payouts(desk, offer.payment_id) == []
        return
    await desk.chain.mine()
    await wait_returned(desk, offer.payment_id)
    assert (await desk.rest.status(offer.payment_id))["status"] == "requires_action"
    assert await desk.chain.balance(offer.wallet.address) == before
    await wait_exact(desk)


async def test_payment_confirmed_in_time_settles_in_the_grace_after_its_quote(desk, shop):
    offer = await signed(shop)
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    await desk.confirm(offer)
    desk.clock.advance(QUOTE_S + 60)
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await desk.chain.mine()
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"


@pytest.mark.parametrize("first", ["signature", "pay"])
async def test_second_of_signed_and_direct_payments_is_returned(desk, shop, first):
    """The two events report the same money, but different nonces."""
    offer = await signed(shop)
    wallet = offer.wallet
    pay = await pay_of(desk, wallet, offer.payment_id, offer.option_id)
    approve = f"095ea7b3{DEVNET.settler[2:]:0>64}{pay.value:064x}"
    await wallet.transact(
        desk.chain, gas=100_000, value=0, to=bytes.fromhex(pay.token[2:]), data="0x" + approve
    )
    before = await desk.chain.balance(wallet.address)
    if first == "pay":
        await send(desk, wallet, pay)
    await desk.confirm(offer)
    final = await desk.wait_final(offer.payment_id)
    assert final["status"] == "succeeded"
    if first == "signature":
        twice = await send(desk, wallet, pay)
        assert final["info"]["txId"] != twice
    await wait_returned(desk, offer.payment_id)
    assert await desk.chain.balance(wallet.address) == before - pay.value
    assert len(await list_payouts(desk, offer.payment_id)) == 1
    assert (await desk.rest.status(offer.payment_id))["status"] == "succeeded"
    await wait_exact(desk)


async def test_two_events_of_a_transaction_are_both_returned(desk, shop):
    """An account with code pays twice at once, each time with a different deadline."""
    wallet = EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    many = await wallet.deploy(desk.chain, load_artifact("TestMulticall").runtime)
    await wallet.delegate(desk.chain, many.rpartition(":")[2])
    created_offered = await offered(shop, wallet, DOLLARS)
    before = await desk.chain.balance(wallet.address)
    approve = f"095ea7b3{DEVNET.settler[2:]:0>64}{2 * CENTS:064x}"
    calls = [
        (DOLLAR, False, bytes.fromhex(approve)),
        *(
            (
                DEVNET.settler,
                False,
                settler.encode_pay(replace(created_offered.pay, valid_before=end)),
            )
            for end in (FOR_EVER, FOR_EVER + 1)
        ),
    ]
    data = abi.encode_selector("aggregate3((address,bool,bytes)[])")
    data += encode(["(address,bool,bytes)[]"], [calls])
    to = bytes.fromhex(wallet.address[2:])
    await wallet.transact(desk.chain, gas=800_000, to=to, value=0, data=data)

    async def done() -> list[int]:
        return [payout.status for payout in await list_payouts(desk, created_offered.payment_id)]

    await wait_until(done, [payout_pb2.PAYOUT_STATUS_DONE] * 2)
    assert await desk.chain.balance(wallet.address) == before
    assert (await desk.rest.status(created_offered.payment_id))["status"] == "requires_action"
    await wait_exact(desk)


async def test_payment_with_a_redirected_fee_does_not_pay_and_is_reported(desk, shop):
    """No automatic return either, since the fee did not arrive: the operator is alerted."""
    wallet = await payer(desk, ETHER)
    created_offered = await offered(shop, wallet, ETHER)
    await send(desk, wallet, replace(created_offered.pay, fee_to=wallet.address.lower()))
    # a later payment shows that the settler has passed it
    later = await offered(shop, wallet, ETHER)
    await wallet.perform(desk.chain, later.actions)
    assert (await desk.wait_final(later.payment_id))["status"] == "succeeded"
    assert (await desk.rest.status(created_offered.payment_id))["status"] == "requires_action"
    assert await list_payouts(desk, created_offered.payment_id) == []
    await book_all(desk)
