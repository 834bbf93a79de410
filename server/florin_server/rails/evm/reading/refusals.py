"""Why a token does not move a payment's money: asked of the token itself, without any signature.

The settlement contract hides some of a token's reasons, and a wallet that signed rightly must not
be told that it did not. So the transfers that a payment is made of are tried one by one, from the
account that pays. What concerns more than that account is remembered for the operator.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from florin_server.chains.evm import abi
from florin_server.domain.payments.payment import Option
from florin_server.domain.settlement.chain_txs import Accepted
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.paying.terms import DIRECT_METHOD, NOBODY, Terms, bare
from florin_server.rails.evm.reading import guards
from florin_server.rails.evm.reading.guards import Guard
from florin_server.rails.evm.reading.node import Node, call_to, data, returned, uint
from florin_server.rails.evm.reading.reverts import said
from florin_server.rails.evm.sending.past_transactions import TRANSFER
from florin_server.rails.evm.sending.payouts import BALANCE_OF, agreed
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.token_refusal import Refused
from florin_server.rails.types import Asset, RailUnavailable, Split

# A place that was refused is told for so long after the last time, and so many are told: merchants
# choose their places, and every one of them may choose some that are refused.
_TOLD_S: Final = 3600.0
_TOLD_MAX: Final = 20
# so long an answer about a receiver is used again; wallets ask for options again and again
_RECEIVER_S: Final = 5.0
_KEPT_MAX: Final = 1000
# payments that do not settle are asked about once in a while, some of them at a time
_EXPLAINED_S: Final = 60.0
_EXPLAINED_MAX: Final = 5

_ROLES: Final = {
    Refused.PAYER: "payer",
    Refused.RECEIVER: "merchant's account",
    Refused.OPERATOR: "operator's account",
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a token refuses. `account` is an address, the token's if it refuses everybody."""

    what: Refused
    token: str
    account: str
    said: str

    def __str__(self) -> str:
        reason = f": {self.said}" if self.said else ""
        if self.what is Refused.EVERYBODY:
            return f"the token {self.token} is paused{reason}"
        return f"the token {self.token} refuses the {_ROLES[self.what]} {self.account}{reason}"


class Refusals:
    """Those of one chain. `now` tells monotonic seconds."""

    def __init__(self, node: Node, chain: EvmChain, now: Callable[[], float]) -> None:
        self._node = node
        self._chain = chain
        self._now = now
        self._told: OrderedDict[tuple[str, str], tuple[float, Refusal]] = OrderedDict()
        self._receivers: OrderedDict[tuple[str, ...], tuple[float, Refusal | None]] = OrderedDict()
        self._explained: OrderedDict[str, tuple[float, Refusal | None]] = OrderedDict()

    async def why(self, option: Option) -> Refusal | None:
        """What the token refuses of an option; None if nothing, or if its payer lacks the money."""
        terms, payer = Terms.of(option), bare(option.payer)
        if terms.route.token == NOBODY:
            return None
        legs = [
            (Refused.PAYER, payer, terms.route.settler, terms.route.value),
            (
                _receiver(settled=terms.settled),
                terms.route.dest,
                terms.route.dest,
                terms.route.value - terms.route.fee,
            ),
        ]
        if terms.route.fee:
            legs.append((Refused.OPERATOR, terms.route.fee_to, terms.route.fee_to, terms.route.fee))
        balance, paused, *tried = await self._node.batch(
            [
                call_to(terms.route.token, BALANCE_OF + abi.address(payer)),
                call_to(terms.route.token, guards.PAUSED),
                *(
                    call_to(
                        terms.route.token,
                        TRANSFER + abi.address(to) + abi.number(value),
                        sender=payer,
                        gas=self._chain.payment_gas_max,
                    )
                    for _, _, to, value in legs
                ),
            ]
        )
        if uint(balance) < terms.route.value:
            return None
        reasons = [_refused(answer) for answer in tried]
        for (what, account, _, _), reason in zip(legs, reasons, strict=True):
            if reason is None:
                continue
            found = Refusal(what, terms.route.token, account, reason)
            if what is Refused.PAYER and _is_yes(paused):
                found = replace(found, what=Refused.EVERYBODY, account=terms.route.token)
            elif what is Refused.PAYER and None in reasons:
                # who can pay others is not refused: the settlement contract is
                found = replace(found, what=Refused.OPERATOR, account=terms.route.settler)
            return self._note(found, option.payment_id)
        return None

    async def receivers(self, asset: Asset, guard: Guard, split: Split) -> Refusal | None:
        """Which receiver of a split the token refuses, as far as it tells."""
        if guard.blocked is None:
            return None
        places = [(_receiver(settled=split.settled), bare(split.dest))]
        if split.fee_to is not None:
            places.append((Refused.OPERATOR, bare(split.fee_to)))
        key = (asset.address, *(account for _, account in places))
        known = self._receivers.get(key)
        if known is not None and self._now() - known[0] <= _RECEIVER_S:
            return known[1]
        asked = [call_to(asset.address, guard.blocked + abi.address(one)) for _, one in places]
        found = None
        for (what, account), answer in zip(places, await self._node.batch(asked), strict=True):
            if _is_yes(answer):
                found = found or self._note(Refusal(what, asset.address, account, ""))
            else:
                self._told.pop((asset.address, account), None)
        _keep(self._receivers, key, (self._now(), found))
        return found

    async def explain(self, items: Sequence[Accepted]) -> None:
        """Finds out about payments that do not settle now; the chain need not answer."""
        now = self._now()
        new = [
            one
            for one in items
            if now - self._explained.get(one.payment.id, (now - _EXPLAINED_S, None))[0]
            >= _EXPLAINED_S
        ]
        asked = new[:_EXPLAINED_MAX]
        told = await asyncio.gather(
            *(self.why(one.option) for one in asked), return_exceptions=True
        )
        for one, found in zip(asked, told, strict=True):
            if not isinstance(found, BaseException):
                _keep(self._explained, one.payment.id, (now, found))
            elif not isinstance(found, RailUnavailable):
                raise found

    async def at_the_end(self, option: Option) -> str:
        """What a reason ends with for which a payment never settled; empty if nothing is known."""
        if option.method == DIRECT_METHOD:
            return ""
        _, found = self._explained.pop(option.payment_id, (0.0, None))
        if found is None:
            try:
                found = await self.why(option)
            except RailUnavailable:
                return ""
        return f"; {found}" if found else ""

    def problems(self) -> tuple[str, ...]:
        """What the operator is told, one sentence each."""
        now = self._now()
        for key in [key for key, (at, _) in self._told.items() if now - at > _TOLD_S]:
            del self._told[key]
        return tuple(f"{self._chain.name}: {one}" for _, one in self._told.values())

    def _note(self, found: Refusal, payment_id: str = "") -> Refusal:
        """Tells of a refusal, and remembers it if it is a receiver's.

        What only one buyer cannot do is no alarm, and a pause is seen whenever the token is looked
        at.
        """
        key = found.token, found.account
        if payment_id:
            _log.warning("payment %s: %s", payment_id, found)
        if found.what not in {Refused.RECEIVER, Refused.OPERATOR}:
            return found
        if key not in self._told:
            _log.error("%s: %s", self._chain.name, found)
        _keep(self._told, key, (self._now(), found), _TOLD_MAX)
        for places in [one for one in self._receivers if one[0] == key[0] and key[1] in one[1:]]:
            del self._receivers[places]
        return found


def _receiver(*, settled: bool) -> Refused:
    """Whose account a destination is."""
    return Refused.RECEIVER if settled else Refused.OPERATOR


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any, most: int = _KEPT_MAX) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def _refused(answer: Any) -> str | None:
    """The reason of a transfer that failed, maybe none; None unless it surely failed."""
    if isinstance(answer, RpcError):
        return said(answer) if answer.is_revert else None
    try:
        return None if agreed(data(answer)) else ""
    except RailUnavailable:
        return None


def _is_yes(answer: Any) -> bool:
    try:
        return guards.is_true(returned(answer) or b"")
    except RailUnavailable:
        return False
