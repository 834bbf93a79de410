"""What the tests of the EVM rail share: an embedded chain, wallets, and a node that lies."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from florin_server.clock import TestClock
from florin_server.devnet.evm import DEVNET, EvmDevChain
from florin_server.domain.payments.payment import Action, Confirmation, Option, Payment, Status
from florin_server.domain.settlement.chain_txs import Accepted
from florin_server.flows.payments import funding
from florin_server.rails.connection.jsonrpc import (
    ANSWER_BYTES_MAX,
    AnswerTooLarge,
    JsonRpc,
    LocalTransport,
    Transport,
)
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.fees import KEY_GAS
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import EvmAsset, EvmChain
from florin_server.rails.types import Payable, RailUnavailable, Signed, Split

from tests.support.anvil_node import AnvilNode
from tests.support.chainlab.profiles import GasPrices
from tests.support.chainlab.rhythm import Rhythm
from tests.support.chains import EvmChains, OwnChain

START_S = 1_800_000_000
PRICE = 1_500_000
CHAIN = f"eip155:{DEVNET.chain_id}"
TOKEN = f"{CHAIN}/erc20:{DEVNET.token.address}"
EURO = f"{CHAIN}/erc20:{DEVNET.euro.address}"
MERCHANT = "0x" + "ca" * 20
FEES = "0x" + "fe" * 20
RELAYER = Signer(b"\x52" * 32)
ETHER = 10**18
# accounts with code: each answers for itself whether it signed
ACCEPTS_ALL = "7f1626ba7e" + "00" * 28 + "60005260206000f3"
ACCEPTS_NONE = "60206000f3"


@dataclass
class Meddler:
    """A node between the rail and the chain whose answers can be changed by method.

    A change gets the params and the true answer (with `result` or `error`), and returns the answer
    to give instead. What is in `lost` never reaches the chain, and no answer is longer than
    `answer_bytes_max`.
    """

    inner: Transport
    changes: dict[str, Callable[[list[Any], dict[str, Any]], Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    lost: frozenset[str] = frozenset()
    answer_bytes_max: int = ANSWER_BYTES_MAX

    async def send(self, payload: bytes) -> bytes:
        questions = json.loads(payload)
        if isinstance(questions, dict) and questions["method"] in self.lost:
            raise RailUnavailable("the question was lost")
        answer = await self.inner.send(payload)
        if len(answer) > self.answer_bytes_max:
            raise AnswerTooLarge("the node's answer is too large")
        answers = json.loads(answer)
        if isinstance(questions, dict):
            return json.dumps(self.changed(questions, answers)).encode()
        by_id = {one["id"]: one for one in answers}
        return json.dumps([self.changed(one, by_id[one["id"]]) for one in questions]).encode()

    async def close(self) -> None:
        await self.inner.close()

    def changed(self, question: dict[str, Any], answer: dict[str, Any]) -> Any:
        self.asked.append(question["method"])
        change = self.changes.get(question["method"])
        return answer if change is None else change(question["params"], answer)


def refuse(code: int, message: str) -> Callable[[list[Any], dict[str, Any]], Any]:
    """A change that refuses every call."""
    return lambda _, answer: {"id": answer["id"], "error": {"code": code, "message": message}}


def reply(result: Any) -> Callable[[list[Any], dict[str, Any]], Any]:
    """A change that gives every call the same result."""
    return lambda _, answer: {"id": answer["id"], "result": result}


def settings(**changes: Any) -> EvmChain:
    """The embedded chain as an operator would write it down."""
    token = DEVNET.token
    return EvmChain(
        **{
            "chain_id": DEVNET.chain_id,
            "name": DEVNET.name,
            "confirmations": 3,
            "settler": DEVNET.settler,
            "treasury": FEES,
            "faucet": True,
            "reads": "batch",
            "assets": (asset(token.address),),
        }
        | changes
    )


def asset(address: str = DEVNET.token.address, **changes: Any) -> EvmAsset:
    """The embedded chain's token as an operator would write it down."""
    token = DEVNET.token
    return EvmAsset(
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


def euro(**changes: Any) -> EvmAsset:
    """The embedded chain's token without signatures of its own."""
    token = DEVNET.euro
    return EvmAsset(
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


def buyer(number: int) -> LocalAccount:
    """A wallet; the same for each number."""
    return Account.from_key(number.to_bytes(32, "big"))


def account_of(wallet: LocalAccount | str) -> str:
    """The canonical CAIP-10 of a wallet or address."""
    address = wallet if isinstance(wallet, str) else wallet.address
    return f"{CHAIN}:{address.lower()}"


def new_payment(number: int = 1, ttl_s: int = 900) -> Payment:
    """A payment made at the beginning of time."""
    return Payment(
        id=f"pay_test{number:020d}",
        partner_id="partner",
        merchant_id="merchant",
        live=False,
        status=Status.REQUIRES_ACTION,
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


def signed(wallet: LocalAccount, option: Option) -> str:
    """The output of a wallet that signs what it was asked to sign, the last of the actions."""
    action = option.actions[-1]
    signer, document = json.loads(action.params_json)
    assert action.method == "eth_signTypedData_v4"
    assert signer == option.payer.rpartition(":")[2]
    message = wallet.sign_typed_data(full_message=json.loads(document))
    return json.dumps("0x" + bytes(message.signature).hex())


def accept(payment: Payment, option: Option, *outputs: str, from_block: int = 0) -> Accepted:
    """What the service remembers of a confirmed payment."""
    confirmation = Confirmation(payment.id, option.id, outputs, b"digest", payment.created_at_us)
    return Accepted(payment, option, confirmation, from_block)


@dataclass
class Lab:
    """A chain, the rail in front of it, and the means to change either."""

    clock: TestClock
    chain: EvmDevChain | AnvilNode
    node: Meddler
    rail: EvmRail
    control: JsonRpc
    rhythm: Rhythm
    prices: GasPrices
    charges_token: bool = False

    def offer(
        self,
        payer: LocalAccount | str,
        payment: Payment | None = None,
        *,
        value: int = PRICE,
        fee: int = 0,
    ) -> Option:
        """The rail's option for a wallet."""
        payment = payment or new_payment()
        account = account_of(payer)
        split = Split(account_of(MERCHANT), account_of(FEES) if fee else None, fee, settled=True)
        means = Payable(account, TOKEN)
        return self.rail.offers.offer(
            payment, account, means, self.rail.assets[TOKEN], value, split, self.clock.now_us()
        )

    async def payable(
        self, payers: Sequence[str], prices: Mapping[str, int], by_hand: Collection[str] = ()
    ) -> list[Payable]:
        """Who can pay what, as options are made: whoever lacks something is given it."""
        return await funding.payable(self.rail, payers, prices, by_hand)

    @property
    def key_gas(self) -> int:
        """What somebody else's settlement gives a payment by a plain key."""
        return KEY_GAS + self.prices.dearer_slots

    async def fund(self, *payers: LocalAccount | str) -> None:
        """Lets the faucet fill accounts."""
        prices = {TOKEN: PRICE}
        accounts = [account_of(payer) for payer in payers]
        found = await self.payable(accounts, prices)
        assert {one.payer for one in found} == set(accounts)

    async def sold(self, number: int, *, fee: int = 0) -> Accepted:
        """A verified payment by the buyer of the same number."""
        wallet, payment = buyer(1000 + number), new_payment(number)
        await self.fund(wallet)
        option = self.offer(wallet, payment, fee=fee)
        item = accept(payment, option, signed(wallet, option))
        await self.rail.verifier.verify(option, (), item.confirmation.outputs)
        return item

    async def settle(self, *items: Accepted) -> Signed:
        """Settles items in a block of their own."""
        nonce = await self.rail.account_nonces.next_nonce(RELAYER.address)
        transaction = await self.rail.relay.sign(RELAYER.address, nonce, items)
        await self.rail.relay.broadcast(transaction.raw)
        return transaction

    async def mine(self, blocks: int = 1) -> None:
        """Seals blocks; under a profile each stands for so many that three are final."""
        await self.rhythm.seal(blocks * sum(self.rhythm.parts))

    async def reorg(self, depth: int, *drop: str, delay: int = 0) -> None:
        """Replaces the newest blocks, counted as `mine` does; the dropped transactions vanish.

        All others come again in the first block after `delay` empty ones.
        """
        await self.rhythm.replace(depth, list(drop), delay)

    async def depth_of(self, tx_hash: str) -> int:
        """How many blocks, counted as `mine` does, have to go for a transaction to vanish."""
        head = int(await self.control.call("eth_blockNumber"), 16)
        receipt = await self.control.call("eth_getTransactionReceipt", tx_hash)
        return self.rhythm.steps_of(head - int(receipt["blockNumber"], 16) + 1)

    async def pause(self) -> None:
        """Lets transactions wait until blocks are sealed by hand."""
        await self.control.call("florin_fault", {"kind": "mining", "paused": True})

    async def balance(self, address: str, token: str = DEVNET.token.address) -> int:
        """What an address holds of a token."""
        data = "0x70a08231" + address[2:].lower().rjust(64, "0")
        call = {"to": token, "data": data}
        return int(await self.control.call("eth_call", call, "latest"), 16)

    async def send(self, key: bytes = DEVNET.faucet_key, **fields: Any) -> Any:
        """Mines a transaction of the faucet, or of another key; returns its receipt."""
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
        """Gives an address so many ether; where fees are charged in a token, that many dollars."""
        if self.charges_token:
            await self.send_tokens(address, count * 10**6)
        else:
            await self.send(to=address, value=count * ETHER)

    async def delegate(self, wallet: LocalAccount, runtime: str) -> None:
        """Gives a wallet's account code (EIP-7702), which answers for it from now on."""
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
        """The output of a wallet that sends what it was asked to send; it is mined."""
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
        """Mints to an address."""
        words = address[2:].lower().rjust(64, "0") + f"{value:064x}"
        await self.send(to=DEVNET.token.address, data=bytes.fromhex("40c10f19" + words))

    async def deploy(self, runtime: str) -> str:
        """Puts a contract with that code on the chain; returns its address."""
        code = bytes.fromhex(runtime)
        size = len(code).to_bytes(1, "big")
        creation = b"\x60" + size + b"\x80\x60\x0b\x60\x00\x39\x60\x00\xf3" + code
        receipt = await self.send(data=creation)
        return receipt["contractAddress"].lower()


async def open_lab(
    transport: Transport | None = None,
    more: Sequence[Signer] = (),
    *,
    evm: EvmChains | None = None,
    treasury: Signer | None = None,
    timed: bool = False,
    **changes: Any,
) -> Lab:
    """A fresh chain with a relayer that can pay for gas, and a started rail.

    A `timed` rail takes the lab's clock for its own.
    """
    clock = TestClock(START_S * 1_000_000)
    chains = evm or OwnChain()
    profile = chains.profile
    chain = await chains.node(clock)
    local = LocalTransport(chain.handle)
    node = Meddler(transport or local)
    if treasury is not None:
        changes["treasury"] = treasury.address
    if profile is not None:
        changes = profile.settings | changes
    own_clock = timed or profile is not None
    now = (lambda: clock.steady_us() / 1e6) if own_clock else monotonic
    rail = EvmRail(settings(**changes), RELAYER, node, more, treasury, now=now)
    charges_token = isinstance(evm, OwnChain) and evm.fees is not None
    control = JsonRpc(local)
    rhythm, prices = Rhythm(clock, control, profile), profile.gas if profile else GasPrices()
    lab = Lab(clock, chain, node, rail, control, rhythm, prices, charges_token)
    for signer in (RELAYER, *more):
        await lab.give_gas(signer.address, 100)
    await rail.start()
    return lab
