"""What strangers do costs them their own budgets, and neither the buyer's nor the merchant's.

A caller writes what it likes into Client-Id, App-Ids are public, and a payment's link is known to
many. Callers here have addresses of their own on the loopback network.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from ipaddress import ip_network
from typing import Any

import aiohttp
import grpc
import pytest
import pytest_asyncio
from florin.v1 import gateway_pb2_grpc, payment_pb2
from florin_server.boot.servers import gateway
from florin_server.boot.servers.upstream import Link
from florin_server.config import LimitSettings
from florin_server.domain.errors import Code, FlorinError
from florin_server.store.engine.sqlite import Connection
from florin_server.store.payments import payments
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.api import refused
from tests.support.desk import ORDER, Answer, Desk, Tenant, opened
from tests.support.held_answers import nothing_held
from tests.support.raw import door
from tests.support.service import held as watched
from tests.support.wallet import Wallet

LIMITED = (429, "rate_limited")
UNKNOWN = (404, "payment_not_found")
STRANGER, BUYER = "127.0.0.66", "127.0.0.7"
LONG = "maxPollMs=600000"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(tmp_path_factory):
    home = tmp_path_factory.mktemp("crowd")
    more = {"options_per_caller": 30, "options_per_payment": 100}
    async with opened(home, limits=LimitSettings(), **more) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(shop) -> Tenant:
    # what the test before used up is whole again
    shop.clock.advance(600)
    return await shop.tenant()


class Caller:
    """Somebody at an address of its own; a new Client-Id each time, unless it has one."""

    def __init__(self, desk: Desk, session: aiohttp.ClientSession, base: str, client: str) -> None:
        self.desk, self.session, self.base, self.client = desk, session, base, client
        self.number = 0

    def headers(self) -> dict[str, str]:
        self.number += 1
        client = self.client or f"client {self.number}"
        return {"App-Id": self.desk.env["FLORIN_APP_ID"], "Client-Id": client}

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        url, sent = self.base + path, {**self.headers(), **headers}
        async with self.session.request(method, url, json=body, headers=sent) as answer:
            return Answer(answer.status, answer.headers, await answer.text())

    async def side(self, payment_id: str, call: str, body: Any = None, **headers: str) -> Answer:
        method = "POST" if body is not None else "GET"
        return await self.ask(method, f"/v1/gateway/payment/{payment_id}{call}", body, **headers)

    async def options(self, payment_id: str, wallets: list[Wallet]) -> Answer:
        body = {"accounts": [wallet.account for wallet in wallets]}
        return await self.side(payment_id, "/options", body)

    async def confirm(self, payment_id: str, option_id: str, *outputs: str) -> Answer:
        results = [{"type": "walletRpc", "data": list(outputs)}]
        return await self.side(payment_id, "/confirm", {"optionId": option_id, "results": results})

    async def passes(self, calls: int) -> int:
        """How many of so many calls are let in."""
        told = [(await self.side("pay_0", "")).told for _ in range(calls)]
        assert set(told) <= {UNKNOWN, LIMITED}
        return told.count(UNKNOWN)


@asynccontextmanager
async def at(desk: Desk, address: str, client: str = "", base: str = ""):
    connector = aiohttp.TCPConnector(local_addr=(address, 0), limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Caller(desk, session, base or desk.rest.base, client)


async def created(desk: Desk, tenant: Tenant) -> str:
    answer = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    return str(answer.body["paymentId"])


# calls
async def test_a_client_id_that_changes_gets_no_new_budget(shop, tenant):
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:
        assert await stranger.passes(400) == 200
        answer = await stranger.side("pay_0", "")
        # what is told is the tightest of all limits that hold
        assert answer.headers["RateLimit-Policy"] == '"key";q=3000;w=60'
        assert answer.headers["RateLimit"] == '"key";r=0;t=1'
        assert (await buyer.side("pay_0", "")).headers["RateLimit"] == '"key";r=119;t=1'
        # keys are secrets, and have budgets of their own wherever they come from
        headers = {"Api-Key": tenant.secret}
        assert (await shop.ask("GET", "/v1/gateway/payment/pay_0", headers)).told == UNKNOWN


async def test_an_idempotency_key_that_changes_fills_no_table(shop, tenant):
    # several, so that it is not the looks at one of them that are too many
    payments = [await created(shop, tenant) for _ in range(3)]
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:

        async def told(caller: Caller, number: int) -> int:
            key = {"Idempotency-Key": f"key {number}"}
            payment_id = payments[number % 3]
            answer = await caller.side(payment_id, "/options", {"accounts": []}, **key)
            return answer.status

        caller = Caller(shop, stranger.session, stranger.base, "one client")
        before = shop.rows()["idempotency"]
        assert [await told(caller, number) for number in range(62)] == [200] * 60 + [429] * 2
        assert shop.rows()["idempotency"] == before + 60
        # what is kept already takes no room, and others have their own
        assert [await told(caller, number) for number in range(3)] == [200] * 3
        assert await told(buyer, 61) == 200
        assert await told(caller, 61) == 429


async def test_calls_under_keys_that_are_refused_take_no_keys_from_others(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    async with at(shop, STRANGER) as stranger:

        async def fetched(number: int, option_id: str) -> Answer:
            key = {"Idempotency-Key": f"refused {number}"}
            return await stranger.side(offer.payment_id, "/fetch", {"optionId": option_id}, **key)

        before = shop.rows()["idempotency"]
        refused_ = [(await fetched(number, "unknown")).status for number in range(80)]
        assert refused_ == [400] * 80
        assert shop.rows()["idempotency"] == before
        # what is kept is counted as before
        told = [(await fetched(number, offer.option_id)).status for number in range(62)]
        assert told == [200] * 60 + [429] * 2
        assert shop.rows()["idempotency"] == before + 60
        # refusals at once, more than the limit: none of them makes room for another key
        told = [
            one.status for one in await asyncio.gather(*(fetched(n, "no") for n in range(100, 180)))
        ]
        assert set(told) == {429}


# options
@pytest.fixture
def rows_read(monkeypatch):
    """How many rows of options each look at them read; workers ask in other words."""
    query, read = Connection.query, []

    def counting(self: Connection, asked: Any) -> Any:
        rows = query(self, asked)
        if asked.statement.sqlite.sql.startswith("SELECT payment_option."):
            read.append(len(rows))
        return rows

    monkeypatch.setattr(Connection, "query", counting)
    return read


async def test_options_of_strangers_are_bounded_and_cost_the_buyer_nothing(shop, tenant, rows_read):
    quiet, crowded = await created(shop, tenant), await created(shop, tenant)
    wallets = [Wallet() for _ in range(50)]
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:
        for start in range(0, 50, 2):
            await stranger.options(crowded, wallets[start : start + 2])
        ((rows,),) = shop.select(
            "SELECT count(*) FROM payment_option WHERE payment_id = ?", crowded
        )
        assert rows == 30
        work = []
        for payment_id in (quiet, crowded, quiet, crowded):
            rows_read.clear()
            answer = await buyer.options(payment_id, [Wallet()])
            assert len(answer.body["options"]) == 1
            work.append((len(rows_read), sum(rows_read)))
        assert len(set(work)) == 1


async def test_who_has_options_keeps_them_when_there_is_room_for_no_more(shop, tenant):
    payment_id = await created(shop, tenant)
    wallets = [Wallet() for _ in range(40)]
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:
        first = await stranger.options(payment_id, wallets[:20])
        assert len(first.body["options"]) == 20
        # as many as there is room for
        more = await stranger.options(payment_id, wallets[20:])
        assert len(more.body["options"]) == 10
        none = await stranger.options(payment_id, [Wallet()])
        assert (none.told, none.headers["Retry-After"]) == (LIMITED, "60")
        again = await stranger.options(payment_id, wallets[:20])
        assert [one["id"] for one in again.body["options"]] == [
            one["id"] for one in first.body["options"]
        ]
        assert len((await buyer.options(payment_id, [Wallet()])).body["options"]) == 1


async def test_few_callers_do_not_leave_others_without_options(shop, tenant):
    payment_id = await created(shop, tenant)

    async def taken(number: int) -> int:
        async with at(shop, f"127.0.1.{number}") as caller:
            answer = await caller.options(payment_id, [Wallet() for _ in range(40)])
            return len(answer.body["options"])

    # the third is told less: half of all is used up by then
    assert [await taken(number) for number in range(1, 5)] == [30, 30, 3, 3]


async def test_nobody_asks_chains_for_a_ordersoptions_without_end(shop, tenant):
    payment_id = await created(shop, tenant)
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:
        told = [(await stranger.options(payment_id, [])).status for _ in range(70)]
        assert told == [200] * 60 + [429] * 10
        assert (await buyer.options(payment_id, [])).status == 200


# held answers
@asynccontextmanager
async def streams(caller: Caller, payment_id: str, count: int):
    """Tries to hold so many streams of a payment; yields how many are held."""
    async with AsyncExitStack() as stack:
        held = 0
        for _ in range(count):
            url = f"{caller.base}/v1/gateway/payment/{payment_id}/events"
            asked = caller.session.get(url, headers=caller.headers())
            held += (await stack.enter_async_context(asked)).status == 200
        yield held


@pytest.mark.parametrize(("client", "most"), [("one", 10), ("", 20)])
async def test_streams_of_a_wallet_leave_the_merchant_and_the_buyer_theirs(
    shop, tenant, client, most
):
    payment_id = await created(shop, tenant)
    async with (
        at(shop, STRANGER, client) as stranger,
        at(shop, BUYER) as buyer,
        streams(stranger, payment_id, 50) as held,
    ):
        url = f"{shop.rest.base}/v1/payments/{payment_id}/events"
        async with shop.session.get(url, headers=tenant.headers) as stream:
            assert stream.status == 200
        poll = asyncio.create_task(buyer.side(payment_id, f"/status?{LONG}"))
        await watched(shop.service, held + 1)
        cancelled = await shop.ask("POST", f"/v1/payments/{payment_id}/cancel", tenant.headers)
        assert cancelled.status == 200
        assert (await asyncio.wait_for(poll, 20)).body["status"] == "cancelled"
        assert held == most


async def test_a_buyer_at_the_address_of_a_wallet_that_holds_all_it_may_is_held_too(shop, tenant):
    payment_id = await created(shop, tenant)
    async with (
        at(shop, STRANGER, "one") as stranger,
        at(shop, STRANGER, "other") as buyer,
        streams(stranger, payment_id, 50),
        streams(buyer, payment_id, 1) as held,
    ):
        assert held == 1


async def test_an_address_holds_so_many_streams_whatever_it_watches(shop, tenant):
    many = [await created(shop, tenant) for _ in range(12)]
    shop.clock.advance(60)
    async with at(shop, STRANGER) as stranger, AsyncExitStack() as stack:
        held = 0
        for payment_id in many:
            held += await stack.enter_async_context(streams(stranger, payment_id, 20))
            shop.clock.advance(1)
        assert held == 200


async def test_streams_that_need_no_credential_are_bounded_too(shop, tenant):
    target = shop.env["FLORIN_GRPC_TARGET"]
    async with grpc.aio.insecure_channel(target) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        calls, held = [], 0
        for number in range(210):
            shop.clock.advance(0.1)
            calls.append(health.Watch(health_pb2.HealthCheckRequest(service=f"any {number}")))
            with suppress(grpc.aio.AioRpcError):
                held += (await calls[-1].read()) is not grpc.aio.EOF
        assert held == 200
        assert await calls[-1].code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for call in calls:
            call.cancel()
        shop.clock.advance(60)
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    await nothing_held(shop)


# confirms, cancels
async def test_a_right_confirm_passes_whatever_others_handed_in(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as other:
        told = []
        for number in range(30):
            wrong = "0x" + f"{number + 1:02x}" * 65
            told.append((await stranger.confirm(offer.payment_id, offer.option_id, wrong)).told)
        assert told == [(400, "invalid_params")] * 20 + [LIMITED] * 10
        # of what another caller hands in, too
        wrong = "0x" + "ee" * 65
        answer = await other.confirm(offer.payment_id, offer.option_id, wrong)
        assert answer.told == (400, "invalid_params")
        # nor of what the same one hands in for another payment
        another = await shop.offer(tenant=tenant)
        answer = await stranger.confirm(another.payment_id, another.option_id, wrong)
        assert answer.told == (400, "invalid_params")
        # from the very address that tried all the others
        answer = await stranger.confirm(offer.payment_id, offer.option_id, *offer.outputs)
        assert answer.status == 200, answer.text
    assert (await shop.final(offer.payment_id))["status"] == "succeeded"


async def test_who_signs_again_and_again_uses_up_its_own(shop, tenant, monkeypatch):
    async def refuses(*_: Any) -> None:
        raise FlorinError(Code.INVALID_PARAMS, "no money")

    (rail,) = shop.service.app.rails.values()
    monkeypatch.setattr(rail.verifier, "verify", refuses)
    one, other = Wallet(), Wallet()
    orders = [await created(shop, tenant) for _ in range(2)]
    found = {
        (payment_id, option["account"]): option
        for payment_id in orders
        for option in (await shop.rest.options(payment_id, [one.account, other.account]))["options"]
    }

    async def confirms(payment_id: str, wallet: Wallet, calls: int) -> list[tuple[int, str]]:
        option = found[payment_id, wallet.account]
        outputs = wallet.execute_all(option)
        return [
            (await buyer.confirm(payment_id, option["id"], *outputs)).told for _ in range(calls)
        ]

    no_money = (400, "invalid_params")
    async with at(shop, BUYER) as buyer:
        assert await confirms(orders[0], one, 25) == [no_money] * 20 + [LIMITED] * 5
        assert await confirms(orders[0], other, 1) == [no_money]
        assert await confirms(orders[1], one, 1) == [no_money]


async def test_what_only_a_chain_can_judge_is_bounded_for_all_callers_together(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    wrong, unreadable = "0x" + "11" * 65, "0x11"

    async def confirm(caller: Caller, output: str) -> tuple[int, str]:
        return (await caller.confirm(offer.payment_id, offer.option_id, output)).told

    for number in range(10):
        async with at(shop, f"127.0.0.{100 + number}") as caller:
            told = [await confirm(caller, wrong) for _ in range(20)]
            assert told == [(400, "invalid_params")] * 20
    async with at(shop, STRANGER) as caller:
        assert await confirm(caller, wrong) == LIMITED
        assert await confirm(caller, unreadable) == (400, "invalid_params")


async def test_what_an_output_is_worth_is_told_without_a_chain(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    app = shop.service.app
    option = await app.store.read(payments.option(offer.payment_id, offer.option_id))
    rail = app.rails[option.chain_id]
    outputs = [f'"{one}"' for one in offer.outputs]
    assert rail.verifier.plausible(option, (), outputs) is True
    # of another key it may be the account's contract that accepts it; other bytes nobody does
    assert rail.verifier.plausible(option, (), ['"0x' + "11" * 65 + '"']) is None
    for unreadable in ('"0x11"', '"no"', "7", "{", "null"):
        assert rail.verifier.plausible(option, (), [unreadable]) is False
    assert rail.verifier.plausible(option, (), []) is False


async def test_cancels_of_a_stranger_do_not_keep_the_merchant_from_it(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    await shop.confirm(offer)
    await shop.final(offer.payment_id)
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:
        told = [(await stranger.side(offer.payment_id, "/cancel", {})).told for _ in range(25)]
        assert told == [(400, "invalid_state")] * 20 + [LIMITED] * 5
        assert (await buyer.side(offer.payment_id, "/cancel", {})).told == (400, "invalid_state")
    path = f"/v1/payments/{offer.payment_id}/cancel"
    answer = await shop.ask("POST", path, tenant.headers)
    assert answer.told == (400, "invalid_state")


# addresses that somebody else tells
async def test_nobody_tells_its_own_address(shop, tenant):
    stub = gateway_pb2_grpc.GatewayServiceStub(shop.channel)
    request = payment_pb2.GetPaymentStatusRequest(payment_id="pay_0")
    passed = 0
    for number in range(250):
        forged = (
            ("client-address", f"ipv4:192.0.2.{number}:1"),
            ("gateway-token", "guess" if number % 2 else ""),
            ("x-forwarded-for", f"192.0.2.{number}"),
        )
        named = (("app-id", shop.env["FLORIN_APP_ID"]), ("client-id", f"c{number}"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetPaymentStatus(request, metadata=(*named, *forged))
        passed += refused(caught.value).code == "payment_not_found"
    assert passed == 200
    async with at(shop, STRANGER) as stranger:
        passed = 0
        for number in range(250):
            forged_headers = {
                "Client-Address": f"ipv4:192.0.2.{number}:1",
                "Gateway-Token": shop.service.secrets.gateway_token,
                "X-Forwarded-For": f"192.0.2.{number}",
            }
            passed += (await stranger.side("pay_0", "", **forged_headers)).told == UNKNOWN
        assert passed == 200


@pytest.mark.parametrize("known", [True, False])
async def test_a_gateway_elsewhere_tells_callers_apart_if_it_knows_the_token(shop, tenant, known):
    token = shop.service.secrets.gateway_token if known else "another" * 8
    async with AsyncExitStack() as stack:
        url = await gateway.start_remote(
            shop.env["FLORIN_GRPC_TARGET"], gateway.bind("127.0.0.1", 0), stack,
            link=Link(token=token),
        )  # fmt: skip
        stranger = await stack.enter_async_context(at(shop, STRANGER, base=url))
        buyer = await stack.enter_async_context(at(shop, BUYER, base=url))
        headers = {"App-Id": "app_guess"}
        told = [(await stranger.ask("GET", "/v1/gateway/payment/pay_0", **headers)).status
                for _ in range(70)]  # fmt: skip
        assert told == [401] * 60 + [429] * 10
        answer = await buyer.ask("GET", "/v1/gateway/payment/pay_0", **headers)
        assert answer.status == (401 if known else 429)
        assert await stranger.passes(210) == 200
        assert await buyer.passes(1) == known
        # neither does it pass on what its own callers say
        forged = {"Client-Address": "ipv4:192.0.2.1:1", "Gateway-Token": token}
        assert (await stranger.side("pay_0", "", **forged)).told == LIMITED


@pytest.mark.parametrize("kind", ["local", "remote"])
async def test_only_a_trusted_proxy_says_whom_it_was_called_by(shop, tenant, kind):
    trusted = {"trusted_proxies": (ip_network("127.0.0.50/32"),)}
    async with door(shop.service, kind, **trusted) as rest:
        base = f"http://{rest.host}:{rest.port}"
        async with (
            at(shop, "127.0.0.50", base=base) as proxy,
            at(shop, "127.0.0.51", base=base) as nobody,
        ):

            async def passed(caller: Caller, listed: str, calls: int) -> int:
                told = [
                    (await caller.side("pay_0", "", **{"X-Forwarded-For": listed})).told
                    for _ in range(calls)
                ]
                return told.count(UNKNOWN)

            assert await passed(proxy, "203.0.113.9", 210) == 200
            # what stands before is what the caller itself has sent
            assert await passed(proxy, "198.51.100.1, 203.0.113.9", 5) == 0
            assert await passed(proxy, "203.0.113.10", 5) == 5
            assert await passed(proxy, "203.0.113.9, 127.0.0.50", 5) == 0
            # who is not trusted is itself, whatever it says
            assert await passed(nobody, "203.0.113.9", 5) == 5
