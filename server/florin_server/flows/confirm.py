"""A wallet hands in results; the payment is bound to them and submitted.

The checks come in the order that the wire contract fixes, and one atomic change decides: whatever
runs at the same time, at most one submission is ever bound to a payment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from florin_server.domain import results
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.levers import Lever
from florin_server.domain.payment import (
    Confirmation,
    FailureCode,
    Issued,
    Option,
    Payment,
    Status,
)
from florin_server.domain.state import Event, step
from florin_server.flows import capture
from florin_server.flows.app import App, Caller
from florin_server.flows.fetch import open_option, silent
from florin_server.flows.load import current, find
from florin_server.flows.screen import check_lists, is_blocked
from florin_server.rails.base import Rail, RailUnavailable
from florin_server.store import captures, payments
from florin_server.store.captures import Told


async def confirm(
    app: App,
    caller: Caller,
    text: str,
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
    payment = await find(app, caller, text)
    flat = results.flatten(outputs)
    digest = results.digest(option_id, flat)
    # what the chain told first is bound to the transaction alone
    digests = {digest, results.digest(option_id, flat[-1:])}
    if (known := await _repeated(app, payment, digests)) is not None:
        return known
    app.limits.confirm(payment.id)
    step(payment.status, Event.CONFIRM_ACCEPTED)
    option = await open_option(app, payment, option_id)
    told = await capture.require(app, caller, payment, option, collected)
    issued = await _issued(app, option)
    content = Confirmation(payment.id, option.id, tuple(flat), digest, arrived_us)
    form = results.match(_expected(option, issued), flat)
    if form.verdict is results.Verdict.MISMATCH:
        return await _refuse(app, content, "results do not match the actions")
    if payment.lever is Lever.DECLINED or await is_blocked(app, option.payer):
        return await _refuse(app, content, "payer is blocked", FailureCode.DECLINED_USER)
    await check_lists(app, live=payment.live)
    if form.verdict is results.Verdict.UNREADABLE:
        raise _unreadable(form.index)
    rail = app.rails[option.chain_id]
    # looked up before the proof that the authorization is unused: its effect can only be later
    from_block = await _first_block(app, rail, option, issued)
    await _verify(rail, option, issued, flat)
    return await _accept(app, caller, option, content, from_block, told)


async def _repeated(app: App, payment: Payment, digests: Collection[bytes]) -> Payment | None:
    """The payment if exactly this submission is bound to it: a repeated confirm is a poll."""
    if payment.status is Status.REQUIRES_ACTION:
        return None
    bound = await app.store.read(payments.confirmation(payment.id))
    return payment if bound is not None and bound.digest in digests else None


async def _issued(app: App, option: Option) -> Sequence[Issued]:
    if option.build is None:
        return ()
    return await app.store.read(payments.issued(option.payment_id, option.id))


def _expected(option: Option, issued: Sequence[Issued]) -> list[results.Kind]:
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
    rail: Rail, option: Option, issued: Sequence[Issued], outputs: Sequence[str]
) -> None:
    try:
        await rail.verify(option, issued, outputs)
    except RailUnavailable as error:
        # nothing was submitted: the wallet may send the same results again
        raise silent() from error


async def _refuse(
    app: App, content: Confirmation, detail: str, code: FailureCode | None = None
) -> Payment:
    now_us = app.clock.now_us()
    refused = await app.store.write(payments.refuse(content, detail, code, now_us))
    if refused is not None:
        return await app.changed(refused)
    return await _lost(app, content)


async def _accept(  # noqa: PLR0917  (one of each, none alike)
    app: App,
    caller: Caller,
    option: Option,
    content: Confirmation,
    from_block: int,
    told: Told,
) -> Payment:
    provider = (caller.app.name, caller.app.icon_url) if caller.app else ("unknown", None)
    accept = payments.accept(content, option, from_block, provider, content.at_us)
    if told.sources and app.rails[option.chain_id].submits(option):
        # what is submitted here was signed by the account; anybody may hand in a hash
        accept = captures.proven(accept, content.payment_id, option.payer, told)
    accepted = await app.store.write(accept)
    if accepted is None:
        return await _lost(app, content)
    app.settlers[option.chain_id].wake()
    return await app.changed(accepted)


async def _first_block(app: App, rail: Rail, option: Option, issued: Sequence[Issued]) -> int:
    """From which block on the payment's effect is looked for.

    A reorganisation may put it below today's head, as far down as blocks are not final. The head
    that the settler has seen is no newer than the chain's, and costs no question. What the buyer
    sends may be in a block already, since the first time that it was issued.
    """
    head = app.settlers[rail.chain_id].health().head
    if not rail.submits(option):
        head = min(one.head for one in issued)
    elif not head:
        try:
            head = (await rail.head()).number
        except RailUnavailable:
            return 0
    return max(0, head - rail.confirmations)


async def _lost(app: App, content: Confirmation) -> Payment:
    """Another change came first; answers as if this call had come after it."""
    stored = await app.store.reader.payment(content.payment_id)
    if stored is None:
        raise FlorinError(Code.PAYMENT_NOT_FOUND)
    payment = await current(app, stored)
    digests = {content.digest, results.digest(content.option_id, content.outputs[-1:])}
    if (known := await _repeated(app, payment, digests)) is not None:
        return known
    step(payment.status, Event.CONFIRM_ACCEPTED)
    raise FlorinError(Code.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
