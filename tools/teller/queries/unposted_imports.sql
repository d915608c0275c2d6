-- The imports that were rejected, with the source's reference.
SELECT posted_at, account_id, account_version, transaction_id, source_reference, reason
FROM journal WHERE type = 'import_account' AND status = 'REJECTED' AND account_id = home_account_id
ORDER BY account_id, account_version
