"""Play random refunds on a real store, and compare it with plain sums after every batch.

Some steps are requests: in token units, in the payment's currency, or without an amount, with or
without an idempotency key, which can be used already. Other steps are actions of a payout worker or
the operator on a refund: claim, pay, send again, refuse, undo, resolve. They also occur where they
are not allowed, or with a transaction of an earlier attempt. The steps of a batch are concurrent.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from florin_server.app.app import build_app, build_core
from florin_server.app.core import App
from florin_server.base.clock import TestClock
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.caller import Caller, IdempotencyKey
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import (
    Merchant,
    Payment,
    PaymentStatus,
    Refund,
    RefundStatus,
)
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.payouts.refund_amounts import RefundAmount
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.money.ledger.store import ledger
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments, simulation
from florin_server.money.payouts.store import payouts
from florin_server.money.refunds import service as refund_flow
from florin_server.money.refunds import store as refunds
from florin_server.money.refunds.service import RefundRequest
from florin_server.money.settlement.store.chain_txs import ItemsUnavailable
from florin_server.settings import Settings

from tests.support.store_factories import ASSET, CHAIN, NOW_US, PAYER

UNIT, USD, EUR = f"caip19/{ASSET}", "iso4217/USD", "iso4217/EUR"
SHOP, WALLET = "mer_1", f"wallet:{CHAIN}:0x{'dd' * 20}"
BATCH, SUBJECTS, STEPS_A_PAYMENT, CHUNK = 50, 12, 60, 20_000
# batches between two checks of the whole books
PROVEN_EVERY = 40
_MERCHANT = Merchant(SHOP, "par_1", "Shop", "shop@shop.example", None, "active", False, NOW_US)
# 12.50 USD at exact rates, at rates that are no whole number, and below one token unit
_PAID = [(12_500_000, 1250), (7221384158848501, 1250), (999, 1000), (1, 1), (10**30, 7)]
ACTIONS = {
    "request": 40, "again": 6, "claim": 22, "pay": 14, "late": 4, "unclear": 2,
    "return": 5, "refuse": 6, "undo": 3, "resolve": 2,
}  # fmt: skip

CallBody = tuple[Any, ...]


@dataclass
class Part:
    """One refund with its payout; `old` is a transaction of an earlier attempt.

    `id` is empty until the request is answered.
    """

    id: str
    ordinal: int
    token: int
    fiat: int
    status: RefundStatus
    version: int
    payout: PayoutStatus | None
    tx: str | None = None  # the payout's
    refund_tx: str | None = None
    old: str = "0xnone"


@dataclass
class Subject:
    """A succeeded payment and its refunds."""

    payment: Payment
    parts: list[Part] = field(default_factory=list)
    keys: dict[str, tuple[CallBody, bytes]] = field(default_factory=dict)
    steps: int = 0

    @property
    def paid(self) -> int:
        return self.payment.option_value or 0

    @property
    def active(self) -> list[Part]:
        return [part for part in self.parts if part.status is not RefundStatus.FAILED]

    @property
    def rest(self) -> tuple[int, int, int]:
        """Return token units left, currency left, and how much of that can be requested."""
        token = self.paid - sum(part.token for part in self.active)
        fiat = self.payment.value - sum(part.fiat for part in self.active)
        return token, fiat, max(0, min(fiat, token * self.payment.value // self.paid))

    def next_version(self) -> int:
        return max((part.version for part in self.parts), default=0) + 1

    def move(self, part: Part, status: RefundStatus, tx: str | None) -> None:
        if part.status is RefundStatus.SUCCEEDED:
            return
        if part.status is not status:
            part.version = self.next_version()
        part.status, part.refund_tx = status, tx

    def expect(self, unit: str | None, value: int, most: int) -> ErrorCode | tuple[int, int]:
        """Return the amounts of a requested refund, or why it is refused."""
        token, fiat, requestable = self.rest
        paid, price = self.paid, self.payment.value
        if unit is None:
            if self.parts:
                return ErrorCode.ALREADY_REFUNDED
            amounts = paid, price
        elif unit == EUR or value < 1:
            return ErrorCode.PARAMS_VALIDATION
        elif unit == UNIT:
            if value > token:
                return ErrorCode.ALREADY_REFUNDED
            last = fiat if value == token else min(value * price // paid, requestable)
            amounts = value, last
        else:
            if value > requestable:
                return ErrorCode.ALREADY_REFUNDED
            amounts = (token if value == fiat else value * paid // price), value
            if amounts[0] < 1:
                return ErrorCode.PARAMS_VALIDATION
        return ErrorCode.ALREADY_REFUNDED if len(self.active) >= most else amounts


class Machine:
    """A player of steps on one store; AssertionError at the first wrong answer or row."""

    def __init__(self, app: App, chance: random.Random) -> None:
        self.app = app
        self.chance = chance
        self.subjects: list[Subject] = []
        self.done = 0
        self.action_counts: Counter[str] = Counter()
        self.most_refunds = 0
        self._number = 0
        self._received = self._sent = 0  # by payments, and by payouts that have ended

    async def play(self, steps: int) -> None:
        batches = 0
        while self.done < steps:
            await self._renew()
            # the expected results follow from the order in which steps reach the store
            works = [self._step() for _ in range(BATCH)]
            await asyncio.gather(*works)
            self.done += len(works)
            batches += 1
            await self._compare()
            if batches % PROVEN_EVERY == 0:
                await self._prove()
        await self._prove()

    # payments

    async def _renew(self) -> None:
        over = [subject for subject in self.subjects if subject.steps >= STEPS_A_PAYMENT]
        self._sent += sum(_sent(subject) for subject in over)
        self.subjects = [subject for subject in self.subjects if subject.steps < STEPS_A_PAYMENT]
        while len(self.subjects) < SUBJECTS:
            self.subjects.append(await self._succeed())

    async def _succeed(self) -> Subject:
        self._number += 1
        chance = self.chance
        random_price = chance.randint(1, 10**30), chance.randint(1, 10**6)
        paid, price = chance.choice([*_PAID, random_price])
        payment_id = f"pay_{self._number:027}"
        simulated = chance.random() < 0.1
        payment = Payment(
            payment_id, "par_1", SHOP, False, PaymentStatus.SUCCEEDED, 2, USD, price, "order",
            None, None,
            self._number.to_bytes(16, "big"), NOW_US, NOW_US, NOW_US // 10**6 + 900,
            option_unit=UNIT, option_value=paid, payer=PAYER,
            tx_id=simulation.format_tx_id(payment_id) if simulated else f"0x{self._number:x}",
        )  # fmt: skip
        await self.app.store.write(_receive(payment))
        self._received += paid
        return Subject(payment)

    # steps

    def _step(self) -> Awaitable[None]:
        subject = self.chance.choice(self.subjects)
        subject.steps += 1
        (action,) = self.chance.choices([*ACTIONS], [*ACTIONS.values()])
        paid_out = [part for part in subject.parts if part.payout is not None and part.id]
        if action in {"request", "again"} or not paid_out:
            self.action_counts["request"] += 1
            return self._request(subject, again=action == "again")
        self.action_counts[action] += 1
        return getattr(self, f"_{action}")(subject, self.chance.choice(paid_out))

    def _request(self, subject: Subject, *, again: bool) -> Awaitable[None]:
        """Request a refund, or repeat a request under a used key."""
        key: str | None
        if again and subject.keys:
            key = self.chance.choice([*subject.keys])
            body = subject.keys[key][0]
            if self.chance.random() < 0.3:
                body = (body[0], UNIT, str(self.chance.randint(1, 9)), "another")
        else:
            key = f"key-{self.action_counts['request']}" if self.chance.random() < 0.4 else None
            body = (subject.payment.id, *self._amount(subject), None)
        expected: Any
        if key in subject.keys:
            existing, answer = subject.keys[key]
            expected = answer if body == existing else ErrorCode.IDEMPOTENCY_CONFLICT
            return self._expect_answer(body, key, expected)
        _, unit, value, _ = body
        expected = subject.expect(unit, int(value), self.app.settings.refunds_max)
        if isinstance(expected, ErrorCode):
            return self._expect_answer(body, key, expected)
        simulated = subject.payment.tx_id == simulation.format_tx_id(subject.payment.id)
        part = Part(
            id="",
            ordinal=len(subject.parts) + 1,
            token=expected[0],
            fiat=expected[1],
            status=RefundStatus.SUCCEEDED if simulated else RefundStatus.PENDING,
            version=subject.next_version(),
            payout=None if simulated else PayoutStatus.WAITING,
        )
        subject.parts.append(part)
        self.most_refunds = max(self.most_refunds, len(subject.active))
        if key is not None:
            subject.keys[key] = body, b"%d" % len(subject.parts)
        return self._expect_answer(body, key, part)

    def _amount(self, subject: Subject) -> tuple[str | None, str]:
        token, _, requestable = subject.rest
        (unit,) = self.chance.choices([UNIT, USD, EUR, None], [10, 10, 1, 2])
        left = requestable if unit == USD else token
        share, more = self.chance.choice([1, 1, 2, 5, 10, 10]), self.chance.choice([0, 0, 1, -1])
        return unit, str(max(0, left * share // 10 + more))

    async def _expect_answer(
        self, body: CallBody, key: str | None, expected: Part | bytes | ErrorCode
    ) -> None:
        payment_id, unit, value, reason = body
        scoped = key and IdempotencyKey(f"scope {payment_id}", key, repr(body).encode())
        caller = Caller(False, "key", "par_1", _MERCHANT, idempotency_key=scoped or None)
        amount = None if unit is None else RefundAmount(unit, value)
        request = RefundRequest(payment_id, amount, reason)
        answer: Any
        new: Any = None
        try:
            answer = await refund_flow.request_refund(
                self.app, caller, request, lambda created: b"%d" % created.refund.ordinal
            )
        except ApiError as refused:
            answer = refused.code
        if isinstance(answer, StoredResponse):
            answer = answer.body
        elif not isinstance(answer, ErrorCode):
            new = answer.refund
            answer = (new.value, new.payment_value, new.status, new.version, new.ordinal)
        if isinstance(expected, Part):
            part = expected
            assert new is not None, f"{body} under {key}: {answer}"
            part.id = new.id
            expected_answer: Any = (part.token, part.fiat, part.status, part.version, part.ordinal)
        else:
            expected_answer = expected
        assert answer == expected_answer, f"{body} under {key}: {answer}, not {expected_answer}"

    def _payout(self, subject: Subject, part: Part) -> Payout:
        return Payout(
            part.id, PayoutKind.REFUND, SHOP, subject.payment.id, False, CHAIN, ASSET, part.token,
            PAYER, NOW_US, status=part.payout or PayoutStatus.WAITING, tx_id=part.tx,
        )  # fmt: skip

    def _claim(self, subject: Subject, part: Part) -> Awaitable[None]:
        payout, tx = (
            self._payout(subject, part),
            f"0x{self.done + sum(self.action_counts.values()):x}",
        )
        allowed = part.payout is PayoutStatus.WAITING
        if allowed:
            part.payout, part.tx = PayoutStatus.SUBMITTED, tx
            subject.move(part, RefundStatus.PROCESSING, tx)
        return self._expect_claim(payout, tx, allowed=allowed)

    async def _expect_claim(self, payout: Payout, tx: str, *, allowed: bool) -> None:
        try:
            await self.app.store.write(payouts.claim(payout, tx, None, None, NOW_US))
        except ItemsUnavailable:
            assert not allowed, f"{payout} was not claimed"
        else:
            assert allowed, f"{payout} was claimed"

    def _conclude(self, outcome: payouts.PayoutOutcome) -> Awaitable[None]:
        return self.app.store.write(payouts.finalize([outcome], [], NOW_US, _nothing()))

    def _pay(self, subject: Subject, part: Part, *, tx: str | None = None) -> Awaitable[None]:
        payout = self._payout(subject, part)
        if tx is not None:
            payout = replace(payout, tx_id=tx)
        if tx is None and part.payout is PayoutStatus.SUBMITTED:
            part.payout = PayoutStatus.DONE
            if part.status is RefundStatus.SUCCEEDED:
                part.refund_tx = part.tx
            subject.move(part, RefundStatus.SUCCEEDED, part.tx)
        return self._conclude(payouts.PayoutOutcome(payout, payout.tx_id, _posting(payout)))

    def _late(self, subject: Subject, part: Part) -> Awaitable[None]:
        """Finalize with a transaction that another one has replaced."""
        return self._pay(subject, part, tx=part.old)

    def _unclear(self, subject: Subject, part: Part) -> Awaitable[None]:
        payout = self._payout(subject, part)
        return self._conclude(payouts.PayoutOutcome(payout, payout.tx_id, problem="unclear"))

    def _return(self, subject: Subject, part: Part) -> Awaitable[None]:
        """Finalize with a transaction that moved nothing."""
        payout = self._payout(subject, part)
        if part.payout is PayoutStatus.SUBMITTED:
            self._wait_again(subject, part)
        return self._conclude(payouts.PayoutOutcome(payout, retry_at_us=NOW_US))

    def _wait_again(self, subject: Subject, part: Part) -> None:
        part.payout, part.old, part.tx = PayoutStatus.WAITING, part.tx or part.old, None
        subject.move(part, RefundStatus.PENDING, None)

    def _refuse(self, subject: Subject, part: Part) -> Awaitable[None]:
        allowed = part.payout is PayoutStatus.WAITING
        if allowed:
            part.payout = PayoutStatus.REFUSED
            subject.move(part, RefundStatus.FAILED, None)
        return self._expect_refused(part.id, allowed=allowed)

    async def _expect_refused(self, payout_id: str, *, allowed: bool) -> None:
        refused = await self.app.store.write(payouts.refuse(payout_id, NOW_US))
        assert (refused is not None) is allowed, f"{payout_id} was refused: {refused}"

    def _undo(self, subject: Subject, part: Part) -> Awaitable[None]:
        """Undo by a reorganization, after which the same transaction is sent again."""
        payout, tx = self._payout(subject, part), part.tx
        if tx is None or part.payout is not PayoutStatus.DONE:
            return self._unclear(subject, part)
        part.payout = PayoutStatus.SUBMITTED
        return self.app.store.write(payouts.reopen(payout, tx, NOW_US))

    def _resolve(self, subject: Subject, part: Part) -> Awaitable[None]:
        payout, paid = self._payout(subject, part), self.chance.random() < 0.5
        allowed = part.payout is PayoutStatus.SUBMITTED
        if allowed and paid:
            part.payout = PayoutStatus.DONE
            if part.status is RefundStatus.SUCCEEDED:
                part.refund_tx = part.tx
            subject.move(part, RefundStatus.SUCCEEDED, part.tx)
        elif allowed:
            self._wait_again(subject, part)
        return self._expect_resolved(payout, _posting(payout) if paid else None, allowed=allowed)

    async def _expect_resolved(
        self, payout: Payout, posting: LedgerPosting | None, *, allowed: bool
    ) -> None:
        resolved = await self.app.store.write(payouts.resolve(payout, posting, "looked", NOW_US))
        assert (resolved is not None) is allowed, f"{payout} was resolved: {resolved}"

    # stored data

    async def _compare(self) -> None:
        """Compare the stored payments with the model, and their sums with what was paid."""
        results = await self.app.store.read(
            _stored([each_subject.payment.id for each_subject in self.subjects])
        )
        for subject in self.subjects:
            stored = results[subject.payment.id]
            result = [
                (refund.value, refund.payment_value, refund.status, refund.version)
                for refund, _ in stored
            ]
            parts = [(part.token, part.fiat, part.status, part.version) for part in subject.parts]
            assert result == parts, f"{subject.payment}: {result}, not {parts}"
            txs = [(refund.tx_id, sent and (sent.status, sent.tx_id)) for refund, sent in stored]
            expected = [
                (part.refund_tx if part.payout else f"test:{part.id}",
                 part.payout and (part.payout, part.tx))
                for part in subject.parts
            ]  # fmt: skip
            assert txs == expected, f"{subject.payment}: {txs}, not {expected}"
            counted = [refund for refund, _ in stored if refund.status is not RefundStatus.FAILED]
            assert sum(refund.value for refund in counted) <= subject.paid
            assert sum(refund.payment_value for refund in counted) <= subject.payment.value
            sent = [payout for _, payout in stored if payout and payout.status is PayoutStatus.DONE]
            assert sum(payout.value for payout in sent) <= subject.paid

    async def _prove(self) -> None:
        """Check the books: they balance, and contain exactly what was paid out."""
        store = self.app.store
        assert await store.scan(ledger.check()) == []
        assert await store.scan(payouts.check()) == []
        left = self._received - self._sent - sum(_sent(subject) for subject in self.subjects)
        assert await store.read(ledger.get_balance(WALLET, ASSET)) == left
        assert await store.read(ledger.get_balance(f"merchant:{SHOP}", ASSET)) == -left


def _sent(subject: Subject) -> int:
    return sum(part.token for part in subject.parts if part.payout is PayoutStatus.DONE)


def _posting(payout: Payout) -> LedgerPosting:
    return LedgerPosting(f"merchant:{SHOP}", WALLET, ASSET, payout.value)


@operation
def _receive(payment: Payment) -> Op[None]:
    yield from payments.create(payment)
    came = LedgerPosting(WALLET, f"merchant:{SHOP}", ASSET, payment.option_value or 0)
    yield from ledger.post(
        f"settle:{payment.id}", "settle", payment.id, payment.tx_id, (came,), NOW_US
    )


@operation
def _nothing() -> Op[None]:
    yield from ()


@operation
def _stored(payment_ids: list[str]) -> Op[dict[str, list[tuple[Refund, Payout | None]]]]:
    found_refunds = {}
    for payment_id in payment_ids:
        found_refunds[payment_id] = yield from refunds.list_refunds(payment_id)
    sent = yield from payouts.find_many(
        [refund.id for created_refunds in found_refunds.values() for refund in created_refunds]
    )
    return {
        key: [(refund, sent.get(refund.id)) for refund in created_refunds]
        for key, created_refunds in found_refunds.items()
    }


async def play_chunk(folder: Path, seed: int, steps: int) -> Machine:
    """Play steps on a new store in a folder; AssertionError at the first failure."""
    store = await open_store(folder / "florin.db")
    try:
        chance = random.Random(seed)
        core = build_core(
            Settings(home=folder),
            store,
            TestClock(NOW_US),
            [],
            randbytes=random.Random(seed).randbytes,
        )
        machine = Machine(build_app(core), chance)
        await machine.play(steps)
    finally:
        await store.close()
    return machine


def run_store_campaign(steps: int, seed: int) -> int:
    """Play all steps, each chunk on its own store; return the number of steps."""
    memory, done = Path("/dev/shm"), 0
    while done < steps:
        where = memory if memory.is_dir() else None
        with tempfile.TemporaryDirectory(prefix="florin-refunds-", dir=where) as folder:
            size = min(CHUNK, steps - done)
            machine = asyncio.run(play_chunk(Path(folder), seed + done // CHUNK, size))
        done += machine.done
    return done
