"""Somebody else gets hold of what a buyer signed, and can do nothing with it but pay the merchant.

Whoever takes a signature to the settlement contract first, its event is what settles the payment.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import pytest_asyncio
from eth_account import Account
from eth_account.signers.local import LocalAccount
from florin_server.chains.evm import abi
from florin_server.devnet.genesis import DEVNET
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.erc6492 import open_and_call
from florin_server.rails.evm.paying.terms import Terms, bare
from florin_server.rails.evm.sending.fees import KEY_GAS
from florin_server.rails.evm.settler import Pay
from florin_server.store.payments import payments

from tests.support.api import Refused
from tests.support.desk import CREATE, Desk, Tenant, opened
from tests.support.shop import shop
from tests.support.until import until
from tests.support.wallet import Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = f"eip155:{DEVNET.chain_id}"
MERCHANT = "0x" + "7a" * 20
PRICE = 12_500_000
FEE = 7 + PRICE // 100
USD = {"unit": "iso4217/USD", "value": "1250"}
EUR = {"unit": "iso4217/EUR", "value": "1250"}
BOTH = pytest.mark.parametrize("amount", [USD, EUR], ids=["eip3009", "permit2"])
_RECEIVE = "receiveWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
RECEIVE = abi.selector(_RECEIVE)
TRANSFER = abi.selector(_RECEIVE.replace("receive", "transfer"))
PERMIT = abi.selector(
    "permitTransferFrom(((address,uint256),uint256,uint256),(address,uint256),address,bytes)"
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("strangers") / "home"
    async with opened(home, fee_fixed=7, fee_basis_points=100) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def tenant(desk):
    return await shop(desk, MERCHANT)


@dataclass
class Signed:
    """A payment whose buyer has signed; nobody has submitted it."""

    payment_id: str
    option_id: str
    outputs: list[str]
    wallet: Wallet
    pay: Pay
    terms: Terms

    @property
    def method(self) -> str:
        return self.terms.method

    def settle(self, *pays: Pay) -> bytes:
        """The contract's call for these, or for the payment as it was signed."""
        pays = pays or (self.pay,)
        return settler.settle((), pays) if self.method == "permit2" else settler.settle(pays)


async def signed(desk: Desk, tenant: Tenant, amount: dict[str, str]) -> Signed:
    """A buyer signs; where an approval is asked for, it was given before."""
    wallet = Wallet()
    made = await desk.rest.call("POST", CREATE, tenant.headers, {"amount": amount})
    payment_id = made["paymentId"]
    (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
    for approval in option["actions"][:-1]:
        await wallet.send(desk.chain, approval)
        (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
    outputs = wallet.execute_all(option)
    stored = await desk.service.app.store.read(payments.option(payment_id, option["id"]))
    assert stored is not None
    terms = Terms.of(stored)
    pay = terms.pay(bare(stored.payer), bytes.fromhex(outputs[-1][2:]), KEY_GAS)
    return Signed(payment_id, option["id"], outputs, wallet, pay, terms)


@dataclass
class Stranger:
    """Somebody with a key and some coin of their own."""

    desk: Desk
    key: LocalAccount = field(default_factory=Account.create)

    async def send(self, data: bytes, to: str = DEVNET.settler) -> str:
        """Broadcasts a call with a tip that puts it before all others; its hash."""
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
    """What everybody holds of both tokens."""

    of: dict[tuple[str, str], int]

    def since(self, before: Balances) -> dict[tuple[str, str], int]:
        changes = {place: held - before.of[place] for place, held in self.of.items()}
        return {place: change for place, change in changes.items() if change}


async def balances(desk: Desk, buyer: str, stranger: Stranger) -> Balances:
    people = {
        "buyer": buyer,
        "merchant": MERCHANT,
        "treasury": bare(desk.service.app.rails[CHAIN].treasury),
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
    """The changes of balances by one payment."""
    symbol = "tUSD" if token == DEVNET.token.address else "tEUR"
    return {
        ("buyer", symbol): -PRICE,
        ("merchant", symbol): PRICE - FEE,
        ("treasury", symbol): FEE,
    }


async def ours(desk: Desk) -> str:
    """Our newest transaction, once it waits for a block."""

    async def waiting() -> str | None:
        for (tx_hash,) in desk.select("SELECT hash FROM chain_tx ORDER BY nonce DESC LIMIT 1"):
            known = await desk.chain.ask("eth_getTransactionByHash", tx_hash)
            if known is not None and known["blockNumber"] is None:
                return str(tx_hash)
        return None

    return str(await until(waiting))


async def mining(desk: Desk, *, paused: bool) -> None:
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": paused})
    if not paused:
        await desk.chain.ask("evm_mine")


async def receipt(desk: Desk, tx_hash: str) -> Any:
    return await desk.chain.ask("eth_getTransactionReceipt", tx_hash)


def events(found: Any) -> int:
    """How many payments a transaction settled."""
    return sum(log["topics"][0] == settler.PAID for log in found["logs"])


@BOTH
async def test_a_stranger_who_is_faster_pays_the_same_merchant(desk, tenant, stranger, amount):
    made = await signed(desk, tenant, amount)
    before = await balances(desk, made.wallet.address, stranger)
    await mining(desk, paused=True)
    await desk.rest.confirm(made.payment_id, made.option_id, made.outputs)
    own = await ours(desk)
    theirs = await stranger.send(made.settle())
    await mining(desk, paused=False)
    final = await desk.ended(made.payment_id)
    assert (final["status"], final["info"]["txId"]) == ("succeeded", theirs)
    # both were mined, and one of them settled
    first, second = await receipt(desk, theirs), await receipt(desk, own)
    assert int(first["transactionIndex"], 16) < int(second["transactionIndex"], 16)
    assert (events(first), events(second)) == (1, 0)
    after = await balances(desk, made.wallet.address, stranger)
    assert after.since(before) == paid(made.pay.token)
    detail = await desk.rest.call("GET", f"/v1/payments/{made.payment_id}", tenant.headers)
    assert detail["settlement"]["successful"]["amount"]["value"] == str(PRICE - FEE)


@BOTH
async def test_a_stranger_may_come_by_way_of_the_opener(desk, tenant, stranger, amount):
    made = await signed(desk, tenant, amount)
    before = await balances(desk, made.wallet.address, stranger)
    await mining(desk, paused=True)
    await desk.rest.confirm(made.payment_id, made.option_id, made.outputs)
    await ours(desk)
    data = open_and_call([], DEVNET.settler, made.settle())
    theirs = await stranger.send(data, DEVNET.opener)
    await mining(desk, paused=False)
    final = await desk.ended(made.payment_id)
    assert (final["status"], final["info"]["txId"]) == ("succeeded", theirs)
    after = await balances(desk, made.wallet.address, stranger)
    assert after.since(before) == paid(made.pay.token)


@BOTH
async def test_a_payment_that_nobody_confirmed_is_paid_by_what_a_stranger_submits(
    desk, tenant, stranger, amount
):
    made = await signed(desk, tenant, amount)
    before = await balances(desk, made.wallet.address, stranger)
    await mining(desk, paused=True)
    theirs = await stranger.send(made.settle())
    await mining(desk, paused=False)
    states = [state async for state in desk.rest.watch(made.payment_id)]
    assert (states[-1]["status"], states[-1]["info"]["txId"]) == ("succeeded", theirs)
    after = await balances(desk, made.wallet.address, stranger)
    assert after.since(before) == paid(made.pay.token)
    detail = await desk.rest.call("GET", f"/v1/payments/{made.payment_id}", tenant.headers)
    assert detail["buyer"]["accountCaip10"] == made.wallet.account.lower()
    assert detail["settlement"]["successful"]["amount"]["value"] == str(PRICE - FEE)
    # nothing of ours was sent, and a wallet that comes late is told that it is over
    (count,) = desk.select(
        "SELECT count(*) FROM chain_tx_item WHERE payment_id = ?", made.payment_id
    )[0]
    assert count == 0
    with pytest.raises(Refused) as caught:
        await desk.rest.confirm(made.payment_id, made.option_id, made.outputs)
    assert caught.value.http == 409
    assert (await desk.rest.status(made.payment_id))["status"] == "succeeded"


async def test_an_event_of_another_payer_or_price_binds_nothing(desk, tenant, stranger):
    """The stranger pays for itself, with the reference of somebody else's payment."""
    made = await signed(desk, tenant, USD)
    me = stranger.key.address.lower()
    fill = {"accounts": [me], "nativeWei": "0x0", "tokenUnits": hex(PRICE)}
    await desk.chain.ask("florin_faucet", fill)
    approve = abi.selector("approve(address,uint256)")
    data = approve + abi.address(DEVNET.settler) + abi.number(PRICE)
    await stranger.send(data, made.pay.token)
    cheap = replace(made.pay, payer=me, value=FEE + 1, signature=b"")
    found = await receipt(desk, await stranger.send(settler.pay(cheap)))
    assert (found["status"], events(found)) == ("0x1", 1)
    # a later payment shows that the settler has come past it
    later = await signed(desk, tenant, USD)
    await desk.rest.confirm(later.payment_id, later.option_id, later.outputs)
    assert (await desk.final(later.payment_id))["status"] == "succeeded"
    assert (await desk.rest.status(made.payment_id))["status"] == "requires_action"
    await desk.rest.confirm(made.payment_id, made.option_id, made.outputs)
    final = await desk.final(made.payment_id)
    assert (final["status"], final["info"]["txId"] != found["transactionHash"]) == (
        "succeeded",
        True,
    )


@BOTH
async def test_what_is_settled_cannot_be_settled_again(desk, tenant, stranger, amount):
    made = await signed(desk, tenant, amount)
    await desk.rest.confirm(made.payment_id, made.option_id, made.outputs)
    assert (await desk.final(made.payment_id))["status"] == "succeeded"
    before = await balances(desk, made.wallet.address, stranger)
    again = await receipt(desk, await stranger.send(made.settle()))
    assert (again["status"], events(again)) == ("0x1", 0)
    assert (await balances(desk, made.wallet.address, stranger)).since(before) == {}


@BOTH
async def test_a_redirected_authorization_moves_nothing(desk, tenant, stranger, amount):
    made = await signed(desk, tenant, amount)
    me, pay = stranger.key.address.lower(), made.pay
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
    before = await balances(desk, made.wallet.address, stranger)
    found = await receipt(desk, await stranger.send(made.settle(*redirected[:9])))
    more = await receipt(desk, await stranger.send(made.settle(*redirected[9:])))
    for one in (found, more):
        assert (one["status"], events(one)) == ("0x1", 0)
        assert len(one["logs"]) == 9  # each failed by itself
    # nor in the other kind's name, nor as if the stranger were the buyer
    crossed = settler.settle([pay]) if made.method == "permit2" else settler.settle((), [pay])
    assert events(await receipt(desk, await stranger.send(crossed))) == 0
    direct = await receipt(desk, await stranger.send(settler.pay(pay)))
    assert (direct["status"], events(direct)) == ("0x0", 0)
    assert (await balances(desk, made.wallet.address, stranger)).since(before) == {}

    assert (await desk.rest.status(made.payment_id))["status"] == "requires_action"
    await desk.rest.confirm(made.payment_id, made.option_id, made.outputs)
    assert (await desk.final(made.payment_id))["status"] == "succeeded"
    after = await balances(desk, made.wallet.address, stranger)
    assert after.since(before) == paid(pay.token)


async def test_the_token_takes_an_authorization_from_the_settlement_contract_only(
    desk, tenant, stranger
):
    made = await signed(desk, tenant, USD)
    me, pay = stranger.key.address.lower(), made.pay
    before = await balances(desk, made.wallet.address, stranger)
    for call in (RECEIVE, TRANSFER):
        for to in (DEVNET.settler, me, MERCHANT):
            words = abi.address(pay.payer) + abi.address(to) + abi.number(pay.value)
            words += abi.number(0) + abi.number(pay.valid_before) + made.terms.nonce
            data = call + words + abi.number(7 * abi.WORD) + abi.padded(pay.signature)
            found = await receipt(desk, await stranger.send(data, pay.token))
            assert found["status"] == "0x0"
    assert (await balances(desk, made.wallet.address, stranger)).since(before) == {}
    await desk.rest.confirm(made.payment_id, made.option_id, made.outputs)
    assert (await desk.final(made.payment_id))["status"] == "succeeded"


async def test_permit2_takes_a_permit_from_the_settlement_contract_only(desk, tenant, stranger):
    made = await signed(desk, tenant, EUR)
    me, pay = stranger.key.address.lower(), made.pay
    before = await balances(desk, made.wallet.address, stranger)
    for to in (me, DEVNET.settler, MERCHANT):
        words = abi.address(pay.token) + abi.number(pay.value) + made.terms.nonce
        words += abi.number(pay.valid_before) + abi.address(to) + abi.number(pay.value)
        words += abi.address(pay.payer) + abi.number(8 * abi.WORD) + abi.padded(pay.signature)
        found = await receipt(desk, await stranger.send(PERMIT + words, DEVNET.permit2))
        assert found["status"] == "0x0"
    assert (await balances(desk, made.wallet.address, stranger)).since(before) == {}
    await desk.rest.confirm(made.payment_id, made.option_id, made.outputs)
    assert (await desk.final(made.payment_id))["status"] == "succeeded"
