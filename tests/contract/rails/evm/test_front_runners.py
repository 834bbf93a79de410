"""A stranger obtains a buyer's signature, and can only use it to pay the merchant.

The event of the first transaction with the signature settles the payment, whoever sends it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import pytest_asyncio
from eth_account import Account
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.domain.chains.evm import abi
from florin_server.money.payments.store import payments
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.erc6492 import encode_open_and_call
from florin_server.rails.evm.paying.terms import EvmOptionTerms, to_address
from florin_server.rails.evm.sending.fees import KEY_GAS
from florin_server.rails.evm.settler import PayArguments

from tests.support.api import ApiCallError
from tests.support.desk import CREATE, PartnerTenant, ServiceHarness, open_service
from tests.support.shop import create_merchant_tenant
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = f"eip155:{DEVNET.chain_id}"
MERCHANT = "0x" + "7a" * 20
PRICE = 12_500_000
FEE = 7 + PRICE // 100
USD = {"unit": "iso4217/USD", "value": "1250"}
EUR = {"unit": "iso4217/EUR", "value": "1250"}
BOTH = pytest.mark.parametrize("amount", [USD, EUR], ids=["eip3009", "permit2"])
_RECEIVE = "receiveWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
RECEIVE = abi.encode_selector(_RECEIVE)
TRANSFER = abi.encode_selector(_RECEIVE.replace("receive", "transfer"))
PERMIT = abi.encode_selector(
    "permitTransferFrom(((address,uint256),uint256,uint256),(address,uint256),address,bytes)"
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("strangers") / "home"
    async with open_service(home, fee_fixed=7, fee_basis_points=100) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def tenant(desk):
    return await create_merchant_tenant(desk, MERCHANT)


@dataclass
class Signed:
    """A payment whose buyer has signed, not yet submitted."""

    payment_id: str
    option_id: str
    outputs: list[str]
    wallet: EvmTestWallet
    pay: PayArguments
    terms: EvmOptionTerms

    @property
    def method(self) -> str:
        return self.terms.method

    def settle(self, *pays: PayArguments) -> bytes:
        """Return the contract's call for these payments, or for the signed one."""
        pays = pays or (self.pay,)
        return (
            settler.encode_settle((), pays)
            if self.method == "permit2"
            else settler.encode_settle(pays)
        )


async def signed(desk: ServiceHarness, tenant: PartnerTenant, amount: dict[str, str]) -> Signed:
    """Let a buyer sign; if an approval is required, it was given before."""
    wallet = EvmTestWallet()
    created = await desk.rest.call("POST", CREATE, tenant.headers, {"amount": amount})
    payment_id = created["paymentId"]
    (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
    for approval in option["actions"][:-1]:
        await wallet.send(desk.chain, approval)
        (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
    outputs = wallet.execute_all(option)
    stored = await desk.service.app.store.read(payments.find_option(payment_id, option["id"]))
    assert stored is not None
    terms = EvmOptionTerms.from_option(stored)
    pay = terms.build_pay_arguments(
        to_address(stored.payer), bytes.fromhex(outputs[-1][2:]), KEY_GAS
    )
    return Signed(payment_id, option["id"], outputs, wallet, pay, terms)


@dataclass
class Stranger:
    """A stranger with a key and some coin of their own."""

    desk: ServiceHarness
    key: LocalAccount = field(default_factory=Account.create)

    async def send(self, data: bytes, to: str = DEVNET.settler) -> str:
        """Broadcast a call with a tip that puts it before all others; return its hash."""
        chain = self.desk.chain
        nonce = await chain.ask("eth_getTransactionCount", self.key.address, "pending")
        raw = self.key.sign_transaction(
            {
                "chainId": DEVNET.chain_id,
                "nonce": int(nonce, 16),
                "gas": 1_000_000,
                "maxFeePerGas": 10**12,
                "maxPriorityFeePerGas": 10**11,
                "to": bytes.fromhex(to[2:]),
                "value": 0,
                "data": data,
            }
        ).raw_transaction
        return str(await chain.ask("eth_sendRawTransaction", "0x" + bytes(raw).hex()))


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def stranger(desk) -> Stranger:
    somebody = Stranger(desk)
    coin = {"accounts": [somebody.key.address], "nativeWei": hex(10**19), "tokenUnits": "0x0"}
    await desk.chain.ask("florin_faucet", coin)
    return somebody


@dataclass
class Balances:
    """The balances of all parties in both tokens."""

    of: dict[tuple[str, str], int]

    def since(self, before: Balances) -> dict[tuple[str, str], int]:
        changes = {place: held - before.of[place] for place, held in self.of.items()}
        return {place: change for place, change in changes.items() if change}


async def balances(desk: ServiceHarness, buyer: str, stranger: Stranger) -> Balances:
    people = {
        "buyer": buyer,
        "merchant": MERCHANT,
        "treasury": to_address(desk.service.app.rails[CHAIN].treasury),
        "stranger": stranger.key.address,
        "settler": DEVNET.settler,
        "opener": DEVNET.opener,
    }
    return Balances(
        {
            (name, token.symbol): await desk.chain.balance(address, token.address)
            for name, address in people.items()
            for token in DEVNET.tokens
        }
    )


def paid(token: str) -> dict[tuple[str, str], int]:
    """Return the changes of balances by one payment."""
    symbol = "tUSD" if token == DEVNET.token.address else "tEUR"
    return {
        ("buyer", symbol): -PRICE,
        ("merchant", symbol): PRICE - FEE,
        ("treasury", symbol): FEE,
    }


async def ours(desk: ServiceHarness) -> str:
    """Return Florin's newest transaction, once it waits for a block."""

    async def waiting() -> str | None:
        for (tx_hash,) in desk.select("SELECT hash FROM chain_tx ORDER BY nonce DESC LIMIT 1"):
            existing = await desk.chain.ask("eth_getTransactionByHash", tx_hash)
            if existing is not None and existing["blockNumber"] is None:
                return str(tx_hash)
        return None

    return str(await wait_until(waiting))


async def mining(desk: ServiceHarness, *, paused: bool) -> None:
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": paused})
    if not paused:
        await desk.chain.ask("evm_mine")


async def receipt(desk: ServiceHarness, tx_hash: str) -> Any:
    return await desk.chain.ask("eth_getTransactionReceipt", tx_hash)


def events(result: Any) -> int:
    """Count the payments that a transaction settled."""
    return sum(log["topics"][0] == settler.PAID_TOPIC for log in result["logs"])


@BOTH
async def test_faster_submission_by_a_stranger_pays_the_same_merchant(
    desk, tenant, stranger, amount
):
    created_signed = await signed(desk, tenant, amount)
    before = await balances(desk, created_signed.wallet.address, stranger)
    await mining(desk, paused=True)
    await desk.rest.confirm(
        created_signed.payment_id, created_signed.option_id, created_signed.outputs
    )
    own = await ours(desk)
    theirs = await stranger.send(created_signed.settle())
    await mining(desk, paused=False)
    final = await desk.wait_ended(created_signed.payment_id)
    assert (final["status"], final["info"]["txId"]) == ("succeeded", theirs)
    # both were mined, and one of them settled
    first, second = await receipt(desk, theirs), await receipt(desk, own)
    assert int(first["transactionIndex"], 16) < int(second["transactionIndex"], 16)
    assert (events(first), events(second)) == (1, 0)
    after = await balances(desk, created_signed.wallet.address, stranger)
    assert after.since(before) == paid(created_signed.pay.token)
    detail = await desk.rest.call(
        "GET", f"/v1/payments/{created_signed.payment_id}", tenant.headers
    )
    assert detail["settlement"]["successful"]["amount"]["value"] == str(PRICE - FEE)


@BOTH
async def test_a_stranger_may_come_by_way_of_the_opener(desk, tenant, stranger, amount):
    created_signed = await signed(desk, tenant, amount)
    before = await balances(desk, created_signed.wallet.address, stranger)
    await mining(desk, paused=True)
    await desk.rest.confirm(
        created_signed.payment_id, created_signed.option_id, created_signed.outputs
    )
    await ours(desk)
    data = encode_open_and_call([], DEVNET.settler, created_signed.settle())
    theirs = await stranger.send(data, DEVNET.opener)
    await mining(desk, paused=False)
    final = await desk.wait_ended(created_signed.payment_id)
    assert (final["status"], final["info"]["txId"]) == ("succeeded", theirs)
    after = await balances(desk, created_signed.wallet.address, stranger)
    assert after.since(before) == paid(created_signed.pay.token)


@BOTH
async def test_unconfirmed_payment_is_paid_by_a_submission_of_a_stranger(
    desk, tenant, stranger, amount
):
    created_signed = await signed(desk, tenant, amount)
    before = await balances(desk, created_signed.wallet.address, stranger)
    await mining(desk, paused=True)
    theirs = await stranger.send(created_signed.settle())
    await mining(desk, paused=False)
    states = [state async for state in desk.rest.watch(created_signed.payment_id)]
    assert (states[-1]["status"], states[-1]["info"]["txId"]) == ("succeeded", theirs)
    after = await balances(desk, created_signed.wallet.address, stranger)
    assert after.since(before) == paid(created_signed.pay.token)
    detail = await desk.rest.call(
        "GET", f"/v1/payments/{created_signed.payment_id}", tenant.headers
    )
    assert detail["buyer"]["accountCaip10"] == created_signed.wallet.account.lower()
    assert detail["settlement"]["successful"]["amount"]["value"] == str(PRICE - FEE)
    # Florin sent nothing, and a late confirm is answered with the final state
    (count,) = desk.select(
        "SELECT count(*) FROM chain_tx_item WHERE payment_id = ?", created_signed.payment_id
    )[0]
    assert count == 0
    with pytest.raises(ApiCallError) as caught:
        await desk.rest.confirm(
            created_signed.payment_id, created_signed.option_id, created_signed.outputs
        )
    assert caught.value.http == 409
    assert (await desk.rest.status(created_signed.payment_id))["status"] == "succeeded"


async def test_an_event_of_another_payer_or_price_binds_nothing(desk, tenant, stranger):
    """The stranger pays for itself, with the reference of another buyer's payment."""
    created_signed = await signed(desk, tenant, USD)
    me = stranger.key.address.lower()
    fill = {"accounts": [me], "nativeWei": "0x0", "tokenUnits": hex(PRICE)}
    await desk.chain.ask("florin_faucet", fill)
    approve = abi.encode_selector("approve(address,uint256)")
    data = approve + abi.encode_address(DEVNET.settler) + abi.encode_uint256(PRICE)
    await stranger.send(data, created_signed.pay.token)
    cheap = replace(created_signed.pay, payer=me, value=FEE + 1, signature=b"")
    result = await receipt(desk, await stranger.send(settler.encode_pay(cheap)))
    assert (result["status"], events(result)) == ("0x1", 1)
    # a later payment shows that the settler has passed it
    later = await signed(desk, tenant, USD)
    await desk.rest.confirm(later.payment_id, later.option_id, later.outputs)
    assert (await desk.wait_final(later.payment_id))["status"] == "succeeded"
    assert (await desk.rest.status(created_signed.payment_id))["status"] == "requires_action"
    await desk.rest.confirm(
        created_signed.payment_id, created_signed.option_id, created_signed.outputs
    )
    final = await desk.wait_final(created_signed.payment_id)
    assert (final["status"], final["info"]["txId"] != result["transactionHash"]) == (
        "succeeded",
        True,
    )


@BOTH
async def test_settled_payment_cannot_be_settled_again(desk, tenant, stranger, amount):
    created_signed = await signed(desk, tenant, amount)
    await desk.rest.confirm(
        created_signed.payment_id, created_signed.option_id, created_signed.outputs
    )
    assert (await desk.wait_final(created_signed.payment_id))["status"] == "succeeded"
    before = await balances(desk, created_signed.wallet.address, stranger)
    again = await receipt(desk, await stranger.send(created_signed.settle()))
    assert (again["status"], events(again)) == ("0x1", 0)
    assert (await balances(desk, created_signed.wallet.address, stranger)).since(before) == {}


@BOTH
async def test_a_redirected_authorization_moves_nothing(desk, tenant, stranger, amount):
    created_signed = await signed(desk, tenant, amount)
    me, pay = stranger.key.address.lower(), created_signed.pay
    (other,) = (token.address for token in DEVNET.tokens if token.address != pay.token)
    redirected = [
        replace(pay, dest=me),
        replace(pay, dest=me, fee=0),
        replace(pay, fee_to=me),
        replace(pay, fee=pay.value, fee_to=me),
        replace(pay, fee=pay.fee + 1),
        replace(pay, fee=0),
        replace(pay, fee=pay.value + 1),
        replace(pay, token=other),
        replace(pay, token=me),
        replace(pay, ref=b"\x77" * 32),
        replace(pay, value=pay.value + 1),
        replace(pay, value=pay.value - 1),
        replace(pay, value=2**256 - 1),
        replace(pay, payer=me),
        replace(pay, valid_before=pay.valid_before + 1),
        replace(pay, valid_after=1, valid_before=pay.valid_before + 1),
        replace(pay, dest=DEVNET.settler),
        replace(pay, signature=b""),
    ]
    before = await balances(desk, created_signed.wallet.address, stranger)
    result = await receipt(desk, await stranger.send(created_signed.settle(*redirected[:9])))
    more = await receipt(desk, await stranger.send(created_signed.settle(*redirected[9:])))
    for item in (result, more):
        assert (item["status"], events(item)) == ("0x1", 0)
        assert len(item["logs"]) == 9  # each failed separately
    # nor in the other kind's name, nor with the stranger as the buyer
    crossed = (
        settler.encode_settle([pay])
        if created_signed.method == "permit2"
        else settler.encode_settle((), [pay])
    )
    assert events(await receipt(desk, await stranger.send(crossed))) == 0
    direct = await receipt(desk, await stranger.send(settler.encode_pay(pay)))
    assert (direct["status"], events(direct)) == ("0x0", 0)
    assert (await balances(desk, created_signed.wallet.address, stranger)).since(before) == {}

    assert (await desk.rest.status(created_signed.payment_id))["status"] == "requires_action"
    await desk.rest.confirm(
        created_signed.payment_id, created_signed.option_id, created_signed.outputs
    )
    assert (await desk.wait_final(created_signed.payment_id))["status"] == "succeeded"
    after = await balances(desk, created_signed.wallet.address, stranger)
    assert after.since(before) == paid(pay.token)


async def test_the_token_takes_an_authorization_from_the_settlement_contract_only(
    desk, tenant, stranger
):
    created_signed = await signed(desk, tenant, USD)
    me, pay = stranger.key.address.lower(), created_signed.pay
    before = await balances(desk, created_signed.wallet.address, stranger)
    for call in (RECEIVE, TRANSFER):
        for to in (DEVNET.settler, me, MERCHANT):
            words = (
                abi.encode_address(pay.payer)
                + abi.encode_address(to)
                + abi.encode_uint256(pay.value)
            )
            words += (
                abi.encode_uint256(0)
                + abi.encode_uint256(pay.valid_before)
                + created_signed.terms.nonce
            )
            data = call + words + abi.encode_uint256(7 * abi.WORD) + abi.encode_bytes(pay.signature)
            result = await receipt(desk, await stranger.send(data, pay.token))
            assert result["status"] == "0x0"
    assert (await balances(desk, created_signed.wallet.address, stranger)).since(before) == {}
    await desk.rest.confirm(
        created_signed.payment_id, created_signed.option_id, created_signed.outputs
    )
    assert (await desk.wait_final(created_signed.payment_id))["status"] == "succeeded"


async def test_permit2_takes_a_permit_from_the_settlement_contract_only(desk, tenant, stranger):
    created_signed = await signed(desk, tenant, EUR)
    me, pay = stranger.key.address.lower(), created_signed.pay
    before = await balances(desk, created_signed.wallet.address, stranger)
    for to in (me, DEVNET.settler, MERCHANT):
        words = (
            abi.encode_address(pay.token)
            + abi.encode_uint256(pay.value)
            + created_signed.terms.nonce
        )
        words += (
            abi.encode_uint256(pay.valid_before)
            + abi.encode_address(to)
            + abi.encode_uint256(pay.value)
        )
        words += (
            abi.encode_address(pay.payer)
            + abi.encode_uint256(8 * abi.WORD)
            + abi.encode_bytes(pay.signature)
        )
        result = await receipt(desk, await stranger.send(PERMIT + words, DEVNET.permit2))
        assert result["status"] == "0x0"
    assert (await balances(desk, created_signed.wallet.address, stranger)).since(before) == {}
    await desk.rest.confirm(
        created_signed.payment_id, created_signed.option_id, created_signed.outputs
    )
    assert (await desk.wait_final(created_signed.payment_id))["status"] == "succeeded"
