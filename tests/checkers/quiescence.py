"""Invariants at quiescence: only poison is left, and delivering all messages again changes nothing."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode
from tests.checkers import oracle
from tests.checkers.books import Books, journal_of, on_shards, state_in
from tests.checkers.history import entries_of
from tools.local_aws.queues import DeadLetter

CLAIMS = (
    "after the faults, the queues drain and the dead-letter queues hold only poison",
    "delivering everything again changes nothing",
)


def unfinished(waiting: Collection[str], letters: Collection[DeadLetter], books: Books) -> Iterator[str]:
    """Yields a sentence for each waiting body, and for each dead letter that could be posted or has no reason."""
    for body in waiting:
        yield f"still on the queue: {body}"
    for letter in letters:
        if not letter.reason:
            yield f"dead-lettered without a reason: {letter.body}"
        elif not _is_poison(letter.body, books):
            yield f"dead-lettered, but could be posted: {letter.body} ({letter.reason})"


def _is_poison(body: str, books: Books) -> bool:
    try:
        message = decode(body)
    except InvalidMessage:
        return True
    entries, journal, request = entries_of(books), journal_of(books), message.canonical_payload()
    placed = on_shards(request, books)
    found = list(map(entries.get, oracle.entry_ids(placed, journal)))
    if any(entry is not None and entry.request != request for entry in found):
        return True
    states = [state_in(books, account_id) for account_id in oracle.account_ids(placed, journal)]
    try:
        return oracle.effects(placed, states, journal) is None
    except oracle.Invalid:
        return True


def changed(before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yields a sentence for each item that changed when all messages were delivered again. Items are given by table."""
    for table, items in before.items():
        for item in sorted(set(items) - set(after[table])):
            yield f"{table}: a redelivery removed {item}"
        for item in sorted(set(after[table]) - set(items)):
            yield f"{table}: a redelivery added {item}"
