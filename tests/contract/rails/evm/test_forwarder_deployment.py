"""The forwarder of payments to addresses is deployed only where its addresses are Florin's."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.app.chains.setup import load_forwarder_contract
from florin_server.base.clock import SystemClock
from florin_server.domain.chains.evm.abi import encode_address, to_hex
from florin_server.rails.connection.jsonrpc import JsonRpcClient
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.setup.deployment import (
    DEPLOYER_CODE,
    TRANSIENT_CODE,
    ContractDeployment,
    DeploymentFailed,
)
from florin_server.rails.evm.setup.forwarder import find_forwarder_fault

from tests.support.evm_harness import RELAYER, make_chain_settings, open_lab

FORWARDER = load_forwarder_contract()


@pytest.fixture
async def lab():
    lab = await open_lab()
    yield lab
    await lab.rail.close()
    await lab.chain.close()


def open_node(lab) -> EvmNode:
    return EvmNode(JsonRpcClient(lab.node))


def open_deployment(lab) -> ContractDeployment:
    chain = make_chain_settings()
    return ContractDeployment(open_node(lab), chain, RELAYER, FORWARDER, SystemClock())


async def test_forwarder_with_the_computed_addresses_is_usable(lab):
    fault = await find_forwarder_fault(open_node(lab), make_chain_settings(), DEVNET.forwarder)
    assert fault is None


@pytest.mark.parametrize("result", [to_hex(encode_address(DEVNET.settler)), "0x"])
async def test_forwarder_with_other_addresses_is_refused(lab, result):
    lab.node.changes = {
        "eth_call": lambda _, answer: {"jsonrpc": "2.0", "id": answer["id"], "result": result}
    }
    fault = await find_forwarder_fault(open_node(lab), make_chain_settings(), DEVNET.forwarder)
    assert f"the contract at {DEVNET.forwarder} gives payments other addresses" in (fault or "")


async def test_contract_without_addresses_is_refused(lab):
    fault = await find_forwarder_fault(open_node(lab), make_chain_settings(), DEVNET.settler)
    assert "do not use it" in (fault or "")


async def test_chain_that_creates_contracts_elsewhere_is_refused(lab):
    """The deployer of such a chain answers with the address that the chain would take."""

    def answer_otherwise(params, answer):
        assert params[0]["to"] == DEPLOYER
        return {"jsonrpc": "2.0", "id": answer["id"], "result": DEVNET.settler}

    lab.node.changes = {"eth_call": answer_otherwise}
    with pytest.raises(
        DeploymentFailed, match=f"does not create the contract at {FORWARDER.address}"
    ):
        await open_deployment(lab).require_common_address()


async def test_chain_without_the_deployer_has_no_common_address(lab):
    with pytest.raises(DeploymentFailed, match="Florin does not support it"):
        await open_deployment(lab).require_common_address()


async def test_chain_without_transient_storage_is_refused(lab):
    await open_deployment(lab).require_transient_storage()

    def refuse(params, answer):
        if params[0]["data"] != TRANSIENT_CODE and not refuses_all:
            return answer
        fault = {"code": -32000, "message": "EVM error: NotActivated"}
        return {"jsonrpc": "2.0", "id": answer["id"], "error": fault}

    lab.node.changes, refuses_all = {"eth_call": refuse}, True
    # such a node says nothing about the chain
    await open_deployment(lab).require_transient_storage()
    refuses_all = False
    with pytest.raises(DeploymentFailed, match=r"lacks transient storage \(EIP-1153"):
        await open_deployment(lab).require_transient_storage()


def test_deployer_is_the_one_whose_answer_is_an_address():
    # it returns the last 20 bytes of a word
    assert DEPLOYER_CODE.endswith(bytes.fromhex("6014600cf3"))
