"""Progress reports of long tests."""

from collections.abc import Callable

type Say = Callable[[str], object]
"""Reports a test's progress or result. It is printed at once, or with parallel workers the last one at the end."""
