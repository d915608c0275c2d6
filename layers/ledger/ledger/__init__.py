"""Accounts, transactions and their rules, on DynamoDB: knows nothing of queues or of Lambda."""
