"""Data about a buyer from a third party that knows a payment and an account."""

from __future__ import annotations

import asyncio
import base64
import json
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import customer_pb2
from florin_server.accounts.store import customers
from florin_server.compliance.buyer_data import store as collected_data
from florin_server.domain.sealed import Cipher
from florin_server.settings import LimitSettings

from tests.support.capture import (
    CAPTURE_SETTINGS,
    DATA,
    CapturePos,
    count_stored,
    export_customer,
    get_path,
    get_query,
    get_refusal,
    make_caller,
    open_pos,
    submit_form,
)
from tests.support.command import run_florin
from tests.support.desk import ServiceHarness, open_service
from tests.support.service import NO_LIMITS
from tests.support.wallet import NON_SIGNING_ADDRESS, EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVE = {**DATA, "fullName": "Eve Stranger"}
# an approval and a payment that were never sent
GUESSED = ["0x" + "11" * 32] * 2


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory, evm):
    async with open_service(
        tmp_path_factory.mktemp("strangers"), evm=evm, capture=CAPTURE_SETTINGS
    ) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", params=["rest", "grpc"])
async def till(request, desk) -> CapturePos:
    return await open_pos(desk, api=getattr(desk, request.param))


def as_stranger(till: CapturePos, client: str = "stranger", **wallet: str) -> CapturePos:
    """Return a stranger's view of a payment, for the buyer's account."""
    return CapturePos(
        till.desk, till.payment_id, till.wallet, make_caller(till.desk, client, **wallet)
    )


async def read_collected_data(desk: ServiceHarness, wallet: EvmTestWallet) -> list[dict[str, Any]]:
    """Return the data kept about an account, the newest first."""
    rows = (await export_customer(desk, wallet)).collected_data
    return [json.loads(row.data_json) for row in rows]


async def is_data_required(till: CapturePos) -> bool:
    return (await till.option())["collectData"] is not None


async def mute_till(desk: ServiceHarness) -> CapturePos:
    """Open a payment whose buyer's account cannot sign: its wallet sends the transaction itself."""
    till = await open_pos(desk)
    await till.wallet.delegate(desk.chain, NON_SIGNING_ADDRESS)
    return till


# a stranger's data


async def test_data_from_a_strangers_fetch_is_not_used_for_the_buyer(desk, till):
    await as_stranger(till).fetch(collected=EVE)
    # the buyer is asked for data all the same
    assert await is_data_required(till)
    assert (await get_refusal(till.fetch())).details["reason"] == "ic_required"
    guessed = ["0x" + "11" * 65]
    assert (await get_refusal(till.confirm(guessed))).details["reason"] == "ic_required"
    await till.fetch(collected=DATA)
    assert await till.pay() == "succeeded"
    assert await read_collected_data(desk, till.wallet) == [DATA]
    assert count_stored(desk, till) == 1
    assert not await is_data_required(await open_pos(desk, till.wallet))


async def test_data_from_a_strangers_form_is_not_used_for_the_buyer(desk, till):
    url = await as_stranger(till).url()
    # the buyer's form is another one, and stays open when the stranger's is done
    own = await till.url()
    assert get_query(own)["t"] != get_query(url)["t"]
    assert (await submit_form(desk, url, EVE)).status == 200
    assert await till.url() == own
    assert "Thank you." not in (await desk.ask("GET", get_path(own))).text
    assert (await submit_form(desk, own)).status == 200
    assert await till.pay() == "succeeded"
    assert await read_collected_data(desk, till.wallet) == [DATA]
    # the stranger's form is no longer valid
    assert (await submit_form(desk, url, EVE)).refusal == (401, "unauthorized")
    assert (await desk.ask("GET", get_path(url))).status == 401
    assert (await submit_form(desk, own)).status == 200


@pytest.mark.parametrize("way", ["form", "fetch"])
async def test_data_in_the_buyers_confirm_is_used_for_the_buyer(desk, till, way):
    stranger = as_stranger(till)
    if way == "form":
        await submit_form(desk, await stranger.url(), EVE)
    outputs = [till.wallet.execute(item) for item in await stranger.fetch(collected=EVE)]
    await till.confirm(outputs, collected=DATA)
    assert (await desk.wait_final(till.payment_id))["status"] == "succeeded"
    assert await read_collected_data(desk, till.wallet) == [DATA]


async def test_stranger_cannot_complete_data_for_a_returning_buyer(desk, till):
    """The stranger uses a payment for which the buyer was not asked, having given data before."""
    assert await paid_with_form(desk, till) == "succeeded"
    later = await open_pos(desk, till.wallet, till.api)
    await as_stranger(later, **await desk.wallet_app()).fetch(collected=EVE)
    assert not await is_data_required(later)
    assert await later.pay() == "succeeded"
    # the buyer gave no data for it, and none of the stranger's is kept
    assert await read_collected_data(desk, till.wallet) == [DATA]


async def paid_with_form(desk: ServiceHarness, till: CapturePos) -> str:
    assert (await submit_form(desk, await till.url())).status == 200
    return await till.pay()


async def test_form_data_takes_precedence_over_wallet_data(desk, till):
    url = await till.url()
    await till.fetch(collected={**DATA, "fullName": "As The Wallet Says"})
    assert (await submit_form(desk, url)).status == 200
    assert count_stored(desk, till) == 2
    assert await till.pay() == "succeeded"
    assert await read_collected_data(desk, till.wallet) == [DATA]


async def test_many_hand_in_at_once_while_the_buyer_confirms(desk, till):
    url = await till.url()
    strangers = [as_stranger(till, f"stranger {n}") for n in range(10)]
    urls = [await pos.url() for pos in strangers]
    assert (await submit_form(desk, url)).status == 200
    outputs = [till.wallet.execute(item) for item in await till.fetch()]
    await asyncio.gather(
        *(submit_form(desk, text, EVE) for text in urls[:5]),
        till.confirm(outputs),
        *(pos.fetch(collected=EVE) for pos in strangers),
        *(submit_form(desk, each_url, EVE) for each_url in urls),
        return_exceptions=True,
    )
    assert (await desk.wait_final(till.payment_id))["status"] == "succeeded"
    assert await read_collected_data(desk, till.wallet) == [DATA]
    assert count_stored(desk, till) == 1


# which data counts later


async def test_another_app_asks_again_and_another_installation_does_not(desk, till):
    assert await paid_with_form(desk, till) == "succeeded"
    later = await open_pos(desk, till.wallet)
    assert not await is_data_required(later)
    assert not await is_data_required(as_stranger(later, "new telephone"))
    app = await desk.wallet_app()
    assert await is_data_required(as_stranger(later, **app))
    _, key = await desk.key(None)
    by_key = as_stranger(later, **{"Api-Key": key})
    assert await is_data_required(by_key)
    assert await paid_with_form(desk, by_key) == "succeeded"
    after = await open_pos(desk, till.wallet)
    assert not await is_data_required(as_stranger(after, **{"Api-Key": key}))
    assert await is_data_required(as_stranger(after, **app))
    # each app's data counts for that app only
    field_container = (await export_customer(desk, till.wallet)).collected_data
    assert len({customer.app for customer in field_container}) == 2


async def test_export_names_the_source_of_collected_data(desk, till):
    form = customer_pb2.CUSTOMER_DATA_SOURCE_FORM
    wallet = customer_pb2.CUSTOMER_DATA_SOURCE_WALLET
    app = await desk.wallet_app()
    await submit_form(desk, await as_stranger(till, **app).url(), EVE)
    desk.clock.advance(1)
    await till.fetch(collected=DATA)
    mine = desk.env["FLORIN_APP_ID"]
    field_container = (await export_customer(desk, till.wallet)).collected_data
    assert [(customer.source, customer.app, customer.proven) for customer in field_container] == [
        (wallet, mine, False),
        (form, app["App-Id"], False),
    ]
    assert await till.pay() == "succeeded"
    field_container = (await export_customer(desk, till.wallet)).collected_data
    assert [(customer.source, customer.app, customer.proven) for customer in field_container] == [
        (wallet, mine, True)
    ]
    service = desk.service
    with service.home.announce({"operator": service.grpc.operator_target}):
        ask = partial(
            run_florin, "customers", "export", till.wallet.account, home=service.home.path
        )
        printed = await asyncio.to_thread(ask)
    (shown,) = json.loads(printed.out)["collectedData"]
    assert (shown["source"], shown["app"], shown["proven"]) == ("wallet", mine, True)
    assert shown["data"] == DATA
    # not a name that a client gave itself
    client = desk.env["FLORIN_CLIENT_ID"]
    rows = desk.select("SELECT * FROM collected_data WHERE payment_id = ?", till.payment_id)
    assert client not in str(rows)


# payments without a signature


async def test_direct_payment_hash_proves_no_data(desk):
    till = await mute_till(desk)
    stranger = as_stranger(till)
    await stranger.fetch(collected=EVE)
    assert (await submit_form(desk, await till.url())).status == 200
    option, actions = await till.option(), await till.fetch()
    # any hash is accepted, until the chain shows the right one
    await stranger.confirm(GUESSED)
    outputs = await till.wallet.perform(desk.chain, actions)
    assert (await desk.wait_final(till.payment_id))["status"] == "succeeded"
    # both are kept as unproven statements
    field_container = (await export_customer(desk, till.wallet)).collected_data
    names = sorted(json.loads(customer.data_json)["fullName"] for customer in field_container)
    assert names == sorted([DATA["fullName"], EVE["fullName"]])
    assert not [customer for customer in field_container if customer.proven]
    # the buyer's own confirm comes too late to change that
    await get_refusal(till.api.confirm(till.payment_id, option["id"], outputs))
    assert count_stored(desk, till) == 2
    later = await open_pos(desk, till.wallet)
    assert await is_data_required(later)
    assert await is_data_required(as_stranger(later))


async def test_a_direct_payment_of_the_buyers_own_is_not_proven_either(desk):
    till = await mute_till(desk)
    assert (await submit_form(desk, await till.url())).status == 200
    actions = await till.fetch()
    await till.confirm(GUESSED)
    await till.wallet.perform(desk.chain, actions)
    assert (await desk.wait_final(till.payment_id))["status"] == "succeeded"
    assert await read_collected_data(desk, till.wallet) == [DATA]
    assert await is_data_required(await open_pos(desk, till.wallet))


async def test_payment_detected_on_chain_proves_no_data(desk):
    till = await mute_till(desk)
    stranger = as_stranger(till)
    await stranger.fetch(collected=EVE)
    url, option = await as_stranger(till, "late").url(), await till.option()
    assert (await submit_form(desk, await till.url())).status == 200
    await till.wallet.perform(desk.chain, await till.fetch())
    assert (await desk.wait_final(till.payment_id))["status"] == "succeeded"
    assert not [
        customer
        for customer in (await export_customer(desk, till.wallet)).collected_data
        if customer.proven
    ]
    assert await is_data_required(await open_pos(desk, till.wallet))
    # and no further data is accepted for it
    late = stranger.api.fetch(till.payment_id, option["id"], collected=EVE)
    assert (await get_refusal(late)).code == "invalid_state"
    assert (await submit_form(desk, url, EVE)).refusal == (401, "unauthorized")
    assert count_stored(desk, till) == 2


# many strangers


async def test_strangers_cannot_keep_a_buyer_out(desk, monkeypatch):
    monkeypatch.setattr(collected_data, "ROWS_AN_APP", 5)
    till = await open_pos(desk)
    _, key = await desk.key(None)
    by_key = as_stranger(till, **{"Api-Key": key})
    await by_key.fetch(collected=DATA)
    for n in range(12):
        desk.clock.advance(1)
        await as_stranger(till, f"stranger {n}").fetch(collected=EVE)
    # rows of the public app; another app's rows are its own
    assert count_stored(desk, till) == 6
    assert not await is_data_required(by_key)
    # although it is full, it accepts the data of the buyer's installation
    assert (await submit_form(desk, await till.url())).status == 200
    assert count_stored(desk, till) == 6
    assert not await is_data_required(till)
    assert await till.pay() == "succeeded"
    assert await read_collected_data(desk, till.wallet) == [DATA]


async def test_data_in_a_confirm_cannot_be_displaced(desk, monkeypatch):
    monkeypatch.setattr(collected_data, "ROWS_AN_APP", 3)
    till = await open_pos(desk)
    outputs = [till.wallet.execute(item) for item in await as_stranger(till).fetch(collected=EVE)]
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
    assert (await desk.wait_final(till.payment_id))["status"] == "succeeded"
    assert await read_collected_data(desk, till.wallet) == [DATA]


async def test_data_deleted_before_acceptance_is_required_again(desk, monkeypatch):
    till = await open_pos(desk)
    assert (await submit_form(desk, await till.url())).status == 200
    outputs = [till.wallet.execute(item) for item in await till.fetch()]
    account = till.wallet.account.lower()
    rail = desk.service.app.rails[till.wallet.chain]
    verify = rail.verifier.verify

    async def erased_meanwhile(*args: Any) -> None:
        await verify(*args)
        await desk.service.app.store.write(collected_data.erase(account, [till.payment_id]))

    with monkeypatch.context() as patch:
        patch.setattr(rail.verifier, "verify", erased_meanwhile)
        assert (await get_refusal(till.confirm(outputs))).http == 503
    assert (await desk.rest.status(till.payment_id))["status"] == "requires_action"
    assert (await get_refusal(till.confirm(outputs))).details["reason"] == "ic_required"
    await till.confirm(outputs, collected=DATA)
    assert (await desk.wait_final(till.payment_id))["status"] == "succeeded"


async def test_a_strangers_form_uses_up_its_own_limit(tmp_path):
    limits = {**NO_LIMITS.model_dump(), "payment_per_minute": 60, "payment_burst": 3}
    async with open_service(
        tmp_path, capture=CAPTURE_SETTINGS, limits=LimitSettings(**limits)
    ) as desk:
        till = await open_pos(desk)
        url = await as_stranger(till).url()
        answers = [await submit_form(desk, url, EVE) for _ in range(5)]
        assert [response.status for response in answers] == [200] * 3 + [429] * 2
        assert (await submit_form(desk, await till.url())).status == 200


# forms


async def test_a_form_writes_nothing_before_it_is_handed_in(desk):
    till = await open_pos(desk)
    await till.url()
    before = desk.rows()
    for n in range(20):
        stranger = as_stranger(till, f"stranger {n}")
        url = await stranger.url()
        assert (await desk.ask("GET", get_path(url))).status == 200
        assert (await get_refusal(stranger.fetch())).details["url"] == url
    assert desk.rows() == before


async def test_a_token_that_was_changed_is_refused(desk):
    till, other = await open_pos(desk), await open_pos(desk)
    tokens = [get_query(await pos.url())["t"] for pos in (till, other)]
    mine, theirs = (base64.urlsafe_b64decode(each_token + "==") for each_token in tokens)
    changed = [
        mine[:32] + theirs[32:],
        mine[:32] + mine[32:].replace(till.payment_id.encode(), other.payment_id.encode()),
        bytes([mine[0] ^ 1]) + mine[1:],
        mine[:-1],
        mine[:32],
        mine + b" ",
        mine[:32] + b"\xff" + mine[33:],
    ]
    for item in changed:
        token = base64.urlsafe_b64encode(item).decode().rstrip("=")
        answer = await desk.ask("POST", "/collect/", body={"token": token, "data": DATA})
        assert answer.refusal == (401, "unauthorized")
    # a link names its payment too
    mixed = get_path(await till.url()).replace(till.payment_id, other.payment_id)
    assert (await desk.ask("GET", mixed)).status == 401


async def test_forms_and_data_outlive_a_new_key(desk, monkeypatch):
    till, later = await open_pos(desk), await open_pos(desk)
    url = await later.url()
    await till.fetch(collected=DATA)
    app = desk.service.app
    keys = app.cipher.keys
    monkeypatch.setattr(type(app), "cipher", Cipher([*keys, b"\x07" * 32]))
    assert not await is_data_required(till)
    assert await till.pay() == "succeeded"
    assert (await submit_form(desk, url)).status == 200
    assert not await is_data_required(later)
    assert await read_collected_data(desk, till.wallet) == [DATA]
    # without the key that sealed it, the link opens no form
    monkeypatch.setattr(type(app), "cipher", Cipher([b"\x07" * 32]))
    assert (await submit_form(desk, url)).refusal == (401, "unauthorized")


async def test_form_for_an_erased_customer_is_refused(desk):
    till = await open_pos(desk)
    url = await till.url()
    await as_stranger(till).fetch(collected=EVE)
    account = till.wallet.account.lower()
    store = desk.service.app.store
    assert (await store.write(customers.erase(account, [till.payment_id]))).data == 1
    for _ in range(2):
        assert (await submit_form(desk, url)).refusal == (401, "unauthorized")
        assert (await desk.ask("GET", get_path(url))).status == 401
    assert count_stored(desk, till) == 0
    # a caller that requests options again is asked for data
    assert await till.url() == url
    assert (await submit_form(desk, url)).status == 200


async def test_form_for_two_accounts_keeps_data_already_stored_for_an_account(desk, till):
    other = EvmTestWallet()
    both = (await till.answer(other))["collectData"]["url"]
    assert (await submit_form(desk, await till.url())).status == 200
    assert (await submit_form(desk, both, {**DATA, "fullName": "Ada Two"})).status == 200
    assert await read_collected_data(desk, till.wallet) == [DATA]
    assert (await read_collected_data(desk, other))[0]["fullName"] == "Ada Two"
    assert (await submit_form(desk, both, EVE)).refusal == (401, "unauthorized")


async def test_form_covers_as_many_accounts_as_a_response_holds(desk):
    till = await open_pos(desk)
    answer = await till.answer(*(EvmTestWallet() for _ in range(99)))
    url = answer["collectData"]["url"]
    assert len(answer["options"]) == 100 == len(get_query(url)["accounts"].split(","))
    # the gateway's limit on the head of a request leaves room for a prefill
    assert len(url) < 12_000
    assert (await desk.ask("GET", get_path(url))).status == 200
    assert (await submit_form(desk, url)).status == 200
    assert count_stored(desk, till) == 100
