-- The twenty accounts whose balances changed most, in a currency, but for imports. Parameters: currency, from, to.
SELECT account_id, sum(amount_decimal) AS change
FROM journal WHERE day BETWEEN $from AND $to AND status = 'POSTED' AND currency = $currency
  AND type <> 'import_account'
GROUP BY account_id HAVING sum(amount_decimal) <> 0
ORDER BY abs(sum(amount_decimal)) DESC, account_id LIMIT 20
