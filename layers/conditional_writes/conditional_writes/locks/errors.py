"""The errors of locks."""

from datetime import datetime

from conditional_writes.core.items import Item


class LockTaken(Exception):
    """Another holder has the lock. `holder` says who, where, why and since when; `leased_until` when its lease ends."""

    def __init__(self, name: str, holder: Item, leased_until: datetime) -> None:
        super().__init__(name, holder, leased_until)
        self.name, self.holder, self.leased_until = name, holder, leased_until

    def __str__(self) -> str:
        return f"lock {self.name!r} is taken until {self.leased_until.isoformat()}: {described(self.holder)}"


class WindowDone(Exception):
    """The window was completed before."""

    def __init__(self, name: str, window: str) -> None:
        super().__init__(name, window)
        self.name, self.window = name, window

    def __str__(self) -> str:
        return f"lock {self.name!r}: window {self.window} was done before"


class WindowForgotten(Exception):
    """The window isn't remembered, and isn't later than the latest forgotten one: it may have been completed, or not.

    `latest_forgotten` is that window. The block doesn't run.
    """

    def __init__(self, name: str, window: str, latest_forgotten: str) -> None:
        super().__init__(name, window, latest_forgotten)
        self.name, self.window, self.latest_forgotten = name, window, latest_forgotten

    def __str__(self) -> str:
        return (
            f"lock {self.name!r}: window {self.window} isn't remembered, and isn't later than {self.latest_forgotten}, "
            "the latest forgotten one: it may have been done. Windows must sort as texts by time: use ISO dates"
        )


class LockLost(Exception):
    """This holder doesn't have the lock any more. `holder` is the holder that took the lock over.

    `holder` is None if the lock was released, or if its record was deleted.
    """

    def __init__(self, name: str, token: int, holder: Item | None, why: str) -> None:
        super().__init__(name, token, holder, why)
        self.name, self.token, self.holder, self.why = name, token, holder, why

    def __str__(self) -> str:
        return f"lock {self.name!r} with token {self.token} was lost; {self.why}"


class LockUnreadable(Exception):
    """The lock's record isn't one that a lock has written. Nobody gets the lock until the record is mended or deleted.

    `why` names the attribute.
    """

    def __init__(self, name: str, table: str, why: str) -> None:
        super().__init__(name, table, why)
        self.name, self.table, self.why = name, table, why

    def __str__(self) -> str:
        return f"lock {self.name!r}: its record in the table {self.table} can't be read; {self.why}"


def described(holder: Item) -> str:
    """The holder's fields, in a fixed order: DynamoDB returns them in any."""
    said = [f"{name} {holder[name]}" for name in ("who", "where", "why", "since") if name in holder]
    return ", ".join(said) or "its record doesn't say by whom"
