"""Test the roles of a rail: a chain has each role in full, or None."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server import rails
from florin_server.rails.evm.forwarder_settings import ForwarderSettings
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.protocol import Rail
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner

from tests.support import evm_harness, solana_rail_harness
from tests.support.rail_roles import ROLES, find_role, list_members

FOLDER = Path(rails.__file__).parent
# roles of every chain; the others are None on chains without them
ALWAYS = {"offers", "terms", "verifier", "relay", "observer", "nodes"}
ONLY_EVM = {
    "blocks",
    "direct_settlement",
    "addresses",
    "deposits",
    "sweeper",
    "account_nonces",
    "gas",
}
FORWARDER = ForwarderSettings(address=DEVNET.forwarder)
ONLY_SOLANA = {
    "durable_nonces",
    "token_accounts",
    "transaction_requests",
    "transfer_requests",
    "treasury_history",
}


class Nowhere:
    """A node that is never called."""

    async def send(self, payload: bytes) -> bytes:
        raise AssertionError(payload)

    async def close(self) -> None:
        pass


def evm(**changes: Any) -> EvmRail:
    treasury = EvmSigner(b"\x74" * 32)
    return EvmRail(
        evm_harness.make_chain_settings(**{"forwarder": FORWARDER, **changes}),
        evm_harness.RELAYER,
        Nowhere(),
        treasury=treasury,
    )


def solana(**changes: Any) -> SolanaRail:
    treasury = SolanaSigner(b"\x74" * 32)
    return SolanaRail(
        solana_rail_harness.make_chain_settings(**changes),
        solana_rail_harness.RELAYER,
        Nowhere(),
        treasury=treasury,
    )


@pytest.mark.parametrize(
    ("make", "lacking"), [(evm, ONLY_SOLANA), (solana, ONLY_EVM)], ids=["evm", "solana"]
)
async def test_chain_implements_each_role_fully_or_not_at_all(make, lacking):
    rail = make()
    for name in list_members(Rail):
        role = find_role(name)
        if role is None:
            continue
        player = getattr(rail, name)
        assert (player is None) is (name in lacking), name
        if player is not None:
            assert list_members(role) <= set(dir(player)), name
    assert make(faucet=False).faucet is None
    assert make(faucet=True).faucet is not None


def test_every_role_belongs_to_a_rail_and_is_small():
    played = {find_role(name): name for name in list_members(Rail)}
    played.pop(None)
    assert {item.__name__ for item in played} == ROLES.keys()
    assert set(played.values()) >= ALWAYS | ONLY_EVM | ONLY_SOLANA | {"payouts", "faucet"}
    assert {
        name: len(list_members(item)) for name, item in ROLES.items() if len(list_members(item)) > 8
    } == {}


def stubs(source: str) -> Iterator[str]:
    """Yield methods that return the same for any arguments."""
    for each_ast in ast.walk(ast.parse(source)):
        if not isinstance(each_ast, ast.ClassDef):
            continue
        for method in each_ast.body:
            if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            match method.body:
                case [ast.Expr(), ast.Return(value=ast.Constant() | ast.List(elts=[]))]:
                    yield f"{each_ast.name}.{method.name}"
                case [ast.Expr(), ast.Return(value=None | ast.Tuple(elts=[]))]:
                    yield f"{each_ast.name}.{method.name}"


def test_stub_method_is_detected():
    source = '''
class Rail:
    async def shortages(self):
        """Nothing."""
        return ()

    def nonces(self):
        """None."""
        return None

    def head(self):
        """The head."""
        return self._head
'''
    assert list(stubs(source)) == ["Rail.shortages", "Rail.nonces"]


def test_no_chain_has_a_stub_method():
    results = [
        f"{path.relative_to(FOLDER)}: {name}"
        for kind in ("evm", "solana")
        for path in (FOLDER / kind / "rail.py", *sorted((FOLDER / kind).glob("*/*.py")))
        for name in stubs(path.read_text())
    ]
    assert results == []
