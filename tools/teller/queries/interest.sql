-- The overdraft interest that was charged, by month and currency. Parameters: from, to.
SELECT substr(day, 1, 7) AS month, currency, -sum(amount_decimal) AS interest, count(DISTINCT account_id) AS accounts
FROM journal
WHERE day BETWEEN $from AND $to AND type = 'charge_interest' AND status = 'POSTED'
  AND amount_decimal < 0 -- the account that gets the interest has an entry, too
GROUP BY substr(day, 1, 7), currency ORDER BY month, currency
