"""A feed's price counts if its round is complete, young and above zero."""

from __future__ import annotations

from fractions import Fraction

import pytest
from eth_hash.auto import keccak
from florin_server.boot.chains.prices import market
from florin_server.boot.home import Refused
from florin_server.config import Settings
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.genesis import artifact
from florin_server.pricing.market import Kept
from florin_server.rails.connection.jsonrpc import JsonRpc
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.reading.oracles import Feed, OraclePrices, _read
from florin_server.rails.evm.reading.reader import Reader, ways
from hypothesis import given
from hypothesis import strategies as st

from tests.support.evm_lab import CHAIN, START_S, open_lab, refuse

NOW = START_S * 1_000_000
SET = keccak(b"set(uint80,int256,uint256,uint80)")[:4]


@pytest.fixture
async def lab():
    lab = await open_lab()
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def oracle(lab, decimals: int = 8) -> str:
    code = artifact("TestOracle").bytecode + decimals.to_bytes(32, "big")
    return (await lab.send(data=code))["contractAddress"].lower()


async def write(lab, feed: str, answer: int, **changes: int) -> None:
    """A new round."""
    fields = {"round": 5, "at": START_S - 60, "answered_in": 5} | changes
    numbers = (fields["round"], answer % 2**256, fields["at"], fields["answered_in"])
    await lab.send(to=feed, data=SET + b"".join(one.to_bytes(32, "big") for one in numbers))


def kept() -> Kept:
    return Kept("oracle", 3900, 20)


async def told(lab, *feeds: str, way: str = "deployless") -> list[Kept]:
    wanted = [Feed(feed, kept()) for feed in feeds]
    reader = Reader(Node(JsonRpc(lab.node)), "chain", ways(), way=way)
    await OraclePrices(reader, wanted).refresh(NOW)
    return [one.kept for one in wanted]


@pytest.mark.parametrize("way", ["batch", "deployless"])
async def test_feeds_are_read_exactly_and_all_at_once(lab, way):
    first, second, third = await oracle(lab), await oracle(lab, 18), await oracle(lab, 0)
    await write(lab, first, 2_500_12345678)
    await write(lab, second, 3)
    await write(lab, third, 7)
    lab.node.asked.clear()
    found = await told(lab, first, second, third, way=way)
    assert [one.rate(NOW).price for one in found] == ["2500.12345678", "0.000000000000000003", "7"]
    assert [one.rate(NOW).at_us for one in found] == [NOW - 60_000_000] * 3
    assert len(lab.node.asked) == (1 if way == "deployless" else 6)


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
async def test_other_rounds_tell_nothing(lab, answer, changes, fault):
    bad, good = await oracle(lab), await oracle(lab)
    await write(lab, bad, answer, **changes)
    await write(lab, good, 100_000_000)
    one, other = await told(lab, bad, good)
    assert one.rate(NOW) is None
    assert fault in one.fault
    assert other.rate(NOW).price == "1.00000000"


async def test_what_is_no_feed_tells_nothing(lab):
    large = await oracle(lab, 31)
    await write(lab, large, 1)
    found = await told(lab, "0x" + "12" * 20, DEVNET.token.address, large)
    assert [one.rate(NOW) for one in found] == [None, None, None]
    assert [one.fault for one in found] == [
        "there is no feed at its address",
        "the feed does not answer",
        "the feed has 31 decimals",
    ]


async def test_a_chain_that_does_not_answer_leaves_the_last_price(lab):
    feed = Feed(await oracle(lab), kept())
    await write(lab, feed.address, 2500_00000000)
    prices = OraclePrices(Reader(Node(JsonRpc(lab.node)), "chain", ways()), [feed])
    await prices.refresh(NOW)
    lab.node.changes["eth_call"] = refuse(-32005, "limit exceeded")
    await prices.refresh(NOW)
    assert "limit exceeded" in feed.kept.fault
    assert feed.kept.rate(NOW).price == "2500.00000000"
    await prices.close()


async def test_a_feed_must_be_on_a_chain_of_the_settings(lab):
    pairs = {
        f"{CHAIN}/slip44:60": {
            "USD": [{"kind": "oracle", "chain": "eip155:1", "feed": "0x" + "12" * 20}]
        }
    }
    settings = Settings(prices={"pairs": pairs})
    with pytest.raises(Refused, match="eip155:1 is no EVM chain of the settings"):
        market(settings, {CHAIN: lab.rail.reader})
    assert (
        market(settings, {"eip155:1": lab.rail.reader}).rate(f"{CHAIN}/slip44:60", "USD", 0) is None
    )


@given(
    st.integers(1, 10**30 - 1),
    st.integers(0, 30),
    st.integers(1, 10**12),
    st.integers(0, 4),
    st.integers(0, 18),
)
def test_what_a_buyer_pays_at_a_feeds_price_is_the_least_that_is_enough(
    answer, scale, value, currency, asset
):
    words = b"".join(one.to_bytes(32, "big") for one in (1, answer, START_S, START_S, 1))
    price, at_us = _read((True, words), (True, scale.to_bytes(32, "big")))
    place = Kept("oracle", 3900, 20)
    place.take(price, at_us, NOW)
    cost = place.rate(NOW).cost(value, currency, asset)
    one = Fraction(answer, 10**scale) / 10**asset
    owed = Fraction(value, 10**currency)
    assert cost * one >= owed > (cost - 1) * one
