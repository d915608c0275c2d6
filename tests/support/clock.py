"""A clock for what takes one, such as `Locks`."""

START = 1_800_000_000.0


class Clock:
    """Stands still until it is told otherwise. In seconds since the epoch."""

    def __init__(self) -> None:
        self.seconds = START

    def __call__(self) -> float:
        return self.seconds
