"""Buyers who only send to an address, as from any wallet or exchange."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from eth_abi import encode
from eth_account import Account
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.rails.evm.forwarder_settings import ForwarderSettings

from tests.support.chain import ChainClient
from tests.support.evm_devnet import encode_call, sign_transaction
from tests.support.service_harness import SPEC, ServiceHarness, ServiceResponse
from tests.support.until import advance, wait_until

ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}}
PRICE = 12_500_000
CHAIN = f"eip155:{DEVNET.chain_id}"
DOLLAR = f"{CHAIN}/erc20:{DEVNET.token.address}"
EURO = f"{CHAIN}/erc20:{DEVNET.euro.address}"
COIN = f"{CHAIN}/slip44:60"
COIN_ADDRESS = "0x" + "00" * 20
ROUTE_TYPE = "(uint256,address,uint256,uint256,address,address,uint256,bytes32,address)"


async def post_addresses(
    service: ServiceHarness, payment_id: str, assets: Sequence[str] = (DOLLAR,), **more: Any
) -> ServiceResponse:
    path = f"/v1/gateway/payment/{payment_id}/addresses"
    headers = {**service.rest.wallet, **SPEC}
    return await service.ask("POST", path, headers, {"assets": list(assets), **more})


async def open_address(
    service: ServiceHarness, payment_id: str, asset: str = DOLLAR, **more: Any
) -> dict[str, Any]:
    response = await post_addresses(service, payment_id, [asset], **more)
    assert response.status == 200, response.text
    (address,) = response.body["addresses"]
    return address


def parse_route(address: dict[str, Any]) -> ForwardRoute:
    """Return the route of an address, as anyone can read it."""
    route = address["route"]
    return ForwardRoute(
        chain_id=int(route["chainId"]),
        forwarder=route["forwarder"].lower(),
        token=route["token"].lower(),
        value=int(route["value"]),
        valid_before=int(route["validBefore"]),
        dest=route["dest"].lower(),
        fee_to=route["feeTo"].lower(),
        fee=int(route["fee"]),
        ref=bytes.fromhex(route["ref"][2:]),
        home=route["home"].lower(),
    )


class PlainSender:
    """An account that knows nothing of Florin: it sends tokens and coin."""

    def __init__(self, chain: ChainClient, account: LocalAccount | None = None) -> None:
        self.chain = chain
        self.account = account or Account.create()
        self.address: str = self.account.address.lower()

    async def fund(self) -> PlainSender:
        await self.chain.fund(self.address)
        return self

    async def run(self, to: str | None, data: str, **changes: Any) -> dict[str, Any]:
        """Send a transaction; return its receipt."""
        nonce = int(await self.chain.ask("eth_getTransactionCount", self.address, "pending"), 16)
        values = {"to": to, "data": data, "nonce": nonce, **changes}
        tx_hash = await self.chain.ask(
            "eth_sendRawTransaction", sign_transaction(self.account, values)
        )

        async def find() -> Any:
            return await self.chain.ask("eth_getTransactionReceipt", tx_hash)

        receipt: dict[str, Any] = await wait_until(find)
        assert receipt["status"] == "0x1", receipt
        return receipt

    async def send_token(self, address: str, value: int, token: str = DOLLAR) -> dict[str, Any]:
        data = encode_call("transfer(address,uint256)", address, value)
        return await self.run(token.rpartition(":")[2], data)

    async def send_coin(self, address: str, value: int) -> dict[str, Any]:
        return await self.run(address, "0x", value=value)


async def read_tokens(chain: ChainClient, account: str, token: str = DOLLAR) -> int:
    data = "0x70a08231" + encode(["address"], [account]).hex()
    call = {"to": token.rpartition(":")[2], "data": data}
    return int(await chain.ask("eth_call", call, "latest"), 16)


async def pass_time(service: ServiceHarness, turns: int) -> None:
    """Let the settler look at all addresses so many times, each after a new block."""
    worker = service.service.app.settlers[CHAIN]
    for _ in range(turns):
        before = worker.head
        service.clock.advance(1.5)
        await service.chain.mine()

        async def has_looked(before: int = before) -> bool:
            return worker.head > before

        await wait_until(has_looked)


async def wait_for_status(
    service: ServiceHarness, payment_id: str, status: str, *, advance_s: float = 1.5
) -> dict[str, Any]:
    """Return the payment's detail once it has a status, while time passes."""

    async def pass_time() -> None:
        await advance(service.clock, advance_s)
        await service.chain.mine()

    async def read() -> str:
        return str((await service.rest.status(payment_id))["status"])

    await wait_until(read, status, meanwhile=pass_time)
    detail: dict[str, Any] = await service.rest.detail(payment_id)
    return detail


@dataclasses.dataclass(frozen=True)
class AddressPurchase:
    """A payment that its buyer sends to an address."""

    payment_id: str
    address: dict[str, Any]

    async def pay(self, sender: PlainSender) -> None:
        send = sender.send_coin if self.address["asset"] == COIN else sender.send_token
        await send(self.address["address"], int(self.address["amount"]["value"]))


async def open_purchases(
    service: ServiceHarness,
    create_payment: Callable[[dict[str, str]], Awaitable[str]],
    ways: Sequence[tuple[dict[str, str], str]],
) -> list[AddressPurchase]:
    """Create a payment for each amount and asset, with an address."""
    payments = [(await create_payment(amount), asset) for amount, asset in ways]
    return [
        AddressPurchase(payment_id, await open_address(service, payment_id, asset))
        for payment_id, asset in payments
    ]


async def pay_purchases(service: ServiceHarness, purchases: Sequence[AddressPurchase]) -> list[str]:
    """Send all prices from one account; return the payments."""
    sender = await PlainSender(service.chain).fund()
    for purchase in purchases:
        await purchase.pay(sender)
    return [purchase.payment_id for purchase in purchases]


def leave_room(service: ServiceHarness, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let a merchant open so many addresses more."""
    query = "SELECT count(*) FROM deposit_address WHERE until_s > ?"
    ((watched,),) = service.select(query, service.now)
    few = ForwarderSettings(address=DEVNET.forwarder, hot_max=2 * (watched + count))
    monkeypatch.setattr(service.service.app.rails[CHAIN].addresses, "_forwarder", few)


class ExchangeLikeSender:
    """A contract that pays out in batches, as exchanges do: no sender signs for its transfers."""

    def __init__(self, sender: PlainSender, contract: str, coin_sender: str) -> None:
        self.sender = sender
        self.contract = contract
        self.coin_sender = coin_sender

    @classmethod
    async def deploy(cls, sender: PlainSender) -> ExchangeLikeSender:
        """Deploy the contracts, and give the batching contract tokens."""
        receipt = await sender.run(None, "0x" + load_artifact("TestMulticall").init.hex())
        contract = receipt["contractAddress"]
        tokens = [token.address for token in DEVNET.tokens]
        gift = {"accounts": [contract], "nativeWei": "0x0", "tokens": tokens}
        await sender.chain.ask("florin_faucet", gift)
        # sends its call's value to the address in its data
        runtime = bytes.fromhex("5f5f5f5f345f355af100")
        creation = bytes([0x60, len(runtime)]) + bytes.fromhex("80600a5f395ff300") + runtime
        coin = await sender.run(None, "0x" + creation.hex())
        return cls(sender, contract, coin["contractAddress"])

    async def send_tokens(
        self, amounts: Sequence[tuple[str, int]], token: str = DOLLAR
    ) -> dict[str, Any]:
        """Send tokens to several addresses in one transaction."""
        target = token.rpartition(":")[2]
        calls = [
            (target, False, bytes.fromhex(encode_call("transfer(address,uint256)", *each)[2:]))
            for each in amounts
        ]
        data = encode_call("aggregate3((address,bool,bytes)[])", calls)
        return await self.sender.run(self.contract, data, gas=1_000_000)

    async def send_coin(self, address: str, value: int) -> dict[str, Any]:
        data = "0x" + encode(["address"], [address]).hex()
        return await self.sender.run(self.coin_sender, data, value=value, gas=200_000)


def list_words(route: ForwardRoute) -> tuple[Any, ...]:
    """Return the parts of a route in the contract's order."""
    chain_id, _, *rest = dataclasses.astuple(route)
    return (chain_id, *rest)


async def forward_as_stranger(sender: PlainSender, *routes: ForwardRoute) -> dict[str, Any]:
    """Call the forwarder as anyone can."""
    items = [(list_words(route), COIN_ADDRESS, b"", 300_000) for route in routes]
    item = f"({ROUTE_TYPE},address,bytes,uint256)"
    data = encode_call(f"forward({item}[])", items)
    return await sender.run(routes[0].forwarder, data, gas=2_000_000)
