-- The accounts as they were read, by currency and status: what they have, what is held, how many are below their limit.
SELECT currency, status, count(*) AS accounts, sum(balance_decimal) AS balance, sum(held_decimal) AS held,
       sum(CASE WHEN balance_decimal - held_decimal < overdraft_limit_decimal THEN 1 ELSE 0 END) AS below_limit
FROM accounts GROUP BY currency, status ORDER BY currency, status
