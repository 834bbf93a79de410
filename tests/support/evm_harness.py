"""Shared helpers of the EVM rail's tests: an embedded chain, wallets, and a node that lies."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.evm import DEVNET, EvmDevChain
from florin_server.base.clock import TestClock
from florin_server.domain.payments.payment import (
    Action,
    Confirmation,
    Payment,
    PaymentOption,
    PaymentStatus,
)
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.payments.service import funding
from florin_server.rails.connection.jsonrpc import (
    ANSWER_BYTES_MAX,
    AnswerTooLarge,
    JsonRpcClient,
    LocalTransport,
    RpcTransport,
)
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.fees import KEY_GAS
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmAssetSettings, EvmChainSettings
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import (
    PayableAsset,
    RailUnavailable,
    SignedTransaction,
    Split,
)

from tests.support.anvil_node import AnvilNode
from tests.support.chainlab.profiles import GasPrices
from tests.support.chainlab.rhythm import BlockSealer
from tests.support.chains import EmbeddedChains, EvmChains

START_S = 1_800_000_000
PRICE = 1_500_000
CHAIN = f"eip155:{DEVNET.chain_id}"
TOKEN = f"{CHAIN}/erc20:{DEVNET.token.address}"
EURO = f"{CHAIN}/erc20:{DEVNET.euro.address}"
MERCHANT = "0x" + "ca" * 20
FEES = "0x" + "fe" * 20
RELAYER = EvmSigner(b"\x52" * 32)
ETHER = 10**18
# accounts with code: each decides itself whether it signed
ACCEPTS_ALL = "7f1626ba7e" + "00" * 28 + "60005260206000f3"
ACCEPTS_NONE = "60206000f3"


@dataclass
class TamperingTransport:
    """A node between the rail and the chain whose answers can be changed by method.

    A change gets the params and the true answer (with `result` or `error`), and returns the answer
    to give instead. Calls in `lost_methods` never reach the chain, and no answer is longer than
    `answer_bytes_max`.
    """

    inner: RpcTransport
    changes: dict[str, Callable[[list[Any], dict[str, Any]], Any]] = field(default_factory=dict)
    methods: list[str] = field(default_factory=list)
    lost_methods: frozenset[str] = frozenset()
    answer_bytes_max: int = ANSWER_BYTES_MAX

    async def send(self, payload: bytes) -> bytes:
        questions = json.loads(payload)
        if isinstance(questions, dict) and questions["method"] in self.lost_methods:
            raise RailUnavailable("the question was lost")
        answer = await self.inner.send(payload)
        if len(answer) > self.answer_bytes_max:
            raise AnswerTooLarge("the node's answer is too large")
        answers = json.loads(answer)
        if isinstance(questions, dict):
            return json.dumps(self.changed(questions, answers)).encode()
        by_id = {each_answer["id"]: each_answer for each_answer in answers}
        return json.dumps(
            [self.changed(question, by_id[question["id"]]) for question in questions]
        ).encode()

    async def close(self) -> None:
        await self.inner.close()

    def changed(self, question: dict[str, Any], answer: dict[str, Any]) -> Any:
        self.methods.append(question["method"])
        change = self.changes.get(question["method"])
        return answer if change is None else change(question["params"], answer)


def make_refusal(code: int, message: str) -> Callable[[list[Any], dict[str, Any]], Any]:
    """Return a change that refuses every call."""
    return lambda _, answer: {"id": answer["id"], "error": {"code": code, "message": message}}


def make_reply(result: Any) -> Callable[[list[Any], dict[str, Any]], Any]:
    """Return a change that gives every call the same result."""
    return lambda _, answer: {"id": answer["id"], "result": result}


def make_chain_settings(**changes: Any) -> EvmChainSettings:
    """Return the embedded chain's settings as an operator would write them."""
    token = DEVNET.token
    return EvmChainSettings(
        **{
            "chain_id": DEVNET.chain_id,
            "name": DEVNET.name,
            "confirmations": 3,
            "settler": DEVNET.settler,
            "treasury": FEES,
            "faucet": True,
            "reads": "batch",
            "assets": (make_asset(token.address),),
        }
        | changes
    )


def make_asset(address: str = DEVNET.token.address, **changes: Any) -> EvmAssetSettings:
    """Return the embedded chain's token as an operator would write it."""
    token = DEVNET.token
    return EvmAssetSettings(
        **{
            "address": address,
            "name": token.name,
            "symbol": token.symbol,
            "decimals": token.decimals,
            "peg": token.peg,
            "domain_version": token.version,
        }
        | changes
    )


def make_euro_asset(**changes: Any) -> EvmAssetSettings:
    """Return the embedded chain's token without signatures of its own."""
    token = DEVNET.euro
    return EvmAssetSettings(
        **{
            "address": token.address,
            "name": token.name,
            "symbol": token.symbol,
            "decimals": token.decimals,
            "peg": token.peg,
            "method": "permit2",
            "approve_from_zero": True,
        }
        | changes
    )


def make_buyer(number: int) -> LocalAccount:
    """Return the wallet of a number; always the same one."""
    return Account.from_key(number.to_bytes(32, "big"))


def to_account(wallet: LocalAccount | str) -> str:
    """Return the canonical CAIP-10 of a wallet or address."""
    address = wallet if isinstance(wallet, str) else wallet.address
    return f"{CHAIN}:{address.lower()}"


def make_payment(number: int = 1, ttl_s: int = 900) -> Payment:
    """Return a payment created at the epoch of the tests."""
    return Payment(
        id=f"pay_test{number:020d}",
        partner_id="partner",
        merchant_id="merchant",
        live=False,
        status=PaymentStatus.REQUIRES_ACTION,
        version=0,
        unit="iso4217/USD",
        value=150,
        reference_id="order",
        success_url=None,
        error_url=None,
        salt=number.to_bytes(16, "big"),
        created_at_us=START_S * 1_000_000,
        updated_at_us=START_S * 1_000_000,
        expires_at=START_S + ttl_s,
    )


def sign_option(wallet: LocalAccount, option: PaymentOption) -> str:
    """Sign the last action of an option; return the wallet's output."""
    action = option.actions[-1]
    signer, document = json.loads(action.params_json)
    assert action.method == "eth_signTypedData_v4"
    assert signer == option.payer.rpartition(":")[2]
    message = wallet.sign_typed_data(full_message=json.loads(document))
    return json.dumps("0x" + bytes(message.signature).hex())


def make_settlement_item(
    payment: Payment, option: PaymentOption, *outputs: str, from_block: int = 0
) -> SettlementItem:
    """Return what the service stores about a confirmed payment."""
    confirmation = Confirmation(payment.id, option.id, outputs, b"digest", payment.created_at_us)
    return SettlementItem(payment, option, confirmation, from_block)


@dataclass
class EvmChainHarness:
    """A chain, the rail in front of it, and the means to change either."""

    clock: TestClock
    chain: EvmDevChain | AnvilNode
    node: TamperingTransport
    rail: EvmRail
    control: JsonRpcClient
    rhythm: BlockSealer
    prices: GasPrices
    charges_token: bool = False

    def offer(
        self,
        payer: LocalAccount | str,
        payment: Payment | None = None,
        *,
        value: int = PRICE,
        fee: int = 0,
    ) -> PaymentOption:
        """Return the rail's option for a wallet."""
        payment = payment or make_payment()
        account = to_account(payer)
        split = Split(to_account(MERCHANT), to_account(FEES) if fee else None, fee, settled=True)
        means = PayableAsset(account, TOKEN)
        return self.rail.offers.build_option(
            OptionOffer(
                payment, account, means, self.rail.assets[TOKEN], value, split, self.clock.now_us()
            )
        )

    async def payable(
        self, payers: Sequence[str], prices: Mapping[str, int], by_hand: Collection[str] = ()
    ) -> list[PayableAsset]:
        """Return the payable assets; payers that lack balance or allowance get it first."""
        return await funding.list_payables(self.rail, payers, prices, by_hand)

    @property
    def key_gas(self) -> int:
        """Return the gas that a third party's settlement gives a payment by a plain key."""
        return KEY_GAS + self.prices.dearer_slots

    async def fund(self, *payers: LocalAccount | str) -> None:
        """Let the faucet fund accounts."""
        prices = {TOKEN: PRICE}
        accounts = [to_account(payer) for payer in payers]
        payables = await self.payable(accounts, prices)
        assert {payable.payer for payable in payables} == set(accounts)

    async def create_verified_item(self, number: int, *, fee: int = 0) -> SettlementItem:
        """Return a verified payment by the buyer of the same number."""
        wallet, payment = make_buyer(1000 + number), make_payment(number)
        await self.fund(wallet)
        option = self.offer(wallet, payment, fee=fee)
        item = make_settlement_item(payment, option, sign_option(wallet, option))
        await self.rail.verifier.verify(option, (), item.confirmation.outputs)
        return item

    async def settle(self, *items: SettlementItem) -> SignedTransaction:
        """Settle items in a block of their own."""
        nonce = await self.rail.account_nonces.get_next_nonce(RELAYER.address)
        transaction = await self.rail.relay.sign(RELAYER.address, nonce, items)
        await self.rail.relay.broadcast(transaction.raw)
        return transaction

    async def mine(self, blocks: int = 1) -> None:
        """Seal blocks; under a profile each counts for so many that three are final."""
        await self.rhythm.seal(blocks * sum(self.rhythm.parts))

    async def reorg(self, depth: int, *drop: str, delay: int = 0) -> None:
        """Replace the newest blocks, counted as `mine` does; the dropped transactions vanish.

        All others are mined again in the first block after `delay` empty ones.
        """
        await self.rhythm.replace(depth, list(drop), delay)

    async def depth_of(self, tx_hash: str) -> int:
        """Return how many blocks, counted as `mine` does, drop a transaction when replaced."""
        head = int(await self.control.call("eth_blockNumber"), 16)
        receipt = await self.control.call("eth_getTransactionReceipt", tx_hash)
        return self.rhythm.steps_of(head - int(receipt["blockNumber"], 16) + 1)

    async def pause(self) -> None:
        """Let transactions wait until blocks are sealed by hand."""
        await self.control.call("florin_fault", {"kind": "mining", "paused": True})

    async def balance(self, address: str, token: str = DEVNET.token.address) -> int:
        """Return the balance of an address in a token."""
        data = "0x70a08231" + address[2:].lower().rjust(64, "0")
        call = {"to": token, "data": data}
        return int(await self.control.call("eth_call", call, "latest"), 16)

    async def send(self, key: bytes = DEVNET.faucet_key, **fields: Any) -> Any:
        """Mine a transaction of the faucet, or of another key; return its receipt."""
        sender = Account.from_key(key).address
        nonce = await self.control.call("eth_getTransactionCount", sender, "pending")
        transaction = {
            "chainId": DEVNET.chain_id,
            "nonce": int(nonce, 16),
            "gas": (2_000_000 if self.charges_token else 500_000) + self.prices.dearer_slots,
            "maxFeePerGas": 10**11,
            "maxPriorityFeePerGas": 10**9,
            "value": 0,
            **fields,
        }
        if isinstance(transaction.get("to"), str):
            transaction["to"] = bytes.fromhex(transaction["to"][2:])
        raw = Account.sign_transaction(transaction, key).raw_transaction
        tx_hash = await self.control.call("eth_sendRawTransaction", "0x" + bytes(raw).hex())
        receipt = await self.control.call("eth_getTransactionReceipt", tx_hash)
        assert receipt["status"] == "0x1"
        return receipt

    async def give_gas(self, address: str, count: int) -> None:
        """Give an address so much ether, or that many dollars where fees are charged in a token."""
        if self.charges_token:
            await self.send_tokens(address, count * 10**6)
        else:
            await self.send(to=address, value=count * ETHER)

    async def delegate(self, wallet: LocalAccount, runtime: str) -> None:
        """Give a wallet's account code (EIP-7702), which validates its signatures from now on."""
        nonce = await self.control.call("eth_getTransactionCount", wallet.address, "latest")
        authorization = wallet.sign_authorization(
            {
                "chainId": DEVNET.chain_id,
                "address": await self.deploy(runtime),
                "nonce": int(nonce, 16),
            }
        )
        await self.send(to=DEVNET.faucet, authorizationList=[authorization])

    async def perform(self, wallet: LocalAccount, action: Action) -> str:
        """Send and mine an action of a wallet; return the wallet's output."""
        (call,) = json.loads(action.params_json)
        assert action.method == "eth_sendTransaction"
        assert call["from"] == wallet.address.lower()
        receipt = await self.send(
            key=bytes(wallet.key),
            to=call["to"],
            data=bytes.fromhex(call["data"][2:]),
            value=int(call.get("value", "0x0"), 16),
        )
        return json.dumps(receipt["transactionHash"])

    async def send_tokens(self, address: str, value: int) -> None:
        """Mint tokens to an address."""
        words = address[2:].lower().rjust(64, "0") + f"{value:064x}"
        await self.send(to=DEVNET.token.address, data=bytes.fromhex("40c10f19" + words))

    async def deploy(self, runtime: str) -> str:
        """Deploy a contract with that code; return its address."""
        code = bytes.fromhex(runtime)
        size = len(code).to_bytes(1, "big")
        creation = b"\x60" + size + b"\x80\x60\x0b\x60\x00\x39\x60\x00\xf3" + code
        receipt = await self.send(data=creation)
        return receipt["contractAddress"].lower()


async def open_lab(
    transport: RpcTransport | None = None,
    more: Sequence[EvmSigner] = (),
    *,
    evm: EvmChains | None = None,
    treasury: EvmSigner | None = None,
    timed: bool = False,
    **changes: Any,
) -> EvmChainHarness:
    """Open a fresh chain with a relayer that can pay for gas, and a started rail.

    A `timed` rail uses the harness's clock.
    """
    clock = TestClock(START_S * 1_000_000)
    chains = evm or EmbeddedChains()
    profile = chains.profile
    chain = await chains.node(clock)
    local = LocalTransport(chain.handle)
    node = TamperingTransport(transport or local)
    if treasury is not None:
        changes["treasury"] = treasury.address
    if profile is not None:
        changes = profile.settings | changes
    own_clock = timed or profile is not None
    now = (lambda: clock.steady_us() / 1e6) if own_clock else monotonic
    rail = EvmRail(make_chain_settings(**changes), RELAYER, node, more, treasury, now=now)
    charges_token = isinstance(evm, EmbeddedChains) and evm.fees is not None
    control = JsonRpcClient(local)
    rhythm, prices = BlockSealer(clock, control, profile), profile.gas if profile else GasPrices()
    lab = EvmChainHarness(clock, chain, node, rail, control, rhythm, prices, charges_token)
    for signer in (RELAYER, *more):
        await lab.give_gas(signer.address, 100)
    await rail.start()
    return lab
