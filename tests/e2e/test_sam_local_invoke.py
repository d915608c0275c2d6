"""The sample events of each function, run in order: each has the effect that its name says.

They are run by the handlers in this process, and by `sam local invoke` in Lambda's container.
"""

import hashlib
import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.event_runner import Effect, in_process, sam_local_invoke
from tests.support.template import FOLDERS
from tools.local_aws.functions import SAMPLE_JOURNAL
from tools.local_aws.server import PROJECT

# The build, the deployment and a container for each event take some two minutes.
pytestmark = pytest.mark.timeout(900)

EVENTS = {f"{path.parent.name}/{path.stem}": path for path in sorted((PROJECT / "events").glob("*/*.json"))}

LIMITS = {"card": {"abroad": {"day": 250, "currency": "EUR"}}}
RAISED_LIMITS = {"card": {"abroad": {"day": 400, "month": 2000, "currency": "EUR"}}}
LAST_PREFERENCES = {
    "theme": {"accent": "blue"},
    "contrast": "low",
    "statements": {"by": "mail", "every_days": 30},
}
"""Parts of acc-alice's profile that several events leave as they are."""

WHOLE = {"complete": True, "missing_versions": [], "next": None}
"""The end of a statement that is all that was asked for."""

OF_ERIN = {
    "acc-erin#1": "AccountOpened",
    "acc-erin#2": "TransactionPosted",
    "acc-erin#3": "TransactionRejected",
    "acc-erin#4": "TransactionPosted",
}
"""The events of the first batch of publish_outcomes: the same each time."""
ALL_PUBLISHED = {"dead_lettered": 0, "missing_versions": [], "next": []}
"""The end of an answer if nothing is left to be published again."""

EXPECTED = {
    "process_transactions/01-open-accounts": Effect(
        journal={
            "acc-alice t-0001": "POSTED 0, balance 0, version 1",
            "acc-bob t-0002": "POSTED 0, balance 0, version 1",
            "acc-carol t-0003": "POSTED 0, balance 0, version 1",
        },
        accounts={
            "acc-alice": "OPEN, balance 0 EUR, limit -500, version 1",
            "acc-bob": "OPEN, balance 0 EUR, limit 0, version 1",
            "acc-carol": "OPEN, balance 0 USD, limit 0, version 1",
        },
    ),
    "process_transactions/02-one-posting": Effect(
        journal={"acc-alice t-0004": "POSTED 2500, balance 2500, version 2"},
        accounts={"acc-alice": "OPEN, balance 2500 EUR, limit -500, version 2"},
    ),
    "process_transactions/03-duplicate": Effect(),
    "process_transactions/04-batch": Effect(
        journal={
            "acc-alice t-0006": "POSTED -850, balance 1650, version 3",
            "acc-alice t-0008": "POSTED -42.17, balance 1607.83, version 4",
            "acc-alice t-0010": "POSTED -9.99, balance 1597.84, version 5",
            "acc-bob t-0005": "POSTED 300, balance 300, version 2",
            "acc-bob t-0009": "POSTED -80, balance 220, version 3",
            "acc-carol t-0007": "POSTED 120.5, balance 120.5, version 2",
            "acc-carol t-0011": "POSTED -20.5, balance 100, version 3",
        },
        accounts={
            "acc-alice": "OPEN, balance 1597.84 EUR, limit -500, version 5",
            "acc-bob": "OPEN, balance 220 EUR, limit 0, version 3",
            "acc-carol": "OPEN, balance 100 USD, limit 0, version 3",
        },
    ),
    "process_transactions/05-overdraw": Effect(
        journal={"acc-bob t-0012": "REJECTED OVERDRAFT_LIMIT, balance 220, version 4"},
        accounts={"acc-bob": "OPEN, balance 220 EUR, limit 0, version 4"},
    ),
    "process_transactions/06-currency-mismatch": Effect(
        journal={"acc-alice t-0013": "REJECTED CURRENCY_MISMATCH, balance 1597.84, version 6"},
        accounts={"acc-alice": "OPEN, balance 1597.84 EUR, limit -500, version 6"},
    ),
    "process_transactions/07-limit-change": Effect(
        journal={
            "acc-bob t-0014": "POSTED 0, balance 220, version 5",
            "acc-bob t-0015": "POSTED -500, balance -280, version 6",
            "acc-bob t-0016": "REJECTED OVERDRAFT_LIMIT, balance -280, version 7",
        },
        accounts={"acc-bob": "OPEN, balance -280 EUR, limit -400, version 7"},
    ),
    "process_transactions/08-close-with-balance": Effect(
        journal={"acc-carol t-0017": "REJECTED BALANCE_NOT_ZERO, balance 100, version 4"},
        accounts={"acc-carol": "OPEN, balance 100 USD, limit 0, version 4"},
    ),
    "process_transactions/09-close-at-zero": Effect(
        journal={
            "acc-carol t-0018": "POSTED -100, balance 0, version 5",
            "acc-carol t-0019": "POSTED 0, balance 0, version 6",
        },
        accounts={"acc-carol": "CLOSED, balance 0 USD, limit 0, version 6"},
    ),
    "process_transactions/10-closed-account": Effect(
        journal={"acc-carol t-0020": "REJECTED ACCOUNT_CLOSED, balance 0, version 7"},
        accounts={"acc-carol": "CLOSED, balance 0 USD, limit 0, version 7"},
    ),
    "process_transactions/11-account-exists": Effect(
        journal={"acc-alice t-0021": "REJECTED ACCOUNT_EXISTS, balance 1597.84, version 7"},
        accounts={"acc-alice": "OPEN, balance 1597.84 EUR, limit -500, version 7"},
    ),
    "process_transactions/12-junk-among-good": Effect(
        journal={
            "acc-alice t-0022": "POSTED -12, balance 1585.84, version 8",
            "acc-bob t-0038": "POSTED 280, balance 0, version 8",
        },
        accounts={
            "acc-alice": "OPEN, balance 1585.84 EUR, limit -500, version 8",
            "acc-bob": "OPEN, balance 0 EUR, limit -400, version 8",
        },
        # The message classes choose the words, but must name the field.
        dead_lettered={
            1: "body: ",
            2: "body: ",
            3: "body: ",
            4: "type: ",
            5: "ammount",
            6: "amount",
            7: "currency: ",
            8: "amount: ",
            9: "amount: ",
            10: "amount: ",
            11: "amount: 39 digits, expected at most 38",
            12: "amount: ",
            13: "account_id: ",
            14: "transaction_id: ",
            15: "overdraft_limit: ",
            16: "occurred_at: ",
        },
    ),
    "process_transactions/13-id-used-before": Effect(
        dead_lettered={
            0: "transaction_id: 't-0004' was used before on account 'acc-alice' with another amount, description"
        },
    ),
    # Sent in 2100, so that it is never older than a queue's retention.
    "process_transactions/14-unknown-account": Effect(back_on_the_queue=[0]),
    "process_transactions/15-unknown-account-last-day": Effect(
        dead_lettered={0: "days on the queue: account_id: no account 'acc-dave' has been opened"},
    ),
    "process_transactions/16-transfer": Effect(
        journal={
            "acc-alice t-0040": "POSTED -85.84, balance 1500, version 9",
            "acc-bob t-0040": "POSTED 85.84, balance 85.84, version 9",
        },
        accounts={
            "acc-alice": "OPEN, balance 1500 EUR, limit -500, version 9",
            "acc-bob": "OPEN, balance 85.84 EUR, limit -400, version 9",
        },
    ),
    "process_transactions/17-transfer-overdraws": Effect(
        journal={
            "acc-alice t-0041": "REJECTED OVERDRAFT_LIMIT, balance 1500, version 10",
            "acc-bob t-0041": "REJECTED OVERDRAFT_LIMIT, balance 85.84, version 10",
        },
        accounts={
            "acc-alice": "OPEN, balance 1500 EUR, limit -500, version 10",
            "acc-bob": "OPEN, balance 85.84 EUR, limit -400, version 10",
        },
    ),
    "process_transactions/18-transfer-to-oneself": Effect(
        dead_lettered={0: "to_account_id: expected another account than from_account_id"}
    ),
    "process_transactions/19-into-the-overdraft": Effect(
        journal={"acc-alice t-0050": "POSTED -1950, balance -450, version 11"},
        accounts={"acc-alice": "OPEN, balance -450 EUR, limit -500, version 11"},
    ),
    "process_transactions/20-holds": Effect(
        journal={
            "acc-frank t-0060": "POSTED 0, balance 0, version 1",
            "acc-grace t-0061": "POSTED 0, balance 0, version 1",
            "acc-frank t-0062": "POSTED 400, balance 400, version 2",
            "acc-frank t-0063": "POSTED 0, balance 400, version 3",
            "acc-frank t-0064": "POSTED 0, balance 400, version 4",
            "acc-frank t-0065": "POSTED 0, balance 400, version 5",
            "acc-frank t-0066": "POSTED 0, balance 400, version 6",
        },
        accounts={
            "acc-frank": "OPEN, balance 400 EUR, held 390.5, limit 0, version 6",
            "acc-grace": "OPEN, balance 0 EUR, limit 0, version 1",
        },
    ),
    "process_transactions/21-hold-above-what-is-available": Effect(
        journal={
            "acc-frank t-0067": "REJECTED OVERDRAFT_LIMIT, balance 400, version 7",
        },
        accounts={
            "acc-frank": "OPEN, balance 400 EUR, held 390.5, limit 0, version 7",
        },
    ),
    "process_transactions/22-post-hold-in-part": Effect(
        journal={
            "acc-frank t-0068": "POSTED -90, balance 310, version 8",
        },
        accounts={
            "acc-frank": "OPEN, balance 310 EUR, held 300.5, limit 0, version 8",
        },
    ),
    "process_transactions/23-post-hold-to-a-payee": Effect(
        journal={
            "acc-frank t-0069": "POSTED -95, balance 215, version 9",
            "acc-grace t-0069": "POSTED 95, balance 95, version 2",
        },
        accounts={
            "acc-frank": "OPEN, balance 215 EUR, held 190.5, limit 0, version 9",
            "acc-grace": "OPEN, balance 95 EUR, limit 0, version 2",
        },
    ),
    "process_transactions/24-void-hold": Effect(
        journal={
            "acc-frank t-0070": "POSTED 0, balance 215, version 10",
        },
        accounts={
            "acc-frank": "OPEN, balance 215 EUR, held 160, limit 0, version 10",
        },
    ),
    "process_transactions/25-hold-not-open": Effect(
        journal={
            "acc-frank t-0071": "REJECTED HOLD_NOT_OPEN, balance 215, version 11",
        },
        accounts={
            "acc-frank": "OPEN, balance 215 EUR, held 160, limit 0, version 11",
        },
    ),
    "process_transactions/26-expire-hold": Effect(
        journal={
            "acc-frank t-0072": "POSTED 0, balance 215, version 12",
        },
        accounts={
            "acc-frank": "OPEN, balance 215 EUR, held 120, limit 0, version 12",
        },
    ),
    "process_transactions/27-reverse-in-part": Effect(
        journal={
            "acc-frank t-0073": "POSTED 10, balance 225, version 13",
        },
        accounts={
            "acc-frank": "OPEN, balance 225 EUR, held 120, limit 0, version 13",
        },
    ),
    "process_transactions/28-reverse-both-sides": Effect(
        journal={
            "acc-frank t-0074": "POSTED 95, balance 320, version 14",
            "acc-grace t-0074": "POSTED -95, balance 0, version 3",
        },
        accounts={
            "acc-frank": "OPEN, balance 320 EUR, held 120, limit 0, version 14",
            "acc-grace": "OPEN, balance 0 EUR, limit 0, version 3",
        },
    ),
    "process_transactions/29-reverse-too-much": Effect(
        journal={
            "acc-frank t-0075": "REJECTED REVERSAL_EXCEEDED, balance 320, version 15",
            "acc-frank t-0076": "REJECTED ALREADY_REVERSED, balance 320, version 16",
            "acc-grace t-0076": "REJECTED ALREADY_REVERSED, balance 0, version 4",
        },
        accounts={
            "acc-frank": "OPEN, balance 320 EUR, held 120, limit 0, version 16",
            "acc-grace": "OPEN, balance 0 EUR, limit 0, version 4",
        },
    ),
    "process_transactions/30-too-many-decimals": Effect(
        dead_lettered={0: "amount: 3 decimals, expected at most 2, as many as EUR has"}
    ),
    "upsert_profiles/01-first-entries": Effect(
        profiles={"acc-alice": {"preferences": {"theme": "dark", "language": "fr"}}}
    ),
    "upsert_profiles/02-deeper-path": Effect(
        profiles={"acc-alice": {"preferences": {"theme": "dark", "language": "fr"}, "limits": LIMITS}}
    ),
    "upsert_profiles/03-later-wins": Effect(
        profiles={"acc-alice": {"preferences": {"theme": "light", "language": "fr"}, "limits": LIMITS}}
    ),
    "upsert_profiles/04-late-arrival": Effect(
        profiles={
            "acc-alice": {"preferences": {"theme": "light", "language": "fr", "contrast": "high"}, "limits": LIMITS}
        }
    ),
    "upsert_profiles/05-duplicate": Effect(),
    "upsert_profiles/06-removal": Effect(
        profiles={"acc-alice": {"preferences": {"theme": "light", "contrast": "high"}, "limits": LIMITS}}
    ),
    "upsert_profiles/07-late-for-a-removal": Effect(),
    "upsert_profiles/08-without-as-of": Effect(profiles={"acc-bob": {"contact": {"phone": "+33 6 39 98 02 02"}}}),
    "upsert_profiles/09-batch": Effect(
        profiles={
            "acc-alice": {
                "preferences": {
                    "theme": "dark",
                    "contrast": "high",
                    "statements": {"by": "mail", "every_days": 30},
                },
                "limits": RAISED_LIMITS,
            },
            "acc-bob": {
                "contact": {"phone": "+33 6 39 98 02 02"},
                "consents": {"mail": True, "post": True},
            },
            "acc-carol": {"devices": {"tablet": {"model": "T-8", "seen": ["home", "office"]}}},
        },
    ),
    "upsert_profiles/10-junk-among-good": Effect(
        profiles={
            "acc-carol": {
                "devices": {"tablet": {"model": "T-8", "seen": ["home", "office"]}},
                "preferences": {"theme": "dark"},
                "consents": {"mail": True},
            }
        },
        dead_lettered={
            1: "body: ",
            2: "body: ",
            3: "account_id",
            4: "account_id: ",
            5: "set",
            6: "path: ",
            7: "path: ",
            8: "path: ",
            9: "entries: ",
            10: "a name in entries: ",
            11: "removed: expected no name that is in entries, too, got 'theme'",
            12: "entries.score: expected a finite decimal number, got NaN",
            13: "entries.score: 39 digits, expected at most 38",
            14: "as_of: ",
        },
    ),
    "upsert_profiles/11-entry-becomes-a-map": Effect(
        profiles={"acc-alice": {"preferences": LAST_PREFERENCES, "limits": RAISED_LIMITS}}
    ),
    "upsert_profiles/12-map-becomes-an-entry": Effect(
        profiles={"acc-alice": {"preferences": LAST_PREFERENCES, "limits": {"card": "blocked"}}}
    ),
    "upsert_profiles/13-erasure": Effect(profiles={"acc-bob": {}}),
    "upsert_profiles/14-late-for-an-erasure": Effect(),
    "charge_overdraft_interest/01-a-day": Effect(
        outcome="Done",
        journal={
            "acc-alice overdraft-interest-2026-01-01-67abe3db2bd7760d": "POSTED -0.15, balance -450.15, version 12"
        },
        accounts={"acc-alice": "OPEN, balance -450.15 EUR, limit -500, version 12"},
    ),
    "charge_overdraft_interest/02-the-same-day-again": Effect(outcome="DoneBefore"),
    "charge_overdraft_interest/03-the-next-day": Effect(
        outcome="Done",
        journal={
            "acc-alice overdraft-interest-2026-01-02-67abe3db2bd7760d": "POSTED -0.15, balance -450.3, version 13"
        },
        accounts={"acc-alice": "OPEN, balance -450.3 EUR, limit -500, version 13"},
    ),
    "expire_holds/01-an-hour": Effect(
        outcome="Done",
        journal={"acc-frank expire-hold-8fe8eeb9dced22bf6ca3eafaaac54fee": "POSTED 0, balance 320, version 17"},
        accounts={"acc-frank": "OPEN, balance 320 EUR, held 0, limit 0, version 17"},
    ),
    "expire_holds/02-the-same-hour-again": Effect(outcome="DoneBefore"),
    "expire_holds/03-the-next-hour": Effect(outcome="Done"),
    "reconcile_accounts/01-a-night": Effect(
        outcome="Done", reports={"reconcile_accounts 2026-01-01T02:01:00+00:00": "5 accounts, 0 mismatches"}
    ),
    "reconcile_accounts/02-the-same-night-again": Effect(outcome="DoneBefore"),
    "reconcile_accounts/03-the-next-night": Effect(
        outcome="Done", reports={"reconcile_accounts 2026-01-02T02:01:00+00:00": "5 accounts, 0 mismatches"}
    ),
    "read_accounts/01-an-account": Effect(
        answer={
            "account_id": "acc-alice",
            "balance": "-450.3",
            "held": "0",
            "available": "49.7",
            "overdraft_limit": "-500",
            "currency": "EUR",
            "decimal_places": 2,
            "status": "OPEN",
            "version": 13,
            "holds": [],
        }
    ),
    "read_accounts/02-the-last-entries": Effect(
        answer={
            "account_id": "acc-bob",
            "account_version": 10,
            "entries": [
                "t-0040: POSTED 85.84, balance 85.84, version 9",
                "t-0041: REJECTED OVERDRAFT_LIMIT, balance 85.84, version 10",
            ],
        }
        | WHOLE
    ),
    "read_accounts/03-from-a-version-on": Effect(
        answer={
            "account_id": "acc-alice",
            "account_version": 13,
            "entries": [
                "t-0010: POSTED -9.99, balance 1597.84, version 5",
                "t-0013: REJECTED CURRENCY_MISMATCH, balance 1597.84, version 6",
            ],
        }
        | WHOLE
        | {"next": {"from_version": 7, "to_version": 13}}
    ),
    "read_accounts/04-between-two-times": Effect(
        answer={
            "account_id": "acc-carol",
            "account_version": 7,
            "entries": [
                "t-0003: POSTED 0, balance 0, version 1",
                "t-0007: POSTED 120.5, balance 120.5, version 2",
                "t-0011: POSTED -20.5, balance 100, version 3",
            ],
        }
        | WHOLE
        | {"next": {"from_version": 4, "to_version": 7}, "final": False}
    ),
    "read_accounts/05-the-balance-at-a-time": Effect(
        answer={
            "account_id": "acc-alice",
            "at": "2100-01-01T00:00:00+00:00",
            "balance": "-450.3",
            "held": "0",
            "account_version": 13,
            "complete": True,
            "final": False,
        }
    ),
    "read_accounts/06-the-balance-before-the-opening": Effect(
        answer={
            "account_id": "acc-alice",
            "at": "2020-01-01T00:00:00+00:00",
            "balance": None,
            "held": None,
            "account_version": 0,
            "complete": True,
            "final": True,
        }
    ),
    "read_accounts/07-a-transaction": Effect(
        answer={
            "account_id": "acc-bob",
            "transaction_id": "t-0041",
            "state": "rejected",
            "entry": "t-0041: REJECTED OVERDRAFT_LIMIT, balance 85.84, version 10",
            "reversed": None,
            "refusal": None,
        }
    ),
    "read_accounts/08-a-transaction-that-never-came": Effect(
        answer={
            "account_id": "acc-bob",
            "transaction_id": "t-9999",
            "state": "unknown",
            "entry": None,
            "reversed": None,
            "refusal": None,
        }
    ),
    "read_accounts/09-an-unknown-account": Effect(
        answer={
            "error": {"code": "UNKNOWN_ACCOUNT", "reason": "account_id: no account 'acc-nobody' has been opened"},
        }
    ),
    "read_accounts/10-no-such-request": Effect(
        answer={
            "error": {
                "code": "INVALID_REQUEST",
                "reason": "limit: expected it with from_version or from, got it with last",
            }
        }
    ),
    "read_accounts/11-a-transaction-that-was-reversed": Effect(
        answer={
            "account_id": "acc-frank",
            "transaction_id": "t-0069",
            "state": "posted",
            "entry": "t-0069: POSTED -95, balance 215, version 9",
            "reversed": {"amount": "95", "number": 1, "reversed_by": "t-0074"},
            "refusal": None,
        }
    ),
    "publish_outcomes/01-a-batch-of-the-stream": Effect(published=OF_ERIN),
    "publish_outcomes/02-the-same-batch-again": Effect(published=OF_ERIN),
    "publish_outcomes/03-a-damaged-entry-among-good": Effect(
        published={"acc-erin#6": "TransactionPosted"}, dead_lettered={0: "status"}
    ),
    "publish_outcomes/04-an-entry-that-was-changed-and-removed": Effect(
        dead_lettered={0: "the journal entry was overwritten: amount", 1: "the journal entry was deleted"}
    ),
    "republish_outcomes/01-versions-again": Effect(
        answer={"published": 3} | ALL_PUBLISHED,
        published={
            "acc-alice#1": "AccountOpened",
            "acc-alice#2": "TransactionPosted",
            "acc-alice#3": "TransactionPosted",
        },
    ),
    "republish_outcomes/02-since-a-time-again": Effect(
        answer={"published": 7} | ALL_PUBLISHED,
        published={
            "acc-carol#1": "AccountOpened",
            "acc-carol#2": "TransactionPosted",
            "acc-carol#3": "TransactionPosted",
            "acc-carol#4": "TransactionRejected",
            "acc-carol#5": "TransactionPosted",
            "acc-carol#6": "AccountClosed",
            "acc-carol#7": "TransactionRejected",
        },
    ),
    "republish_outcomes/03-of-all-accounts-since-a-time": Effect(answer={"published": 0} | ALL_PUBLISHED),
    "republish_outcomes/04-of-an-unknown-account": Effect(
        answer={
            "error": {"code": "UNKNOWN_ACCOUNT", "reason": "account_id: no account 'acc-nobody' has been opened"},
        }
    ),
    "republish_outcomes/05-no-such-request": Effect(
        answer={
            "error": {"code": "INVALID_REQUEST", "reason": "to_version: expected 3 or more, which is from_version"},
        }
    ),
}


@pytest.fixture(scope="module", params=[in_process, sam_local_invoke], ids=lambda way: way.__name__)
def effects(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Effect]:
    """The effect of each event. All are run in the order of the expectations."""
    with request.param(tmp_path_factory.mktemp("events")) as runner:
        return {name: runner.run(EVENTS[name]) for name in EXPECTED}


@pytest.mark.parametrize("event", EXPECTED)
def test_an_event_has_the_effect_that_its_name_says(effects: dict[str, Effect], event: str) -> None:
    expected, actual = EXPECTED[event], effects[event]
    assert actual.outcome == expected.outcome
    assert actual.answer == expected.answer
    assert actual.journal == expected.journal
    assert actual.accounts == expected.accounts
    assert actual.profiles == expected.profiles
    assert actual.reports == expected.reports
    assert actual.published == expected.published
    assert actual.back_on_the_queue == expected.back_on_the_queue
    assert actual.dead_lettered.keys() == expected.dead_lettered.keys()
    for index, words in expected.dead_lettered.items():
        assert words in actual.dead_lettered[index]


def test_every_event_has_an_expectation() -> None:
    assert EVENTS.keys() == EXPECTED.keys()


def test_every_function_of_the_template_has_events() -> None:
    for folder in FOLDERS:
        assert any(name.startswith(f"{folder}/") for name in EVENTS), f"events/{folder} has no event for the function"
    assert {path.parent.name for path in EVENTS.values()} <= FOLDERS.keys()


def test_repeated_events_change_no_table(tmp_path: Path) -> None:
    with in_process(tmp_path) as runner:
        first = [runner.run(EVENTS[name]) for name in EXPECTED]
        again = [runner.run(EVENTS[name]) for name in EXPECTED]
    changed = [(effect.journal, effect.accounts, effect.profiles, effect.reports) for effect in again]
    assert changed == [({}, {}, {}, {})] * len(EVENTS)
    assert {effect.outcome for effect in again} == {None, "DoneBefore"}
    assert [(effect.published, effect.back_on_the_queue, effect.dead_lettered) for effect in again] == [
        (effect.published, effect.back_on_the_queue, effect.dead_lettered) for effect in first
    ]


def records_of(source: str) -> list[dict[str, Any]]:
    records = [record for path in EVENTS.values() for record in json.loads(path.read_text()).get("Records", [])]
    return [record for record in records if record["eventSource"] == source]


def test_records_of_the_stream_look_as_lambda_delivers_them() -> None:
    records = records_of("aws:dynamodb")
    for record in records:
        change = record["dynamodb"]
        images = [change[name] for name in ("OldImage", "NewImage") if name in change]
        assert all(change["Keys"].items() <= image.items() for image in images)
        assert change["StreamViewType"] == "NEW_AND_OLD_IMAGES"
        assert SAMPLE_JOURNAL in record["eventSourceARN"]
        assert record["eventSourceARN"].split(":")[3] == record["awsRegion"]
    deliveries = Counter(record["dynamodb"]["SequenceNumber"] for record in records)
    assert Counter(deliveries.values()) == {1: 4, 2: 4}, "one batch is delivered twice"


def test_records_look_as_lambda_delivers_them() -> None:
    records = records_of("aws:sqs")
    for record in records:
        assert str(uuid.UUID(record["messageId"])) == record["messageId"]
        assert record["md5OfBody"] == hashlib.md5(record["body"].encode()).hexdigest()
        assert record["eventSourceARN"].split(":")[3] == record["awsRegion"]
        assert all(isinstance(value, str) for value in record["attributes"].values())
        assert int(record["attributes"]["SentTimestamp"]) <= int(
            record["attributes"]["ApproximateFirstReceiveTimestamp"]
        )
    assert {count for _, count in Counter(record["receiptHandle"] for record in records).items()} == {1}
    deliveries = Counter(record["messageId"] for record in records)
    assert Counter(deliveries.values())[2] == 2, "only acc-dave's gift and acc-alice's theme are delivered twice"
    assert max(deliveries.values()) == 2
