"""Two processes that race for the same rows of one database, round by round.

In each round both do the same things at the same moment: a request under a key that has lapsed,
every end of one payment, a refund, options beyond the room for them, a durable nonce, and a
transaction of whoever is losing its lease; then one revokes the key with which the other creates.
What callers were told, and what is stored, has to be as if they had come one after the other.
`python -m tests.chaos.store_race 5000 [serializable] [hole]`.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from florin_server.domain.accounts.account import ApiKey, Standing
from florin_server.domain.accounts.credentials import KeyKind
from florin_server.domain.errors import FlorinError
from florin_server.domain.payments.payment import (
    CancelledReason,
    FreeNonce,
    Refund,
    RefundStatus,
)
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.store.accounts import keys, standing
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.query import Op, Operation, Row, Statement, operation, param
from florin_server.store.engine.store import Store
from florin_server.store.ledger import ledger
from florin_server.store.payments import history, idempotency, new_options, payments
from florin_server.store.payments.idempotency import Replay
from florin_server.store.payouts import payouts, refunds
from florin_server.store.settlement import chain_txs, durable_nonces, leases
from florin_server.store.tables.tables import lease, payment
from sqlalchemy import func, select

from tests.support import postgres, store_kit
from tests.support.store_kit import CHAIN, LATER_US, NOW_US, PAYER

PROCESSES, CALLS = 2, 2
_BY = CancelledReason.BY_USER
ROOM = new_options.Room(per_origin=20, per_payment=4)
# a round that takes longer than this has stopped
_ROUND_S = 60


def _made(number: int, kind: str, **changes: Any) -> Any:
    return store_kit.payment(id=f"pay_{kind}{number:026}", **changes)


class Signals(NamedTuple):
    """What processes tell each other, so that both are at it however busy the machine is.

    `begin` is a barrier, the others are semaphores: `signing` is released by who signs, which who
    takes over waits for in every other round; `known` once a key was used, `revoked` once it was
    revoked.
    """

    begin: Any
    signing: Any
    known: Any
    revoked: Any


class Round:
    """What one round is about, the same in every process."""

    def __init__(self, number: int, signals: Signals | None = None) -> None:
        self.number = number
        self._signals = signals
        self.key = store_kit.claim(f"key-{number}")
        self.ends = _made(number, "e", reference_id="")
        self.lapses = _made(number, "l", expires_at=NOW_US // 1_000_000 + 1)
        self.paid = _made(number, "p")
        self.many = _made(number, "m")
        self.nonce = f"nonce-{number}"
        self.payout = Payout(
            f"pout_{number}", PayoutKind.RETURN, "m", None, False, CHAIN, store_kit.ASSET, 5, PAYER,
            NOW_US, backed=True,
        )  # fmt: skip
        self.lease = f"lease-{number}"
        kind, no_scopes = KeyKind.WALLET, frozenset[str]()
        self.api_key = ApiKey(
            f"race-{number}", kind, False, None, b"h%d" % number, "last", no_scopes, None, NOW_US
        )

    async def prepare(self, store: Store) -> None:
        """What is there before anybody races."""
        lapsed = replace(self.key, now_us=NOW_US - 10, ttl_us=5)
        await store.write(idempotency.guard(lapsed))
        for one in (self.ends, self.lapses, self.paid, self.many):
            await store.write(payments.create(one))
        await store.write(durable_nonces.expect(CHAIN, [self.nonce]))
        await store.write(durable_nonces.seen(CHAIN, self.nonce, "", "value", 1))
        await store.write(payouts.add(self.payout))
        await store.write(leases.acquire(self.lease, "first", NOW_US, 1, steal=False))
        await store.write(keys.put_key(self.api_key))

    def races(self, store: Store, who: str) -> dict[str, Any]:
        """What one process does in it, by name; each tells what it came to."""
        return {
            "create": self._create(store, who),
            "cancel": self._won(store, payments.cancel(self.ends.id, _BY, NOW_US)),
            "confirm": self._won(store, self._accept(self.ends)),
            "expire": self._won(store, payments.expire([self.lapses.id], LATER_US)),
            "confirm late": self._won(store, self._accept(self.lapses)),
            "options": self._options(store, who),
            "nonce": self._nonce(store, who),
        }

    def part(self, store: Store, who: int) -> Any:
        """Each refunds more than half of one payment."""
        return self._won(store, _refund(self.paid, f"{who}0"))

    def fence(self, store: Store, who: int) -> Any:
        """A lease is lost once in a round, while its owner signs."""
        return self._take_over(store) if who else self._append(store)

    def revocation(self, store: Store, who: int) -> Any:
        """A key is revoked once in a round, while somebody elsewhere uses it."""
        return self._create_twice(store) if who else self._revoke(store)

    def apart(self) -> dict[str, Any]:
        """What is done at the same moment in both, and beside nothing else."""
        return {"refund": self.part, "fence": self.fence, "key": self.revocation}

    async def _create(self, store: Store, who: str) -> str | None:
        made = _made(self.number, f"c{who}")
        body = made.id.encode()
        found = await store.write(idempotency.once(self.key, payments.create(made), lambda _: body))
        return None if isinstance(found, Replay) else found.id

    def _accept(self, of: Any) -> Operation[Any]:
        bound, option = store_kit.confirmation(of), store_kit.option(of)
        return payments.accept(bound, option, 7, (None, None), NOW_US)

    @staticmethod
    async def _won(store: Store, op: Operation[Any]) -> bool:
        return bool(await store.write(op))

    async def _options(self, store: Store, who: str) -> int:
        new = [store_kit.option(self.many, id=f"opt_{who}_{n}") for n in range(3)]
        return len(await store.write(new_options.add(self.many.id, who, new, ROOM)))

    async def _nonce(self, store: Store, who: str) -> bool:
        spare = FreeNonce(self.nonce, "value", 1)
        new = store_kit.issued(self.ends, option_id=f"opt_{who}")
        try:
            await store.write(durable_nonces.issue(new, CHAIN, spare, NOW_US))
        except durable_nonces.Raced:
            return False
        return True

    async def _append(self, store: Store) -> str | None:
        """The first owner of the lease signs, as it knows of nobody else."""
        made = store_kit.tx(
            sender=self.lease, nonce=1, payout_ids=(self.payout.id,), payment_ids=()
        )
        made = replace(made, id=f"tx_{self.number}", hash=f"0x{self.number:064x}")
        claim = payouts.claim(self.payout, made.hash, None, None, NOW_US)
        claim = _slowly(claim, self._signals.signing)
        try:
            await store.write(chain_txs.append(made, 1, self.lease, claim))
        except chain_txs.LostLease:
            return None
        return made.id

    async def _take_over(self, store: Store) -> list[str] | None:
        """Another takes the lease, and reads what the first one has written down."""
        if self.number % 2 == 0:
            await asyncio.to_thread(self._signals.signing.acquire, timeout=_ROUND_S)
        taken = leases.acquire(self.lease, "second", LATER_US, 5 * 10**8, steal=False)
        if await store.write(taken):
            return [one.id for one in await store.read(chain_txs.open_txs(CHAIN, self.lease))]
        return None

    async def _revoke(self, store: Store) -> bool:
        await asyncio.to_thread(self._signals.known.acquire, timeout=_ROUND_S)
        revoked = await store.write(keys.revoke_key(self.api_key.key_id, NOW_US))
        self._signals.revoked.release()
        return revoked is not None

    async def _create_twice(self, store: Store) -> list[bool]:
        """Before the key is revoked, and after whoever revoked it was told that it is."""
        first = await self._create_with_key(store, "k")
        self._signals.known.release()
        await asyncio.to_thread(self._signals.revoked.acquire, timeout=_ROUND_S)
        return [first, await self._create_with_key(store, "r")]

    async def _create_with_key(self, store: Store, kind: str) -> bool:
        used = Standing(key_id=self.api_key.key_id)
        try:
            await store.write(standing.checked(used, payments.create(_made(self.number, kind))))
        except FlorinError:
            return False
        return True


# as many statements take, while others do theirs
_TIME_PASSES = Statement(select(func.pg_sleep(0.02)))


@operation
def _slowly(claim: Operation[None], signing: Any) -> Op[None]:
    signing.release()
    yield _TIME_PASSES()
    yield from claim


def _ordinal(existing: Sequence[Refund], _who: str) -> int:
    return len(existing) + 1


@operation
def _refund(of: Any, who: str) -> Op[bool]:
    """As a merchant asks for one, of more than half of the payment: it, and what pays it."""
    yield from refunds.lock(of.id)
    existing = yield from refunds.list_refunds(of.id)
    if sum(refund.value for refund in existing) + 5 > 9:
        return False
    new_id = f"rfnd_{who}_{of.id}"
    new = Refund(new_id, of.id, "caip19/x", 5, PAYER, RefundStatus.PENDING, None, NOW_US)
    version, ordinal = (yield from refunds.next_version(of.id)), _ordinal(existing, who)
    yield from refunds.create(replace(new, version=version, ordinal=ordinal))
    kind, asset = PayoutKind.REFUND, store_kit.ASSET
    yield from payouts.add(Payout(new_id, kind, "m", of.id, False, CHAIN, asset, 5, PAYER, NOW_US))
    return True


# ---- holes that have to be found


def _no_guard() -> None:
    """Whoever finds a lapsed key takes it, as if nobody else looked at it."""

    def claim(c: idempotency.Claim) -> Op[Replay | None]:
        entry = idempotency._CLAIM(  # noqa: SLF001
            scope=c.scope, key=c.key, fingerprint=c.fingerprint, body=b"",
            created_at_us=c.now_us, expires_at_us=None,
        )  # fmt: skip
        if (yield entry):
            return None
        for _, body, expires in (yield idempotency._FIND(scope_=c.scope, key_=c.key)):  # noqa: SLF001
            if expires is None or expires > c.now_us:
                return Replay(body)
            yield idempotency._FORGET(scope_=c.scope, key_=c.key)  # noqa: SLF001
            yield entry
        return None

    idempotency._claim = claim  # noqa: SLF001


def _no_fence() -> None:
    """Who signs looks whether the lease is its own, and does not keep it so."""
    leases._EPOCH = Statement(select(lease.c.epoch).where(lease.c.name == param("lease")))  # noqa: SLF001


def _no_lock() -> None:
    """Who adds options counts those of others, and lets them add more meanwhile."""
    new_options._LOCK = Statement(select(payment.c.id).where(payment.c.id == param("payment_id")))  # noqa: SLF001


def _no_refund_lock() -> None:
    """Who refunds a part reads what others refund, and lets them refund more meanwhile.

    Refunds are numbered, and no number comes twice: that alone would undo the second one.
    """
    global _ordinal  # noqa: PLW0603  (in a process of its own)
    refunds._LOCK = Statement(select(payment.c.id).where(payment.c.id == param("payment_id")))  # noqa: SLF001
    _ordinal = lambda _existing, who: int(who, 16) + 1  # noqa: E731


def _claim_outside() -> None:
    """A key is looked up in a transaction of its own, before the work."""

    async def create(self: Round, store: Store, who: str) -> str | None:
        if await store.read(idempotency.find(self.key.scope, self.key.key, NOW_US)):
            return None
        made = _made(self.number, f"c{who}")
        await store.write(payments.create(made))
        await store.write(idempotency.forget_lapsed(NOW_US, 1000))
        await store.write(idempotency.once(self.key, payments.create(_made(self.number, f"d{who}")), lambda _: b""))  # fmt: skip  # noqa: E501
        return made.id

    Round._create = create  # type: ignore[method-assign]  # noqa: SLF001


def _stale_key() -> None:
    """What is known of a key is believed, whatever became of it meanwhile."""
    refusal, known = standing._refusal, {}  # noqa: SLF001

    def remembered(used: Standing, rows: list[Row]) -> Any:
        return refusal(used, known.setdefault(used, rows))

    standing._refusal = remembered  # noqa: SLF001


HOLES: dict[str, Callable[[], None]] = {
    "guard": _no_guard,
    "fence": _no_fence,
    "lock": _no_lock,
    "refund": _no_refund_lock,
    "claim": _claim_outside,
    "key": _stale_key,
}

# ---- racing


def _race(
    database: Any, first: int, rounds: int, who: int, signals: Signals, told: Path, hole: str
) -> None:
    if hole:
        HOLES[hole]()

    async def together() -> None:
        await asyncio.to_thread(signals.begin.wait, _ROUND_S)

    async def main() -> None:
        store = await open_store(database)
        with told.open("w") as file:
            for number in range(first, first + rounds):
                here = Round(number, signals)
                works = {
                    (name, call): work
                    for call in range(CALLS)
                    for name, work in here.races(store, f"{who}{call}").items()
                }
                await together()
                results = await asyncio.gather(*works.values(), return_exceptions=True)
                # by itself: whoever shares a transaction with others may begin anew with them
                for name, race in here.apart().items():
                    await together()
                    works[name, 0] = race(store, who)
                    results += await asyncio.gather(works[name, 0], return_exceptions=True)
                for (name, _), result in zip(works, results, strict=True):
                    what = repr(result) if isinstance(result, Exception) else result
                    json.dump([number, who, name, what], file)
                    file.write("\n")
        await store.close()

    asyncio.run(main())


async def _prepare(database: Any, begin: int, rounds: int) -> None:
    store = await open_store(database)
    for number in range(begin, begin + rounds):
        await Round(number).prepare(store)
    await store.close()


# each process does something else
_ALONE = ("fence", "key")


def judge(told: list[tuple[int, int, str, Any]]) -> list[str]:
    """What cannot be, by what callers were told."""
    wrong = []
    rounds: dict[int, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for number, who, name, what in told:
        rounds[number][f"{name} {who}" if name in _ALONE else name].append(what)
    for number, found in sorted(rounds.items()):
        if errors := [one for name in found.values() for one in name if _is_error(one)]:
            wrong.append(f"round {number}: {errors[0]}")
            continue
        alone = (("create",), ("refund",), ("nonce",))
        for names in (*alone, ("cancel", "confirm"), ("expire", "confirm late")):
            won = sum(bool(one) for name in names for one in found[name])
            if won != 1:
                wrong.append(f"round {number}: {won} of {' and '.join(names)} won")
        if max(found["options"]) > ROOM.per_payment:
            wrong.append(f"round {number}: {max(found['options'])} options were stored")
        (signed,), (seen,) = found["fence 0"], found["fence 1"]
        if signed and seen is not None and signed not in seen:
            wrong.append(f"round {number}: {signed} was signed after the lease was taken over")
        if (found["key 0"], found["key 1"]) != ([True], [[True, False]]):
            wrong.append(f"round {number}: with a key that was revoked, {found['key 1']}")
    return wrong


def _is_error(told: Any) -> bool:
    return isinstance(told, str) and "(" in told


async def _whole(database: Any) -> list[str]:
    store = await open_store(database)
    try:
        wrong = await store.survey(history.check()) + await store.survey(ledger.check())
    finally:
        await store.close()
    return wrong


def campaign(folder: Path, engine: str, rounds: int, *, hole: str = "", batch: int = 50):
    """Races so many rounds, and tells what was wrong; with a `hole` it ends at the first."""
    database = postgres.of(folder, engine)
    context = multiprocessing.get_context("fork")
    for begin in range(1, rounds + 1, batch):
        count = min(batch, rounds + 1 - begin)
        asyncio.run(_prepare(database, begin, count))
        signals = Signals(context.Barrier(PROCESSES), *(context.Semaphore(0) for _ in range(3)))
        files = [folder / f"told-{begin}-{who}" for who in range(PROCESSES)]
        racers = [
            context.Process(target=_race, args=(database, begin, count, who, signals, file, hole))
            for who, file in enumerate(files)
        ]
        for one in racers:
            one.start()
        for one in racers:
            one.join()
        told = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        wrong = judge(told) + asyncio.run(_whole(database))
        if any(one.exitcode for one in racers) or len(told) != PROCESSES * count * (
            7 * CALLS + 1 + len(_ALONE)
        ):
            wrong.append("a process did not end its rounds")
        if wrong:
            return wrong
    return []


def main() -> None:
    rounds, *more = sys.argv[1:] or ["5000"]
    engine = postgres.SERIALIZABLE if "serializable" in more else postgres.POSTGRES
    hole = next((one for one in more if one in HOLES), "")
    with tempfile.TemporaryDirectory() as folder:
        wrong = campaign(Path(folder), engine, int(rounds), hole=hole)
    print("\n".join(wrong) or f"{rounds} rounds, nothing wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
