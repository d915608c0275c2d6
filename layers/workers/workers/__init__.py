"""Lambda's side of a worker: batches of SQS and streams, dead letters, redelivery, sending, events, scheduled jobs."""
