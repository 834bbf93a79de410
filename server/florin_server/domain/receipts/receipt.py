"""What a receipt says: who paid whom how much for what, and where on its chain that stands.

Amounts are digits in minor units, times Unix seconds, accounts CAIP-10 and assets CAIP-19. What is
not known is left out.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

_Text = Annotated[str, Field(max_length=1024)]
# what an option's id is made of has no line ends: its parts stand on lines
_Name = Annotated[str, Field(pattern=r"^[!-~]{1,256}$")]
_Step = Annotated[str, Field(pattern=r"^[ -~]{1,256}$")]
_Digits = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,77})$")]
# of JSON numbers that every reader keeps
_Number = Annotated[int, Field(ge=0, le=2**53 - 1)]
VERSION: Final = 1
# what the merchant alone knows: public copies leave it out
PRIVATE_MEMBERS: Final = frozenset({"reference"})


class _Part(BaseModel):
    """Nothing is converted, and nothing else may stand beside what is known."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Merchant(_Part):
    """Who was paid, as it was called when the receipt was signed."""

    id: _Text
    name: _Text


class Asked(_Part):
    """What the merchant asked for, in a unit: `iso4217/USD`, or `caip19/` and an asset."""

    unit: _Text
    value: _Digits


class Money(_Part):
    """What was paid of an asset; `fee` is the part of `value` that the operator of Florin kept."""

    asset: _Name
    symbol: _Text
    decimals: Annotated[int, Field(ge=0, le=255)]
    value: _Digits
    fee: _Digits


class Way(_Part):
    """The option that was paid.

    `reference` is what the chain tells of it: keccak256 over the 16 bytes of `salt` (hex) and the
    text of `id`, in the chain's own form. `id` is made of all that was offered, the payment's id
    included; `steps` are the parts of it that stand nowhere else in the receipt, left out if they
    are not known. `contract` is the settlement contract, where there is one.
    """

    id: _Name
    method: _Name
    reference: _Name
    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    contract: _Name | None = None
    steps: Annotated[list[_Step], Field(max_length=16)] | None = None


class Place(_Part):
    """The transaction, its block (its slot on Solana), and the position of the payment in it.

    `position` is the number of the log in its block, or of the instruction in its transaction.
    """

    chain: _Name
    hash: _Name
    block: _Number
    block_hash: _Name | None = None
    position: _Number | None = None


class Refunded(_Part):
    """Money that goes back, as it stood when the receipt was signed."""

    id: _Text
    status: _Text
    asset: _Text
    value: _Digits
    account: _Text | None = None
    transaction: _Text | None = None
    completed_at: _Number | None = None


class Receipt(_Part):
    """A statement of an installation, `iss`, about a payment, `sub`, at a time, `iat`.

    `recipient` got what was paid less the fee: with `settled` it is the merchant's own account,
    else the operator holds the money for it. `fee_to` got the fee. `refund` is the newest refund;
    `refunds` are all of them, the oldest first, where there are several.
    """

    version: Literal[1] = VERSION
    iss: _Name
    iat: _Number
    sub: _Name
    live: bool
    merchant: Merchant
    reference: _Text | None = None
    asked: Asked
    paid: Money
    payer: _Name
    recipient: _Name
    fee_to: _Name | None = None
    settled: bool
    option: Way
    transaction: Place
    succeeded_at: _Number
    refund: Refunded | None = None
    refunds: list[Refunded] | None = None

    @property
    def all_refunds(self) -> list[Refunded]:
        """All refunds, the oldest first."""
        return self.refunds or ([] if self.refund is None else [self.refund])

    def to_public(self) -> Receipt:
        """Return the copy for public routes, without the members that are the merchant's."""
        return self.model_copy(update=dict.fromkeys(PRIVATE_MEMBERS))

    def encoded(self) -> bytes:
        """The JSON text that is signed."""
        return self.model_dump_json(exclude_none=True).encode()
