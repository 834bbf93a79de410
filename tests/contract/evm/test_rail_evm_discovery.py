"""A chain that is not what the operator wrote down is not used, and the operator is told why."""

from __future__ import annotations

import pytest
from florin_server.devnet.evm import DEVNET
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.networks import registry
from florin_server.rails.networks.network import Coin, Network, Pace, Token
from florin_server.rails.types import RailUnavailable

from tests.support.evm_lab import RELAYER, TOKEN, asset, euro, open_lab, refuse, reply, settings

pytestmark = pytest.mark.both_chains


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def checked(lab, **changes):
    """The offered assets and the problems of a rail with other settings."""
    rail = EvmRail(settings(**changes), RELAYER, lab.node)
    await rail.start()
    problems = await rail.problems()
    return rail.assets, problems


async def test_a_chain_as_written_down_has_no_problems(lab):
    assert await lab.rail.problems() == ()
    (offered,) = lab.rail.assets.values()
    assert offered.id == TOKEN
    assert (offered.symbol, offered.decimals, offered.peg) == ("tUSD", 6, "USD")
    assert (offered.method, offered.network_name) == ("eip3009", DEVNET.name)


async def test_starting_is_one_question(lab):
    before = lab.rail.rpc.requests
    await lab.rail.start()
    assert lab.rail.rpc.requests - before == 1


async def test_another_chain_is_not_used(lab):
    assets, (problem,) = await checked(lab, chain_id=8453, live=False)
    assert assets == {}
    assert problem == f"{DEVNET.name}: the node serves chain 31337, not 8453"


@pytest.mark.parametrize(
    ("address", "words"),
    [("0x" + "12" * 20, "no contract"), (DEVNET.token.address, "not Florin's settlement")],
)
async def test_another_settlement_contract_is_not_used(lab, address, words):
    assets, (problem,) = await checked(lab, settler=address)
    assert assets == {}
    assert words in problem


async def test_a_settlement_contract_of_another_version_is_not_used(lab):
    """It hashes a route without its way and end, and would not be understood."""
    older = await lab.deploy("7f" + "5a" * 32 + "60005260206000f3")
    for changes in ({"settler": older}, {"former_settlers": (older,)}):
        assets, (problem,) = await checked(lab, **changes)
        assert assets == {}
        assert problem == (
            f"{DEVNET.name}: the contract at {older} is not Florin's settlement contract,"
            " or not that of this version"
        )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"decimals": 18}, "has 6 decimals, not 18"),
        ({"name": "Other Dollar"}, "is named 'Test Dollar', not 'Other Dollar'"),
        ({"domain_name": "Other Dollar"}, "is named 'Test Dollar', not 'Other Dollar'"),
        ({"domain_version": "1"}, "has version '2', not '1'"),
        ({"address": "0x" + "12" * 20}, "is no token"),
        ({"address": DEVNET.settler}, "is no token"),
    ],
)
async def test_a_token_that_differs_is_disabled_with_a_sentence(lab, changes, words):
    token = asset(**changes)
    assets, (problem,) = await checked(lab, assets=(token,))
    assert assets == {}
    assert problem == f"{DEVNET.name}: tUSD at {token.address} {words}"


async def test_a_wrong_token_leaves_the_right_one_alone(lab):
    wrong = asset(address="0x" + "12" * 20)
    assets, problems = await checked(lab, assets=(wrong, asset()))
    assert list(assets) == [TOKEN]
    assert len(problems) == 1


async def test_a_token_that_signs_for_another_domain_is_disabled(lab):
    def other_domain(params, answer):
        if params[0]["data"] == "0x3644e515":
            return answer | {"result": "0x" + "77" * 32}
        return answer

    lab.node.changes["eth_call"] = other_domain
    (problem,) = await lab.rail.problems()
    assert "signs for another domain" in problem
    assert lab.rail.assets == {}


async def test_a_token_that_hides_its_version_is_proven_by_its_domain(lab):
    def no_version(params, answer):
        if params[0]["data"] == "0x54fd4d50":
            return {"id": answer["id"], "error": {"code": 3, "message": "execution reverted"}}
        return answer

    lab.node.changes["eth_call"] = no_version
    assert await lab.rail.problems() == ()


async def test_a_relayer_without_coin_is_a_problem_but_no_hindrance(lab):
    rail = EvmRail(settings(), Signer(b"\x77" * 32), lab.node)
    await rail.start()
    assert await rail.problems() == ()
    (problem,) = await rail.relay.shortages()
    assert "too little coin to pay for gas" in problem.text
    assert problem.is_empty
    assert list(rail.assets) == [TOKEN]


@pytest.mark.parametrize("change", [refuse(-32005, "limit exceeded"), reply(None), reply("x")])
@pytest.mark.parametrize("method", ["eth_chainId", "eth_getCode", "eth_call"])
async def test_a_chain_that_does_not_answer_keeps_what_it_offers(lab, method, change):
    lab.node.changes[method] = change
    (problem,) = await lab.rail.problems()
    assert problem.startswith(f"{DEVNET.name}: ")
    assert list(lab.rail.assets) == [TOKEN]
    with pytest.raises(RailUnavailable):
        await lab.rail.start()


async def test_a_chain_repaired_is_offered_again(lab):
    genuine = lab.node.changes
    lab.node.changes = {"eth_chainId": reply("0x1")}
    await lab.rail.problems()
    assert lab.rail.assets == {}
    lab.node.changes = genuine
    assert await lab.rail.problems() == ()
    assert list(lab.rail.assets) == [TOKEN]


def test_a_rail_needs_a_node():
    with pytest.raises(ValueError, match="neither a node's URL nor a transport"):
        EvmRail(settings(), RELAYER)


async def test_a_token_that_contradicts_the_registry_is_left_out(lab, monkeypatch):
    token = Token("tUSD", "Test Dollar", DEVNET.euro.address, 6, "USD", "permit2")
    known = Network(
        id="eip155:31337",
        name=DEVNET.name,
        live=False,
        coin=Coin("E", "E", 60),
        pace=Pace(1, 10, 1),
        tokens=(token,),
        source="this test",
        checked="2026-11-26",
    )
    monkeypatch.setitem(registry.BY_ID, known.id, known)
    assets, (problem,) = await checked(lab, assets=(asset(), euro(symbol="tEUR", peg="USD")))
    assert [one.symbol for one in assets.values()] == ["tEUR"]
    assert problem == (
        f"{DEVNET.name}: tUSD at {DEVNET.token.address} is not tUSD: that is {token.address}"
    )


async def test_chain_without_transient_storage_is_not_used(lab):
    def refuse(params, answer):
        if "to" in params[0] or params[0].get("data") != "0x600160005d00":
            return answer
        fault = {"code": -32000, "message": "invalid opcode: opcode 0x5d not defined"}
        return {"jsonrpc": "2.0", "id": answer["id"], "error": fault}

    lab.node.changes = {"eth_call": refuse}
    assets, (problem,) = await checked(lab)
    assert assets == {}
    assert "lacks transient storage (EIP-1153)" in problem
