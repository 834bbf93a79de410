"""What a wallet is asked to do, read from gRPC's messages and from REST's JSON alike."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from florin.v1.gateway_pb2 import Action, WalletRpcAction


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
    if action["type"] != "walletRpc":
        raise WalletError(f"a {action['type']} action is fetched before it is executed")
    call = action["data"]
    return _made(call["chain_id"], call["method"], call["params"])


def _made(chain_id: str, method: str, params: str | list[Any]) -> Step:
    read = json.loads(params) if isinstance(params, str) else params
    if not isinstance(read, list):
        raise WalletError(f"the parameters of {method} are no array")
    return Step(chain_id, method, tuple(read))
