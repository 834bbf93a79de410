"""Options that wallets request again: they are stored, and not built a second time."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_repeated_request_returns_stored_options_without_building_any(desk, monkeypatch):
    offer = await desk.offer()
    (rail,) = desk.service.app.rails.values()

    def refuse(*of: Any) -> None:
        raise AssertionError(f"built again: {of}")

    monkeypatch.setattr(rail.offers, "build_option", refuse)
    account = offer.wallet.account
    written = [account, account.lower(), "eip155:31337:0x" + account[-40:].upper()]
    for text in written:
        (option,) = (await desk.rest.options(offer.payment_id, [text]))["options"]
        assert option == {**offer.option, "account": text}


async def test_later_request_builds_only_options_of_new_accounts(desk, monkeypatch):
    offer = await desk.offer()
    (rail,) = desk.service.app.rails.values()
    build_option, built = rail.offers.build_option, []

    def record(*of: Any) -> Any:
        built.append(build_option(*of))
        return built[-1]

    monkeypatch.setattr(rail.offers, "build_option", record)
    other = (await desk.offer()).wallet.account
    del built[:]
    options = (await desk.rest.options(offer.payment_id, [other, offer.wallet.account]))["options"]
    assert {option["account"] for option in options} == {other, offer.wallet.account}
    assert [option.account for option in built] == [other]
    assert offer.option in options
