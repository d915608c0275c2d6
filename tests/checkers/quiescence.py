"""Once the faults are over: all is done but what never can be, and all of it once more changes nothing."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import OpenAccount, decode
from tests.checkers.books import Books
from tests.checkers.history import entries_of
from tools.local_aws.queues import DeadLetter

CLAIMS = (
    "faults over, the queues drain, and what is in the dead-letter queues is poison only",
    "delivering everything again changes nothing",
)


def unsettled(waiting: Collection[str], letters: Collection[DeadLetter], books: Books) -> Iterator[str]:
    """A sentence for each body that waits, and for each letter whose transaction could be posted, or says no reason."""
    for body in waiting:
        yield f"still on the queue: {body}"
    for letter in letters:
        if not letter.reason:
            yield f"dead-lettered without a reason: {letter.body}"
        elif not _is_poison(letter.body, books):
            yield f"dead-lettered, and could be posted: {letter.body} ({letter.reason})"


def _is_poison(body: str, books: Books) -> bool:
    try:
        message = decode(body)
    except InvalidMessage:
        return True
    entries = entries_of(books)
    found = [entries.get((account_id, message.transaction_id)) for account_id in message.account_ids]
    if any(entry is not None and entry.request != message.canonical_payload() for entry in found):
        return True
    unknown = any(account_id not in books.accounts for account_id in message.account_ids)
    return unknown and not isinstance(message, OpenAccount)


def changed(before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A sentence for each item, by table, that isn't as it was before everything was delivered again."""
    for table, items in before.items():
        for item in sorted(set(items) - set(after[table])):
            yield f"{table}: delivered again, and this is gone: {item}"
        for item in sorted(set(after[table]) - set(items)):
            yield f"{table}: delivered again, and this is new: {item}"
