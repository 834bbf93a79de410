"""A quarantined item, as the operator meets it: alarm, doctor, commands, a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from florin.v1 import quarantine_pb2, system_pb2
from florin_server.domain.ledger import postings
from florin_server.domain.quarantine import QuarantinedItemKind, QuarantinedItemState
from florin_server.features.monitoring.service import quarantine as items
from florin_server.features.webhooks import worker as deliver
from florin_server.money.settlement.worker.signing_key import SigningKey

from tests.support.api import ApiCallError
from tests.support.books import wait_exact
from tests.support.http_stub import serve_stub
from tests.support.installation import open_operator
from tests.support.receiver import OK, WebhookReceiver
from tests.support.service_harness import ORDER, ServiceHarness, open_service
from tests.support.until import wait_until
from tests.support.webhook_merchant import WebhookMerchant

pytestmark = pytest.mark.long

SECRET_FREE = "ValueError: the books cannot take it"


def poison(monkeypatch: pytest.MonkeyPatch, merchant_id: str) -> None:
    """Make all bookings for a merchant's payments fail."""
    settled = postings.build_settlement_postings

    def broken(received, of):
        if of == merchant_id:
            raise ValueError("the books cannot take it")
        return settled(received, of)

    monkeypatch.setattr(postings, "build_settlement_postings", broken)


@asynccontextmanager
async def announced(home: Path) -> AsyncIterator[ServiceHarness]:
    """Open a service that commands find."""
    async with open_service(home) as desk:
        with desk.service.home.announce({"operator": desk.service.grpc.operator_target}):
            yield desk


async def set_aside(desk: ServiceHarness) -> list:
    return await wait_until(lambda: items.list_items(desk.service.app, include_closed=False))


async def status_of(desk: ServiceHarness) -> system_pb2.GetSystemStatusResponse:
    async with open_operator(desk.service) as operator:
        return await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())


async def ends(desk: ServiceHarness) -> None:
    """Assert that payments of others succeed."""
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    assert await desk.service.workers.find_problems() == {}


async def test_quarantined_item_is_reported_survives_a_restart_and_is_retried(
    tmp_path, monkeypatch, forks
):
    home = tmp_path / "home"
    with monkeypatch.context() as broken:
        async with announced(home) as desk:
            tenant = await desk.tenant()
            poison(broken, tenant.merchant.id)
            offer = await desk.offer(tenant=tenant)
            await desk.confirm(offer)
            (item,) = await set_aside(desk)
            assert (item.kind, item.subject) == (QuarantinedItemKind.PAYMENT, offer.payment_id)
            assert (item.reason, item.step) == (SECRET_FREE, "conclude")
            await ends(desk)
            status = await status_of(desk)
            (reported_condition,) = [
                condition
                for condition in status.chains[0].conditions
                if condition.name == "item_set_aside"
            ]
            assert reported_condition.reason.startswith(
                "quarantined after an unexpected error: 1 payment"
            )
            thread = await asyncio.to_thread(forks, "quarantine", "list", home=home)
            assert offer.payment_id in thread.out
            checked = await asyncio.to_thread(forks, "doctor", home=home)
            assert "item_set_aside" in checked.out
            assert checked.status == 1
        # a stopped Florin's doctor reports it too
        checked = await asyncio.to_thread(forks, "doctor", home=home)
        assert "item_set_aside" in checked.out
        async with announced(home) as desk:
            await ends(desk)
            # it is not retried in a loop
            (again,) = await items.list_items(desk.service.app, include_closed=False)
            assert again.attempts == 1
            thread = await asyncio.to_thread(forks, "quarantine", "retry", item.id, home=home)
            assert thread.status == 0, thread
            assert offer.payment_id in thread.out
            # the cause remains: it is quarantined again, and counted

            async def attempts() -> int:
                return (await items.list_items(desk.service.app, include_closed=True))[0].attempts

            await wait_until(attempts, 2)
            assert (await desk.rest.status(offer.payment_id))["status"] == "processing"
    # the fixed release
    async with announced(home) as desk:
        done = await asyncio.to_thread(forks, "quarantine", "retry", "--all", "--json", home=home)
        assert json.loads(done.out)["items"][0]["subject"] == offer.payment_id
        assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
        await wait_exact(desk)
        status = await status_of(desk)
        assert not [
            condition
            for condition in (*status.conditions, *status.chains[0].conditions)
            if condition.name == "item_set_aside" and condition.reason
        ]


async def test_resolved_item_raises_no_alarm_and_stays_as_it_is(tmp_path, monkeypatch):
    async with open_service(tmp_path / "home") as desk:
        tenant = await desk.tenant()
        poison(monkeypatch, tenant.merchant.id)
        offer = await desk.offer(tenant=tenant)
        await desk.confirm(offer)
        (item,) = await set_aside(desk)
        async with open_operator(desk.service) as operator:
            blank = quarantine_pb2.ResolveQuarantinedItemRequest(item_id=item.id, note=" ")
            with pytest.raises(ApiCallError):
                await operator.call("ResolveQuarantinedItem", blank)
            request = quarantine_pb2.ResolveQuarantinedItemRequest(item_id=item.id, note="by hand")
            done = await operator.call("ResolveQuarantinedItem", request)
            assert done.state == quarantine_pb2.QUARANTINED_ITEM_STATE_RESOLVED
            with pytest.raises(ApiCallError):
                await operator.call("ResolveQuarantinedItem", request)
        await ends(desk)
        (left,) = await items.list_items(desk.service.app, include_closed=True)
        assert (left.state, left.note) == (QuarantinedItemState.RESOLVED, "by hand")
        assert (await desk.rest.status(offer.payment_id))["status"] == "processing"
        status = await status_of(desk)
        assert not any(
            condition.reason
            for condition in status.chains[0].conditions
            if condition.name == "item_set_aside"
        )


async def test_worker_that_fails_is_a_condition_and_the_process_stays_ready(tmp_path, monkeypatch):
    from florin_server.app import workers

    async def breaks(app):
        raise KeyError("unexpected error")

    breaks.__name__ = "forget_gas"
    monkeypatch.setattr(workers, "delete_old_gas", breaks)
    async with open_service(tmp_path / "home") as desk:

        async def reasons() -> list[str]:
            field_container = (await status_of(desk)).conditions
            return [
                condition.reason
                for condition in field_container
                if condition.name == "worker_failing" and condition.reason
            ]

        (reason,) = await wait_until(reasons)
        assert reason.startswith("forget_gas failed 1 times and is restarted: KeyError")
        ready = await desk.ask("GET", "/readyz")
        assert ready.status == 200
        await desk.rest.create(ORDER)
        await ends(desk)


async def test_delivery_that_is_retried_as_soon_as_it_is_listed_arrives(tmp_path, monkeypatch):
    """The operator may be faster than the rest of the failed step."""
    webhooks = {"networks": ["127.0.0.0/8"]}
    async with open_service(tmp_path, webhooks=webhooks) as desk, serve_stub(OK) as server:
        server.handler = receiver = WebhookReceiver(server)
        shop = WebhookMerchant(desk, await desk.tenant(), receiver)
        await shop.endpoint()
        app, store, next_message = (
            desk.service.app,
            desk.service.app.store,
            deliver.find_next_message,
        )
        write = store.write

        async def written(op):
            done = await write(op)
            if op.steps.__name__ == "put":
                monkeypatch.setattr(deliver, "find_next_message", next_message)
                (item,) = await items.list_items(app, include_closed=False)
                assert item.kind is QuarantinedItemKind.DELIVERY
                await items.retry(app, item.id)
            return done

        def broken(*_):
            raise ValueError("no message can be made of it")

        monkeypatch.setattr(deliver, "find_next_message", broken)
        monkeypatch.setattr(store, "write", written)
        created = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, ORDER)
        await wait_until(lambda: created["paymentId"] in "".join(map(str, server.requests)))
        (item,) = await items.list_items(app, include_closed=True)
        assert item.state is QuarantinedItemState.RETRIED


async def test_lease_that_cannot_be_released_does_not_block_shutdown(tmp_path, monkeypatch):
    requests = []

    async def give_back(self):
        requests.append(self.account)
        raise ValueError("unexpected error")

    async with open_service(tmp_path / "home") as desk:
        keys = [sender.account for sender in desk.service.app.executors.values()]
        monkeypatch.setattr(SigningKey, "release_lease", give_back)
    assert len(keys) > 1
    assert sorted(requests) == sorted(keys)
