-- The payments that a bank's file and an account's journal don't have in common, by transaction id.
-- The amounts of one id are summed, so a payment that is there twice differs. The file is a table `bank` of two columns,
-- reference and amount: with `teller query` a CSV file. Parameters: account_id, from, to.
SELECT coalesce(bank.reference, posted.transaction_id) AS reference, bank.amount AS in_the_file,
       posted.amount AS in_the_journal
FROM (SELECT reference, sum(CAST(amount AS DECIMAL(38, 10))) AS amount FROM bank GROUP BY reference) AS bank
FULL OUTER JOIN (SELECT transaction_id, sum(amount_decimal) AS amount FROM journal
                 WHERE account_id = $account_id AND day BETWEEN $from AND $to AND status = 'POSTED'
                   AND amount_decimal <> 0 GROUP BY transaction_id) AS posted
  ON posted.transaction_id = bank.reference
WHERE bank.amount IS DISTINCT FROM posted.amount
ORDER BY reference
