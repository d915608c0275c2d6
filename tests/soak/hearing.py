"""A consumer that hears everything: each entry was told of, and gaps in what it heard are found and closed.

It loses some events on purpose, as a consumer that is down for longer than its queue keeps them.
"""

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.checkers import event_schemas, outcomes
from tests.checkers.books import Books
from tests.soak.workload import HOT_ACCOUNT
from tests.support.deployed import Bank
from tools.local_aws.consumers import Consumer, Event
from tools.local_aws.queues import DeadLetter

CLAIMS = (
    *outcomes.CLAIMS,
    *event_schemas.CLAIMS,
    "no entry was given up",
    "a consumer that lost events finds the gaps by the versions, and all are closed by publishing again",
)
FORGOTTEN_ACCOUNTS = 10
"""Of so many accounts, and of the hot one, the consumer loses events."""
LOST_RUN_SHARE, LONGEST_LOST_RUN = 0.02, 20
"""The share of events at which a run of lost ones begins, and how many these are at most."""
LONGEST_SILENCE_SECONDS = 60


@dataclass(frozen=True)
class Hearing:
    """The events that the consumer heard by the end, counted. `twice` counts events beyond the first of each entry.

    It then lost `lost` events, which left `gaps` in the versions. Publishing again brought `republished` events.
    """

    entries: int
    events: int
    twice: int
    letters: int
    letters_told: int
    lost: int
    gaps: int
    republished: int
    violations: list[str]


def hear(bank: Bank, consumer: Consumer, books: Books, letters: Sequence[DeadLetter], seed: int) -> Hearing:
    """Takes what the consumer heard, once the queues are empty. `letters` are the dead transactions."""
    events = consumer.take_until_heard(books.entries, LONGEST_SILENCE_SECONDS)
    outcomes_heard = [event for event in events if event["detail-type"] != outcomes.REFUSED]
    names = {HOT_ACCOUNT, *random.Random(seed).sample(sorted(books.journal), FORGOTTEN_ACCOUNTS)}
    entries = [entry for name in names for entry in books.journal[name]]
    kept = _some_of([event for event in outcomes_heard if event["detail"]["account_id"] in names], seed)
    gaps = [gap for name in sorted(names) for gap in _gaps(bank, name, kept)]
    republished = sum(map(bank.republish, gaps))
    kept_ids = {event["detail"]["id"] for event in kept}
    lost = [entry for entry in entries if f"{entry.account_id}#{entry.outcome.account_version}" not in kept_ids]
    again = consumer.take_until_heard(lost, LONGEST_SILENCE_SECONDS)
    return Hearing(
        entries=len(books.entries),
        events=len(outcomes_heard),
        twice=len(outcomes_heard) - len({event["detail"]["id"] for event in outcomes_heard}),
        letters=len(letters),
        letters_told=len(letters) - len(outcomes.untold(letters, events)),
        lost=len(lost),
        gaps=len(gaps),
        republished=republished,
        violations=[
            *outcomes.violations(books.entries, events),
            *outcomes.refusal_violations(letters, events),
            *event_schemas.violations([*events, *again]),
            *(f"given up: {letter}" for letter in bank.take_unpublished()),
            *(f"the gaps are closed: {sentence}" for sentence in outcomes.violations(entries, kept + again)),
            *(f"a gap is left: {gap}" for name in sorted(names) for gap in _gaps(bank, name, kept + again)),
            *([] if gaps else ["the consumer lost nothing"]),
        ],
    )


def _some_of(events: Sequence[Event], seed: int) -> list[Event]:
    """The events without some runs of entries: they are lost."""
    choose = random.Random(seed)
    by_version = sorted(events, key=lambda event: (event["detail"]["account_id"], event["detail"]["account_version"]))
    runs = itertools.groupby(by_version, key=lambda event: event["detail"]["id"])
    lost_until, kept = 0, list[Event]()
    for number, (_, same) in enumerate(runs):
        if choose.random() < LOST_RUN_SHARE:
            lost_until = number + choose.randint(1, LONGEST_LOST_RUN)
        if number >= lost_until:
            kept += same
    return kept


def _gaps(bank: Bank, account_id: str, events: Iterable[Event]) -> list[dict[str, Any]]:
    """The ranges of versions that these events don't tell of, as requests to publish them again.

    The account's newest version comes from a read of it: the last events may be lost, too.
    """
    request = {"read": "account", "account_id": account_id}
    newest = bank.invoke(bank.stack["ReadAccountsFunctionName"], request)["version"]
    details = [event["detail"] for event in events]
    heard = {detail["account_version"] for detail in details if detail["account_id"] == account_id}
    edges = [0, *sorted(heard), newest + 1]
    return [
        {"account_id": account_id, "from_version": before + 1, "to_version": after - 1}
        for before, after in itertools.pairwise(edges)
        if after > before + 1
    ]
