"""The tables, the same on SQLite and PostgreSQL.

Ids are TEXT, times ending in `_us` are microseconds and others seconds since the Unix epoch.
Columns stand in the order of the dataclasses in `domain`, so that a row is its arguments.
"""

from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, Index, Table
from sqlmodel import SQLModel

from florin_server.domain.payments.payment import CancelledReason, FailureCode, RefundStatus, Status
from florin_server.domain.settlement.chain_txs import PayerKind, TxState
from florin_server.store.engine.columns import by_size
from florin_server.store.tables.accounts import (
    ApiKeyRow,
    BankAccountRow,
    DestinationRow,
    MerchantRow,
    PartnerRow,
    WalletAppRow,
)
from florin_server.store.tables.capture import CollectedRow
from florin_server.store.tables.fields import BY_KEY as _BY_KEY
from florin_server.store.tables.fields import Base as _Base
from florin_server.store.tables.fields import amount as _amount
from florin_server.store.tables.fields import bytes_ as _bytes
from florin_server.store.tables.fields import json_ as _json
from florin_server.store.tables.fields import number as _number
from florin_server.store.tables.fields import one_of as _one_of
from florin_server.store.tables.fields import only as _only
from florin_server.store.tables.fields import partial as _partial
from florin_server.store.tables.fields import text_ as _text
from florin_server.store.tables.held_money import HeldMoneyRow
from florin_server.store.tables.options import OptionCountRow
from florin_server.store.tables.payouts import InstallationRow, NonceAccountRow, PayoutRow
from florin_server.store.tables.settlement import (
    AccountToOpenRow,
    ChainTxBumpRow,
    FailedGasRow,
    OpenedAccountRow,
    WatchedRow,
)

# all tables are in it once this module is there
METADATA = _Base.metadata

# predicates of partial indexes; a query uses the index only if it repeats the very same words
UNCONFIRMED = "status = 'requires_action'"
UNSETTLED = "state <> 'done'"
OPEN = "state IN ('signed', 'sent')"
LAPSES = "expires_at_us IS NOT NULL"
PAYS = "payer IS NOT NULL"
REFERENCED = "reference IS NOT NULL"
UNPAID = "status IN ('pending', 'processing')"


class ConfirmState(StrEnum):
    """Where the settlement of a confirmed payment stands."""

    WAITING = "waiting"
    SUBMITTED = "submitted"  # in a transaction of ours, or left to the buyer's own
    HELD = "held"  # paid by a blocked payer: the operator's verdict ends it, and nothing else
    DONE = "done"


class PaymentRow(_Base, table=True):
    """A payment as it stands; `version` counts its events."""

    __tablename__ = "payment"
    __table_args__ = (
        _only("status", Status),
        _only("failure_code", FailureCode),
        _only("cancelled_reason", CancelledReason),
        _partial("ix_payment_expiry", UNCONFIRMED, "expires_at"),
        # lists: ids are in the order of creation
        Index("ix_payment_merchant", "merchant_id", "id"),
        Index("ix_payment_partner", "partner_id", "live", "id"),
        # how many pay: equal ones are neighbours
        _partial("ix_payment_merchant_payer", PAYS, "merchant_id", "payer"),
        _partial("ix_payment_partner_payer", PAYS, "partner_id", "live", "payer"),
        _BY_KEY,
    )

    id: str = _text(key=True)
    partner_id: str = _text()
    merchant_id: str = _text()
    live: bool
    status: Status = _one_of(Status)
    version: int = _number()
    unit: str = _text()
    value: int = _amount()
    reference_id: str = _text()
    success_url: str | None = _text()
    error_url: str | None = _text()
    salt: bytes = _bytes()
    created_at_us: int = _number()
    updated_at_us: int = _number()
    expires_at: int = _number()
    option_id: str | None = _text()
    payer: str | None = _text()
    provider_name: str | None = _text()
    provider_icon: str | None = _text()
    tx_id: str | None = _text()
    option_unit: str | None = _text()
    option_value: int | None = _amount()
    settled_value: int | None = _amount()
    failure_code: FailureCode | None = _one_of(FailureCode)
    failure_detail: str | None = _text()
    cancelled_reason: CancelledReason | None = _one_of(CancelledReason)


class PaymentEventRow(_Base, table=True):
    """One change of a payment, written with it and never again."""

    __tablename__ = "payment_event"
    __table_args__ = (_only("status", Status), _BY_KEY)

    payment_id: str = _text(key=True)
    version: int = _number(key=True)
    status: Status = _one_of(Status)
    at_us: int = _number()
    cause: str = _text()
    detail: dict[str, Any] | None = _json()


class OptionRow(_Base, table=True):
    """One way to pay a payment; never changes."""

    __tablename__ = "payment_option"
    __table_args__ = (
        _partial("ix_payment_option_reference", REFERENCED, "reference"),
        Index("ix_payment_option_payer", "payment_id", "payer"),
        _BY_KEY,
    )

    payment_id: str = _text(key=True)
    id: str = _text(key=True)
    account: str = _text()
    payer: str = _text()
    chain_id: str = _text()
    asset: str = _text()
    value: int = _amount()
    eta_s: int = _number()
    expires_at: int | None = _number()
    method: str = _text()
    actions: list[Any] = _json()
    terms: dict[str, Any] = _json()
    created_at_us: int = _number()
    fee: int = _amount()
    fee_fixed: int = _amount()
    fee_basis_points: int = _number()
    reference: str | None = _text()
    head: int | None = _number()


class IssuedRow(_Base, table=True):
    """What an option's build was resolved to; never changes."""

    __tablename__ = "issued"
    __table_args__ = (_BY_KEY,)

    payment_id: str = _text(key=True)
    option_id: str = _text(key=True)
    n: int = _number(key=True)
    actions: list[Any] = _json()
    terms: dict[str, Any] = _json()
    head: int = _number()
    issued_at_us: int = _number()
    expires_at: int | None = _number()


class ConfirmRow(_Base, table=True):
    """The content bound to a payment; chain and block are missing if it was refused.

    `failures` and `reverted` count final transactions that carried it: those that did not pay it,
    and those of several payments that came to nothing as a whole.
    """

    __tablename__ = "confirm"
    __table_args__ = (
        _only("state", ConfirmState),
        _partial("ix_confirm_unsettled", UNSETTLED, "chain_id", "state", "at_us"),
        _BY_KEY,
    )

    payment_id: str = _text(key=True)
    option_id: str = _text()
    outputs: list[str] = _json()
    digest: bytes = _bytes()
    at_us: int = _number()
    chain_id: str | None = _text()
    from_block: int | None = _number()
    state: ConfirmState = _one_of(ConfirmState)
    retry_at_us: int = _number()
    app: str = _text(default="")
    failures: int = _number(default="0")
    reverted: int = _number(default="0")


class RefundRow(_Base, table=True):
    """Money that goes back; at most once for each payment."""

    __tablename__ = "refund"
    __table_args__ = (
        _only("status", RefundStatus),
        Index("uq_refund_payment_id", "payment_id", unique=True),
        _partial("ix_refund_open", UNPAID, "created_at_us"),
    )

    id: str = _text(key=True)
    payment_id: str = _text()
    unit: str = _text()
    value: int = _amount()
    account: str | None = _text()
    status: RefundStatus = _one_of(RefundStatus)
    tx_id: str | None = _text()
    created_at_us: int = _number()
    completed_at_us: int | None = _number()


class ExecutorPauseRow(_Base, table=True):
    """An executor (CAIP-10 account that sends) that sends nothing new."""

    __tablename__ = "executor_pause"
    __table_args__ = (_BY_KEY,)

    id: str = _text(key=True)
    paused_at_us: int = _number()


class ScreeningListRow(_Base, table=True):
    """A list of accounts that are not served, as it was imported last."""

    __tablename__ = "screening_list"
    __table_args__ = (_BY_KEY,)

    name: str = _text(key=True)
    digest: str = _text()
    published_at_us: int | None = _number()
    imported_at_us: int = _number()
    count: int = _number()


class ScreenedAddressRow(_Base, table=True):
    """An address of a list, on every chain of its CAIP-2 namespace, in the form that compares."""

    __tablename__ = "screened_address"
    __table_args__ = (
        Index("ix_screened_address_namespace_address", "namespace", "address"),
        _BY_KEY,
    )

    list_name: str = _text(key=True)
    namespace: str = _text(key=True)
    address: str = _text(key=True)


class LeaseRow(_Base, table=True):
    """Who does a job alone. `epoch` rises with every new owner and fences off the old one."""

    __tablename__ = "lease"
    __table_args__ = (_BY_KEY,)

    name: str = _text(key=True)
    owner: str = _text()
    epoch: int = _number()
    until_us: int = _number()


class RelayerRow(_Base, table=True):
    """The next nonce of an address that signs for us."""

    __tablename__ = "relayer"
    __table_args__ = (_BY_KEY,)

    chain_id: str = _text(key=True)
    sender: str = _text(key=True)
    next_nonce: int = _number()


class ChainTxRow(_Base, table=True):
    """A transaction of ours; two that may still be mined never share a nonce."""

    __tablename__ = "chain_tx"
    __table_args__ = (
        _only("state", TxState),
        Index("uq_chain_tx_chain_id_hash", "chain_id", "hash", unique=True),
        _partial("uq_chain_tx_open", OPEN, "chain_id", "sender", "nonce", unique=True),
    )

    id: str = _text(key=True)
    chain_id: str = _text()
    sender: str = _text()
    nonce: int = _number()
    raw: bytes = _bytes()
    hash: str = _text()
    state: TxState = _one_of(TxState)
    created_at_us: int = _number()
    sent_block: int | None = _number()
    block_number: int | None = _number()
    block_hash: str | None = _text()
    final_hash: str | None = _text()
    since_block: int | None = _number()


class ChainTxItemRow(_Base, table=True):
    """A payment that a transaction settles, in calldata order, or a payout that it makes."""

    __tablename__ = "chain_tx_item"
    __table_args__ = (_BY_KEY,)

    tx_id: str = _text(key=True)
    n: int = _number(key=True)
    payment_id: str = _text()
    kind: PayerKind | None = _one_of(PayerKind)
    gas: int = _number(default="0")


class IdempotencyRow(_Base, table=True):
    """The answer to a request that must not be done twice."""

    __tablename__ = "idempotency"
    # keys come in no order: rows by age and a small tree of keys dirty fewer pages
    __table_args__ = (_partial("ix_idempotency_expiry", LAPSES, "expires_at_us"),)

    scope: str = _text(key=True)
    key: str = _text(key=True)
    fingerprint: bytes = _bytes()
    body: bytes = _bytes()
    created_at_us: int = _number()
    expires_at_us: int | None = _number()


class JournalRow(_Base, table=True):
    """One entry of the ledger; its key makes sure that it is booked once."""

    __tablename__ = "ledger_journal"
    __table_args__ = (_BY_KEY,)

    idem_key: str = _text(key=True)
    type: str = _text()
    payment_id: str | None = _text()
    tx_hash: str | None = _text()
    at_us: int = _number()
    note: str | None = _text()


class TransferRow(_Base, table=True):
    """A transfer between two accounts in one asset: it balances because it is one row."""

    __tablename__ = "ledger_transfer"
    __table_args__ = (
        CheckConstraint("debit <> credit", name="two_accounts"),
        CheckConstraint("amount <> '0'", name="amount"),
        Index("ix_ledger_transfer_debit", "debit", "asset"),
        Index("ix_ledger_transfer_credit", "credit", "asset"),
        _BY_KEY,
    )

    idem_key: str = _text(key=True)
    n: int = _number(key=True)
    debit: str = _text()
    credit: str = _text()
    asset: str = _text()
    amount: int = _amount()


def _table(row: type[SQLModel]) -> Table:
    return METADATA.tables[str(row.__tablename__)]


partner = _table(PartnerRow)
api_key = _table(ApiKeyRow)
wallet_app = _table(WalletAppRow)
merchant = _table(MerchantRow)
settlement_dest = _table(DestinationRow)
bank_account = _table(BankAccountRow)
payment = _table(PaymentRow)
payment_event = _table(PaymentEventRow)
payment_option = _table(OptionRow)
option_count = _table(OptionCountRow)
issued = _table(IssuedRow)
confirm = _table(ConfirmRow)
refund = _table(RefundRow)
executor_pause = _table(ExecutorPauseRow)
screening_list = _table(ScreeningListRow)
screened_address = _table(ScreenedAddressRow)
lease = _table(LeaseRow)
relayer = _table(RelayerRow)
chain_tx = _table(ChainTxRow)
chain_tx_bump = _table(ChainTxBumpRow)
chain_tx_item = _table(ChainTxItemRow)
watched_tx = _table(WatchedRow)
account_to_open = _table(AccountToOpenRow)
opened_account = _table(OpenedAccountRow)
failed_gas = _table(FailedGasRow)
payout = _table(PayoutRow)
held_money = _table(HeldMoneyRow)
nonce_account = _table(NonceAccountRow)
installation = _table(InstallationRow)
idempotency = _table(IdempotencyRow)
collected_data = _table(CollectedRow)
ledger_journal = _table(JournalRow)
ledger_transfer = _table(TransferRow)

# by the number of minor units that was asked for
Index("ix_payment_merchant_value", payment.c.merchant_id, by_size(payment.c.value), payment.c.id)
Index(
    "ix_payment_partner_value",
    payment.c.partner_id,
    payment.c.live,
    by_size(payment.c.value),
    payment.c.id,
)
