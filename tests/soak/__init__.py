"""A long run of the deployed stack under faults: many messages, functions killed while they work, and the jobs."""
