"""The content of a receipt: payer, payee, amount, purpose, and its place on the chain.

Amounts are digits in minor units, times Unix seconds, accounts CAIP-10 and assets CAIP-19. Unknown
values are left out.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

_Text = Annotated[str, Field(max_length=1024)]
# the parts of an option's id contain no line ends, because they are joined by lines
_Name = Annotated[str, Field(pattern=r"^[!-~]{1,256}$")]
_Step = Annotated[str, Field(pattern=r"^[ -~]{1,256}$")]
_Digits = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,77})$")]
# the range of JSON numbers in every reader
_Number = Annotated[int, Field(ge=0, le=2**53 - 1)]
VERSION: Final = 1
# known to the merchant alone: public copies leave it out
PRIVATE_MEMBERS: Final = frozenset({"reference"})


class _ReceiptModel(BaseModel):
    """Nothing is converted, and nothing else may stand beside what is known."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class ReceiptMerchant(_ReceiptModel):
    """The merchant that was paid, under its name at the time of the signature."""

    id: _Text
    name: _Text


class RequestedAmount(_ReceiptModel):
    """The requested amount in its unit: `iso4217/USD`, or `caip19/` and an asset."""

    unit: _Text
    value: _Digits


class ReceiptAmount(_ReceiptModel):
    """The paid amount of an asset; `fee` is the part of `value` for the operator of Florin."""

    asset: _Name
    symbol: _Text
    decimals: Annotated[int, Field(ge=0, le=255)]
    value: _Digits
    fee: _Digits


class ReceiptOption(_ReceiptModel):
    """The option that was paid.

    `reference` is the value on the chain: keccak256 over the 16 bytes of `salt` (hex) and the text
    of `id`, in the chain's own form. `id` depends on everything that was offered, including the
    payment's id; `steps` are the parts of it that are nowhere else in the receipt, left out if
    unknown. `contract` is the settlement contract, if there is one.
    """

    id: _Name
    method: _Name
    reference: _Name
    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    contract: _Name | None = None
    steps: Annotated[list[_Step], Field(max_length=16)] | None = None


class ReceiptTransaction(_ReceiptModel):
    """The transaction, its block (its slot on Solana), and the position of the payment in it.

    `position` is the number of the log in its block, or of the instruction in its transaction.
    """

    chain: _Name
    hash: _Name
    block: _Number
    block_hash: _Name | None = None
    position: _Number | None = None


class ReceiptRefund(_ReceiptModel):
    """Money that goes back, in its state at the time of the signature."""

    id: _Text
    status: _Text
    asset: _Text
    value: _Digits
    account: _Text | None = None
    transaction: _Text | None = None
    completed_at: _Number | None = None


class Receipt(_ReceiptModel):
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
    merchant: ReceiptMerchant
    reference: _Text | None = None
    asked: RequestedAmount
    paid: ReceiptAmount
    payer: _Name
    recipient: _Name
    fee_to: _Name | None = None
    settled: bool
    option: ReceiptOption
    transaction: ReceiptTransaction
    succeeded_at: _Number
    refund: ReceiptRefund | None = None
    refunds: list[ReceiptRefund] | None = None

    @property
    def all_refunds(self) -> list[ReceiptRefund]:
        """Return all refunds, the oldest first."""
        return self.refunds or ([] if self.refund is None else [self.refund])

    def to_public(self) -> Receipt:
        """Return the copy for public routes, without the members that are the merchant's."""
        return self.model_copy(update=dict.fromkeys(PRIVATE_MEMBERS))

    def encode(self) -> bytes:
        """Return the JSON text that is signed."""
        return self.model_dump_json(exclude_none=True).encode()
