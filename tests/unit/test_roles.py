"""A rail is made of roles: a chain plays those that it has in full, and the others are None."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, get_type_hints

import pytest
from florin_server import rails
from florin_server.rails import provisioning, roles
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.protocol import Rail
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.sending.signer import SolanaSigner

from tests.support import evm_lab, solana_lab

FOLDER = Path(rails.__file__).parent
ROLES: dict[str, Any] = {
    name: one
    for module in (roles, provisioning)
    for name, one in vars(module).items()
    if inspect.isclass(one) and Protocol in one.__bases__
}
# what every chain has; the others are None where a chain has them not
ALWAYS = {"offers", "terms", "verifier", "relay", "observer", "nodes"}
ONLY_EVM = {"blocks", "direct", "account_nonces", "gas"}
ONLY_SOLANA = {"durable_nonces", "token_accounts", "treasury_history"}


class Nowhere:
    """A node that nobody asks."""

    async def send(self, payload: bytes) -> bytes:
        raise AssertionError(payload)

    async def close(self) -> None:
        pass


def members(protocol: Any) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


def role_of(name: str) -> Any:
    """The protocol of one of a rail's roles; None if that is something else."""
    getter = vars(Rail)[name]
    if not isinstance(getter, property) or getter.fget is None:
        return None
    told = get_type_hints(getter.fget)["return"]
    found = [one for one in getattr(told, "__args__", (told,)) if one in ROLES.values()]
    return found[0] if found else None


def evm(**changes: Any) -> EvmRail:
    treasury = Signer(b"\x74" * 32)
    return EvmRail(evm_lab.settings(**changes), evm_lab.RELAYER, Nowhere(), treasury=treasury)


def solana(**changes: Any) -> SolanaRail:
    treasury = SolanaSigner(b"\x74" * 32)
    return SolanaRail(
        solana_lab.settings(**changes), solana_lab.RELAYER, Nowhere(), treasury=treasury
    )


@pytest.mark.parametrize(
    ("make", "lacking"), [(evm, ONLY_SOLANA), (solana, ONLY_EVM)], ids=["evm", "solana"]
)
async def test_a_chain_plays_its_roles_in_full_and_has_no_others(make, lacking):
    rail = make()
    for name in members(Rail):
        role = role_of(name)
        if role is None:
            continue
        player = getattr(rail, name)
        assert (player is None) is (name in lacking), name
        if player is not None:
            assert members(role) <= set(dir(player)), name
    assert make(faucet=False).faucet is None
    assert make(faucet=True).faucet is not None


def test_every_role_is_one_of_a_rail_and_small_enough_to_be_asked_for_alone():
    played = {role_of(name): name for name in members(Rail)}
    played.pop(None)
    assert {one.__name__ for one in played} == ROLES.keys()
    assert set(played.values()) >= ALWAYS | ONLY_EVM | ONLY_SOLANA | {"payouts", "faucet"}
    assert {name: len(members(one)) for name, one in ROLES.items() if len(members(one)) > 8} == {}


def stubs(source: str) -> Iterator[str]:
    """Methods that say the same whatever they are asked."""
    for one in ast.walk(ast.parse(source)):
        if not isinstance(one, ast.ClassDef):
            continue
        for method in one.body:
            if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            match method.body:
                case [ast.Expr(), ast.Return(value=ast.Constant() | ast.List(elts=[]))]:
                    yield f"{one.name}.{method.name}"
                case [ast.Expr(), ast.Return(value=None | ast.Tuple(elts=[]))]:
                    yield f"{one.name}.{method.name}"


def test_a_method_that_says_the_same_whatever_it_is_asked_is_found():
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


def test_no_chain_has_a_method_for_what_it_does_not_do():
    found = [
        f"{path.relative_to(FOLDER)}: {name}"
        for kind in ("evm", "solana")
        for path in (FOLDER / kind / "rail.py", *sorted((FOLDER / kind).glob("*/*.py")))
        for name in stubs(path.read_text())
    ]
    assert found == []
