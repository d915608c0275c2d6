-- The open holds as they were read, the oldest first. An imported one has no entry, and so no placed_at.
SELECT holds.account_id, holds.hold_id, holds.remaining, holds.expires_at, journal.posted_at AS placed_at
FROM holds LEFT JOIN journal
  ON journal.account_id = holds.account_id AND journal.transaction_id = holds.hold_id AND journal.type = 'hold'
  AND journal.status = 'POSTED'
ORDER BY journal.posted_at NULLS FIRST, holds.account_id, holds.hold_id
