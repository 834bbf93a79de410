"""Attacks on payments by Solana Pay: money that pays nothing, and callers who cause work."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.settings import LimitSettings
from solders.instruction import Instruction
from solders.keypair import Keypair

from tests.support.operator import check_ledger
from tests.support.service_harness import ServiceHarness, ServiceResponse, open_service
from tests.support.solana import INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_offers import get_refusal, make_offer
from tests.support.solana_pay import (
    ORDER,
    PRICE,
    fetch_transaction,
    find_address,
    fund,
    let_time_pass,
    list_legacy_instructions,
    make_transfer,
    name_address,
    post_account,
    send_instructions,
    wait_status,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHAIN = SOLANA_DEVNET.chain_id


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("solana_pay_attacks") / "home"
    async with open_service(home, solana=INSTANT_SOLANA) as service:
        # the first payments on Solana open the merchant's accounts
        for token in range(2):
            offer = await make_offer(service.rest, SolanaTestWallet(), token)
            await offer.confirm()
            assert (await offer.final())["status"] == "succeeded"
        yield service


@pytest.fixture
def node(service: ServiceHarness) -> SolanaNodeClient:
    return SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])


@pytest_asyncio.fixture(loop_scope="module")
async def wallet(node) -> SolanaTestWallet:
    wallet = SolanaTestWallet()
    await fund(node, wallet)
    return wallet


@pytest.fixture
def merchant(service) -> str:
    return service.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]


async def fetch_steps(service, wallet, **order) -> tuple[str, list[Instruction]]:
    """Return a payment, and the instructions that a wallet was given for it."""
    payment_id = (await service.rest.create({**ORDER, **order}))["paymentId"]
    transaction = await fetch_transaction(service, payment_id, wallet)
    return payment_id, list_legacy_instructions(transaction.message)


async def status_of(service, payment_id: str) -> str:
    return (await service.rest.status(payment_id))["status"]


async def test_one_transfer_that_names_two_payments_pays_one(service, node, wallet):
    first, steps = await fetch_steps(service, wallet)
    second, _ = await fetch_steps(service, wallet)
    steps[-1] = name_address(steps[-1], await find_address(service, second))
    await send_instructions(node, wallet, steps)
    await wait_status(service, node, first, "succeeded")
    await let_time_pass(service, node)
    assert await status_of(service, second) == "requires_action"


async def test_one_transfer_with_the_notes_of_two_payments_pays_none(service, node, wallet):
    first, steps = await fetch_steps(service, wallet)
    second, second_steps = await fetch_steps(service, wallet)
    steps[-1] = name_address(steps[-1], await find_address(service, second))
    await send_instructions(node, wallet, [second_steps[0], *steps])
    await let_time_pass(service, node)
    assert await status_of(service, first) == "requires_action"
    assert await status_of(service, second) == "requires_action"


async def test_two_transfers_in_one_transaction_pay_none(service, node, wallet):
    payment_id, (memo, transfer) = await fetch_steps(service, wallet)
    await send_instructions(node, wallet, [memo, transfer, transfer])
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "requires_action"


@pytest.mark.parametrize("difference", [-1, 1])
async def test_other_amount_than_offered_pays_nothing(service, node, wallet, merchant, difference):
    payment_id, (memo, _) = await fetch_steps(service, wallet)
    transfer = name_address(
        make_transfer(wallet, merchant, PRICE + difference), await find_address(service, payment_id)
    )
    await send_instructions(node, wallet, [memo, transfer])
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "requires_action"


async def test_other_token_than_offered_pays_nothing(service, node, wallet, merchant):
    payment_id, (memo, _) = await fetch_steps(service, wallet)
    transfer = name_address(
        make_transfer(wallet, merchant, PRICE, 1), await find_address(service, payment_id)
    )
    await send_instructions(node, wallet, [memo, transfer])
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "requires_action"


async def test_transfer_to_another_account_pays_nothing(service, node, wallet):
    payment_id, (memo, _) = await fetch_steps(service, wallet)
    transfer = name_address(
        make_transfer(wallet, wallet.address, PRICE), await find_address(service, payment_id)
    )
    await send_instructions(node, wallet, [memo, transfer])
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "requires_action"


async def test_transfer_from_another_account_with_a_copied_note_pays_nothing(
    service, node, wallet, merchant
):
    payment_id, (memo, _) = await fetch_steps(service, wallet)
    other = SolanaTestWallet()
    await fund(node, other)
    transfer = name_address(
        make_transfer(other, merchant, PRICE), await find_address(service, payment_id)
    )
    await send_instructions(node, other, [memo, transfer])
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "requires_action"


async def test_failed_transaction_pays_nothing(service, node):
    wallet, payer = SolanaTestWallet(), SolanaTestWallet()
    await fund(node, wallet)
    payment_id, steps = await fetch_steps(service, wallet)
    # emptied after the offer, so the transfer fails in its block
    held = await node.balance(wallet.address)
    await fund(node, payer)
    await send_instructions(node, wallet, [make_transfer(wallet, payer.address, held - PRICE + 1)])
    latest = await send_instructions(node, wallet, steps, skip_preflight=True)
    await let_time_pass(service, node)
    status = (await node.ask("getSignatureStatuses", [latest]))["value"][0]
    assert status["err"] is not None
    assert await status_of(service, payment_id) == "requires_action"


async def test_spam_on_the_address_does_not_keep_a_payment_from_success(service, node, wallet):
    payment_id, steps = await fetch_steps(service, wallet)
    address = await find_address(service, payment_id)
    spammer = SolanaTestWallet()
    await fund(node, spammer)
    for amount in range(1, 25):
        transfer = name_address(make_transfer(spammer, wallet.address, amount), address)
        # half of them copy the note, and must be read
        await send_instructions(node, spammer, [*steps[: amount % 2], transfer])
    await send_instructions(node, wallet, steps)
    for amount in range(25, 35):
        transfer = name_address(make_transfer(spammer, wallet.address, amount), address)
        await send_instructions(node, spammer, [steps[0], transfer])
    await wait_status(service, node, payment_id, "succeeded")


async def test_money_after_the_end_is_returned(service, node, wallet):
    payment_id, steps = await fetch_steps(service, wallet, expiresAt=service.now + 60)
    held = await node.balance(wallet.address)
    service.clock.advance(61)
    assert await status_of(service, payment_id) == "expired"
    await send_instructions(node, wallet, steps)
    assert await node.balance(wallet.address) == held - PRICE
    await wait_returned(service, node, wallet, held)
    assert await status_of(service, payment_id) == "expired"
    await check_ledger(service)


async def test_second_transaction_of_a_paid_payment_is_returned(service, node, wallet):
    payment_id, steps = await fetch_steps(service, wallet)
    other = SolanaTestWallet()
    await fund(node, other)
    again = await fetch_transaction(service, payment_id, other)
    await send_instructions(node, wallet, steps)
    await wait_status(service, node, payment_id, "succeeded")
    held = await node.balance(other.address)
    await send_instructions(node, other, list_legacy_instructions(again.message))
    await wait_returned(service, node, other, held)
    assert await status_of(service, payment_id) == "succeeded"
    await check_ledger(service)


async def wait_returned(service, node, wallet, held: int) -> None:
    """Let time pass until a wallet has all its money again."""
    for _ in range(60):
        await let_time_pass(service, node, 2)
        service.clock.advance(30)
        if await node.balance(wallet.address) == held:
            return
    raise AssertionError("the money did not come back")


async def test_callers_cannot_confirm_an_option_that_only_the_chain_ends(service, node, wallet):
    payment_id, _ = await fetch_steps(service, wallet)
    ((option_id,),) = service.select(
        "SELECT id FROM payment_option WHERE payment_id = ? AND method = 'direct'", payment_id
    )
    for call in (
        service.rest.fetch(payment_id, option_id, ""),
        service.rest.confirm(payment_id, option_id, ["5" * 88]),
        service.rest.confirm(payment_id, option_id, []),
    ):
        assert (await get_refusal(call)).code == "invalid_params"
    assert await status_of(service, payment_id) == "requires_action"


async def test_options_of_a_wallet_leave_out_what_is_paid_by_link(service, wallet):
    payment_id, _ = await fetch_steps(service, wallet)
    options = (await service.rest.options(payment_id, [wallet.account]))["options"]
    (stored,) = service.select(
        "SELECT id FROM payment_option WHERE payment_id = ? AND method = 'direct'", payment_id
    )
    assert options
    assert stored[0] not in {option["id"] for option in options}


async def test_flood_of_accounts_meets_the_limits_of_a_payment(tmp_path):
    limits = {"options_per_minute": 10, "options_burst": 10, "payment_total_burst": 15}
    async with open_service(
        tmp_path, solana=INSTANT_SOLANA, limits=LimitSettings(**limits)
    ) as service:
        offer = await make_offer(service.rest, SolanaTestWallet())
        await offer.confirm()
        await offer.final()
        payment_id = (await service.rest.create(ORDER))["paymentId"]

        async def flood(count: int) -> list[ServiceResponse]:
            return [
                await post_account(service, payment_id, str(Keypair().pubkey()))
                for _ in range(count)
            ]

        answers = await flood(14)
        assert [answer.status for answer in answers] == [200] * 10 + [429] * 4
        assert int(answers[-1].headers["Retry-After"]) > 0
        service.clock.advance(60)
        answers = await flood(2)
        assert [answer.status for answer in answers] == [200] * 2
        # however many accounts ask, the chain is asked for one address
        assert service.select("SELECT count(*) FROM payment_option WHERE method = 'direct'") == [
            (12,)
        ]
        assert service.select("SELECT count(*) FROM watched_address") == [(1,)]


async def test_callers_share_the_limit_of_one_payment(tmp_path):
    limits = {"payment_total_per_minute": 3, "payment_total_burst": 3}
    async with open_service(
        tmp_path, solana=INSTANT_SOLANA, limits=LimitSettings(**limits)
    ) as service:
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        answers = [
            await post_account(service, payment_id, str(Keypair().pubkey())) for _ in range(4)
        ]
        assert answers[-1].refusal == (429, "rate_limited")


async def test_one_caller_stores_a_limited_number_of_options(tmp_path):
    async with open_service(tmp_path, solana=INSTANT_SOLANA, options_per_caller=10) as service:
        offer = await make_offer(service.rest, SolanaTestWallet())
        await offer.confirm()
        await offer.final()
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        answers = [
            await post_account(service, payment_id, str(Keypair().pubkey())) for _ in range(12)
        ]
        assert [answer.status for answer in answers] == [200] * 10 + [429] * 2


async def test_reference_is_only_listed_while_its_payment_can_get_money(service, node, wallet):
    payment_id, steps = await fetch_steps(service, wallet)
    await send_instructions(node, wallet, steps)
    await wait_status(service, node, payment_id, "succeeded")
    service.clock.advance(7200)
    await let_time_pass(service, node)
    assert service.select("SELECT 1 FROM watched_address WHERE payment_id = ?", payment_id) == []
