"""The names of an option: its id, and the reference that it is known by on its chain."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from uuid import UUID

from eth_hash.auto import keccak

SALT_BYTES = 16


def derive_option_id(parts: Sequence[str]) -> str:
    """Return the UUID text for the payment, the payer, the price, the route and the steps.

    It depends on all of them because a stored option never changes: a different route of the money,
    or an allowance that was used up meanwhile, makes a different option.
    """
    digest = hashlib.sha256("\n".join(parts).encode()).digest()
    return str(UUID(bytes=digest[:16], version=5))


def build_option_id_parts(  # noqa: PLR0917  (one of each, none alike)
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
    """Return the parts of an option's id: accounts as CAIP-10, the asset as CAIP-19.

    `contracts` and `steps` are specific to the chain; a price that lapses is the last of the steps.
    """
    money = (payment_id, payer, asset, str(value))
    route = (dest, fee_to or "", str(fee), str(settled))
    return (*money, *contracts, *route, *steps)


def derive_reference(salt: bytes, option_id: str) -> bytes:
    """Return the 32 bytes that name a payment's option on chain without revealing which it is.

    `salt` is the payment's own 16 secret bytes: without it, a reference does not lead to its
    payment, nor a payment to its reference. ValueError if it has another length.
    """
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes, not {len(salt)}")
    # the fixed length of the salt means that no two pairs give the same bytes
    return bytes(keccak(salt + option_id.encode()))
