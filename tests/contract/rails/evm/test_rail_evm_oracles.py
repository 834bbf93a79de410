"""Test that a feed's price counts only if its round is complete, recent and above zero."""

from __future__ import annotations

from fractions import Fraction

import pytest
from eth_hash.auto import keccak
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.app.chains.prices import build_market
from florin_server.app.home import SetupError
from florin_server.rails.connection.jsonrpc import JsonRpcClient
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.reading.oracles import OracleFeed, OraclePrices, _parse_round
from florin_server.rails.evm.reading.reader import EvmReader, list_strategies
from florin_server.rails.pricing.market import LastPrice
from florin_server.settings import Settings
from hypothesis import given
from hypothesis import strategies as st

from tests.support.evm_harness import CHAIN, START_S, make_refusal, open_lab

NOW = START_S * 1_000_000
SET = keccak(b"set(uint80,int256,uint256,uint80)")[:4]


@pytest.fixture
async def lab():
    lab = await open_lab()
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def oracle(lab, decimals: int = 8) -> str:
    code = load_artifact("TestOracle").init + decimals.to_bytes(32, "big")
    return (await lab.send(data=code))["contractAddress"].lower()


async def write(lab, feed: str, answer: int, **changes: int) -> None:
    """Write a new round."""
    fields = {"round": 5, "at": START_S - 60, "answered_in": 5} | changes
    numbers = (fields["round"], answer % 2**256, fields["at"], fields["answered_in"])
    await lab.send(to=feed, data=SET + b"".join(number.to_bytes(32, "big") for number in numbers))


def make_last_price() -> LastPrice:
    return LastPrice("oracle", 3900, 20)


async def read_prices(lab, *feeds: str, way: str = "deployless") -> list[LastPrice]:
    expected_feeds = [OracleFeed(feed, make_last_price()) for feed in feeds]
    reader = EvmReader(EvmNode(JsonRpcClient(lab.node)), "chain", list_strategies(), strategy=way)
    await OraclePrices(reader, expected_feeds).refresh(NOW)
    return [feed.last_price for feed in expected_feeds]


@pytest.mark.parametrize("way", ["batch", "deployless"])
async def test_feeds_are_read_exactly_and_all_at_once(lab, way):
    first, second, third = await oracle(lab), await oracle(lab, 18), await oracle(lab, 0)
    await write(lab, first, 2_500_12345678)
    await write(lab, second, 3)
    await write(lab, third, 7)
    lab.node.methods.clear()
    last_prices = await read_prices(lab, first, second, third, way=way)
    assert [last_price.find_rate(NOW).price for last_price in last_prices] == [
        "2500.12345678",
        "0.000000000000000003",
        "7",
    ]
    assert [last_price.find_rate(NOW).at_us for last_price in last_prices] == [NOW - 60_000_000] * 3
    assert len(lab.node.methods) == (1 if way == "deployless" else 6)


@pytest.mark.parametrize(
    ("answer", "changes", "fault"),
    [
        (0, {}, "no price above zero"),
        (-1, {}, "no price above zero"),
        (-(2**255), {}, "no price above zero"),
        (10**60, {}, "out of range"),
        (2500, {"answered_in": 4}, "not complete"),
        (2500, {"at": 0}, "not complete"),
        (2500, {"round": 0}, "does not answer"),
        (2500, {"at": START_S - 3901}, "too old"),
        (2500, {"at": START_S + 61}, "future"),
    ],
)
async def test_invalid_round_gives_no_price(lab, answer, changes, fault):
    bad, good = await oracle(lab), await oracle(lab)
    await write(lab, bad, answer, **changes)
    await write(lab, good, 100_000_000)
    last_price, other = await read_prices(lab, bad, good)
    assert last_price.find_rate(NOW) is None
    assert fault in last_price.fault
    assert other.find_rate(NOW).price == "1.00000000"


async def test_invalid_feed_gives_no_price(lab):
    large = await oracle(lab, 31)
    await write(lab, large, 1)
    last_prices = await read_prices(lab, "0x" + "12" * 20, DEVNET.token.address, large)
    assert [last_price.find_rate(NOW) for last_price in last_prices] == [None, None, None]
    assert [last_price.fault for last_price in last_prices] == [
        "no feed exists at its address",
        "the feed does not answer",
        "the feed has 31 decimals",
    ]


async def test_a_chain_that_does_not_answer_leaves_the_last_price(lab):
    feed = OracleFeed(await oracle(lab), make_last_price())
    await write(lab, feed.address, 2500_00000000)
    prices = OraclePrices(
        EvmReader(EvmNode(JsonRpcClient(lab.node)), "chain", list_strategies()), [feed]
    )
    await prices.refresh(NOW)
    lab.node.changes["eth_call"] = make_refusal(-32005, "limit exceeded")
    await prices.refresh(NOW)
    assert "limit exceeded" in feed.last_price.fault
    assert feed.last_price.find_rate(NOW).price == "2500.00000000"
    await prices.close()


async def test_a_feed_must_be_on_a_chain_of_the_settings(lab):
    pairs = {
        f"{CHAIN}/slip44:60": {
            "USD": [{"kind": "oracle", "chain": "eip155:1", "feed": "0x" + "12" * 20}]
        }
    }
    settings = Settings(prices={"pairs": pairs})
    with pytest.raises(SetupError, match="eip155:1 is not an EVM chain in the settings"):
        build_market(settings, {CHAIN: lab.rail.reader})
    assert (
        build_market(settings, {"eip155:1": lab.rail.reader}).find_rate(
            f"{CHAIN}/slip44:60", "USD", 0
        )
        is None
    )


@given(
    st.integers(1, 10**30 - 1),
    st.integers(0, 30),
    st.integers(1, 10**12),
    st.integers(0, 4),
    st.integers(0, 18),
)
def test_amount_at_a_feed_price_is_the_least_that_covers_the_value(
    answer, scale, value, currency, asset
):
    words = b"".join(
        each_item.to_bytes(32, "big") for each_item in (1, answer, START_S, START_S, 1)
    )
    price, at_us = _parse_round((True, words), (True, scale.to_bytes(32, "big")))
    place = LastPrice("oracle", 3900, 20)
    place.record_price(price, at_us, NOW)
    cost = place.find_rate(NOW).compute_cost(value, currency, asset)
    item = Fraction(answer, 10**scale) / 10**asset
    owed = Fraction(value, 10**currency)
    assert cost * item >= owed > (cost - 1) * item
