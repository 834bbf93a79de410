"""The tables of an export, each column with its type, unit and meaning.

Nobody else declares columns: the sources, the files and `docs/reference/data.md` follow these.
"""

from __future__ import annotations

from collections.abc import Mapping

from florin_server.domain.exports.columns import (
    Table,
    flag,
    json,
    money,
    number,
    table,
    text,
    time,
)

PAYMENTS = table(
    "payments",
    "A payment as it stood when the row was written.",
    ["payment_id"],
    text("payment_id", "id; ids sort by the millisecond of creation"),
    text("partner_id", "whose merchant it is for"),
    text("merchant_id", "who is paid"),
    flag("live", "false for test payments"),
    text(
        "status",
        "where it stands: requires_action, processing, succeeded, failed, expired or cancelled",
    ),
    number("version", "rises by one with each event", "events"),
    text("unit", "what was asked for: iso4217/… or caip19/…"),
    money("requested", "what was asked for", "unit"),
    text("reference_id", "the merchant's own order reference; empty if none was given"),
    text("success_url", "where the buyer goes after success", personal=True),
    text("error_url", "where the buyer goes after any other end", personal=True),
    time("created_at", "when it was created"),
    time("updated_at", "when it last changed"),
    time("expires_at", "from when on it cannot be confirmed any more"),
    text("option_id", "the option that was confirmed; empty before"),
    text("payer", "account that pays (CAIP-10), from the confirm on"),
    text("wallet", "name of the wallet that confirmed; `unknown` if it did not say"),
    text("tx_hash", "transaction that paid it; `test:…` if that was simulated"),
    text("paid_unit", "what it is paid in: caip19/…, from the confirm on"),
    money("paid", "what is paid, or was to be paid", "paid_unit"),
    money("settled", "what reached the merchant's own destination; empty before", "paid_unit"),
    text("failure_code", "why it failed, as the API tells it"),
    text("failure_detail", "why it failed, in words"),
    text("cancelled_reason", "who called it off"),
    changes=True,
)

EVENTS = table(
    "events",
    "A change of a payment's state.",
    ["payment_id", "version"],
    text("payment_id", "the payment"),
    number("version", "0 for the creation, and one more for each change", "events"),
    text("status", "the status from then on"),
    time("at", "when it changed"),
    text("cause", "what led to it; `created`, or an event of the state table"),
    json("detail", "what else is known, as a JSON object"),
)

OPTIONS = table(
    "options",
    "A way to pay that was offered, with whether it was fetched and chosen.",
    ["payment_id", "option_id"],
    text("payment_id", "the payment"),
    text("option_id", "the option; unique within the payment"),
    text("account", "account that it was offered to (CAIP-10)"),
    text("chain_id", "chain on which it is paid (CAIP-2)"),
    text("asset", "what it is paid in (CAIP-19)"),
    text("method", "how it is paid, e.g. eip3009, permit2 or direct"),
    money("price", "what the buyer pays", "asset"),
    money("fee", "what the operator keeps of it", "asset"),
    number("fee_basis_points", "variable part of the fee", "hundredths of a percent"),
    number("eta", "how long until it is final, as it was promised", "seconds"),
    number("head", "newest block of the chain then, as far as it is known", "block height"),
    time("offered_at", "when it was offered first"),
    time("expires_at", "until when its price holds; empty: as long as the payment"),
    number("fetches", "how often its build was resolved for a wallet", "times"),
    time("first_fetched_at", "when that was done first"),
    time("last_fetched_at", "when that was done last"),
    flag("chosen", "true if the payment is bound to it"),
    changes=True,
)

CONFIRMATIONS = table(
    "confirmations",
    "What a payment was bound to by its confirm; refused ones too.",
    ["payment_id"],
    text("payment_id", "the payment"),
    text("option_id", "the option that was confirmed"),
    time("confirmed_at", "when"),
    text("chain_id", "chain on which it is settled (CAIP-2); empty if it was refused"),
    number("from_block", "no block below holds its effect", "block height"),
    text("state", "where its settlement stands: waiting, submitted, held or done"),
    text("app", "wallet app, or key of a wallet, that confirmed; empty if the chain told"),
    number(
        "failures", "final transactions of ours that carried and did not pay it", "transactions"
    ),
    number("reverted", "those of several payments that came to nothing", "transactions"),
    changes=True,
)

TRANSACTIONS = table(
    "transactions",
    "A transaction of ours: written down before it is sent.",
    ["tx_id"],
    text("tx_id", "id; not the hash, which changes with the fee"),
    text("chain_id", "chain (CAIP-2)"),
    text("sender", "address whose nonce it uses"),
    number("nonce", "its nonce", "transactions"),
    text("state", "where it stands: signed, sent, final or replaced"),
    time("signed_at", "when it was signed first"),
    text("tx_hash", "hash: of the one that was mined, or else of the one signed first"),
    number("variants", "how often it was signed, each time for a higher fee", "times"),
    number("size", "of the one signed first", "bytes"),
    number("sent_block", "newest block when it was sent last", "block height"),
    number("block_number", "block that holds it, once final", "block height"),
    text("block_hash", "the same block"),
    changes=True,
)

TRANSACTION_ITEMS = table(
    "transaction_items",
    "What a transaction of ours is for: a payment that it settles, or a payout that it makes.",
    ["tx_id", "n"],
    text("tx_id", "the transaction"),
    number("n", "place in it", "from 0"),
    text("payment_id", "payment that it settles"),
    text("payout_id", "payout that it makes"),
    text(
        "payer_kind",
        "who answers for the payment: key, code or unborn; empty where it does not count",
    ),
    number("gas_max", "most gas that it may use there", "units of gas"),
)

PAYOUTS = table(
    "payouts",
    "Money that leaves a treasury: refunds, returns, and what merchants are owed.",
    ["payout_id"],
    text("payout_id", "id; a refund's payout has the id of the refund"),
    text("kind", "why it leaves: refund, return or balance"),
    text("status", "where it stands: waiting, submitted, done or refused"),
    text("merchant_id", "whose money it is"),
    text("payment_id", "payment that it belongs to, if any"),
    flag("live", "false for test money"),
    text("chain_id", "chain (CAIP-2)"),
    text("asset", "what is paid out (CAIP-19)"),
    money("amount", "how much", "asset"),
    text("account", "who receives it (CAIP-10)"),
    time("created_at", "when it was asked for"),
    time("completed_at", "when it was done or refused"),
    text("tx_hash", "transaction that it is in"),
    text("problem", "why it was not sent, or what is wrong with it"),
    text("held_id", "held money that it returns"),
    changes=True,
)

REFUNDS = table(
    "refunds",
    "A refund of a payment, as the merchant sees it; a payment may have several.",
    ["refund_id"],
    text("refund_id", "id"),
    text("payment_id", "the payment"),
    text("status", "where it stands: pending, processing, succeeded or failed"),
    text("unit", "what is paid back: caip19/…"),
    money("amount", "how much", "unit"),
    text("payment_unit", "what the payment asked for: iso4217/… or caip19/…"),
    money("payment_amount", "the same at the payment's own rate", "payment_unit"),
    text("reason", "why, in the merchant's words; empty if none was given"),
    text("account", "who gets it back (CAIP-10); empty if the payment was simulated"),
    text("tx_hash", "transaction; `test:…` if it was simulated"),
    time("created_at", "when it was asked for"),
    time("completed_at", "when it became final"),
    changes=True,
)

LEDGER = table(
    "ledger",
    "A posting of the books: an amount that went from one account to another.",
    ["journal", "n"],
    text("journal", "key of the journal; see the reference of postings"),
    number("n", "place in the journal", "from 0"),
    text("kind", "why it was booked, e.g. settle, refund or gas"),
    time("booked_at", "when"),
    text("payment_id", "payment that it belongs to, if any"),
    text("tx_hash", "transaction that it belongs to, if any"),
    text("debit", "account that the amount goes to"),
    text("credit", "account that it comes from"),
    text("asset", "in what (CAIP-19)"),
    money("amount", "how much, always above zero", "asset"),
    text("note", "the operator's own words, or why a journal has no transfers; empty otherwise"),
)

BLOCKS = table(
    "blocks",
    "A block that held something of ours when it was final; nothing else is kept of blocks.",
    ["chain_id", "block_number", "block_hash"],
    text("chain_id", "chain (CAIP-2)"),
    number(
        "block_number", "its height; two hashes of one height tell of a reorganisation", "blocks"
    ),
    text("block_hash", "its hash; empty on Solana, where final slots are followed"),
)

BUYER_DATA = table(
    "buyer_data",
    "What a buyer told about itself for a payment, as long as it is kept.",
    ["payment_id", "account", "source"],
    text("payment_id", "payment for which it was told", personal=True),
    text("account", "account that it is about (CAIP-10)", personal=True),
    text("source", "how it came (form or inline), and from whom, as a hash", personal=True),
    text("app", "wallet app, or key of a wallet, that it came through", personal=True),
    time("created_at", "when it was told"),
    time("kept_until", "when it is deleted"),
    flag("proven", "true if who told it also confirmed with the account's signature"),
    json("data", "what was told, as a JSON object; empty if its key is lost", personal=True),
    kept=True,
)

TABLES: Mapping[str, Table] = {
    one.name: one
    for one in (
        *(PAYMENTS, EVENTS, OPTIONS, CONFIRMATIONS),
        *(TRANSACTIONS, TRANSACTION_ITEMS, BLOCKS),
        *(PAYOUTS, REFUNDS, LEDGER, BUYER_DATA),
    )
}
