-- The posted transactions of at least this size, in or out. Parameters: amount, currency, from, to.
SELECT day, posted_at, account_id, account_version, transaction_id, type, amount
FROM journal
WHERE day BETWEEN $from AND $to AND status = 'POSTED' AND currency = $currency
  AND abs(amount_decimal) >= CAST($amount AS DECIMAL(38, 10))
ORDER BY abs(amount_decimal) DESC, account_id, account_version
