"""A soak of the deployed stack: many messages and scheduled jobs, while function processes are killed."""
