"""Test that a contract's revert text is never taken for a node's failure."""

from __future__ import annotations

import pytest
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.dialect import EvmNodeDialect

FAMILY = EvmNodeDialect("chain", 1, 3)
# texts of nodes that fail, which a contract could therefore imitate
WORDS = (
    "fatalexternalerror",
    "FatalExternalError: header not found",
    "missing trie node",
    "rate limit exceeded",
    "timeout, try again",
    "internal error",
)


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize(
    ("code", "before"),
    [
        (3, "execution reverted: "),  # geth, anvil
        (3, ""),
        (-32000, "execution reverted: "),  # erigon, besu
        (-32015, "VM execution error: "),  # nethermind
        (-32603, "VM Exception while processing transaction: reverted with reason string "),
    ],
)
def test_revert_is_not_a_node_fault(code: int, before: str, words: str):
    refusal = RpcError(code, before + words)
    assert refusal.is_revert
    assert not FAMILY.is_node_fault(refusal)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (-32603, "EVM error FatalExternalError"),
        (-32000, "header not found"),
        (-32603, "internal error"),
        (-32005, "limit exceeded"),
    ],
)
def test_internal_node_error_is_not_a_revert(code: int, message: str):
    refusal = RpcError(code, message)
    assert not refusal.is_revert
    assert FAMILY.is_node_fault(refusal)
