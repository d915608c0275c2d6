-- The rejected transactions by day and reason. Parameters: from, to.
SELECT day, reason, count(*) AS rejections, count(DISTINCT account_id) AS accounts
FROM journal WHERE day BETWEEN $from AND $to AND status = 'REJECTED'
GROUP BY day, reason ORDER BY day, reason
