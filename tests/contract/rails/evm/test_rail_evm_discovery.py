"""Test that a chain which differs from the settings is not used, and the operator sees why."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.networks import registry
from florin_server.rails.networks.network import (
    NetworkCoin,
    NetworkPace,
    NetworkToken,
    PublicNetwork,
)
from florin_server.rails.types import RailUnavailable

from tests.support.evm_harness import (
    RELAYER,
    TOKEN,
    make_asset,
    make_chain_settings,
    make_euro_asset,
    make_refusal,
    make_reply,
    open_lab,
)

pytestmark = pytest.mark.both_chains


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def checked(lab, **changes):
    """Return the offered assets and the problems of a rail with other settings."""
    rail = EvmRail(make_chain_settings(**changes), RELAYER, lab.node)
    await rail.start()
    problems = await rail.list_problems()
    return rail.assets, problems


async def test_a_chain_as_written_down_has_no_problems(lab):
    assert await lab.rail.list_problems() == ()
    (offered,) = lab.rail.assets.values()
    assert offered.id == TOKEN
    assert (offered.symbol, offered.decimals, offered.peg) == ("tUSD", 6, "USD")
    assert (offered.method, offered.network_name) == ("eip3009", DEVNET.name)


async def test_start_takes_a_single_request(lab):
    before = lab.rail.rpc.request_count
    await lab.rail.start()
    assert lab.rail.rpc.request_count - before == 1


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
    """It hashes routes without variant and deadline, so Florin cannot use it."""
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
        ({"address": "0x" + "12" * 20}, "is not a token"),
        ({"address": DEVNET.settler}, "is not a token"),
    ],
)
async def test_a_token_that_differs_is_disabled_with_a_sentence(lab, changes, words):
    token = make_asset(**changes)
    assets, (problem,) = await checked(lab, assets=(token,))
    assert assets == {}
    assert problem == f"{DEVNET.name}: tUSD at {token.address} {words}"


async def test_wrong_token_does_not_remove_a_valid_token(lab):
    wrong = make_asset(address="0x" + "12" * 20)
    assets, problems = await checked(lab, assets=(wrong, make_asset()))
    assert list(assets) == [TOKEN]
    assert len(problems) == 1


async def test_a_token_that_signs_for_another_domain_is_disabled(lab):
    def other_domain(params, answer):
        if params[0]["data"] == "0x3644e515":
            return answer | {"result": "0x" + "77" * 32}
        return answer

    lab.node.changes["eth_call"] = other_domain
    (problem,) = await lab.rail.list_problems()
    assert "signs for another domain" in problem
    assert lab.rail.assets == {}


async def test_a_token_that_hides_its_version_is_proven_by_its_domain(lab):
    def no_version(params, answer):
        if params[0]["data"] == "0x54fd4d50":
            return {"id": answer["id"], "error": {"code": 3, "message": "execution reverted"}}
        return answer

    lab.node.changes["eth_call"] = no_version
    assert await lab.rail.list_problems() == ()


async def test_a_relayer_without_coin_is_a_problem_but_no_hindrance(lab):
    rail = EvmRail(make_chain_settings(), EvmSigner(b"\x77" * 32), lab.node)
    await rail.start()
    assert await rail.list_problems() == ()
    (problem,) = await rail.relay.list_shortages()
    assert "too little coin to pay for gas" in problem.text
    assert problem.is_empty
    assert list(rail.assets) == [TOKEN]


@pytest.mark.parametrize(
    "change", [make_refusal(-32005, "limit exceeded"), make_reply(None), make_reply("x")]
)
@pytest.mark.parametrize("method", ["eth_chainId", "eth_getCode", "eth_call"])
async def test_chain_that_does_not_answer_keeps_its_assets(lab, method, change):
    lab.node.changes[method] = change
    (problem,) = await lab.rail.list_problems()
    assert problem.startswith(f"{DEVNET.name}: ")
    assert list(lab.rail.assets) == [TOKEN]
    with pytest.raises(RailUnavailable):
        await lab.rail.start()


async def test_a_chain_repaired_is_offered_again(lab):
    genuine = lab.node.changes
    lab.node.changes = {"eth_chainId": make_reply("0x1")}
    await lab.rail.list_problems()
    assert lab.rail.assets == {}
    lab.node.changes = genuine
    assert await lab.rail.list_problems() == ()
    assert list(lab.rail.assets) == [TOKEN]


def test_a_rail_needs_a_node():
    with pytest.raises(ValueError, match="neither a node's URL nor a transport"):
        EvmRail(make_chain_settings(), RELAYER)


async def test_a_token_that_contradicts_the_registry_is_left_out(lab, monkeypatch):
    token = NetworkToken("tUSD", "Test Dollar", DEVNET.euro.address, 6, "USD", "permit2")
    network = PublicNetwork(
        id="eip155:31337",
        name=DEVNET.name,
        live=False,
        coin=NetworkCoin("E", "E", 60),
        pace=NetworkPace(1, 10, 1),
        tokens=(token,),
        source="this test",
        checked_on="2026-11-26",
    )
    monkeypatch.setitem(registry.NETWORKS_BY_ID, network.id, network)
    assets, (problem,) = await checked(
        lab, assets=(make_asset(), make_euro_asset(symbol="tEUR", peg="USD"))
    )
    assert [asset.symbol for asset in assets.values()] == ["tEUR"]
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
