"""Test that all read strategies return the same answers, and no account spoils those of others."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpcClient
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.reading import reads
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.reading.reads import (
    ContractQuestion,
    create_multicall3_strategy,
    read_batch,
    read_deployless,
)
from florin_server.rails.evm.settings import EvmCoinSettings
from florin_server.rails.types import PayableAsset, RailUnavailable

from tests.support import anvil
from tests.support.evm_harness import (
    ACCEPTS_ALL,
    EURO,
    PRICE,
    RELAYER,
    TOKEN,
    make_asset,
    make_buyer,
    make_euro_asset,
    make_refusal,
    make_reply,
    open_lab,
    to_account,
)

DOLLAR = bytes.fromhex(DEVNET.token.address[2:])
ABSENT = b"\xab" * 20
HOLDER = bytes.fromhex(make_buyer(1).address[2:])
BALANCE_OF = bytes.fromhex("70a08231")
DECIMALS = bytes.fromhex("313ce567")
# code that returns 64 words, reverts with two, reverts with none, loops, or returns all gas
LONG, REASON, PLAIN = "6107ff6000526108006000f3", "602a60005260406000fd", "60006000fd"
ENDLESS, BOMB = "5b600056", "5a6000f3"
# returns 42 with half a million gas, and otherwise reverts
CAREFUL = "5a6207a12010600e5760006000fd5b602a60005260206000f3"


def balance(account: bytes) -> bytes:
    return BALANCE_OF + account.rjust(32, b"\0")


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture
async def lab():
    lab = await open_lab(
        assets=(make_asset(), make_euro_asset()),
        coin=EvmCoinSettings(name="Test Ether", symbol="tETH"),
        faucet=False,
    )
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def multicall_of(lab) -> str:
    receipt = await lab.send(data=load_artifact("TestMulticall").init, gas=2_000_000)
    return receipt["contractAddress"].lower()


async def ways_of(lab):
    return {
        "batch": read_batch,
        "deployless": read_deployless,
        "multicall3": create_multicall3_strategy(await multicall_of(lab)),
    }


async def mixture(lab) -> tuple[list[ContractQuestion], list]:
    """Return questions of every kind and their answers."""
    places = {
        code: bytes.fromhex((await lab.deploy(code))[2:])
        for code in (LONG, REASON, PLAIN, ENDLESS, BOMB)
    }
    wallet = make_buyer(77)
    await lab.delegate(wallet, ACCEPTS_ALL)
    coded = bytes.fromhex(wallet.address[2:])
    accepts = bytes.fromhex(ACCEPTS_ALL[2:10]).ljust(32, b"\0")
    await lab.send_tokens("0x" + HOLDER.hex(), 12_345)
    await lab.send(to="0x" + HOLDER.hex(), value=16)
    return [
        ContractQuestion(DOLLAR, balance(HOLDER)),
        ContractQuestion(HOLDER, None),
        ContractQuestion(ABSENT, None),
        ContractQuestion(DOLLAR, DECIMALS),
        ContractQuestion(ABSENT, DECIMALS),
        ContractQuestion(DOLLAR, b"\x01\x02\x03\x04"),
        ContractQuestion(coded, b"", owner=coded),
        ContractQuestion(DOLLAR, balance(coded), owner=coded),
        ContractQuestion(HOLDER, b"", owner=HOLDER),
        ContractQuestion(HOLDER, None, owner=HOLDER),
        ContractQuestion(places[LONG], b"", max_bytes=2048),
        ContractQuestion(places[LONG], b""),
        ContractQuestion(places[REASON], b""),
        ContractQuestion(places[PLAIN], b""),
        ContractQuestion(places[ENDLESS], b"", gas=100_000),
        ContractQuestion(DOLLAR, balance(ABSENT)),
        ContractQuestion(coded, None, owner=coded),
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
async def test_every_read_method_returns_the_true_results(lab, way):
    questions, answers = await mixture(lab)
    read = (await ways_of(lab))[way]
    assert await read(EvmNode(lab.control), questions) == answers
    assert await read(EvmNode(lab.control), questions[::-1]) == answers[::-1]


@pytest.mark.parametrize("way", ["batch", "deployless", "multicall3"])
async def test_foreign_chain_implementation_is_read_the_same(way):
    with anvil.run_anvil() as other:
        codes = {LONG: 1, REASON: 2, PLAIN: 3, ENDLESS: 4, ACCEPTS_ALL: 5}
        places = {code: bytes([number]) * 20 for code, number in codes.items()}
        for code, place in places.items():
            other.ask("anvil_setCode", "0x" + place.hex(), "0x" + code)
        multicall = "0x" + "ca" * 20
        other.ask("anvil_setCode", multicall, "0x" + load_artifact("TestMulticall").runtime.hex())
        other.ask("anvil_setBalance", "0x" + HOLDER.hex(), "0x10")
        # an account that delegates to code (EIP-7702)
        delegated = b"\x0d" * 20
        designator = "0xef0100" + places[ACCEPTS_ALL].hex()
        other.ask("anvil_setCode", "0x" + delegated.hex(), designator)
        accepts = bytes.fromhex(ACCEPTS_ALL[2:10]).ljust(32, b"\0")
        questions = [
            ContractQuestion(HOLDER, None),
            ContractQuestion(HOLDER, b"", owner=HOLDER),
            ContractQuestion(delegated, b"", owner=delegated),
            ContractQuestion(places[ACCEPTS_ALL], b""),
            ContractQuestion(places[LONG], b""),
            ContractQuestion(places[REASON], b""),
            ContractQuestion(places[PLAIN], b""),
            ContractQuestion(places[ENDLESS], b"", gas=100_000),
            ContractQuestion(ABSENT, b""),
        ]
        rpc = JsonRpcClient(HttpTransport(other.url))
        read = {
            "batch": read_batch,
            "deployless": read_deployless,
            "multicall3": create_multicall3_strategy(multicall),
        }[way]
        try:
            assert await read(EvmNode(rpc), questions) == [
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
    rpc = JsonRpcClient(lab.node, batch_max=100)
    ways = await ways_of(lab)
    questions = [ContractQuestion(DOLLAR, balance(account)) for account in accounts]
    questions.append(ContractQuestion(accounts[3], b"", owner=accounts[3]))
    answers = await ways[way](EvmNode(rpc), questions)
    assert answers == [(True, word(3 * (n == 700))) for n in range(1000)] + [None]
    assert rpc.request_count == requests


async def test_no_part_is_larger_than_a_contract_may_be(lab):
    requests, result = [], []

    def weighed(params, answer):
        requests.append(len(params[0]["data"]) // 2)
        result.append(len(answer["result"]) // 2)
        return answer

    wordy = bytes.fromhex((await lab.deploy(LONG))[2:])
    group = [ContractQuestion(DOLLAR, balance(HOLDER), owner=wordy)] * 60
    plain = [ContractQuestion(wordy, balance(HOLDER))] * 500
    lab.node.changes["eth_call"] = weighed
    answers = await read_deployless(EvmNode(JsonRpcClient(lab.node)), [*group, *plain] * 6)
    assert len(answers) == 6 * 560
    # the longest answer that each call allows
    assert {len(answer) for _, answer in answers} == {plain[0].max_bytes}
    assert max(requests) < 49_152
    assert max(result) < 24_576
    assert len(requests) < 8


@pytest.mark.parametrize("cut", [0, 1, 2, 40, -1])
async def test_an_answer_that_was_cut_is_no_answer(lab, cut):
    def shorter(params, answer):
        return answer | {"result": answer["result"][: cut * 2]}

    lab.node.changes["eth_call"] = shorter
    questions = [ContractQuestion(DOLLAR, DECIMALS), ContractQuestion(HOLDER, None)]
    node = EvmNode(JsonRpcClient(lab.node))
    for way in (read_deployless, (await ways_of(lab))["multicall3"]):
        with pytest.raises(RailUnavailable):
            await way(node, questions)


@pytest.mark.parametrize("answer", ["0x", "0x01", "0xzz", None, "0x" + "00" * 640])
async def test_nonsense_is_no_answer(lab, answer):
    lab.node.changes["eth_call"] = make_reply(answer)
    node = EvmNode(JsonRpcClient(lab.node))
    for way in (read_deployless, (await ways_of(lab))["multicall3"]):
        with pytest.raises(RailUnavailable):
            await way(node, [ContractQuestion(DOLLAR, DECIMALS)])


async def test_call_with_too_little_gas_is_repeated(lab):
    hog = bytes.fromhex((await lab.deploy(ENDLESS))[2:])
    careful = bytes.fromhex((await lab.deploy(CAREFUL))[2:])
    # the first call burns almost all of the gas that it can use
    questions = [
        ContractQuestion(hog, b""),
        ContractQuestion(careful, b""),
        ContractQuestion(DOLLAR, DECIMALS),
    ]
    result = await (await ways_of(lab))["multicall3"](EvmNode(lab.control), questions)
    assert result == [(False, b""), (True, word(42)), (True, word(6))]


async def test_call_without_its_gas_fails_the_read_instead_of_returning_false_data(lab):
    hog = bytes.fromhex((await lab.deploy(ENDLESS))[2:])
    questions = [*[ContractQuestion(hog, b"")] * 17, ContractQuestion(DOLLAR, DECIMALS)]
    with pytest.raises(RailUnavailable, match="revert"):
        await read_deployless(EvmNode(lab.control), questions)


@pytest.mark.parametrize("way", ["batch", "deployless", "multicall3"])
@pytest.mark.parametrize("code", [ENDLESS, BOMB, PLAIN])
async def test_harmful_account_affects_only_its_own_result(way, code):
    lab = await open_lab(reads=way, assets=(make_asset(), make_euro_asset()))
    try:
        if way == "multicall3":
            await lab.rail.close()
            chain = lab.rail.chain.model_copy(update={"multicall3": await multicall_of(lab)})
            lab.rail = EvmRail(chain, RELAYER, lab.node)
            await lab.rail.start()
        wallet, local_accounts = make_buyer(1), [make_buyer(n) for n in range(2, 6)]
        payers = [to_account(local_account) for local_account in (wallet, *local_accounts)]
        await lab.payable(payers, {TOKEN: PRICE, EURO: PRICE})
        await lab.delegate(wallet, code)
        payables = await lab.payable(payers, {TOKEN: PRICE, EURO: PRICE})
        own = [payable.asset for payable in payables if payable.payer == payers[0]]
        assert list(dict.fromkeys(own)) == [TOKEN, EURO]
        healthy = [payable for payable in payables if payable.payer != payers[0]]
        assert healthy == [
            PayableAsset(payer, asset_id, approvals)
            for payer in payers[1:]
            for asset_id, approvals in ((TOKEN, ()), (EURO, (PRICE,)))
        ]
    finally:
        await lab.rail.close()
        await lab.chain.close()


@pytest.mark.parametrize("way", ["batch", "deployless", "multicall3"])
async def test_accounts_that_burn_gas_do_not_affect_other_results(lab, way):
    # the designated invalid opcode burns all gas of a call
    code = bytes.fromhex((await lab.deploy("fe"))[2:])
    burners = [ContractQuestion(code, b"", gas=330_000, owner=code)] * 60
    # together more than one read of balances can use, if all of it were burnt in one call
    assert sum(question.gas for question in burners) > reads.CALL_GAS
    questions = [*burners[:30], ContractQuestion(DOLLAR, DECIMALS), *burners[30:]]
    result = await (await ways_of(lab))[way](EvmNode(lab.control), questions)
    assert result == [*[(False, b"")] * 30, (True, word(6)), *[(False, b"")] * 30]


@pytest.mark.parametrize("way", ["batch", "multicall3"])
async def test_oversized_result_of_an_account_does_not_affect_other_results(lab, way):
    # reverts with all of 300 kB, which the gas of a signature check pays for
    bomb = bytes.fromhex((await lab.deploy("62049000" + "6000fd"))[2:])
    coded = bytes.fromhex((await lab.deploy(LONG))[2:])
    questions = [
        ContractQuestion(DOLLAR, DECIMALS),
        *[ContractQuestion(bomb, b"", gas=330_000, owner=bomb)] * 5,
        ContractQuestion(coded, b"", owner=coded),
    ]
    rpc = JsonRpcClient(lab.node, answer_bytes_max=500_000)
    result = await (await ways_of(lab))[way](EvmNode(rpc), questions)
    assert result == [(True, word(6)), *[(False, b"")] * 5, (True, word(0x07FF))]


async def test_a_node_that_takes_no_creations_says_so(lab):
    lab.node.changes["eth_call"] = make_refusal(-32602, "missing to")
    with pytest.raises(RailUnavailable, match="missing to"):
        await read_deployless(
            EvmNode(JsonRpcClient(lab.node)), [ContractQuestion(DOLLAR, DECIMALS)]
        )


async def test_read_call_sets_its_own_gas_limit(lab):
    requests = []

    def seen(params, answer):
        requests.append(int(params[0]["gas"], 16))
        return answer

    lab.node.changes["eth_call"] = seen
    for way in (await ways_of(lab)).values():
        await way(EvmNode(JsonRpcClient(lab.node)), [ContractQuestion(DOLLAR, DECIMALS)])
    assert requests == [reads.READ_GAS, reads.CALL_GAS, reads.CALL_GAS]
