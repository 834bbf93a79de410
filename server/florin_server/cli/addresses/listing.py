"""`florin addresses list`: list the addresses of a payment, and what arrived there."""

from __future__ import annotations

from collections.abc import Iterator

from florin.v1 import address_pb2, merchant_pb2
from florin.v1.money_pb2 import Amount

from florin_server.cli.addresses.formatting import format_units
from florin_server.cli.console import console, print_hint, print_json, print_table
from florin_server.cli.payments.amounts import format_amount
from florin_server.cli.server import ConnectionOptions, connect_as_merchant

_ADDRESS_COLUMNS = ("Price", "Received", "Missing", "Over", "Address", "Asset")
_DEPOSIT_COLUMNS = ("Amount", "State", "Sender", "Transaction")


def list_addresses(connection: ConnectionOptions, payment_id: str) -> None:
    """Print the addresses and the deposits of a payment."""
    with connect_as_merchant(connection) as client:
        payment = client.merchant.get_payment(payment_id)
    document = {
        "paymentId": payment.payment_id,
        "addresses": list(payment.addresses),
        "deposits": list(payment.deposits),
    }
    if print_json(document):
        return
    if not payment.addresses and not payment.deposits:
        print_hint("The payment has no address yet: a buyer opens it, or `florin addresses open`.")
        return
    if payment.addresses:
        print_table(_ADDRESS_COLUMNS, map(_to_address_row, payment.addresses))
    if payment.deposits:
        if payment.addresses:
            console.print()
        # transfers on Solana come without an address of the payment
        print_table(_DEPOSIT_COLUMNS, _list_deposit_rows(payment))


def _to_address_row(pay_address: address_pb2.PayAddress) -> tuple[str, ...]:
    price = pay_address.amount
    units = (pay_address.received, pay_address.missing, pay_address.over)
    amounts = (format_units(price, value) for value in units)
    return (format_amount(price), *amounts, pay_address.address, pay_address.asset)


def _list_deposit_rows(payment: merchant_pb2.PaymentDetail) -> Iterator[tuple[str, ...]]:
    prices = {pay_address.asset: pay_address.amount for pay_address in payment.addresses}
    for deposit in payment.deposits:
        yield (
            _format_deposit(deposit, prices.get(deposit.asset)),
            _format_state(deposit),
            deposit.sender or "unknown",
            deposit.tx_id or "unknown",
        )


def _format_deposit(deposit: address_pb2.PaymentDeposit, price: Amount | None) -> str:
    # another asset than the payment's has no price here
    if price is None:
        return f"{deposit.amount} units of {deposit.asset}"
    return format_units(price, deposit.amount)


def _format_state(deposit: address_pb2.PaymentDeposit) -> str:
    if deposit.HasField("returned_by"):
        return f"returned by {deposit.returned_by}"
    return "final" if deposit.is_final else "not final"
