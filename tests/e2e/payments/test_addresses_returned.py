"""Test that money at addresses that pays nothing comes back to its sender, and that books agree."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import address_pb2, held_pb2, payout_pb2
from florin_sandbox.devnet.evm.chain import STATES_MAX

from tests.support.addresses import (
    CHAIN,
    COIN,
    DOLLAR,
    EURO,
    ORDER,
    PRICE,
    ExchangeLikeSender,
    PlainSender,
    open_address,
    pass_time,
    read_tokens,
    wait_for_status,
)
from tests.support.api import ApiCallError
from tests.support.installation import open_operator
from tests.support.operator import check_ledger
from tests.support.service_harness import open_service
from tests.support.until import advance, wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")
RATES = {COIN: {"USD": "2500.00"}}
# an hour after the end of a payment, and its grace
LATER_S = 3 * 3600
DAY_S = 86_400
MUCH = 3_000_000


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("addresses_returned") / "home"
    async with open_service(home, rates=RATES) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def sender(service):
    return await PlainSender(service.chain).fund()


async def ask_operator(service, call, request):
    async with open_operator(service.service) as operator:
        return await operator.call(call, request)


async def list_payouts(service, payment_id):
    result = await ask_operator(service, "ListPayouts", payout_pb2.ListPayoutsRequest(all=True))
    return [payout for payout in result.payouts if payout.payment_id == payment_id]


async def list_held(service, payment_id):
    request = held_pb2.ListHeldPaymentsRequest(all=True)
    result = await ask_operator(service, "ListHeldPayments", request)
    return [item for item in result.held_payments if item.payment_id == payment_id]


async def wait_for_returns(service, payment_id, count):
    """Let time pass until so many payouts of a payment are done; return them."""

    async def turn() -> None:
        await advance(service.clock, 11)
        await service.chain.mine()

    async def count_done() -> int:
        done = payout_pb2.PAYOUT_STATUS_DONE
        return sum(payout.status == done for payout in await list_payouts(service, payment_id))

    await wait_until(count_done, count, meanwhile=turn)
    return await list_payouts(service, payment_id)


async def test_too_much_money_comes_back_and_the_payment_shows_it(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    before = await read_tokens(service.chain, sender.address)
    await sender.send_token(address["address"], PRICE + MUCH)
    await wait_for_status(service, payment_id, "succeeded")
    service.clock.advance(LATER_S)
    (payout,) = await wait_for_returns(service, payment_id, 1)
    assert payout.account == f"{CHAIN}:{sender.address}"
    assert await read_tokens(service.chain, sender.address) == before - PRICE
    assert await read_tokens(service.chain, address["address"]) == 0
    (deposit,) = (await service.rest.detail(payment_id))["deposits"]
    assert deposit["returnedBy"] == payout.payout_id
    await check_ledger(service)


async def test_late_money_in_two_assets_comes_back_whole(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    before = [await read_tokens(service.chain, sender.address, asset) for asset in (DOLLAR, EURO)]
    service.clock.advance(7200)
    await pass_time(service, 2)
    await sender.send_token(address["address"], PRICE)
    await sender.send_token(address["address"], MUCH, EURO)
    await pass_time(service, 4)
    # the address was looked at already: the next look is a day later
    service.clock.advance(DAY_S)
    await wait_for_returns(service, payment_id, 2)
    after = [await read_tokens(service.chain, sender.address, asset) for asset in (DOLLAR, EURO)]
    assert after == before
    assert (await service.rest.status(payment_id))["status"] == "expired"
    await check_ledger(service)


async def test_coin_comes_back_to_its_sender_after_the_node_forgot_its_block(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id, COIN)
    value = int(address["amount"]["value"]) - 1
    await sender.send_coin(address["address"], value)
    await pass_time(service, 4)
    # a node keeps the states of so many blocks, and an hour has more
    await service.chain.ask("evm_mine", {"blocks": STATES_MAX + 2})
    service.clock.advance(LATER_S)
    (payout,) = await wait_for_returns(service, payment_id, 1)
    assert (payout.account, payout.amount) == (f"{CHAIN}:{sender.address}", str(value))
    await check_ledger(service)


async def test_exchange_is_held_until_the_operator_names_an_account(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    exchange = await ExchangeLikeSender.deploy(sender)
    await exchange.send_tokens([(address["address"], MUCH)])
    await pass_time(service, 4)
    service.clock.advance(LATER_S)

    async def turn() -> None:
        await advance(service.clock, 11)
        await service.chain.mine()

    async def count() -> int:
        return len(await list_held(service, payment_id))

    await wait_until(count, 1, meanwhile=turn)
    (held,) = await list_held(service, payment_id)
    assert held.cause == held_pb2.HELD_PAYMENT_CAUSE_SENDER_UNKNOWN
    assert held.payer == f"{CHAIN}:{exchange.contract.lower()}"
    assert held.address == f"{CHAIN}:{address['address'].lower()}"
    buyer = PlainSender(service.chain)
    verdict = held_pb2.ResolveHeldPaymentRequest(
        held_id=held.held_id,
        verdict=held_pb2.HELD_PAYMENT_VERDICT_RETURN,
        note="the buyer showed the withdrawal",
        return_to=f"{CHAIN}:{buyer.address}",
    )
    done = await ask_operator(service, "ResolveHeldPayment", verdict)
    assert done.state == held_pb2.HELD_PAYMENT_STATE_RETURNED
    await wait_for_returns(service, payment_id, 1)
    assert await read_tokens(service.chain, buyer.address) == MUCH
    await check_ledger(service)


async def test_operator_sends_home_what_is_left_at_addresses_in_one_call(service, sender):
    payment_ids = [(await service.rest.create(ORDER))["paymentId"] for _ in range(2)]
    addresses = [await open_address(service, payment_id) for payment_id in payment_ids]
    # too little to be worth its transaction
    for address in addresses:
        await sender.send_token(address["address"], 5)
    await pass_time(service, 4)
    request = address_pb2.ListAddressMoneyRequest(chain_id=CHAIN)

    async def list_left():
        listed = await ask_operator(service, "ListAddressMoney", request)
        return {item.payment_id: item for item in listed.items}

    assert not (await list_left()).keys() & set(payment_ids)
    service.clock.advance(LATER_S)
    await pass_time(service, 4)
    left = await list_left()
    items = [left[payment_id] for payment_id in payment_ids]
    assert [(item.amount, item.asset, item.is_requested) for item in items] == [
        ("5", DOLLAR, False)
    ] * 2
    sweep = address_pb2.SweepAddressesRequest(
        chain_id=CHAIN,
        items=[address_pb2.AddressAsset(address=item.address, asset=item.asset) for item in items],
    )
    result = await ask_operator(service, "SweepAddresses", sweep)
    assert list(result.addresses) == [item.address for item in items]

    async def turn() -> None:
        await advance(service.clock, 11)
        await service.chain.mine()

    async def count_kept() -> int:
        held = [await list_held(service, payment_id) for payment_id in payment_ids]
        return sum(map(len, held))

    await wait_until(count_kept, 2, meanwhile=turn)
    for address in addresses:
        assert await read_tokens(service.chain, address["address"]) == 0
    assert not (await list_left()).keys() & set(payment_ids)
    await check_ledger(service)


async def test_sweep_of_many_addresses_is_refused_as_a_whole(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = f"{CHAIN}:{(await open_address(service, payment_id))['address'].lower()}"
    good = address_pb2.AddressAsset(address=address, asset=DOLLAR)
    stranger = address_pb2.AddressAsset(address=f"{CHAIN}:{sender.address}", asset=DOLLAR)
    foreign = address_pb2.AddressAsset(address=address, asset="eip155:1/slip44:60")
    for items in ((good, good), (good, stranger), (foreign,), (), (good,) * 101):
        request = address_pb2.SweepAddressesRequest(chain_id=CHAIN, items=items)
        with pytest.raises(ApiCallError) as refused:
            await ask_operator(service, "SweepAddresses", request)
        assert refused.value.http == 400
    query = "SELECT count(*) FROM address_sweep WHERE address = ?"
    assert service.select(query, address.rpartition(":")[2]) == [(0,)]
