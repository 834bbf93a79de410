"""Somebody who knows a payment and an account tells something about its buyer."""

from __future__ import annotations

import asyncio
import base64
import json
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import customer_pb2
from florin_server.config import LimitSettings
from florin_server.domain.sealed import Seal
from florin_server.store.accounts import customers
from florin_server.store.capture import collected_data

from tests.support.capture import (
    ASKED,
    DATA,
    Till,
    caller,
    export,
    hand_in,
    new_till,
    path_of,
    query_of,
    refusal,
    stored,
)
from tests.support.command import florin
from tests.support.desk import Desk, opened
from tests.support.service import NO_LIMITS
from tests.support.wallet import MUTE, Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVE = {**DATA, "fullName": "Eve Stranger"}
# an approval and a payment that were never sent
GUESSED = ["0x" + "11" * 32] * 2


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory, evm):
    async with opened(tmp_path_factory.mktemp("strangers"), evm=evm, capture=ASKED) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", params=["rest", "grpc"])
async def till(request, desk) -> Till:
    return await new_till(desk, api=getattr(desk, request.param))


def as_stranger(till: Till, client: str = "stranger", **wallet: str) -> Till:
    """What a stranger sees of a payment, asking about the buyer's account."""
    return Till(till.desk, till.payment_id, till.wallet, caller(till.desk, client, **wallet))


async def told(desk: Desk, wallet: Wallet) -> list[dict[str, Any]]:
    """What is kept about an account, the newest first."""
    kept = (await export(desk, wallet)).collected_data
    return [json.loads(one.data_json) for one in kept]


async def is_asked(till: Till) -> bool:
    return (await till.option())["collectData"] is not None


async def mute_till(desk: Desk) -> Till:
    """A payment whose buyer's account cannot sign: its wallet sends the transaction by itself."""
    till = await new_till(desk)
    await till.wallet.delegate(desk.chain, MUTE)
    return till


# what a stranger tells


async def test_what_a_stranger_brings_along_is_not_the_buyers(desk, till):
    await as_stranger(till).fetch(collected=EVE)
    # the buyer is asked all the same
    assert await is_asked(till)
    assert (await refusal(till.fetch())).details["reason"] == "ic_required"
    guessed = ["0x" + "11" * 65]
    assert (await refusal(till.confirm(guessed))).details["reason"] == "ic_required"
    await till.fetch(collected=DATA)
    assert await till.pay() == "succeeded"
    assert await told(desk, till.wallet) == [DATA]
    assert stored(desk, till) == 1
    assert not await is_asked(await new_till(desk, till.wallet))


async def test_what_a_stranger_fills_into_a_form_is_not_the_buyers(desk, till):
    url = await as_stranger(till).url()
    # the buyer's form is another one, and is not done when that one is
    own = await till.url()
    assert query_of(own)["t"] != query_of(url)["t"]
    assert (await hand_in(desk, url, EVE)).status == 200
    assert await till.url() == own
    assert "Thank you." not in (await desk.ask("GET", path_of(own))).text
    assert (await hand_in(desk, own)).status == 200
    assert await till.pay() == "succeeded"
    assert await told(desk, till.wallet) == [DATA]
    # the stranger's is of no use any more
    assert (await hand_in(desk, url, EVE)).told == (401, "unauthorized")
    assert (await desk.ask("GET", path_of(url))).status == 401
    assert (await hand_in(desk, own)).status == 200


@pytest.mark.parametrize("way", ["form", "fetch"])
async def test_what_comes_with_the_buyers_confirm_is_the_buyers(desk, till, way):
    stranger = as_stranger(till)
    if way == "form":
        await hand_in(desk, await stranger.url(), EVE)
    outputs = [till.wallet.execute(one) for one in await stranger.fetch(collected=EVE)]
    await till.confirm(outputs, collected=DATA)
    assert (await desk.final(till.payment_id))["status"] == "succeeded"
    assert await told(desk, till.wallet) == [DATA]


async def test_a_stranger_cannot_make_the_buyer_known(desk, till):
    """A payment of an account that was never asked, as it told its data before."""
    assert await paid_with_form(desk, till) == "succeeded"
    later = await new_till(desk, till.wallet, till.api)
    await as_stranger(later, **await desk.wallet_app()).fetch(collected=EVE)
    assert not await is_asked(later)
    assert await later.pay() == "succeeded"
    # nothing was told for it by the buyer, and nothing of the stranger's stays
    assert await told(desk, till.wallet) == [DATA]


async def paid_with_form(desk: Desk, till: Till) -> str:
    assert (await hand_in(desk, await till.url())).status == 200
    return await till.pay()


async def test_the_form_wins_over_what_a_wallet_brings_along(desk, till):
    url = await till.url()
    await till.fetch(collected={**DATA, "fullName": "As The Wallet Says"})
    assert (await hand_in(desk, url)).status == 200
    assert stored(desk, till) == 2
    assert await till.pay() == "succeeded"
    assert await told(desk, till.wallet) == [DATA]


async def test_many_hand_in_at_once_while_the_buyer_confirms(desk, till):
    url = await till.url()
    strangers = [as_stranger(till, f"stranger {n}") for n in range(10)]
    urls = [await one.url() for one in strangers]
    assert (await hand_in(desk, url)).status == 200
    outputs = [till.wallet.execute(one) for one in await till.fetch()]
    await asyncio.gather(
        *(hand_in(desk, one, EVE) for one in urls[:5]),
        till.confirm(outputs),
        *(one.fetch(collected=EVE) for one in strangers),
        *(hand_in(desk, one, EVE) for one in urls),
        return_exceptions=True,
    )
    assert (await desk.final(till.payment_id))["status"] == "succeeded"
    assert await told(desk, till.wallet) == [DATA]
    assert stored(desk, till) == 1


# what counts later


async def test_another_app_asks_again_and_another_installation_does_not(desk, till):
    assert await paid_with_form(desk, till) == "succeeded"
    later = await new_till(desk, till.wallet)
    assert not await is_asked(later)
    assert not await is_asked(as_stranger(later, "new telephone"))
    app = await desk.wallet_app()
    assert await is_asked(as_stranger(later, **app))
    _, key = await desk.key(None)
    by_key = as_stranger(later, **{"Api-Key": key})
    assert await is_asked(by_key)
    assert await paid_with_form(desk, by_key) == "succeeded"
    after = await new_till(desk, till.wallet)
    assert not await is_asked(as_stranger(after, **{"Api-Key": key}))
    assert await is_asked(as_stranger(after, **app))
    # each app knows what was told through it
    kept = (await export(desk, till.wallet)).collected_data
    assert len({one.app for one in kept}) == 2


async def test_an_export_tells_who_told_what(desk, till):
    form = customer_pb2.CUSTOMER_DATA_SOURCE_FORM
    wallet = customer_pb2.CUSTOMER_DATA_SOURCE_WALLET
    app = await desk.wallet_app()
    await hand_in(desk, await as_stranger(till, **app).url(), EVE)
    desk.clock.advance(1)
    await till.fetch(collected=DATA)
    mine = desk.env["FLORIN_APP_ID"]
    kept = (await export(desk, till.wallet)).collected_data
    assert [(one.source, one.app, one.proven) for one in kept] == [
        (wallet, mine, False),
        (form, app["App-Id"], False),
    ]
    assert await till.pay() == "succeeded"
    kept = (await export(desk, till.wallet)).collected_data
    assert [(one.source, one.app, one.proven) for one in kept] == [(wallet, mine, True)]
    service = desk.service
    with service.home.announced({"operator": service.grpc.operator_target}):
        ask = partial(florin, "customers", "export", till.wallet.account, home=service.home.path)
        printed = await asyncio.to_thread(ask)
    (shown,) = json.loads(printed.out)["collectedData"]
    assert (shown["source"], shown["app"], shown["proven"]) == ("wallet", mine, True)
    assert shown["data"] == DATA
    # no name that a client gave itself
    client = desk.env["FLORIN_CLIENT_ID"]
    rows = desk.select("SELECT * FROM collected_data WHERE payment_id = ?", till.payment_id)
    assert client not in str(rows)


# payments that nobody signed for


async def test_whoever_hands_in_a_direct_payments_hash_proves_nothing(desk):
    till = await mute_till(desk)
    stranger = as_stranger(till)
    await stranger.fetch(collected=EVE)
    assert (await hand_in(desk, await till.url())).status == 200
    option, actions = await till.option(), await till.fetch()
    # any hash will do, until the chain says which it is
    await stranger.confirm(GUESSED)
    outputs = await till.wallet.perform(desk.chain, actions)
    assert (await desk.final(till.payment_id))["status"] == "succeeded"
    # both are kept as what somebody said
    kept = (await export(desk, till.wallet)).collected_data
    names = sorted(json.loads(one.data_json)["fullName"] for one in kept)
    assert names == sorted([DATA["fullName"], EVE["fullName"]])
    assert not [one for one in kept if one.proven]
    # the buyer's own confirm comes too late to change that
    await refusal(till.api.confirm(till.payment_id, option["id"], outputs))
    assert stored(desk, till) == 2
    later = await new_till(desk, till.wallet)
    assert await is_asked(later)
    assert await is_asked(as_stranger(later))


async def test_a_direct_payment_of_the_buyers_own_is_not_proven_either(desk):
    till = await mute_till(desk)
    assert (await hand_in(desk, await till.url())).status == 200
    actions = await till.fetch()
    await till.confirm(GUESSED)
    await till.wallet.perform(desk.chain, actions)
    assert (await desk.final(till.payment_id))["status"] == "succeeded"
    assert await told(desk, till.wallet) == [DATA]
    assert await is_asked(await new_till(desk, till.wallet))


async def test_a_payment_that_the_chain_told_of_proves_nothing(desk):
    till = await mute_till(desk)
    stranger = as_stranger(till)
    await stranger.fetch(collected=EVE)
    url, option = await as_stranger(till, "late").url(), await till.option()
    assert (await hand_in(desk, await till.url())).status == 200
    await till.wallet.perform(desk.chain, await till.fetch())
    assert (await desk.final(till.payment_id))["status"] == "succeeded"
    assert not [one for one in (await export(desk, till.wallet)).collected_data if one.proven]
    assert await is_asked(await new_till(desk, till.wallet))
    # and nothing is told for it any more
    late = stranger.api.fetch(till.payment_id, option["id"], collected=EVE)
    assert (await refusal(late)).code == "invalid_state"
    assert (await hand_in(desk, url, EVE)).told == (401, "unauthorized")
    assert stored(desk, till) == 2


# strangers who come in numbers


async def test_strangers_cannot_keep_a_buyer_out(desk, monkeypatch):
    monkeypatch.setattr(collected_data, "ROWS_AN_APP", 5)
    till = await new_till(desk)
    _, key = await desk.key(None)
    by_key = as_stranger(till, **{"Api-Key": key})
    await by_key.fetch(collected=DATA)
    for n in range(12):
        desk.clock.advance(1)
        await as_stranger(till, f"stranger {n}").fetch(collected=EVE)
    # of the public app; another one's rows are its own
    assert stored(desk, till) == 6
    assert not await is_asked(by_key)
    # full as it is, it takes what the buyer's installation says
    assert (await hand_in(desk, await till.url())).status == 200
    assert stored(desk, till) == 6
    assert not await is_asked(till)
    assert await till.pay() == "succeeded"
    assert await told(desk, till.wallet) == [DATA]


async def test_what_comes_with_a_confirm_cannot_be_pushed_out(desk, monkeypatch):
    monkeypatch.setattr(collected_data, "ROWS_AN_APP", 3)
    till = await new_till(desk)
    outputs = [till.wallet.execute(one) for one in await as_stranger(till).fetch(collected=EVE)]
    stop = asyncio.Event()

    async def flood(name: int) -> None:
        for turn in range(1000):
            if stop.is_set():
                return
            await as_stranger(till, f"{name} {turn}").fetch(collected=EVE)

    floods = [asyncio.create_task(flood(name)) for name in range(4)]
    answer = await till.confirm(outputs, collected=DATA)
    stop.set()
    await asyncio.gather(*floods, return_exceptions=True)
    assert answer["status"] != "requires_action"
    assert (await desk.final(till.payment_id))["status"] == "succeeded"
    assert await told(desk, till.wallet) == [DATA]


async def test_data_that_is_gone_when_the_payment_is_accepted_is_asked_for_again(desk, monkeypatch):
    till = await new_till(desk)
    assert (await hand_in(desk, await till.url())).status == 200
    outputs = [till.wallet.execute(one) for one in await till.fetch()]
    account = till.wallet.account.lower()
    rail = desk.service.app.rails[till.wallet.chain]
    verify = rail.verifier.verify

    async def erased_meanwhile(*args: Any) -> None:
        await verify(*args)
        await desk.service.app.store.write(collected_data.erase(account, [till.payment_id]))

    with monkeypatch.context() as patch:
        patch.setattr(rail.verifier, "verify", erased_meanwhile)
        assert (await refusal(till.confirm(outputs))).http == 503
    assert (await desk.rest.status(till.payment_id))["status"] == "requires_action"
    assert (await refusal(till.confirm(outputs))).details["reason"] == "ic_required"
    await till.confirm(outputs, collected=DATA)
    assert (await desk.final(till.payment_id))["status"] == "succeeded"


async def test_a_strangers_form_uses_up_its_own_limit(tmp_path):
    limits = {**NO_LIMITS.model_dump(), "payment_per_minute": 60, "payment_burst": 3}
    async with opened(tmp_path, capture=ASKED, limits=LimitSettings(**limits)) as desk:
        till = await new_till(desk)
        url = await as_stranger(till).url()
        answers = [await hand_in(desk, url, EVE) for _ in range(5)]
        assert [one.status for one in answers] == [200] * 3 + [429] * 2
        assert (await hand_in(desk, await till.url())).status == 200


# forms


async def test_a_form_writes_nothing_before_it_is_handed_in(desk):
    till = await new_till(desk)
    await till.url()
    before = desk.rows()
    for n in range(20):
        stranger = as_stranger(till, f"stranger {n}")
        url = await stranger.url()
        assert (await desk.ask("GET", path_of(url))).status == 200
        assert (await refusal(stranger.fetch())).details["url"] == url
    assert desk.rows() == before


async def test_a_token_that_was_changed_is_refused(desk):
    till, other = await new_till(desk), await new_till(desk)
    tokens = [query_of(await one.url())["t"] for one in (till, other)]
    mine, theirs = (base64.urlsafe_b64decode(one + "==") for one in tokens)
    changed = [
        mine[:32] + theirs[32:],
        mine[:32] + mine[32:].replace(till.payment_id.encode(), other.payment_id.encode()),
        bytes([mine[0] ^ 1]) + mine[1:],
        mine[:-1],
        mine[:32],
        mine + b" ",
        mine[:32] + b"\xff" + mine[33:],
    ]
    for one in changed:
        token = base64.urlsafe_b64encode(one).decode().rstrip("=")
        answer = await desk.ask("POST", "/collect/", body={"token": token, "data": DATA})
        assert answer.told == (401, "unauthorized")
    # a link names its payment too
    mixed = path_of(await till.url()).replace(till.payment_id, other.payment_id)
    assert (await desk.ask("GET", mixed)).status == 401


async def test_forms_and_data_outlive_a_new_key(desk, monkeypatch):
    till, later = await new_till(desk), await new_till(desk)
    url = await later.url()
    await till.fetch(collected=DATA)
    app = desk.service.app
    keys = app.seal.keys
    monkeypatch.setattr(type(app), "seal", Seal([*keys, b"\x07" * 32]))
    assert not await is_asked(till)
    assert await till.pay() == "succeeded"
    assert (await hand_in(desk, url)).status == 200
    assert not await is_asked(later)
    assert await told(desk, till.wallet) == [DATA]
    # taken away, it opens no form
    monkeypatch.setattr(type(app), "seal", Seal([b"\x07" * 32]))
    assert (await hand_in(desk, url)).told == (401, "unauthorized")


async def test_a_form_about_somebody_who_was_erased_is_of_no_use(desk):
    till = await new_till(desk)
    url = await till.url()
    await as_stranger(till).fetch(collected=EVE)
    account = till.wallet.account.lower()
    store = desk.service.app.store
    assert (await store.write(customers.erase(account, [till.payment_id]))).data == 1
    for _ in range(2):
        assert (await hand_in(desk, url)).told == (401, "unauthorized")
        assert (await desk.ask("GET", path_of(url))).status == 401
    assert stored(desk, till) == 0
    # who asks for options again is asked
    assert await till.url() == url
    assert (await hand_in(desk, url)).status == 200


async def test_one_form_for_two_accounts_keeps_what_is_known_of_one(desk, till):
    other = Wallet()
    both = (await till.answer(other))["collectData"]["url"]
    assert (await hand_in(desk, await till.url())).status == 200
    assert (await hand_in(desk, both, {**DATA, "fullName": "Ada Two"})).status == 200
    assert await told(desk, till.wallet) == [DATA]
    assert (await told(desk, other))[0]["fullName"] == "Ada Two"
    assert (await hand_in(desk, both, EVE)).told == (401, "unauthorized")


async def test_one_form_is_for_as_many_accounts_as_an_answer_holds(desk):
    till = await new_till(desk)
    answer = await till.answer(*(Wallet() for _ in range(99)))
    url = answer["collectData"]["url"]
    assert len(answer["options"]) == 100 == len(query_of(url)["accounts"].split(","))
    # what the gateway takes as the head of a request leaves room for a prefill
    assert len(url) < 12_000
    assert (await desk.ask("GET", path_of(url))).status == 200
    assert (await hand_in(desk, url)).status == 200
    assert stored(desk, till) == 100
