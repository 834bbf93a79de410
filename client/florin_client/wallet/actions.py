"""What a wallet is asked to do, read from gRPC's messages and from REST's JSON alike."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from florin.v1.gateway_pb2 import Action, WalletRpcAction

# texts are skipped: brackets in them nest nothing
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_DEPTH_MAX = 100


class WalletError(Exception):
    """The wallet cannot do, or will not do, what it is asked for; the text says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call that a wallet executes: on a CAIP-2 chain, a method with its parameters."""

    chain_id: str
    method: str
    params: tuple[Any, ...]


# as they come: from gRPC, or from REST in either profile
AnyAction: TypeAlias = "Step | Action | WalletRpcAction | Mapping[str, Any]"


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Parse what a server or a node says; ValueError for what is no JSON, or nested too deeply.

    The parser of Python itself ends the process where another module raised the recursion limit.
    """
    written = text if isinstance(text, str) else text.decode()
    depth = deepest = 0
    for bracket in _BRACKETS.findall(written):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket, 0)
        deepest = max(deepest, depth)
    if deepest > _DEPTH_MAX:
        raise ValueError("JSON that is nested too deeply")
    return json.loads(written, **options)


def steps_of(actions: Iterable[AnyAction]) -> list[Step]:
    """The steps of an option; WalletError for a `build`, which has to be fetched first."""
    return [_step(action) for action in actions]


def _step(action: AnyAction) -> Step:
    if isinstance(action, Step):
        return action
    if isinstance(action, Action):
        kind = action.WhichOneof("kind")
        if kind != "wallet_rpc":
            raise WalletError(f"a {kind} action is fetched before it is executed")
        action = action.wallet_rpc
    if isinstance(action, WalletRpcAction):
        return _made(action.chain_id, action.method, action.params_json)
    try:
        kind, call = action["type"], action["data"]
        if kind != "walletRpc":
            raise WalletError(f"a {kind} action is fetched before it is executed")
        return _made(call["chain_id"], call["method"], call["params"])
    except (KeyError, TypeError) as error:
        raise WalletError(f"an action cannot be read ({type(error).__name__})") from None


def _made(chain_id: str, method: str, params: str | list[Any]) -> Step:
    try:
        parsed = parse_json(params) if isinstance(params, str) else params
    except ValueError:
        parsed = None
    if not isinstance(parsed, list):
        raise WalletError(f"the parameters of {method} are no array")
    return Step(chain_id, method, tuple(parsed))
