"""Race two processes for the same rows of one database, round by round.

In each round both do the same at the same moment: a request under a lapsed key, every end of one
payment, a refund, options beyond their limit, a durable nonce, and a transaction of a process that
is losing its lease. Then one revokes the key with which the other creates. All answers and the
store must look as if they had come one after the other. `python -m tests.chaos.store_race 5000
[serializable] [bug]`, where `bug` is the name of a planted bug.
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

from florin_server.accounts.store import credential_checks, keys
from florin_server.db.engine.query import Op, Operation, Statement, operation, param
from florin_server.db.engine.store import Store
from florin_server.db.tables.tables import lease_table, payment_table
from florin_server.domain.accounts.account import ApiKey, CredentialStatus
from florin_server.domain.accounts.credentials import ApiKeyKind
from florin_server.domain.errors import ApiError
from florin_server.domain.payments.payment import (
    CancellationReason,
    FreeNonce,
    Refund,
    RefundStatus,
)
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.idempotency.store import responses as idempotency
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.money.ledger.store import ledger
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import history, new_options, payments
from florin_server.money.payouts.store import payouts
from florin_server.money.refunds import store as refunds
from florin_server.money.settlement.store import chain_txs, durable_nonces
from florin_server.operations.store import leases
from sqlalchemy import func, select

from tests.support import postgres, store_factories
from tests.support.store_factories import CHAIN, LATER_US, NOW_US, PAYER

PROCESSES, CALLS = 2, 2
_BY = CancellationReason.BY_USER
ROOM = new_options.OptionQuota(per_origin=20, per_payment=4)
# a round that takes longer than this is stuck
_ROUND_S = 60


def _make_payment(number: int, kind: str, **changes: Any) -> Any:
    return store_factories.make_payment(id=f"pay_{kind}{number:026}", **changes)


class Signals(NamedTuple):
    """Signals between processes, which make them race however busy the machine is.

    `begin` is a barrier, the others are semaphores. The signing process releases `signing`; the
    process that takes over waits for it in every other round. `key_used` is released after a key
    was used, `key_revoked` after it was revoked.
    """

    begin: Any
    signing: Any
    key_used: Any
    key_revoked: Any


class Round:
    """The rows of one round, the same in every process."""

    def __init__(self, number: int, signals: Signals | None = None) -> None:
        self.number = number
        self._signals = signals
        self.key = store_factories.make_claim(f"key-{number}")
        self.ends = _make_payment(number, "e", reference_id="")
        self.lapses = _make_payment(number, "l", expires_at=NOW_US // 1_000_000 + 1)
        self.paid = _make_payment(number, "p")
        self.many = _make_payment(number, "m")
        self.nonce = f"nonce-{number}"
        self.payout = Payout(
            f"pout_{number}", PayoutKind.RETURN, "m", None, False, CHAIN, store_factories.ASSET, 5,
            PAYER, NOW_US, backed=True,
        )  # fmt: skip
        self.lease = f"lease-{number}"
        kind, no_scopes = ApiKeyKind.WALLET, frozenset[str]()
        self.api_key = ApiKey(
            f"race-{number}", kind, False, None, b"h%d" % number, "last", no_scopes, None, NOW_US
        )

    async def prepare(self, store: Store) -> None:
        """Store the rows that exist before the race."""
        lapsed = replace(self.key, now_us=NOW_US - 10, ttl_us=5)
        await store.write(idempotency.bind(lapsed))
        for item in (self.ends, self.lapses, self.paid, self.many):
            await store.write(payments.create(item))
        await store.write(durable_nonces.register(CHAIN, [self.nonce]))
        await store.write(durable_nonces.record_advance(CHAIN, self.nonce, "", "value", 1))
        await store.write(payouts.add(self.payout))
        await store.write(leases.acquire(self.lease, "first", NOW_US, 1, steal=False))
        await store.write(keys.put_key(self.api_key))

    def build_actions(self, store: Store, who: str) -> dict[str, Any]:
        """Return the actions of one process by name; each returns its result."""
        return {
            "create": self._create(store, who),
            "cancel": self._write(store, payments.cancel(self.ends.id, _BY, NOW_US)),
            "confirm": self._write(store, self._accept(self.ends)),
            "expire": self._write(store, payments.expire([self.lapses.id], LATER_US)),
            "confirm late": self._write(store, self._accept(self.lapses)),
            "options": self._add_options(store, who),
            "nonce": self._assign_nonce(store, who),
        }

    def refund_part(self, store: Store, who: int) -> Any:
        """Refund more than half of one payment, in each process."""
        return self._write(store, _refund(self.paid, f"{who}0"))

    def race_for_lease(self, store: Store, who: int) -> Any:
        """Take over a lease once in a round, while its owner signs."""
        return self._take_over(store) if who else self._sign_as_first_owner(store)

    def race_for_key(self, store: Store, who: int) -> Any:
        """Revoke a key once in a round, while the other process uses it."""
        return self._create_twice(store) if who else self._revoke(store)

    def get_separate_actions(self) -> dict[str, Any]:
        """Return the actions that both do at one moment, with nothing else in parallel."""
        return {"refund": self.refund_part, "fence": self.race_for_lease, "key": self.race_for_key}

    async def _create(self, store: Store, who: str) -> str | None:
        created = _make_payment(self.number, f"c{who}")
        body = created.id.encode()
        result = await store.write(
            idempotency.run_once(self.key, payments.create(created), lambda _: body)
        )
        return None if isinstance(result, StoredResponse) else result.id

    def _accept(self, of: Any) -> Operation[Any]:
        bound, option = store_factories.make_confirmation(of), store_factories.make_option(of)
        return payments.accept(bound, option, 7, (None, None), NOW_US)

    @staticmethod
    async def _write(store: Store, op: Operation[Any]) -> bool:
        return bool(await store.write(op))

    async def _add_options(self, store: Store, who: str) -> int:
        new = [store_factories.make_option(self.many, id=f"opt_{who}_{n}") for n in range(3)]
        return len(await store.write(new_options.add(self.many.id, who, new, ROOM)))

    async def _assign_nonce(self, store: Store, who: str) -> bool:
        spare = FreeNonce(self.nonce, "value", 1)
        new = store_factories.make_resolved_build(self.ends, option_id=f"opt_{who}")
        try:
            await store.write(durable_nonces.assign(new, CHAIN, spare, NOW_US))
        except durable_nonces.NonceConflict:
            return False
        return True

    async def _sign_as_first_owner(self, store: Store) -> str | None:
        """Sign as the first owner of the lease, unaware of any other."""
        tx = store_factories.make_chain_tx(
            sender=self.lease, nonce=1, payout_ids=(self.payout.id,), payment_ids=()
        )
        tx = replace(tx, id=f"tx_{self.number}", hash=f"0x{self.number:064x}")
        claim = payouts.claim(self.payout, tx.hash, None, None, NOW_US)
        claim = _slowly(claim, self._signals.signing)
        try:
            await store.write(chain_txs.append(tx, 1, self.lease, claim))
        except chain_txs.LostLease:
            return None
        return tx.id

    async def _take_over(self, store: Store) -> list[str] | None:
        """Take over the lease, and read what the first owner recorded."""
        if self.number % 2 == 0:
            await asyncio.to_thread(self._signals.signing.acquire, timeout=_ROUND_S)
        taken = leases.acquire(self.lease, "second", LATER_US, 5 * 10**8, steal=False)
        if await store.write(taken):
            return [tx.id for tx in await store.read(chain_txs.list_open(CHAIN, self.lease))]
        return None

    async def _revoke(self, store: Store) -> bool:
        await asyncio.to_thread(self._signals.key_used.acquire, timeout=_ROUND_S)
        revoked = await store.write(keys.revoke_key(self.api_key.key_id, NOW_US))
        self._signals.key_revoked.release()
        return revoked is not None

    async def _create_twice(self, store: Store) -> list[bool]:
        """Create before the key is revoked, and again after the revocation was confirmed."""
        first = await self._create_with_key(store, "k")
        self._signals.key_used.release()
        await asyncio.to_thread(self._signals.key_revoked.acquire, timeout=_ROUND_S)
        return [first, await self._create_with_key(store, "r")]

    async def _create_with_key(self, store: Store, kind: str) -> bool:
        used = CredentialStatus(key_id=self.api_key.key_id)
        try:
            await store.write(
                credential_checks.run_if_active(
                    used, payments.create(_make_payment(self.number, kind))
                )
            )
        except ApiError:
            return False
        return True


# as many statements take, while others run theirs
_TIME_PASSES = Statement(select(func.pg_sleep(0.02)), str)


@operation
def _slowly(claim: Operation[None], signing: Any) -> Op[None]:
    signing.release()
    yield from _TIME_PASSES.single()
    yield from claim


def _ordinal(existing: Sequence[Refund], _who: str) -> int:
    return len(existing) + 1


@operation
def _refund(of: Any, who: str) -> Op[bool]:
    """Refund more than half of the payment, as a merchant does, with its payout."""
    yield from refunds.lock(of.id)
    existing = yield from refunds.list_refunds(of.id)
    if sum(refund.value for refund in existing) + 5 > 9:
        return False
    new_id = f"rfnd_{who}_{of.id}"
    new = Refund(new_id, of.id, "caip19/x", 5, PAYER, RefundStatus.PENDING, None, NOW_US)
    version, ordinal = (yield from refunds.get_next_version(of.id)), _ordinal(existing, who)
    yield from refunds.create(replace(new, version=version, ordinal=ordinal))
    kind, asset = PayoutKind.REFUND, store_factories.ASSET
    yield from payouts.add(Payout(new_id, kind, "m", of.id, False, CHAIN, asset, 5, PAYER, NOW_US))
    return True


# ---- planted bugs that must be found


def _no_guard() -> None:
    """Take a lapsed key as if no other process looked at it."""

    def claim(c: idempotency.IdempotencyClaim) -> Op[StoredResponse | None]:
        entry = {
            "scope": c.scope, "key": c.key, "fingerprint": c.fingerprint, "body": b"",
            "created_at_us": c.now_us, "expires_at_us": None,
        }  # fmt: skip
        if (yield from idempotency._CLAIM.any(**entry)):  # noqa: SLF001
            return None
        for bound in (yield from idempotency._FIND.all(scope_=c.scope, key_=c.key)):  # noqa: SLF001
            if bound.expires_at_us is None or bound.expires_at_us > c.now_us:
                return StoredResponse(bound.body)
            yield idempotency._FORGET(scope_=c.scope, key_=c.key)  # noqa: SLF001
            yield from idempotency._CLAIM.any(**entry)  # noqa: SLF001
        return None

    idempotency._claim_key = claim  # noqa: SLF001


def _no_fence() -> None:
    """Check the lease before signing, without a lock on it."""
    unlocked = select(lease_table.c.epoch).where(lease_table.c.name == param("lease"))
    leases._EPOCH = Statement(unlocked, int)  # noqa: SLF001


def _no_lock() -> None:
    """Count the options without a lock, so that others add more meanwhile."""
    unlocked = select(payment_table.c.id).where(payment_table.c.id == param("payment_id"))
    new_options._LOCK = Statement(unlocked, str)  # noqa: SLF001


def _no_refund_lock() -> None:
    """Read the refunds without a lock, so that others add more meanwhile.

    Refunds are numbered, and each number is unique. That alone would undo the second one, so the
    numbers are changed as well.
    """
    global _ordinal  # noqa: PLW0603  (in its own process)
    unlocked = select(payment_table.c.id).where(payment_table.c.id == param("payment_id"))
    refunds._LOCK = Statement(unlocked, str)  # noqa: SLF001
    _ordinal = lambda _existing, who: int(who, 16) + 1  # noqa: E731


def _claim_outside() -> None:
    """Look up a key in a separate transaction, before the work."""

    async def create(self: Round, store: Store, who: str) -> str | None:
        if await store.read(idempotency.find_fingerprint(self.key.scope, self.key.key, NOW_US)):
            return None
        created = _make_payment(self.number, f"c{who}")
        await store.write(payments.create(created))
        await store.write(idempotency.forget_lapsed(NOW_US, 1000))
        await store.write(idempotency.run_once(self.key, payments.create(_make_payment(self.number, f"d{who}")), lambda _: b""))  # fmt: skip  # noqa: E501
        return created.id

    Round._create = create  # type: ignore[method-assign]  # noqa: SLF001


def _stale_key() -> None:
    """Trust a cached key status, whatever changed meanwhile."""
    refusal, existing = credential_checks._find_refusal, {}  # noqa: SLF001

    def remembered(used: CredentialStatus, key_status: Any) -> Any:
        return refusal(used, existing.setdefault(used, key_status))

    credential_checks._find_refusal = remembered  # noqa: SLF001


PLANTED_BUGS: dict[str, Callable[[], None]] = {
    "guard": _no_guard,
    "fence": _no_fence,
    "lock": _no_lock,
    "refund": _no_refund_lock,
    "claim": _claim_outside,
    "key": _stale_key,
}

# ---- racing


def _race(
    database: Any, first: int, rounds: int, who: int, signals: Signals, path: Path, bug: str
) -> None:
    if bug:
        PLANTED_BUGS[bug]()

    async def wait_at_barrier() -> None:
        await asyncio.to_thread(signals.begin.wait, _ROUND_S)

    async def main() -> None:
        store = await open_store(database)
        with path.open("w") as file:
            for number in range(first, first + rounds):
                current = Round(number, signals)
                works = {
                    (name, call): work
                    for call in range(CALLS)
                    for name, work in current.build_actions(store, f"{who}{call}").items()
                }
                await wait_at_barrier()
                results = await asyncio.gather(*works.values(), return_exceptions=True)
                # alone: an action that shares a transaction with others can be retried with them
                for name, race in current.get_separate_actions().items():
                    await wait_at_barrier()
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


# each process acts differently
_ALONE = ("fence", "key")


def find_violations(answers: list[tuple[int, int, str, Any]]) -> list[str]:
    """Return what the callers' answers prove impossible."""
    violations = []
    rounds: dict[int, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for number, who, name, what in answers:
        rounds[number][f"{name} {who}" if name in _ALONE else name].append(what)
    for number, results in sorted(rounds.items()):
        if errors := [item for name in results.values() for item in name if _is_error(item)]:
            violations.append(f"round {number}: {errors[0]}")
            continue
        alone = (("create",), ("refund",), ("nonce",))
        for names in (*alone, ("cancel", "confirm"), ("expire", "confirm late")):
            winner_count = sum(bool(item) for name in names for item in results[name])
            if winner_count != 1:
                violations.append(f"round {number}: {winner_count} of {' and '.join(names)} won")
        if max(results["options"]) > ROOM.per_payment:
            violations.append(f"round {number}: {max(results['options'])} options were stored")
        (signed,), (seen,) = results["fence 0"], results["fence 1"]
        if signed and seen is not None and signed not in seen:
            violations.append(f"round {number}: {signed} was signed after the lease was taken over")
        if (results["key 0"], results["key 1"]) != ([True], [[True, False]]):
            violations.append(f"round {number}: with a key that was revoked, {results['key 1']}")
    return violations


def _is_error(result: Any) -> bool:
    return isinstance(result, str) and "(" in result


async def _check_store(database: Any) -> list[str]:
    store = await open_store(database)
    try:
        violations = await store.scan(history.check()) + await store.scan(ledger.check())
    finally:
        await store.close()
    return violations


def campaign(folder: Path, engine: str, rounds: int, *, bug: str = "", batch: int = 50):
    """Run the rounds and return the violations; with a `bug`, stop at the first."""
    database = postgres.get_database(folder, engine)
    context = multiprocessing.get_context("fork")
    for begin in range(1, rounds + 1, batch):
        count = min(batch, rounds + 1 - begin)
        asyncio.run(_prepare(database, begin, count))
        signals = Signals(context.Barrier(PROCESSES), *(context.Semaphore(0) for _ in range(3)))
        files = [folder / f"answers-{begin}-{who}" for who in range(PROCESSES)]
        racers = [
            context.Process(target=_race, args=(database, begin, count, who, signals, file, bug))
            for who, file in enumerate(files)
        ]
        for fork_process in racers:
            fork_process.start()
        for fork_process in racers:
            fork_process.join()
        answers = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        violations = find_violations(answers) + asyncio.run(_check_store(database))
        if any(racer.exitcode for racer in racers) or len(answers) != PROCESSES * count * (
            7 * CALLS + 1 + len(_ALONE)
        ):
            violations.append("a process did not end its rounds")
        if violations:
            return violations
    return []


def main() -> None:
    rounds, *more = sys.argv[1:] or ["5000"]
    engine = postgres.SERIALIZABLE if "serializable" in more else postgres.POSTGRES
    bug = next((text for text in more if text in PLANTED_BUGS), "")
    with tempfile.TemporaryDirectory() as folder:
        violations = campaign(Path(folder), engine, int(rounds), bug=bug)
    print("\n".join(violations) or f"{rounds} rounds, nothing wrong")
    sys.exit(bool(violations))


if __name__ == "__main__":
    main()
