"""Calls for asyncio; `sync` has the same calls for threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

import grpc
from florin.v1.admin_pb2_grpc import AdminServiceStub
from florin.v1.gateway_pb2 import Action, PaymentOption
from florin.v1.gateway_pb2_grpc import GatewayServiceStub
from florin.v1.merchant_pb2_grpc import MerchantServiceStub
from florin.v1.payment_pb2 import GetPaymentStatusResponse
from florin.v1.refund_pb2 import Refund
from florin.v1.webhook_service_pb2_grpc import WebhookServiceStub
from google.protobuf.message import Message

from florin_client.calls import admin, gateway, merchant, records, webhook
from florin_client.calls.paging import PagedQuery
from florin_client.calls.rpc import CallOptions, RpcCall
from florin_client.calls.values import Json
from florin_client.calls.watching import WatchSession
from florin_client.methods import ServiceClient, ServiceMethod
from florin_client.setup import CHANNEL_OPTIONS, ClientConfig, to_florin_error

P = ParamSpec("P")
Answer = TypeVar("Answer", bound=Message)
Row = TypeVar("Row")


class AsyncTransport:
    """A channel and its calls; `sleep` waits between attempts."""

    def __init__(
        self, config: ClientConfig, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._config = config
        self._sleep = sleep
        if config.plaintext:
            self._channel = grpc.aio.insecure_channel(config.target, CHANNEL_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(
                config.target, config.create_channel_credentials(), CHANNEL_OPTIONS
            )
        self._stubs: dict[str, Any] = {
            "AdminService": AdminServiceStub(self._channel),
            "GatewayService": GatewayServiceStub(self._channel),
            "MerchantService": MerchantServiceStub(self._channel),
            "WebhookService": WebhookServiceStub(self._channel),
        }

    async def close(self) -> None:
        """End running calls, and the connection."""
        await self._channel.close()

    def _start_call(self, call: RpcCall[Any], timeout_s: float | None) -> Any:
        method = getattr(self._stubs[call.rpc.service], call.rpc.name)
        metadata = call.build_metadata(self._config.credentials)
        return method(call.request, metadata=metadata, timeout=timeout_s)

    async def execute_call(self, call: RpcCall[Answer]) -> Answer:
        """Return the response of a call, after retries; raise FlorinError without a response."""
        attempts = self._config.start_attempts(call.timeout)
        while True:
            try:
                answer: Answer = await self._start_call(call, attempts.get_remaining_s())
            except grpc.aio.AioRpcError as error:
                delay_s = attempts.get_retry_delay_s(to_florin_error(error, call))
                await self._sleep(delay_s)
            else:
                return answer

    async def stream_updates(self, watch: WatchSession[Answer]) -> AsyncIterator[Answer]:
        """Yield the messages of a stream, over as many connections as needed."""
        attempts = None
        while True:
            call = watch.build_call()
            attempts = attempts or self._config.start_attempts(call.timeout, is_stream=True)
            stream = self._start_call(call, attempts.get_remaining_s())
            try:
                async for update in stream:
                    attempts.record_response()
                    if watch.accept_update(update):
                        yield update
                if watch.is_final:
                    return
                watch.resume()
                delay_s = attempts.get_resume_delay_s()
            except grpc.aio.AioRpcError as error:
                # after the final state, a lost connection needs no new one
                if watch.is_final:
                    return
                delay_s = attempts.get_retry_delay_s(to_florin_error(error, call))
            finally:
                # a call that is merely dropped continues
                stream.cancel()
            await self._sleep(delay_s)


class AsyncPages(Generic[Answer, Row]):
    """A list: iterate over its rows, or over its `pages`; further pages are fetched as needed."""

    def __init__(self, transport: AsyncTransport, listing: PagedQuery[Answer, Row]) -> None:
        self._transport = transport
        self._listing = listing

    async def __aiter__(self) -> AsyncIterator[Row]:
        """Yield all rows from the first on."""
        async for page in self.pages():
            for row in self._listing.get_rows(page):
                yield row

    async def pages(self) -> AsyncIterator[Answer]:
        """Yield the responses with their other members, e.g. totals."""
        call: RpcCall[Answer] | None = self._listing.build_first_call()
        while call is not None:
            page = await self._transport.execute_call(call)
            yield page
            call = self._listing.find_next_call(page)


def make_unary_method(
    build: Callable[P, RpcCall[Answer]],
) -> ServiceMethod[P, Coroutine[Any, Any, Answer]]:
    """Return a method for an RPC with one response."""
    return ServiceMethod(build, AsyncTransport.execute_call)


def make_list_method(
    build: Callable[P, PagedQuery[Answer, Row]],
) -> ServiceMethod[P, AsyncPages[Answer, Row]]:
    """Return a method for a paged RPC."""
    return ServiceMethod(build, AsyncPages)


def make_stream_method(
    build: Callable[P, WatchSession[Answer]],
) -> ServiceMethod[P, AsyncIterator[Answer]]:
    """Return a method for a streaming RPC."""
    return ServiceMethod(build, AsyncTransport.stream_updates)


class AsyncMerchant(ServiceClient):
    """Calls of a merchant's back end: payments and refunds."""

    create_payment = make_unary_method(merchant.create_payment)
    get_payment = make_unary_method(merchant.get_payment)
    list_payment_events = make_unary_method(merchant.list_payment_events)
    get_payment_status = make_unary_method(merchant.get_payment_status)
    watch_payment = make_stream_method(merchant.watch_payment)
    cancel_payment = make_unary_method(merchant.cancel_payment)
    list_payments = make_list_method(merchant.list_payments)
    list_merchant_payments = make_list_method(merchant.list_merchant_payments)
    get_receipt = make_unary_method(merchant.get_receipt)
    create_refund = make_unary_method(merchant.create_refund)
    list_deposit_claims = make_unary_method(merchant.list_deposit_claims)
    confirm_deposit_claim = make_unary_method(merchant.confirm_deposit_claim)
    reject_deposit_claim = make_unary_method(merchant.reject_deposit_claim)
    watch_refund = make_stream_method(merchant.watch_refund)

    async def wait_final(
        self, payment_id: str, **options: Unpack[merchant.MerchantCallOptions]
    ) -> GetPaymentStatusResponse:
        """Return the final status of a payment; raise DeadlineError, a TimeoutError, on timeout."""
        async for update in self.watch_payment(payment_id, **options):
            last = update
        return last.payment

    async def wait_refund_final(
        self,
        payment_id: str,
        *,
        refund_id: str | None = None,
        **options: Unpack[merchant.MerchantCallOptions],
    ) -> Refund:
        """Return a refund once it is final: the given refund, or the payment's newest.

        Raise DeadlineError on timeout.
        """
        async for update in self.watch_refund(payment_id, refund_id=refund_id, **options):
            last = update
        return last.refund


class AsyncGateway(ServiceClient):
    """Calls of a wallet: payments, options, actions, confirm."""

    get_payment = make_unary_method(gateway.get_payment)
    get_payment_options = make_unary_method(gateway.get_payment_options)
    open_addresses = make_unary_method(gateway.open_addresses)
    claim_deposit = make_unary_method(gateway.claim_deposit)
    fetch_action = make_unary_method(gateway.fetch_action)
    confirm_payment = make_unary_method(gateway.confirm_payment)
    get_payment_status = make_unary_method(gateway.get_payment_status)
    cancel_payment = make_unary_method(gateway.cancel_payment)
    watch_payment = make_stream_method(gateway.watch_payment)

    async def executable_actions(
        self,
        payment_id: str,
        option: PaymentOption,
        *,
        collected_data: Json = None,
        **options: Unpack[CallOptions],
    ) -> list[Action]:
        """Return the actions of an option in executable form: build actions are resolved."""
        actions = []
        for action in option.actions:
            if not action.HasField("build"):
                actions.append(action)
                continue
            fetched = await self.fetch_action(
                payment_id,
                option_id=option.id,
                data=action.build.data,
                collected_data=collected_data,
                **options,
            )
            actions += fetched.actions
        return actions

    async def wait_final(
        self, payment_id: str, **options: Unpack[CallOptions]
    ) -> GetPaymentStatusResponse:
        """Return the final status of a payment; raise DeadlineError, a TimeoutError, on timeout."""
        async for update in self.watch_payment(payment_id, **options):
            last = update
        return last.payment


class AsyncAdmin(ServiceClient):
    """Calls of a partner's back end: merchants, settlement destinations, the sandbox."""

    create_merchant = make_unary_method(admin.create_merchant)
    list_merchants = make_list_method(admin.list_merchants)
    get_merchant = make_unary_method(admin.get_merchant)
    update_merchant = make_unary_method(admin.update_merchant)
    delete_merchant = make_unary_method(admin.delete_merchant)
    list_settlements = make_unary_method(admin.list_settlements)
    create_crypto_settlements = make_unary_method(admin.create_crypto_settlements)
    update_crypto_settlement = make_unary_method(admin.update_crypto_settlement)
    delete_crypto_settlement = make_unary_method(admin.delete_crypto_settlement)
    simulate_payment = make_unary_method(admin.simulate_payment)
    get_test_clock = make_unary_method(admin.get_test_clock)
    advance_test_clock = make_unary_method(admin.advance_test_clock)
    list_audit_entries = make_list_method(records.list_audit_entries)
    create_payment_note = make_unary_method(records.create_payment_note)
    list_payment_notes = make_unary_method(records.list_payment_notes)
    update_payment_note = make_unary_method(records.update_payment_note)


class AsyncWebhook(ServiceClient):
    """Calls of a partner's back end: webhook endpoints and delivery attempts."""

    create_webhook_endpoint = make_unary_method(webhook.create_webhook_endpoint)
    list_webhook_endpoints = make_list_method(webhook.list_webhook_endpoints)
    get_webhook_endpoint = make_unary_method(webhook.get_webhook_endpoint)
    update_webhook_endpoint = make_unary_method(webhook.update_webhook_endpoint)
    delete_webhook_endpoint = make_unary_method(webhook.delete_webhook_endpoint)
    rotate_webhook_secret = make_unary_method(webhook.rotate_webhook_secret)
    list_webhook_attempts = make_unary_method(webhook.list_webhook_attempts)
    replay_webhook = make_unary_method(webhook.replay_webhook)
    replay_webhooks_since = make_unary_method(webhook.replay_webhooks_since)
    take_webhooks = make_unary_method(webhook.take_webhooks)
