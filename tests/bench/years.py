"""Write months of payments into partitions of PostgreSQL, by its own statements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from florin_server.db.engine.where import DatabaseConfig
from florin_server.domain.payments.months import get_start_us

from tests.bench.history import CHAIN, MERCHANTS, PARTNER, TOKEN
from tests.support import postgres

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# the first merchant has half of the payments; seven of ten succeed
_NUMBERED: Final = """
SELECT n, us, us / 1000 AS ms, md5(n::text || 'x') AS hash,
    CASE WHEN n % 2 = 0 THEN '{first}' ELSE '{other}' || n % 7 END AS merchant,
    CASE WHEN n % 10 < 7 THEN 'succeeded' WHEN n % 10 < 9 THEN 'expired' ELSE 'cancelled' END AS status
FROM (SELECT n, {start_us} + (n - {first_n}) * {step_us} AS us
    FROM generate_series({first_n}::bigint, {last_n}) AS n) AS numbered
"""
_PAYMENT: Final = """
INSERT INTO payment (id, partner_id, merchant_id, live, status, version, unit, value, reference_id,
    salt, created_at_us, updated_at_us, expires_at, option_id, payer, provider_name, tx_id,
    option_unit, option_value, settled_value, cancelled_reason, success_url)
SELECT 'pay_' || {base62} || substr(md5(n::text) || hash, 1, 18), '{partner}', merchant, false,
    status, CASE WHEN status = 'succeeded' THEN 2 ELSE 1 END, 'iso4217/USD',
    (n * 7919 % 100000) + 1, 'order-' || n, decode(hash, 'hex'), us, us + 20000000,
    us / 1000000 + 900,
    CASE WHEN status = 'succeeded' THEN 'opt_' || substr(hash, 1, 12) END,
    CASE WHEN status = 'succeeded' THEN '{chain}:0x' || substr(hash || hash, 1, 35) || n % 100000 END,
    CASE WHEN status = 'succeeded' THEN 'Example Wallet' END,
    CASE WHEN status = 'succeeded' THEN '0x' || md5('tx' || n) || hash END,
    CASE WHEN status = 'succeeded' THEN '{token}' END,
    CASE WHEN status = 'succeeded' THEN ((n * 7919 % 100000) + 1) * 10000 END,
    CASE WHEN status = 'succeeded' THEN ((n * 7919 % 100000) + 1) * 10000 END,
    CASE WHEN status = 'cancelled' THEN 'cancelled_by_user' END,
    'https://shop.example/orders/' || n || '/thanks'
FROM ({numbered}) AS numbered
"""
_ACTION: Final = (
    '[["{chain}","eth_signTypedData_v4","[\\"0xbb\\",{{\\"types\\":{{\\"ReceiveWithAuthorization\\":'
    '[\\"from\\",\\"to\\",\\"value\\",\\"validAfter\\",\\"validBefore\\",\\"nonce\\"]}},\\"message\\":'
    '{{\\"nonce\\":\\"0x'
    + "ab" * 32
    + '\\",\\"value\\":\\"125000\\",\\"to\\":\\"0x'
    + "cd" * 20
    + '\\"}}}}]"]]'
)
_OF_PAYMENTS: Final = (
    "INSERT INTO payment_event SELECT id, 0, 'requires_action', created_at_us, 'created', "
    """'{{"requestId":"req_' || substr(id, 5, 17) || '"}}' FROM {payment}""",
    "INSERT INTO payment_event SELECT id, 1, CASE WHEN status = 'succeeded' THEN 'processing' ELSE "
    "status END, updated_at_us - 9000000, CASE status WHEN 'succeeded' THEN 'accepted' WHEN "
    "'expired' THEN 'expired' ELSE 'cancelled' END, NULL FROM {payment}",
    "INSERT INTO payment_event SELECT id, 2, status, updated_at_us, 'effect_final', "
    """'{{"txId":"' || tx_id || '"}}' FROM {payment} WHERE status = 'succeeded'""",
    "INSERT INTO payment_option SELECT id, option_id, payer, payer, '{chain}', substr(option_unit, 8), "
    "option_value, 12, NULL, 'eip3009', '{action}', '{{\"ref\":\"0x' || md5(id) || md5(tx_id) || "
    '\'","valid_before":1800000900,"dest":"0xdd"}}\', created_at_us, 0, 0, 0, '
    "'0x' || md5(id) || md5(tx_id), 1 FROM {payment} WHERE status = 'succeeded'",
    "INSERT INTO option_count SELECT id, '', 1 FROM {payment}",
    "INSERT INTO confirm SELECT id, option_id, '[\"\\\"0x' || md5(id) || md5(tx_id) || md5(payer) || "
    "md5(merchant_id || id) || '1b\\\"\"]', decode(md5(id) || md5(tx_id), 'hex'), updated_at_us, "
    "'{chain}', 7, 'done', 0, '', 0, 0 FROM {payment} WHERE status = 'succeeded'",
    "INSERT INTO payment_effect SELECT id, tx_id, 7, '0x' || md5(id) || md5(id), 3 FROM {payment} "
    "WHERE status = 'succeeded'",
    "INSERT INTO payment_settled SELECT id, updated_at_us, tx_id, option_unit, settled_value, 0, "
    "partner_id, live FROM {payment} WHERE status = 'succeeded'",
    "INSERT INTO ledger_journal SELECT 'settle:' || id, 'settle', id, tx_id, updated_at_us, NULL, "
    "merchant_id FROM {payment} WHERE status = 'succeeded'",
    "INSERT INTO ledger_transfer SELECT 'settle:' || id, 0, 'external:shop', 'external:buyer', "
    "substr(option_unit, 8), settled_value FROM {payment} WHERE status = 'succeeded'",
)


async def write(database: DatabaseConfig, months: Iterable[int], per_month: int) -> None:
    """Write payments that ended, with everything that belongs to them, evenly over each month.

    The months are those of partitions without rows.
    """
    accounts = (
        f"INSERT INTO partner VALUES ('{PARTNER}', 'Bench', '2026-02-18', 'active', 0) "
        "ON CONFLICT DO NOTHING"
    )
    merchants = ", ".join(
        f"('{name}', '{PARTNER}', '{name}', 'bench@shop.example', 'active', false, 0)"
        for name in MERCHANTS
    )
    columns = "id, partner_id, name, email, status, live, created_at_us"
    await postgres.run_commands(
        database.dsn, accounts, f"INSERT INTO merchant ({columns}) VALUES {merchants}"
    )
    for number, month in enumerate(months):
        first_n = number * per_month
        for statement in _list_statements(month, first_n, per_month):
            await postgres.run_commands(database.dsn, statement)
        await asyncio.sleep(0)


def _list_statements(month: int, first_n: int, count: int) -> list[str]:
    start_us = get_start_us(month)
    base62 = " || ".join(
        f"substr('{_DIGITS}', ((ms / {62**power}) % 62)::int + 1, 1)" for power in range(8, -1, -1)
    )
    numbered = _NUMBERED.format(
        first=MERCHANTS[0],
        other=MERCHANTS[1][:-1],
        start_us=start_us,
        first_n=first_n,
        last_n=first_n + count - 1,
        step_us=(get_start_us(month + 1) - start_us) // count,
    )
    payment = f"payment_{month // 12}_{month % 12 + 1:02}"
    words = {
        "base62": base62,
        "partner": PARTNER,
        "chain": CHAIN,
        "token": TOKEN,
        "numbered": numbered,
        "payment": payment,
        "action": _ACTION.format(chain=CHAIN),
    }
    return [_PAYMENT.format(**words), *(text.format(**words) for text in _OF_PAYMENTS)]
