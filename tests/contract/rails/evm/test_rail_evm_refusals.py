"""Test that a token's refusal is reported as such, not as a bad signature, and is not offered."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm import abi
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import PayableAsset, Split

from tests.support.evm_harness import (
    ACCEPTS_ALL,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    RELAYER,
    TOKEN,
    EvmChainHarness,
    make_asset,
    make_buyer,
    make_chain_settings,
    make_euro_asset,
    make_payment,
    open_lab,
    sign_option,
    to_account,
)

pytestmark = pytest.mark.both_chains

WALLET, OTHER = make_buyer(7), make_buyer(8)
PAYER = to_account(WALLET)
PRICES = {TOKEN: PRICE, EURO: PRICE}
PAUSED, FROZEN = "TestDollar: paused", "TestDollar: account is frozen"


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, assets=(make_asset(), make_euro_asset()))
    await lab.fund(WALLET, OTHER)
    assert await lab.payable([PAYER], PRICES)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def tell(lab: EvmChainHarness, call: str, account: str = "") -> None:
    """Execute a decision of the token's owner."""
    data = abi.encode_selector(call) + (abi.encode_address(account) if account else b"")
    await lab.send(to=DEVNET.token.address, data=data)


async def pause(lab: EvmChainHarness) -> None:
    await tell(lab, "pause()")


async def freeze(lab: EvmChainHarness, account: str) -> None:
    await tell(lab, "blacklist(address)", account)


def hide(lab: EvmChainHarness) -> None:
    """Make the token hide whom it refuses, as many tokens do."""
    requests = [abi.encode_selector(item).hex() for item in ("paused()", "isBlacklisted(address)")]

    def change(params: list[Any], answer: dict[str, Any]) -> Any:
        if params[0]["data"][2:10] in requests:
            return {"id": answer["id"], "error": {"code": 3, "message": "execution reverted"}}
        return answer

    lab.node.changes["eth_call"] = change


async def refusal(lab: EvmChainHarness, option: Any, output: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, (), [output])
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    assert caught.value.http_status == 400
    return caught.value


# known refusals are not offered


@pytest.mark.parametrize("reads", ["batch", "deployless"])
async def test_a_paused_token_is_not_offered(lab, reads):
    rail = EvmRail(
        make_chain_settings(assets=(make_asset(), make_euro_asset()), reads=reads),
        RELAYER,
        lab.node,
    )
    await rail.start()
    assert [payable.asset for payable in await rail.offers.list_payable([PAYER], PRICES)] == [
        TOKEN,
        EURO,
    ]
    await pause(lab)
    assert [payable.asset for payable in await rail.offers.list_payable([PAYER], PRICES)] == [EURO]
    (output,) = await rail.list_problems()
    assert "is paused, so it is not offered" in output
    await tell(lab, "unpause()")
    assert [payable.asset for payable in await rail.offers.list_payable([PAYER], PRICES)] == [
        TOKEN,
        EURO,
    ]
    assert await rail.list_problems() == ()


@pytest.mark.parametrize("reads", ["batch", "deployless"])
async def test_a_payer_whom_the_token_refuses_is_offered_other_tokens(lab, reads):
    rail = EvmRail(
        make_chain_settings(assets=(make_asset(), make_euro_asset()), reads=reads),
        RELAYER,
        lab.node,
    )
    await rail.start()
    await lab.payable([to_account(OTHER)], PRICES)
    await freeze(lab, WALLET.address)
    payables = await rail.offers.list_payable([PAYER, to_account(OTHER)], PRICES)
    assert [payable.asset for payable in payables if payable.payer == PAYER] == [EURO]
    assert [payable.asset for payable in payables if payable.payer != PAYER] == [TOKEN, EURO]


@pytest.mark.parametrize("place", [MERCHANT, FEES])
async def test_a_receiver_whom_the_token_refuses_is_an_obstacle_and_an_alarm(lab, place, caplog):
    now = [0.0]
    rail = EvmRail(make_chain_settings(), RELAYER, lab.node, now=lambda: now[0])
    await rail.start()
    split = Split(to_account(MERCHANT), to_account(FEES), 15_000, settled=True)
    token = rail.assets[TOKEN]
    assert await rail.offers.check_receivable(token, PRICE, split) is None
    await freeze(lab, place)
    now[0] += 6
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert place in (await rail.offers.check_receivable(token, PRICE, split) or "")
            now[0] += 6
    assert [record.levelname for record in caplog.records if place in record.getMessage()] == [
        "ERROR"
    ]
    (output,) = await rail.list_problems()
    assert (place in output, DEVNET.token.address in output) == (True, True)
    # the refusal ends once the token reports so
    await tell(lab, "unBlacklist(address)", place)
    assert await rail.offers.check_receivable(token, PRICE, split) is None
    assert await rail.list_problems() == ()


async def test_refused_receivers_are_reported_up_to_a_limit(lab):
    token = lab.rail.assets[TOKEN]
    places = [f"0x{n:040x}" for n in range(0x1000, 0x1000 + 30)]
    for place in places:
        await freeze(lab, place)
        split = Split(to_account(place), None, 0, settled=True)
        assert await lab.rail.offers.check_receivable(token, PRICE, split)
    result = await lab.rail.list_problems()
    assert len(result) == 20
    assert places[-1] in result[-1]


async def test_a_token_that_refuses_the_settlement_contract_is_not_taken(lab):
    await freeze(lab, DEVNET.settler)
    (result,) = await lab.rail.list_problems()
    assert "refuses the settlement contract" in result
    assert list(lab.rail.assets) == [EURO]


# a valid signature is not reported as a wrong signature


@pytest.mark.parametrize("hidden", [False, True])
async def test_a_pause_is_no_fault_of_the_signature(lab, hidden):
    option = lab.offer(WALLET)
    await pause(lab)
    if hidden:
        hide(lab)
    error = await refusal(lab, option, sign_option(WALLET, option))
    assert error.details == {
        "reason": "token_refused",
        "refused": "payer" if hidden else "everybody",
        "revert": PAUSED,
    }
    assert "signature" not in error.message


@pytest.mark.parametrize(
    ("address", "what"),
    [
        (WALLET.address, "payer"),
        (MERCHANT, "receiver"),
        (FEES, "operator"),
        (DEVNET.settler, "operator"),
    ],
)
async def test_token_refusal_names_the_refused_party(lab, address, what, caplog):
    option = lab.offer(WALLET, fee=15_000)
    await freeze(lab, address)
    hide(lab)
    with caplog.at_level(logging.WARNING):
        error = await refusal(lab, option, sign_option(WALLET, option))
    assert error.details == {"reason": "token_refused", "refused": what, "revert": FROZEN}
    assert option.payment_id in caplog.text
    assert FROZEN in caplog.text
    # a problem of a single payer raises no alarm
    alarms = await lab.rail.list_problems()
    assert [FROZEN in alarm for alarm in alarms] == ([] if what == "payer" else [True])


async def test_permit2_token_refusal_is_reported_with_its_reason(lab):
    """Permit2 and the settlement contract hide the token's error."""
    rail = EvmRail(make_chain_settings(assets=(make_asset(method="permit2"),)), RELAYER, lab.node)
    await rail.start()
    split = Split(to_account(MERCHANT), None, 0, settled=True)
    (means,) = await rail.offers.list_payable([PAYER], {TOKEN: PRICE})
    token, now_us = rail.assets[TOKEN], lab.clock.now_us()
    option = rail.offers.build_option(
        OptionOffer(make_payment(), PAYER, means, token, PRICE, split, now_us)
    )
    approve, _ = option.actions
    done = await lab.perform(WALLET, approve)
    await freeze(lab, MERCHANT)
    with pytest.raises(ApiError) as caught:
        await rail.verifier.verify(option, (), [done, sign_option(WALLET, option)])
    assert caught.value.details == {
        "reason": "token_refused",
        "refused": "receiver",
        "revert": FROZEN,
    }


async def test_token_refusal_for_a_contract_account_is_reported(lab):
    address = await lab.deploy(ACCEPTS_ALL)
    await lab.fund(address)
    option = lab.offer(address)
    await freeze(lab, address)
    error = await refusal(lab, option, json.dumps("0x" + "5a" * 65))
    assert (error.details["reason"], error.details["refused"]) == ("token_refused", "payer")


async def test_used_authorization_is_reported_with_the_revert_of_the_token(lab):
    item = await lab.create_verified_item(1)
    await lab.settle(item)
    await lab.fund(make_buyer(1001))
    error = await refusal(lab, item.option, item.confirmation.outputs[0])
    assert error.details["reason"] == "signature_mismatch"
    assert error.details["revert"].startswith("TestDollar: authorization")


# Accepts every signature and delivers nothing of what it moves. The settlement contract cannot
# forward it, while all other transfers succeed.
TAKES_FEE = (
    "5f3560e01c806370a0823114603857"
    f"63a9059cbb143373{DEVNET.settler[2:]}1416604557"
    "60015f5260205ff3"
    "5b64ffffffffff5f5260205ff3"
    "5b5f5ffd"
)


async def test_token_that_takes_a_fee_is_distinguished_from_a_wrong_signature(lab):
    option = offer_of(lab, await lab.deploy(TAKES_FEE))
    error = await refusal(lab, option, sign_option(WALLET, option))
    assert error.details == {"reason": "token_takes_fee", "revert": "TransferFailed"}
    assert "signature" not in error.message
    assert (await refusal(lab, option, sign_option(OTHER, option))).details == {
        "reason": "signature_mismatch"
    }


@pytest.mark.parametrize("ahead_s", [0, 7200])
async def test_authorization_past_the_chains_time_is_no_fault_of_the_signature(lab, ahead_s):
    option = lab.offer(WALLET)
    lab.clock.advance(900 + 300 + ahead_s)
    await lab.mine()
    error = await refusal(lab, option, sign_option(WALLET, option))
    assert error.details == {"reason": "authorization_expired"}
    assert "signature" not in error.message
    assert (await refusal(lab, option, sign_option(OTHER, option))).details == {
        "reason": "signature_mismatch"
    }


async def test_wrong_signature_is_reported_while_the_token_is_paused(lab):
    option = lab.offer(WALLET)
    await pause(lab)
    error = await refusal(lab, option, sign_option(OTHER, option))
    assert error.details == {"reason": "signature_mismatch"}


async def test_insufficient_funds_is_reported_before_token_refusal(lab):
    option = lab.offer(make_buyer(99))
    await pause(lab)
    error = await refusal(lab, option, sign_option(make_buyer(99), option))
    assert error.details == {"reason": "insufficient_funds"}


# gas


# counts down from 12,000 for 26 gas each time, then accepts
SLOW = "612ee05b6001900380600357" + ACCEPTS_ALL


async def test_account_that_exceeds_the_gas_limit_gets_gas_limit(lab):
    address = await lab.deploy(SLOW)
    await lab.fund(address)
    error = await refusal(lab, lab.offer(address), json.dumps("0x" + "5a" * 65))
    assert error.details == {"reason": "gas_limit"}
    assert "gas" in error.message


def offer_of(lab: EvmChainHarness, token_address: str) -> Any:
    """Return the option of a token that was not inspected."""
    token = replace(lab.rail.assets[TOKEN], address=token_address)
    split = Split(to_account(MERCHANT), None, 0, settled=True)
    means, now_us = PayableAsset(PAYER, TOKEN), lab.clock.now_us()
    return lab.rail.offers.build_option(
        OptionOffer(make_payment(), PAYER, means, token, PRICE, split, now_us)
    )


# after it is accepted


async def test_failure_reason_includes_the_token_refusal_that_blocked_settlement(lab):
    item = await lab.create_verified_item(1, fee=15_000)
    await freeze(lab, MERCHANT)
    assert await lab.rail.relay.simulate([item]) == [False]
    (alarm,) = await lab.rail.list_problems()
    assert MERCHANT in alarm
    lab.clock.advance(900 + 301)
    await lab.mine(3)
    reason = await lab.rail.observer.find_unpayable_reason(item, ())
    assert reason is not None
    assert reason.startswith("The authorization lapsed before it was settled; the token")
    assert reason.endswith(f"refuses the merchant's account {MERCHANT}: {FROZEN}")


async def test_a_process_that_began_later_finds_the_reason_too(lab):
    item = await lab.create_verified_item(1)
    await freeze(lab, item.option.payer.rpartition(":")[2])
    lab.clock.advance(900 + 301)
    await lab.mine(3)
    assert FROZEN in (await lab.rail.observer.find_unpayable_reason(item, ()) or "")


async def test_an_end_needs_no_reason(lab):
    item = await lab.create_verified_item(1)
    lab.clock.advance(900 + 301)
    await lab.mine(3)
    assert (
        await lab.rail.observer.find_unpayable_reason(item, ())
        == "The authorization lapsed before it was settled"
    )
