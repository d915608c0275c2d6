-- The rejected transactions by day and reason, each once, however many accounts have its entry. Parameters: from, to.
SELECT day, reason, count(CASE WHEN account_id = home_account_id THEN 1 END) AS rejections,
       count(DISTINCT account_id) AS accounts
FROM journal WHERE day BETWEEN $from AND $to AND status = 'REJECTED'
GROUP BY day, reason ORDER BY day, reason
