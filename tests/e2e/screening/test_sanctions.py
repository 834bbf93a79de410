"""Screening lists: imported as a whole, effective at once, reported when they are old."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import screening_pb2, system_pb2
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings

from tests.support.api import ApiCallError
from tests.support.installation import open_operator
from tests.support.operator import get_relayer
from tests.support.own_chain import CHAIN, CHAIN_ID, make_own_chain, open_node_client
from tests.support.sanctions_import import DIGEST, import_list, remove_list
from tests.support.service_harness import ORDER, START_S, open_service
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_S = 86_400
SOLANA = "4" + "z" * 42


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("sanctions")) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def operator(desk):
    async with open_operator(desk.service) as operator:
        yield operator
        for screening_list in await listed(operator):
            await remove_list(operator, screening_list.name)


async def listed(operator) -> list[screening_pb2.ScreeningList]:
    request = screening_pb2.ListScreeningListsRequest()
    return list((await operator.call("ListScreeningLists", request)).lists)


async def check(operator, account: str) -> tuple[bool, list[str]]:
    request = screening_pb2.CheckAccountRequest(account=account)
    result = await operator.call("CheckAccount", request)
    return result.blocked, list(result.lists)


async def problem(operator) -> str:
    status = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    return status.screening_problem


async def refusal(call) -> ApiCallError:
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value


async def test_a_list_is_in_force_when_its_import_is_answered(desk, operator):
    early, late, now_s = EvmTestWallet(), EvmTestWallet(), desk.now
    offer = await desk.offer(late)
    done = await import_list(
        operator, early.address, late.address.lower(), SOLANA, published_s=now_s
    )
    assert not done.HasField("former")
    assert [done.list] == await listed(operator)
    assert (done.list.name, done.list.digest, done.list.count) == ("sdn", DIGEST, 3)
    assert done.list.published_at.seconds == done.list.imported_at.seconds == now_s

    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    for account in (early.account, f"eip155:1:{early.address.lower()}", f"solana:any:{SOLANA}"):
        error = await refusal(desk.rest.options(payment_id, [EvmTestWallet().account, account]))
        assert (error.http, error.code) == (451, "sanctioned_user")
    assert len((await desk.rest.options(payment_id, [EvmTestWallet().account]))["options"]) == 1
    answer = await desk.confirm(offer)
    assert (answer["status"], answer["failureCode"]) == ("failed", "declined_user")


async def test_a_newer_list_replaces_the_former_as_a_whole(desk, operator):
    gone, stays, comes = EvmTestWallet(), EvmTestWallet(), EvmTestWallet()
    await import_list(operator, gone.address, stays.address)
    done = await import_list(operator, stays.address, comes.address, digest="cd" * 32)
    assert (done.former.digest, done.former.count, done.list.count) == (DIGEST, 2, 2)
    assert [screening_list.digest for screening_list in await listed(operator)] == ["cd" * 32]
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    for wallet in (stays, comes):
        assert (await refusal(desk.rest.options(payment_id, [wallet.account]))).http == 451
    assert len((await desk.rest.options(payment_id, [gone.account]))["options"]) == 1


async def test_a_list_of_another_name_stands_beside_it(operator):
    both, wallet = EvmTestWallet(), EvmTestWallet()
    await import_list(operator, both.address)
    await import_list(operator, both.address, wallet.address, name="own")
    assert await check(operator, both.account) == (True, ["own", "sdn"])
    assert await check(operator, wallet.address.lower()) == (True, ["own"])
    await remove_list(operator, "own")
    assert await check(operator, wallet.account) == (False, [])
    assert await check(operator, f"eip155:1:{both.address}") == (True, ["sdn"])
    error = await refusal(remove_list(operator, "own"))
    assert (error.http, error.code) == (400, "params_validation")


async def test_nothing_changes_before_the_last_part_is_in(desk, operator):
    old, new, more = EvmTestWallet(), EvmTestWallet(), EvmTestWallet()
    await import_list(operator, old.address)
    first = await import_list(operator, new.address, last=False)
    assert not first.HasField("list")
    assert await check(operator, new.account) == (False, [])
    assert await check(operator, old.account) == (True, ["sdn"])
    await import_list(operator, more.address, part=1)
    assert [await check(operator, wallet.account) for wallet in (old, new, more)] == [
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
    wallet = EvmTestWallet()
    await import_list(operator, wallet.address, last=False)
    error = await refusal(import_list(operator, wallet.address, **second))
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
    error = await refusal(import_list(operator, **changes))
    assert (error.code, error.issues[0]["field"]) == ("params_validation", field)
    assert await listed(operator) == []


async def test_a_list_that_looks_broken_is_refused_unless_forced(desk, operator):
    error = await refusal(import_list(operator))
    assert "no address that Florin can screen" in error.message
    wallets = [EvmTestWallet().address for _ in range(4)]
    now_s = desk.now
    await import_list(operator, *wallets, published_s=now_s)
    for addresses, published_s, why in (
        ([], now_s, "no address"),
        (wallets[:1], now_s, "has 1 addresses, and the current list has 4"),
        (wallets, now_s - 1, "older than the current list"),
    ):
        error = await refusal(import_list(operator, *addresses, published_s=published_s))
        assert why in error.message
        assert [screening_list.count for screening_list in await listed(operator)] == [4]
    assert (await import_list(operator, *wallets[:2], published_s=now_s)).list.count == 2
    assert (await import_list(operator, force=True, published_s=now_s - 1)).list.count == 0
    assert await check(operator, wallets[0]) == (False, [])


async def test_a_list_has_a_most_that_it_may_hold(operator):
    for number in range(5):
        many = [f"0x{number:08x}{index:032x}" for index in range(10_000)]
        await import_list(operator, *many, part=number, last=False)
    error = await refusal(import_list(operator, EvmTestWallet().address, part=5))
    assert "a list can have at most 50000 addresses" in error.message
    error = await refusal(import_list(operator, EvmTestWallet().address, part=6))
    assert "start the import again" in error.message
    assert await listed(operator) == []


@pytest.mark.parametrize("text", ["rubbish", "eip155:1:0x12", f"solana:any:0x{'11' * 20}", "0x12"])
async def test_invalid_account_cannot_be_checked(operator, text):
    error = await refusal(check(operator, text))
    assert (error.code, error.issues[0]["field"]) == ("params_validation", "account")


async def test_outdated_screening_list_is_reported_by_the_service_clock(desk, operator):
    assert await problem(operator) == ""
    await import_list(operator, EvmTestWallet().address, published_s=desk.now - 29 * DAY_S)
    await import_list(operator, EvmTestWallet().address, name="own")
    assert await problem(operator) == ""
    desk.clock.advance(2 * DAY_S)
    assert await problem(operator) == "screening list sdn is 31 days old"
    desk.clock.advance(29 * DAY_S)
    output = "screening list own is 31 days old; screening list sdn is 60 days old"
    assert await problem(operator) == output
    # the operator requires no more than reports
    assert (await desk.offer()).option["id"]


async def test_live_keys_without_a_screening_list_are_reported(desk, operator):
    assert await problem(operator) == ""
    key_id, _ = await desk.key(None, live=True)
    assert "no screening list is imported" in await problem(operator)
    await desk.revoke(key_id)
    assert await problem(operator) == ""


# live payments require lists


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strict(tmp_path_factory):
    """Open a service with a live chain, whose operator requires recent lists."""
    folder = tmp_path_factory.mktemp("strict")
    dev_settings = EvmDevSettings(chain_id=CHAIN_ID, block_interval_s=0)
    chain = await EvmDevChain.open(folder / "chain", dev_settings)
    try:
        port = await chain.serve_http()
        live = make_own_chain(f"http://127.0.0.1:{port}", name="Live", live=True)
        more = {"chains": (live,), "demo": True, "screening_required": True}
        async with open_service(folder / "home", **more) as desk:
            yield desk, open_node_client(chain)
    finally:
        await chain.close()


async def test_live_payments_wait_for_a_list_that_is_young_enough(strict, caplog):
    desk, chain = strict
    tenant, app = await desk.tenant(live=True), await desk.wallet_app(live=True)
    wallet = EvmTestWallet(CHAIN)
    purse = {"accounts": [wallet.address], "nativeWei": "0x0", "tokenUnits": hex(10**9)}
    await chain.call("florin_faucet", purse)
    # a relayer without coin for gas cannot dry-run a settlement either
    relayer = await get_relayer(desk, CHAIN)
    await chain.call("florin_faucet", {"accounts": [relayer], "tokens": []})
    # coin that came after the start is noticed soon
    desk.clock.advance(31)
    order = {**ORDER, "expiresAt": desk.now + 3 * DAY_S}
    created = await desk.ask("POST", "/v1/payments", tenant.headers, order)
    assert (created.status, created.body["live"]) == (201, True)
    path = f"/v1/gateway/payment/{created.body['paymentId']}"

    async def options():
        return await desk.ask("POST", path + "/options", app, {"accounts": [wallet.account]})

    async with open_operator(desk.service) as operator:
        assert (await options()).refusal == (503, "internal_error")
        assert "live payments are refused: no screening list is imported" in caplog.text
        # test data is served all the time
        assert (await desk.offer()).option["id"]

        await import_list(operator, EvmTestWallet().address, published_s=desk.now - 29 * DAY_S)
        (option,) = (await options()).body["options"]
        results = [{"type": "walletRpc", "data": wallet.execute_all(option)}]
        body = {"optionId": option["id"], "results": results}
        desk.clock.advance(2 * DAY_S)
        assert (await options()).refusal == (503, "internal_error")
        late = await desk.ask("POST", path + "/confirm", app, body)
        assert late.refusal == (503, "internal_error")
        assert "live payments are refused: screening list sdn is 31 days old" in caplog.text

        # listed accounts are refused, however old the list
        await import_list(operator, wallet.address, published_s=desk.now - 29 * DAY_S, name="own")
        assert (await options()).refusal == (451, "sanctioned_user")
        await remove_list(operator, "own")
        await import_list(operator, EvmTestWallet().address, published_s=desk.now)
        accepted = await desk.ask("POST", path + "/confirm", app, body)
        assert (accepted.status, accepted.body["status"]) == (200, "processing")


async def test_imports_at_the_same_time_do_not_mix(operator):
    wallet, other = EvmTestWallet(), EvmTestWallet()
    await import_list(operator, wallet.address, last=False)
    await import_list(operator, other.address, name="own")
    error = await refusal(import_list(operator, wallet.address, part=1))
    assert "another import started meanwhile" in error.message
    assert [
        (screening_list.name, screening_list.count) for screening_list in await listed(operator)
    ] == [("own", 1)]
