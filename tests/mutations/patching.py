"""Applies a breakage to a file's text."""

from tests.mutations.breakages import Breakage


def patched(text: str, breakage: Breakage) -> str:
    """Raises ValueError where the text to be broken isn't there, or not once: the breakage must follow the product."""
    found = text.count(breakage.old)
    if found != 1:
        raise ValueError(f"{breakage.what}: {breakage.path} has {found} times, expected once: {breakage.old!r}")
    return text.replace(breakage.old, breakage.new)
