"""The actions of an option, parsed from gRPC messages and from REST JSON alike."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from florin.v1.gateway_pb2 import Action, WalletRpcAction

# texts are skipped: brackets inside them are not nesting
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_DEPTH_MAX = 100


class WalletError(Exception):
    """The wallet cannot execute an action, or refuses to; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call that a wallet executes: a method with its parameters, on a CAIP-2 chain."""

    chain_id: str
    method: str
    params: tuple[Any, ...]


# as received: from gRPC, or from REST in either profile
AnyAction: TypeAlias = "Step | Action | WalletRpcAction | Mapping[str, Any]"


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Parse JSON of a server or a node; raise ValueError if it is invalid, or nested too deeply.

    Python's own parser ends the process if another module raised the recursion limit.
    """
    written = text if isinstance(text, str) else text.decode()
    depth = deepest = 0
    for bracket in _BRACKETS.findall(written):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket, 0)
        deepest = max(deepest, depth)
    if deepest > _DEPTH_MAX:
        raise ValueError("the JSON is nested too deeply")
    return json.loads(written, **options)


def steps_of(actions: Iterable[AnyAction]) -> list[Step]:
    """Return the steps of an option.

    Raise WalletError for a `build`, which must be fetched first.
    """
    return [_to_step(action) for action in actions]


def _to_step(action: AnyAction) -> Step:
    if isinstance(action, Step):
        return action
    if isinstance(action, Action):
        kind = action.WhichOneof("kind")
        if kind != "wallet_rpc":
            raise WalletError(f"a {kind} action must be fetched before it is executed")
        action = action.wallet_rpc
    if isinstance(action, WalletRpcAction):
        return _build_step(action.chain_id, action.method, action.params_json)
    try:
        kind, call = action["type"], action["data"]
        if kind != "walletRpc":
            raise WalletError(f"a {kind} action must be fetched before it is executed")
        return _build_step(call["chain_id"], call["method"], call["params"])
    except (KeyError, TypeError) as error:
        raise WalletError(f"an action cannot be parsed ({type(error).__name__})") from None


def _build_step(chain_id: str, method: str, params: str | list[Any]) -> Step:
    try:
        parsed = parse_json(params) if isinstance(params, str) else params
    except ValueError:
        parsed = None
    if not isinstance(parsed, list):
        raise WalletError(f"the parameters of {method} are not an array")
    return Step(chain_id, method, tuple(parsed))
