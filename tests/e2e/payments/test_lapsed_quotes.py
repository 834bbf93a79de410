"""A price is good as long as its quote: what comes later, or otherwise than offered, goes back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio
from eth_abi import encode
from florin.v1 import payout_pb2
from florin_server.chains.evm import abi
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.genesis import artifact
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import NOBODY, Terms
from florin_server.rails.evm.settler import Pay
from florin_server.store.payments import payments

from tests.support.books import balance, booked, exact
from tests.support.desk import Desk, Offer, opened
from tests.support.late_money import mute, payouts_of, returned, submit
from tests.support.payout_shop import CHAIN, DOLLAR, ETHER, Shop, filled
from tests.support.until import until
from tests.support.wallet import Wallet

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
    async with opened(home, rates=RATES, fee_fixed=7, fee_basis_points=100) as desk:
        # a token that is worth what its rate says
        rail = desk.service.app.rails[CHAIN]
        tokens = [one.model_copy(update={"peg": None}) for one in rail.chain.assets]
        rail.chain = rail.chain.model_copy(update={"assets": tuple(tokens)})
        await rail.start()
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> Shop:
    return Shop(desk, await desk.tenant())


@dataclass
class Offered:
    """What a wallet may send, as the settlement contract reads it."""

    payment_id: str
    wallet: Wallet
    actions: list[dict[str, Any]]
    pay: Pay


async def offered(shop: Shop, wallet: Wallet, asset: str) -> Offered:
    """A payment of pounds, open for a day, and what a wallet is told to send for it in an asset."""
    rest = shop.desk.rest
    body = {"amount": GBP, "expiresAt": shop.desk.now + DAY_S}
    made = await rest.call("POST", "/v1/payments", shop.tenant.headers, body)
    payment_id = made["paymentId"]
    options = (await rest.options(payment_id, [wallet.account]))["options"]
    # of an account that may not be able to sign, the way by calls comes last
    *_, option = [one for one in options if one["amount"]["unit"] == f"caip19/{asset}"]
    fetched = await rest.fetch(payment_id, option["id"], option["actions"][0]["data"]["data"])
    pay = await pay_of(shop.desk, wallet, payment_id, option["id"])
    return Offered(payment_id, wallet, fetched["actions"], pay)


async def payer(desk: Desk, asset: str) -> Wallet:
    """A wallet that sends its payment by itself."""
    if asset != ETHER:
        return await mute(desk)
    wallet = Wallet()
    await filled(desk, wallet)
    return wallet


async def pay_of(desk: Desk, wallet: Wallet, payment_id: str, option_id: str) -> Pay:
    found = await desk.service.app.store.read(payments.option(payment_id, option_id))
    assert found is not None
    return Terms.of(found).pay(wallet.address.lower(), b"")


async def send(desk: Desk, wallet: Wallet, pay: Pay) -> str:
    """The wallet calls the settlement contract with something of its own."""
    receipt = await wallet.transact(
        desk.chain,
        gas=400_000,
        to=bytes.fromhex(DEVNET.settler[2:]),
        value=pay.value if pay.token == NOBODY else 0,
        data="0x" + settler.pay(pay).hex(),
    )
    return str(receipt["transactionHash"])


async def held(desk: Desk, wallet: Wallet, asset: str) -> int:
    if asset == DOLLARS:
        return await desk.chain.balance(wallet.address)
    return int(await desk.chain.ask("eth_getBalance", wallet.address, "latest"), 16)


async def whole_again(desk: Desk, made: Offered, asset: str, value: int) -> None:
    """The money was returned, once, and nothing was earned by it."""
    payout = await returned(desk, made.payment_id)
    assert payout.kind == payout_pb2.PAYOUT_KIND_RETURN
    assert (payout.amount, payout.account) == (str(value), made.wallet.account.lower())
    assert len(await payouts_of(desk, made.payment_id)) == 1
    await exact(desk)


@pytest.mark.parametrize(("asset", "value"), [(ETHER, WEI), (DOLLARS, CENTS)])
async def test_a_dead_price_is_paid_by_nobody_who_puts_off_its_end(desk, shop, asset, value):
    """Three hours after a quote of five minutes, with calldata that says it is good for ever."""
    wallet = await payer(desk, asset)
    made = await offered(shop, wallet, asset)
    assert made.pay.valid_before == desk.now + QUOTE_S
    # where it must, the wallet lets the contract take the tokens
    await wallet.perform(desk.chain, made.actions[:-1])
    desk.clock.advance(HOURS_S)
    before = await held(desk, wallet, asset)
    await send(desk, wallet, replace(made.pay, valid_before=FOR_EVER))
    assert await held(desk, wallet, asset) <= before - value
    await whole_again(desk, made, asset, value)
    assert (await desk.rest.status(made.payment_id))["status"] == "requires_action"
    assert await held(desk, wallet, asset) > before - value
    assert await balance(desk, f"merchant:{shop.tenant.merchant.id}", asset) == 0


@pytest.mark.parametrize("asset", [ETHER, DOLLARS])
async def test_the_contract_itself_refuses_what_was_offered_once_the_quote_is_over(
    desk, shop, asset
):
    wallet = await payer(desk, asset)
    made = await offered(shop, wallet, asset)
    await wallet.perform(desk.chain, made.actions[:-1])
    desk.clock.advance(QUOTE_S)
    with pytest.raises(AssertionError):
        await send(desk, wallet, made.pay)
    desk.clock.advance(DAY_S)
    assert (await desk.final(made.payment_id))["status"] == "expired"
    assert await payouts_of(desk, made.payment_id) == []


async def signed(shop: Shop) -> Offer:
    """A payment whose buyer signed at a price of five minutes, and did not confirm."""
    wallet = Wallet()
    await filled(shop.desk, wallet)
    made = await shop.desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": GBP})
    options = await shop.desk.rest.options(made["paymentId"], [wallet.account])
    (option,) = [one for one in options["options"] if one["amount"]["unit"] == f"caip19/{DOLLARS}"]
    outputs = wallet.execute_all(option)
    return Offer(made["paymentId"], option["id"], outputs, wallet, option)


@pytest.mark.parametrize(("after_s", "in_time"), [(QUOTE_S - 1, True), (QUOTE_S, False)])
async def test_what_a_stranger_submits_counts_until_the_quote_is_over(desk, shop, after_s, in_time):
    """What was signed is good for some time longer, for those who confirmed in time."""
    stranger = Wallet()
    await filled(desk, stranger)
    made = await signed(shop)
    before = await desk.chain.balance(made.wallet.address)
    desk.clock.advance(after_s)
    await submit(desk, stranger, made.wallet, made)
    assert await desk.chain.balance(made.wallet.address) == before - CENTS
    if in_time:
        assert (await desk.final(made.payment_id))["status"] == "succeeded"
        assert await payouts_of(desk, made.payment_id) == []
        return
    await desk.chain.mine()
    await returned(desk, made.payment_id)
    assert (await desk.rest.status(made.payment_id))["status"] == "requires_action"
    assert await desk.chain.balance(made.wallet.address) == before
    await exact(desk)


async def test_what_was_confirmed_in_time_is_settled_in_the_grace_after_the_quote(desk, shop):
    made = await signed(shop)
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    await desk.confirm(made)
    desk.clock.advance(QUOTE_S + 60)
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await desk.chain.mine()
    assert (await desk.final(made.payment_id))["status"] == "succeeded"


@pytest.mark.parametrize("first", ["signature", "pay"])
async def test_who_pays_by_signature_and_by_itself_gets_the_other_back(desk, shop, first):
    """The two events tell the same money, but not the same nonce."""
    made = await signed(shop)
    wallet = made.wallet
    pay = await pay_of(desk, wallet, made.payment_id, made.option_id)
    approve = f"095ea7b3{DEVNET.settler[2:]:0>64}{pay.value:064x}"
    await wallet.transact(
        desk.chain, gas=100_000, value=0, to=bytes.fromhex(pay.token[2:]), data="0x" + approve
    )
    before = await desk.chain.balance(wallet.address)
    if first == "pay":
        await send(desk, wallet, pay)
    await desk.confirm(made)
    final = await desk.final(made.payment_id)
    assert final["status"] == "succeeded"
    if first == "signature":
        twice = await send(desk, wallet, pay)
        assert final["info"]["txId"] != twice
    await returned(desk, made.payment_id)
    assert await desk.chain.balance(wallet.address) == before - pay.value
    assert len(await payouts_of(desk, made.payment_id)) == 1
    assert (await desk.rest.status(made.payment_id))["status"] == "succeeded"
    await exact(desk)


async def test_two_events_of_one_transaction_are_both_returned(desk, shop):
    """An account with code pays twice at once, each time to an end of its own."""
    wallet = Wallet()
    await filled(desk, wallet)
    many = await wallet.deploy(desk.chain, artifact("TestMulticall").runtime)
    await wallet.delegate(desk.chain, many.rpartition(":")[2])
    made = await offered(shop, wallet, DOLLARS)
    before = await desk.chain.balance(wallet.address)
    approve = f"095ea7b3{DEVNET.settler[2:]:0>64}{2 * CENTS:064x}"
    calls = [
        (DOLLAR, False, bytes.fromhex(approve)),
        *(
            (DEVNET.settler, False, settler.pay(replace(made.pay, valid_before=end)))
            for end in (FOR_EVER, FOR_EVER + 1)
        ),
    ]
    data = abi.selector("aggregate3((address,bool,bytes)[])")
    data += encode(["(address,bool,bytes)[]"], [calls])
    to = bytes.fromhex(wallet.address[2:])
    await wallet.transact(desk.chain, gas=800_000, to=to, value=0, data=data)

    async def done() -> list[int]:
        return [one.status for one in await payouts_of(desk, made.payment_id)]

    await until(done, [payout_pb2.PAYOUT_STATUS_DONE] * 2)
    assert await desk.chain.balance(wallet.address) == before
    assert (await desk.rest.status(made.payment_id))["status"] == "requires_action"
    await exact(desk)


async def test_who_takes_the_fee_for_himself_has_not_paid(desk, shop):
    """Nothing is returned by itself either, since the fee is not here: the operator is told."""
    wallet = await payer(desk, ETHER)
    made = await offered(shop, wallet, ETHER)
    await send(desk, wallet, replace(made.pay, fee_to=wallet.address.lower()))
    # a later payment shows that the settler has come past it
    later = await offered(shop, wallet, ETHER)
    await wallet.perform(desk.chain, later.actions)
    assert (await desk.final(later.payment_id))["status"] == "succeeded"
    assert (await desk.rest.status(made.payment_id))["status"] == "requires_action"
    assert await payouts_of(desk, made.payment_id) == []
    await booked(desk)
