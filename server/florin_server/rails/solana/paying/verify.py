"""Proving that what a wallet returned pays its option, before anything is bound to it.

The chain has the last word: the transaction is tried out as it would be sent, and the relayer must
lose nothing but the fee and the rent of accounts that it makes. The trial carries no signature of
the relayer: nobody gets a transaction that could be sent before it was written down.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Option, ResolvedBuild
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.connection.coalesce import Coalescer
from florin_server.rails.connection.endpoints import Endpoints
from florin_server.rails.connection.jsonrpc import Call, Rpc
from florin_server.rails.solana.paying.check import (
    IssuedMessage,
    Submission,
    check,
    highest_fee,
    issue_of,
    refused,
)
from florin_server.rails.solana.paying.message import guard_at
from florin_server.rails.solana.paying.terms import Terms, bare
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    AccountView,
    Node,
    account_view,
    account_views,
    accounts_call,
    number,
    record,
    slot_of,
    valued,
)
from florin_server.rails.solana.reading.receivers import is_frozen
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.token_refusal import Refused, token_refused
from florin_server.rails.types import RailUnavailable

# below this the relayer may be unable to pay for a transaction and the accounts that it makes
RELAYER_LAMPORTS_MIN = 10_000_000
# other transactions of the relayer may land between two reads
_ATTEMPTS = 3
# the payer, behind the relayer, would keep less than any account must hold
_PAYER_BELOW_RENT = {"InsufficientFundsForRent": {"account_index": 1}}
_UNKNOWN_BLOCKHASH = "BlockhashNotFound"
# errors of a transaction whose fee cannot be paid
_PENNILESS = ("AccountNotFound", "InsufficientFundsForFee", "InvalidAccountForFee")


@dataclass(frozen=True, slots=True)
class _Trial:
    """A transaction tried out, and the accounts that matter before and after it."""

    error: Any
    before: list[AccountView | None]
    after: list[AccountView | None]


class SolanaVerifier:
    """Implements the Verifier protocol; what arrives together shares one batch of calls."""

    def __init__(
        self, node: Node, chain: SolanaChain, relayer: Pubkey, endpoints: Endpoints
    ) -> None:
        self._node = node
        self._endpoints = endpoints
        self._chain = chain
        self._relayer = relayer
        self._ask: Coalescer[Sequence[Call], list[Any]] = Coalescer(self._ask_together)

    def plausible(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> bool | None:
        """True if the payer signed a message that was issued; nobody else can."""
        try:
            check(option, issued, outputs, self._chain)
        except FlorinError:
            return False
        return True

    async def verify(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> PayerKind:
        """Proves that the outputs (JSON texts) pay the option if submitted now."""
        found = check(option, issued, outputs, self._chain)
        await self.judge(option, found, issue_of(found.message, issued))
        return PayerKind.KEY

    async def judge(
        self, option: Option, found: Submission, issue: IssuedMessage | None = None
    ) -> None:
        """Return if a submission that was checked would pay now.

        Without its `issue`, one whose blockhash no node knows counts as lapsed.
        """
        for _ in range(_ATTEMPTS):
            trial = await self._tried(option, found, self._ask)
            if trial.error == _UNKNOWN_BLOCKHASH:
                trial = await self._tried_elsewhere(option, found, issue)
            if trial.error is not None:
                raise self._fault(option, found, trial)
            if self._loses_nothing(option, found, trial):
                return
        raise RailUnavailable(f"{self._chain.name}: the relayer's balance does not add up")

    async def close(self) -> None:
        """Waits for the batches under way."""
        await self._ask.close()

    async def _tried_elsewhere(
        self, option: Option, found: Submission, issue: IssuedMessage | None
    ) -> _Trial:
        """Return the trial of a node that knows the blockhash.

        A node that lags does not know it yet. So the transaction has lapsed only if every node that
        answers is past its end; the trial tells so. RailUnavailable if some node may just lag.
        """

        async def ask(rpc: Rpc) -> tuple[_Trial, bool]:
            node = Node(rpc)
            trial = await self._tried(option, found, node.batch)
            if trial.error != _UNKNOWN_BLOCKHASH:
                return trial, False
            return trial, issue is None or await _has_lapsed(node, issue)

        opinions = await self._endpoints.opinions(ask)
        for trial, _ in opinions:
            if trial.error != _UNKNOWN_BLOCKHASH:
                return trial
        if not opinions or not all(lapsed for _, lapsed in opinions):
            raise RailUnavailable(f"{self._chain.name}: no node knows the blockhash now")
        return opinions[0][0]

    async def _tried(
        self,
        option: Option,
        found: Submission,
        ask: Callable[[Sequence[Call]], Awaitable[list[Any]]],
    ) -> _Trial:
        terms, payer = Terms.of(option), bare(option.payer)
        receivers = [terms.place(owner) for owner, _ in terms.shares()]
        keys = [self._relayer, terms.place(payer), *receivers]
        config = {
            "encoding": "base64",
            "commitment": FINALIZED,
            "accounts": {"encoding": "base64", "addresses": [str(key) for key in keys]},
        }
        wire = base64.b64encode(found.unsigned).decode()
        before, tried = await ask((accounts_call(keys), ("simulateTransaction", (wire, config))))
        outcome = record(valued(tried))
        if "err" not in outcome:
            raise RailUnavailable(f"{self._chain.name}: the node did not try the transaction")
        error, told = outcome["err"], outcome.get("accounts")
        after = []
        if error is None:
            if not isinstance(told, list) or len(told) != len(keys):
                raise RailUnavailable(f"{self._chain.name}: the node told no accounts")
            after = [None if one is None else account_view(one) for one in told]
        held = account_views(before)
        if len(held) != len(keys):
            raise RailUnavailable(f"{self._chain.name}: the node left accounts out")
        return _Trial(error, held, after)

    def _loses_nothing(self, option: Option, found: Submission, trial: _Trial) -> bool:
        """True if the relayer paid the fee and rent only, and nobody lost money but the payer."""
        terms = Terms.of(option)
        lamports = [one.lamports if one else 0 for one in trial.before]
        left = [one.lamports if one else 0 for one in trial.after]
        if terms.is_coin:
            promised = terms.changes(bare(option.payer))
            gains = [
                (left[place], lamports[place] + promised[spl.pubkey(owner)])
                for place, (owner, _) in enumerate(terms.shares(), 2)
            ]
            cheap = lamports[0] - left[0] <= highest_fee(found.message)
            return cheap and all(has >= due for has, due in gains)
        # the payer's own account stays as it is, so only new accounts can have gained
        rent = sum(new - old for old, new in zip(lamports[2:], left[2:], strict=True))
        if lamports[0] - left[0] > highest_fee(found.message) + rent:
            return False
        receivers = zip(terms.shares(), trial.before[2:], trial.after[2:], strict=True)
        source = terms.place(bare(option.payer))
        # a payer that pays itself loses what goes to others
        return all(
            _tokens(new) >= _tokens(old) - (option.value - own if place == source else 0)
            for (place, own), old, new in (
                ((terms.place(owner), share), old, new) for (owner, share), old, new in receivers
            )
        )

    def _fault(
        self, option: Option, found: Submission, trial: _Trial
    ) -> FlorinError | RailUnavailable:
        """Why a transaction would fail, as an error."""
        error, (relayer, source, *_) = trial.error, trial.before
        if error == _UNKNOWN_BLOCKHASH:
            return FlorinError(Code.QUOTE_EXPIRED)
        if error in _PENNILESS:
            return RailUnavailable(f"{self._chain.name}: the relayer cannot pay the fee")
        if Terms.of(option).is_coin:
            short = source is None or source.lamports < option.value
            poor = short or error == _PAYER_BELOW_RENT
        else:
            poor = _tokens(source) < option.value
        if poor:
            return refused("insufficient_funds", "The account has insufficient funds")
        if relayer is None or relayer.lamports < RELAYER_LAMPORTS_MIN:
            return RailUnavailable(f"{self._chain.name}: the relayer cannot pay the rent")
        if not Terms.of(option).is_coin and any(map(is_frozen, trial.before[1:])):
            what = Refused.PAYER if is_frozen(source) else Refused.RECEIVER
            return token_refused(what, "account is frozen")
        if _is_failed_guard(error, found):
            text = "A guard that the wallet added to the transaction fails"
            return refused("transaction_mismatch", text)
        return refused("transaction_mismatch", "The transaction would fail")

    async def _ask_together(self, questions: Sequence[Sequence[Call]]) -> list[list[Any]]:
        answers = iter(await self._node.batch([call for calls in questions for call in calls]))
        return [[next(answers) for _ in calls] for calls in questions]


async def _has_lapsed(node: Node, issue: IssuedMessage) -> bool:
    """Return True if no block after those that a node knows can hold what was issued."""
    if issue.nonce is None:
        height = number(await node.ask("getBlockHeight", {"commitment": FINALIZED}))
        return issue.last_valid is not None and height > issue.last_valid
    answer, *_ = await node.batch([accounts_call([spl.pubkey(issue.nonce)])])
    (account,) = account_views(answer)
    held = None if account is None else spl.nonce_of(account.data)
    # a node that lags may not have seen the value yet that was handed out
    return slot_of(answer) >= issue.slot and (
        held is None or held.value != issue.message.recent_blockhash
    )


def _is_failed_guard(error: Any, found: Submission) -> bool:
    """Return True if it is a guard that failed: `error` is in Solana's JSON form."""
    place = error.get("InstructionError") if isinstance(error, dict) else None
    if not isinstance(place, list) or not place or not isinstance(place[0], int):
        return False
    return guard_at(found.message, place[0])


def _tokens(account: AccountView | None) -> int:
    held = account.tokens if account else None
    return held.amount if held else 0
