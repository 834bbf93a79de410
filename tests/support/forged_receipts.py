"""Receipts altered by an attacker without the key: in bytes, in parts and in claims.

Every alteration is drawn from a seeded source and differs from the original receipt.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from florin_server.domain.receipts import keys, signature
from florin_server.domain.receipts.receipt import (
    Receipt,
    ReceiptAmount,
    ReceiptMerchant,
    ReceiptOption,
    ReceiptRefund,
    ReceiptTransaction,
    RequestedAmount,
)
from joserfc.jwk import OKPKey

_ALPHABET = string.ascii_letters + string.digits + "-_"
# Ed25519's group order: a careless reader accepts a signature whose number is larger by it
_ORDER = 2**252 + 27742317777372353535851937790883648493


def make_receipt(number: int = 1, **changes: Any) -> Receipt:
    """Return a receipt with the given claims."""
    chain = "eip155:8453"
    receipt = Receipt(
        iss="https://pay.example",
        iat=1_800_000_000 + number,
        sub=f"pay_{number:024d}",
        live=True,
        merchant=ReceiptMerchant(id="mrch_1", name="Corner Café"),
        reference=f"order-{number}",
        asked=RequestedAmount(unit="iso4217/USD", value="1250"),
        paid=ReceiptAmount(
            asset=f"{chain}/erc20:0x{'0a' * 20}",
            symbol="USDC",
            decimals=6,
            value="12500000",
            fee="187500",
        ),
        payer=f"{chain}:0x{'1b' * 20}",
        recipient=f"{chain}:0x{'2c' * 20}",
        fee_to=f"{chain}:0x{'3d' * 20}",
        settled=True,
        option=ReceiptOption(
            id="00000000-0000-5000-8000-000000000000",
            method="eip3009",
            reference="0x" + "4e" * 32,
            salt="5f" * 16,
            contract="0x" + "6a" * 20,
            steps=[],
        ),
        transaction=ReceiptTransaction(
            chain=chain,
            hash="0x" + "7b" * 32,
            block=123456789,
            block_hash="0x" + "8c" * 32,
            position=number,
        ),
        succeeded_at=1_800_000_000,
        refund=ReceiptRefund(id="rfnd_1", status="pending", asset=f"{chain}/slip44:60", value="1"),
    )
    return receipt.model_copy(update=changes)


@dataclass(frozen=True)
class ReceiptSigner:
    """Signs receipts with one key."""

    seed: bytes

    @property
    def key(self) -> OKPKey:
        return keys.load_private_key(self.seed)

    @property
    def id(self) -> str:
        return self.key.thumbprint()

    @property
    def public(self) -> bytes:
        return keys.get_public_bytes(self.key)

    def receipt(self, receipt: Receipt) -> str:
        return signature.sign_receipt(receipt, self.seed, self.id)

    def raw(self, header: bytes, payload: bytes) -> str:
        """Sign any two parts as a JWS."""
        content = f"{encode_base64url(header)}.{encode_base64url(payload)}"
        private_key = self.key.private_key
        assert private_key is not None
        return f"{content}.{encode_base64url(private_key.sign(content.encode()))}"  # type: ignore[call-arg, union-attr]


def encode_base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode_base64url(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


class ReceiptForger:
    """Alters receipts. It has two of an installation and a key of its own.

    `draw` picks an alteration.
    """

    def __init__(self, issuer: ReceiptSigner, draw: random.Random) -> None:
        self.issuer = issuer
        self.own = ReceiptSigner(b"\x66" * 32)
        self.receipt, self.other_receipt = (issuer.receipt(make_receipt(n)) for n in (1, 2))
        self._draw = draw
        self.ways: tuple[Callable[[], str], ...] = (
            *(self.byte, self.byte, self.byte, self.bit, self.cut, self.grown, self.moved),
            *(self.spelled, self.tail, self.swapped, self.claims, self.claims_by_own_key),
            *(self.header, self.unsigned, self.by_public_key, self.own_key_along, self.twice),
            *(self.signature, self.higher, self.wrapped),
        )

    def altered(self, count: int) -> Iterator[tuple[str, str]]:
        """Yield `count` altered receipts, each with the name of its alteration."""
        while count:
            way = self.ways[count % len(self.ways)]
            created = way()
            if created not in {self.receipt, self.other_receipt}:
                count -= 1
                yield way.__name__, created

    def byte(self) -> str:
        """Replace one character."""
        at = self._at(self.receipt)
        any_ = self._draw.choice([*_ALPHABET, chr(self._draw.randrange(256))])
        return self.receipt[:at] + any_ + self.receipt[at + 1 :]

    def bit(self) -> str:
        at = self._at(self.receipt)
        flipped = chr(ord(self.receipt[at]) ^ 1 << self._draw.randrange(8))
        return self.receipt[:at] + flipped + self.receipt[at + 1 :]

    def cut(self) -> str:
        first, last = sorted((self._at(self.receipt), self._at(self.receipt)))
        return self.receipt[:first] + self.receipt[last + 1 :]

    def grown(self) -> str:
        at = self._draw.randrange(len(self.receipt) + 1)
        items = "".join(
            self._draw.choices([*_ALPHABET, *" \t\n\r.=\0é"], k=self._draw.randint(1, 4))
        )
        return self.receipt[:at] + items + self.receipt[at:]

    def moved(self) -> str:
        """Swap two characters."""
        content = list(self.receipt)
        a, b = self._at(self.receipt), self._at(self.receipt)
        content[a], content[b] = content[b], content[a]
        return "".join(content)

    def spelled(self) -> str:
        """Encode the same bytes in another spelling of base64."""
        parts = self.receipt.split(".")
        at = self._draw.randrange(3)
        trick = self._draw.randrange(4)
        if trick == 0:
            parts[at] += "=" * self._draw.randint(1, 3)
        elif trick == 1:
            parts[at] = parts[at].replace("-", "+").replace("_", "/") + "="
        elif trick == 2:
            cut = self._draw.randrange(len(parts[at]))
            parts[at] = parts[at][:cut] + self._draw.choice("\n\r \t") + parts[at][cut:]
        else:
            parts[at] = parts[at].swapcase()
        return ".".join(parts)

    def tail(self) -> str:
        """Set unused bits at the end of a part."""
        parts = self.receipt.split(".")
        at = self._draw.choice([i for i in range(3) if len(parts[i]) % 4])
        last = _ALPHABET.index(parts[at][-1])
        order = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
        spare = 4 if len(parts[at]) % 4 == 2 else 2
        value = order.index(_ALPHABET[last]) ^ self._draw.randrange(1, 2**spare)
        parts[at] = parts[at][:-1] + order[value]
        return ".".join(parts)

    def swapped(self) -> str:
        """Combine parts of two receipts."""
        pairs = zip(self.receipt.split("."), self.other_receipt.split("."), strict=True)
        return ".".join(self._draw.choice(pair) for pair in pairs)

    def claims(self) -> str:
        """Change the claims under the original signature."""
        head, _, tail = self.receipt.split(".")
        return f"{head}.{encode_base64url(self._changed())}.{tail}"

    def claims_by_own_key(self) -> str:
        """Change the claims and sign them with a stranger's key under the issuer's name."""
        head = self.receipt.split(".")[0]
        return self.own.raw(decode_base64url(head), self._changed())

    def header(self) -> str:
        """Change the header under the original signature or a stranger's."""
        result: dict[str, Any] = json.loads(decode_base64url(self.receipt.split(".")[0]))
        name = self._draw.choice(["alg", "kid", "typ", "crit", "b64", "jku", "x5u", "zip", "cty"])
        words = ("none", "EdDSA", "HS256", "Ed448", "ed25519", "ES256", self.own.id, "")
        remaining = (None, 1, ["b64"], False, {}, "https://evil.example/jwks.json")
        result[name] = self._draw.choice([*words, *remaining])
        return self._headed(json.dumps(result).encode())

    def unsigned(self) -> str:
        head = {"alg": self._draw.choice(["none", "None", "NONE", ""]), "kid": self.issuer.id}
        more = {"typ": signature.TYPE} if self._draw.random() < 0.5 else {}
        tail = self._draw.choice(
            ["", encode_base64url(b""), encode_base64url(bytes(64)), self.receipt.split(".")[2]]
        )
        header = encode_base64url(json.dumps(head | more).encode())
        return f"{header}.{encode_base64url(self._changed())}.{tail}"

    def by_public_key(self) -> str:
        """Sign with the public key as if it were a shared secret."""
        public = self.issuer.public
        jwk = json.dumps(self.issuer.key.as_dict(private=False)).encode()
        secret = self._draw.choice([public, encode_base64url(public).encode(), jwk, b""])
        name = self._draw.choice(["HS256", "HS512", keys.ALGORITHM])
        head = {"alg": name, "kid": self.issuer.id, "typ": signature.TYPE}
        content = (
            f"{encode_base64url(json.dumps(head).encode())}.{encode_base64url(self._changed())}"
        )
        digest = hashlib.sha512 if name == "HS512" else hashlib.sha256
        mac = hmac.digest(secret, content.encode(), digest)
        # as long as a signature, or unchanged
        created = mac.ljust(64, bytes(1)) if self._draw.random() < 0.5 else mac
        return f"{content}.{encode_base64url(created)}"

    def own_key_along(self) -> str:
        """Put a stranger's key, or an address of one, into the header."""
        jwk = self.own.key.as_dict(private=False)
        place = "https://evil.example/jwks.json"
        more = self._draw.choice([{"jwk": jwk}, {"jku": place}, {"x5u": place}, {"x5c": ["AA=="]}])
        kid = self._draw.choice([self.issuer.id, self.own.id])
        head = {"alg": keys.ALGORITHM, "kid": kid, "typ": signature.TYPE, **more}
        if self._draw.random() < 0.3:
            head = {name: value for name, value in head.items() if name != "kid"}
        return self.own.raw(json.dumps(head).encode(), self._changed())

    def twice(self) -> str:
        """Repeat a member, which readers interpret in two ways."""
        name = self._draw.choice(["alg", "kid", "typ"])
        output = decode_base64url(self.receipt.split(".")[0]).decode()
        more = json.dumps({name: self._draw.choice(["none", self.own.id, "HS256"])})[1:-1]
        doubled = self._draw.choice([f"{{{more},{output[1:]}", f"{output[:-1]},{more}}}"])
        return self._headed(doubled.encode())

    def signature(self) -> str:
        head, body, _ = self.receipt.split(".")
        created = self._draw.choice(
            [bytes(64), b"\x01" + bytes(63), self._draw.randbytes(64), self._draw.randbytes(63)]
        )
        return f"{head}.{body}.{encode_base64url(created)}"

    def higher(self) -> str:
        """Add multiples of the group order to the number in the signature."""
        head, body, tail = self.receipt.split(".")
        point, number = (
            decode_base64url(tail)[:32],
            int.from_bytes(decode_base64url(tail)[32:], "little"),
        )
        more = (number + self._draw.randint(1, 14) * _ORDER) % 2**256
        return f"{head}.{body}.{encode_base64url(point + more.to_bytes(32, 'little'))}"

    def wrapped(self) -> str:
        """Convert to another form, or put something around it."""
        head, body, tail = self.receipt.split(".")
        return self._draw.choice(
            [
                json.dumps({"protected": head, "payload": body, "signature": tail}),
                json.dumps({"receipt": self.receipt}),
                *(
                    f"{head}..{tail}",
                    f".{body}.{tail}",
                    f"{self.receipt}.",
                    f"{head}.{body}",
                    "",
                    ".",
                ),
                *(
                    f"{self.receipt}.{self.other_receipt}",
                    f" {self.receipt}",
                    f"{self.receipt}\n",
                    f"﻿{self.receipt}",
                ),
                self.receipt * 40,
            ]
        )

    def _headed(self, header: bytes) -> str:
        _, body, tail = self.receipt.split(".")
        if self._draw.random() < 0.5:
            return f"{encode_base64url(header)}.{body}.{tail}"
        return self.own.raw(header, decode_base64url(body))

    def _changed(self) -> bytes:
        """Return the claims with one of them changed."""
        result: dict[str, Any] = json.loads(decode_base64url(self.receipt.split(".")[1]))
        name = self._draw.choice(sorted(result))
        if isinstance(result[name], dict):
            inner = self._draw.choice(sorted(result[name]))
            result[name] = {**result[name], inner: f"{result[name][inner]}0"}
        else:
            result[name] = self._draw.choice([None, "", f"{result[name]}0", not result[name]])
        return json.dumps(result).encode()

    def _at(self, text: str) -> int:
        return self._draw.randrange(len(text))
