"""Payments' own addresses, to which any wallet or exchange can send."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from sqlalchemy import func, select

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    columns,
    insert,
    operation,
    param,
    to_row_params,
)
from florin_server.db.tables.tables import (
    deposit_address_table,
    payment_option_table,
    payment_table,
    process_table,
)
from florin_server.domain.payments.payment import Payment, PaymentOption, PaymentStatus
from florin_server.money.payments.store import payments

# the schema from which on processes watch these addresses
_WATCHING_SINCE: Final = "v0033"


@dataclass(frozen=True, slots=True)
class DepositAddress:
    """A row of the table."""

    chain_id: str
    address: str
    payment_id: str
    option_id: str
    merchant_id: str
    asset: str
    refund_account: str | None
    from_block: int
    opened_at_us: int
    until_s: int


@dataclass(frozen=True, slots=True)
class AddressQuota:
    """The most addresses: of one payment, and watched on its chain by all and by one merchant."""

    per_payment: int
    per_chain: int
    per_merchant: int


class AddressRefusal(StrEnum):
    """The reason why an address is not given out."""

    PAYMENT = "too many addresses of the payment"
    MERCHANT = "too many open addresses of the merchant"
    CHAIN = "too many open addresses of the chain"
    UPGRADE = "an upgrade is not finished"


class OpenedAddress(NamedTuple):
    """An address with its option."""

    address: DepositAddress
    option: PaymentOption


class WatchedDepositAddress(NamedTuple):
    """An address with what its payment waits for: minor units of an asset (CAIP-19)."""

    address: str
    payment_id: str
    option_id: str
    asset: str
    value: int
    from_block: int
    opened_at_us: int
    until_s: int
    status: PaymentStatus
    expires_at: int


class AddressPayment(NamedTuple):
    """A payment with the option of one of its addresses."""

    payment: Payment
    option: PaymentOption


_row = deposit_address_table.c
_ADD = Command(insert(deposit_address_table).on_conflict_do_nothing())
_LOCK = Statement(
    select(payment_table.c.id).where(payment_table.c.id == param("payment_id")).with_for_update(),
    str,
)
_OLDER = Statement(
    select(process_table.c.id).where(process_table.c.revision < _WATCHING_SINCE).limit(1), str
)
_OPTION_IDS = Statement(select(_row.option_id).where(_row.payment_id == param("payment_id")), str)
_WATCHED_ON_CHAIN = Statement(
    select(func.count()).where(_row.chain_id == param("chain_id"), _row.until_s > param("now_s")),
    int,
)
_WATCHED_OF_MERCHANT = Statement(
    select(func.count()).where(
        _row.chain_id == param("chain_id"),
        _row.until_s > param("now_s"),
        _row.merchant_id == param("merchant_id"),
    ),
    int,
)
_join_option = (payment_option_table.c.payment_id == _row.payment_id) & (
    payment_option_table.c.id == _row.option_id
)
_LIST = Statement(
    select(
        *columns(deposit_address_table, DepositAddress),
        *columns(payment_option_table, PaymentOption),
    )
    .join_from(deposit_address_table, payment_option_table, _join_option)
    .where(_row.payment_id == param("payment_id"))
    .order_by(_row.opened_at_us, _row.address),
    OpenedAddress,
    address=DepositAddress,
    option=PaymentOption,
)
_WATCHED = Statement(
    select(
        _row.address,
        _row.payment_id,
        _row.option_id,
        _row.asset,
        payment_option_table.c.value,
        _row.from_block,
        _row.opened_at_us,
        _row.until_s,
        payment_table.c.status,
        payment_table.c.expires_at,
    )
    .join_from(deposit_address_table, payment_option_table, _join_option)
    .join(payment_table, payment_table.c.id == _row.payment_id)
    .where(
        _row.chain_id == param("chain_id"),
        _row.until_s > param("now_s"),
        _row.opened_at_us >= param("since_us"),
    )
    .order_by(_row.until_s, _row.address)
    .limit(param("most")),
    WatchedDepositAddress,
)
_FIND_PAYMENT = Statement(
    select(*payment_table.c, *columns(payment_option_table, PaymentOption))
    .join_from(deposit_address_table, payment_option_table, _join_option)
    .join(payment_table, payment_table.c.id == _row.payment_id)
    .where(_row.chain_id == param("chain_id"), _row.address == param("address")),
    AddressPayment,
    payment=Payment,
    option=PaymentOption,
)
_REFUND_ACCOUNT = Statement(
    select(_row.refund_account).where(
        _row.chain_id == param("chain_id"), _row.address == param("address")
    ),
    str,
)


@operation
def open_address(
    address: DepositAddress, option: PaymentOption, quota: AddressQuota, now_us: int
) -> Op[AddressRefusal | None]:
    """Store an address with its option, and watch it; return why not, if there is no room.

    Nothing is stored while a process of an older release is alive: it would settle on the chain
    without looking for deposits.
    """
    if (yield from _OLDER.any()):
        return AddressRefusal.UPGRADE
    yield from _LOCK.all(payment_id=address.payment_id)
    option_ids = yield from _OPTION_IDS.all(payment_id=address.payment_id)
    if option.id in option_ids:
        return None
    if len(option_ids) >= quota.per_payment:
        return AddressRefusal.PAYMENT
    watched = {"chain_id": address.chain_id, "now_s": now_us // 1_000_000}
    if (yield from _WATCHED_ON_CHAIN.single(**watched)) >= quota.per_chain:
        return AddressRefusal.CHAIN
    of_merchant = yield from _WATCHED_OF_MERCHANT.single(**watched, merchant_id=address.merchant_id)
    if of_merchant >= quota.per_merchant:
        return AddressRefusal.MERCHANT
    yield from payments.put_options([option])
    yield _ADD(**to_row_params(address))
    return None


@operation
def list_opened(payment_id: str) -> Op[list[OpenedAddress]]:
    """Return the addresses of a payment, the oldest first."""
    return (yield from _LIST.all(payment_id=payment_id))


@operation
def list_watched(
    chain_id: str, since_us: int, now_s: int, most: int
) -> Op[list[WatchedDepositAddress]]:
    """Return the addresses of a chain that every block is read for, opened since a time."""
    return (yield from _WATCHED.all(chain_id=chain_id, since_us=since_us, now_s=now_s, most=most))


@operation
def find_payment(chain_id: str, address: str) -> Op[AddressPayment | None]:
    """Return the payment of an address, with the option that it pays."""
    return (yield from _FIND_PAYMENT.first(chain_id=chain_id, address=address))


@operation
def find_refund_account(chain_id: str, address: str) -> Op[str | None]:
    """Return the account that the buyer named for money that comes back; None if none."""
    return (yield from _REFUND_ACCOUNT.first(chain_id=chain_id, address=address))
