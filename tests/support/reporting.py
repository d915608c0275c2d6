"""What long tests say of themselves."""

from collections.abc import Callable

type Say = Callable[[str], object]
"""How far a test has come, or what it did: shown now, or its last word when all is over if workers run in parallel."""
