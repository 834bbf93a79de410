"""The other ways to pay on an EVM chain, each run over REST and checked by final balances."""

from __future__ import annotations

import json

import pytest
import pytest_asyncio
from florin_sandbox.devnet.evm import DEVNET

from tests.support.api import ApiCallError
from tests.support.evm_pos import EUR, PRICE, USD, EvmPos
from tests.support.merchant_tenant import set_destinations
from tests.support.operator import block
from tests.support.service_harness import CREATE, open_service
from tests.support.wallet import NON_SIGNING_ADDRESS, EvmTestWallet, get_params, get_typed_data

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.both_chains]

EURO = DEVNET.euro.address
MERCHANT = "0x" + "5a" * 20
ETHER = f"eip155:{DEVNET.chain_id}/slip44:60"
GBP = {"unit": "iso4217/GBP", "value": "1250"}
WEI = 5 * 10**15  # 12.50 at 2500.00
MISMATCH = "transaction_mismatch"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory, evm):
    home = tmp_path_factory.mktemp("stories") / "home"
    async with open_service(home, evm=evm, rates={ETHER: {"GBP": "2500.00"}}) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def pos(desk) -> EvmPos:
    tenant = await desk.tenant()
    chain = f"eip155:{DEVNET.chain_id}"
    assets = (f"erc20:{EURO}", f"erc20:{DEVNET.token.address}", "slip44:60")
    await set_destinations(tenant, {f"{chain}/{asset}": f"{chain}:{MERCHANT}" for asset in assets})
    pos = EvmPos(desk, tenant)
    await desk.chain.fund(pos.wallet.address)
    return pos


# Permit2


async def test_a_buyer_approves_once_and_pays_by_permit2(desk, pos):
    before = await desk.chain.balance(MERCHANT, EURO)
    payment_id, option = await pos.offer(EUR)
    held = await desk.chain.balance(pos.wallet.address, EURO)
    approve, permit = option["actions"]
    assert approve["data"]["method"] == "eth_sendTransaction"
    assert permit["data"]["method"] == "eth_signTypedData_v4"
    assert option["amount"]["value"] == str(PRICE)
    assert option["amount"]["display"]["assetSymbol"] == "tEUR"

    answer = await pos.confirm(payment_id, option, await pos.perform(option))
    assert answer["status"] == "processing"
    final = await desk.wait_final(payment_id)
    assert final["status"] == "succeeded"
    assert final["info"]["optionAmount"]["value"] == str(PRICE)
    assert await desk.chain.balance(MERCHANT, EURO) == before + PRICE
    assert await desk.chain.balance(pos.wallet.address, EURO) == held - PRICE
    receipt = await desk.chain.ask("eth_getTransactionReceipt", final["info"]["txId"])
    assert receipt["from"] != pos.wallet.address.lower()

    # the approval was exact, so nothing of it is left for the next payment
    _, again = await pos.offer(EUR)
    assert len(again["actions"]) == 2


async def test_an_allowance_that_is_short_goes_through_zero(desk, pos):
    payment_id, option = await pos.offer(EUR)
    await pos.wallet.send(desk.chain, option["actions"][0])
    dear_id, dear = await pos.offer({"unit": "iso4217/EUR", "value": "2000"})
    amounts = [int(get_params(item)[0]["data"][-64:], 16) for item in dear["actions"][:-1]]
    assert amounts == [0, 20_000_000]
    await pos.confirm(dear_id, dear, await pos.perform(dear))
    assert (await desk.wait_final(dear_id))["status"] == "succeeded"
    assert await desk.chain.balance(MERCHANT, EURO) >= 20_000_000
    assert (await desk.rest.status(payment_id))["status"] == "requires_action"


async def test_an_allowance_that_is_there_asks_for_a_signature_only(desk, pos):
    _, option = await pos.offer({"unit": "iso4217/EUR", "value": "9000"})
    await pos.wallet.send(desk.chain, option["actions"][0])
    payment_id, small = await pos.offer(EUR)
    (action,) = small["actions"]
    assert get_typed_data(action)["primaryType"] == "PermitTransferFrom"
    await pos.confirm(payment_id, small, await pos.perform(small))
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"


async def test_a_confirm_may_come_before_the_approval_is_mined(desk, pos):
    payment_id, option = await pos.offer(EUR)
    approve, permit = option["actions"]
    # the hash proves nothing: only the allowance counts
    outputs = ["0x" + "11" * 32, pos.wallet.execute(permit)]
    assert (await pos.confirm(payment_id, option, outputs))["status"] == "processing"
    desk.clock.advance(6)
    assert (await desk.rest.status(payment_id))["status"] == "processing"
    await pos.wallet.send(desk.chain, approve)
    assert (await desk.wait_ended(payment_id))["status"] == "succeeded"


async def test_an_approval_that_never_comes_fails_once_the_permit_lapses(desk, pos):
    before = await desk.chain.balance(pos.wallet.address, EURO)
    payment_id, option = await pos.offer(EUR)
    outputs = ["0x" + "11" * 32, pos.wallet.execute(option["actions"][1])]
    await pos.confirm(payment_id, option, outputs)
    final = await desk.wait_lapsed(payment_id)
    assert (final["status"], final["info"]) == ("failed", None)
    assert await desk.chain.balance(pos.wallet.address, EURO) >= before


async def test_results_of_other_kinds_or_number_fail_the_payment(desk, pos):
    hash_, signature = "0x" + "11" * 32, "0x" + "22" * 65
    for outputs in ([signature], [hash_, hash_], [signature, hash_], [hash_, hash_, signature]):
        payment_id, option = await pos.offer(EUR)
        answer = await pos.confirm(payment_id, option, outputs)
        assert (answer["status"], answer["failureCode"]) == ("failed", None)


async def test_a_bad_permit_leaves_the_payment_payable(desk, pos):
    payment_id, option = await pos.offer(EUR)
    hash_ = "0x" + "11" * 32
    theirs = EvmTestWallet().sign(get_typed_data(option["actions"][1]))
    for outputs, reason in (
        ([hash_, theirs], "signature_mismatch"),
        ([hash_, "0x" + "22" * 65], "signature_mismatch"),
        ([hash_, "noise"], "unreadable_output"),
        (["noise", theirs], "unreadable_output"),
    ):
        refused = await pos.refusal(payment_id, option, outputs)
        assert refused == (400, reason, "requires_action")
    await pos.confirm(payment_id, option, await pos.perform(option))
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"


async def test_a_blocked_payer_is_declined(desk, pos):
    payment_id, option = await pos.offer(EUR)
    outputs = await pos.perform(option)
    before = await desk.chain.balance(pos.wallet.address, EURO)
    await block(desk, pos.wallet.address)
    answer = await pos.confirm(payment_id, option, outputs)
    assert (answer["status"], answer["failureCode"]) == ("failed", "declined_user")
    assert await desk.chain.balance(pos.wallet.address, EURO) == before


# accounts with code that cannot sign for a token


@pytest_asyncio.fixture(loop_scope="module")
async def mute(pos) -> EvmPos:
    """Return a wallet whose account has the code of a contract that knows nothing of signatures."""
    await pos.wallet.delegate(pos.desk.chain, NON_SIGNING_ADDRESS)
    return pos


async def test_account_that_cannot_sign_pays_by_transactions(desk, mute):
    before = await desk.chain.balance(MERCHANT)
    payment_id, option = await mute.offer(USD)
    held = await desk.chain.balance(mute.wallet.address)
    actions = await mute.fetch(payment_id, option)
    assert await mute.fetch(payment_id, option) == actions
    assert [action["data"]["method"] for action in actions] == ["eth_sendTransaction"] * 2
    outputs = await mute.wallet.perform(desk.chain, actions)
    assert await desk.chain.balance(mute.wallet.address) == held - PRICE
    # it took its time, and the chain continued
    await desk.chain.mine(30)
    await mute.confirm(payment_id, option, outputs)
    final = await desk.wait_final(payment_id)
    assert (final["status"], final["info"]["txId"]) == ("succeeded", outputs[-1])
    assert await desk.chain.balance(MERCHANT) == before + PRICE
    detail = await desk.rest.call("GET", f"/v1/payments/{payment_id}", mute.tenant.headers)
    assert detail["settlement"]["successful"]["amount"]["value"] == str(PRICE)


async def test_transactions_sent_after_the_confirm_count(desk, mute):
    payment_id, option = await mute.offer(USD)
    actions = await mute.fetch(payment_id, option)
    unknown = ["0x" + "11" * 32] * 2
    assert (await mute.confirm(payment_id, option, unknown))["status"] == "processing"
    (_, tx_hash) = await mute.wallet.perform(desk.chain, actions)
    final = await desk.wait_final(payment_id)
    assert (final["status"], final["info"]["txId"]) == ("succeeded", tx_hash)


async def test_transactions_never_sent_fail_the_payment_at_its_deadline(desk, mute):
    payment_id, option = await mute.offer(USD)
    await mute.fetch(payment_id, option)
    await mute.confirm(payment_id, option, ["0x" + "11" * 32] * 2)
    final = await desk.wait_lapsed(payment_id)
    assert (final["status"], final["info"]) == ("failed", None)


async def test_unfit_results_of_a_direct_payment_are_distinguished(desk, mute):
    hash_, signature = "0x" + "11" * 32, "0x" + "22" * 65
    payment_id, option = await mute.offer(USD)
    with pytest.raises(ApiCallError) as caught:
        await mute.confirm(payment_id, option, [hash_, hash_])
    assert (caught.value.http, caught.value.code) == (400, "invalid_params")
    actions = await mute.fetch(payment_id, option)
    other_id, other = await mute.offer(USD)
    for outputs, reason in (
        ([hash_, "noise"], "unreadable_output"),
        (await mute.wallet.perform(desk.chain, await mute.fetch(other_id, other)), MISMATCH),
    ):
        refused = await mute.refusal(payment_id, option, outputs)
        assert refused == (400, reason, "requires_action")
    await mute.confirm(payment_id, option, await mute.wallet.perform(desk.chain, actions))
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"
    for outputs in ([hash_], [hash_, signature], [hash_] * 3):
        payment_id, option = await mute.offer(USD)
        await mute.fetch(payment_id, option)
        answer = await mute.confirm(payment_id, option, outputs)
        assert (answer["status"], answer["failureCode"]) == ("failed", None)


async def test_blocked_account_that_pays_directly_is_declined(desk, mute):
    payment_id, option = await mute.offer(USD)
    await mute.fetch(payment_id, option)
    await block(desk, mute.wallet.address)
    answer = await mute.confirm(payment_id, option, ["0x" + "11" * 32] * 2)
    assert (answer["status"], answer["failureCode"]) == ("failed", "declined_user")


# the native coin, at a rate


async def test_a_buyer_pays_with_coin_at_the_rate_that_it_was_quoted(desk, pos):
    before = await desk.chain.coin(MERCHANT)
    payment_id, option = await pos.offer(GBP)
    assert option["amount"]["unit"] == f"caip19/{ETHER}"
    assert option["amount"]["value"] == str(WEI)
    assert option["amount"]["display"]["assetSymbol"] == "tETH"
    assert option["expiresAt"] == desk.now + 300
    (action,) = await pos.fetch(payment_id, option)
    (call,) = get_params(action)
    assert (call["to"], call["value"]) == (DEVNET.settler, hex(WEI))
    result = json.loads(bytes.fromhex(option["actions"][0]["data"]["data"]))
    assert result == {**action["data"], "params": get_params(action)}

    (tx_hash,) = await pos.wallet.perform(desk.chain, [action])
    await pos.confirm(payment_id, option, [tx_hash])
    final = await desk.wait_final(payment_id)
    assert (final["status"], final["info"]["txId"]) == ("succeeded", tx_hash)
    assert final["info"]["optionAmount"]["value"] == str(WEI)
    assert await desk.chain.coin(MERCHANT) == before + WEI
    ((terms,),) = desk.select("SELECT terms FROM payment_option WHERE id = ?", option["id"])
    quote = json.loads(terms)["quote"]
    assert quote == {"price": "2500.00", "source": "settings", "at_us": desk.clock.now_us()}


async def test_a_quote_keeps_its_id_until_it_lapses(desk, pos):
    payment_id, option = await pos.offer(GBP)
    (action,) = await pos.fetch(payment_id, option)
    desk.clock.advance(299)
    (again,) = (await desk.rest.options(payment_id, [pos.wallet.account]))["options"]
    assert again == option
    assert await pos.fetch(payment_id, option) == [action]
    desk.clock.advance(1)
    for call in (
        desk.rest.fetch(payment_id, option["id"]),
        pos.confirm(payment_id, option, ["0x" + "11" * 32]),
    ):
        with pytest.raises(ApiCallError) as caught:
            await call
        assert (caught.value.http, caught.value.code) == (409, "quote_expired")
    (new,) = (await desk.rest.options(payment_id, [pos.wallet.account]))["options"]
    assert new["id"] != option["id"]
    assert new["expiresAt"] == desk.now + 300
    (tx_hash,) = await pos.wallet.perform(desk.chain, await pos.fetch(payment_id, new))
    await pos.confirm(payment_id, new, [tx_hash])
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"


async def test_a_quote_never_outlives_its_payment(desk, pos):
    body = {"amount": GBP, "expiresAt": desk.now + 60}
    created = await desk.rest.call("POST", "/v1/payments", pos.tenant.headers, body)
    (option,) = (await desk.rest.options(created["paymentId"], [pos.wallet.account]))["options"]
    assert option["expiresAt"] == created["expiresAt"]


async def test_an_amount_of_coin_needs_no_rate(desk, pos):
    payment_id, option = await pos.offer({"unit": f"caip19/{ETHER}", "value": "77"})
    assert (option["amount"]["value"], option["expiresAt"]) == ("77", None)
    outputs = await pos.wallet.perform(desk.chain, await pos.fetch(payment_id, option))
    await pos.confirm(payment_id, option, outputs)
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"


async def test_results_that_do_not_fit_a_payment_in_coin(desk, pos):
    payment_id, option = await pos.offer(GBP)
    await pos.fetch(payment_id, option)
    other_id, other = await pos.offer(GBP)
    theirs = await pos.wallet.perform(desk.chain, await pos.fetch(other_id, other))
    refused = await pos.refusal(payment_id, option, theirs)
    assert refused == (400, MISMATCH, "requires_action")
    assert (await pos.refusal(payment_id, option, ["0x12"]))[1] == "unreadable_output"
    answer = await pos.confirm(payment_id, option, ["0x" + "22" * 65])
    assert (answer["status"], answer["failureCode"]) == ("failed", None)
    await pos.confirm(other_id, other, theirs)
    assert (await desk.wait_final(other_id))["status"] == "succeeded"


# accounts with code that validate their signatures (ERC-1271)


def keeper(owner: str) -> bytes:
    """Return the code of an account that accepts an address's signatures.

    `owner` is the code that pushes the address.
    """
    recover = "6004355f5260a43560f81c6020526064356040526084356060526020608060805f60015afa50"
    return bytes.fromhex(recover + f"608051{owner}14631626ba7e60e01b025f5260205ff3")


ITSELF = "30"


async def test_a_contract_account_pays_with_its_owners_signature(desk, pos):
    code = keeper("73" + pos.wallet.address[2:])
    account = await pos.wallet.deploy(desk.chain, code)
    await desk.chain.fund(account.rpartition(":")[2])
    before = await desk.chain.balance(MERCHANT)
    created = await desk.rest.call("POST", CREATE, pos.tenant.headers, {"amount": USD})
    payment_id = created["paymentId"]
    (option,) = (await desk.rest.options(payment_id, [account]))["options"]
    typed_data = get_typed_data(option["actions"][0])
    assert typed_data["message"]["from"] == account.rpartition(":")[2].lower()
    stranger = EvmTestWallet().sign(typed_data)
    refused = await pos.refusal(payment_id, option, [stranger])
    assert refused == (400, "signature_mismatch", "requires_action")
    await pos.confirm(payment_id, option, [pos.wallet.sign(typed_data)])
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"
    assert await desk.chain.balance(MERCHANT) == before + PRICE
    detail = await desk.rest.call("GET", f"/v1/payments/{payment_id}", pos.tenant.headers)
    assert detail["buyer"]["accountCaip10"] == account.lower()


@pytest.mark.parametrize("amount", [USD, EUR], ids=["eip3009", "permit2"])
async def test_a_key_whose_account_has_code_that_signs_pays_as_before(desk, pos, amount):
    contract = await pos.wallet.deploy(desk.chain, keeper(ITSELF))
    await pos.wallet.delegate(desk.chain, contract.rpartition(":")[2])
    payment_id, option = await pos.offer(amount)
    assert option["actions"][-1]["data"]["method"] == "eth_signTypedData_v4"
    stranger = EvmTestWallet().sign(get_typed_data(option["actions"][-1]))
    outputs = await pos.perform(option)
    refused = await pos.refusal(payment_id, option, [*outputs[:-1], stranger])
    assert refused == (400, "signature_mismatch", "requires_action")
    await pos.confirm(payment_id, option, outputs)
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"


# wallets that send and report nothing


async def test_transaction_sent_and_never_confirmed_pays(desk, pos):
    payment_id, option = await pos.offer(GBP)
    (tx_hash,) = await pos.wallet.perform(desk.chain, await pos.fetch(payment_id, option))
    states = [state async for state in desk.rest.watch(payment_id)]
    assert (states[-1]["status"], states[-1]["info"]["txId"]) == ("succeeded", tx_hash)
    detail = await desk.rest.call("GET", f"/v1/payments/{payment_id}", pos.tenant.headers)
    assert detail["buyer"]["accountCaip10"] == pos.wallet.account.lower()
    # a wallet that returns gets the result, although its quote has lapsed
    desk.clock.advance(301)
    for outputs in ([tx_hash], ["0x" + "11" * 32, tx_hash]):
        answer = await pos.confirm(payment_id, option, outputs)
        assert (answer["status"], answer["info"]["txId"]) == ("succeeded", tx_hash)
    with pytest.raises(ApiCallError) as caught:
        await pos.confirm(payment_id, option, ["0x" + "11" * 32])
    assert (caught.value.http, caught.value.code) == (409, "idempotency_conflict")


async def test_a_quote_that_lapsed_after_the_money_moved_does_not_matter(desk, pos):
    payment_id, option = await pos.offer(GBP)
    actions = await pos.fetch(payment_id, option)
    desk.clock.advance(299)
    (tx_hash,) = await pos.wallet.perform(desk.chain, actions)
    final = await desk.wait_ended(payment_id)
    assert (final["status"], final["info"]["txId"]) == ("succeeded", tx_hash)


async def test_late_money_does_not_change_the_payment_and_is_reported(desk, pos, caplog):
    payment_id, option = await pos.offer(GBP)
    actions = await pos.fetch(payment_id, option)
    await desk.rest.cancel(payment_id)
    (tx_hash,) = await pos.wallet.perform(desk.chain, actions)
    # a later payment shows that the settler has passed it
    next_id, other = await pos.offer(GBP)
    await pos.wallet.perform(desk.chain, await pos.fetch(next_id, other))
    assert (await desk.wait_final(next_id))["status"] == "succeeded"
    assert (await desk.rest.status(payment_id))["status"] == "cancelled"
    assert f"payment {payment_id} was paid late, or twice, by {tx_hash}" in caplog.text
