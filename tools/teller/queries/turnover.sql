-- The money that came into each account and went out of it, from one day to another, both included.
-- An import is no turnover. Parameters: from, to.
SELECT account_id, currency,
       sum(CASE WHEN amount_decimal > 0 THEN amount_decimal ELSE 0 END) AS credits,
       sum(CASE WHEN amount_decimal < 0 THEN amount_decimal ELSE 0 END) AS debits,
       count(*) AS transactions
FROM journal WHERE day BETWEEN $from AND $to AND status = 'POSTED' AND amount_decimal <> 0
  AND type <> 'import_account'
GROUP BY account_id, currency ORDER BY account_id
