"""The tables of an export, each column with its type, unit and meaning.

All columns are declared here: the sources, the files and `docs/reference/data.md` follow.
"""

from __future__ import annotations

from collections.abc import Mapping

from florin_server.domain.exports.columns import (
    ExportTable,
    build_table,
    flag_column,
    json_column,
    money_columns,
    number_column,
    text_column,
    time_column,
)

PAYMENTS = build_table(
    "payments",
    "A payment at the time when the row was written.",
    ["payment_id"],
    text_column("payment_id", "id; ids sort by the millisecond of creation"),
    text_column("partner_id", "partner of the merchant"),
    text_column("merchant_id", "merchant that is paid"),
    flag_column("live", "false for test payments"),
    text_column(
        "status",
        "status: requires_action, processing, succeeded, failed, expired or cancelled",
    ),
    number_column("version", "rises by one with each event", "events"),
    text_column("unit", "requested unit: iso4217/… or caip19/…"),
    money_columns("requested", "requested amount", "unit"),
    text_column("reference_id", "the merchant's own order reference; empty if none was given"),
    text_column("success_url", "URL for the buyer after success", personal=True),
    text_column("error_url", "URL for the buyer after any other end", personal=True),
    time_column("created_at", "when it was created"),
    time_column("updated_at", "when it last changed"),
    time_column("expires_at", "time from which on it can no longer be confirmed"),
    text_column("option_id", "the option that was confirmed; empty before"),
    text_column("payer", "account that pays (CAIP-10), from the confirm on"),
    text_column("wallet", "name of the wallet that confirmed; `unknown` if it did not say"),
    text_column("tx_hash", "transaction that paid it; `test:…` if that was simulated"),
    text_column("paid_unit", "paying asset: caip19/…, from the confirm on"),
    money_columns("paid", "amount that is paid, or was to be paid", "paid_unit"),
    money_columns(
        "settled", "amount that reached the merchant's own destination; empty before", "paid_unit"
    ),
    text_column("failure_code", "reason of the failure, as in the API"),
    text_column("failure_detail", "reason of the failure, in words"),
    text_column("cancelled_reason", "party that canceled it"),
    text_column("description", "what is paid for; empty if it was not given"),
    json_column(
        "lines", "lines of the order: JSON arrays of name, quantity and minor units of `unit`"
    ),
    json_column("metadata", "the merchant's own texts by name, as a JSON object"),
    is_mutable=True,
)

EVENTS = build_table(
    "events",
    "A change of a payment's state.",
    ["payment_id", "version"],
    text_column("payment_id", "the payment"),
    number_column("version", "0 for the creation, and one more for each change", "events"),
    text_column("status", "the status from then on"),
    time_column("at", "when it changed"),
    text_column("cause", "cause: `created`, or an event of the state table"),
    json_column("detail", "further details, as a JSON object"),
)

OPTIONS = build_table(
    "options",
    "An offered way to pay, and whether it was fetched and chosen.",
    ["payment_id", "option_id"],
    text_column("payment_id", "the payment"),
    text_column("option_id", "the option; unique within the payment"),
    text_column("account", "account that it was offered to (CAIP-10)"),
    text_column("chain_id", "chain of the payment (CAIP-2)"),
    text_column("asset", "paying asset (CAIP-19)"),
    text_column("method", "payment method, e.g. eip3009, permit2 or direct"),
    money_columns("price", "amount that the buyer pays", "asset"),
    money_columns("fee", "fee of the operator", "asset"),
    number_column("fee_basis_points", "variable part of the fee", "hundredths of a percent"),
    number_column("eta", "promised seconds until it is final", "seconds"),
    number_column(
        "head", "newest block of the chain at the offer, as far as it is known", "block height"
    ),
    time_column("offered_at", "time of the first offer"),
    time_column("expires_at", "end of its price; empty: as long as the payment"),
    number_column("fetches", "how often its build was resolved for a wallet", "times"),
    time_column("first_fetched_at", "time of the first fetch"),
    time_column("last_fetched_at", "time of the latest fetch"),
    flag_column("chosen", "true if the payment is bound to it"),
    is_mutable=True,
)

CONFIRMATIONS = build_table(
    "confirmations",
    "The confirm to which a payment was bound; refused ones too.",
    ["payment_id"],
    text_column("payment_id", "the payment"),
    text_column("option_id", "the option that was confirmed"),
    time_column("confirmed_at", "when"),
    text_column("chain_id", "chain on which it is settled (CAIP-2); empty if it was refused"),
    number_column("from_block", "no earlier block contains its effect", "block height"),
    text_column("state", "state of its settlement: waiting, submitted, held or done"),
    text_column(
        "app",
        "wallet app, or key of a wallet, that confirmed; empty if the chain showed the payment",
    ),
    number_column(
        "failures", "final transactions of Florin that contained and did not pay it", "transactions"
    ),
    number_column(
        "reverted", "transactions of several payments that failed as a whole", "transactions"
    ),
    is_mutable=True,
)

TRANSACTIONS = build_table(
    "transactions",
    "A transaction of Florin: stored before it is sent.",
    ["tx_id"],
    text_column("tx_id", "id; not the hash, which changes with the fee"),
    text_column("chain_id", "chain (CAIP-2)"),
    text_column("sender", "address whose nonce it uses"),
    number_column("nonce", "its nonce", "transactions"),
    text_column("state", "state: signed, sent, final or replaced"),
    time_column("signed_at", "time of the first signature"),
    text_column("tx_hash", "hash of the mined variant, or else of the first signed one"),
    number_column("variants", "number of signatures, each for a higher fee", "times"),
    number_column("size", "of the first signed variant", "bytes"),
    number_column("sent_block", "newest block at the latest broadcast", "block height"),
    number_column("block_number", "block that contains it, once final", "block height"),
    text_column("block_hash", "the same block"),
    is_mutable=True,
)

TRANSACTION_ITEMS = build_table(
    "transaction_items",
    "An item of a transaction of Florin: a payment that it settles, or a payout that it makes.",
    ["tx_id", "n"],
    text_column("tx_id", "the transaction"),
    number_column("n", "place in it", "from 0"),
    text_column("payment_id", "payment that it settles"),
    text_column("payout_id", "payout that it makes"),
    text_column(
        "payer_kind",
        "kind of the paying account: key, code or unborn; empty where it does not matter",
    ),
    number_column("gas_max", "most gas that it can use there", "units of gas"),
)

PAYOUTS = build_table(
    "payouts",
    "Money that leaves a treasury: refunds, returns, and merchants' balances.",
    ["payout_id"],
    text_column("payout_id", "id; a refund's payout has the id of the refund"),
    text_column("kind", "reason: refund, return or balance"),
    text_column("status", "state: waiting, submitted, done or refused"),
    text_column("merchant_id", "merchant of the money"),
    text_column("payment_id", "payment that it belongs to, if any"),
    flag_column("live", "false for test money"),
    text_column("chain_id", "chain (CAIP-2)"),
    text_column("asset", "asset (CAIP-19)"),
    money_columns("amount", "how much", "asset"),
    text_column("account", "receiver (CAIP-10)"),
    time_column("created_at", "time of the request"),
    time_column("completed_at", "when it was done or refused"),
    text_column("tx_hash", "transaction that it is in"),
    text_column("problem", "reason why it was not sent, or its problem"),
    text_column("held_id", "held money that it returns"),
    is_mutable=True,
)

REFUNDS = build_table(
    "refunds",
    "A refund of a payment, as the merchant sees it; a payment can have several.",
    ["refund_id"],
    text_column("refund_id", "id"),
    text_column("payment_id", "the payment"),
    text_column("status", "status: pending, processing, succeeded or failed"),
    text_column("unit", "refunded asset: caip19/…"),
    money_columns("amount", "how much", "unit"),
    text_column("payment_unit", "unit of the payment: iso4217/… or caip19/…"),
    money_columns(
        "payment_amount", "the refund in that unit, at the payment's own rate", "payment_unit"
    ),
    text_column("reason", "reason in the merchant's words; empty if none was given"),
    text_column("account", "receiver (CAIP-10); empty if the payment was simulated"),
    text_column("tx_hash", "transaction; `test:…` if it was simulated"),
    time_column("created_at", "time of the request"),
    time_column("completed_at", "when it became final"),
    is_mutable=True,
)

LEDGER = build_table(
    "ledger",
    "A posting of the ledger: an amount that moved from one account to another.",
    ["journal", "n"],
    text_column("journal", "key of the journal; see the reference of postings"),
    number_column("n", "place in the journal", "from 0"),
    text_column("kind", "kind of the journal, e.g. settle, refund or gas"),
    time_column("booked_at", "when"),
    text_column("payment_id", "payment that it belongs to, if any"),
    text_column("tx_hash", "transaction that it belongs to, if any"),
    text_column("debit", "account to which the amount moves"),
    text_column("credit", "account from which it moves"),
    text_column("asset", "asset (CAIP-19)"),
    money_columns("amount", "amount, always above zero", "asset"),
    text_column("note", "the operator's note, or why a journal has no transfers; empty otherwise"),
)

BLOCKS = build_table(
    "blocks",
    "A final block with a transaction or event of Florin; no other blocks are stored.",
    ["chain_id", "block_number", "block_hash"],
    text_column("chain_id", "chain (CAIP-2)"),
    number_column(
        "block_number", "its height; two hashes of one height show a reorganization", "blocks"
    ),
    text_column("block_hash", "its hash; empty on Solana, where final slots are followed"),
)

BUYER_DATA = build_table(
    "buyer_data",
    "Data that a buyer gave for a payment, until its retention ends.",
    ["payment_id", "account", "source"],
    text_column("payment_id", "payment for which it was given", personal=True),
    text_column("account", "account that it is about (CAIP-10)", personal=True),
    text_column("source", "source (form or inline), and its supplier, as a hash", personal=True),
    text_column("app", "wallet app, or key of a wallet, that it came through", personal=True),
    time_column("created_at", "time when it was given"),
    time_column("kept_until", "time of its deletion"),
    flag_column("proven", "true if its supplier also confirmed with the account's signature"),
    json_column("data", "the data, as a JSON object; empty if its key is lost", personal=True),
    is_rewritten=True,
)

TABLES: Mapping[str, ExportTable] = {
    table.name: table
    for table in (
        *(PAYMENTS, EVENTS, OPTIONS, CONFIRMATIONS),
        *(TRANSACTIONS, TRANSACTION_ITEMS, BLOCKS),
        *(PAYOUTS, REFUNDS, LEDGER, BUYER_DATA),
    )
}
