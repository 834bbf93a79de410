"""Calls of strangers use their own budgets, and neither the buyer's nor the merchant's.

A caller chooses any Client-Id, App-Ids are public, and many know a payment's link. Callers here
have addresses of their own on the loopback network.
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
from florin_server.app.servers import gateway
from florin_server.app.servers.upstream import UpstreamConnection
from florin_server.db.engine.sqlite import SqliteConnection
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.money.payments.store import payments
from florin_server.settings import LimitSettings
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.api import to_api_call_error
from tests.support.open_responses import wait_no_open_responses
from tests.support.raw_http import open_raw_socket
from tests.support.service import wait_open_responses as watched
from tests.support.service_harness import (
    ORDER,
    PartnerTenant,
    ServiceHarness,
    ServiceResponse,
    open_service,
)
from tests.support.wallet import EvmTestWallet

LIMITED = (429, "rate_limited")
UNKNOWN = (404, "payment_not_found")
STRANGER, BUYER = "127.0.0.66", "127.0.0.7"
LONG = "maxPollMs=600000"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(tmp_path_factory):
    home = tmp_path_factory.mktemp("crowd")
    more = {"options_per_caller": 30, "options_per_payment": 100}
    async with open_service(home, limits=LimitSettings(), **more) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(shop) -> PartnerTenant:
    # limits that the previous test used up are refilled
    shop.clock.advance(600)
    return await shop.tenant()


class Caller:
    """A caller at an address of its own; with a new Client-Id each time, unless it has one."""

    def __init__(
        self, desk: ServiceHarness, session: aiohttp.ClientSession, base: str, client: str
    ) -> None:
        self.desk, self.session, self.base, self.client = desk, session, base, client
        self.number = 0

    def headers(self) -> dict[str, str]:
        self.number += 1
        client = self.client or f"client {self.number}"
        return {"App-Id": self.desk.env["FLORIN_APP_ID"], "Client-Id": client}

    async def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> ServiceResponse:
        url, sent = self.base + path, {**self.headers(), **headers}
        async with self.session.request(method, url, json=body, headers=sent) as answer:
            return ServiceResponse(answer.status, answer.headers, await answer.text())

    async def side(
        self, payment_id: str, call: str, body: Any = None, **headers: str
    ) -> ServiceResponse:
        method = "POST" if body is not None else "GET"
        return await self.ask(method, f"/v1/gateway/payment/{payment_id}{call}", body, **headers)

    async def options(self, payment_id: str, wallets: list[EvmTestWallet]) -> ServiceResponse:
        body = {"accounts": [wallet.account for wallet in wallets]}
        return await self.side(payment_id, "/options", body)

    async def confirm(self, payment_id: str, option_id: str, *outputs: str) -> ServiceResponse:
        results = [{"type": "walletRpc", "data": list(outputs)}]
        return await self.side(payment_id, "/confirm", {"optionId": option_id, "results": results})

    async def passes(self, calls: int) -> int:
        """Return how many of `calls` calls are admitted."""
        result = [(await self.side("pay_0", "")).refusal for _ in range(calls)]
        assert set(result) <= {UNKNOWN, LIMITED}
        return result.count(UNKNOWN)


@asynccontextmanager
async def at(desk: ServiceHarness, address: str, client: str = "", base: str = ""):
    connector = aiohttp.TCPConnector(local_addr=(address, 0), limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Caller(desk, session, base or desk.rest.base, client)


async def created(desk: ServiceHarness, tenant: PartnerTenant) -> str:
    answer = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    return str(answer.body["paymentId"])


# calls
async def test_a_client_id_that_changes_gets_no_new_budget(shop, tenant):
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:
        assert await stranger.passes(400) == 200
        answer = await stranger.side("pay_0", "")
        # the headers report the tightest of all limits that apply
        assert answer.headers["RateLimit-Policy"] == '"key";q=3000;w=60'
        assert answer.headers["RateLimit"] == '"key";r=0;t=1'
        assert (await buyer.side("pay_0", "")).headers["RateLimit"] == '"key";r=119;t=1'
        # API keys are secrets, and have budgets of their own from any address
        headers = {"Api-Key": tenant.secret}
        assert (await shop.ask("GET", "/v1/gateway/payment/pay_0", headers)).refusal == UNKNOWN


async def test_an_idempotency_key_that_changes_fills_no_table(shop, tenant):
    # several, so that the limit on reads of one payment is not reached
    payments = [await created(shop, tenant) for _ in range(3)]
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:

        async def get_status(caller: Caller, number: int) -> int:
            key = {"Idempotency-Key": f"key {number}"}
            payment_id = payments[number % 3]
            answer = await caller.side(payment_id, "/options", {"accounts": []}, **key)
            return answer.status

        caller = Caller(shop, stranger.session, stranger.base, "one client")
        before = shop.rows()["idempotency"]
        assert [await get_status(caller, number) for number in range(62)] == [200] * 60 + [429] * 2
        assert shop.rows()["idempotency"] == before + 60
        # stored keys take no new room, and other callers have their own
        assert [await get_status(caller, number) for number in range(3)] == [200] * 3
        assert await get_status(buyer, 61) == 200
        assert await get_status(caller, 61) == 429


async def test_refused_calls_use_no_idempotency_keys_of_other_callers(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    async with at(shop, STRANGER) as stranger:

        async def fetched(number: int, option_id: str) -> ServiceResponse:
            key = {"Idempotency-Key": f"refused {number}"}
            return await stranger.side(offer.payment_id, "/fetch", {"optionId": option_id}, **key)

        before = shop.rows()["idempotency"]
        refused_ = [(await fetched(number, "unknown")).status for number in range(80)]
        assert refused_ == [400] * 80
        assert shop.rows()["idempotency"] == before
        # stored keys are counted as before
        result = [(await fetched(number, offer.option_id)).status for number in range(62)]
        assert result == [200] * 60 + [429] * 2
        assert shop.rows()["idempotency"] == before + 60
        # simultaneous refusals, more than the limit: none of them makes room for another key
        result = [
            response.status
            for response in await asyncio.gather(*(fetched(n, "no") for n in range(100, 180)))
        ]
        assert set(result) == {429}


# options
@pytest.fixture
def rows_read(monkeypatch):
    """Record how many option rows each query reads; workers use other queries."""
    query, read = SqliteConnection.query, []

    def counting(self: SqliteConnection, request: Any) -> Any:
        rows = query(self, request)
        if request.statement.sqlite.sql.startswith("SELECT payment_option."):
            read.append(len(rows))
        return rows

    monkeypatch.setattr(SqliteConnection, "query", counting)
    return read


async def test_options_of_strangers_are_bounded_and_cost_the_buyer_nothing(shop, tenant, rows_read):
    quiet, crowded = await created(shop, tenant), await created(shop, tenant)
    wallets = [EvmTestWallet() for _ in range(50)]
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
            answer = await buyer.options(payment_id, [EvmTestWallet()])
            assert len(answer.body["options"]) == 1
            work.append((len(rows_read), sum(rows_read)))
        assert len(set(work)) == 1


async def test_existing_options_are_returned_when_the_option_limit_is_reached(shop, tenant):
    payment_id = await created(shop, tenant)
    wallets = [EvmTestWallet() for _ in range(40)]
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:
        first = await stranger.options(payment_id, wallets[:20])
        assert len(first.body["options"]) == 20
        # as many as there is room for
        more = await stranger.options(payment_id, wallets[20:])
        assert len(more.body["options"]) == 10
        none = await stranger.options(payment_id, [EvmTestWallet()])
        assert (none.refusal, none.headers["Retry-After"]) == (LIMITED, "60")
        again = await stranger.options(payment_id, wallets[:20])
        assert [option["id"] for option in again.body["options"]] == [
            option["id"] for option in first.body["options"]
        ]
        assert len((await buyer.options(payment_id, [EvmTestWallet()])).body["options"]) == 1


async def test_few_callers_do_not_use_up_the_options_of_a_payment(shop, tenant):
    payment_id = await created(shop, tenant)

    async def taken(number: int) -> int:
        async with at(shop, f"127.0.1.{number}") as caller:
            answer = await caller.options(payment_id, [EvmTestWallet() for _ in range(40)])
            return len(answer.body["options"])

    # the third gets fewer: half of all are used up by then
    assert [await taken(number) for number in range(1, 5)] == [30, 30, 3, 3]


async def test_option_requests_per_address_and_payment_are_limited(shop, tenant):
    payment_id = await created(shop, tenant)
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:
        result = [(await stranger.options(payment_id, [])).status for _ in range(70)]
        assert result == [200] * 60 + [429] * 10
        assert (await buyer.options(payment_id, [])).status == 200


# waiting answers
@asynccontextmanager
async def streams(caller: Caller, payment_id: str, count: int):
    """Try to open so many streams of a payment; yield how many are open."""
    async with AsyncExitStack() as stack:
        held = 0
        for _ in range(count):
            url = f"{caller.base}/v1/gateway/payment/{payment_id}/events"
            context_manager = caller.session.get(url, headers=caller.headers())
            held += (await stack.enter_async_context(context_manager)).status == 200
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


async def test_address_holds_a_limited_number_of_streams_over_all_payments(shop, tenant):
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
    await wait_no_open_responses(shop)


# confirms, cancels
async def test_valid_confirm_succeeds_despite_invalid_confirms_of_a_stranger(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as other:
        result = []
        for number in range(30):
            wrong = "0x" + f"{number + 1:02x}" * 65
            result.append(
                (await stranger.confirm(offer.payment_id, offer.option_id, wrong)).refusal
            )
        assert result == [(400, "invalid_params")] * 20 + [LIMITED] * 10
        # another caller's confirm is still read
        wrong = "0x" + "ee" * 65
        answer = await other.confirm(offer.payment_id, offer.option_id, wrong)
        assert answer.refusal == (400, "invalid_params")
        # so is the same caller's confirm of another payment
        another = await shop.offer(tenant=tenant)
        answer = await stranger.confirm(another.payment_id, another.option_id, wrong)
        assert answer.refusal == (400, "invalid_params")
        # from the very address that tried all the others
        answer = await stranger.confirm(offer.payment_id, offer.option_id, *offer.outputs)
        assert answer.status == 200, answer.text
    assert (await shop.wait_final(offer.payment_id))["status"] == "succeeded"


async def test_repeated_signed_confirms_use_only_the_budget_of_their_account(
    shop, tenant, monkeypatch
):
    async def refuses(*_: Any) -> None:
        raise ApiError(ErrorCode.INVALID_PARAMS, "no money")

    (rail,) = shop.service.app.rails.values()
    monkeypatch.setattr(rail.verifier, "verify", refuses)
    this_wallet, other = EvmTestWallet(), EvmTestWallet()
    orders = [await created(shop, tenant) for _ in range(2)]
    results = {
        (payment_id, option["account"]): option
        for payment_id in orders
        for option in (await shop.rest.options(payment_id, [this_wallet.account, other.account]))[
            "options"
        ]
    }

    async def confirms(payment_id: str, wallet: EvmTestWallet, calls: int) -> list[tuple[int, str]]:
        option = results[payment_id, wallet.account]
        outputs = wallet.execute_all(option)
        return [
            (await buyer.confirm(payment_id, option["id"], *outputs)).refusal for _ in range(calls)
        ]

    no_money = (400, "invalid_params")
    async with at(shop, BUYER) as buyer:
        assert await confirms(orders[0], this_wallet, 25) == [no_money] * 20 + [LIMITED] * 5
        assert await confirms(orders[0], other, 1) == [no_money]
        assert await confirms(orders[1], this_wallet, 1) == [no_money]


async def test_outputs_that_need_a_chain_check_are_limited_for_all_callers(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    wrong, unreadable = "0x" + "11" * 65, "0x11"

    async def confirm(caller: Caller, output: str) -> tuple[int, str]:
        return (await caller.confirm(offer.payment_id, offer.option_id, output)).refusal

    for number in range(10):
        async with at(shop, f"127.0.0.{100 + number}") as caller:
            result = [await confirm(caller, wrong) for _ in range(20)]
            assert result == [(400, "invalid_params")] * 20
    async with at(shop, STRANGER) as caller:
        assert await confirm(caller, wrong) == LIMITED
        assert await confirm(caller, unreadable) == (400, "invalid_params")


async def test_output_plausibility_is_checked_without_a_chain(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    app = shop.service.app
    option = await app.store.read(payments.find_option(offer.payment_id, offer.option_id))
    rail = app.rails[option.chain_id]
    outputs = [f'"{output}"' for output in offer.outputs]
    assert rail.verifier.is_plausible(option, (), outputs) is True
    # the account's contract may accept another key's signature; no account accepts other bytes
    assert rail.verifier.is_plausible(option, (), ['"0x' + "11" * 65 + '"']) is None
    for unreadable in ('"0x11"', '"no"', "7", "{", "null"):
        assert rail.verifier.is_plausible(option, (), [unreadable]) is False
    assert rail.verifier.is_plausible(option, (), []) is False


async def test_cancels_of_a_stranger_do_not_keep_the_merchant_from_it(shop, tenant):
    offer = await shop.offer(tenant=tenant)
    await shop.confirm(offer)
    await shop.wait_final(offer.payment_id)
    async with at(shop, STRANGER) as stranger, at(shop, BUYER) as buyer:
        result = [(await stranger.side(offer.payment_id, "/cancel", {})).refusal for _ in range(25)]
        assert result == [(400, "invalid_state")] * 20 + [LIMITED] * 5
        assert (await buyer.side(offer.payment_id, "/cancel", {})).refusal == (400, "invalid_state")
    path = f"/v1/payments/{offer.payment_id}/cancel"
    answer = await shop.ask("POST", path, tenant.headers)
    assert answer.refusal == (400, "invalid_state")


# addresses that headers claim
async def test_forged_client_address_is_ignored(shop, tenant):
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
        passed += to_api_call_error(caught.value).code == "payment_not_found"
    assert passed == 200
    async with at(shop, STRANGER) as stranger:
        passed = 0
        for number in range(250):
            forged_headers = {
                "Client-Address": f"ipv4:192.0.2.{number}:1",
                "Gateway-Token": shop.service.secrets.gateway_token,
                "X-Forwarded-For": f"192.0.2.{number}",
            }
            passed += (await stranger.side("pay_0", "", **forged_headers)).refusal == UNKNOWN
        assert passed == 200


@pytest.mark.parametrize("has_token", [True, False])
async def test_remote_gateway_distinguishes_callers_only_with_the_token(shop, tenant, has_token):
    token = shop.service.secrets.gateway_token if has_token else "another" * 8
    async with AsyncExitStack() as stack:
        url = await gateway.start_remote_gateway(
            shop.env["FLORIN_GRPC_TARGET"], gateway.bind_socket("127.0.0.1", 0), stack,
            connection=UpstreamConnection(token=token),
        )  # fmt: skip
        stranger = await stack.enter_async_context(at(shop, STRANGER, base=url))
        buyer = await stack.enter_async_context(at(shop, BUYER, base=url))
        headers = {"App-Id": "app_guess"}
        result = [(await stranger.ask("GET", "/v1/gateway/payment/pay_0", **headers)).status
                for _ in range(70)]  # fmt: skip
        assert result == [401] * 60 + [429] * 10
        answer = await buyer.ask("GET", "/v1/gateway/payment/pay_0", **headers)
        assert answer.status == (401 if has_token else 429)
        assert await stranger.passes(210) == 200
        assert await buyer.passes(1) == has_token
        # nor does it forward the claims of its own callers
        forged = {"Client-Address": "ipv4:192.0.2.1:1", "Gateway-Token": token}
        assert (await stranger.side("pay_0", "", **forged)).refusal == LIMITED


@pytest.mark.parametrize("kind", ["local", "remote"])
async def test_only_a_trusted_proxy_says_whom_it_was_called_by(shop, tenant, kind):
    trusted = {"trusted_proxies": (ip_network("127.0.0.50/32"),)}
    async with open_raw_socket(shop.service, kind, **trusted) as rest:
        base = f"http://{rest.host}:{rest.port}"
        async with (
            at(shop, "127.0.0.50", base=base) as proxy,
            at(shop, "127.0.0.51", base=base) as untrusted_proxy,
        ):

            async def passed(caller: Caller, listed: str, calls: int) -> int:
                result = [
                    (await caller.side("pay_0", "", **{"X-Forwarded-For": listed})).refusal
                    for _ in range(calls)
                ]
                return result.count(UNKNOWN)

            assert await passed(proxy, "203.0.113.9", 210) == 200
            # earlier entries were sent by the caller itself
            assert await passed(proxy, "198.51.100.1, 203.0.113.9", 5) == 0
            assert await passed(proxy, "203.0.113.10", 5) == 5
            assert await passed(proxy, "203.0.113.9, 127.0.0.50", 5) == 0
            # an untrusted proxy counts as the caller, whatever its headers claim
            assert await passed(untrusted_proxy, "203.0.113.9", 5) == 5
