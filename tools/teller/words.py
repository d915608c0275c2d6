"""Numbers of things, in words."""


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """1 mismatch, 2,000 mismatches. Without a plural it is the singular with an s."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"
