"""Endpoints that answer hear of everything while others hang, and have most of the room."""

from __future__ import annotations

import pytest

from tests.chaos.webhook_crowd import crowd
from tests.support.answering import answering, answers, never
from tests.support.desk import opened
from tests.support.receiver import OK, Receiver
from tests.support.until import until
from tests.support.webhook_shop import Shop

pytestmark = pytest.mark.long

# nobody who hangs is given up before all others should have been told
SMALL = {"concurrency": 10, "timeout_s": 60}


async def test_those_who_answer_do_not_wait_for_those_who_hang(tmp_path):
    """Two of twenty hang, with five payments each, and would have room for five attempts at once.

    They get one each.
    """
    found = await crowd(tmp_path, 20, 5, 40, **SMALL)
    assert found["events"] == 90
    assert found["hanging"] <= 2


async def test_those_who_took_something_before_they_hang_leave_room_as_well(tmp_path):
    """As long as half of the room is free they may have more than one attempt, and then no more."""
    found = await crowd(tmp_path, 20, 5, 40, at_first=answers(204), **SMALL)
    assert found["events"] == 90
    assert found["hanging"] <= 3


async def test_partners_whose_endpoints_hang_leave_room_for_another_partner(tmp_path):
    """Each of two would fill half of the room; the second one gets half of what the first left."""
    webhooks = {"networks": ["127.0.0.0/8"], "endpoints_max": 20, **SMALL}
    async with (
        opened(tmp_path / "home", webhooks=webhooks) as desk,
        answering(never) as silent,
        answering(OK) as server,
    ):
        for attempts in (5, 7):
            hanging = Shop(desk, await desk.tenant(), Receiver(silent))
            for number in range(20):
                await hanging.endpoint(f"/{number}")
            await hanging.pay()
            await until(lambda: len(silent.came), attempts)
        receiver = server.say = Receiver(server)
        other = Shop(desk, await desk.tenant(), receiver)
        await other.endpoint()
        payment_id = await other.pay()
        (event,) = await receiver.came(1)
        assert event["data"]["payment_id"] == payment_id
        assert len(silent.came) == 7
