"""Accounts, their transactions and journal, and profiles: a core without I/O, and around it what reads and writes."""
