"""Screening lists: imported as a whole, in force at once, told when they are old."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import screening_pb2, system_pb2
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport

from tests.support.api import Refused
from tests.support.desk import ORDER, START_S, opened
from tests.support.installation import operator_of
from tests.support.own_chain import CHAIN, CHAIN_ID, own_chain
from tests.support.sanctions_import import DIGEST, put, remove
from tests.support.wallet import Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_S = 86_400
SOLANA = "4" + "z" * 42


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("sanctions")) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def operator(desk):
    async with operator_of(desk.service) as operator:
        yield operator
        for one in await listed(operator):
            await remove(operator, one.name)


async def listed(operator) -> list[screening_pb2.ScreeningList]:
    request = screening_pb2.ListScreeningListsRequest()
    return list((await operator.ask("ListScreeningLists", request)).lists)


async def check(operator, account: str) -> tuple[bool, list[str]]:
    request = screening_pb2.CheckAccountRequest(account=account)
    found = await operator.ask("CheckAccount", request)
    return found.blocked, list(found.lists)


async def problem(operator) -> str:
    status = await operator.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    return status.screening_problem


async def refusal(call) -> Refused:
    with pytest.raises(Refused) as caught:
        await call
    return caught.value


async def test_a_list_is_in_force_when_its_import_is_answered(desk, operator):
    early, late, now_s = Wallet(), Wallet(), desk.now
    offer = await desk.offer(late)
    done = await put(operator, early.address, late.address.lower(), SOLANA, published_s=now_s)
    assert not done.HasField("former")
    assert [done.list] == await listed(operator)
    assert (done.list.name, done.list.digest, done.list.count) == ("sdn", DIGEST, 3)
    assert done.list.published_at.seconds == done.list.imported_at.seconds == now_s

    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    for account in (early.account, f"eip155:1:{early.address.lower()}", f"solana:any:{SOLANA}"):
        error = await refusal(desk.rest.options(payment_id, [Wallet().account, account]))
        assert (error.http, error.code) == (451, "sanctioned_user")
    assert len((await desk.rest.options(payment_id, [Wallet().account]))["options"]) == 1
    answer = await desk.confirm(offer)
    assert (answer["status"], answer["failureCode"]) == ("failed", "declined_user")


async def test_a_newer_list_replaces_the_former_as_a_whole(desk, operator):
    gone, stays, comes = Wallet(), Wallet(), Wallet()
    await put(operator, gone.address, stays.address)
    done = await put(operator, stays.address, comes.address, digest="cd" * 32)
    assert (done.former.digest, done.former.count, done.list.count) == (DIGEST, 2, 2)
    assert [one.digest for one in await listed(operator)] == ["cd" * 32]
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    for wallet in (stays, comes):
        assert (await refusal(desk.rest.options(payment_id, [wallet.account]))).http == 451
    assert len((await desk.rest.options(payment_id, [gone.account]))["options"]) == 1


async def test_a_list_of_another_name_stands_beside_it(operator):
    both, one = Wallet(), Wallet()
    await put(operator, both.address)
    await put(operator, both.address, one.address, name="own")
    assert await check(operator, both.account) == (True, ["own", "sdn"])
    assert await check(operator, one.address.lower()) == (True, ["own"])
    await remove(operator, "own")
    assert await check(operator, one.account) == (False, [])
    assert await check(operator, f"eip155:1:{both.address}") == (True, ["sdn"])
    error = await refusal(remove(operator, "own"))
    assert (error.http, error.code) == (400, "params_validation")


async def test_nothing_changes_before_the_last_part_is_in(desk, operator):
    old, new, more = Wallet(), Wallet(), Wallet()
    await put(operator, old.address)
    first = await put(operator, new.address, last=False)
    assert not first.HasField("list")
    assert await check(operator, new.account) == (False, [])
    assert await check(operator, old.account) == (True, ["sdn"])
    await put(operator, more.address, part=1)
    assert [await check(operator, one.account) for one in (old, new, more)] == [
        (False, []),
        (True, ["sdn"]),
        (True, ["sdn"]),
    ]


@pytest.mark.parametrize(
    "second",
    [{"part": 2}, {"part": 1, "digest": "cd" * 32}, {"part": 1, "name": "own"}],
    ids=["lost", "another file", "another list"],
)
async def test_parts_that_do_not_follow_each_other_are_refused(operator, second):
    wallet = Wallet()
    await put(operator, wallet.address, last=False)
    error = await refusal(put(operator, wallet.address, **second))
    assert (error.code, error.issues[0]["field"]) == ("params_validation", "part")
    assert await listed(operator) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"addresses": ["0x" + "11" * 20, "bc1qmadeup"]}, "addresses[1]"),
        ({"addresses": ["0x" + "11" * 20] * 10_001}, "addresses"),
        ({"name": "a b"}, "name"),
        ({"digest": "AB" * 32}, "digest"),
        ({"part": -1}, "part"),
        ({"published_s": START_S + 90 * DAY_S}, "publishedAt"),
    ],
)
async def test_a_part_that_cannot_be_meant_is_refused(operator, changes, field):
    error = await refusal(put(operator, **changes))
    assert (error.code, error.issues[0]["field"]) == ("params_validation", field)
    assert await listed(operator) == []


async def test_a_list_that_looks_broken_is_refused_unless_forced(desk, operator):
    error = await refusal(put(operator))
    assert "no address that could be screened" in error.message
    wallets = [Wallet().address for _ in range(4)]
    now_s = desk.now
    await put(operator, *wallets, published_s=now_s)
    for addresses, published_s, why in (
        ([], now_s, "no address"),
        (wallets[:1], now_s, "has 1 addresses, and 4 until now"),
        (wallets, now_s - 1, "older than the one"),
    ):
        error = await refusal(put(operator, *addresses, published_s=published_s))
        assert why in error.message
        assert [one.count for one in await listed(operator)] == [4]
    assert (await put(operator, *wallets[:2], published_s=now_s)).list.count == 2
    assert (await put(operator, force=True, published_s=now_s - 1)).list.count == 0
    assert await check(operator, wallets[0]) == (False, [])


async def test_a_list_has_a_most_that_it_may_hold(operator):
    for number in range(5):
        many = [f"0x{number:08x}{index:032x}" for index in range(10_000)]
        await put(operator, *many, part=number, last=False)
    error = await refusal(put(operator, Wallet().address, part=5))
    assert "a list has at most 50000 addresses" in error.message
    error = await refusal(put(operator, Wallet().address, part=6))
    assert "begin again" in error.message
    assert await listed(operator) == []


@pytest.mark.parametrize("text", ["rubbish", "eip155:1:0x12", f"solana:any:0x{'11' * 20}", "0x12"])
async def test_what_is_no_account_cannot_be_checked(operator, text):
    error = await refusal(check(operator, text))
    assert (error.code, error.issues[0]["field"]) == ("params_validation", "account")


async def test_an_old_list_is_told_by_the_clock_of_the_service(desk, operator):
    assert await problem(operator) == ""
    await put(operator, Wallet().address, published_s=desk.now - 29 * DAY_S)
    await put(operator, Wallet().address, name="own")
    assert await problem(operator) == ""
    desk.clock.advance(2 * DAY_S)
    assert await problem(operator) == "screening list sdn is 31 days old"
    desk.clock.advance(29 * DAY_S)
    told = "screening list own is 31 days old; screening list sdn is 60 days old"
    assert await problem(operator) == told
    # nobody asked for more than being told
    assert (await desk.offer()).option["id"]


async def test_keys_for_live_data_without_a_list_are_told(desk, operator):
    assert await problem(operator) == ""
    key_id, _ = await desk.key(None, live=True)
    assert "no screening list was imported" in await problem(operator)
    await desk.revoke(key_id)
    assert await problem(operator) == ""


# live payments by lists that have to be there


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strict(tmp_path_factory):
    """A service with a live chain, whose operator wants lists that are young enough."""
    folder = tmp_path_factory.mktemp("strict")
    wanted = EvmDevSettings(chain_id=CHAIN_ID, block_interval_s=0)
    chain = await EvmDevChain.open(folder / "chain", wanted)
    try:
        port = await chain.serve_http()
        live = own_chain(f"http://127.0.0.1:{port}", name="Live", live=True)
        more = {"chains": (live,), "demo": True, "screening_required": True}
        async with opened(folder / "home", **more) as desk:
            yield desk, JsonRpc(LocalTransport(chain.handle))
    finally:
        await chain.close()


async def test_live_payments_wait_for_a_list_that_is_young_enough(strict, caplog):
    desk, chain = strict
    tenant, app = await desk.tenant(live=True), await desk.wallet_app(live=True)
    wallet = Wallet(CHAIN)
    purse = {"accounts": [wallet.address], "nativeWei": "0x0", "tokenUnits": hex(10**9)}
    await chain.call("florin_faucet", purse)
    # whoever has no coin for gas cannot try a settlement either
    (relayer,) = desk.service.app.rails[CHAIN].senders
    await chain.call("florin_faucet", {"accounts": [relayer], "tokens": []})
    # coin that came after the start is looked for soon
    desk.clock.advance(31)
    order = {**ORDER, "expiresAt": desk.now + 3 * DAY_S}
    made = await desk.ask("POST", "/v1/payments", tenant.headers, order)
    assert (made.status, made.body["live"]) == (201, True)
    path = f"/v1/gateway/payment/{made.body['paymentId']}"

    async def options():
        return await desk.ask("POST", path + "/options", app, {"accounts": [wallet.account]})

    async with operator_of(desk.service) as operator:
        assert (await options()).told == (503, "internal_error")
        assert "live payments are refused: no screening list was imported" in caplog.text
        # test data is served all the time
        assert (await desk.offer()).option["id"]

        await put(operator, Wallet().address, published_s=desk.now - 29 * DAY_S)
        (option,) = (await options()).body["options"]
        results = [{"type": "walletRpc", "data": wallet.execute_all(option)}]
        body = {"optionId": option["id"], "results": results}
        desk.clock.advance(2 * DAY_S)
        assert (await options()).told == (503, "internal_error")
        late = await desk.ask("POST", path + "/confirm", app, body)
        assert late.told == (503, "internal_error")
        assert "live payments are refused: screening list sdn is 31 days old" in caplog.text

        # who is listed is declined, however old the list
        await put(operator, wallet.address, published_s=desk.now - 29 * DAY_S, name="own")
        assert (await options()).told == (451, "sanctioned_user")
        await remove(operator, "own")
        await put(operator, Wallet().address, published_s=desk.now)
        accepted = await desk.ask("POST", path + "/confirm", app, body)
        assert (accepted.status, accepted.body["status"]) == (200, "processing")


async def test_imports_at_the_same_time_do_not_mix(operator):
    one, other = Wallet(), Wallet()
    await put(operator, one.address, last=False)
    await put(operator, other.address, name="own")
    error = await refusal(put(operator, one.address, part=1))
    assert "another import came in between" in error.message
    assert [(found.name, found.count) for found in await listed(operator)] == [("own", 1)]
