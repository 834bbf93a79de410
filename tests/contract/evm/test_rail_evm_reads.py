"""Whatever way a chain is read, the answers are the same, and no account spoils those of others."""

from __future__ import annotations

import pytest
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.genesis import artifact
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpc
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.reading import reads
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.reading.reads import Question, batch, deployless, multicall3
from florin_server.rails.evm.settings import EvmCoin
from florin_server.rails.types import Payable, RailUnavailable

from tests.support import anvil
from tests.support.evm_lab import (
    ACCEPTS_ALL,
    EURO,
    PRICE,
    RELAYER,
    TOKEN,
    account_of,
    asset,
    buyer,
    euro,
    open_lab,
    refuse,
    reply,
)

DOLLAR = bytes.fromhex(DEVNET.token.address[2:])
ABSENT = b"\xab" * 20
HOLDER = bytes.fromhex(buyer(1).address[2:])
BALANCE_OF = bytes.fromhex("70a08231")
DECIMALS = bytes.fromhex("313ce567")
# code that returns 64 words, reverts with two, reverts with nothing, never ends, returns it all
LONG, REASON, PLAIN = "6107ff6000526108006000f3", "602a60005260406000fd", "60006000fd"
ENDLESS, BOMB = "5b600056", "5a6000f3"
# returns 42 if it has half a million gas, and reverts if not
CAREFUL = "5a6207a12010600e5760006000fd5b602a60005260206000f3"


def balance(account: bytes) -> bytes:
    return BALANCE_OF + account.rjust(32, b"\0")


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture
async def lab():
    lab = await open_lab(
        assets=(asset(), euro()), coin=EvmCoin(name="Test Ether", symbol="tETH"), faucet=False
    )
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def multicall_of(lab) -> str:
    receipt = await lab.send(data=artifact("TestMulticall").bytecode, gas=2_000_000)
    return receipt["contractAddress"].lower()


async def ways_of(lab):
    return {
        "batch": batch,
        "deployless": deployless,
        "multicall3": multicall3(await multicall_of(lab)),
    }


async def mixture(lab) -> tuple[list[Question], list]:
    """Questions of every kind and their answers."""
    places = {
        code: bytes.fromhex((await lab.deploy(code))[2:])
        for code in (LONG, REASON, PLAIN, ENDLESS, BOMB)
    }
    wallet = buyer(77)
    await lab.delegate(wallet, ACCEPTS_ALL)
    coded = bytes.fromhex(wallet.address[2:])
    accepts = bytes.fromhex(ACCEPTS_ALL[2:10]).ljust(32, b"\0")
    await lab.send_tokens("0x" + HOLDER.hex(), 12_345)
    await lab.send(to="0x" + HOLDER.hex(), value=16)
    return [
        Question(DOLLAR, balance(HOLDER)),
        Question(HOLDER, None),
        Question(ABSENT, None),
        Question(DOLLAR, DECIMALS),
        Question(ABSENT, DECIMALS),
        Question(DOLLAR, b"\x01\x02\x03\x04"),
        Question(coded, b"", of=coded),
        Question(DOLLAR, balance(coded), of=coded),
        Question(HOLDER, b"", of=HOLDER),
        Question(HOLDER, None, of=HOLDER),
        Question(places[LONG], b"", most=2048),
        Question(places[LONG], b""),
        Question(places[REASON], b""),
        Question(places[PLAIN], b""),
        Question(places[ENDLESS], b"", gas=100_000),
        Question(DOLLAR, balance(ABSENT)),
        Question(coded, None, of=coded),
    ], [
        (True, word(12_345)),
        (True, word(16)),
        (True, word(0)),
        (True, word(6)),
        (True, b""),
        (False, b""),
        (True, accepts),
        (True, word(0)),
        None,
        None,
        (True, word(0x07FF) + bytes(2016)),
        (True, word(0x07FF)),
        (False, word(42)),
        (False, b""),
        (False, b""),
        (True, word(0)),
        (True, word(0)),
    ]


@pytest.mark.parametrize("way", ["batch", "deployless", "multicall3"])
async def test_every_way_tells_the_truth(lab, way):
    questions, answers = await mixture(lab)
    read = (await ways_of(lab))[way]
    assert await read(Node(lab.control), questions) == answers
    assert await read(Node(lab.control), questions[::-1]) == answers[::-1]


@pytest.mark.parametrize("way", ["batch", "deployless", "multicall3"])
async def test_a_chain_that_others_wrote_is_read_the_same(way):
    with anvil.running() as other:
        codes = {LONG: 1, REASON: 2, PLAIN: 3, ENDLESS: 4, ACCEPTS_ALL: 5}
        places = {code: bytes([number]) * 20 for code, number in codes.items()}
        for code, place in places.items():
            other.ask("anvil_setCode", "0x" + place.hex(), "0x" + code)
        multicall = "0x" + "ca" * 20
        other.ask("anvil_setCode", multicall, "0x" + artifact("TestMulticall").runtime.hex())
        other.ask("anvil_setBalance", "0x" + HOLDER.hex(), "0x10")
        # an account that code answers for (EIP-7702)
        delegated = b"\x0d" * 20
        designator = "0xef0100" + places[ACCEPTS_ALL].hex()
        other.ask("anvil_setCode", "0x" + delegated.hex(), designator)
        accepts = bytes.fromhex(ACCEPTS_ALL[2:10]).ljust(32, b"\0")
        questions = [
            Question(HOLDER, None),
            Question(HOLDER, b"", of=HOLDER),
            Question(delegated, b"", of=delegated),
            Question(places[ACCEPTS_ALL], b""),
            Question(places[LONG], b""),
            Question(places[REASON], b""),
            Question(places[PLAIN], b""),
            Question(places[ENDLESS], b"", gas=100_000),
            Question(ABSENT, b""),
        ]
        rpc = JsonRpc(HttpTransport(other.url))
        read = {"batch": batch, "deployless": deployless, "multicall3": multicall3(multicall)}[way]
        try:
            assert await read(Node(rpc), questions) == [
                (True, word(16)),
                None,
                (True, accepts),
                (True, accepts),
                (True, word(0x07FF)),
                (False, word(42)),
                (False, b""),
                (False, b""),
                (True, b""),
            ]
        finally:
            await rpc.close()


@pytest.mark.parametrize(("way", "requests"), [("batch", 11), ("deployless", 1), ("multicall3", 1)])
async def test_a_thousand_questions_fit(lab, way, requests):
    accounts = [number.to_bytes(20, "big") for number in range(5000, 6000)]
    await lab.send_tokens("0x" + accounts[700].hex(), 3)
    rpc = JsonRpc(lab.node, batch_max=100)
    ways = await ways_of(lab)
    questions = [Question(DOLLAR, balance(account)) for account in accounts]
    questions.append(Question(accounts[3], b"", of=accounts[3]))
    answers = await ways[way](Node(rpc), questions)
    assert answers == [(True, word(3 * (n == 700))) for n in range(1000)] + [None]
    assert rpc.requests == requests


async def test_no_part_is_larger_than_a_contract_may_be(lab):
    asked, told = [], []

    def weighed(params, answer):
        asked.append(len(params[0]["data"]) // 2)
        told.append(len(answer["result"]) // 2)
        return answer

    wordy = bytes.fromhex((await lab.deploy(LONG))[2:])
    group = [Question(DOLLAR, balance(HOLDER), of=wordy)] * 60
    plain = [Question(wordy, balance(HOLDER))] * 500
    lab.node.changes["eth_call"] = weighed
    answers = await deployless(Node(JsonRpc(lab.node)), [*group, *plain] * 6)
    assert len(answers) == 6 * 560
    # all that each may tell
    assert {len(answer) for _, answer in answers} == {plain[0].most}
    assert max(asked) < 49_152
    assert max(told) < 24_576
    assert len(asked) < 8


@pytest.mark.parametrize("cut", [0, 1, 2, 40, -1])
async def test_an_answer_that_was_cut_is_no_answer(lab, cut):
    def shorter(params, answer):
        return answer | {"result": answer["result"][: cut * 2]}

    lab.node.changes["eth_call"] = shorter
    questions = [Question(DOLLAR, DECIMALS), Question(HOLDER, None)]
    node = Node(JsonRpc(lab.node))
    for way in (deployless, (await ways_of(lab))["multicall3"]):
        with pytest.raises(RailUnavailable):
            await way(node, questions)


@pytest.mark.parametrize("answer", ["0x", "0x01", "0xzz", None, "0x" + "00" * 640])
async def test_nonsense_is_no_answer(lab, answer):
    lab.node.changes["eth_call"] = reply(answer)
    node = Node(JsonRpc(lab.node))
    for way in (deployless, (await ways_of(lab))["multicall3"]):
        with pytest.raises(RailUnavailable):
            await way(node, [Question(DOLLAR, DECIMALS)])


async def test_who_got_too_little_gas_is_asked_again(lab):
    hog = bytes.fromhex((await lab.deploy(ENDLESS))[2:])
    careful = bytes.fromhex((await lab.deploy(CAREFUL))[2:])
    # the first burns nearly all that the call may use
    questions = [Question(hog, b""), Question(careful, b""), Question(DOLLAR, DECIMALS)]
    found = await (await ways_of(lab))["multicall3"](Node(lab.control), questions)
    assert found == [(False, b""), (True, word(42)), (True, word(6))]


async def test_a_call_that_cannot_get_its_gas_fails_the_reading_and_tells_no_lie(lab):
    hog = bytes.fromhex((await lab.deploy(ENDLESS))[2:])
    questions = [*[Question(hog, b"")] * 17, Question(DOLLAR, DECIMALS)]
    with pytest.raises(RailUnavailable, match="revert"):
        await deployless(Node(lab.control), questions)


@pytest.mark.parametrize("way", ["batch", "deployless", "multicall3"])
@pytest.mark.parametrize("code", [ENDLESS, BOMB, PLAIN])
async def test_an_account_that_does_harm_harms_itself_only(way, code):
    lab = await open_lab(reads=way, assets=(asset(), euro()))
    try:
        if way == "multicall3":
            await lab.rail.close()
            chain = lab.rail.chain.model_copy(update={"multicall3": await multicall_of(lab)})
            lab.rail = EvmRail(chain, RELAYER, lab.node)
            await lab.rail.start()
        wallet, others = buyer(1), [buyer(n) for n in range(2, 6)]
        payers = [account_of(one) for one in (wallet, *others)]
        await lab.payable(payers, {TOKEN: PRICE, EURO: PRICE})
        await lab.delegate(wallet, code)
        found = await lab.payable(payers, {TOKEN: PRICE, EURO: PRICE})
        own = [one.asset for one in found if one.payer == payers[0]]
        assert list(dict.fromkeys(own)) == [TOKEN, EURO]
        healthy = [one for one in found if one.payer != payers[0]]
        assert healthy == [
            Payable(payer, asset_id, approvals)
            for payer in payers[1:]
            for asset_id, approvals in ((TOKEN, ()), (EURO, (PRICE,)))
        ]
    finally:
        await lab.rail.close()
        await lab.chain.close()


@pytest.mark.parametrize("way", ["batch", "deployless", "multicall3"])
async def test_however_many_accounts_burn_their_gas_others_are_answered(lab, way):
    # designated invalid: burns all that a call was given
    code = bytes.fromhex((await lab.deploy("fe"))[2:])
    burners = [Question(code, b"", gas=330_000, of=code)] * 60
    # more than one reading of balances may use, if all of it were burnt in one call
    assert sum(one.gas for one in burners) > reads.CALL_GAS
    questions = [*burners[:30], Question(DOLLAR, DECIMALS), *burners[30:]]
    found = await (await ways_of(lab))[way](Node(lab.control), questions)
    assert found == [*[(False, b"")] * 30, (True, word(6)), *[(False, b"")] * 30]


@pytest.mark.parametrize("way", ["batch", "multicall3"])
async def test_an_account_whose_answer_is_too_long_keeps_nobody_from_being_answered(lab, way):
    # reverts with all of 300 kB, which the gas of a question for a signature buys
    bomb = bytes.fromhex((await lab.deploy("62049000" + "6000fd"))[2:])
    coded = bytes.fromhex((await lab.deploy(LONG))[2:])
    questions = [
        Question(DOLLAR, DECIMALS),
        *[Question(bomb, b"", gas=330_000, of=bomb)] * 5,
        Question(coded, b"", of=coded),
    ]
    rpc = JsonRpc(lab.node, answer_bytes_max=500_000)
    found = await (await ways_of(lab))[way](Node(rpc), questions)
    assert found == [(True, word(6)), *[(False, b"")] * 5, (True, word(0x07FF))]


async def test_a_node_that_takes_no_creations_says_so(lab):
    lab.node.changes["eth_call"] = refuse(-32602, "missing to")
    with pytest.raises(RailUnavailable, match="missing to"):
        await deployless(Node(JsonRpc(lab.node)), [Question(DOLLAR, DECIMALS)])


async def test_a_call_is_limited_whatever_the_node_allows(lab):
    asked = []

    def seen(params, answer):
        asked.append(int(params[0]["gas"], 16))
        return answer

    lab.node.changes["eth_call"] = seen
    for way in (await ways_of(lab)).values():
        await way(Node(JsonRpc(lab.node)), [Question(DOLLAR, DECIMALS)])
    assert asked == [reads.READ_GAS, reads.CALL_GAS, reads.CALL_GAS]
