"""Homes of released versions: this version goes on where they stopped.

Each archive is a home that the version itself made, while its chain sealed no blocks: payments that
are done, refunded, confirmed and open, a refund on its way, a receipt. `facts.json` says which.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from florin_server.store.operator import executors

from tests.support.books import SETTINGS, exact
from tests.support.desk import opened
from tests.support.payout_shop import PRICE
from tests.support.released import RELEASED, unpack_home
from tests.support.until import until

# what the faucet gave each buyer
GIVEN = 10_000_000_000


@pytest.fixture(params=RELEASED)
def home(request, tmp_path) -> Path:
    return unpack_home(request.param, tmp_path)


async def test_a_home_of_a_released_version_goes_on_under_this_one(home):
    facts = json.loads((home / "facts.json").read_text())
    ids, headers = facts["payments"], facts["headers"]
    # an archive holds a file, on whatever store the other tests run
    async with opened(home, **SETTINGS, store=None) as desk:

        async def detail(name: str) -> dict[str, Any]:
            path = f"/v1/payments/{ids[name]}"
            return await desk.rest.call("GET", path, headers)

        assert await desk.service.app.store.read(executors.pauses()) == {}
        # what was done stays so, and its receipt is the same
        assert (await detail("done"))["status"] == "succeeded"
        told = await desk.ask("GET", f"/v1/payments/{ids['done']}/receipt", headers)
        assert told.text == facts["receipt"]
        before = facts["refund"]
        (refund,) = (await detail("refunded"))["refunds"]
        assert {key: refund[key] for key in before} == before
        # what was on its way arrives
        assert (await desk.ended(ids["confirmed"]))["status"] == "succeeded"
        done = await desk.refunded(ids["refunding"], headers)
        assert (done["refundId"], done["status"]) == (facts["refundAsked"]["refundId"], "succeeded")
        # what was open can be paid with what was offered then, and refunded in parts
        option = facts["open"]
        await desk.rest.confirm(ids["open"], option["option"], option["outputs"])
        assert (await desk.ended(ids["open"]))["status"] == "succeeded"
        unit = done["amount"]["unit"]
        part = {"paymentId": ids["open"], "amount": {"unit": unit, "value": "1"}}
        await desk.rest.call("POST", "/v1/refunds", headers, part)
        await desk.refunded(ids["open"], headers)
        for name, more in {"refunding": 0, "confirmed": -PRICE, "open": 1 - PRICE}.items():
            await until(lambda n=name: desk.chain.balance(facts["wallets"][n]), GIVEN + more)
        await exact(desk)
