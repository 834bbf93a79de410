"""Test that a payment is payable until just before `expiresAt`, to the microsecond."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.model.environment import Stage, staged
from tests.model.lifecycle import EXPIRED, SECOND_US, WRONG_STATE, Submission
from tests.model.player import Player
from tests.support.api import Json

ACTIONS = ("confirm", "cancel by the user", "cancel by the merchant", "options", "fetch", "status")
AFTER = {
    "confirm": EXPIRED,
    "cancel by the user": WRONG_STATE,
    "cancel by the merchant": WRONG_STATE,
    "options": EXPIRED,
    "fetch": EXPIRED,
    "status": {"status": "expired", "isFinal": True, "info": None},
}
BEFORE = {
    "confirm": {"status": "processing", "isFinal": False, "pollInMs": 500, "info": None},
    "status": {"status": "requires_action", "isFinal": False, "pollInMs": 1000, "info": None},
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    with staged(tmp_path_factory.mktemp("expiry") / "home") as stage:
        yield stage


async def perform_action(
    player: Player, stage: Stage, api: str, name: str, ttl_s: int, from_us: int, wake: bool
) -> tuple[int, str] | Json:
    """Return the answer to the first call on a payment `from_us` after its expiry."""
    calls, buyer = stage.apis[api], stage.buyers[0]
    life = await player.create(api, player.order(1250, ttl_s))
    assert life is not None
    await player.options(api, life, buyer)
    option = player.options_by_id[life.offers[buyer.account]]
    sent = Submission(option["id"], (buyer.execute(option),), payer=buyer.payer)
    stage.clock.move(life.expires_at * SECOND_US + from_us - stage.now_us, wake=wake)
    request = {
        "confirm": lambda: calls.confirm(life.id, sent.option_id, list(sent.outputs)),
        "cancel by the user": lambda: calls.cancel(life.id),
        "cancel by the merchant": lambda: calls.merchant_cancel(life.id),
        "options": lambda: calls.options(life.id, [buyer.account]),
        "fetch": lambda: calls.fetch(life.id, sent.option_id),
        "status": lambda: calls.status(life.id),
    }
    result = await player.ask(request[name]())
    # a later reader sees the same
    life.clock(stage.now_us)
    if name == "confirm":
        life.confirm(sent)
    elif name.startswith("cancel"):
        life.cancel(name.rsplit(maxsplit=1)[-1])
    await player.check(api, life)
    return result


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    api=st.sampled_from(["rest", "rest", "rest", "grpc"]),
    name=st.sampled_from(ACTIONS),
    ttl_s=st.integers(1, 30 * 86_400),
    from_us=st.integers(-SECOND_US, SECOND_US) | st.sampled_from([-1, 0, 1]),
    noticed=st.booleans(),
)
def test_payment_is_over_exactly_at_its_expiry(stage, api, name, ttl_s, from_us, noticed):
    player = Player(stage)
    result = stage.run(perform_action(player, stage, api, name, ttl_s, from_us, noticed))
    stage.run(player.submitted())
    if from_us >= 0:
        assert result == AFTER[name]
    elif name in BEFORE:
        assert result == BEFORE[name]
    else:
        assert not isinstance(result, tuple)
        assert result.get("status", "cancelled") == "cancelled"
