"""The operator sends home what payments' addresses hold, in the console."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio

from tests.support.addresses import PlainSender, open_address, pass_time, read_tokens
from tests.support.service_harness import ORDER, open_service
from tests.support.until import advance, wait_until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]
PATH = "/console/held/addresses"
LATER_S = 3 * 3600


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console_addresses")
    async with open_service(home, console=True, metrics_port=0) as desk:
        yield desk


async def test_selected_money_goes_home_after_a_confirmation(desk, operator):
    sender = await PlainSender(desk.chain).fund()
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    address = (await open_address(desk, payment_id))["address"]
    # too little to be worth its transaction
    await sender.send_token(address, 5)
    await pass_time(desk, 4)
    desk.clock.advance(LATER_S)
    await pass_time(desk, 4)
    # the session begins now: an operator that waited for hours signs in again
    await operator.sign_in(desk.service.secrets.operator_token)
    assert PATH in (await operator.get("/console/held")).text
    page = await operator.get(PATH)
    assert payment_id in page.text
    (item,) = re.findall(r'name="item" value="([^"]+)"', page.text)
    form = {**await operator.hidden(PATH, f"{PATH}/sweep"), "item": item}
    prompt = await operator.send(f"{PATH}/sweep", form)
    # it shows the address and the payment, and nothing was requested yet
    assert payment_id in prompt.text
    query = "SELECT requested_asset FROM address_sweep WHERE address = ?"
    assert desk.select(query, address.lower()) in ([], [(None,)])
    done = await operator.confirm(f"{PATH}/sweep", prompt)
    assert done.location is not None
    assert done.location.startswith(PATH)

    async def turn() -> None:
        await advance(desk.clock, 11)
        await desk.chain.mine()

    async def read() -> int:
        return await read_tokens(desk.chain, address)

    await wait_until(read, 0, meanwhile=turn)


async def test_form_without_a_selection_is_refused(desk, operator):
    await operator.sign_in(desk.service.secrets.operator_token)
    # the page of a chain without such money has no form: its fields are those of any page
    hidden = await operator.hidden("/console/accounts", "/console/accounts/keys")
    refused = await operator.send(f"{PATH}/sweep", {**hidden, "chain": "eip155:31337"})
    refused = await operator.confirm(f"{PATH}/sweep", refused)
    assert refused.status == 400
