"""Money, accounts, messages, rules and their replay, as values: nothing in this package does I/O or imports boto3."""
