"""Checkers of the invariants: a module for books, histories, profiles and jobs, each with its test; and the oracle."""
