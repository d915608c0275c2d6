"""The loop of all writes, and what it is made of: items, conditions, requests, reads, transactions, clients."""
