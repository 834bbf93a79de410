-- Views over the tables of an export, in SQL that DuckDB and PostgreSQL both run.
-- Amounts are whole units. Days and months are UTC. Simulated payments (`test:`) have no money and
-- are left out. `warehouse.py` loads the tables that these views read.

-- One row for each payment: fee, refunds, and how long it took.
CREATE VIEW florin.fct_payments AS
SELECT
  p.payment_id,
  p.merchant_id,
  p.live,
  p.status,
  p.wallet,
  p.unit,
  p.requested,
  replace(p.paid_unit, 'caip19/', '') AS asset,
  p.paid,
  coalesce(o.fee, 0) AS fee,
  p.settled,
  coalesce(r.refunds, 0) AS refunds,
  coalesce(r.refunded, 0) AS refunded,
  coalesce(r.refunded_value, 0) AS refunded_value,
  p.created_at,
  c.confirmed_at,
  e.final_at,
  extract(epoch FROM e.final_at - c.confirmed_at) AS settlement_s
FROM florin.payments AS p
LEFT JOIN florin.options AS o ON o.payment_id = p.payment_id AND o.option_id = p.option_id AND o.chosen
LEFT JOIN florin.confirmations AS c ON c.payment_id = p.payment_id
LEFT JOIN (
  SELECT payment_id, max("at") AS final_at FROM florin.events
  WHERE status = 'succeeded' GROUP BY payment_id
) AS e ON e.payment_id = p.payment_id
LEFT JOIN (
  SELECT
    payment_id, count(*) AS refunds, sum(amount) AS refunded, sum(payment_amount) AS refunded_value
  FROM florin.refunds WHERE status = 'succeeded' GROUP BY payment_id
) AS r ON r.payment_id = p.payment_id
WHERE p.tx_hash IS NULL OR p.tx_hash NOT LIKE 'test:%';

-- The median rate of each day: whole units of a requested unit for a whole unit of an asset.
CREATE VIEW florin.daily_rates AS
SELECT
  CAST(o.offered_at AT TIME ZONE 'UTC' AS date) AS day,
  p.unit,
  o.asset,
  count(*) AS quotes,
  percentile_cont(0.5) WITHIN GROUP (
    ORDER BY CAST(p.requested AS double precision) / CAST(o.price AS double precision)
  ) AS rate
FROM florin.options AS o
JOIN florin.payments AS p ON p.payment_id = o.payment_id
WHERE o.price > 0 AND p.requested IS NOT NULL
GROUP BY 1, 2, 3;

-- The value of a unit in another unit on a day, by the assets that were quoted in both that day.
CREATE VIEW florin.daily_cross_rates AS
SELECT
  a.day,
  a.unit,
  b.unit AS reporting_unit,
  CASE
    WHEN a.unit = b.unit THEN 1
    ELSE percentile_cont(0.5) WITHIN GROUP (ORDER BY b.rate / a.rate)
  END AS rate
FROM florin.daily_rates AS a
JOIN florin.daily_rates AS b ON b.day = a.day AND b.asset = a.asset
GROUP BY a.day, a.unit, b.unit;

-- Money of a day in each requested unit, by the day when the payment was final.
CREATE VIEW florin.daily_volume AS
SELECT
  CAST(final_at AT TIME ZONE 'UTC' AS date) AS day,
  live,
  merchant_id,
  unit,
  count(*) AS payments,
  sum(requested) AS gross,
  sum(CASE WHEN paid > 0 THEN requested * fee / paid ELSE 0 END) AS fees,
  sum(refunded_value) AS refunded,
  sum(requested) - sum(CASE WHEN paid > 0 THEN requested * fee / paid ELSE 0 END)
    - sum(refunded_value) AS net,
  sum(requested) / count(*) AS average_order,
  percentile_cont(0.5) WITHIN GROUP (
    ORDER BY CAST(settlement_s AS double precision)
  ) AS median_settlement_s
FROM florin.fct_payments
WHERE status = 'succeeded' AND final_at IS NOT NULL
GROUP BY 1, 2, 3, 4;

-- The same in one reporting unit: filter on `reporting_unit`. Days without a rate have no value,
-- and `unpriced` counts their payments.
CREATE VIEW florin.daily_revenue AS
SELECT
  v.day,
  v.live,
  v.merchant_id,
  u.reporting_unit,
  sum(v.payments) AS payments,
  sum(CAST(v.gross AS double precision) * x.rate) AS gross,
  sum(CAST(v.fees AS double precision) * x.rate) AS fees,
  sum(CAST(v.refunded AS double precision) * x.rate) AS refunded,
  sum(CAST(v.net AS double precision) * x.rate) AS net,
  sum(CASE WHEN x.rate IS NULL THEN v.payments ELSE 0 END) AS unpriced
FROM florin.daily_volume AS v
CROSS JOIN (SELECT DISTINCT unit AS reporting_unit FROM florin.payments) AS u
LEFT JOIN florin.daily_cross_rates AS x
  ON x.day = v.day AND x.unit = v.unit AND x.reporting_unit = u.reporting_unit
GROUP BY 1, 2, 3, 4;

-- Confirmed payments that succeeded, by wallet. A wallet is unknown before the confirm.
CREATE VIEW florin.wallet_conversion AS
SELECT
  wallet,
  live,
  count(*) AS confirmed,
  sum(CASE WHEN status = 'succeeded' THEN 1 ELSE 0 END) AS succeeded
FROM florin.fct_payments
WHERE confirmed_at IS NOT NULL AND status NOT IN ('requires_action', 'processing')
GROUP BY 1, 2;

-- The lines `payments`, `fees` and `refunds` of `florin report --month`, from the ledger, in minor
-- units of the asset. An amount of more than 38 digits is an error.
CREATE VIEW florin.month_statement AS
SELECT
  CAST(date_trunc('month', l.booked_at AT TIME ZONE 'UTC') AS date) AS month,
  p.live,
  p.merchant_id,
  l.asset,
  sum(CASE WHEN l.is_refund OR l.is_owed_fee THEN 0 ELSE l.minor END) AS payments_minor,
  sum(CASE WHEN 'income:fee' IN (l.credit, l.debit) THEN -l.minor ELSE 0 END) AS fees_minor,
  sum(CASE WHEN l.is_refund THEN -l.minor ELSE 0 END) AS refunds_minor
FROM (
  SELECT
    *,
    kind IN ('refund', 'reverse_refund') AS is_refund,
    -- no part of the money that was paid
    (credit = 'income:fee' AND debit LIKE 'merchant:%')
      OR (debit = 'income:fee' AND credit LIKE 'merchant:%') AS is_owed_fee,
    CASE WHEN kind LIKE 'reverse_%' THEN -1 ELSE 1 END * CAST(amount_minor AS DECIMAL(38, 0))
      AS minor
  FROM florin.ledger
  WHERE kind IN ('settle', 'refund', 'reverse_settle', 'reverse_refund')
) AS l
JOIN florin.payments AS p ON p.payment_id = l.payment_id
GROUP BY 1, 2, 3, 4;
