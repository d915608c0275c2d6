-- A customer's year: what came in and went out by month, and the balance at its end. An import is no turnover.
-- Parameters: account_id, year.
SELECT substr(day, 1, 7) AS month,
       sum(CASE WHEN amount_decimal > 0 AND type <> 'import_account' THEN amount_decimal ELSE 0 END) AS credits,
       sum(CASE WHEN amount_decimal < 0 AND type <> 'import_account' THEN amount_decimal ELSE 0 END) AS debits,
       max_by(balance_after, account_version) AS balance
FROM journal WHERE account_id = $account_id AND substr(day, 1, 4) = $year
GROUP BY substr(day, 1, 7) ORDER BY month
