-- The balance of all accounts at the end of a day, by currency. Parameter: day.
SELECT currency, count(*) AS accounts, sum(balance) AS balance,
       sum(CASE WHEN balance < 0 THEN balance ELSE 0 END) AS debits,
       sum(CASE WHEN balance > 0 THEN balance ELSE 0 END) AS credits
FROM (SELECT account_id, currency, max_by(balance_after_decimal, account_version) AS balance
      FROM journal WHERE day <= $day GROUP BY account_id, currency) AS closing
GROUP BY currency ORDER BY currency
