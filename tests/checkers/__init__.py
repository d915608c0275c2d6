"""What always holds, of books, profiles, jobs and histories: a module each, its test beside it; and the oracle."""
