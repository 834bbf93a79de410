"""A token that refuses is told as that, never as a fault of the signature, and not offered."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from florin_server.chains.evm import abi
from florin_server.devnet.evm import DEVNET
from florin_server.domain.errors import Code, FlorinError
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.types import Payable, Split

from tests.support.evm_lab import (
    ACCEPTS_ALL,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    RELAYER,
    TOKEN,
    Lab,
    account_of,
    asset,
    buyer,
    euro,
    new_payment,
    open_lab,
    settings,
    signed,
)

pytestmark = pytest.mark.both_chains

WALLET, OTHER = buyer(7), buyer(8)
PAYER = account_of(WALLET)
PRICES = {TOKEN: PRICE, EURO: PRICE}
PAUSED, FROZEN = "TestDollar: paused", "TestDollar: account is frozen"


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, assets=(asset(), euro()))
    await lab.fund(WALLET, OTHER)
    assert await lab.payable([PAYER], PRICES)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def tell(lab: Lab, call: str, account: str = "") -> None:
    """What the token's owner decides."""
    data = abi.selector(call) + (abi.address(account) if account else b"")
    await lab.send(to=DEVNET.token.address, data=data)


async def pause(lab: Lab) -> None:
    await tell(lab, "pause()")


async def freeze(lab: Lab, account: str) -> None:
    await tell(lab, "blacklist(address)", account)


def hide(lab: Lab) -> None:
    """The token answers nothing about whom it refuses, as many do."""
    asked = [abi.selector(one).hex() for one in ("paused()", "isBlacklisted(address)")]

    def change(params: list[Any], answer: dict[str, Any]) -> Any:
        if params[0]["data"][2:10] in asked:
            return {"id": answer["id"], "error": {"code": 3, "message": "execution reverted"}}
        return answer

    lab.node.changes["eth_call"] = change


async def refusal(lab: Lab, option: Any, output: str) -> FlorinError:
    with pytest.raises(FlorinError) as caught:
        await lab.rail.verifier.verify(option, (), [output])
    assert caught.value.code is Code.INVALID_PARAMS
    assert caught.value.http == 400
    return caught.value


# what is known is not offered


@pytest.mark.parametrize("reads", ["batch", "deployless"])
async def test_a_paused_token_is_not_offered(lab, reads):
    rail = EvmRail(settings(assets=(asset(), euro()), reads=reads), RELAYER, lab.node)
    await rail.start()
    assert [one.asset for one in await rail.offers.payable([PAYER], PRICES)] == [TOKEN, EURO]
    await pause(lab)
    assert [one.asset for one in await rail.offers.payable([PAYER], PRICES)] == [EURO]
    (told,) = await rail.problems()
    assert "is paused, and not offered until it is not" in told
    await tell(lab, "unpause()")
    assert [one.asset for one in await rail.offers.payable([PAYER], PRICES)] == [TOKEN, EURO]
    assert await rail.problems() == ()


@pytest.mark.parametrize("reads", ["batch", "deployless"])
async def test_a_payer_whom_the_token_refuses_is_offered_other_tokens(lab, reads):
    rail = EvmRail(settings(assets=(asset(), euro()), reads=reads), RELAYER, lab.node)
    await rail.start()
    await lab.payable([account_of(OTHER)], PRICES)
    await freeze(lab, WALLET.address)
    found = await rail.offers.payable([PAYER, account_of(OTHER)], PRICES)
    assert [one.asset for one in found if one.payer == PAYER] == [EURO]
    assert [one.asset for one in found if one.payer != PAYER] == [TOKEN, EURO]


@pytest.mark.parametrize("place", [MERCHANT, FEES])
async def test_a_receiver_whom_the_token_refuses_is_an_obstacle_and_an_alarm(lab, place, caplog):
    now = [0.0]
    rail = EvmRail(settings(), RELAYER, lab.node, now=lambda: now[0])
    await rail.start()
    split = Split(account_of(MERCHANT), account_of(FEES), 15_000, settled=True)
    token = rail.assets[TOKEN]
    assert await rail.offers.obstacle(token, PRICE, split) is None
    await freeze(lab, place)
    now[0] += 6
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert place in (await rail.offers.obstacle(token, PRICE, split) or "")
            now[0] += 6
    assert [one.levelname for one in caplog.records if place in one.getMessage()] == ["ERROR"]
    (told,) = await rail.problems()
    assert (place in told, DEVNET.token.address in told) == (True, True)
    # it is over once the token says so
    await tell(lab, "unBlacklist(address)", place)
    assert await rail.offers.obstacle(token, PRICE, split) is None
    assert await rail.problems() == ()


async def test_many_places_that_are_refused_are_told_briefly(lab):
    token = lab.rail.assets[TOKEN]
    places = [f"0x{n:040x}" for n in range(0x1000, 0x1000 + 30)]
    for place in places:
        await freeze(lab, place)
        split = Split(account_of(place), None, 0, settled=True)
        assert await lab.rail.offers.obstacle(token, PRICE, split)
    told = await lab.rail.problems()
    assert len(told) == 20
    assert places[-1] in told[-1]


async def test_a_token_that_refuses_the_settlement_contract_is_not_taken(lab):
    await freeze(lab, DEVNET.settler)
    (told,) = await lab.rail.problems()
    assert "refuses the settlement contract" in told
    assert list(lab.rail.assets) == [EURO]


# what is signed rightly is not called a wrong signature


@pytest.mark.parametrize("hidden", [False, True])
async def test_a_pause_is_no_fault_of_the_signature(lab, hidden):
    option = lab.offer(WALLET)
    await pause(lab)
    if hidden:
        hide(lab)
    told = await refusal(lab, option, signed(WALLET, option))
    assert told.details == {
        "reason": "token_refused",
        "refused": "payer" if hidden else "everybody",
        "revert": PAUSED,
    }
    assert "signature" not in told.message


@pytest.mark.parametrize(
    ("address", "what"),
    [
        (WALLET.address, "payer"),
        (MERCHANT, "receiver"),
        (FEES, "operator"),
        (DEVNET.settler, "operator"),
    ],
)
async def test_who_is_refused_is_told(lab, address, what, caplog):
    option = lab.offer(WALLET, fee=15_000)
    await freeze(lab, address)
    hide(lab)
    with caplog.at_level(logging.WARNING):
        told = await refusal(lab, option, signed(WALLET, option))
    assert told.details == {"reason": "token_refused", "refused": what, "revert": FROZEN}
    assert option.payment_id in caplog.text
    assert FROZEN in caplog.text
    # what only one payer cannot do is no alarm
    alarms = await lab.rail.problems()
    assert [FROZEN in one for one in alarms] == ([] if what == "payer" else [True])


async def test_a_token_without_signatures_of_its_own_tells_it_too(lab):
    """Permit2 and the settlement contract hide what the token said."""
    rail = EvmRail(settings(assets=(asset(method="permit2"),)), RELAYER, lab.node)
    await rail.start()
    split = Split(account_of(MERCHANT), None, 0, settled=True)
    (means,) = await rail.offers.payable([PAYER], {TOKEN: PRICE})
    token, now_us = rail.assets[TOKEN], lab.clock.now_us()
    option = rail.offers.offer(new_payment(), PAYER, means, token, PRICE, split, now_us)
    approve, _ = option.actions
    done = await lab.perform(WALLET, approve)
    await freeze(lab, MERCHANT)
    with pytest.raises(FlorinError) as caught:
        await rail.verifier.verify(option, (), [done, signed(WALLET, option)])
    assert caught.value.details == {
        "reason": "token_refused",
        "refused": "receiver",
        "revert": FROZEN,
    }


async def test_a_contract_account_is_told_as_well(lab):
    address = await lab.deploy(ACCEPTS_ALL)
    await lab.fund(address)
    option = lab.offer(address)
    await freeze(lab, address)
    told = await refusal(lab, option, json.dumps("0x" + "5a" * 65))
    assert (told.details["reason"], told.details["refused"]) == ("token_refused", "payer")


async def test_a_used_authorization_is_told_in_the_tokens_words(lab):
    item = await lab.sold(1)
    await lab.settle(item)
    await lab.fund(buyer(1001))
    told = await refusal(lab, item.option, item.confirmation.outputs[0])
    assert told.details["reason"] == "signature_mismatch"
    assert told.details["revert"].startswith("TestDollar: authorization")


# Accepts every signature and delivers nothing of what it moves: the settlement contract cannot
# forward it, while everyone else's transfers go well.
TAKES_FEE = (
    "5f3560e01c806370a0823114603857"
    f"63a9059cbb143373{DEVNET.settler[2:]}1416604557"
    "60015f5260205ff3"
    "5b64ffffffffff5f5260205ff3"
    "5b5f5ffd"
)


async def test_token_that_takes_a_fee_is_told_apart_from_a_wrong_signature(lab):
    option = offer_of(lab, await lab.deploy(TAKES_FEE))
    told = await refusal(lab, option, signed(WALLET, option))
    assert told.details == {"reason": "token_takes_fee", "revert": "TransferFailed"}
    assert "signature" not in told.message
    assert (await refusal(lab, option, signed(OTHER, option))).details == {
        "reason": "signature_mismatch"
    }


@pytest.mark.parametrize("ahead_s", [0, 7200])
async def test_authorization_past_the_chains_time_is_no_fault_of_the_signature(lab, ahead_s):
    option = lab.offer(WALLET)
    lab.clock.advance(900 + 300 + ahead_s)
    await lab.mine()
    told = await refusal(lab, option, signed(WALLET, option))
    assert told.details == {"reason": "authorization_expired"}
    assert "signature" not in told.message
    assert (await refusal(lab, option, signed(OTHER, option))).details == {
        "reason": "signature_mismatch"
    }


async def test_a_wrong_signature_stays_one_while_the_token_is_paused(lab):
    option = lab.offer(WALLET)
    await pause(lab)
    told = await refusal(lab, option, signed(OTHER, option))
    assert told.details == {"reason": "signature_mismatch"}


async def test_an_account_without_money_is_told_that_first(lab):
    option = lab.offer(buyer(99))
    await pause(lab)
    told = await refusal(lab, option, signed(buyer(99), option))
    assert told.details == {"reason": "insufficient_funds"}


# gas


# counts down from 12,000, for 26 gas each time, and accepts
SLOW = "612ee05b6001900380600357" + ACCEPTS_ALL


async def test_an_account_that_needs_more_gas_than_there_is_is_told_so(lab):
    address = await lab.deploy(SLOW)
    await lab.fund(address)
    told = await refusal(lab, lab.offer(address), json.dumps("0x" + "5a" * 65))
    assert told.details == {"reason": "gas_limit"}
    assert "gas" in told.message


def offer_of(lab: Lab, token_address: str) -> Any:
    """Return the option of a token that was not inspected."""
    token = replace(lab.rail.assets[TOKEN], address=token_address)
    split = Split(account_of(MERCHANT), None, 0, settled=True)
    means, now_us = Payable(PAYER, TOKEN), lab.clock.now_us()
    return lab.rail.offers.offer(new_payment(), PAYER, means, token, PRICE, split, now_us)


# once it is accepted


async def test_what_a_payment_waited_for_is_part_of_its_end(lab):
    item = await lab.sold(1, fee=15_000)
    await freeze(lab, MERCHANT)
    assert await lab.rail.relay.simulate([item]) == [False]
    (alarm,) = await lab.rail.problems()
    assert MERCHANT in alarm
    lab.clock.advance(900 + 301)
    await lab.mine(3)
    reason = await lab.rail.observer.unpayable_reason(item, ())
    assert reason is not None
    assert reason.startswith("The authorization lapsed before it was settled; the token")
    assert reason.endswith(f"refuses the merchant's account {MERCHANT}: {FROZEN}")


async def test_a_process_that_began_later_finds_the_reason_too(lab):
    item = await lab.sold(1)
    await freeze(lab, item.option.payer.rpartition(":")[2])
    lab.clock.advance(900 + 301)
    await lab.mine(3)
    assert FROZEN in (await lab.rail.observer.unpayable_reason(item, ()) or "")


async def test_an_end_needs_no_reason(lab):
    item = await lab.sold(1)
    lab.clock.advance(900 + 301)
    await lab.mine(3)
    assert (
        await lab.rail.observer.unpayable_reason(item, ())
        == "The authorization lapsed before it was settled"
    )
