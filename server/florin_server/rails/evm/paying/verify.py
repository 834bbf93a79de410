"""Proof that a wallet's outputs pay their option, before the payment is bound to it.

The message is rebuilt from the stored terms and never read from the wallet. A signature by another
key, or for another amount, chain or payment, is therefore another signer's. The token decides: the
call that would settle runs against the newest block, for all payments of one moment together.
Payments that do not settle there run again alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.typed_data import PERMIT2, get_digest
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import PaymentOption
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.connection.jsonrpc import AnswerTooLarge, RpcCall, RpcError
from florin_server.rails.connection.node import require_result
from florin_server.rails.evm.paying import erc6492
from florin_server.rails.evm.paying.erc6492 import is_wrapped
from florin_server.rails.evm.paying.mismatches import SignatureMismatches
from florin_server.rails.evm.paying.outputs import build_output_refusal, parse_signature
from florin_server.rails.evm.paying.terms import (
    PERMIT2_METHOD,
    EvmOptionTerms,
    SignatureProof,
    build_proof,
    to_address,
)
from florin_server.rails.evm.reading.dry_run import DryRun, DryRunner, DryRunRequest
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    build_call,
    parse_data,
    parse_object,
    parse_quantity,
    parse_uint,
)
from florin_server.rails.evm.reading.reader import EvmReader
from florin_server.rails.evm.reading.refusals import TokenRefusals
from florin_server.rails.evm.reading.reverts import format_revert
from florin_server.rails.evm.sending.fees import OPEN_GAS, compute_dry_run_gas
from florin_server.rails.evm.sending.gas_learner import GasLearner
from florin_server.rails.evm.sending.submission import (
    SubmissionItem,
    build_item,
    build_plain_item,
    build_settlement_call,
)
from florin_server.rails.evm.sending.trial import PaymentTrials
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.token_refusal import build_token_refusal
from florin_server.rails.types import RailUnavailable

ALLOWANCE = abi.encode_selector("allowance(address,address)")
BALANCE_OF = abi.encode_selector("balanceOf(address)")
IS_VALID_SIGNATURE = abi.encode_selector("isValidSignature(bytes32,bytes)")

# more gas for the second attempt of a dry run that may have lacked only gas
_GAS_FACTOR = 4
# the revert of the settlement contract if it cannot forward what the token moved to it
_TRANSFER_FAILED = "TransferFailed"


@dataclass(frozen=True, slots=True)
class _VerifiedTrial:
    """The result of a trial; `other_spending` is None if the payment does not settle now.

    Otherwise `other_spending` is what the account spends on other payments that settled with it,
    if it may not have enough for all. `refusal` is the revert of its trial alone.
    """

    kind: PayerKind
    other_spending: int | None
    refusal: RpcError | None = None


class SignatureVerifier:
    """Verify signatures for one chain; concurrent requests share one batch of calls."""

    def __init__(  # noqa: PLR0917  (each of another type)
        self,
        node: EvmNode,
        chain: EvmChainSettings,
        runs: DryRunner,
        reader: EvmReader,
        refusals: TokenRefusals,
        mismatches: SignatureMismatches,
        *,
        learner: GasLearner,
    ) -> None:
        self._learner = learner
        self._shares = learner.shares
        self._chain = chain
        self._mismatches = mismatches
        self._refusals = refusals
        self._trials = PaymentTrials(node, chain, runs, reader, learner.shares)
        self._ask = self._trials.ask_calls

    async def verify(self, option: PaymentOption, outputs: Sequence[str]) -> PayerKind:
        """Return the payer's kind if the outputs pay now.

        Raise what the OutputVerifier protocol documents.
        """
        terms = EvmOptionTerms.from_option(option)
        payer = to_address(option.payer)
        if terms.route.settler != self._chain.settler:
            # the operator changed contracts; the buyer gets new options with the new contract
            raise ApiError(ErrorCode.QUOTE_EXPIRED)
        signature = parse_signature(option, outputs)
        tried = await self._try_with_enough(terms, payer, signature)
        if tried.other_spending != 0:
            # the buyer's approval may not be in a block yet; only the chain can show that, later
            approves = bool(terms.approvals)
            try:
                await self._require_settling(option, tried, signature, approves=approves)
            except ApiError:
                if tried.other_spending is not None:
                    # the account cannot pay all that it signed, each of which settles alone
                    raise
                # tokens or the approval may have come into a block since the trial
                again = await self._try_with_enough(terms, payer, signature)
                if again.other_spending != 0:
                    raise
                return again.kind
        return tried.kind

    async def _try_with_enough(
        self, terms: EvmOptionTerms, payer: str, signature: bytes
    ) -> _VerifiedTrial:
        """Try a payment; try once more if payments get more gas by then."""
        submission_item = build_item(self._chain, terms, payer, signature, self._shares)
        before = replace(self._shares, gas_by_token=dict(self._shares.gas_by_token))
        try:
            tried = await self._try_signature(terms, payer, signature)
        except ApiError:
            # for an account with code, or one to be created, only the chain's gas prices matter
            if not await self._learner.learn_gas([submission_item.to_contract_item(before)]):
                raise
            return await self._try_signature(terms, payer, signature)
        if tried.kind is not PayerKind.KEY:
            submission_item = submission_item.to_contract_item(before)
        if tried.other_spending is None and await self._learner.learn_gas([submission_item]):
            return await self._try_signature(terms, payer, signature)
        return tried

    async def _try_signature(
        self, terms: EvmOptionTerms, payer: str, signature: bytes
    ) -> _VerifiedTrial:
        digest = get_digest(terms.build_message(payer))
        if terms.permit is not None:
            return await self._try_permitted(terms, payer, signature)
        if is_wrapped(signature):
            return await self._try_uncreated(terms, payer, digest, signature)
        return await self._try_existing(terms, payer, digest, build_proof(digest, payer, signature))

    async def close(self) -> None:
        """Wait for the running batches."""
        await self._trials.close()

    async def _try_existing(
        self, terms: EvmOptionTerms, payer: str, digest: bytes, proof: SignatureProof
    ) -> _VerifiedTrial:
        """Try a payment with a signature of the account in its current state."""
        submission_item = build_plain_item(self._chain, terms, payer, proof, self._shares)
        if not proof.is_key_signature:
            # a signature by another key is dry-run only if the payer has code
            (code,) = await self._ask(("eth_getCode", (payer, LATEST)))
            if not parse_data(code):
                raise build_output_refusal(
                    "signature_mismatch", "The signature is not the account's"
                )
            return await self._try_with_code(submission_item, digest)
        tried = await self._trials.try_payment(submission_item)
        if tried.has_code is None:
            raise RailUnavailable(f"{self._chain.name}: the node does not return the payer's code")
        if tried.has_code:
            return await self._try_with_code(submission_item, digest)
        if tried.is_settled:
            return _VerifiedTrial(PayerKind.KEY, 0)
        (outcome,) = await self._ask_separately(self._trials.build_single_trial(submission_item))
        if self._parse_returned(outcome) is None:
            return _VerifiedTrial(PayerKind.KEY, None, outcome)
        return _VerifiedTrial(PayerKind.KEY, tried.other_spending)

    async def _try_permitted(
        self, terms: EvmOptionTerms, payer: str, signature: bytes
    ) -> _VerifiedTrial:
        """Try a payment whose payer approves by signature in the same transaction."""
        submission_item = build_item(self._chain, terms, payer, signature, self._shares)
        if not submission_item.is_key_signature:
            raise build_output_refusal("signature_mismatch", "The signature is not the account's")
        tried = await self._trials.try_payment(submission_item)
        if tried.has_code is None:
            raise RailUnavailable(f"{self._chain.name}: the node does not return the payer's code")
        if tried.has_code or self._chain.opener is None:
            # the account signs in another way by now, or nothing submits its approval any more
            raise ApiError(ErrorCode.QUOTE_EXPIRED)
        if tried.is_settled:
            return _VerifiedTrial(PayerKind.KEY, 0)
        (outcome,) = await self._ask_separately(self._build_settlement_run(submission_item))
        settles = self._parse_returned(outcome) == abi.encode_uint256(1)
        return _VerifiedTrial(PayerKind.KEY, tried.other_spending if settles else None)

    async def _try_with_code(
        self, submission_item: SubmissionItem, digest: bytes
    ) -> _VerifiedTrial:
        """Try a payment of a payer with code, which must accept the signature as well."""
        pay = submission_item.arguments
        submission_item = submission_item.to_contract_item(self._shares)
        alone = self._trials.build_single_trial(submission_item)
        verdict, outcome = await self._ask_separately(
            build_wallet_check(pay.payer, digest, pay.signature), alone
        )
        accepts, settles = _is_accepted(verdict), self._parse_returned(outcome) is not None
        if accepts and settles:
            return _VerifiedTrial(PayerKind.CODE, 0)
        # a wallet that refuses with a reason had enough gas
        if (accepts or not _is_refused(verdict)) and await self._is_short_of_gas(alone):
            message = f"The account needs more gas for its signature than the limit of {pay.gas}"
            raise build_output_refusal("gas_limit", f"{message}; it can send the payment itself")
        if not accepts:
            self._mismatches.record_mismatch(pay.payer)
            raise build_output_refusal(
                "signature_mismatch", "The account does not accept the signature"
            )
        return _VerifiedTrial(PayerKind.CODE, None, outcome)

    async def _is_short_of_gas(self, alone: DryRun) -> bool:
        """Return True if a failed trial would succeed with more gas."""
        return await self._lacks_gas(
            alone,
            replace(alone, gas=_GAS_FACTOR * alone.gas),
            lambda outcome: self._parse_returned(outcome) is not None,
        )

    async def _lacks_gas(
        self, failed: DryRun, larger: DryRun, is_good: Callable[[Any], bool]
    ) -> bool:
        """Return whether a run fails for lack of gas, as far as the node can tell."""
        try:
            return await self._trials.lacks_gas(failed, larger, is_good)
        except AnswerTooLarge:
            raise _build_size_refusal() from None
        except RailUnavailable:
            # a relayer may have the coin for a payment, but not for this much gas
            return False

    async def _try_uncreated(
        self, terms: EvmOptionTerms, payer: str, digest: bytes, signature: bytes
    ) -> _VerifiedTrial:
        """Try a payment whose signature carries the creation of its account (ERC-6492).

        If the account exists by now, its creation does not matter.
        """
        wrapped = erc6492.unwrap(signature)
        if wrapped is None:
            raise build_output_refusal(
                "unreadable_output", "The output is not an ERC-6492 signature"
            )
        submission_item = build_item(self._chain, terms, payer, signature, self._shares)
        if submission_item.creation is None:
            (code,) = await self._ask(("eth_getCode", (payer, LATEST)))
            if parse_data(code):
                proven = SignatureProof(wrapped.signature, is_key_signature=False)
                return await self._try_existing(terms, payer, digest, proven)
            # the signature may be valid: this chain does not accept its form
            raise build_output_refusal(
                "unreadable_output", erc6492.format_factory_refusal(self._chain)
            )
        settlement = self._build_settlement_run(submission_item)
        probe = erc6492.build_probe(payer, wrapped, digest)
        verdict, outcome = await self._ask_separately(probe, settlement)
        uint = parse_uint(verdict)
        if uint == erc6492.ABSENT:
            if await self._opens_with_more_gas(payer, wrapped, digest):
                message = f"Creating the account needs more gas than the limit of {OPEN_GAS}"
                raise build_output_refusal(
                    "gas_limit", f"{message}: create the account first, and sign again"
                )
            raise build_output_refusal(
                "signature_mismatch", "The factory does not create the account"
            )
        if uint != erc6492.ACCEPTS:
            raise build_output_refusal(
                "signature_mismatch", "The account does not accept the signature"
            )
        if self._parse_returned(outcome) == abi.encode_uint256(1):
            return _VerifiedTrial(PayerKind.UNBORN, 0)
        if await self._settles_with_more_gas(submission_item):
            message = (
                f"The payment needs more gas than the limit of {submission_item.arguments.gas}"
            )
            raise build_output_refusal(
                "gas_limit", f"{message}: create the account, which can send it itself"
            )
        return _VerifiedTrial(PayerKind.UNBORN, None)

    async def _settles_with_more_gas(self, submission_item: SubmissionItem) -> bool:
        """Return whether a payment that creates its account would settle with more gas."""
        larger_item = replace(
            submission_item,
            arguments=replace(
                submission_item.arguments, gas=_GAS_FACTOR * submission_item.arguments.gas
            ),
        )
        return await self._lacks_gas(
            self._build_settlement_run(submission_item),
            self._build_settlement_run(larger_item),
            lambda outcome: self._parse_returned(outcome) == abi.encode_uint256(1),
        )

    def _build_settlement_run(self, submission_item: SubmissionItem) -> DryRun:
        """Build the dry run of a settlement of one payment."""
        sent = build_settlement_call(self._chain, [submission_item], self._shares)
        return DryRun(sent.to, sent.data, sent.gas)

    async def _opens_with_more_gas(
        self, payer: str, wrapped: erc6492.WrappedSignature, digest: bytes
    ) -> bool:
        """Return whether more gas would create the account, for example one of many owners."""
        return await self._lacks_gas(
            erc6492.build_probe(payer, wrapped, digest),
            erc6492.build_probe(payer, wrapped, digest, _GAS_FACTOR * OPEN_GAS),
            lambda verdict: parse_uint(verdict) == erc6492.ACCEPTS,
        )

    async def _ask_separately(self, *calls: DryRunRequest) -> list[Any]:
        """Send calls that an account with code may answer, in a payload without other requests."""
        try:
            return await self._trials.ask_separately(*calls)
        except AnswerTooLarge:
            raise _build_size_refusal() from None

    def _parse_returned(self, outcome: Any) -> bytes | None:
        """Return the result of a dry run; None if it reverted."""
        if not isinstance(outcome, RpcError):
            return parse_data(outcome)
        if outcome.is_revert:
            return None
        raise RailUnavailable(f"{self._chain.name}: {outcome}")

    async def _require_settling(
        self, option: PaymentOption, trial: _VerifiedTrial, signature: bytes, *, approves: bool
    ) -> None:
        """Raise why a payment would not settle, unless only an approval may be missing.

        A payment that settles alone, but not together with others that spend `other_spending`, is
        refused only if the account cannot pay all of them.
        """
        terms, payer, other_spending = (
            EvmOptionTerms.from_option(option),
            to_address(option.payer),
            trial.other_spending,
        )
        questions = [build_call(terms.route.token, BALANCE_OF + abi.encode_address(payer))]
        if terms.method == PERMIT2_METHOD:
            questions.append(build_allowance_call(terms.route.token, payer, PERMIT2))
        balance, *allowance = await self._ask(*questions)
        required_value = terms.route.value + (other_spending or 0)
        if parse_uint(balance) < required_value:
            raise build_output_refusal("insufficient_funds", "The account has insufficient funds")
        if other_spending is None and await self._is_expired(terms):
            message = "The authorization has expired by the chain's time"
            raise build_output_refusal("authorization_expired", message)
        if other_spending is None and trial.kind is PayerKind.KEY:
            submission_item = build_item(self._chain, terms, payer, signature, self._shares)
            if await self._learner.is_above_ceiling(submission_item):
                message = f"The payment needs more gas than the limit of {self._shares.ceiling}"
                raise build_output_refusal("gas_limit", message)
        if (
            other_spending is None
            and (refusal := await self._refusals.find_refusal(option)) is not None
        ):
            raise build_token_refusal(refusal.party, refusal.reason)
        if allowance and parse_uint(allowance[0]) < required_value:
            if approves:
                return
            raise build_output_refusal(
                "insufficient_funds", "The account has insufficient allowance"
            )
        if other_spending is None:
            reverted = format_revert(trial.refusal) if trial.refusal is not None else ""
            if reverted == _TRANSFER_FAILED:
                # the token accepted the signature, and its transfers succeed alone
                message = "The token delivers less than it was asked to move"
                raise build_output_refusal("token_takes_fee", message, revert=reverted)
            message = "The token does not accept the signature"
            raise build_output_refusal(
                "signature_mismatch", message, **({"revert": reverted} if reverted else {})
            )

    async def _is_expired(self, terms: EvmOptionTerms) -> bool:
        """Return whether the newest block is past the signed deadline, regardless of our clock."""
        (block,) = await self._ask(("eth_getBlockByNumber", (LATEST, False)))
        try:
            header = parse_object(require_result(block))
            return (
                header is not None and parse_quantity(header.get("timestamp")) > terms.last_second
            )
        except RailUnavailable:
            return False


def is_plausible(option: PaymentOption, outputs: Sequence[str]) -> bool | None:
    """Return True if the payer's key signed it; None if the payer's contract may accept it."""
    try:
        signature = parse_signature(option, outputs)
    except ApiError:
        return False
    payer, terms = to_address(option.payer), EvmOptionTerms.from_option(option)
    if terms.permit is not None and (wrapped := erc6492.unwrap(signature)) is not None:
        signature = wrapped.signature
    if is_wrapped(signature):
        return None
    digest = get_digest(terms.build_message(payer))
    return build_proof(digest, payer, signature).is_key_signature or None


def build_allowance_call(token: str, payer: str, spender: str) -> RpcCall:
    """Build the call that reads how much of a token a contract can move for an account."""
    return build_call(token, ALLOWANCE + abi.encode_address(payer) + abi.encode_address(spender))


def build_wallet_check(payer: str, digest: bytes, signature: bytes) -> DryRun:
    """Build the ERC-1271 call as a token makes it."""
    question = encode_wallet_check(digest, signature)
    return DryRun(payer, question, compute_dry_run_gas(question))


def encode_wallet_check(digest: bytes, signature: bytes) -> bytes:
    """Encode the ERC-1271 call as bytes."""
    return (
        IS_VALID_SIGNATURE + digest + abi.encode_uint256(2 * abi.WORD) + abi.encode_bytes(signature)
    )


def _build_size_refusal() -> ApiError:
    return build_output_refusal("signature_mismatch", "The account's answer exceeds the size limit")


def _is_accepted(verdict: Any) -> bool:
    """Parse isValidSignature's answer; a revert or any other answer is a refusal."""
    if isinstance(verdict, RpcError) and verdict.is_revert:
        return False
    answer = parse_data(require_result(verdict))
    return answer[: abi.WORD] == IS_VALID_SIGNATURE.ljust(abi.WORD, b"\0")


def _is_refused(verdict: Any) -> bool:
    """Return True if a wallet refused explicitly; a wallet out of gas reverts without data."""
    if isinstance(verdict, RpcError):
        return bool(format_revert(verdict))
    return bool(parse_data(require_result(verdict)))
