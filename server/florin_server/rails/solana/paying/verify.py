"""Proving that what a wallet returned pays its option, before anything is bound to it.

The chain has the last word: the transaction is tried out as it would be sent, and the relayer must
lose nothing but the fee and the rent of accounts that it makes. The trial carries no signature of
the relayer: nobody gets a transaction that could be sent before it was written down.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Option, ResolvedBuild
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.connection.coalesce import Coalescer
from florin_server.rails.connection.jsonrpc import Call
from florin_server.rails.solana.paying.check import Submission, check, refused
from florin_server.rails.solana.paying.terms import Terms, bare
from florin_server.rails.solana.reading.node import (
    CONFIRMED,
    AccountView,
    Node,
    account_view,
    account_views,
    accounts_call,
    record,
    valued,
)
from florin_server.rails.solana.reading.receivers import is_frozen
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.token_refusal import Refused, token_refused
from florin_server.rails.types import RailUnavailable

LAMPORTS_PER_SIGNATURE = 5_000
# below this the relayer may be unable to pay for a transaction and the accounts that it makes
RELAYER_LAMPORTS_MIN = 10_000_000
# other transactions of the relayer may land between two reads
_ATTEMPTS = 3
# the payer, behind the relayer, would keep less than any account must hold
_PAYER_BELOW_RENT = {"InsufficientFundsForRent": {"account_index": 1}}
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

    def __init__(self, node: Node, chain: SolanaChain, relayer: Pubkey) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer
        self._ask: Coalescer[Sequence[Call], list[Any]] = Coalescer(self._ask_together)

    def plausible(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> bool | None:
        """True if the payer signed a message that was issued; nobody else can."""
        try:
            check(option, issued, outputs, self._chain.compute_price_max)
        except FlorinError:
            return False
        return True

    async def verify(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> PayerKind:
        """Proves that the outputs (JSON texts) pay the option if submitted now."""
        found = check(option, issued, outputs, self._chain.compute_price_max)
        await self.judge(option, found)
        return PayerKind.KEY

    async def judge(self, option: Option, found: Submission) -> None:
        """Returns if a submission that was checked would pay now."""
        for _ in range(_ATTEMPTS):
            trial = await self._tried(option, found)
            if trial.error is not None:
                raise self._fault(option, trial)
            if self._loses_nothing(option, found, trial):
                return
        raise RailUnavailable(f"{self._chain.name}: the relayer's balance does not add up")

    async def close(self) -> None:
        """Waits for the batches under way."""
        await self._ask.close()

    async def _tried(self, option: Option, found: Submission) -> _Trial:
        terms, payer = Terms.of(option), bare(option.payer)
        receivers = [terms.place(owner) for owner, _ in terms.shares()]
        keys = [self._relayer, terms.place(payer), *receivers]
        config = {
            "encoding": "base64",
            "commitment": CONFIRMED,
            "accounts": {"encoding": "base64", "addresses": [str(key) for key in keys]},
        }
        wire = base64.b64encode(found.unsigned).decode()
        before, tried = await self._ask(
            (accounts_call(keys), ("simulateTransaction", (wire, config)))
        )
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
            cheap = lamports[0] - left[0] <= highest_fee(found)
            return cheap and all(has >= due for has, due in gains)
        # the payer's own account stays as it is, so only new accounts can have gained
        rent = sum(new - old for old, new in zip(lamports[2:], left[2:], strict=True))
        if lamports[0] - left[0] > highest_fee(found) + rent:
            return False
        receivers = zip(trial.before[2:], trial.after[2:], strict=True)
        return all(_tokens(new) >= _tokens(old) for old, new in receivers)

    def _fault(self, option: Option, trial: _Trial) -> FlorinError | RailUnavailable:
        """Why a transaction would fail, as an error."""
        error, (relayer, source, *_) = trial.error, trial.before
        if error == "BlockhashNotFound":
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
        return refused("transaction_mismatch", "The transaction would fail")

    async def _ask_together(self, questions: Sequence[Sequence[Call]]) -> list[list[Any]]:
        answers = iter(await self._node.batch([call for calls in questions for call in calls]))
        return [[next(answers) for _ in calls] for calls in questions]


def highest_fee(found: Submission) -> int:
    """What a transaction may cost whoever pays its fee, in lamports."""
    keys, units, price = found.message.account_keys, 0, 0
    for one in found.message.instructions:
        if keys[one.program_id_index] != spl.COMPUTE_BUDGET:
            continue
        data = bytes(one.data)
        if data[:1] == spl.COMPUTE_UNIT_PRICE:
            (price,) = struct.unpack("<Q", data[1:])
        else:
            (units,) = struct.unpack("<I", data[1:])
    signatures = found.message.header.num_required_signatures
    return LAMPORTS_PER_SIGNATURE * signatures - (-units * price // 1_000_000)


def _tokens(account: AccountView | None) -> int:
    held = account.tokens if account else None
    return held.amount if held else 0
