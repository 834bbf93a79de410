"""The facilitator of x402 on the embedded Solana cluster, and what it must not sign."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from florin_server.settings import X402Settings
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair

from tests.support.service_harness import open_service
from tests.support.solana import INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_pay import fund, make_transfer
from tests.support.until import advance, wait_until
from tests.support.x402 import X402Server
from tests.support.x402_solana import AMOUNT, list_steps, make_requirements, sign_steps

pytestmark = pytest.mark.asyncio(loop_scope="module")
_SVM = "invalid_exact_svm_payload"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("x402_solana") / "home"
    settings = X402Settings(facilitator=True, wait_s=0.1)
    async with open_service(home, solana=INSTANT_SOLANA, x402=settings) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(service) -> X402Server:
    return await X402Server.create(service)


@pytest.fixture
def node(service) -> SolanaNodeClient:
    return SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def relayer(server) -> str:
    (address,) = (await server.ask("supported")).body["signers"]["solana:*"]
    return str(address)


@pytest_asyncio.fixture(loop_scope="module")
async def buyer(node) -> SolanaTestWallet:
    buyer = SolanaTestWallet()
    await fund(node, buyer)
    return buyer


@pytest_asyncio.fixture(loop_scope="module")
async def shop(node) -> SolanaTestWallet:
    shop = SolanaTestWallet()
    await fund(node, shop)
    return shop


async def settle(service, server, node, payment):
    """Return the last answer about a payment, while time passes."""

    async def move() -> None:
        await advance(service.clock, 1.5)
        await node.fault("slots", slots=2)

    async def read() -> object:
        answer = await server.settle(payment)
        return None if answer.get("errorReason") == "settlement_pending" else answer

    return await wait_until(read, meanwhile=move)


async def test_supported_names_the_fee_payer(server, relayer):
    kinds = (await server.ask("supported")).body["kinds"]
    (kind,) = [kind for kind in kinds if kind["network"] == SOLANA_DEVNET.chain_id]
    assert kind["extra"] == {"feePayer": relayer}


async def test_settled_payment_moves_the_money_once(service, server, node, relayer, buyer, shop):
    requirements = make_requirements(shop.address, relayer)
    payment = await sign_steps(node, buyer, requirements, list_steps(buyer, requirements))
    before = await node.balance(shop.address), await node.coin(relayer)
    assert await server.verify(payment) == {"isValid": True, "payer": buyer.address}
    first = await asyncio.gather(*(server.settle(payment) for _ in range(10)))
    answer = await settle(service, server, node, payment)
    assert answer["success"], answer
    assert {each["transaction"] for each in first} <= {"", answer["transaction"]}
    assert await server.settle(payment) == answer
    assert await node.balance(shop.address) - before[0] == AMOUNT
    # two signatures, and one millionth of a lamport for each unit
    assert before[1] - await node.coin(relayer) == 10_001


async def test_required_memo_is_required(server, node, relayer, buyer, shop):
    requirements = make_requirements(shop.address, relayer)
    requirements["extra"]["memo"] = "order 7"
    payment = await sign_steps(node, buyer, requirements, list_steps(buyer, requirements))
    assert (await server.verify(payment))["isValid"]
    for steps in (
        list_steps(buyer, requirements, memo="order 8"),
        list_steps(buyer, requirements)[:3],
        [*list_steps(buyer, requirements), spl.create_memo("order 7")],
    ):
        payment = await sign_steps(node, buyer, requirements, steps)
        answer = await server.verify(payment)
        assert answer["invalidReason"] == f"{_SVM}_memo_mismatch"


def _smuggle(name: str, wallet: SolanaTestWallet, pay_to: str, relayer: str) -> list[Instruction]:
    """Return the instructions of an attack."""
    requirements = make_requirements(pay_to, relayer)
    units, price, transfer, memo = list_steps(wallet, requirements)
    key, own = wallet.key.pubkey(), spl.parse_pubkey(relayer)
    token = SOLANA_DEVNET.tokens[0]
    mint, program = spl.parse_pubkey(token.address), spl.parse_pubkey(token.program)
    relayer_tokens = spl.transfer_checked(
        program,
        mint,
        token.decimals,
        owner=own,
        source=spl.derive_associated_address(own, mint, program),
        dest=spl.derive_associated_address(spl.parse_pubkey(pay_to), mint, program),
        amount=AMOUNT,
    )
    approve = Instruction(
        program,
        b"\x04" + (2**63).to_bytes(8, "little"),
        [
            AccountMeta(
                spl.derive_associated_address(own, mint, program),
                is_signer=False,
                is_writable=True,
            ),
            AccountMeta(key, is_signer=False, is_writable=False),
            AccountMeta(own, is_signer=True, is_writable=False),
        ],
    )
    multisig = Instruction(
        transfer.program_id,
        bytes(transfer.data),
        [*transfer.accounts, AccountMeta(own, is_signer=True, is_writable=False)],
    )
    extra = Instruction(
        transfer.program_id,
        bytes(transfer.data),
        [*transfer.accounts, AccountMeta(mint, is_signer=False, is_writable=False)],
    )
    signing_memo = Instruction(
        spl.MEMO, b"hello", [AccountMeta(own, is_signer=True, is_writable=True)]
    )
    signed_memo = Instruction(
        spl.MEMO, b"hello", [AccountMeta(key, is_signer=True, is_writable=False)]
    )
    account = spl.create_associated_account(own, Keypair().pubkey(), mint, program)
    attacks = {
        "coin of the relayer": [units, price, transfer, spl.transfer_coin(own, key, 1_000)],
        "tokens of the relayer": [units, price, relayer_tokens, signed_memo],
        "approval by the relayer": [units, price, transfer, approve],
        "signer beside the payer": [units, price, multisig, memo],
        "another account": [units, price, extra, memo],
        "account at the relayer's cost": [units, price, transfer, account],
        "memo by the relayer": [units, price, transfer, signing_memo],
        "second transfer": [units, price, transfer, make_transfer(wallet, pay_to, 1)],
        "no transfer": [units, price, signed_memo],
        "transfer elsewhere": [units, transfer, price, memo],
        "no limits": [transfer, memo, spl.create_memo("x")],
        "too many": [units, price, transfer, *(spl.create_memo("x") for _ in range(4))],
        "high price": [units, set_compute_unit_price(2**40), transfer, memo],
        "many units": [set_compute_unit_limit(1_400_000), price, transfer, memo],
        "another amount": [units, price, make_transfer(wallet, pay_to, AMOUNT + 1), memo],
        "another receiver": [units, price, make_transfer(wallet, wallet.address, AMOUNT), memo],
        "another token": [units, price, make_transfer(wallet, pay_to, AMOUNT, 1), memo],
    }
    return attacks[name]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("coin of the relayer", "transaction_fee_payer_transferring_funds"),
        ("tokens of the relayer", "transaction_fee_payer_transferring_funds"),
        ("approval by the relayer", "transaction_fee_payer_transferring_funds"),
        ("signer beside the payer", "transaction_fee_payer_transferring_funds"),
        ("another account", "no_transfer_instruction"),
        ("account at the relayer's cost", "transaction_fee_payer_transferring_funds"),
        ("memo by the relayer", "transaction_fee_payer_transferring_funds"),
        ("second transfer", "unknown_instruction"),
        ("no transfer", "no_transfer_instruction"),
        ("transfer elsewhere", "transaction_instructions_compute_price_instruction"),
        ("no limits", "transaction_instructions_compute_limit_instruction"),
        ("too many", "transaction_instructions_length"),
        ("high price", "transaction_instructions_compute_price_instruction"),
        ("many units", "transaction_instructions_compute_limit_instruction"),
        ("another amount", "amount_mismatch"),
        ("another receiver", "recipient_mismatch"),
        ("another token", "no_transfer_instruction"),
    ],
)
async def test_smuggled_instruction_is_never_signed(
    service, server, node, relayer, buyer, shop, name, reason
):
    requirements = make_requirements(shop.address, relayer)
    steps = _smuggle(name, buyer, shop.address, relayer)
    payment = await sign_steps(node, buyer, requirements, steps)
    before = service.select("SELECT count(*) FROM chain_tx")
    answer = await server.verify(payment)
    assert (answer["isValid"], answer["invalidReason"]) == (False, f"{_SVM}_{reason}")
    answer = await server.settle(payment)
    assert (answer["success"], answer["errorReason"]) == (False, f"{_SVM}_{reason}")
    assert service.select("SELECT count(*) FROM chain_tx") == before


async def test_transaction_of_another_fee_payer_is_refused(server, node, relayer, buyer, shop):
    other = str(Keypair().pubkey())
    requirements = make_requirements(shop.address, other)
    payment = await sign_steps(node, buyer, requirements, list_steps(buyer, requirements))
    answer = await server.verify(payment)
    assert answer["invalidReason"] == "fee_payer_not_managed_by_facilitator"
    requirements = make_requirements(shop.address, relayer)
    steps = list_steps(buyer, requirements)
    payment = await sign_steps(node, buyer, requirements, steps, fee_payer=other)
    answer = await server.verify(payment)
    assert answer["invalidReason"] == "fee_payer_not_managed_by_facilitator"


async def test_signature_of_another_key_is_refused(server, node, relayer, buyer, shop):
    requirements = make_requirements(shop.address, relayer)
    steps = list_steps(buyer, requirements)
    payment = await sign_steps(node, SolanaTestWallet(), requirements, steps)
    answer = await server.verify(payment)
    assert answer["invalidReason"] == f"{_SVM}_signature"


@pytest.mark.parametrize("text", ["", "AA==", "no base64", 7, None, "A" * 4000, '"},{"a":"'])
async def test_text_that_is_no_transaction_is_refused(server, relayer, shop, text):
    requirements = make_requirements(shop.address, relayer)
    payment = {"x402Version": 2, "accepted": requirements, "payload": {"transaction": text}}
    answer = await server.verify(payment)
    assert answer["invalidReason"] == f"{_SVM}_transaction_could_not_be_decoded"


async def test_receiver_without_an_account_and_payer_without_money_are_refused(
    server, node, relayer, buyer, shop
):
    requirements = make_requirements(str(Keypair().pubkey()), relayer)
    payment = await sign_steps(node, buyer, requirements, list_steps(buyer, requirements))
    assert (await server.verify(payment))["invalidReason"] == "transaction_simulation_failed"
    poor = SolanaTestWallet()
    requirements = make_requirements(shop.address, relayer)
    payment = await sign_steps(node, poor, requirements, list_steps(poor, requirements))
    assert (await server.verify(payment))["invalidReason"] == "insufficient_funds"
