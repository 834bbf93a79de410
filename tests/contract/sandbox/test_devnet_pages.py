"""Test that programs can use the embedded chains, but web pages in a local browser cannot."""

from __future__ import annotations

import json

import aiohttp
import pytest
import pytest_asyncio

from tests.support import evm_devnet, solana_devnet

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVIL = "http://evil.example"
ASK = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber"}
SIMPLE = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers():
    """Return the URLs of an EVM chain and a Solana cluster."""
    async with evm_devnet.open_node() as evm, solana_devnet.open_node() as solana:
        nodes = {"evm": evm, "solana": solana}
        yield {
            kind: f"http://127.0.0.1:{await node.chain.serve_http()}/"
            for kind, node in nodes.items()
        }


@pytest.mark.parametrize("kind", ["evm", "solana"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example", "Origin": EVIL}, 403),
        ({"Host": "127.0.0.1.evil.example:8545"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "localhost@evil.example"}, 403),
        ({"Host": "0.0.0.0:8545"}, 403),
        ({"Host": "[::2]"}, 403),
        ({"Host": "["}, 403),
        ({"Host": ""}, 403),
        ({"Origin": EVIL}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "evil://localhost"}, 403),
        ({"Origin": "http://127.0.0.1:8545", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "chrome-extension://nkbihfbeogaeaoehlefnkodbefgpgknn"}, 200),
        *(({"Content-Type": text}, 415) for text in SIMPLE),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"Host": "localhost:8545"}, 200),
        ({"Host": "chain.localhost"}, 200),
        ({"Host": "[::1]:8545"}, 200),
        ({}, 200),
    ],
)
async def test_embedded_chain_refuses_requests_from_web_pages(servers, kind, headers, status):
    sent = {"Content-Type": "application/json", **headers}
    async with (
        aiohttp.ClientSession() as session,
        session.post(servers[kind], data=json.dumps(ASK), headers=sent) as answer,
    ):
        result = await answer.json()
    assert answer.status == status, result
    if status != 200:
        assert "result" not in result
        assert result["error"]["message"]


@pytest.mark.parametrize("kind", ["evm", "solana"])
@pytest.mark.parametrize("headers", [{"Origin": EVIL}, {"Host": "evil.example"}])
async def test_embedded_chain_refuses_sockets_of_web_pages(servers, kind, headers):
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await session.ws_connect(servers[kind], headers=headers)
        async with session.ws_connect(servers[kind]) as socket:
            await socket.send_json(ASK)
            assert (await socket.receive_json())["id"] == 1
