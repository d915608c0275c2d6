"""`teller verify`: shows on a deployed stack that it does what the README says, step by step, on accounts of its own."""
