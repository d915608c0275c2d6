"""A clock for objects that take one, such as `Locks`."""

START = 1_800_000_000.0


class Clock:
    """Stands still until `seconds`, the seconds since the epoch, is changed."""

    def __init__(self) -> None:
        self.seconds = START

    def __call__(self) -> float:
        return self.seconds
