"""Mutate what wallets return on EVM chains, in every known way.

A mutant is a list of outputs as JSON texts. Most are wrong; some are another encoding of the same
value, and the campaign knows which.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.domain.chains.evm.signatures import CURVE_ORDER
from florin_server.domain.payments.payment import Payment, PaymentOption

from tests.support.contract_accounts import ContractAccount, make_contract_account, wrap_signature

KINDS = ("key", "contract", "delegated", "unborn")
HASH = json.dumps("0x" + "11" * 32)


@dataclass(frozen=True)
class Payer:
    """An account and the key that signs for it. `smart` is how it is or was created.

    `side_door` is a factory that is not allowed but would also create it. A poor payer has no
    money.
    """

    kind: str  # one of KINDS
    owner: LocalAccount
    address: str
    smart: ContractAccount | None = None
    side_door: str = DEVNET.settler
    poor: bool = False

    def wrap(self, inner: bytes) -> bytes:
        """Return a signature as the account's wallet does."""
        if self.kind != "unborn" or self.smart is None:
            return inner
        return bytes.fromhex(wrap_signature(self.smart.factory, self.smart.data, inner)[2:])


@dataclass(frozen=True)
class Case:
    """One option and its correct answer."""

    payer: Payer
    payment: Payment
    option: PaymentOption
    document: dict[str, Any]
    inner: bytes = field(repr=False)

    @property
    def signature(self) -> bytes:
        return self.payer.wrap(self.inner)

    def encode_outputs(self, data: bytes) -> list[str]:
        return self.build_outputs(json.dumps("0x" + data.hex()))

    def build_outputs(self, last: str) -> list[str]:
        """Return outputs that end with a text."""
        return [*(HASH for _ in self.option.actions[:-1]), last]


def sign(owner: LocalAccount, document: dict[str, Any]) -> bytes:
    signable = encode_typed_data(full_message=document)
    return bytes(owner.sign_message(signable).signature)


def list_equal_signatures(inner: bytes) -> list[bytes]:
    """Return 65-byte encodings of the same signature: s in either half, v from 27 on."""
    r, s, v = inner[:32], int.from_bytes(inner[32:64], "big"), inner[64]
    return [inner, r + (CURVE_ORDER - s).to_bytes(32, "big") + bytes([55 - v])]


def list_encodings(inner: bytes) -> list[bytes]:
    """Return all valid encodings of a key's signature."""
    counted = list_equal_signatures(inner)
    parities = [item[:64] + bytes([item[64] - 27]) for item in counted]
    s = int.from_bytes(inner[32:64], "big") | (inner[64] - 27) << 255
    return [*counted, *parities, inner[:32] + s.to_bytes(32, "big")]


# ---- mutations of an answer


def flip_bytes(case: Case, cases: Sequence[Case], rng: random.Random) -> list[str]:
    return case.encode_outputs(corrupt(case.signature, rng))


def flip_inner_bytes(case: Case, cases: Sequence[Case], rng: random.Random) -> list[str]:
    return case.encode_outputs(case.payer.wrap(corrupt(case.inner, rng)))


def corrupt(data: bytes, rng: random.Random) -> bytes:
    raw = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(raw)) if raw else 0
        match rng.randrange(8):
            case 0:
                raw[at : at + 1] = bytes([(raw[at : at + 1] or b"\0")[0] ^ 1 << rng.randrange(8)])
            case 1:
                raw[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                del raw[at : at + rng.choice((1, 1, 32))]
            case 3:
                raw[at:at] = bytes(rng.choice((1, 1, 31, 32, 5000)))
            case 4:
                raw += bytes(rng.randrange(1, 40))
            case 5:
                raw[at:at] = raw[at : at + rng.randrange(1, 40)]
            case 6 if len(raw) > 64:
                raw[64] = rng.choice((0, 1, 2, 26, 27, 28, 29, 35, 36, 62647, 255)) % 256
            case _:
                raw[:32], raw[32:64] = raw[32:64], raw[:32]
    return bytes(raw)


def reencode(case: Case, cases: Sequence[Case], rng: random.Random) -> list[str]:
    """Encode the same signature in any of its forms."""
    inner = rng.choice(
        (
            *list_encodings(case.inner),
            case.inner[:32]
            + (int.from_bytes(case.inner[32:64], "big") + CURVE_ORDER).to_bytes(33, "big")[-32:]
            + case.inner[64:],
            case.inner[:64] + bytes([case.inner[64] + 8]),
            case.inner[64:] + case.inner[:64],
            case.inner[32:64] + case.inner[:32] + case.inner[64:],
            case.inner[:64].rjust(65, b"\0"),
            case.inner[:64] + bytes(31) + case.inner[64:],
        )
    )
    data = rng.choice((inner, case.payer.wrap(inner)))
    return case.build_outputs(json.dumps("0x" + change_case(data.hex(), rng)))


def change_case(text: str, rng: random.Random) -> str:
    return rng.choice((text, text.upper(), text.title(), text.swapcase()))


def break_hex(case: Case, cases: Sequence[Case], rng: random.Random) -> list[str]:
    """Encode the correct bytes in texts that are not the agreed hex."""
    text = case.signature.hex()
    at = rng.randrange(len(text))
    wide = "".join(chr(ord(digit) + 0xFEE0) for digit in text)
    spelled = rng.choice(
        (
            "0X" + text,
            text,
            "0x0x" + text,
            "0x" + text + " ",
            " 0x" + text,
            "0x" + text + "\n",
            "0x" + text + "\0",
            "0x" + text[:-1],
            "0x0" + text,
            "0x" + wide,
            "０x" + text,
            "0x" + text[:at] + "\u0661" + text[at + 1 :],
            "0x" + text[:at] + "\ud800" + text[at + 1 :],
            "0x" + text[:at] + "_" + text[at:],
            "0x" + text[:at] + "g" + text[at + 1 :],
            "\ufeff0x" + text,
            str(int(text, 16)),
            "",
            "0x",
        )
    )
    # half of a surrogate pair needs an escape, in any JSON
    escaped = "\ud800" in spelled or rng.random() < 0.5
    return case.build_outputs(json.dumps(spelled, ensure_ascii=escaped))


def swap_answer(case: Case, cases: Sequence[Case], rng: random.Random) -> list[str]:
    """Answer another option, or add another account's wrapper."""
    other = rng.choice(cases)
    inner = rng.choice((other.signature, other.inner, other.payer.wrap(case.inner)))
    return case.encode_outputs(rng.choice((inner, case.payer.wrap(inner))))


def sign_other_values(case: Case, cases: Sequence[Case], rng: random.Random) -> list[str]:
    """Sign something else with the payer's key."""
    document = json.loads(json.dumps(case.document))
    part = rng.choice((document["message"], document["message"], document["domain"]))
    if isinstance(part.get("permitted"), dict) and rng.random() < 0.5:
        part = part["permitted"]
    name = rng.choice([name for name, value in part.items() if isinstance(value, str)])
    part[name] = replace_value(name, part[name], rng.choice(cases), rng)
    owner = case.payer.owner
    return case.encode_outputs(case.payer.wrap(sign(owner, document)))


def replace_value(name: str, value: str, other: Case, rng: random.Random) -> str:
    """Return another value of the same type."""
    if name in {"name", "version"}:
        return rng.choice(("", "1", value + " ", value.lower() + "x"))
    if len(value) == 42:
        return rng.choice((DEVNET.opener, DEVNET.permit2, other.payer.address, "0x" + "00" * 20))
    number = int(value, 16)
    changed = rng.choice((number + 1, max(0, number - 1), number ^ 1 << rng.randrange(32), 0))
    if changed == number:
        changed = number + 2
    return f"0x{changed:064x}" if len(value) == 66 else hex(changed)


def rewrap(case: Case, cases: Sequence[Case], rng: random.Random) -> list[str]:
    """Wrap signatures (ERC-6492) in all ways, including correct ones."""
    own = case.payer.smart or make_contract_account(case.payer.owner)
    other = rng.choice(cases).payer.smart or make_contract_account(case.payer.owner, salt=9)
    factory, data, inner = own.factory, own.data, rng.choice(list_equal_signatures(case.inner))
    # usually one part is wrong
    wrong = {rng.randrange(4) for _ in range(rng.choice((1, 1, 2, 3)))}
    if 0 in wrong:
        null_address, door = "0x" + "00" * 20, case.payer.side_door
        factory = rng.choice((other.factory, door, door, DEVNET.settler, own.address, null_address))
    if 1 in wrong:
        longer = own.data + bytes(rng.randrange(64))
        filled = b"\xff" * rng.choice((3_072, 3_073))
        data = rng.choice((other.data, b"", longer, own.data[:-1], corrupt(data, rng), filled))
    if 2 in wrong:
        inner = rng.choice((corrupt(case.inner, rng), b"", case.signature))
    total = bytes.fromhex(wrap_signature(factory, data, inner)[2:])
    if 3 in wrong:
        total = break_wrapper(total, rng)
    return case.encode_outputs(total)


def break_wrapper(total: bytes, rng: random.Random) -> bytes:
    """Return a wrapper with inconsistent words."""
    body, magic = total[:-32], total[-32:]
    match rng.randrange(5):
        case 0:
            at = 32 * rng.randrange(len(total) // 32)
            word = rng.choice((2**256 - 1, 2**255, 2**64, 2**32, len(total), 96, 0, 31, 1))
            return total[:at] + word.to_bytes(32, "big") + total[at + 32 :]
        case 1:
            return corrupt(body, rng) + magic
        case 2:
            return body + bytes(rng.choice((1, 31, 32, 64))) + magic
        case 3:
            return body[:-1] + b"\x01" + magic
        case _:
            return body[: rng.randrange(len(body))] + magic


def reshape_json(case: Case, cases: Sequence[Case], rng: random.Random) -> list[str]:
    """Put the correct text into JSON of another shape."""
    text = "0x" + case.signature.hex()
    deep = rng.choice((1, 100, 2000))
    last = rng.choice(
        (
            json.dumps([text]),
            json.dumps({"signature": text}),
            json.dumps({"r": text[:66], "s": text[66:130], "v": 27}),
            json.dumps(int(text, 16)),
            "null",
            "true",
            "{}",
            "[]",
            "",
            text,
            f"'{text}'",
            f'"{text}',
            f'"{text}" ',
            f'"{text}","{text}"',
            "[" * deep + f'"{text}"' + "]" * deep,
            "[" * deep,
            '"\\ud800"',
            '"\x00"',
            "NaN",
            "1e999999",
            json.dumps(rng.choice(cases).encode_outputs(case.signature)),
        )
    )
    good = json.dumps(text)
    return rng.choice(
        (
            case.build_outputs(last),
            case.build_outputs(last),
            [],
            [good, good],
            [HASH, good],
            [good, HASH],
            [last],
            [HASH] * 51,
        )
    )


Mutation = Callable[[Case, Sequence[Case], random.Random], list[str]]

MUTATIONS: Sequence[Mutation] = (
    flip_bytes,
    flip_inner_bytes,
    reencode,
    break_hex,
    swap_answer,
    sign_other_values,
    rewrap,
    reshape_json,
)
