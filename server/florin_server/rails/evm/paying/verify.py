"""Proving that what a wallet returned pays its option, before anything is bound to it.

The message is rebuilt from the stored terms and never read from the wallet, so a signature by
another key, for another amount, chain or payment is simply another signer's. The token has the
last word: the very call that would settle is run against the newest block, for the payments of one
moment together and for those that did not settle there alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from florin_server.chains.evm import abi
from florin_server.chains.evm.signatures import read_hex
from florin_server.chains.evm.typed_data import PERMIT2, digest_of
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Option
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.connection.jsonrpc import AnswerTooLarge, Call, RpcError
from florin_server.rails.connection.node import answered
from florin_server.rails.evm.paying import erc6492
from florin_server.rails.evm.paying.erc6492 import is_wrapped
from florin_server.rails.evm.paying.mismatches import Mismatches
from florin_server.rails.evm.paying.terms import PERMIT2_METHOD, Proof, Terms, bare, proof
from florin_server.rails.evm.reading.dry_run import Asked, DryRun, DryRuns
from florin_server.rails.evm.reading.node import (
    LATEST,
    Node,
    call_to,
    data,
    quantity,
    record,
    uint,
)
from florin_server.rails.evm.reading.reader import Reader
from florin_server.rails.evm.reading.refusals import Refusals
from florin_server.rails.evm.reading.reverts import said
from florin_server.rails.evm.sending.fees import OPEN_GAS, dry_run_gas
from florin_server.rails.evm.sending.gas_learner import GasLearner
from florin_server.rails.evm.sending.submission import Item, item, plain_item, submission
from florin_server.rails.evm.sending.trial import Trials
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.token_refusal import token_refused
from florin_server.rails.types import RailUnavailable

SIGNATURE_BYTES_MIN = 64
SIGNATURE_BYTES_MAX = 4096  # a wallet with a dozen passkey owners stays below
ALLOWANCE = abi.selector("allowance(address,address)")
BALANCE_OF = abi.selector("balanceOf(address)")
IS_VALID_SIGNATURE = abi.selector("isValidSignature(bytes32,bytes)")

# what a trial is given once more that may have lacked nothing but gas
_MORE_GAS = 4
# how the settlement contract reverts if it cannot forward what the token moved to it
_SHORT = "TransferFailed"


@dataclass(frozen=True, slots=True)
class _Tried:
    """Who answers for a payment. `besides` is None if it does not settle now.

    Otherwise it is what the account spends on others that settled with it, if it might not have
    both. `refusal` is what a trial of it alone reverted with.
    """

    kind: PayerKind
    besides: int | None
    refusal: RpcError | None = None


class Signatures:
    """Verifies those for one chain; what arrives together shares one batch of calls."""

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        node: Node,
        chain: EvmChain,
        runs: DryRuns,
        reader: Reader,
        refusals: Refusals,
        mismatches: Mismatches,
        *,
        learner: GasLearner,
    ) -> None:
        self._learner = learner
        self._shares = learner.shares
        self._chain = chain
        self._mismatches = mismatches
        self._refusals = refusals
        self._trials = Trials(node, chain, runs, reader, learner.shares)
        self._ask = self._trials.ask

    async def verify(self, option: Option, outputs: Sequence[str]) -> PayerKind:
        """Who answers, if the outputs pay the option now; raises as the Verifier protocol tells."""
        terms = Terms.of(option)
        payer = bare(option.payer)
        if terms.route.settler != self._chain.settler:
            # the operator changed contracts; the buyer gets new options with the new one
            raise FlorinError(Code.QUOTE_EXPIRED)
        given = signature_bytes(option, outputs)
        tried = await self._try_with_enough(terms, payer, given)
        if tried.besides != 0:
            # what the buyer sent before is in no block yet, maybe; only the chain tells, later
            await self._judge(option, tried, given, approves=len(outputs) > 1)
        return tried.kind

    async def _try_with_enough(self, terms: Terms, payer: str, given: bytes) -> _Tried:
        """Try a payment; once more if payments get more gas after that than it had."""
        form = item(self._chain, terms, payer, given, self._shares)
        before = replace(self._shares, tokens=dict(self._shares.tokens))
        try:
            tried = await self._try_given(terms, payer, given)
        except FlorinError:
            # of an account with code, or that is to have some: only the chain's prices count
            if not await self._learner.learn([form.by_code(before)]):
                raise
            return await self._try_given(terms, payer, given)
        if tried.kind is not PayerKind.KEY:
            form = form.by_code(before)
        if tried.besides is None and await self._learner.learn([form]):
            return await self._try_given(terms, payer, given)
        return tried

    async def _try_given(self, terms: Terms, payer: str, given: bytes) -> _Tried:
        digest = digest_of(terms.message(payer))
        if is_wrapped(given):
            return await self._try_unborn(terms, payer, digest, given)
        return await self._try(terms, payer, digest, proof(digest, payer, given))

    async def close(self) -> None:
        """Waits for the batches under way."""
        await self._trials.close()

    async def _try(self, terms: Terms, payer: str, digest: bytes, proven: Proof) -> _Tried:
        """What comes of a payment with a signature of the account as it is."""
        form = plain_item(self._chain, terms, payer, proven, self._shares)
        if not proven.by_key:
            # a signature of another key is worth no dry run until the payer is known to have code
            (code,) = await self._ask(("eth_getCode", (payer, LATEST)))
            if not data(code):
                raise refused("signature_mismatch", "The signature is not the account's")
            return await self._try_with_code(form, digest)
        tried = await self._trials.tried(form)
        if tried.has_code is None:
            raise RailUnavailable(f"{self._chain.name}: the node does not tell the payer's code")
        if tried.has_code:
            return await self._try_with_code(form, digest)
        if tried.settled:
            return _Tried(PayerKind.KEY, 0)
        (outcome,) = await self._ask_apart(self._trials.alone(form))
        if self._returned(outcome) is None:
            return _Tried(PayerKind.KEY, None, outcome)
        return _Tried(PayerKind.KEY, tried.besides)

    async def _try_with_code(self, form: Item, digest: bytes) -> _Tried:
        """The same if the payer has code, which must accept the signature as well."""
        pay = form.pay
        form = form.by_code(self._shares)
        alone = self._trials.alone(form)
        verdict, outcome = await self._ask_apart(
            ask_wallet(pay.payer, digest, pay.signature), alone
        )
        accepts, settles = _accepts(verdict), self._returned(outcome) is not None
        if accepts and settles:
            return _Tried(PayerKind.CODE, 0)
        # one that refuses in so many words had gas enough for that
        if (accepts or not _refuses(verdict)) and await self._lacks_gas(alone):
            told = f"The account takes more gas for its signature than the {pay.gas} there are"
            raise refused("gas_limit", f"{told}; it can send the payment itself")
        if not accepts:
            self._mismatches.record(pay.payer)
            raise refused("signature_mismatch", "The account does not accept the signature")
        return _Tried(PayerKind.CODE, None, outcome)

    async def _lacks_gas(self, alone: DryRun) -> bool:
        """True if a trial that failed would have gone well with more gas."""
        try:
            (again,) = await self._ask_apart(replace(alone, gas=_MORE_GAS * alone.gas))
            return self._returned(again) is not None
        except RailUnavailable:
            # a key of ours may have the coin for a payment, and not for so much
            return False

    async def _try_unborn(self, terms: Terms, payer: str, digest: bytes, given: bytes) -> _Tried:
        """The same with a signature that brings along how its account is created (ERC-6492).

        If the account exists by now, it does not matter how it would have been created.
        """
        wrapped = erc6492.unwrap(given)
        if wrapped is None:
            raise refused("unreadable_output", "The output is no ERC-6492 signature")
        form = item(self._chain, terms, payer, given, self._shares)
        if form.opening is None:
            (code,) = await self._ask(("eth_getCode", (payer, LATEST)))
            if data(code):
                proven = Proof(wrapped.signature, by_key=False)
                return await self._try(terms, payer, digest, proven)
            # nothing is wrong with what was signed: its form is not taken here
            raise refused("unreadable_output", erc6492.not_allowed(self._chain))
        sent = submission(self._chain, [form], self._shares)
        settlement = DryRun(sent.to, sent.data, sent.gas)
        probe = erc6492.probe(payer, wrapped, digest)
        verdict, outcome = await self._ask_apart(probe, settlement)
        found = uint(verdict)
        if found == erc6492.ABSENT:
            if await self._opens_with_more_gas(payer, wrapped, digest):
                told = f"Creating the account takes more gas than the {OPEN_GAS} there are"
                raise refused("gas_limit", f"{told}: create the account first, and sign again")
            raise refused("signature_mismatch", "The factory does not create the account")
        if found != erc6492.ACCEPTS:
            raise refused("signature_mismatch", "The account does not accept the signature")
        if self._returned(outcome) == abi.number(1):
            return _Tried(PayerKind.UNBORN, 0)
        if await self._settles_with_more_gas(form):
            told = f"The payment takes more gas than the {form.pay.gas} there are"
            raise refused("gas_limit", f"{told}: create the account, which can send it itself")
        return _Tried(PayerKind.UNBORN, None)

    async def _settles_with_more_gas(self, form: Item) -> bool:
        """Return whether a payment that creates its account would settle with more gas."""
        more = replace(form, pay=replace(form.pay, gas=_MORE_GAS * form.pay.gas))
        sent = submission(self._chain, [more], self._shares)
        try:
            (outcome,) = await self._ask_apart(DryRun(sent.to, sent.data, sent.gas))
            return self._returned(outcome) == abi.number(1)
        except RailUnavailable:
            # a key of ours may have the coin for a payment, and not for so much
            return False

    async def _opens_with_more_gas(
        self, payer: str, wrapped: erc6492.Wrapped, digest: bytes
    ) -> bool:
        """Return whether an account of many owners, say, would be there with more gas."""
        try:
            (verdict,) = await self._ask_apart(
                erc6492.probe(payer, wrapped, digest, _MORE_GAS * OPEN_GAS)
            )
            return uint(verdict) == erc6492.ACCEPTS
        except RailUnavailable:
            return False

    async def _ask_apart(self, *calls: Asked) -> list[Any]:
        """Asks what an account with code may answer; nobody else's questions share its payload."""
        try:
            return await self._trials.ask_apart(*calls)
        except AnswerTooLarge:
            raise refused("signature_mismatch", "The account answers more than is read") from None

    def _returned(self, outcome: Any) -> bytes | None:
        """What a dry run returned; None if it reverted."""
        if not isinstance(outcome, RpcError):
            return data(outcome)
        if outcome.is_revert:
            return None
        raise RailUnavailable(f"{self._chain.name}: {outcome}")

    async def _judge(self, option: Option, tried: _Tried, given: bytes, *, approves: bool) -> None:
        """Tells why a payment would not settle, unless that may be for want of an approval.

        One that settles alone, but not with others for which the account pays something `besides`,
        is refused only if it does not have both.
        """
        terms, payer, besides = Terms.of(option), bare(option.payer), tried.besides
        questions = [call_to(terms.route.token, BALANCE_OF + abi.address(payer))]
        if terms.method == PERMIT2_METHOD:
            questions.append(ask_allowance(terms.route.token, payer, PERMIT2))
        balance, *allowance = await self._ask(*questions)
        wanted = terms.route.value + (besides or 0)
        if uint(balance) < wanted:
            raise refused("insufficient_funds", "The account has insufficient funds")
        if besides is None and await self._is_expired(terms):
            told = "The authorization has expired by the chain's time"
            raise refused("authorization_expired", told)
        if besides is None and tried.kind is PayerKind.KEY:
            form = item(self._chain, terms, payer, given, self._shares)
            if await self._learner.needs_more(form):
                told = f"The payment needs more gas than the {self._shares.ceiling} that are paid"
                raise refused("gas_limit", told)
        if besides is None and (found := await self._refusals.why(option)) is not None:
            raise token_refused(found.what, found.said)
        if allowance and uint(allowance[0]) < wanted:
            if approves:
                return
            raise refused("insufficient_funds", "The account has insufficient allowance")
        if besides is None:
            reverted = said(tried.refusal) if tried.refusal is not None else ""
            if reverted == _SHORT:
                # the token accepted the signature, and its transfers go well by themselves
                told = "The token delivers less than it was asked to move"
                raise refused("token_takes_fee", told, revert=reverted)
            told = "The token does not accept the signature"
            raise refused("signature_mismatch", told, **({"revert": reverted} if reverted else {}))

    async def _is_expired(self, terms: Terms) -> bool:
        """Return whether the newest block is past what was signed, whatever our own clock says."""
        (block,) = await self._ask(("eth_getBlockByNumber", (LATEST, False)))
        try:
            header = record(answered(block))
            return header is not None and quantity(header.get("timestamp")) > terms.last_second
        except RailUnavailable:
            return False


def plausible(option: Option, outputs: Sequence[str]) -> bool | None:
    """True if the payer's key signed the option; None if the payer's contract may accept it."""
    try:
        given = signature_bytes(option, outputs)
    except FlorinError:
        return False
    payer = bare(option.payer)
    if is_wrapped(given):
        return None
    return proof(digest_of(Terms.of(option).message(payer)), payer, given).by_key or None


def ask_allowance(token: str, payer: str, spender: str) -> Call:
    """Asks how much of a token a contract may move for an account."""
    return call_to(token, ALLOWANCE + abi.address(payer) + abi.address(spender))


def ask_wallet(payer: str, digest: bytes, signature: bytes) -> DryRun:
    """ERC-1271, asked as a token will ask it."""
    question = wallet_question(digest, signature)
    return DryRun(payer, question, dry_run_gas(question))


def wallet_question(digest: bytes, signature: bytes) -> bytes:
    """The same as bytes."""
    return IS_VALID_SIGNATURE + digest + abi.number(2 * abi.WORD) + abi.padded(signature)


def signature_bytes(option: Option, outputs: Sequence[str]) -> bytes:
    """The signature in a wallet's outputs, the last of them.

    What stands before it are hashes of approvals, which prove nothing and are not looked at.
    """
    if len(outputs) != len(option.actions):
        raise refused("unreadable_output", "One output for each action was expected")
    try:
        signature = read_hex(orjson.loads(outputs[-1]), SIGNATURE_BYTES_MAX)
    except ValueError:
        raise refused("unreadable_output", "The output is not a signature") from None
    if len(signature) < SIGNATURE_BYTES_MIN:
        raise refused("unreadable_output", "The output is too short for a signature")
    return signature


def refused(reason: str, message: str, **more: str) -> FlorinError:
    """The refusal of a wallet's output."""
    return FlorinError(Code.INVALID_PARAMS, message, details={"reason": reason, **more})


def _accepts(verdict: Any) -> bool:
    """Reads isValidSignature's answer; a wallet that reverts or answers anything else refuses."""
    if isinstance(verdict, RpcError) and verdict.is_revert:
        return False
    answer = data(answered(verdict))
    return answer[: abi.WORD] == IS_VALID_SIGNATURE.ljust(abi.WORD, b"\0")


def _refuses(verdict: Any) -> bool:
    """True if a wallet said that it did not sign; one out of gas reverts without a word."""
    if isinstance(verdict, RpcError):
        return bool(said(verdict))
    return bool(data(answered(verdict)))
