"""Lambda's side of a worker: SQS batches, dead letters, redelivery, sending, scheduled jobs, the staged record."""
