"""Write months of payments into partitions of PostgreSQL, by its own statements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from florin_server.db.engine.partitions import PARTITION_KEYS
from florin_server.db.engine.where import DatabaseConfig
from florin_server.domain.payments.months import format_month, get_start_us

from tests.bench.history import CHAIN, MERCHANTS, PARTNER, TOKEN
from tests.support import postgres

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SENDER: Final = "0xcc"
# of one transaction of Florin: the payments, of which seven in ten succeed, and units of 16 bytes
_BATCH: Final = 20
_RAW_16: Final = 300
_ACCOUNTS: Final = """
INSERT INTO relayer VALUES ('{chain}', '{sender}', 1000000000);
INSERT INTO partner VALUES ('{partner}', 'Bench', '2026-02-18', 'active', 0);
INSERT INTO merchant (id, partner_id, name, email, status, live, created_at_us)
SELECT name, '{partner}', name, 'bench@shop.example', 'active', false, 0
FROM unnest('{{{merchants}}}'::text[]) AS name
"""
# the first merchant has half of the payments; seven of ten succeed
_PAYMENTS: Final = """
INSERT INTO payment (id, partner_id, merchant_id, live, status, version, unit, value, reference_id,
    salt, created_at_us, updated_at_us, expires_at, success_url, option_id, payer, provider_name,
    tx_id, option_unit, option_value, settled_value, cancelled_reason)
SELECT 'pay_' || {base62} || substr(md5(n::text) || hash, 1, 18), '{partner}',
    CASE WHEN n % 2 = 0 THEN '{first}' ELSE '{other}' || n % 7 + 1 END, false, status,
    CASE WHEN succeeded THEN 2 ELSE 1 END, 'iso4217/USD', price, 'order-' || n,
    decode(hash, 'hex'), us, us + 20000000, us / 1000000 + 900,
    'https://shop.example/orders/' || n || '/thanks',
    CASE WHEN succeeded THEN 'opt_' || substr(hash, 1, 12) END,
    CASE WHEN succeeded THEN '{chain}:0x' || substr(hash || hash, 1, 35) || n % 100000 END,
    CASE WHEN succeeded THEN 'Example Wallet' END,
    CASE WHEN succeeded THEN '0x' || md5(batch) || md5(batch || 'x') END,
    CASE WHEN succeeded THEN '{token}' END, CASE WHEN succeeded THEN price * 10000 END,
    CASE WHEN succeeded THEN price * 10000 END,
    CASE WHEN status = 'cancelled' THEN 'cancelled_by_user' END
FROM (
    SELECT n, us, us / 1000 AS ms, md5(n || 'x') AS hash, (n * 7919 % 100000) + 1 AS price,
        '{first_n}/' || n / {batch} AS batch, n % 10 < 7 AS succeeded,
        CASE WHEN n % 10 < 7 THEN 'succeeded' WHEN n % 10 < 9 THEN 'expired' ELSE 'cancelled' END
            AS status
    FROM (
        SELECT n, {start_us} + (n - {first_n}) * {step_us} AS us
        FROM generate_series({first_n}::bigint, {last_n}) AS n
    ) AS timed
) AS numbered
"""
_ACTION: Final = (
    r'[["eip155:31337","eth_signTypedData_v4","[\"0xbb\",{{\"types\":{{\"ReceiveWithAuthorization\"'
    r":[\"from\",\"to\",\"value\",\"validAfter\",\"validBefore\",\"nonce\"]}},\"message\":"
    rf'{{{{\"nonce\":\"0x{"ab" * 32}\",\"value\":\"125000\",\"to\":\"0x{"cd" * 20}\"}}}}}}}}]"]]'
)
_OF_PAYMENTS: Final = f"""
INSERT INTO payment_event
SELECT id, 0, 'requires_action', created_at_us, 'created',
    '{{{{"requestId":"req_' || substr(id, 5, 17) || '"}}}}' FROM {{payment}};
INSERT INTO payment_event
SELECT id, 1, CASE WHEN status = 'succeeded' THEN 'processing' ELSE status END,
    updated_at_us - 9000000, CASE WHEN status = 'succeeded' THEN 'accepted' ELSE status END, NULL
FROM {{payment}};
INSERT INTO option_count SELECT id, '', 1 FROM {{payment}};
INSERT INTO payment_event
SELECT id, 2, status, updated_at_us, 'effect_final', '{{{{"txId":"' || tx_id || '"}}}}'
FROM {{paid}};
INSERT INTO payment_option
SELECT id, option_id, payer, payer, '{CHAIN}', substr(option_unit, 8), option_value, 12, NULL,
    'eip3009', '{_ACTION}',
    '{{{{"ref":"0x' || md5(id) || md5(tx_id) || '","valid_before":1800000900,"dest":"0xdd"}}}}',
    created_at_us, 0, 0, 0, '0x' || md5(id) || md5(tx_id), 1 FROM {{paid}};
INSERT INTO confirm
SELECT id, option_id, '["\\"0x' || md5(id) || md5(tx_id) || md5(payer) || md5(salt) || '1b\\""]',
    decode(md5(id) || md5(tx_id), 'hex'), updated_at_us, '{CHAIN}', 7, 'done', 0, '', 0, 0
FROM {{paid}};
INSERT INTO payment_effect SELECT id, tx_id, 7, '0x' || md5(id) || md5(id), 3 FROM {{paid}};
INSERT INTO payment_settled
SELECT id, updated_at_us, tx_id, option_unit, settled_value, 0, partner_id, live FROM {{paid}};
INSERT INTO ledger_journal
SELECT 'settle:' || id, 'settle', id, tx_id, updated_at_us, NULL, merchant_id FROM {{paid}};
INSERT INTO ledger_transfer
SELECT 'settle:' || id, 0, 'external:shop', 'external:buyer', substr(option_unit, 8), settled_value
FROM {{paid}};
INSERT INTO chain_tx (id, chain_id, sender, nonce, raw, hash, state, created_at_us, sent_block,
    block_number, block_hash)
SELECT substr(tx_id, 3, 22), '{CHAIN}', '{_SENDER}', row_number() OVER (ORDER BY min(id)),
    (SELECT string_agg(decode(md5(tx_id || n), 'hex'), '') FROM generate_series(1, {_RAW_16}) AS n),
    tx_id, 'final', min(created_at_us), 6, 7, '0x' || md5(tx_id) || md5(tx_id)
FROM {{paid}} GROUP BY tx_id;
INSERT INTO chain_tx_item (tx_id, n, payment_id, gas)
SELECT substr(tx_id, 3, 22), row_number() OVER (PARTITION BY tx_id ORDER BY id) - 1, id, 60000
FROM {{paid}}
"""


_TABLES: Final = (
    *(*PARTITION_KEYS, "payment_settled", "ledger_journal", "ledger_transfer"),
    *("chain_tx", "chain_tx_item"),
)
# building an index on existing rows is faster than updating it for each row
_INDEXES: Final = """
SELECT relname, replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = ANY($1::regclass[]) AND NOT indisprimary
"""


async def write(database: DatabaseConfig, months: Iterable[int], per_month: int) -> None:
    """Write payments that ended, with everything that belongs to them, evenly over each month.

    The months are those of partitions without rows.
    """
    accounts = _ACCOUNTS.format(
        partner=PARTNER, merchants=",".join(MERCHANTS), chain=CHAIN, sender=_SENDER
    )
    await postgres.run_commands(database.dsn, *accounts.split(";"))
    indexes = await postgres.list_rows(database.dsn, _INDEXES, list(_TABLES))
    await postgres.run_commands(database.dsn, *(f"DROP INDEX {name}" for name, _ in indexes))
    for number, month in enumerate(months):
        # a statement is planned once, and the plan of a compiled one would take longer than it
        await postgres.run_commands(
            database.dsn, "SET jit = off", *_list_statements(month, number * per_month, per_month)
        )
    memory = "SET maintenance_work_mem = '512MB'"
    await postgres.run_commands(database.dsn, memory, *(created for _, created in indexes))


def _list_statements(month: int, first_n: int, count: int) -> list[str]:
    start_us = get_start_us(month)
    base62 = " || ".join(
        f"substr('{_DIGITS}', ((ms / {62**power}) % 62)::int + 1, 1)" for power in range(8, -1, -1)
    )
    created = _PAYMENTS.format(
        base62=base62,
        partner=PARTNER,
        first=MERCHANTS[0],
        other=MERCHANTS[1][:-1],
        chain=CHAIN,
        token=TOKEN,
        start_us=start_us,
        first_n=first_n,
        last_n=first_n + count - 1,
        batch=_BATCH,
        step_us=(get_start_us(month + 1) - start_us) // count,
    )
    payment = f"payment_{format_month(month).replace('-', '_')}"
    paid = f"{payment} WHERE status = 'succeeded'"
    return [created, *_OF_PAYMENTS.format(payment=payment, paid=paid).split(";")]
