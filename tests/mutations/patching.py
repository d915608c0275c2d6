"""Applies a breakage to a file's text."""

from tests.mutations.breakages import Breakage


def patched(text: str, breakage: Breakage) -> str:
    """Raises ValueError unless the breakage's old text occurs once. If the product changes, its breakages must, too."""
    found = text.count(breakage.old)
    if found != 1:
        raise ValueError(f"{breakage.what}: found {found} times in {breakage.path}, expected once: {breakage.old!r}")
    return text.replace(breakage.old, breakage.new)
