"""A coin's price is what its sources report now; without a plausible price it is not offered."""

from __future__ import annotations

import asyncio
import json

import pytest
import pytest_asyncio
import rlp
from aiohttp import web
from eth_account import Account
from eth_hash.auto import keccak
from florin.v1 import system_pb2
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact

from tests.support.installation import open_operator
from tests.support.service_harness import CREATE, ORDER, ServiceHarness, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

COIN = f"eip155:{DEVNET.chain_id}/slip44:60"
DOLLAR = f"eip155:{DEVNET.chain_id}/erc20:{DEVNET.token.address}"
WRITER = Account.from_key(b"\x0f" * 32)
FEED = "0x" + keccak(rlp.encode([bytes.fromhex(WRITER.address[2:]), 0]))[12:].hex()
SET = keccak(b"set(uint80,int256,uint256,uint80)")[:4]
STALE_S = 600


class Shop:
    """A price service that reports one price, or fails."""

    def __init__(self) -> None:
        self.price: str | None = "2000.0"
        self.dollar = "0.999"
        self.request_received = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        self.request_received.set()
        if request.path == "/tUSD":
            return web.json_response({"price": self.dollar})
        if self.price is None:
            return web.Response(status=500)
        return web.json_response({"price": self.price})


@pytest_asyncio.fixture(loop_scope="module")
async def shop():
    shop = Shop()
    app = web.Application()
    app.router.add_get("/{rest:.*}", shop.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    shop.port = runner.addresses[0][1]
    yield shop
    await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="module")
async def desk(tmp_path_factory, shop):
    """Open one service for each test: which price is accepted depends on those before it."""
    http = {"url": f"http://127.0.0.1:{shop.port}/{{base}}", "path": ["price"]}
    ways = [
        {"kind": "oracle", "chain": f"eip155:{DEVNET.chain_id}", "feed": FEED, "stale_s": STALE_S},
        {"kind": "http", "source": "shop", "base": "ETH", "quote": "USD", "stale_s": STALE_S},
    ]
    pegged = {"kind": "http", "source": "shop", "base": "tUSD", "quote": "USD"}
    prices = {
        "http": {"shop": http},
        "pairs": {COIN: {"USD": ways}, DOLLAR: {"USD": [pegged]}},
        "peg_off_max_percent": 2,
    }
    async with open_service(tmp_path_factory.mktemp("prices") / "home", prices=prices) as desk:
        await ask(desk, "florin_faucet", {"accounts": [WRITER.address], "nativeWei": hex(10**18)})
        await send(desk, load_artifact("TestOracle").init + (8).to_bytes(32, "big"))
        yield desk


async def ask(desk: ServiceHarness, method: str, *params):
    return await desk.chain.ask(method, *params)


async def send(desk: ServiceHarness, data: bytes, to: str | None = None) -> None:
    nonce = int(await ask(desk, "eth_getTransactionCount", WRITER.address, "pending"), 16)
    transaction = {
        "chainId": DEVNET.chain_id,
        "nonce": nonce,
        "gas": 2_000_000,
        "maxFeePerGas": 10**11,
        "maxPriorityFeePerGas": 10**9,
        "value": 0,
        "data": data,
        **({"to": bytes.fromhex(to[2:])} if to else {}),
    }
    raw = WRITER.sign_transaction(transaction).raw_transaction
    tx_hash = await ask(desk, "eth_sendRawTransaction", "0x" + bytes(raw).hex())
    await ask(desk, "evm_mine")
    receipt = await ask(desk, "eth_getTransactionReceipt", tx_hash)
    assert receipt["status"] == "0x1"


async def write(desk: ServiceHarness, price: int, age_s: int = 0) -> None:
    """Write a new round of the feed."""
    numbers = (7, price, desk.now - age_s, 7)
    data = SET + b"".join(number.to_bytes(32, "big") for number in numbers)
    await send(desk, data, FEED)


async def refreshed(desk: ServiceHarness) -> None:
    await desk.service.app.prices.refresh(desk.clock.now_us())


async def offered(desk: ServiceHarness) -> dict[str, dict]:
    """Return the options of a new payment of 12.50 USD, by asset."""
    created = await desk.rest.call("POST", CREATE, desk.rest.merchant, ORDER)
    result = await desk.rest.options(created["paymentId"], [EvmTestWallet().account])
    return {
        option["amount"]["unit"].removeprefix("caip19/"): option for option in result["options"]
    }


async def coin_option(desk: ServiceHarness) -> dict | None:
    """Return the option in coin; the one in dollars is there in any case."""
    results = await offered(desk)
    assert DOLLAR in results
    return results.get(COIN)


def quote_of(desk: ServiceHarness, option: dict) -> dict:
    """Return the rate that is stored with an option."""
    ((terms,),) = desk.select("SELECT terms FROM payment_option WHERE id = ?", option["id"])
    return json.loads(terms)["quote"]


async def test_a_feed_then_a_service_then_nothing(desk, shop):
    await write(desk, 2500_00000000, age_s=5)
    await refreshed(desk)
    option = await coin_option(desk)
    assert option["amount"]["value"] == str(5 * 10**15)
    assert option["expiresAt"] is not None
    at_us = (desk.now - 5) * 1_000_000
    quote = {"price": "2500.00000000", "source": f"oracle:eip155:{DEVNET.chain_id}:{FEED}"}
    assert quote_of(desk, option) == {**quote, "at_us": at_us}

    # the feed is not written any more
    desk.clock.advance(STALE_S)
    await refreshed(desk)
    option = await coin_option(desk)
    assert option["amount"]["value"] == str(1250 * 10**16 // 2000)
    stored_quote = quote_of(desk, option)
    assert (stored_quote["price"], stored_quote["source"]) == ("2000.0", "http:shop")
    assert stored_quote["at_us"] == desk.clock.now_us()

    # the service fails too: its price holds for some time
    shop.price = None
    desk.clock.advance(STALE_S - 1)
    await refreshed(desk)
    assert await coin_option(desk)
    desk.clock.advance(2)
    await refreshed(desk)
    assert await coin_option(desk) is None


async def test_a_price_that_jumps_is_not_offered(desk, shop):
    shop.price = "2000"
    desk.clock.advance(2 * STALE_S)
    await refreshed(desk)
    assert await coin_option(desk)
    shop.price = "1500"
    await refreshed(desk)
    assert await coin_option(desk) is None
    shop.price = "2010"
    await refreshed(desk)
    assert await coin_option(desk)


async def test_prices_are_refreshed_automatically(desk, shop):
    async def passing() -> None:
        # the worker may not wait yet
        desk.clock.advance(desk.service.app.settings.prices.refresh_s)

    for _ in range(3):
        shop.request_received.clear()
        await wait_until(shop.request_received.is_set, meanwhile=passing)


async def test_a_token_that_lost_its_peg_is_not_offered(desk, shop):
    for price, held in (("0.98", True), ("0.9799", False), ("1.02", True), ("1.0201", False)):
        shop.dollar = price
        await refreshed(desk)
        assert (DOLLAR in await offered(desk)) is held
    shop.dollar = "1"
    await refreshed(desk)
    assert (await offered(desk))[DOLLAR]["amount"]["value"] == "12500000"


async def test_asset_without_a_price_is_reported_to_the_operator(desk, shop):
    shop.price = None
    desk.clock.advance(3 * STALE_S)
    await refreshed(desk)
    async with open_operator(desk.service) as operator:
        status = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    (chain,) = status.chains
    assert f"{COIN} has no price in USD: oracle:eip155:" in chain.problem
    assert "http:shop: 127.0.0.1 answered HTTP 500" in chain.problem
