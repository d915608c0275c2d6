"""A job that runs once a day, however many processes start it.

The usual code runs the job where it handles the refusal of the lock. So the job's own refused write counts as a lock
that is taken, and nobody hears of it. A failed job keeps the lock until it lapses. A job that outlives its lock writes
its result over that of the next holder.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from conditional_writes import Item, Put, dynamodb_client, key
from conditional_writes.locks import Locks, LockTaken, WindowDone

client = dynamodb_client()
locks = Locks(client, "job_locks")


def run_once(job: str, day: str, work: Callable[[], Item]) -> None:
    """Raises LockTaken, WindowDone if the day's job was done before, and the errors of `work` as they are."""
    with locks.once(job, day, lease_seconds=60, why=f"the job of {day}") as lock:
        result = Put(key("job_results", job=job, day=day), work())
        lock.complete(result)  # one transaction with the lock: LockLost, and no result, if another holder has it now


def main() -> None:
    try:
        run_once("greet user 123", f"{datetime.now(UTC):%Y-%m-%d}", lambda: {"said": "hello"})
    except (LockTaken, WindowDone) as reason:
        print(reason)


if __name__ == "__main__":
    main()
