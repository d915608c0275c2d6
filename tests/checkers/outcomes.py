"""The claims about outcomes' events, checked from journal entries, dead letters and events alone.

The expected events are written here a second time, from their description: nothing of the product makes them. Their
form is that of docs/schemas, which `event_schemas` checks.
`events` are as EventBridge delivers them: objects with `source`, `detail-type` and `detail`.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec.structs import asdict

from ledger.core.journal import JournalEntry
from ledger.core.reversals import Reversal
from tests.checkers import oracle
from tools.local_aws.queues import DeadLetter
from tools.local_aws.server import PROJECT

type Event = Mapping[str, Any]

CLAIMS = (
    "every journal entry is heard of at least once",
    "every event tells of a journal entry, and of what is in it",
    "an event that comes again says the same",
    "every event of a refusal tells of a dead letter: of its ids and its reason, and of nothing else in it",
)

REFUSED = "TransactionRefused"
_POSTINGS = re.findall(r"^\| `(\w+)` \| .*?posted (.*?) \|", (PROJECT / "docs" / "events.md").read_text(), re.MULTILINE)
POSTED_EVENTS = {name: detail_type for detail_type, names in _POSTINGS for name in re.findall(r"`(\w+)`", names)}
"""The detail type of a posting, by the type of its request, as docs/events.md has it."""
MAY_BE_UNREADABLE = {"INVALID_MESSAGE", "FUNCTION_KILLED", "RETRIES_EXHAUSTED"}
"""The codes of messages whose ids may not be known. Messages with other codes were decoded."""


def violations(entries: Iterable[JournalEntry], events: Iterable[Event]) -> list[str]:
    """Returns a sentence for each violated claim, but for the claim about refusals. Their events are passed over."""
    recorded = {(entry.account_id, entry.outcome.account_version): entry for entry in entries}
    heard: dict[tuple[Any, Any], list[Event]] = defaultdict(list)
    for event in events:
        if event.get("detail-type") != REFUSED:
            detail = event.get("detail", {})
            heard[detail.get("account_id"), detail.get("account_version")].append(event)
    found = [f"{_name(key)}: no event tells of {recorded[key]}" for key in recorded.keys() - heard.keys()]
    found += [f"{_name(key)}: no journal entry, but {heard[key][0]}" for key in heard.keys() - recorded.keys()]
    for key in recorded.keys() & heard.keys():
        first, *others = heard[key]
        found += (f"{_name(key)}: {difference}" for difference in _differences(first, recorded[key]))
        if any(_content(other) != _content(first) for other in others):
            found.append(f"{_name(key)}: its events differ: {[*map(_content, heard[key])]}")
    return sorted(found)


def refusal_violations(letters: Iterable[DeadLetter], events: Iterable[Event]) -> list[str]:
    """Returns a sentence for each event of a refusal that tells of none of these dead letters."""
    letters = list(letters)
    return [
        f"{detail['id']}: no such dead letter: {detail}"
        for detail in _refusals(events)
        if not any(_tells_of(detail, letter) for letter in letters)
    ]


def untold(letters: Iterable[DeadLetter], events: Iterable[Event]) -> list[str]:
    """Returns a sentence for each dead letter that no event tells of. Without faults there is none."""
    details = list(_refusals(events))
    return [
        f"no event tells of the dead letter {letter.body[:200]!r}: {letter.reason}"
        for letter in letters
        if not any(_tells_of(detail, letter) for detail in details)
    ]


def _name(key: tuple[Any, Any]) -> str:
    return "{}: version {}".format(*key)


def _content(event: Event) -> tuple[Any, ...]:
    """The event without the fields in which each event of EventBridge's is another."""
    return event.get("source"), event.get("detail-type"), event.get("detail")


def _differences(event: Event, entry: JournalEntry) -> Iterator[str]:
    detail, outcome = event["detail"], entry.outcome
    expected = {
        "id": f"{entry.account_id}#{outcome.account_version}",
        "home_account_id": entry.home_account_id,
        "transaction_id": entry.transaction_id,
        "sent": asdict(entry.sender.sent),
        "rules": entry.rules,
        "seal": entry.seal,
        "status": outcome.status,
        "reason": outcome.reason,
        "posted_at": outcome.posted_at,
        "currency": outcome.currency,
        "request": entry.request,
    }
    for field, value in expected.items():
        if field not in detail or detail[field] != value:
            yield f"{field} should be {value!r}, and is {detail.get(field)!r}"
    numbers = {name: (detail.get(name), getattr(outcome, name)) for name in ("amount", "balance_after", "held_after")}
    if outcome.reversal:
        told = detail.get("reversal", {}).get("reversed_after")
        numbers["reversal.reversed_after"] = told, outcome.reversal.reversed_after
    exceeded = {"limit": outcome.exceeded.limit, "left": f"{outcome.exceeded.left:f}"} if outcome.exceeded else None
    if detail.get("exceeded") != exceeded:
        yield f"exceeded should be {exceeded}, and is {detail.get('exceeded')}"
    yield from _reversal_differences(detail, outcome.reversal)
    for field in ("decimal_places", "rejecting_account_id"):
        if detail.get(field) != getattr(outcome, field):
            yield f"{field} should be {getattr(outcome, field)!r}, and is {detail.get(field)!r}"
    for field, (text, number) in numbers.items():
        if not isinstance(text, str) or Decimal(text) != number:
            yield f"{field} should be {number:f}, and is {text!r}"
    detail_type = "TransactionRejected" if outcome.status == "REJECTED" else POSTED_EVENTS.get(entry.request["type"])
    if event.get("detail-type") != detail_type:
        yield f"detail-type should be {detail_type!r}, and is {event.get('detail-type')!r}"


def _reversal_differences(detail: Mapping[str, Any], reversal: Reversal | None) -> Iterator[str]:
    """The differences beside the amount."""
    if reversal is None:
        if "reversal" in detail:
            yield f"reversal should be absent, and is {detail['reversal']!r}"
        return
    told = {name: value for name, value in detail.get("reversal", {}).items() if name != "reversed_after"}
    expected: dict[str, Any] = {"number": reversal.number}
    if reversal.other_account_ids:
        expected["other_account_ids"] = list(reversal.other_account_ids)
    if told != expected:
        yield f"reversal should have {expected!r}, and has {told!r}"


def _refusals(events: Iterable[Event]) -> Iterator[Mapping[str, Any]]:
    return (event["detail"] for event in events if event.get("detail-type") == REFUSED)


def _tells_of(detail: Mapping[str, Any], letter: DeadLetter) -> bool:
    """The dead letter's reason may say more: which message attributes found no room."""
    if letter.attributes.get("reason_code") != detail["reason_code"]:
        return False
    ids = (detail["transaction_id"], detail["account_ids"])
    are_unknown = ids == (None, []) and detail["reason_code"] in MAY_BE_UNREADABLE
    return (letter.reason or "").startswith(detail["reason"]) and (are_unknown or ids == _ids(letter.body))


def _ids(body: str) -> tuple[Any, Sequence[Any]]:
    """The ids in a message as far as they are texts of a possible length, each account's once.

    (None, []) if the body isn't an object.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None, []
    if not isinstance(message, dict):
        return None, []
    fields = dict.fromkeys(field for fields in oracle.ACCOUNT_FIELDS.values() for field in fields)
    transaction_id, *account_ids = (message.get(field) for field in ("transaction_id", *fields))
    legs = message.get("legs")
    legs = [leg for leg in legs if isinstance(leg, dict)][:20] if isinstance(legs, list) else []
    account_ids += [leg.get("account_id") for leg in legs]
    return (transaction_id if _is_id(transaction_id) else None), [*dict.fromkeys(filter(_is_id, account_ids))]


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 128
