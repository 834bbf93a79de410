"""Links by which wallets transfer a payment's whole price to its merchant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import select

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    columns,
    insert,
    is_in,
    operation,
    param,
    to_row_params,
)
from florin_server.db.tables.tables import (
    deposit_address_table,
    payment_option_table,
    payment_table,
)
from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.money.payments.store import payments, watched_addresses
from florin_server.money.payments.store.deposit_addresses import DepositAddress
from florin_server.money.payments.store.offered_options import OfferedOption
from florin_server.rails.types import TRANSFER_METHOD

# prices that lapse give new links: so many of one payment
LINKS_MAX: Final = 32

_option = payment_option_table.c
_LOCK = Statement(
    select(payment_table.c.id).where(payment_table.c.id == param("payment_id")).with_for_update(),
    str,
)
_ADD_ADDRESS = Command(insert(deposit_address_table).on_conflict_do_nothing())
# the option of a link has no reference: it has no sender yet
_LINKS = Statement(
    select(*payment_table.c, *columns(payment_option_table, PaymentOption))
    .join_from(payment_option_table, payment_table, payment_table.c.id == _option.payment_id)
    .where(
        is_in(_option.payment_id, "payment_ids"),
        _option.chain_id == param("chain_id"),
        _option.method == TRANSFER_METHOD,
        _option.reference.is_(None),
    ),
    OfferedOption,
    payment=Payment,
    option=PaymentOption,
)


@operation
def add_link(row: DepositAddress, option: PaymentOption, now_us: int) -> Op[bool]:
    """Store the option of a link, and watch its address from now on.

    Return False, and store nothing, if the payment has too many links, or while a process of an
    older release is alive.
    """
    yield from _LOCK.all(payment_id=row.payment_id)
    links = yield from payments.list_options(row.payment_id, [option.payer])
    if option.id not in {link.id for link in links} and len(links) >= LINKS_MAX:
        return False
    if not (
        yield from watched_addresses.watch(
            row.chain_id, row.payment_id, row.address, row.until_s, now_us
        )
    ):
        return False
    yield from payments.put_options([option])
    yield _ADD_ADDRESS(**to_row_params(row))
    return True


@operation
def list_links(chain_id: str, payment_ids: Collection[str]) -> Op[list[OfferedOption]]:
    """Return the options of the links of payments."""
    return (yield from _LINKS.all(chain_id=chain_id, payment_ids=payment_ids))
