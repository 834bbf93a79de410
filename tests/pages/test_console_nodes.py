"""The operator's status page shows chains by name, the hours of their nodes, and their coin."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from florin.v1 import system_pb2
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings

from tests.support.installation import open_operator
from tests.support.own_chain import CHAIN, CHAIN_ID, make_own_chain
from tests.support.proxy import FaultyNodeProxy
from tests.support.service_harness import open_service
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")
NODES = f"/console/nodes/{CHAIN.replace(':', '%3A')}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("console")
    chain = await EvmDevChain.open(None, EvmDevSettings(chain_id=CHAIN_ID))
    try:
        async with FaultyNodeProxy(chain.handle) as node:
            chains = (make_own_chain(f"{node.url}/secret-key", confirmations=1),)
            async with open_service(home, metrics_port=0, chains=chains) as desk:
                yield desk
    finally:
        await chain.close()


async def test_status_page_shows_hours_of_nodes_and_no_key_of_their_addresses(desk, operator):
    await operator.sign_in(desk.service.secrets.operator_token)
    async with open_operator(desk.service) as client:

        async def observed() -> bool:
            # observations are written once a minute
            desk.clock.advance(61)
            listed = await client.call("ListNodeHistory", system_pb2.ListNodeHistoryRequest())
            (node,) = listed.nodes
            return bool(node.hours and node.hours[-1].healthy_checks)

        await wait_until(observed)
    page = (await operator.get("/console")).text
    assert re.search(r'aria-label="127\.0\.0\.1: \d of \d hours without trouble"', page)
    assert page.count("<rect ") >= 48
    assert f'href="{NODES}"' in page
    assert 'aria-label="Nodes of Own"' in page
    assert "no transactions yet" in page
    figures = await operator.get(NODES)
    assert figures.status == 200
    assert "Nodes of Own" in figures.text
    assert re.search(r"<td class=\"r\">\d+\.\d\s%</td>", figures.text)
    for text in (page, figures.text):
        assert "secret-key" not in text


async def test_nodes_of_an_unknown_chain_are_not_found(desk, operator):
    await operator.sign_in(desk.service.secrets.operator_token)
    for name in ("eip155%3A1", "no", "%3Cscript%3E"):
        result = await operator.get(f"/console/nodes/{name}")
        assert result.status == 404
        assert "<script>" not in result.text.partition("<main")[2]


async def test_merchant_keys_do_not_see_nodes(desk, operator):
    tenant = await desk.tenant()
    assert (await operator.sign_in(tenant.secret)).status == 401
    assert (await operator.get(NODES)).status == 303
