"""An item that was set aside, as its operator meets it: alarm, doctor, commands, a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from florin.v1 import quarantine_pb2, system_pb2
from florin_server.domain.ledger import postings
from florin_server.domain.quarantine import ItemKind, ItemState
from florin_server.flows.quarantine import items
from florin_server.workers.settlement.tx_sender import TxSender
from florin_server.workers.webhooks import deliver

from tests.support.answering import answering
from tests.support.api import Refused
from tests.support.books import exact
from tests.support.desk import ORDER, Desk, opened
from tests.support.installation import operator_of
from tests.support.receiver import OK, Receiver
from tests.support.until import until
from tests.support.webhook_shop import Shop

pytestmark = pytest.mark.long

SECRET_FREE = "ValueError: the books cannot take it"


def poison(monkeypatch: pytest.MonkeyPatch, merchant_id: str) -> None:
    """No payment of a merchant can be booked."""
    settled = postings.settled

    def broken(received, of):
        if of == merchant_id:
            raise ValueError("the books cannot take it")
        return settled(received, of)

    monkeypatch.setattr(postings, "settled", broken)


@asynccontextmanager
async def announced(home: Path) -> AsyncIterator[Desk]:
    """A service that commands find."""
    async with opened(home) as desk:
        with desk.service.home.announced({"operator": desk.service.grpc.operator_target}):
            yield desk


async def set_aside(desk: Desk) -> list:
    return await until(lambda: items.list_items(desk.service.app, all_=False))


async def status_of(desk: Desk) -> system_pb2.GetSystemStatusResponse:
    async with operator_of(desk.service) as operator:
        return await operator.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest())


async def ends(desk: Desk) -> None:
    """Prove that payments of others succeed."""
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.final(offer.payment_id))["status"] == "succeeded"
    assert await desk.service.workers.problems() == {}


async def test_item_is_reported_kept_over_a_restart_and_retried(tmp_path, monkeypatch, forks):
    home = tmp_path / "home"
    with monkeypatch.context() as broken:
        async with announced(home) as desk:
            tenant = await desk.tenant()
            poison(broken, tenant.merchant.id)
            offer = await desk.offer(tenant=tenant)
            await desk.confirm(offer)
            (item,) = await set_aside(desk)
            assert (item.kind, item.subject) == (ItemKind.PAYMENT, offer.payment_id)
            assert (item.reason, item.step) == (SECRET_FREE, "conclude")
            await ends(desk)
            status = await status_of(desk)
            (told,) = [one for one in status.chains[0].conditions if one.name == "item_set_aside"]
            assert told.reason.startswith("set aside after an unexpected error: 1 payment")
            found = await asyncio.to_thread(forks, "quarantine", "list", home=home)
            assert offer.payment_id in found.out
            checked = await asyncio.to_thread(forks, "doctor", home=home)
            assert "item_set_aside" in checked.out
            assert checked.status == 1
        # a doctor of a Florin that is stopped says so too
        checked = await asyncio.to_thread(forks, "doctor", home=home)
        assert "item_set_aside" in checked.out
        async with announced(home) as desk:
            await ends(desk)
            # it is not tried in a loop
            (again,) = await items.list_items(desk.service.app, all_=False)
            assert again.attempts == 1
            found = await asyncio.to_thread(forks, "quarantine", "retry", item.id, home=home)
            assert found.status == 0, found
            assert offer.payment_id in found.out
            # the cause is still there: it is set aside once more, and counted

            async def attempts() -> int:
                return (await items.list_items(desk.service.app, all_=True))[0].attempts

            await until(attempts, 2)
            assert (await desk.rest.status(offer.payment_id))["status"] == "processing"
    # the fixed release
    async with announced(home) as desk:
        done = await asyncio.to_thread(forks, "quarantine", "retry", "--all", "--json", home=home)
        assert json.loads(done.out)["items"][0]["subject"] == offer.payment_id
        assert (await desk.final(offer.payment_id))["status"] == "succeeded"
        await exact(desk)
        status = await status_of(desk)
        assert not [
            one
            for one in (*status.conditions, *status.chains[0].conditions)
            if one.name == "item_set_aside" and one.reason
        ]


async def test_resolved_item_raises_no_alarm_and_stays_as_it_is(tmp_path, monkeypatch):
    async with opened(tmp_path / "home") as desk:
        tenant = await desk.tenant()
        poison(monkeypatch, tenant.merchant.id)
        offer = await desk.offer(tenant=tenant)
        await desk.confirm(offer)
        (item,) = await set_aside(desk)
        async with operator_of(desk.service) as operator:
            blank = quarantine_pb2.ResolveQuarantinedItemRequest(item_id=item.id, note=" ")
            with pytest.raises(Refused):
                await operator.ask("ResolveQuarantinedItem", blank)
            request = quarantine_pb2.ResolveQuarantinedItemRequest(item_id=item.id, note="by hand")
            done = await operator.ask("ResolveQuarantinedItem", request)
            assert done.state == quarantine_pb2.QUARANTINED_ITEM_STATE_RESOLVED
            with pytest.raises(Refused):
                await operator.ask("ResolveQuarantinedItem", request)
        await ends(desk)
        (left,) = await items.list_items(desk.service.app, all_=True)
        assert (left.state, left.note) == (ItemState.RESOLVED, "by hand")
        assert (await desk.rest.status(offer.payment_id))["status"] == "processing"
        status = await status_of(desk)
        assert not any(
            one.reason for one in status.chains[0].conditions if one.name == "item_set_aside"
        )


async def test_worker_that_fails_is_a_condition_and_the_process_stays_ready(tmp_path, monkeypatch):
    from florin_server.boot import workers

    async def breaks(app):
        raise KeyError("nobody foresaw this")

    breaks.__name__ = "forget_gas"
    monkeypatch.setattr(workers, "forget_gas", breaks)
    async with opened(tmp_path / "home") as desk:

        async def reasons() -> list[str]:
            found = (await status_of(desk)).conditions
            return [one.reason for one in found if one.name == "worker_failing" and one.reason]

        (reason,) = await until(reasons)
        assert reason.startswith("forget_gas failed 1 times, and is started again: KeyError")
        ready = await desk.ask("GET", "/readyz")
        assert ready.status == 200
        await desk.rest.create(ORDER)
        await ends(desk)


async def test_delivery_that_is_retried_as_soon_as_it_is_listed_arrives(tmp_path, monkeypatch):
    """The operator may be faster than the rest of the step that failed."""
    webhooks = {"networks": ["127.0.0.0/8"]}
    async with opened(tmp_path, webhooks=webhooks) as desk, answering(OK) as server:
        server.say = receiver = Receiver(server)
        shop = Shop(desk, await desk.tenant(), receiver)
        await shop.endpoint()
        app, store, next_message = desk.service.app, desk.service.app.store, deliver.next_message
        write = store.write

        async def written(op):
            done = await write(op)
            if op.steps.__name__ == "put":
                monkeypatch.setattr(deliver, "next_message", next_message)
                (item,) = await items.list_items(app, all_=False)
                assert item.kind is ItemKind.DELIVERY
                await items.retry(app, item.id)
            return done

        def broken(*_):
            raise ValueError("no message can be made of it")

        monkeypatch.setattr(deliver, "next_message", broken)
        monkeypatch.setattr(store, "write", written)
        made = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, ORDER)
        await until(lambda: made["paymentId"] in "".join(map(str, server.came)))
        (item,) = await items.list_items(app, all_=True)
        assert item.state is ItemState.RETRIED


async def test_lease_that_cannot_be_given_back_keeps_no_other_and_no_process(tmp_path, monkeypatch):
    asked = []

    async def give_back(self):
        asked.append(self.account)
        raise ValueError("nobody expects that")

    async with opened(tmp_path / "home") as desk:
        keys = [sender.account for sender in desk.service.app.executors.values()]
        monkeypatch.setattr(TxSender, "give_back", give_back)
    assert len(keys) > 1
    assert sorted(asked) == sorted(keys)
