"""Buyers' programs that sign payments of x402, and servers that settle them by the facilitator."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from eth_abi import encode
from eth_account import Account
from eth_utils import keccak
from florin_sandbox.devnet.genesis import DEVNET

from tests.support.chain import ChainClient
from tests.support.service_harness import ServiceHarness, ServiceResponse
from tests.support.until import advance, wait_until
from tests.support.wallet import EvmTestWallet

TOKEN = DEVNET.tokens[0]
NETWORK = f"eip155:{DEVNET.chain_id}"
_CANCEL_FIELDS = [
    {"name": "authorizer", "type": "address"},
    {"name": "nonce", "type": "bytes32"},
]
_FIELDS = [
    *({"name": name, "type": "address"} for name in ("from", "to")),
    *({"name": name, "type": "uint256"} for name in ("value", "validAfter", "validBefore")),
    {"name": "nonce", "type": "bytes32"},
]


PERMIT2 = DEVNET.permit2
_PERMIT2_TYPES = {
    "PermitWitnessTransferFrom": [
        {"name": "permitted", "type": "TokenPermissions"},
        {"name": "spender", "type": "address"},
        {"name": "nonce", "type": "uint256"},
        {"name": "deadline", "type": "uint256"},
        {"name": "witness", "type": "Witness"},
    ],
    "TokenPermissions": [
        {"name": "token", "type": "address"},
        {"name": "amount", "type": "uint256"},
    ],
    "Witness": [
        {"name": "to", "type": "address"},
        {"name": "validAfter", "type": "uint256"},
    ],
}


def make_permit2_requirements(pay_to: str, amount: int = 12_345, **changes: Any) -> dict[str, Any]:
    """Return what a server requires in a token without transfers by signature of its own."""
    extra = {"assetTransferMethod": "permit2"}
    return make_requirements(
        pay_to, amount, **{"asset": DEVNET.euro.address, "extra": extra, **changes}
    )


def make_requirements(pay_to: str, amount: int = 12_345, **changes: Any) -> dict[str, Any]:
    """Return what a server requires on the embedded EVM chain."""
    return {
        "scheme": "exact",
        "network": NETWORK,
        "asset": TOKEN.address,
        "amount": str(amount),
        "payTo": pay_to,
        "maxTimeoutSeconds": 60,
        "extra": {"name": TOKEN.name, "version": TOKEN.version},
        **changes,
    }


_DOMAIN = {
    "name": TOKEN.name,
    "version": TOKEN.version,
    "chainId": DEVNET.chain_id,
    "verifyingContract": TOKEN.address,
}


@dataclass
class X402Buyer:
    """A key that signs transfers by EIP-3009, and what it signs can be changed afterwards."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    @property
    def address(self) -> str:
        return str(Account.from_key(self.key).address)

    def sign(
        self, requirements: dict[str, Any], now: int, *, nonce: bytes | None = None, **changes: Any
    ) -> dict[str, Any]:
        """Return a payment of what is required; `changes` are members of the authorization."""
        message = {
            "from": self.address,
            "to": requirements["payTo"],
            "value": requirements["amount"],
            "validAfter": str(now - 600),
            "validBefore": str(now + 60),
            "nonce": "0x" + (nonce or secrets.token_bytes(32)).hex(),
            **changes,
        }
        numbers = {name: int(message[name]) for name in ("value", "validAfter", "validBefore")}
        signed = Account.sign_typed_data(
            self.key,
            _DOMAIN,
            {"TransferWithAuthorization": _FIELDS},
            {**message, **numbers, "nonce": bytes.fromhex(message["nonce"][2:])},
        )
        return {
            "x402Version": 2,
            "accepted": requirements,
            "resource": {"url": "https://shop.example/report"},
            "payload": {"authorization": message, "signature": "0x" + signed.signature.hex()},
        }

    def encode_cancel(self, payment: dict[str, Any]) -> str:
        """Return the calldata that cancels a payment's authorization, signed."""
        nonce = bytes.fromhex(payment["payload"]["authorization"]["nonce"][2:])
        signed = Account.sign_typed_data(
            self.key,
            _DOMAIN,
            {"CancelAuthorization": _CANCEL_FIELDS},
            {"authorizer": self.address, "nonce": nonce},
        )
        selector = keccak(b"cancelAuthorization(address,bytes32,bytes)")[:4]
        words = encode(["address", "bytes32", "bytes"], [self.address, nonce, signed.signature])
        return "0x" + (selector + words).hex()

    def sign_permit2(
        self,
        requirements: dict[str, Any],
        now: int,
        *,
        nonce: int | None = None,
        owner: str = "",
        **changes: Any,
    ) -> dict[str, Any]:
        """Return a payment by Permit2; `changes` are members of the message and its witness."""
        message = {
            "permitted": {"token": requirements["asset"], "amount": requirements["amount"]},
            "spender": DEVNET.x402_proxy,
            "nonce": str(secrets.randbits(256) if nonce is None else nonce),
            "deadline": str(now + 60),
            "witness": {"to": requirements["payTo"], "validAfter": "0"},
        }
        for name, value in changes.items():
            place = next(
                (part for part in (message["permitted"], message["witness"]) if name in part),
                message,
            )
            place[name] = value
        domain = {"name": "Permit2", "chainId": DEVNET.chain_id, "verifyingContract": PERMIT2}
        numbers = {name: int(message[name]) for name in ("nonce", "deadline")}
        permitted, witness = message["permitted"], message["witness"]
        signed = Account.sign_typed_data(
            self.key,
            domain,
            _PERMIT2_TYPES,
            {
                **message,
                **numbers,
                "permitted": {**permitted, "amount": int(permitted["amount"])},
                "witness": {**witness, "validAfter": int(witness["validAfter"])},
            },
        )
        return {
            "x402Version": 2,
            "accepted": requirements,
            "payload": {
                "permit2Authorization": {"from": owner or self.address, **message},
                "signature": "0x" + signed.signature.hex(),
            },
        }

    async def approve(self, chain: ChainClient, token: str, amount: int = 2**256 - 1) -> None:
        """Let Permit2 move an amount of a token; some tokens need a reset to 0 before."""
        wallet, spender = EvmTestWallet(key=self.key), bytes.fromhex(PERMIT2[2:]).rjust(32, b"\0")
        for value in (0, amount):
            data = b"\x09\x5e\xa7\xb3" + spender + value.to_bytes(32)
            call = {"to": bytes.fromhex(token[2:]), "value": 0, "data": data}
            await wallet.transact(chain, gas=100_000, **call)


@dataclass
class X402Server:
    """A server of others that has a key of an installation."""

    service: ServiceHarness
    secret: str

    @classmethod
    async def create(cls, service: ServiceHarness) -> X402Server:
        tenant = await service.tenant()
        _, secret = await service.key(tenant.partner.id, scopes=("facilitate",))
        return cls(service, secret)

    async def ask(
        self, name: str, payment: Any = None, requirements: Any = None
    ) -> ServiceResponse:
        body = None
        if payment is not None:
            if requirements is None:
                requirements = payment["accepted"]
            body = {
                "x402Version": 2,
                "paymentPayload": payment,
                "paymentRequirements": requirements,
            }
        method = "GET" if body is None else "POST"
        headers = {"Api-Key": self.secret}
        return await self.service.ask(method, f"/x402/facilitator/{name}", headers, body)

    async def verify(self, payment: Any, requirements: Any = None) -> dict[str, Any]:
        answer = await self.ask("verify", payment, requirements)
        assert answer.status == 200, answer.text
        result: dict[str, Any] = answer.body
        return result

    async def settle(self, payment: Any, requirements: Any = None) -> dict[str, Any]:
        answer = await self.ask("settle", payment, requirements)
        assert answer.status == 200, answer.text
        result: dict[str, Any] = answer.body
        return result


def decode_header(value: str) -> Any:
    return json.loads(base64.b64decode(value))


async def expect_refusal(service, server, payment, requirements, reason: str) -> None:
    """Verify and settle refuse a payment for a reason, and nothing is written."""
    before = service.rows()
    answer = await server.verify(payment, requirements)
    assert (answer["isValid"], answer["invalidReason"]) == (False, reason)
    answer = await server.settle(payment, requirements)
    assert (answer["success"], answer["errorReason"]) == (False, reason)
    assert answer["transaction"] == ""
    assert service.rows() == before


async def request(service, payment_id, signed=None, method="GET"):
    headers = {"Accept": "application/json"}
    if signed is not None:
        text = signed if isinstance(signed, str) else json.dumps(signed)
        headers["PAYMENT-SIGNATURE"] = base64.b64encode(text.encode()).decode()
    return await service.ask(method, f"/x402/{payment_id}", headers)


async def read_offer(service, payment_id):
    """Return the first way to pay, from the header that clients read."""
    answer = await request(service, payment_id)
    assert answer.status == 402, answer.text
    message = decode_header(answer.headers["PAYMENT-REQUIRED"])
    assert message == answer.body
    assert message["x402Version"] == 2
    return message["accepts"][0]


async def pay_until_final(service, payment_id, signed):
    """Repeat a request with its signature, as clients do, while time passes."""
    codes = []

    async def move() -> None:
        await advance(service.clock, 1.5)

    async def read():
        answer = await request(service, payment_id, signed)
        codes.append(answer.status)
        return answer if answer.status != 202 else None

    answer = await wait_until(read, meanwhile=move)
    return answer, codes
