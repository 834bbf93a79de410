"""The state machine: actions on payments, drawn step by step by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
)

from tests.model.environment import WALLETS, Stage
from tests.model.lifecycle import GRACE_S, SECOND_US, Life, Submission
from tests.model.player import Player

# a gRPC call takes several times as long as a REST call in memory
APIS = st.sampled_from(["rest"] * 15 + ["grpc"])
TTLS_S = st.sampled_from([None, None, 1, 60, 86_400, 30 * 86_400])
BUYERS = st.integers(0, WALLETS - 1)
KEYS = st.sampled_from("ab")
# an action is more useful on a payment that can still change
ALIVE = st.sampled_from([True, True, True, False])
# each open payment is checked at every step of the clock and the chain
OPEN_MAX, PAYMENTS_MAX = 3, 10
OUTCOMES = ("succeeded", "failed", "expired", "cancelled", "stall")

MISMATCHED = "0x" + "11" * 32
FORGED = "0x" + "22" * 65
FAULTS = {
    "another kind": ((MISMATCHED,), "mismatch"),
    "too many": ((FORGED, FORGED), "mismatch"),
    "nonsense": (("nonsense",), "bad"),
    "forged": ((FORGED,), "bad"),
}


class Lifecycle(RuleBasedStateMachine):
    """A few payments, and everything that can happen to them. Created by `machine`."""

    stage: Stage
    payments: Bundle[Life] = Bundle("payments")

    def __init__(self) -> None:
        super().__init__()
        self.player = Player(self.stage)
        self.bodies: dict[str, Any] = {}

    def teardown(self) -> None:
        self.stage.run(self.player.close())

    def room(self) -> bool:
        lives = self.player.lives
        going_on = [life for life in lives if not life.is_final]
        return len(lives) < PAYMENTS_MAX and len(going_on) < OPEN_MAX

    def any_payment(self) -> bool:
        return bool(self.player.lives)

    @initialize(target=payments, api=APIS, ttl_s=TTLS_S)
    def begin(self, api: str, ttl_s: int | None) -> Life | MultipleResults[Life]:
        return self._create(api, self.player.order(1250, ttl_s))

    @precondition(room)
    @rule(target=payments, api=APIS, ttl_s=TTLS_S)
    def create(self, api: str, ttl_s: int | None) -> Life | MultipleResults[Life]:
        return self._create(api, self.player.order(1250, ttl_s))

    @precondition(room)
    @rule(
        target=payments,
        api=APIS,
        ttl_s=TTLS_S | st.just(0),
        key=KEYS,
        other=st.booleans(),
    )
    def create_under_a_key(
        self, api: str, ttl_s: int | None, key: str, other: bool
    ) -> Life | MultipleResults[Life]:
        """Create with the key's earlier body, or with another."""
        body = self.bodies.get(key)
        if body is None or other:
            body = self.bodies[key] = self.player.order(1251, ttl_s)
        return self._create(api, body, key)

    def _create(
        self, api: str, body: dict[str, Any], key: str | None = None
    ) -> Life | MultipleResults[Life]:
        life = self.stage.run(self.player.create(api, body, key))
        return multiple() if life is None else life

    def _alive(self, life: Life, alive: bool) -> Life:
        """Return the payment, or the newest one that can still change if `alive`."""
        if alive and life.is_final:
            return next(
                (each_life for each_life in self.player.lives[::-1] if not each_life.is_final), life
            )
        return life

    @rule(api=APIS, life=payments, alive=ALIVE, buyer=BUYERS)
    def options(self, api: str, life: Life, alive: bool, buyer: int) -> None:
        life = self._alive(life, alive)
        self.stage.run(self.player.options(api, life, self.stage.buyers[buyer]))

    @rule(api=APIS, life=payments, other=payments, data=st.sampled_from(["", "", "7b7d"]))
    def fetch(self, api: str, life: Life, other: Life, data: str) -> None:
        option_id = next(iter(other.offers.values()), "opt_none")
        self.stage.run(self.player.fetch(api, life, option_id, data))

    @rule(api=APIS, life=payments, alive=ALIVE, buyer=BUYERS, seal=st.booleans())
    def pay(self, api: str, life: Life, alive: bool, buyer: int, seal: bool) -> None:
        """Pay as far as a wallet gets; sometimes a block follows."""
        life = self._alive(life, alive)
        who = self.stage.buyers[buyer]
        if who.account not in life.offers:
            self.stage.run(self.player.options(api, life, who))
        if who.account in life.offers:
            sent = self._good(life, buyer)
            self.stage.run(self.player.confirm(api, life, sent))
            if seal and life.status == "processing":
                self.stage.run(self.player.settle(api))

    @rule(
        api=APIS,
        life=payments,
        alive=ALIVE,
        other=payments,
        own=st.booleans(),
        fault=st.sampled_from(sorted(FAULTS)),
    )
    def confirm_badly(
        self, api: str, life: Life, alive: bool, other: Life, own: bool, fault: str
    ) -> None:
        """Confirm with invalid outputs, for an option of this payment, of another, or of none."""
        life = self._alive(life, alive)
        option_id = next(iter((life if own else other).offers.values()), "opt_none")
        outputs, wrong = FAULTS[fault]
        self.stage.run(self.player.confirm(api, life, Submission(option_id, outputs, wrong)))

    @rule(api=APIS, life=payments)
    def confirm_again(self, api: str, life: Life) -> None:
        """Repeat the bound confirm: a poll, in any state."""
        if life.bound is not None:
            self.stage.run(self.player.confirm(api, life, Submission(*life.bound)))

    def _good(self, life: Life, buyer: int) -> Submission:
        who = self.stage.buyers[buyer]
        option = self.player.options_by_id[life.offers[who.account]]
        return Submission(option["id"], (who.execute(option),), payer=who.payer)

    @rule(api=APIS, life=payments, alive=st.booleans(), by=st.sampled_from(["user", "merchant"]))
    def cancel(self, api: str, life: Life, alive: bool, by: str) -> None:
        life = self._alive(life, alive)
        self.stage.run(self.player.cancel(api, life, by))

    @rule(api=APIS, life=payments, alive=st.booleans(), outcome=st.sampled_from(OUTCOMES))
    def simulate(self, api: str, life: Life, alive: bool, outcome: str) -> None:
        self.stage.run(self.player.simulate(api, self._alive(life, alive), outcome))

    @rule(
        api=APIS,
        life=payments,
        paid=ALIVE,
        unit=st.sampled_from(["", "token", "token", "fiat", "fiat", "fiat", "other"]),
        tenths=st.sampled_from([0, 1, 2, 5, 10, 10]),
        more=st.sampled_from([0, 0, 0, 1, -1]),
    )
    def refund(self, api: str, life: Life, paid: bool, unit: str, tenths: int, more: int) -> None:
        """Refund all of a payment, or a share of the rest, sometimes plus a minor unit."""
        if paid:
            life = self._succeeded(life)
        self._refund(api, life, unit, tenths, more)

    @precondition(lambda self: any(life.status == "succeeded" for life in self.player.lives))
    @rule(
        api=APIS,
        life=payments,
        parts=st.lists(
            st.tuples(st.sampled_from(["token", "fiat"]), st.sampled_from([1, 2, 5])),
            min_size=2,
            max_size=3,
        ),
        unit=st.sampled_from(["token", "fiat"]),
        more=st.sampled_from([0, 1]),
    )
    def refund_in_parts(
        self, api: str, life: Life, parts: list[tuple[str, int]], unit: str, more: int
    ) -> None:
        """Refund several shares, then the whole rest, or a minor unit more than that."""
        life = self._succeeded(life)
        for part_unit, tenths in parts:
            self._refund(api, life, part_unit, tenths, 0)
        self._refund(api, life, unit, 10, more)

    def _succeeded(self, life: Life) -> Life:
        return next(
            (each_life for each_life in self.player.lives[::-1] if each_life.status == "succeeded"),
            life,
        )

    def _refund(self, api: str, life: Life, unit: str, tenths: int, more: int) -> None:
        left = life.fiat_left if unit == "fiat" else life.token_left
        self.stage.run(self.player.refund(api, life, unit, left * tenths // 10 + more))

    @rule(api=APIS, life=payments)
    def follow(self, api: str, life: Life) -> None:
        self.stage.run(self.player.follow(api, life))

    @rule(life=payments)
    def poll(self, life: Life) -> None:
        self.stage.run(self.player.poll(life))

    @precondition(any_payment)
    @rule(
        api=APIS,
        by_us=st.sampled_from([1, 999_999, SECOND_US, 5 * SECOND_US, 61 * SECOND_US]),
        wake=st.booleans(),
    )
    def advance(self, api: str, by_us: int, wake: bool) -> None:
        self.stage.run(self.player.advance(api, by_us, wake=wake))

    @rule(api=APIS, life=payments, after_us=st.sampled_from([-1, 0, 1]), wake=st.booleans())
    def advance_to_the_expiry(self, api: str, life: Life, after_us: int, wake: bool) -> None:
        """Advance exactly to the moment of expiry, or right next to it."""
        by_us = life.expires_at * SECOND_US + after_us - self.stage.now_us
        if not life.is_final and by_us > 0:
            self.stage.run(self.player.advance(api, by_us, wake=wake))

    @rule(api=APIS, life=payments, after_s=st.sampled_from([-1, 0]))
    def advance_to_the_lapse(self, api: str, life: Life, after_s: int) -> None:
        """Advance to the moment from which a signature moves no money."""
        by_us = (life.expires_at + GRACE_S + after_s) * SECOND_US - self.stage.now_us
        if life.status == "processing" and by_us > 0:
            self.stage.run(self.player.advance(api, by_us, wake=True))

    @precondition(lambda self: any(life.status == "processing" for life in self.player.lives))
    @rule(api=APIS)
    def settle(self, api: str) -> None:
        self.stage.run(self.player.settle(api))


def machine(on: Stage) -> type[Lifecycle]:
    """Return a machine class whose runs share a stage."""

    class OnStage(Lifecycle):
        stage = on

    return OnStage
