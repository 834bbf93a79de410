"""Test the Solana rail on an embedded chain: offers, verification, sending and proof."""

from __future__ import annotations

import asyncio
import base64
import json
import struct

import pytest
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from florin_server.domain.chains.solana.limits import PACKET_BYTES
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.solana.paying.terms import DIRECT_METHOD
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.types import PayableAsset, RailUnavailable
from solders.keypair import Keypair
from solders.transaction import VersionedTransaction

from tests.support.evm_harness import make_refusal, make_reply
from tests.support.solana import ASSETS, SolanaTestWallet, list_instructions
from tests.support.solana_answers import make_error_change, make_result_change
from tests.support.solana_devnet import (
    TOKEN,
    TOKEN_2022,
    get_token_account,
    make_payment,
    make_wallet,
)
from tests.support.solana_rail_harness import (
    FINAL,
    MERCHANT,
    PRICE,
    RELAYER,
    TREASURY,
    get_message,
    get_transaction,
    make_asset,
    make_chain_settings,
    make_chain_tx,
    make_outputs,
    make_split,
    open_lab,
    sign_build,
)

FAST_SLOT_S = 0.214


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaTestWallet:
    return SolanaTestWallet()


# ---- offers


@pytest.mark.parametrize("method", [None, DIRECT_METHOD])
async def test_outline_has_the_id_and_duration_of_the_built_option(lab, buyer, method):
    payable = PayableAsset(buyer.account, ASSETS[0], method=method)
    payment, _ = await lab.offer(buyer)
    token, split = lab.rail.assets[ASSETS[0]], make_split()
    offered = OptionOffer(payment, buyer.account, payable, token, PRICE, split, 0)
    option = lab.rail.offers.build_option(offered)
    assert lab.rail.offers.outline_option(offered) == (option.id, option.eta_s)


async def test_both_programs_tokens_are_offered(lab):
    assert tuple(lab.rail.assets) == ASSETS
    assert await lab.rail.list_problems() == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"reference": "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "live": False},
            "the node serves solana:",
        ),
        ({"assets": (make_asset(decimals=9),)}, "has 6 decimals, not 9"),
        ({"assets": (make_asset(mint=str(make_wallet(5).pubkey())),)}, "is not a token"),
    ],
)
async def test_chain_that_differs_from_its_settings_is_not_offered(changes, problem):
    async with open_lab(**changes) as lab:
        assert lab.rail.assets == {}
        (output,) = await lab.rail.list_problems()
        assert problem in output


@pytest.mark.parametrize(("kind", "offered"), [(18, True), (1, False), (12, False), (14, False)])
async def test_tokens_that_may_take_money_back_are_not_offered(lab, kind, offered):
    """1 is a transfer fee, 12 a permanent delegate, 14 a transfer hook, 18 only metadata."""

    def extend(result):
        mint = result["value"][1]
        data = base64.b64decode(mint["data"][0])
        data = data.ljust(165, b"\0") + b"\x01" + struct.pack("<HH", kind, 4) + bytes(4)
        mint["data"][0] = base64.b64encode(data).decode()

    lab.transport.changes["getMultipleAccounts"] = make_result_change(extend)
    problems = await lab.rail.list_problems()
    assert (ASSETS[1] in lab.rail.assets) is offered
    assert len(problems) == (not offered)


async def test_a_relayer_without_coin_is_a_problem(lab):
    lab.transport.changes["getBalance"] = make_reply({"context": {"slot": 1}, "value": 9_999_999})
    assert await lab.rail.list_problems() == ()
    (problem,) = await lab.rail.relay.list_shortages()
    assert RELAYER.address in problem.text
    assert problem.is_empty
    assert lab.rail.assets


async def test_balances_of_many_accounts_take_few_calls(lab):
    payers = [lab.rail.find_payer(SolanaTestWallet().account) for _ in range(60)]
    lab.transport.methods.clear()
    result = await lab.payable(payers, dict.fromkeys(ASSETS, PRICE))
    assert len(result) == 120
    # two calls, twice, with the faucet in between
    assert lab.transport.methods.count("getMultipleAccounts") == 4
    before = lab.rail.rpc.request_count
    again = [lab.payable(payers, dict.fromkeys(ASSETS, PRICE)) for _ in range(3)]
    assert await asyncio.gather(*again) == [result] * 3
    # one read fetches all of them in one payload
    assert lab.rail.rpc.request_count - before == 1
    assert lab.transport.methods.count("getMultipleAccounts") == 6


@pytest.mark.parametrize(
    ("at", "data"), [(32, bytes(make_wallet(5).pubkey())), (108, b"\x02"), (64, bytes(8))]
)
async def test_accounts_that_cannot_spend_are_not_offered(lab, buyer, at, data):
    """Assign the account to another owner, freeze it, or empty it."""
    payer = lab.rail.find_payer(buyer.account)
    assert await lab.payable([payer], {ASSETS[0]: PRICE})

    def spoil(result):
        held = result["value"][0]
        content = base64.b64decode(held["data"][0])
        content = content[:at] + data + content[at + len(data) :]
        held["data"][0] = base64.b64encode(content).decode()

    lab.transport.changes["getMultipleAccounts"] = make_result_change(spoil)
    lab.transport.changes["florin_faucet"] = make_refusal(-32000, "empty")
    assert await lab.payable([payer], {ASSETS[0]: PRICE}) == []


async def test_a_large_price_is_filled_up_to(lab, buyer):
    payer = lab.rail.find_payer(buyer.account)
    large = 10**14
    assert await lab.payable([payer], {ASSETS[1]: large + 1}) == []
    assert await lab.payable([payer], {ASSETS[1]: large})
    assert await lab.node.tokens(buyer.key.pubkey(), TOKEN_2022) == large


async def test_equal_offers_share_an_option_and_different_routes_do_not(lab, buyer):
    _, first = await lab.offer(buyer)
    _, again = await lab.offer(buyer)
    _, dearer = await lab.offer(buyer, fee=1)
    assert first == again
    assert first.id != dearer.id
    assert lab.rail.terms.get_reference(first) != lab.rail.terms.get_reference(dearer)


async def test_money_is_not_sent_to_an_account_that_cannot_own(lab, buyer):
    await lab.node.fund(make_wallet(3))
    token_account = str(get_token_account(make_wallet(3).pubkey()))
    _, option = await lab.offer(buyer, dest=token_account)
    with pytest.raises(RailUnavailable, match="is not a wallet"):
        await lab.build_option(option)


# ---- issued transactions


@pytest.mark.parametrize("fee", [0, 40_000])
async def test_the_transaction_fits_and_is_paid_by_the_relayer(lab, buyer, fee):
    _, option = await lab.offer(buyer, fee=fee)
    issued = await lab.build_option(option)
    versioned_transaction = get_transaction(issued)
    assert len(bytes(versioned_transaction)) <= PACKET_BYTES
    assert str(versioned_transaction.message.account_keys[0]) == RELAYER.address
    assert str(versioned_transaction.message.account_keys[1]) == buyer.address
    assert {bytes(signature) for signature in versioned_transaction.signatures} == {bytes(64)}
    memo = [
        bytes(instruction.data)
        for instruction in list_instructions(get_message(issued))
        if instruction.program_id == spl.MEMO
    ]
    assert memo == [lab.rail.terms.get_reference(option).encode()]


async def test_it_is_issued_again_unless_it_was_just_now(lab, buyer):
    _, option = await lab.offer(buyer)
    first = await lab.build_option(option)
    await lab.slots(15)
    assert await lab.resolve_build(option, [first]) is None
    await lab.slots(1)
    second = await lab.build_option(option, first)
    assert (second.n, second.actions != first.actions) == (1, True)


@pytest.mark.parametrize("before_s", [0, 3, 10, 16, 30])
async def test_buyer_with_25_seconds_to_sign_at_fast_slots_pays(lab, buyer, before_s):
    """However long the page was open before the wallet fetched its transaction again."""
    _, option = await lab.offer(buyer)
    first = await lab.build_option(option)
    await lab.slots(int(before_s / FAST_SLOT_S))
    again = await lab.resolve_build(option, [first])
    newest = first if again is None else again
    await lab.slots(int(25 / FAST_SLOT_S))
    issued = [newest] if newest is first else [newest, first]
    await lab.rail.verifier.verify(option, issued, make_outputs(sign_build(buyer, newest)))
    await lab.slots(150)
    with pytest.raises(ApiError) as caught:
        await lab.rail.verifier.verify(option, issued, make_outputs(sign_build(buyer, newest)))
    assert caught.value.code is ErrorCode.QUOTE_EXPIRED


# ---- verification


async def test_fully_signed_transaction_leaves_only_after_it_is_recorded(lab, buyer):
    tried = []
    lab.transport.changes["simulateTransaction"] = lambda params, result: (
        tried.append(params) or result
    )
    await lab.create_item(buyer)
    assert "sendTransaction" not in lab.transport.methods
    (params,) = tried
    sent = VersionedTransaction.from_bytes(base64.b64decode(params[0]))
    assert sent.verify_with_results() == [False, True]


async def refusal(lab, buyer) -> ApiError | RailUnavailable:
    _, option = await lab.offer(buyer)
    issued = await lab.build_option(option)
    with pytest.raises((ApiError, RailUnavailable)) as caught:
        await lab.rail.verifier.verify(option, [issued], make_outputs(sign_build(buyer, issued)))
    return caught.value


@pytest.mark.parametrize(
    ("error", "expected_text"),
    [
        ("BlockhashNotFound", "no node knows the blockhash now"),
        ("InsufficientFundsForFee", "the relayer cannot pay"),
        ("AccountNotFound", "the relayer cannot pay"),
        ({"InstructionError": [3, {"Custom": 17}]}, "transaction_mismatch"),
    ],
)
async def test_dry_run_failure_is_explained(lab, buyer, error, expected_text):
    lab.transport.changes["simulateTransaction"] = make_error_change(error)
    found_error = await refusal(lab, buyer)
    text = f"{found_error} {getattr(found_error, 'code', '')} {getattr(found_error, 'details', '')}"
    assert expected_text in text


async def test_a_transaction_that_costs_the_relayer_more_is_not_sent(lab, buyer):
    def drain(result):
        result["value"]["accounts"][0]["lamports"] -= 1

    lab.transport.changes["simulateTransaction"] = make_result_change(drain)
    assert isinstance(await refusal(lab, buyer), RailUnavailable)
    assert lab.transport.methods.count("simulateTransaction") == 3


async def test_a_transaction_that_costs_a_receiver_tokens_is_not_sent(lab, buyer):
    await lab.node.fund(make_wallet(91))

    def drain(result):
        held = result["value"]["accounts"][2]
        content = base64.b64decode(held["data"][0])
        held["data"][0] = base64.b64encode(content[:64] + bytes(8) + content[72:]).decode()

    lab.transport.changes["simulateTransaction"] = make_result_change(drain)
    assert isinstance(await refusal(lab, buyer), RailUnavailable)


@pytest.mark.parametrize(
    "result", [None, {}, {"value": None}, {"value": {}}, {"value": {"err": None, "accounts": [1]}}]
)
async def test_a_node_that_answers_nonsense_proves_nothing(lab, buyer, result):
    lab.transport.changes["simulateTransaction"] = make_reply(result)
    assert isinstance(await refusal(lab, buyer), RailUnavailable)


# ---- sending and proof


@pytest.mark.parametrize("token", [0, 1])
@pytest.mark.parametrize("fee", [0, 40_000])
async def test_a_payment_is_proven_when_it_is_final_and_not_before(lab, buyer, token, fee):
    item, _ = await lab.create_item(buyer, token=token, fee=fee)
    coin = await lab.node.coin(RELAYER.pubkey)
    tx = await lab.submit_item(item)
    assert await lab.rail.relay.has_transaction(tx.hash)
    for _ in range(FINAL - 1):
        assert await lab.rail.observer.find_mined([tx.hash]) == {}
        assert await lab.rail.observer.find_settlement_events([item]) == []
        await lab.slots(1)
    (paid,) = await lab.rail.observer.find_settlement_events([item])
    assert lab.rail.terms.is_proven(item.option, paid)
    assert (paid.tx_hash, paid.value, paid.fee, paid.dest) == (tx.hash, PRICE, fee, MERCHANT)
    mined = (await lab.rail.observer.find_mined([tx.hash]))[tx.hash]
    assert mined.success
    # accounts were opened for the receivers without one
    assert mined.gas_cost > 0
    assert mined.rent > 0
    assert mined.gas_cost + mined.rent == coin - await lab.node.coin(RELAYER.pubkey)
    kind = (TOKEN, TOKEN_2022)[token]
    assert await lab.node.tokens(make_wallet(91).pubkey(), kind) == PRICE - fee
    assert await lab.node.tokens(spl.parse_pubkey(TREASURY), kind) == fee
    assert await lab.rail.observer.find_unpayable_reason(item, []) is None


async def test_the_same_item_is_always_the_same_transaction(lab, buyer):
    item, _ = await lab.create_item(buyer)
    assert await lab.rail.relay.sign(RELAYER.address, 0, [item]) == await lab.rail.relay.sign(
        RELAYER.address, 7, [item]
    )


async def test_payment_from_a_merchant_to_the_same_merchant_is_proven(lab, buyer):
    item, _ = await lab.create_item(buyer, dest=buyer.address)
    await lab.submit_item(item)
    await lab.slots(FINAL)
    (paid,) = await lab.rail.observer.find_settlement_events([item])
    assert lab.rail.terms.is_proven(item.option, paid)


async def test_money_that_is_gone_when_it_lands_is_a_failure_for_good(lab, buyer):
    item, issued = await lab.create_item(buyer)
    held = await lab.node.tokens(buyer.key.pubkey())
    moves = make_payment(buyer.key, make_wallet(8).pubkey(), held)
    await lab.node.send(await lab.node.make_transaction([buyer.key], *moves))
    assert await lab.rail.relay.simulate([item]) == [False]
    tx = await lab.submit_item(item)
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
    await lab.slots(FINAL)
    assert not (await lab.rail.observer.find_mined([tx.hash]))[tx.hash].success
    assert await lab.rail.observer.find_settlement_events([item]) == []
    reason = await lab.rail.observer.find_unpayable_reason(item, [issued])
    assert reason is not None
    assert "Custom" in reason
    # its fee was paid: while a node does not return it, it is not over
    assert not await lab.rail.observer.cannot_be_mined(make_chain_tx(tx, item), [issued])


async def test_payment_whose_status_nodes_lack_for_a_while_is_not_dead(lab, buyer):
    item, issued = await lab.create_item(buyer)
    signed = await lab.rail.relay.sign(RELAYER.address, 0, [item])
    await lab.submit_item(item)
    await lab.slots(200)
    lab.transport.changes["getSignatureStatuses"] = make_result_change(
        lambda answer: answer.update(value=[None] * len(answer["value"]))
    )
    tx = make_chain_tx(signed, item)
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
    assert not await lab.rail.observer.cannot_be_mined(tx, [issued])


async def test_unsent_payment_is_dead_once_its_blockhash_lapsed_at_final_depth(lab, buyer):
    item, issued = await lab.create_item(buyer)
    created = await lab.rail.relay.sign(RELAYER.address, 0, [item])
    last_valid = issued.terms["last_valid"]
    height = await lab.node.ask("getBlockHeight", {"commitment": "finalized"})
    await lab.slots(last_valid - height)
    tx = make_chain_tx(created, item)
    assert await lab.rail.observer.find_unpayable_reason(item, [issued]) is None
    assert not await lab.rail.observer.cannot_be_mined(tx, [issued])
    await lab.slots(1)
    assert (
        await lab.rail.observer.find_unpayable_reason(item, [issued])
        == "The transaction lapsed before it landed"
    )
    assert await lab.rail.observer.cannot_be_mined(tx, [issued])
    # without the issued transaction its deadline is unknown
    assert await lab.rail.observer.find_unpayable_reason(item, []) is None


async def test_a_node_that_lags_proves_no_absence(lab, buyer):
    item, issued = await lab.create_item(buyer)
    await lab.slots(400)
    behind = {"context": {"slot": 1}, "value": [None]}
    lab.transport.changes["getSignatureStatuses"] = make_reply(behind)
    with pytest.raises(RailUnavailable, match="lags"):
        await lab.rail.observer.find_unpayable_reason(item, [issued])


async def test_statuses_that_lie_prove_no_payment(lab, buyer):
    """The error is checked first, and the balances decide."""
    item, _ = await lab.create_item(buyer)
    await lab.submit_item(item)
    await lab.slots(FINAL)

    def failed(result):
        result["meta"]["err"] = {"InstructionError": [3, {"Custom": 1}]}

    def less(result):
        result["meta"]["postTokenBalances"][-1]["uiTokenAmount"]["amount"] = "1"

    def silent(result):
        result["meta"]["postTokenBalances"] = []

    for lie in (failed, less, silent):
        lab.transport.changes["getTransaction"] = make_result_change(lie)
        # a rail without memory
        rail = SolanaRail(make_chain_settings(), RELAYER, lab.transport)
        assert await rail.observer.find_settlement_events([item]) == []
    lab.transport.changes.clear()
    assert len(await lab.rail.observer.find_settlement_events([item])) == 1


async def test_transaction_that_the_node_does_not_return_proves_nothing(lab, buyer):
    item, _ = await lab.create_item(buyer)
    tx = await lab.submit_item(item)
    await lab.slots(FINAL)
    lab.transport.changes["getTransaction"] = make_reply(None)
    assert await lab.rail.observer.find_mined([tx.hash]) == {}
    assert await lab.rail.observer.find_settlement_events([item]) == []


async def test_an_error_on_send_counts_only_if_the_chain_has_nothing(lab, buyer):
    item, _ = await lab.create_item(buyer)
    await lab.node.fault("answer", method="sendTransaction", effect="error", message="busy")
    with pytest.raises(RailUnavailable, match="busy"):
        await lab.submit_item(item)
    await lab.node.fault("answer", method="sendTransaction", effect="late_error")
    tx = await lab.submit_item(item)
    await lab.submit_item(item)
    assert await lab.rail.relay.has_transaction(tx.hash)
    assert await lab.node.tokens(make_wallet(91).pubkey()) == PRICE


async def test_the_relayer_shows_its_address_only():
    assert repr(RELAYER) == f"SolanaSigner({RELAYER.address})"
    assert str(Keypair.from_seed(b"\x52" * 32).pubkey()) == RELAYER.address


def test_settings_that_cannot_be_are_refused():
    chain = SOLANA_DEVNET.chain_id
    for changes in (
        {"live": True},
        {"assets": (make_asset(), make_asset())},
        {"treasury": f"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:{TREASURY}"},
        {"treasury": "0x12"},
        {"reference": "abc"},
    ):
        with pytest.raises(ValueError, match=r"."):
            make_chain_settings(**changes)
    assert (
        make_chain_settings(treasury=f"{chain}:{TREASURY}").treasury_account
        == f"{chain}:{TREASURY}"
    )
    assert json.loads(make_chain_settings().model_dump_json())["faucet"] is True
