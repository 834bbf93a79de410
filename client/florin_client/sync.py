"""Calls that are waited for in the caller's thread; `aio` has the same ones for asyncio."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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

from florin_client.calls import admin, gateway, merchant, webhook
from florin_client.calls.paging import Listing
from florin_client.calls.rpc import Call, Options
from florin_client.calls.values import Json
from florin_client.calls.watching import Watching
from florin_client.methods import Method, Service
from florin_client.setup import CHANNEL_OPTIONS, Setup, failure

P = ParamSpec("P")
Answer = TypeVar("Answer", bound=Message)
Row = TypeVar("Row")


class Transport:
    """A channel with its calls; `sleep` waits between attempts."""

    def __init__(self, setup: Setup, sleep: Callable[[float], None] = time.sleep) -> None:
        self._setup = setup
        self._sleep = sleep
        if setup.plaintext:
            self._channel = grpc.insecure_channel(setup.target, CHANNEL_OPTIONS)
        else:
            self._channel = grpc.secure_channel(setup.target, setup.tls(), CHANNEL_OPTIONS)
        self._stubs: dict[str, Any] = {
            "AdminService": AdminServiceStub(self._channel),
            "GatewayService": GatewayServiceStub(self._channel),
            "MerchantService": MerchantServiceStub(self._channel),
            "WebhookService": WebhookServiceStub(self._channel),
        }

    def close(self) -> None:
        """Ends calls that are under way, and the connection."""
        self._channel.close()

    def _begin(self, call: Call[Any], timeout_s: float | None) -> Any:
        method = getattr(self._stubs[call.rpc.service], call.rpc.name)
        metadata = call.metadata(self._setup.credentials)
        return method(call.request, metadata=metadata, timeout=timeout_s)

    def answer(self, call: Call[Answer]) -> Answer:
        """The answer to a call, after as many attempts as it takes; FlorinError without one."""
        attempts = self._setup.attempts(call.timeout)
        while True:
            try:
                answer: Answer = self._begin(call, attempts.left_s())
            except grpc.RpcError as error:
                delay_s = attempts.delay_s(failure(error, call))
                self._sleep(delay_s)
            else:
                return answer

    def follow(self, watching: Watching[Answer]) -> Iterator[Answer]:
        """What a stream tells, over as many connections as it takes."""
        attempts = None
        while True:
            call = watching.call()
            attempts = attempts or self._setup.attempts(call.timeout, stream=True)
            stream = self._begin(call, attempts.left_s())
            try:
                for update in stream:
                    attempts.answered()
                    if watching.take(update):
                        yield update
                if watching.final:
                    return
                watching.resume()
                delay_s = attempts.pause_s()
            except grpc.RpcError as error:
                # what is known to the end needs no better one
                if watching.final:
                    return
                delay_s = attempts.delay_s(failure(error, call))
            finally:
                # a call that is merely dropped goes on
                stream.cancel()
            self._sleep(delay_s)


class Pages(Generic[Answer, Row]):
    """A list: its rows one by one, or its `pages`; more is asked for as it is read."""

    def __init__(self, transport: Transport, listing: Listing[Answer, Row]) -> None:
        self._transport = transport
        self._listing = listing

    def __iter__(self) -> Iterator[Row]:
        """All rows from the first on."""
        for page in self.pages():
            yield from self._listing.rows(page)

    def pages(self) -> Iterator[Answer]:
        """The answers with what else is in them, totals say."""
        call: Call[Answer] | None = self._listing.first()
        while call is not None:
            page = self._transport.answer(call)
            yield page
            call = self._listing.after(page)


def unary(build: Callable[P, Call[Answer]]) -> Method[P, Answer]:
    """A call that is answered once."""
    return Method(build, Transport.answer)


def listed(build: Callable[P, Listing[Answer, Row]]) -> Method[P, Pages[Answer, Row]]:
    """A call that is answered page by page."""
    return Method(build, Pages)


def streamed(build: Callable[P, Watching[Answer]]) -> Method[P, Iterator[Answer]]:
    """A call that is answered by a stream."""
    return Method(build, Transport.follow)


class Merchant(Service):
    """A merchant's back end: payments, what became of them, refunds."""

    create_payment = unary(merchant.create_payment)
    get_payment = unary(merchant.get_payment)
    list_payment_events = unary(merchant.list_payment_events)
    get_payment_status = unary(merchant.get_payment_status)
    watch_payment = streamed(merchant.watch_payment)
    cancel_payment = unary(merchant.cancel_payment)
    list_payments = listed(merchant.list_payments)
    list_merchant_payments = listed(merchant.list_merchant_payments)
    get_receipt = unary(merchant.get_receipt)
    create_refund = unary(merchant.create_refund)
    watch_refund = streamed(merchant.watch_refund)

    def wait_final(
        self, payment_id: str, **options: Unpack[merchant.MerchantOptions]
    ) -> GetPaymentStatusResponse:
        """The final status of a payment; DeadlineError, a TimeoutError, if it takes longer."""
        *_, last = self.watch_payment(payment_id, **options)
        return last.payment

    def wait_refund_final(
        self,
        payment_id: str,
        *,
        refund_id: str | None = None,
        **options: Unpack[merchant.MerchantOptions],
    ) -> Refund:
        """Return a refund once it is final, the payment's newest one unless another is named.

        DeadlineError if it takes longer.
        """
        *_, last = self.watch_refund(payment_id, refund_id=refund_id, **options)
        return last.refund


class Gateway(Service):
    """A wallet: what a payment is about, what accounts can pay it with, paying."""

    get_payment = unary(gateway.get_payment)
    get_payment_options = unary(gateway.get_payment_options)
    fetch_action = unary(gateway.fetch_action)
    confirm_payment = unary(gateway.confirm_payment)
    get_payment_status = unary(gateway.get_payment_status)
    cancel_payment = unary(gateway.cancel_payment)
    watch_payment = streamed(gateway.watch_payment)

    def executable_actions(
        self,
        payment_id: str,
        option: PaymentOption,
        *,
        collected_data: Json = None,
        **options: Unpack[Options],
    ) -> list[Action]:
        """The actions of an option as a wallet executes them: those to be fetched are fetched."""
        found = []
        for action in option.actions:
            if not action.HasField("build"):
                found.append(action)
                continue
            fetched = self.fetch_action(
                payment_id,
                option_id=option.id,
                data=action.build.data,
                collected_data=collected_data,
                **options,
            )
            found += fetched.actions
        return found

    def wait_final(self, payment_id: str, **options: Unpack[Options]) -> GetPaymentStatusResponse:
        """The final status of a payment; DeadlineError, a TimeoutError, if it takes longer."""
        *_, last = self.watch_payment(payment_id, **options)
        return last.payment


class Admin(Service):
    """A partner's back end: merchants, where they want their money, the sandbox."""

    create_merchant = unary(admin.create_merchant)
    list_merchants = listed(admin.list_merchants)
    get_merchant = unary(admin.get_merchant)
    update_merchant = unary(admin.update_merchant)
    delete_merchant = unary(admin.delete_merchant)
    list_settlements = unary(admin.list_settlements)
    create_crypto_settlements = unary(admin.create_crypto_settlements)
    update_crypto_settlement = unary(admin.update_crypto_settlement)
    delete_crypto_settlement = unary(admin.delete_crypto_settlement)
    simulate_payment = unary(admin.simulate_payment)
    get_test_clock = unary(admin.get_test_clock)
    advance_test_clock = unary(admin.advance_test_clock)


class Webhook(Service):
    """A partner's back end: who is told of changes, and what became of each attempt."""

    create_webhook_endpoint = unary(webhook.create_webhook_endpoint)
    list_webhook_endpoints = listed(webhook.list_webhook_endpoints)
    get_webhook_endpoint = unary(webhook.get_webhook_endpoint)
    update_webhook_endpoint = unary(webhook.update_webhook_endpoint)
    delete_webhook_endpoint = unary(webhook.delete_webhook_endpoint)
    rotate_webhook_secret = unary(webhook.rotate_webhook_secret)
    list_webhook_attempts = unary(webhook.list_webhook_attempts)
    replay_webhook = unary(webhook.replay_webhook)
    replay_webhooks_since = unary(webhook.replay_webhooks_since)
    take_webhooks = unary(webhook.take_webhooks)
