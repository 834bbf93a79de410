"""The reasons why a token does not move a payment's money, read from the token itself.

The settlement contract hides some of a token's reasons, and a wallet with a valid signature must
not get a signature error. Each transfer of a payment is therefore tried alone, from the paying
account, without a signature. Refusals that concern more than that account are kept for the
operator.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from florin_server.domain.chains.evm import abi
from florin_server.domain.payments.payment import PaymentOption
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.paying.terms import (
    DIRECT_METHOD,
    ZERO_ADDRESS,
    EvmOptionTerms,
    to_address,
)
from florin_server.rails.evm.reading import guards
from florin_server.rails.evm.reading.guards import TokenGuard
from florin_server.rails.evm.reading.node import (
    EvmNode,
    build_call,
    parse_data,
    parse_returned,
    parse_uint,
)
from florin_server.rails.evm.reading.reverts import format_revert
from florin_server.rails.evm.sending.past_transactions import TRANSFER
from florin_server.rails.evm.sending.payouts import BALANCE_OF, is_transfer_accepted
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.token_refusal import RefusedParty
from florin_server.rails.types import Asset, RailUnavailable, Split

# How long a refused account is reported after the last refusal, and how many are reported at most:
# merchants choose their accounts, and may choose many that are refused.
_REPORTED_S: Final = 3600.0
_REPORTED_MAX: Final = 20
# how long an answer about a receiver is reused; wallets request options often
_RECEIVER_S: Final = 5.0
_CACHED_MAX: Final = 1000
# payments that do not settle are checked at intervals, a few of them at a time
_EXPLAINED_S: Final = 60.0
_EXPLAINED_MAX: Final = 5

_ROLES: Final = {
    RefusedParty.PAYER: "payer",
    RefusedParty.RECEIVER: "merchant's account",
    RefusedParty.OPERATOR: "operator's account",
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TokenRefusal:
    """A token's refusal. `account` is an address: the token's own if it refuses all accounts."""

    party: RefusedParty
    token: str
    account: str
    reason: str

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        if self.party is RefusedParty.EVERYBODY:
            return f"the token {self.token} is paused{reason}"
        return f"the token {self.token} refuses the {_ROLES[self.party]} {self.account}{reason}"


class TokenRefusals:
    """The refusals of one chain's tokens. `now` returns monotonic seconds."""

    def __init__(self, node: EvmNode, chain: EvmChainSettings, now: Callable[[], float]) -> None:
        self._node = node
        self._chain = chain
        self._now = now
        self._reported: OrderedDict[tuple[str, str], tuple[float, TokenRefusal]] = OrderedDict()
        self._receivers: OrderedDict[tuple[str, ...], tuple[float, TokenRefusal | None]] = (
            OrderedDict()
        )
        self._explained: OrderedDict[str, tuple[float, TokenRefusal | None]] = OrderedDict()

    async def find_refusal(self, option: PaymentOption) -> TokenRefusal | None:
        """Return the token's refusal of an option.

        None without refusal, or if the payer lacks funds.
        """
        terms, payer = EvmOptionTerms.from_option(option), to_address(option.payer)
        if terms.route.token == ZERO_ADDRESS:
            return None
        legs = [
            (RefusedParty.PAYER, payer, terms.route.settler, terms.route.value),
            (
                _get_receiver_party(settled=terms.settled),
                terms.route.dest,
                terms.route.dest,
                terms.route.value - terms.route.fee,
            ),
        ]
        if terms.route.fee:
            legs.append(
                (RefusedParty.OPERATOR, terms.route.fee_to, terms.route.fee_to, terms.route.fee)
            )
        balance, paused, *tried = await self._node.batch(
            [
                build_call(terms.route.token, BALANCE_OF + abi.encode_address(payer)),
                build_call(terms.route.token, guards.PAUSED_SELECTOR),
                *(
                    build_call(
                        terms.route.token,
                        TRANSFER + abi.encode_address(to) + abi.encode_uint256(value),
                        sender=payer,
                        gas=self._chain.payment_gas_max,
                    )
                    for _, _, to, value in legs
                ),
            ]
        )
        if parse_uint(balance) < terms.route.value:
            return None
        reasons = [_parse_refusal_reason(answer) for answer in tried]
        for (what, account, _, _), reason in zip(legs, reasons, strict=True):
            if reason is None:
                continue
            refusal = TokenRefusal(what, terms.route.token, account, reason)
            if what is RefusedParty.PAYER and _is_yes(paused):
                refusal = replace(refusal, party=RefusedParty.EVERYBODY, account=terms.route.token)
            elif what is RefusedParty.PAYER and None in reasons:
                # a payer that can pay others is not refused: the settlement contract is
                refusal = replace(refusal, party=RefusedParty.OPERATOR, account=terms.route.settler)
            return self._record_refusal(refusal, option.payment_id)
        return None

    async def find_receiver_refusal(
        self, asset: Asset, guard: TokenGuard, split: Split
    ) -> TokenRefusal | None:
        """Return which receiver of a split the token refuses, as far as it reports that."""
        if guard.blocklist_selector is None:
            return None
        places = [(_get_receiver_party(settled=split.settled), to_address(split.dest))]
        if split.fee_to is not None:
            places.append((RefusedParty.OPERATOR, to_address(split.fee_to)))
        key = (asset.address, *(account for _, account in places))
        cache_entry = self._receivers.get(key)
        if cache_entry is not None and self._now() - cache_entry[0] <= _RECEIVER_S:
            return cache_entry[1]
        calls = [
            build_call(asset.address, guard.blocklist_selector + abi.encode_address(address))
            for _, address in places
        ]
        refusal = None
        for (what, account), answer in zip(places, await self._node.batch(calls), strict=True):
            if _is_yes(answer):
                refusal = refusal or self._record_refusal(
                    TokenRefusal(what, asset.address, account, "")
                )
            else:
                self._reported.pop((asset.address, account), None)
        _cache(self._receivers, key, (self._now(), refusal))
        return refusal

    async def explain_items(self, items: Sequence[SettlementItem]) -> None:
        """Find out why payments do not settle now; do nothing if the chain does not answer."""
        now = self._now()
        new = [
            item
            for item in items
            if now - self._explained.get(item.payment.id, (now - _EXPLAINED_S, None))[0]
            >= _EXPLAINED_S
        ]
        explained_items = new[:_EXPLAINED_MAX]
        outcomes = await asyncio.gather(
            *(self.find_refusal(item.option) for item in explained_items), return_exceptions=True
        )
        for each_item, result in zip(explained_items, outcomes, strict=True):
            if not isinstance(result, BaseException):
                _cache(self._explained, each_item.payment.id, (now, result))
            elif not isinstance(result, RailUnavailable):
                raise result

    async def format_failure_reason(self, option: PaymentOption) -> str:
        """Return the suffix for the reason why a payment never settled; empty if none is known."""
        if option.method == DIRECT_METHOD:
            return ""
        _, refusal = self._explained.pop(option.payment_id, (0.0, None))
        if refusal is None:
            try:
                refusal = await self.find_refusal(option)
            except RailUnavailable:
                return ""
        return f"; {refusal}" if refusal else ""

    def list_problems(self) -> tuple[str, ...]:
        """Return the problems for the operator, one sentence each."""
        now = self._now()
        for key in [key for key, (at, _) in self._reported.items() if now - at > _REPORTED_S]:
            del self._reported[key]
        return tuple(f"{self._chain.name}: {refusal}" for _, refusal in self._reported.values())

    def _record_refusal(self, refusal: TokenRefusal, payment_id: str = "") -> TokenRefusal:
        """Log a refusal, and record it if it concerns a receiver.

        A refusal of a single buyer is not an alarm. A pause is detected whenever the token is
        checked.
        """
        key = refusal.token, refusal.account
        if payment_id:
            _log.warning("payment %s: %s", payment_id, refusal)
        if refusal.party not in {RefusedParty.RECEIVER, RefusedParty.OPERATOR}:
            return refusal
        if key not in self._reported:
            _log.error("%s: %s", self._chain.name, refusal)
        _cache(self._reported, key, (self._now(), refusal), _REPORTED_MAX)
        for places in [
            receiver
            for receiver in self._receivers
            if receiver[0] == key[0] and key[1] in receiver[1:]
        ]:
            del self._receivers[places]
        return refusal


def _get_receiver_party(*, settled: bool) -> RefusedParty:
    """Return the party that owns a destination."""
    return RefusedParty.RECEIVER if settled else RefusedParty.OPERATOR


def _cache(
    entries: OrderedDict[Any, Any], key: Any, value: Any, entries_max: int = _CACHED_MAX
) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > entries_max:
        entries.popitem(last=False)


def _parse_refusal_reason(answer: Any) -> str | None:
    """Return the reason of a failed transfer, which may be empty; None unless it clearly failed."""
    if isinstance(answer, RpcError):
        return format_revert(answer) if answer.is_revert else None
    try:
        return None if is_transfer_accepted(parse_data(answer)) else ""
    except RailUnavailable:
        return None


def _is_yes(answer: Any) -> bool:
    try:
        return guards.is_true(parse_returned(answer) or b"")
    except RailUnavailable:
        return False
