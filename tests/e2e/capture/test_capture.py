"""An operator wants to know who pays: the form, data that a wallet brings along, what counts."""

from __future__ import annotations

import base64
import json
import logging
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import customer_pb2
from florin_server.domain.payments.payment import Option
from florin_server.domain.sealed import Seal
from florin_server.flows.capture import collected
from florin_server.store.capture import collected_data

from tests.support import postgres
from tests.support.builds import TOKEN, Building
from tests.support.capture import (
    ASKED,
    DATA,
    DAY_S,
    Till,
    emptied,
    export,
    hand_in,
    items,
    new_till,
    path_of,
    query_of,
    refusal,
    stored,
)
from tests.support.desk import opened
from tests.support.installation import operator_of
from tests.support.wallet import Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory, evm):
    async with opened(tmp_path_factory.mktemp("capture"), evm=evm, capture=ASKED) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", params=["rest", "grpc"])
async def till(request, desk) -> Till:
    return await new_till(desk, api=getattr(desk, request.param))


def worth(value: str, unit: str = "iso4217/USD") -> dict[str, str]:
    return {"unit": unit, "value": value}


# what is asked for


async def test_nothing_is_asked_for_where_the_operator_does_not_want_it(tmp_path):
    async with opened(tmp_path) as desk:
        till = await new_till(desk)
        answer = await till.answer()
        assert answer["collectData"] is None
        assert answer["options"][0]["collectData"] is None
        assert answer["options"][0]["actions"][0]["type"] == "walletRpc"
        # a wallet may send what it likes
        for collected in (DATA, {"fields": []}, 5, "x", {"fullName": "Marker"}):
            await till.fetch(collected=collected)
        outputs = till.wallet.execute_all(answer["options"][0])
        await till.confirm(outputs, collected={"fullName": "Marker"})
        assert (await desk.final(till.payment_id))["status"] == "succeeded"
        assert desk.rows()["collected_data"] == 0


async def test_an_option_that_waits_for_data_has_one_opaque_build_and_a_form(desk, till):
    answer = await till.answer()
    (option,) = answer["options"]
    (action,) = option["actions"]
    assert action["type"] == "build"
    assert len(action["data"]["data"]) == 32
    assert int(action["data"]["data"], 16)
    asked = option["collectData"]
    assert set(asked) == {"url", "schema", "fields"}
    assert query_of(asked["url"]) == {
        "pid": till.payment_id,
        "accounts": till.wallet.account,
        "t": query_of(asked["url"])["t"],
    }
    # nothing of the account, nor of who asked
    token = base64.urlsafe_b64decode(query_of(asked["url"])["t"] + "==").lower()
    assert till.wallet.address[2:].lower().encode() not in token
    assert desk.env["FLORIN_CLIENT_ID"].encode() not in token
    assert json.loads(asked["schema"])["required"] == ["fullName", "dob", "tosConfirmed"]
    assert [one["id"] for one in asked["fields"]][:2] == ["fullName", "dob"]
    assert answer["collectData"] == asked


async def test_the_form_of_the_answer_is_for_all_accounts_that_need_it(desk, till):
    other, known = Wallet(), Wallet()
    await hand_in(desk, await Till(desk, till.payment_id, known).url())
    answer = await till.answer(other, known)
    options = {one["account"]: one for one in answer["options"]}
    assert options[known.account]["collectData"] is None
    assert options[known.account]["actions"][0]["type"] == "walletRpc"
    urls = {one.account: options[one.account]["collectData"]["url"] for one in (till.wallet, other)}
    for account, url in urls.items():
        assert query_of(url)["accounts"] == account
    both = query_of(answer["collectData"]["url"])
    assert set(both["accounts"].split(",")) == {till.wallet.account, other.account}
    assert len({both["t"], *(query_of(url)["t"] for url in urls.values())}) == 3
    # one form for two accounts
    assert (await hand_in(desk, answer["collectData"]["url"])).status == 200
    again = await till.answer(other, known)
    assert again["collectData"] is None
    assert [one["collectData"] for one in again["options"]] == [None] * 3


async def test_asking_again_changes_nothing(desk, till):
    first = await till.answer()
    before = desk.rows()
    for _ in range(3):
        assert await till.answer() == first
    assert desk.rows() == before


@pytest.mark.parametrize(
    ("amount", "asked"),
    [
        (worth("1249"), False),
        (worth("1250"), True),
        (worth("1"), False),
        # for what is not listed data is always needed
        (worth("1", "iso4217/EUR"), True),
    ],
)
async def test_data_is_needed_from_an_amount_on(desk, amount, asked):
    answer = await (await new_till(desk, amount=amount)).answer()
    for option in answer["options"]:
        assert (option["collectData"] is not None) is asked
    assert (answer["collectData"] is not None) is (asked and answer["options"] != [])


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"modes": ["test"]}, True),
        ({"modes": ["live"]}, False),
        ({"modes": []}, False),
        ({"assets": ["eip155:1/slip44:60"]}, False),
        ({"from_amount": {"USD": 1251}}, False),
    ],
)
async def test_the_operator_says_where_data_is_needed(desk, monkeypatch, policy, asked):
    chosen = desk.service.settings.capture.model_copy(update=policy)
    changed = desk.service.settings.model_copy(update={"capture": chosen})
    monkeypatch.setattr(type(desk.service.app), "settings", changed)
    answer = await (await new_till(desk)).answer()
    assert (answer["collectData"] is not None) is asked


async def test_an_asset_is_meant_however_it_is_written(desk, monkeypatch):
    asset = desk.env["FLORIN_EVM_ASSET"].lower()
    chosen = desk.service.settings.capture.model_copy(update={"assets": (asset,)})
    changed = desk.service.settings.model_copy(update={"capture": chosen})
    monkeypatch.setattr(type(desk.service.app), "settings", changed)
    assert await (await new_till(desk)).url()


# data that the wallet brings along


@pytest.mark.parametrize(
    "form",
    [
        lambda data: data,
        items,
        lambda data: {"fields": items(data)},
        lambda data: {"fields": items({**data, "tosConfirmed": "true"})},
    ],
    ids=["object", "list", "fields", "texts"],
)
@pytest.mark.parametrize("at", ["fetch", "confirm"])
@pytest.mark.both_chains
async def test_a_wallet_collects_the_data_itself(desk, till, form, at):
    option = await till.option()
    if at == "fetch":
        actions = await till.fetch(option["actions"][0]["data"]["data"], form(DATA))
        outputs = [till.wallet.execute(one) for one in actions]
        answer = await till.confirm(outputs)
    else:
        # the same account has seen the same option as somebody else's wallet would show it
        other = Till(desk, till.payment_id, till.wallet)
        outputs = await signed_elsewhere(other, option["id"])
        answer = await till.confirm(outputs, form(DATA))
    assert answer["status"] == "processing"
    assert (await desk.final(till.payment_id))["status"] == "succeeded"
    assert stored(desk, till) == 1
    (told,) = (await export(desk, till.wallet)).collected_data
    assert json.loads(told.data_json) == DATA


async def signed_elsewhere(till: Till, option_id: str) -> list[str]:
    """What the option's account signs, without anything having been told."""
    from florin_server.rpc.payments.codec import action
    from florin_server.store.payments import payments

    from tests.support.json import plain

    option = await till.desk.service.app.store.read(payments.option(till.payment_id, option_id))
    return [till.wallet.execute(plain(action(one))) for one in option.actions]


@pytest.mark.parametrize("at", ["fetch", "confirm"])
@pytest.mark.parametrize(
    ("collected", "fields"),
    [
        ({}, []),
        ({"fields": []}, []),
        ([], []),
        (5, ["collectedData"]),
        ({**DATA, "tosConfirmed": "false"}, ["collectedData.tosConfirmed"]),
        ({**DATA, "dob": "Marker"}, ["collectedData.dob"]),
        ({**DATA, "Marker": 1}, ["collectedData"]),
        ([{"id": 5}], None),
    ],
)
async def test_data_that_is_not_what_the_form_asks_for_is_refused(
    desk, till, at, collected, fields
):
    call = (
        till.fetch("", collected) if at == "fetch" else till.confirm(["0x" + "11" * 65], collected)
    )
    refused = await refusal(call)
    assert (refused.http, refused.code) == (400, "params_validation")
    assert refused.details == {"reason": "ic_required", "url": await till.url()}
    # gRPC names fields as the proto does
    named = [
        issue["field"].replace("collectedDataJson", "collectedData") for issue in refused.issues
    ]
    if fields is None:
        assert "collectedData[0]" in named
    else:
        assert named == fields
    assert (refused.message == "IC data required but not found") is (fields == [])
    assert "Marker" not in str(refused)
    assert stored(desk, till) == 0


async def test_json_that_is_none_is_refused_over_grpc(desk):
    from florin.v1 import gateway_pb2

    till = await new_till(desk)
    request = gateway_pb2.FetchActionRequest(
        payment_id=till.payment_id,
        option_id=(await till.option())["id"],
        collected_data_json='{"fullName": "Marker',
    )
    refused = await refusal(desk.grpc.ask(desk.grpc.gateway.FetchAction, request, desk.grpc.wallet))
    assert (refused.http, refused.code) == (400, "params_validation")
    assert "Marker" not in str(refused)


async def test_what_was_told_first_counts(desk, till):
    await hand_in(desk, await till.url())
    await till.fetch(collected={**DATA, "fullName": "Eve"})
    # not even looked at
    await till.fetch(collected={"fullName": 5})
    (told,) = (await export(desk, till.wallet)).collected_data
    assert json.loads(told.data_json) == DATA


# what counts later


@pytest.mark.both_chains
async def test_data_counts_later_only_after_its_account_signed(desk, till):
    wallet = till.wallet
    await hand_in(desk, await till.url())
    between = await new_till(desk, wallet)
    assert (await between.option())["collectData"] is not None
    assert (await refusal(between.fetch())).details["reason"] == "ic_required"
    assert await till.pay() == "succeeded"
    # also for a payment that was there before
    for later in (between, await new_till(desk, wallet, till.api)):
        answer = await later.answer()
        assert answer["collectData"] is None
        assert answer["options"][0]["actions"][0]["type"] == "walletRpc"
        assert await later.pay() == "succeeded"
    assert stored(desk, later) == 0


async def test_a_signature_that_was_accepted_is_enough(desk):
    till = await new_till(desk)
    later = await new_till(desk, till.wallet)
    await hand_in(desk, await till.url())
    app = desk.service.app
    (rail,) = app.rails.values()
    executor = app.executors[f"{rail.chain_id}:{rail.senders[0]}"]
    executor.pause()
    try:
        answer = await till.confirm([till.wallet.execute(one) for one in await till.fetch()])
        assert answer["status"] == "processing"
        assert (await later.option())["collectData"] is None
    finally:
        executor.resume()
    assert (await desk.final(till.payment_id))["status"] == "succeeded"


async def test_a_build_that_stood_for_missing_data_stays_good(desk):
    wallet = Wallet()
    first, second = await new_till(desk, wallet), await new_till(desk, wallet)
    (build,) = (await second.option())["actions"]
    await hand_in(desk, await first.url())
    assert await first.pay() == "succeeded"
    actions = await second.fetch(build["data"]["data"])
    assert actions == (await second.option())["actions"]


async def test_what_a_stranger_tells_about_an_account_does_not_follow_it(desk):
    victim = Wallet()
    trap = await new_till(desk, victim)
    await hand_in(desk, await trap.url(), {**DATA, "fullName": "Eve"})
    mine = await new_till(desk, victim)
    assert (await mine.option())["collectData"] is not None
    # a payment of somebody else proves nothing about it either
    other = Till(desk, trap.payment_id, Wallet())
    await hand_in(desk, await other.url())
    assert await other.pay() == "succeeded"
    assert (await mine.option())["collectData"] is not None


# builds of the option's own


async def test_an_option_with_a_build_of_its_own_shows_it_when_the_data_is_there(desk, monkeypatch):
    (rail,) = desk.service.app.rails.values()
    Building(rail, monkeypatch)
    till = await new_till(desk)
    option = await till.option()
    hidden = option["actions"][0]["data"]["data"]
    assert hidden != TOKEN
    # data is asked for before anything else
    assert (await refusal(till.fetch(TOKEN))).code == "params_validation"
    refused = await refusal(till.confirm(["0x" + "11" * 65] * 2))
    assert refused.details["reason"] == "ic_required"
    await hand_in(desk, option["collectData"]["url"])
    assert (await till.option())["actions"] == [{"type": "build", "data": {"data": TOKEN}}]
    fetched = await till.fetch(hidden)
    assert fetched == await till.fetch(TOKEN) == await till.fetch()
    assert await till.pay() == "succeeded"


async def test_an_option_in_two_parts_is_fetched_as_a_whole_for_who_saw_no_part(desk, monkeypatch):
    (rail,) = desk.service.app.rails.values()
    building = Building(rail, monkeypatch)

    def in_two_parts(*args: Any) -> Option:
        option = Building.offer(building, *args)
        inline = building.inline[option.id].actions
        return replace(option, actions=(*inline, *option.actions))

    monkeypatch.setattr(rail.offers, "offer", in_two_parts)
    till = await new_till(desk)
    (hidden,) = (await till.option())["actions"]
    await hand_in(desk, await till.url())
    inline, build = (await till.option())["actions"]
    (built,) = await till.fetch(build["data"]["data"])
    assert await till.fetch(hidden["data"]["data"]) == [inline, built]
    # who hands back nothing saw what stood there before the data was given
    assert await till.fetch() == [inline, built]


async def test_a_gate_that_is_new_opens_a_form(desk, monkeypatch):
    till = await new_till(desk)
    with monkeypatch.context() as before:
        off = desk.service.settings.capture.model_copy(update={"enabled": False})
        settings = desk.service.settings.model_copy(update={"capture": off})
        before.setattr(type(desk.service.app), "settings", settings)
        option = await till.option()
        assert option["collectData"] is None
    refused = await refusal(desk.rest.fetch(till.payment_id, option["id"]))
    assert (await hand_in(desk, refused.details["url"])).status == 200
    fetched = await desk.rest.fetch(till.payment_id, option["id"])
    assert fetched["actions"] == option["actions"]


# how it ends


async def test_a_customer_is_told_what_it_told_and_forgotten(desk, till):
    wallet = till.wallet
    await hand_in(desk, await till.url())
    told_at = desk.now
    desk.clock.advance(10)
    second = await new_till(desk, wallet)
    await second.fetch(collected={**DATA, "fullName": "Ada Two"})
    told = (await export(desk, wallet)).collected_data
    assert [one.payment_id for one in told] == [second.payment_id, till.payment_id]
    assert json.loads(told[1].data_json) == DATA
    assert told[1].collected_at.seconds == told_at
    assert told[1].kept_until.seconds == told_at + 30 * DAY_S
    assert await till.pay() == "succeeded"
    async with operator_of(desk.service) as operator:
        request = customer_pb2.EraseCustomerRequest(account=wallet.account)
        erased = await operator.ask("EraseCustomer", request)
        assert erased.collected_data_erased == 2
        assert (await operator.ask("EraseCustomer", request)).collected_data_erased == 0
    assert list((await export(desk, wallet)).collected_data) == []
    digits = wallet.address[2:].lower()
    assert digits not in str(desk.select("SELECT * FROM collected_data")).lower()
    # what it pays next it is asked again
    assert (await (await new_till(desk, wallet)).option())["collectData"] is not None


async def test_data_whose_key_is_lost_is_told_as_lost(desk, monkeypatch):
    till = await new_till(desk)
    await hand_in(desk, await till.url())
    monkeypatch.setattr(type(desk.service.app), "seal", Seal([b"\x05" * 32]))
    (told,) = (await export(desk, till.wallet)).collected_data
    assert (told.payment_id, told.data_json) == (till.payment_id, "")
    # and nobody can say any more who told it
    assert (await till.option())["collectData"] is not None


async def test_data_that_was_put_elsewhere_is_not_taken_for_somebody_elses(desk):
    app, till = desk.service.app, await new_till(desk)
    await hand_in(desk, await till.url())
    (kept,) = await app.store.read(collected_data.of_account(till.wallet.account.lower()))
    assert json.loads(collected.opened(app.seal, kept)) == DATA
    assert collected.opened(app.seal, replace(kept, payment_id="pay_other")) is None
    assert collected.opened(app.seal, replace(kept, account=Wallet().account.lower())) is None
    assert collected.opened(app.seal, replace(kept, source="inline:00")) is None
    assert collected.opened(app.seal, replace(kept, source="")) is None


async def test_data_is_deleted_when_its_time_is_over(desk):
    till = await new_till(desk)
    await hand_in(desk, await till.url())
    assert await till.pay() == "succeeded"
    desk.clock.advance(30 * DAY_S - 10)
    later = await new_till(desk, till.wallet)
    assert (await later.option())["collectData"] is None
    desk.clock.advance(10)
    assert (await later.option())["collectData"] is not None
    desk.clock.advance(3600)
    await emptied(desk, till)


async def test_nothing_of_it_is_anywhere_in_clear(tmp_path, caplog, monkeypatch):
    prefill = base64.urlsafe_b64encode(json.dumps(DATA).encode()).decode()
    marks = ("Marker", "1987-06-05", prefill[:40])
    with caplog.at_level(logging.DEBUG):
        async with opened(tmp_path, capture=ASKED) as desk:
            till = await new_till(desk)
            url = await till.url()
            page = await desk.ask("GET", f"{path_of(url)}&prefill={prefill}")
            assert "Ada Marker-one" in page.text
            # faults, too: of every kind that is answered
            wrong = {**DATA, "dob": "Marker", "Marker": "Marker"}
            seen = [await hand_in(desk, url, wrong), await hand_in(desk, url, [DATA["fullName"]])]
            side = f"/v1/gateway/payment/{till.payment_id}"
            option_id = (await till.option())["id"]
            keyed = {**desk.rest.wallet, "Idempotency-Key": "k"}
            for data in (wrong, DATA):
                body = {"optionId": option_id, "collectedData": data}
                seen.append(await desk.ask("POST", f"{side}/fetch", keyed, body))
            other = await new_till(desk)
            unused = await other.url()
            with monkeypatch.context() as patch:
                # a failure of ours is logged with all that led to it
                patch.setattr(type(desk.service.app), "seal", Seal())
                seen.append(await hand_in(desk, unused))
            assert [one.status for one in seen] == [400, 400, 400, 200, 500]
            assert not [mark for mark in marks for one in seen if mark in one.text]
            assert await till.pay() == "succeeded"
            files = [one for one in desk.service.home.path.rglob("*") if one.is_file()]
            if postgres.used() == postgres.SQLITE:
                assert {one.name for one in files} >= {"florin.db", "florin.db-wal"}
            for file in files:
                content = file.read_bytes()
                assert not [mark for mark in marks if mark.encode() in content], file
            (told,) = (await export(desk, till.wallet)).collected_data
            assert "Marker" in told.data_json
    assert "there is no key to seal with" in caplog.text
    assert not [mark for mark in marks if mark in caplog.text]
