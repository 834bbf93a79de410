"""Proof that a wallet's outputs pay their option, before the payment is bound to it.

The chain decides: the transaction is dry-run in the form to be sent, and the relayer must lose only
the fee and the rent of new accounts. The dry run carries no signature of the relayer, so that a
transaction that could be sent never exists before it is stored.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from solders.pubkey import Pubkey

from florin_server.domain.chains.solana import spl
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import PaymentOption, ResolvedBuild
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.connection.coalesce import RequestCoalescer
from florin_server.rails.connection.endpoints import FailoverRpc
from florin_server.rails.connection.jsonrpc import ChainRpc, RpcCall
from florin_server.rails.solana.paying.check import (
    IssuedMessage,
    PayerSignedMessage,
    build_output_refusal,
    check_submission,
    compute_highest_fee,
    find_issued_message,
)
from florin_server.rails.solana.paying.message import is_guard_at
from florin_server.rails.solana.paying.terms import SolanaOptionTerms, to_address
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    AccountView,
    SolanaNode,
    build_accounts_call,
    parse_account_view,
    parse_account_views,
    parse_number,
    parse_object,
    parse_slot,
    parse_value,
)
from florin_server.rails.solana.reading.receivers import is_frozen
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.token_refusal import RefusedParty, build_token_refusal
from florin_server.rails.types import RailUnavailable

# below this the relayer may be unable to pay for a transaction and its new accounts
RELAYER_LAMPORTS_MIN = 10_000_000
# other transactions of the relayer may land between two reads
_ATTEMPTS = 3
# the payer, which follows the relayer, would keep less than any account must hold
_PAYER_BELOW_RENT = {"InsufficientFundsForRent": {"account_index": 1}}
_UNKNOWN_BLOCKHASH = "BlockhashNotFound"
# errors of a transaction whose fee cannot be paid
_UNFUNDED_ERRORS = ("AccountNotFound", "InsufficientFundsForFee", "InvalidAccountForFee")


@dataclass(frozen=True, slots=True)
class _SimulatedTransaction:
    """A dry-run transaction, and the relevant accounts before and after it."""

    error: Any
    before: list[AccountView | None]
    after: list[AccountView | None]


class SolanaVerifier:
    """Implement the OutputVerifier protocol; concurrent requests share one batch of calls."""

    def __init__(
        self, node: SolanaNode, chain: SolanaChainSettings, relayer: Pubkey, endpoints: FailoverRpc
    ) -> None:
        self._node = node
        self._endpoints = endpoints
        self._chain = chain
        self._relayer = relayer
        self._ask: RequestCoalescer[Sequence[RpcCall], list[Any]] = RequestCoalescer(
            self._ask_together
        )

    def is_plausible(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        outputs: Sequence[str],
    ) -> bool | None:
        """Return True if the payer signed an issued message; no other account can pay."""
        try:
            check_submission(option, resolved_builds, outputs, self._chain)
        except ApiError:
            return False
        return True

    async def verify(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        outputs: Sequence[str],
    ) -> PayerKind:
        """Prove that the outputs (JSON texts) pay the option if submitted now."""
        submission = check_submission(option, resolved_builds, outputs, self._chain)
        await self.require_payable(
            option, submission, find_issued_message(submission.message, resolved_builds)
        )
        return PayerKind.KEY

    async def require_payable(
        self,
        option: PaymentOption,
        submission: PayerSignedMessage,
        issued_message: IssuedMessage | None = None,
    ) -> None:
        """Return if a checked submission would pay now; raise otherwise.

        Without its `issued_message`, a submission with a blockhash that no node knows counts as
        expired.
        """
        for _ in range(_ATTEMPTS):
            trial = await self._simulate(option, submission, self._ask)
            if trial.error == _UNKNOWN_BLOCKHASH:
                trial = await self._simulate_elsewhere(option, submission, issued_message)
            if trial.error is not None:
                raise self._build_error(option, submission, trial)
            if self._is_harmless(option, submission, trial):
                return
        raise RailUnavailable(f"{self._chain.name}: the relayer's balance does not add up")

    async def close(self) -> None:
        """Wait for the running batches."""
        await self._ask.close()

    async def _simulate_elsewhere(
        self,
        option: PaymentOption,
        submission: PayerSignedMessage,
        issued_message: IssuedMessage | None,
    ) -> _SimulatedTransaction:
        """Return the dry run of a node that knows the blockhash.

        A node that lags does not know it yet. The transaction has therefore expired only if every
        node that answers is past its end; the dry run then reports that. Raise RailUnavailable if
        some node may only lag.
        """

        async def ask(rpc: ChainRpc) -> tuple[_SimulatedTransaction, bool]:
            node = SolanaNode(rpc)
            trial = await self._simulate(option, submission, node.batch)
            if trial.error != _UNKNOWN_BLOCKHASH:
                return trial, False
            return trial, issued_message is None or await _has_lapsed(node, issued_message)

        opinions = await self._endpoints.ask_each(ask)
        for trial, _ in opinions:
            if trial.error != _UNKNOWN_BLOCKHASH:
                return trial
        if not opinions or not all(lapsed for _, lapsed in opinions):
            raise RailUnavailable(f"{self._chain.name}: no node knows the blockhash now")
        return opinions[0][0]

    async def _simulate(
        self,
        option: PaymentOption,
        submission: PayerSignedMessage,
        ask: Callable[[Sequence[RpcCall]], Awaitable[list[Any]]],
    ) -> _SimulatedTransaction:
        terms, payer = SolanaOptionTerms.from_option(option), to_address(option.payer)
        receivers = [terms.get_token_address(owner) for owner, _ in terms.list_shares()]
        keys = [self._relayer, terms.get_token_address(payer), *receivers]
        config = {
            "encoding": "base64",
            "commitment": FINALIZED,
            "accounts": {"encoding": "base64", "addresses": [str(key) for key in keys]},
        }
        wire = base64.b64encode(submission.unsigned_bytes).decode()
        before, tried = await ask(
            (build_accounts_call(keys), ("simulateTransaction", (wire, config)))
        )
        outcome = parse_object(parse_value(tried))
        if "err" not in outcome:
            raise RailUnavailable(f"{self._chain.name}: the node did not simulate the transaction")
        error, accounts = outcome["err"], outcome.get("accounts")
        after = []
        if error is None:
            if not isinstance(accounts, list) or len(accounts) != len(keys):
                raise RailUnavailable(f"{self._chain.name}: the node returned no accounts")
            after = [None if item is None else parse_account_view(item) for item in accounts]
        held = parse_account_views(before)
        if len(held) != len(keys):
            raise RailUnavailable(f"{self._chain.name}: the node left accounts out")
        return _SimulatedTransaction(error, held, after)

    def _is_harmless(
        self, option: PaymentOption, submission: PayerSignedMessage, trial: _SimulatedTransaction
    ) -> bool:
        """Return True if the relayer paid only fee and rent, and only the payer lost money."""
        terms = SolanaOptionTerms.from_option(option)
        lamports = [account.lamports if account else 0 for account in trial.before]
        left = [account.lamports if account else 0 for account in trial.after]
        if terms.is_coin:
            promised = terms.compute_changes(to_address(option.payer))
            gains = [
                (left[place], lamports[place] + promised[spl.parse_pubkey(owner)])
                for place, (owner, _) in enumerate(terms.list_shares(), 2)
            ]
            cheap = lamports[0] - left[0] <= compute_highest_fee(submission.message)
            return cheap and all(has >= due for has, due in gains)
        # the payer's own account stays unchanged, so only new accounts can have gained
        rent = sum(new - old for old, new in zip(lamports[2:], left[2:], strict=True))
        if lamports[0] - left[0] > compute_highest_fee(submission.message) + rent:
            return False
        receivers = zip(terms.list_shares(), trial.before[2:], trial.after[2:], strict=True)
        source = terms.get_token_address(to_address(option.payer))
        # a payer that is also a receiver loses what goes to others
        return all(
            _get_token_amount(new)
            >= _get_token_amount(old) - (option.value - own if place == source else 0)
            for (place, own), old, new in (
                ((terms.get_token_address(owner), share), old, new)
                for (owner, share), old, new in receivers
            )
        )

    def _build_error(
        self, option: PaymentOption, submission: PayerSignedMessage, trial: _SimulatedTransaction
    ) -> ApiError | RailUnavailable:
        """Return why a transaction would fail, as an error."""
        error, (relayer, source, *_) = trial.error, trial.before
        if error == _UNKNOWN_BLOCKHASH:
            return ApiError(ErrorCode.QUOTE_EXPIRED)
        if error in _UNFUNDED_ERRORS:
            return RailUnavailable(f"{self._chain.name}: the relayer cannot pay the fee")
        if SolanaOptionTerms.from_option(option).is_coin:
            short = source is None or source.lamports < option.value
            poor = short or error == _PAYER_BELOW_RENT
        else:
            poor = _get_token_amount(source) < option.value
        if poor:
            return build_output_refusal("insufficient_funds", "The account has insufficient funds")
        if relayer is None or relayer.lamports < RELAYER_LAMPORTS_MIN:
            return RailUnavailable(f"{self._chain.name}: the relayer cannot pay the rent")
        if not SolanaOptionTerms.from_option(option).is_coin and any(
            map(is_frozen, trial.before[1:])
        ):
            what = RefusedParty.PAYER if is_frozen(source) else RefusedParty.RECEIVER
            return build_token_refusal(what, "account is frozen")
        if _is_failed_guard(error, submission):
            text = "A guard that the wallet added to the transaction fails"
            return build_output_refusal("transaction_mismatch", text)
        return build_output_refusal("transaction_mismatch", "The transaction would fail")

    async def _ask_together(self, questions: Sequence[Sequence[RpcCall]]) -> list[list[Any]]:
        answers = iter(await self._node.batch([call for calls in questions for call in calls]))
        return [[next(answers) for _ in calls] for calls in questions]


async def _has_lapsed(node: SolanaNode, issued_message: IssuedMessage) -> bool:
    """Return True if no block after the node's newest block can include what was issued."""
    if issued_message.nonce is None:
        height = parse_number(await node.call("getBlockHeight", {"commitment": FINALIZED}))
        return issued_message.last_valid is not None and height > issued_message.last_valid
    answer, *_ = await node.batch([build_accounts_call([spl.parse_pubkey(issued_message.nonce)])])
    (account,) = parse_account_views(answer)
    held = None if account is None else spl.parse_nonce(account.data)
    # a node that lags may not have seen the issued value yet
    return parse_slot(answer) >= issued_message.slot and (
        held is None or held.value != issued_message.message.recent_blockhash
    )


def _is_failed_guard(error: Any, submission: PayerSignedMessage) -> bool:
    """Return True if a guard failed; `error` is in Solana's JSON form."""
    place = error.get("InstructionError") if isinstance(error, dict) else None
    if not isinstance(place, list) or not place or not isinstance(place[0], int):
        return False
    return is_guard_at(submission.message, place[0])


def _get_token_amount(account: AccountView | None) -> int:
    held = account.token_account if account else None
    return held.amount if held else 0
