"""A wallet hands in results; the payment is bound to them and submitted.

The checks come in the order that the wire contract fixes, and one atomic change decides: whatever
runs at the same time, at most one submission is ever bound to a payment.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments import results
from florin_server.domain.payments.payment import (
    Confirmation,
    FailureCode,
    Option,
    Payment,
    ResolvedBuild,
    Status,
)
from florin_server.domain.payments.state import Event, step
from florin_server.domain.payments.triggers import Trigger
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.flows.app import App, Caller
from florin_server.flows.capture import requirement
from florin_server.flows.limits import gas_budgets
from florin_server.flows.payments.load import current, find, head_of, still_open, unanswered
from florin_server.flows.payouts import opening
from florin_server.flows.screening.check import check_lists, is_blocked
from florin_server.rails.protocol import Rail, submits
from florin_server.rails.types import NonceUnusable, RailUnavailable
from florin_server.store.accounts import standing
from florin_server.store.capture import collected_data
from florin_server.store.capture.collected_data import Told
from florin_server.store.engine.query import Op, Operation, operation
from florin_server.store.payments import payments
from florin_server.store.settlement import durable_nonces
from florin_server.store.settlement.token_accounts import NotOpenable

_log = logging.getLogger(__name__)


async def confirm(
    app: App,
    caller: Caller,
    payment_ref: str,
    option_id: str,
    outputs: Sequence[Sequence[str]],
    *,
    collected: str | None = None,
) -> Payment:
    """Accepts, refuses or repeats a submission; `outputs` are JSON texts, one list a result.

    `collected` is the JSON of data about the buyer that the wallet brings along.
    """
    # the server's clock decides whether a confirm came in time, however long the checks take
    arrived_us = app.clock.now_us()
    payment = await find(app, caller, payment_ref)
    flat = results.flatten(outputs)
    digest = results.digest(option_id, flat)
    # what the chain told first is bound to the transaction alone
    digests = {digest, results.digest(option_id, flat[-1:])}
    if (known := await _repeated(app, caller, payment, digests)) is not None:
        return known
    offered, issued = await _looked_up(app, payment, option_id)
    right = _right(app, offered, issued, flat)
    if offered is not None and right:
        # nobody else can sign for it: what others hand in must not hold it up
        app.limits.signed(payment.id, offered.payer)
    else:
        app.limits.confirm(payment.id, caller.origin, asks=right is None)
    step(payment.status, Event.CONFIRM_ACCEPTED)
    option = still_open(app, payment, offered)
    told = await requirement.require(app, caller, payment, option, collected)
    content = Confirmation(payment.id, option.id, tuple(flat), digest, arrived_us)
    form = results.match(_expected(option, issued), flat)
    if form.verdict is results.Verdict.MISMATCH:
        return await _refuse(app, caller, content, "results do not match the actions")
    if payment.trigger is Trigger.DECLINED or await is_blocked(app, option.payer):
        return await _refuse(app, caller, content, "payer is blocked", FailureCode.DECLINED_USER)
    await check_lists(app, live=payment.live)
    if form.verdict is results.Verdict.UNREADABLE:
        raise _unreadable(form.index)
    rail = app.rails[option.chain_id]
    # looked up before the proof that the authorization is unused: its effect can only be later
    from_block = await _first_block(app, rail, option, issued)
    try:
        kind = await _verify(rail, option, issued, flat)
    except NonceUnusable:
        # the wallet is issued a transaction without a nonce when it fetches again
        nonce = durable_nonces.release(option.chain_id, payment.id, option.id)
        await app.store.write(standing.checked(caller.standing, nonce))
        raise
    if submits(rail, option):
        await gas_budgets.check(app, caller, option, kind)
    opened = rail.token_accounts.opened_by(flat) if rail.token_accounts is not None else ()
    claim = opening.claim(app, rail, payment.merchant_id, payment.id, opened)
    return await _accept(app, caller, option, content, from_block, claim, told)


async def _repeated(
    app: App, caller: Caller, payment: Payment, digests: Collection[bytes]
) -> Payment | None:
    """The payment if exactly this submission is bound to it: a repeated confirm is a poll."""
    if payment.status is Status.REQUIRES_ACTION:
        return None
    await app.store.read(standing.require(caller.standing))
    bound = await app.store.read(payments.confirmation(payment.id))
    return payment if bound is not None and bound.digest in digests else None


async def _looked_up(
    app: App, payment: Payment, option_id: str
) -> tuple[Option | None, Sequence[ResolvedBuild]]:
    """The option, and what its build was resolved to; nothing if the payment takes no results."""
    if payment.status is not Status.REQUIRES_ACTION:
        return None, ()
    option = await app.store.read(payments.option(payment.id, option_id))
    if option is None or option.build is None:
        return option, ()
    return option, await app.store.read(payments.issued(payment.id, option.id))


def _right(
    app: App, option: Option | None, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
) -> bool | None:
    """Whether the outputs may pay the option, as far as no chain has to be asked for it."""
    rail = app.rails.get(option.chain_id) if option else None
    if option is None or rail is None:
        return False
    return rail.verifier.plausible(option, issued, outputs)


def _expected(option: Option, issued: Sequence[ResolvedBuild]) -> list[results.Kind]:
    actions = option.resolved(issued)
    if actions is None:
        raise FlorinError(Code.INVALID_PARAMS, "The option has a build that was never fetched")
    return [results.expected_kind(action.method) for action in actions]


def _unreadable(index: int | None) -> FlorinError:
    return FlorinError(
        Code.INVALID_PARAMS,
        "Result is not the output of its action",
        details={"reason": "unreadable_output", "index": str(index)},
    )


async def _verify(
    rail: Rail, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
) -> PayerKind:
    try:
        return await rail.verifier.verify(option, issued, outputs)
    except RailUnavailable as error:
        # nothing was submitted: the wallet may send the same results again
        raise unanswered() from error


async def _refuse(
    app: App, caller: Caller, content: Confirmation, detail: str, code: FailureCode | None = None
) -> Payment:
    refuse = payments.refuse(content, detail, code, app.clock.now_us(), caller.request_id)
    refused = await app.store.write(standing.checked(caller.standing, refuse))
    if refused is not None:
        return await app.changed(refused)
    return await _lost(app, caller, content)


async def _accept(  # noqa: PLR0917  (one of each, none alike)
    app: App,
    caller: Caller,
    option: Option,
    content: Confirmation,
    from_block: int,
    claim: Operation[None],
    told: Told,
) -> Payment:
    provider = (caller.app.name, caller.app.icon_url) if caller.app else ("unknown", None)
    accept = payments.accept(
        content,
        option,
        from_block,
        provider,
        content.at_us,
        app=gas_budgets.app_of(caller),
        request_id=caller.request_id,
    )
    if told.sources and submits(app.rails[option.chain_id], option):
        # what is submitted here was signed by the account; anybody may hand in a hash
        accept = collected_data.proven(accept, content.payment_id, option.payer, told)
    try:
        accepted = await app.store.write(standing.checked(caller.standing, _with(accept, claim)))
    except NotOpenable as error:
        # a transaction that opens nothing is told to whoever fetches again
        _log.warning("payment %s: %s", content.payment_id, error)
        raise FlorinError(Code.QUOTE_EXPIRED) from error
    if accepted is None:
        return await _lost(app, caller, content)
    app.wake_settler(option.chain_id)
    return await app.changed(accepted)


@operation
def _with(accept: Operation[Payment | None], claim: Operation[None]) -> Op[Payment | None]:
    """Accepts together with a claim, or neither."""
    accepted = yield from accept
    if accepted is not None:
        yield from claim
    return accepted


async def _first_block(
    app: App, rail: Rail, option: Option, issued: Sequence[ResolvedBuild]
) -> int:
    """From which block on the payment's effect is looked for.

    A reorganisation may put it below today's head, as far down as blocks are not final. What the
    buyer sends may be in a block already, since it was offered.
    """
    if not submits(rail, option):
        return option.first_block(rail.reorg_depth, min(one.head for one in issued))
    try:
        return max(0, await head_of(app, rail) - rail.reorg_depth)
    except RailUnavailable:
        return 0


async def _lost(app: App, caller: Caller, content: Confirmation) -> Payment:
    """Another change came first; answers as if this call had come after it."""
    stored = await app.store.reader.payment(content.payment_id)
    if stored is None:
        raise FlorinError(Code.PAYMENT_NOT_FOUND)
    payment = await current(app, stored)
    digests = {content.digest, results.digest(content.option_id, content.outputs[-1:])}
    if (known := await _repeated(app, caller, payment, digests)) is not None:
        return known
    step(payment.status, Event.CONFIRM_ACCEPTED)
    raise FlorinError(Code.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
