"""`teller verify`: shows on a deployed stack that it does what the README says, on accounts of its own."""
