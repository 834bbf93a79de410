"""The names of an option: its id, and the reference that it is known by on its chain."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from uuid import UUID

from eth_hash.auto import keccak

SALT_BYTES = 16


def option_id(parts: Sequence[str]) -> str:
    """UUID text that stands for the payment, the payer, the price, the route and the steps.

    All of that is in it because a stored option never changes: money that would go elsewhere, or
    an allowance that was used up meanwhile, is another option.
    """
    digest = hashlib.sha256("\n".join(parts).encode()).digest()
    return str(UUID(bytes=digest[:16], version=5))


def parts(  # noqa: PLR0917  (one of each, none alike)
    payment_id: str,
    payer: str,
    asset: str,
    value: int,
    contracts: Sequence[str],
    dest: str,
    fee_to: str | None,
    fee: int,
    *,
    settled: bool,
    steps: Sequence[str],
) -> tuple[str, ...]:
    """What an option's id is made of: accounts as CAIP-10, the asset as CAIP-19.

    `contracts` and `steps` are the chain's own; a price that lapses is the last of the steps.
    """
    money = (payment_id, payer, asset, str(value))
    route = (dest, fee_to or "", str(fee), str(settled))
    return (*money, *contracts, *route, *steps)


def reference(salt: bytes, option_id: str) -> bytes:
    """The 32 bytes that name a payment's option on chain without telling which it is.

    `salt` is the payment's own 16 secret bytes: who does not know it finds no payment by its
    reference, and no reference by its payment. ValueError if it has another length.
    """
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes, not {len(salt)}")
    # the salt's length is fixed, so that no two pairs give the same bytes
    return bytes(keccak(salt + option_id.encode()))
