"""Calls that are tried as the transactions would run that they stand for.

Code can tell a question from a transaction by what gas costs, who sends, and which block it is in.
So a dry run is sent by a key of ours at the fees of now, in the block that comes next where the
node knows that one. What no dry run can show, a settlement may still meet: the price and the
randomness of the very block. That is bounded by counting what fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from florin_server.chains.evm.abi import data_of
from florin_server.rails.connection.jsonrpc import Call, RpcError
from florin_server.rails.evm.reading.node import LATEST, Node
from florin_server.rails.evm.sending.fees import Fees, RecentFees
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import RailUnavailable

PENDING = "pending"
# a node that did not know the next block is asked for it again after this
_PENDING_AGAIN_S = 60.0
# how nodes say that a sender could not pay for the gas
_POOR = "insufficient funds"
# ... and that gas costs more by now
_CHEAP = "base fee"


@dataclass(frozen=True, slots=True)
class DryRun:
    """A call to try with so much gas. Without `to` its data is code that is run and not kept."""

    to: str | None
    data: bytes
    gas: int


Asked: TypeAlias = Call | DryRun


class DryRuns:
    """Asks one chain's node. `senders` are keys that pay for gas; `now` tells monotonic seconds."""

    def __init__(
        self,
        node: Node,
        chain: EvmChain,
        fees: RecentFees,
        senders: Sequence[str],
        now: Callable[[], float],
    ) -> None:
        self._node = node
        self._chain = chain
        self.fees = fees
        self._senders = tuple(senders)
        self._now = now
        self._pending_from = now()

    async def ask(self, asked: Sequence[Asked], sender: str | None = None) -> list[Any]:
        """A result or an RpcError for each, in one payload if all goes well.

        With a `sender` they are tried as what it signs now; without one the fees may be some
        seconds old. A key that lacks coin cannot try anything: another one does it in its place.
        RailUnavailable if all do.
        """
        if not any(isinstance(one, DryRun) for one in asked):
            return await self._node.batch([one for one in asked if not isinstance(one, DryRun)])
        keys = list(dict.fromkeys(one for one in (sender, *self._senders) if one is not None))
        fees = await (self.fees.recent() if sender is None else self.fees.current())
        tag = PENDING if self._now() >= self._pending_from else LATEST
        answers = await self._node.batch([_call(one, keys[0], fees, tag) for one in asked])
        renewed = False
        while refused := [at for at, one in enumerate(asked) if _is_refused(one, answers[at])]:
            said = " ".join(answers[at].message.lower() for at in refused)
            if _POOR in said:
                del keys[0]
                if not keys:
                    raise RailUnavailable(
                        f"{self._chain.name}: no relayer has the coin to try a settlement"
                    )
            elif _CHEAP in said and not renewed:
                self.fees.drop()
                fees, renewed = await self.fees.recent(), True
            elif tag == PENDING:
                tag = LATEST
            else:
                break
            again = await self._node.batch([_call(asked[at], keys[0], fees, tag) for at in refused])
            for at, one in zip(refused, again, strict=True):
                answers[at] = one
        if tag == LATEST and not refused and self._now() >= self._pending_from:
            self._pending_from = self._now() + _PENDING_AGAIN_S
        return answers


def _is_refused(asked: Asked, answer: Any) -> bool:
    """True if the node did not try it; what a contract says is an answer."""
    return isinstance(asked, DryRun) and isinstance(answer, RpcError) and not answer.is_revert


def _call(asked: Asked, sender: str, fees: Fees, tag: str) -> Call:
    if not isinstance(asked, DryRun):
        return asked
    target: Mapping[str, str] = {} if asked.to is None else {"to": asked.to}
    transaction = {
        **target,
        "from": sender,
        "data": data_of(asked.data),
        "gas": hex(asked.gas),
        "maxFeePerGas": hex(fees.max_fee),
        "maxPriorityFeePerGas": hex(fees.tip),
    }
    return ("eth_call", (transaction, tag))
