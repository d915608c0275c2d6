-- The entries whose metadata has this value under this key. Parameters: key, value.
SELECT journal.posted_at, journal.account_id, journal.account_version, journal.transaction_id, journal.status,
       journal.amount
FROM journal JOIN metadata
  ON metadata.account_id = journal.account_id AND metadata.account_version = journal.account_version
WHERE metadata.name = $key AND metadata.value = $value
ORDER BY journal.account_id, journal.account_version
