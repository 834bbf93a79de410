"""Buyer data that an operator requires: the form, data from wallets, and which data counts."""

from __future__ import annotations

import base64
import json
import logging
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import customer_pb2
from florin_server.compliance.buyer_data import store as collected_data
from florin_server.compliance.buyer_data.service import collected
from florin_server.domain.cipher import Cipher
from florin_server.domain.payments.payment import PaymentOption

from tests.support import postgres
from tests.support.building_rail import TOKEN, BuildingRail
from tests.support.capture import (
    CAPTURE_SETTINGS,
    DATA,
    DAY_S,
    CapturePos,
    count_stored,
    export_customer,
    get_path,
    get_query,
    get_refusal,
    open_pos,
    submit_form,
    to_form_items,
)
from tests.support.installation import open_operator
from tests.support.service_harness import open_service
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory, evm):
    async with open_service(
        tmp_path_factory.mktemp("capture"), evm=evm, capture=CAPTURE_SETTINGS
    ) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", params=["rest", "grpc"])
async def pos(request, desk) -> CapturePos:
    return await open_pos(desk, api=getattr(desk, request.param))


def worth(value: str, unit: str = "iso4217/USD") -> dict[str, str]:
    return {"unit": unit, "value": value}


# which data is required


async def test_no_data_is_collected_unless_the_operator_requires_it(tmp_path):
    async with open_service(tmp_path) as desk:
        pos = await open_pos(desk)
        answer = await pos.answer()
        assert answer["collectData"] is None
        assert answer["options"][0]["collectData"] is None
        assert answer["options"][0]["actions"][0]["type"] == "walletRpc"
        # a wallet can send any data
        for collected in (DATA, {"fields": []}, 5, "x", {"fullName": "Marker"}):
            await pos.fetch(collected=collected)
        outputs = pos.wallet.execute_all(answer["options"][0])
        await pos.confirm(outputs, collected={"fullName": "Marker"})
        assert (await desk.wait_final(pos.payment_id))["status"] == "succeeded"
        assert desk.rows()["collected_data"] == 0


async def test_option_that_requires_data_has_a_single_opaque_build_and_a_form(desk, pos):
    answer = await pos.answer()
    (option,) = answer["options"]
    (action,) = option["actions"]
    assert action["type"] == "build"
    assert len(action["data"]["data"]) == 32
    assert int(action["data"]["data"], 16)
    collect_data = option["collectData"]
    assert set(collect_data) == {"url", "schema", "fields"}
    assert get_query(collect_data["url"]) == {
        "pid": pos.payment_id,
        "accounts": pos.wallet.account,
        "t": get_query(collect_data["url"])["t"],
    }
    # nothing of the account or the caller
    token = base64.urlsafe_b64decode(get_query(collect_data["url"])["t"] + "==").lower()
    assert pos.wallet.address[2:].lower().encode() not in token
    assert desk.env["FLORIN_CLIENT_ID"].encode() not in token
    assert json.loads(collect_data["schema"])["required"] == ["fullName", "dob", "tosConfirmed"]
    assert [field["id"] for field in collect_data["fields"]][:2] == ["fullName", "dob"]
    assert answer["collectData"] == collect_data


async def test_the_form_of_the_answer_is_for_all_accounts_that_need_it(desk, pos):
    other, wallet = EvmTestWallet(), EvmTestWallet()
    await submit_form(desk, await CapturePos(desk, pos.payment_id, wallet).url())
    answer = await pos.answer(other, wallet)
    options = {option["account"]: option for option in answer["options"]}
    assert options[wallet.account]["collectData"] is None
    assert options[wallet.account]["actions"][0]["type"] == "walletRpc"
    urls = {
        item.account: options[item.account]["collectData"]["url"] for item in (pos.wallet, other)
    }
    for account, url in urls.items():
        assert get_query(url)["accounts"] == account
    both = get_query(answer["collectData"]["url"])
    assert set(both["accounts"].split(",")) == {pos.wallet.account, other.account}
    assert len({both["t"], *(get_query(url)["t"] for url in urls.values())}) == 3
    # one form for two accounts
    assert (await submit_form(desk, answer["collectData"]["url"])).status == 200
    again = await pos.answer(other, wallet)
    assert again["collectData"] is None
    assert [option["collectData"] for option in again["options"]] == [None] * 3


async def test_asking_again_changes_nothing(desk, pos):
    first = await pos.answer()
    before = desk.rows()
    for _ in range(3):
        assert await pos.answer() == first
    assert desk.rows() == before


@pytest.mark.parametrize(
    ("amount", "is_data_required"),
    [
        (worth("1249"), False),
        (worth("1250"), True),
        (worth("1"), False),
        # units without a threshold always need data
        (worth("1", "iso4217/EUR"), True),
    ],
)
async def test_data_is_needed_from_an_amount_on(desk, amount, is_data_required):
    answer = await (await open_pos(desk, amount=amount)).answer()
    for option in answer["options"]:
        assert (option["collectData"] is not None) is is_data_required
    assert (answer["collectData"] is not None) is (is_data_required and answer["options"] != [])


@pytest.mark.parametrize(
    ("policy", "is_data_required"),
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
async def test_the_operator_says_where_data_is_needed(desk, monkeypatch, policy, is_data_required):
    chosen = desk.service.settings.capture.model_copy(update=policy)
    changed = desk.service.settings.model_copy(update={"capture": chosen})
    monkeypatch.setattr(type(desk.service.app), "settings", changed)
    answer = await (await open_pos(desk)).answer()
    assert (answer["collectData"] is not None) is is_data_required


async def test_an_asset_is_meant_however_it_is_written(desk, monkeypatch):
    asset = desk.env["FLORIN_EVM_ASSET"].lower()
    chosen = desk.service.settings.capture.model_copy(update={"assets": (asset,)})
    changed = desk.service.settings.model_copy(update={"capture": chosen})
    monkeypatch.setattr(type(desk.service.app), "settings", changed)
    assert await (await open_pos(desk)).url()


# data that the wallet brings


@pytest.mark.parametrize(
    "form",
    [
        lambda data: data,
        to_form_items,
        lambda data: {"fields": to_form_items(data)},
        lambda data: {"fields": to_form_items({**data, "tosConfirmed": "true"})},
    ],
    ids=["object", "list", "fields", "texts"],
)
@pytest.mark.parametrize("at", ["fetch", "confirm"])
@pytest.mark.both_chains
async def test_wallet_may_collect_the_data_without_the_form(desk, pos, form, at):
    option = await pos.option()
    if at == "fetch":
        actions = await pos.fetch(option["actions"][0]["data"]["data"], form(DATA))
        outputs = [pos.wallet.execute(action) for action in actions]
        answer = await pos.confirm(outputs)
    else:
        # another wallet has shown the same option for the same account
        other = CapturePos(desk, pos.payment_id, pos.wallet)
        outputs = await signed_elsewhere(other, option["id"])
        answer = await pos.confirm(outputs, form(DATA))
    assert answer["status"] == "processing"
    assert (await desk.wait_final(pos.payment_id))["status"] == "succeeded"
    assert count_stored(desk, pos) == 1
    (customer,) = (await export_customer(desk, pos.wallet)).collected_data
    assert json.loads(customer.data_json) == DATA


async def signed_elsewhere(pos: CapturePos, option_id: str) -> list[str]:
    """Return the signatures of the option's account, without any buyer data."""
    from florin_server.api.payments.codec import to_action
    from florin_server.money.payments.store import payments

    from tests.support.json import to_json

    option = await pos.desk.service.app.store.read(payments.find_option(pos.payment_id, option_id))
    return [pos.wallet.execute(to_json(to_action(action))) for action in option.actions]


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
async def test_data_that_does_not_match_the_form_is_refused(desk, pos, at, collected, fields):
    call = pos.fetch("", collected) if at == "fetch" else pos.confirm(["0x" + "11" * 65], collected)
    refused = await get_refusal(call)
    assert (refused.http, refused.code) == (400, "params_validation")
    assert refused.details == {"reason": "ic_required", "url": await pos.url()}
    # gRPC uses the proto's field names
    named = [
        issue["field"].replace("collectedDataJson", "collectedData") for issue in refused.issues
    ]
    if fields is None:
        assert "collectedData[0]" in named
    else:
        assert named == fields
    assert (refused.message == "IC data required but not found") is (fields == [])
    assert "Marker" not in str(refused)
    assert count_stored(desk, pos) == 0


async def test_json_that_is_none_is_refused_over_grpc(desk):
    from florin.v1 import gateway_pb2

    pos = await open_pos(desk)
    request = gateway_pb2.FetchActionRequest(
        payment_id=pos.payment_id,
        option_id=(await pos.option())["id"],
        collected_data_json='{"fullName": "Marker',
    )
    refused = await get_refusal(
        desk.grpc.ask(desk.grpc.gateway.FetchAction, request, desk.grpc.wallet)
    )
    assert (refused.http, refused.code) == (400, "params_validation")
    assert "Marker" not in str(refused)


async def test_first_submitted_data_counts(desk, pos):
    await submit_form(desk, await pos.url())
    await pos.fetch(collected={**DATA, "fullName": "Eve"})
    # not even read
    await pos.fetch(collected={"fullName": 5})
    (customer,) = (await export_customer(desk, pos.wallet)).collected_data
    assert json.loads(customer.data_json) == DATA


# which data counts later


@pytest.mark.both_chains
async def test_data_counts_later_only_after_its_account_signed(desk, pos):
    wallet = pos.wallet
    await submit_form(desk, await pos.url())
    between = await open_pos(desk, wallet)
    assert (await between.option())["collectData"] is not None
    assert (await get_refusal(between.fetch())).details["reason"] == "ic_required"
    assert await pos.pay() == "succeeded"
    # also for a payment that existed before
    for later in (between, await open_pos(desk, wallet, pos.api)):
        answer = await later.answer()
        assert answer["collectData"] is None
        assert answer["options"][0]["actions"][0]["type"] == "walletRpc"
        assert await later.pay() == "succeeded"
    assert count_stored(desk, later) == 0


async def test_a_signature_that_was_accepted_is_enough(desk):
    pos = await open_pos(desk)
    later = await open_pos(desk, pos.wallet)
    await submit_form(desk, await pos.url())
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    try:
        answer = await pos.confirm([pos.wallet.execute(item) for item in await pos.fetch()])
        assert answer["status"] == "processing"
        assert (await later.option())["collectData"] is None
    finally:
        await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    assert (await desk.wait_final(pos.payment_id))["status"] == "succeeded"


async def test_a_build_that_stood_for_missing_data_stays_good(desk):
    wallet = EvmTestWallet()
    first, second = await open_pos(desk, wallet), await open_pos(desk, wallet)
    (build,) = (await second.option())["actions"]
    await submit_form(desk, await first.url())
    assert await first.pay() == "succeeded"
    actions = await second.fetch(build["data"]["data"])
    assert actions == (await second.option())["actions"]


async def test_data_from_a_stranger_does_not_follow_an_account(desk):
    victim = EvmTestWallet()
    trap = await open_pos(desk, victim)
    await submit_form(desk, await trap.url(), {**DATA, "fullName": "Eve"})
    mine = await open_pos(desk, victim)
    assert (await mine.option())["collectData"] is not None
    # nor does a payment by another account prove anything about it
    other = CapturePos(desk, trap.payment_id, EvmTestWallet())
    await submit_form(desk, await other.url())
    assert await other.pay() == "succeeded"
    assert (await mine.option())["collectData"] is not None


# builds of the option's own


async def test_an_option_with_a_build_of_its_own_shows_it_when_the_data_is_there(desk, monkeypatch):
    (rail,) = desk.service.app.rails.values()
    BuildingRail(rail, monkeypatch)
    pos = await open_pos(desk)
    option = await pos.option()
    hidden = option["actions"][0]["data"]["data"]
    assert hidden != TOKEN
    # data is required before anything else
    assert (await get_refusal(pos.fetch(TOKEN))).code == "params_validation"
    refused = await get_refusal(pos.confirm(["0x" + "11" * 65] * 2))
    assert refused.details["reason"] == "ic_required"
    await submit_form(desk, option["collectData"]["url"])
    assert (await pos.option())["actions"] == [{"type": "build", "data": {"data": TOKEN}}]
    fetched = await pos.fetch(hidden)
    assert fetched == await pos.fetch(TOKEN) == await pos.fetch()
    assert await pos.pay() == "succeeded"


async def test_option_in_two_parts_is_fetched_as_a_whole(desk, monkeypatch):
    (rail,) = desk.service.app.rails.values()
    building = BuildingRail(rail, monkeypatch)

    def in_two_parts(*args: Any) -> PaymentOption:
        option = BuildingRail.build_option(building, *args)
        inline = building.inline[option.id].actions
        return replace(option, actions=(*inline, *option.actions))

    monkeypatch.setattr(rail.offers, "build_option", in_two_parts)
    pos = await open_pos(desk)
    (hidden,) = (await pos.option())["actions"]
    await submit_form(desk, await pos.url())
    inline, build = (await pos.option())["actions"]
    (built,) = await pos.fetch(build["data"]["data"])
    assert await pos.fetch(hidden["data"]["data"]) == [inline, built]
    # a caller that passes no data saw the actions from before the data was given
    assert await pos.fetch() == [inline, built]


async def test_a_gate_that_is_new_opens_a_form(desk, monkeypatch):
    pos = await open_pos(desk)
    with monkeypatch.context() as before:
        off = desk.service.settings.capture.model_copy(update={"enabled": False})
        settings = desk.service.settings.model_copy(update={"capture": off})
        before.setattr(type(desk.service.app), "settings", settings)
        option = await pos.option()
        assert option["collectData"] is None
    refused = await get_refusal(desk.rest.fetch(pos.payment_id, option["id"]))
    assert (await submit_form(desk, refused.details["url"])).status == 200
    fetched = await desk.rest.fetch(pos.payment_id, option["id"])
    assert fetched["actions"] == option["actions"]


# export and erasure


async def test_customer_export_lists_collected_data_and_erasure_deletes_it(desk, pos):
    wallet = pos.wallet
    await submit_form(desk, await pos.url())
    collected_at = desk.now
    desk.clock.advance(10)
    second = await open_pos(desk, wallet)
    await second.fetch(collected={**DATA, "fullName": "Ada Two"})
    field_container = (await export_customer(desk, wallet)).collected_data
    assert [customer.payment_id for customer in field_container] == [
        second.payment_id,
        pos.payment_id,
    ]
    assert json.loads(field_container[1].data_json) == DATA
    assert field_container[1].collected_at.seconds == collected_at
    assert field_container[1].kept_until.seconds == collected_at + 30 * DAY_S
    assert await pos.pay() == "succeeded"
    async with open_operator(desk.service) as operator:
        request = customer_pb2.EraseCustomerRequest(account=wallet.account)
        erased = await operator.call("EraseCustomer", request)
        assert erased.collected_data_erased == 2
        assert (await operator.call("EraseCustomer", request)).collected_data_erased == 0
    assert list((await export_customer(desk, wallet)).collected_data) == []
    digits = wallet.address[2:].lower()
    assert digits not in str(desk.select("SELECT * FROM collected_data")).lower()
    # for its next payment the account is asked for data again
    assert (await (await open_pos(desk, wallet)).option())["collectData"] is not None


async def test_data_with_a_lost_key_is_exported_empty(desk, monkeypatch):
    pos = await open_pos(desk)
    await submit_form(desk, await pos.url())
    monkeypatch.setattr(type(desk.service.app), "cipher", Cipher([b"\x05" * 32]))
    (customer,) = (await export_customer(desk, pos.wallet)).collected_data
    assert (customer.payment_id, customer.data_json) == (pos.payment_id, "")
    # and the data's author can no longer be determined
    assert (await pos.option())["collectData"] is not None


async def test_data_moved_to_another_record_is_not_decrypted(desk):
    app, pos = desk.service.app, await open_pos(desk)
    await submit_form(desk, await pos.url())
    (stored,) = await app.store.read(collected_data.list_by_account(pos.wallet.account.lower()))
    assert json.loads(collected.decrypt_data(app.cipher, stored)) == DATA
    assert collected.decrypt_data(app.cipher, replace(stored, payment_id="pay_other")) is None
    assert (
        collected.decrypt_data(app.cipher, replace(stored, account=EvmTestWallet().account.lower()))
        is None
    )
    assert collected.decrypt_data(app.cipher, replace(stored, source="inline:00")) is None
    assert collected.decrypt_data(app.cipher, replace(stored, source="")) is None


async def test_nothing_of_it_is_anywhere_in_clear(tmp_path, caplog, monkeypatch):
    prefill = base64.urlsafe_b64encode(json.dumps(DATA).encode()).decode()
    marks = ("Marker", "1987-06-05", prefill[:40])
    with caplog.at_level(logging.DEBUG):
        async with open_service(tmp_path, capture=CAPTURE_SETTINGS) as desk:
            pos = await open_pos(desk)
            url = await pos.url()
            page = await desk.ask("GET", f"{get_path(url)}&prefill={prefill}")
            assert "Ada Marker-one" in page.text
            # every kind of answered fault, too
            wrong = {**DATA, "dob": "Marker", "Marker": "Marker"}
            seen = [
                await submit_form(desk, url, wrong),
                await submit_form(desk, url, [DATA["fullName"]]),
            ]
            side = f"/v1/gateway/payment/{pos.payment_id}"
            option_id = (await pos.option())["id"]
            keyed = {**desk.rest.wallet, "Idempotency-Key": "k"}
            for data in (wrong, DATA):
                body = {"optionId": option_id, "collectedData": data}
                seen.append(await desk.ask("POST", f"{side}/fetch", keyed, body))
            other = await open_pos(desk)
            unused = await other.url()
            with monkeypatch.context() as patch:
                # a failure of Florin's is logged with its full cause
                patch.setattr(type(desk.service.app), "cipher", Cipher())
                seen.append(await submit_form(desk, unused))
            assert [response.status for response in seen] == [400, 400, 400, 200, 500]
            assert not [mark for mark in marks for response in seen if mark in response.text]
            assert await pos.pay() == "succeeded"
            files = [path for path in desk.service.home.path.rglob("*") if path.is_file()]
            if postgres.get_engine() == postgres.SQLITE:
                assert {path.name for path in files} >= {"florin.db", "florin.db-wal"}
            for file in files:
                content = file.read_bytes()
                assert not [mark for mark in marks if mark.encode() in content], file
            (customer,) = (await export_customer(desk, pos.wallet)).collected_data
            assert "Marker" in customer.data_json
    assert "no encryption key exists" in caplog.text
    assert not [mark for mark in marks if mark in caplog.text]
