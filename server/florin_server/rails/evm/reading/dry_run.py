"""Dry runs: calls that run under the conditions of the transactions they stand for.

Code can distinguish a call from a transaction by gas price, sender and block. A dry run therefore
uses a relayer's address, the current fees, and the next block where the node supports it. It cannot
show the price and the randomness of the settlement's own block. The count of failures bounds that
risk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from florin_server.domain.chains.evm.abi import to_hex
from florin_server.rails.connection.jsonrpc import RpcCall, RpcError
from florin_server.rails.evm.reading.node import LATEST, EvmNode
from florin_server.rails.evm.sending.fees import RecentFeeCache, TransactionFees
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import RailUnavailable

PENDING = "pending"
# a node without a pending block is asked for it again after this
_PENDING_AGAIN_S = 60.0
# nodes' text if a sender cannot pay for the gas
_INSUFFICIENT_FUNDS = "insufficient funds"
# nodes' text if gas costs more by now
_FEE_TOO_LOW = "base fee"


@dataclass(frozen=True, slots=True)
class DryRun:
    """A call to try with a gas limit. Without `to` its data is code that runs and is not kept."""

    to: str | None
    data: bytes
    gas: int


DryRunRequest: TypeAlias = RpcCall | DryRun


class DryRunner:
    """Dry-run calls at a chain's node. `senders` pay for gas; `now` returns monotonic seconds."""

    def __init__(
        self,
        node: EvmNode,
        chain: EvmChainSettings,
        fees: RecentFeeCache,
        senders: Sequence[str],
        now: Callable[[], float],
    ) -> None:
        self._node = node
        self._chain = chain
        self.fees = fees
        self._senders = tuple(senders)
        self._now = now
        self._pending_from = now()

    async def lacks_gas(
        self, failed: DryRun, larger: DryRun, is_good: Callable[[Any], bool]
    ) -> bool:
        """Return whether a run that failed succeeds with more gas, and without it still fails.

        What it lacked may be there by now, such as the buyer's approval. Raise RailUnavailable.
        """
        (with_more,) = await self.run([larger])
        if not is_good(with_more):
            return False
        (again,) = await self.run([failed])
        return not is_good(again)

    async def run(self, requests: Sequence[DryRunRequest], sender: str | None = None) -> list[Any]:
        """Return a result or an RpcError for each request, in one payload if all goes well.

        With a `sender` the requests run as its transactions at current fees; without it the fees
        may be some seconds old. If a key lacks coin, the next key replaces it. Raise
        RailUnavailable if all keys lack coin.
        """
        if not any(isinstance(request, DryRun) for request in requests):
            return await self._node.batch(
                [request for request in requests if not isinstance(request, DryRun)]
            )
        keys = list(dict.fromkeys(key for key in (sender, *self._senders) if key is not None))
        fees = await (self.fees.get_recent() if sender is None else self.fees.get_current())
        tag = PENDING if self._now() >= self._pending_from else LATEST
        answers = await self._node.batch(
            [_build_call(request, keys[0], fees, tag) for request in requests]
        )
        renewed = False
        while refused := [
            at for at, request in enumerate(requests) if _is_refused(request, answers[at])
        ]:
            refusal_text = " ".join(answers[at].message.lower() for at in refused)
            if _INSUFFICIENT_FUNDS in refusal_text:
                del keys[0]
                if not keys:
                    raise RailUnavailable(
                        f"{self._chain.name}: no relayer has enough native coin for a dry run"
                    )
            elif _FEE_TOO_LOW in refusal_text and not renewed:
                self.fees.drop()
                fees, renewed = await self.fees.get_recent(), True
            elif tag == PENDING:
                tag = LATEST
            else:
                break
            again = await self._node.batch(
                [_build_call(requests[at], keys[0], fees, tag) for at in refused]
            )
            for at, new_answer in zip(refused, again, strict=True):
                answers[at] = new_answer
        if tag == LATEST and not refused and self._now() >= self._pending_from:
            self._pending_from = self._now() + _PENDING_AGAIN_S
        return answers


def _is_refused(request: DryRunRequest, answer: Any) -> bool:
    """Return True if the node did not run it; a contract's revert counts as an answer."""
    return isinstance(request, DryRun) and isinstance(answer, RpcError) and not answer.is_revert


def _build_call(request: DryRunRequest, sender: str, fees: TransactionFees, tag: str) -> RpcCall:
    if not isinstance(request, DryRun):
        return request
    target: Mapping[str, str] = {} if request.to is None else {"to": request.to}
    transaction = {
        **target,
        "from": sender,
        "data": to_hex(request.data),
        "gas": hex(request.gas),
        "maxFeePerGas": hex(fees.max_fee),
        "maxPriorityFeePerGas": hex(fees.tip),
    }
    return ("eth_call", (transaction, tag))
