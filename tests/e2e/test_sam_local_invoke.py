"""The sample events of each function, run in order: each has the effect that its name says.

They are run by the handlers in this process, and by `sam local invoke` in Lambda's container.
"""

import re

import pytest

from tests.e2e.event_runner import Effect, in_process, sam_local_invoke
from tests.support.template import FOLDERS
from tools.local_aws.server import PROJECT

# The build, the deployment and a container for each event take some two minutes.
pytestmark = pytest.mark.timeout(900)

EVENTS = {f"{path.parent.name}/{path.stem}": path for path in sorted((PROJECT / "events").glob("*/*.json"))}

EXPECTED_TEXT = """\
process_transactions/01-open-accounts
  account acc-alice: OPEN EUR, limit -500, held 0
  account acc-bob: OPEN EUR, limit 0, held 0
  account acc-carol: OPEN USD, limit 0, held 0
  entry acc-alice t-0001: POSTED 0, balance 0, version 1
  entry acc-bob t-0002: POSTED 0, balance 0, version 1
  entry acc-carol t-0003: POSTED 0, balance 0, version 1
process_transactions/02-one-posting
  entry acc-alice t-0004: POSTED 2500, balance 2500, version 2
process_transactions/03-duplicate
process_transactions/04-batch
  entry acc-alice t-0006: POSTED -850, balance 1650, version 3
  entry acc-alice t-0008: POSTED -42.17, balance 1607.83, version 4
  entry acc-alice t-0010: POSTED -9.99, balance 1597.84, version 5
  entry acc-bob t-0005: POSTED 300, balance 300, version 2
  entry acc-bob t-0009: POSTED -80, balance 220, version 3
  entry acc-carol t-0007: POSTED 120.5, balance 120.5, version 2
  entry acc-carol t-0011: POSTED -20.5, balance 100, version 3
process_transactions/05-overdraw
  entry acc-bob t-0012: REJECTED OVERDRAFT_LIMIT, balance 220, version 4
process_transactions/06-currency-mismatch
  entry acc-alice t-0013: REJECTED CURRENCY_MISMATCH, balance 1597.84, version 6
process_transactions/07-limit-change
  account acc-bob: OPEN EUR, limit -400, held 0
  entry acc-bob t-0014: POSTED 0, balance 220, version 5
  entry acc-bob t-0015: POSTED -500, balance -280, version 6
  entry acc-bob t-0016: REJECTED OVERDRAFT_LIMIT, balance -280, version 7
process_transactions/08-close-with-balance
  entry acc-carol t-0017: REJECTED BALANCE_NOT_ZERO, balance 100, version 4
process_transactions/09-close-at-zero
  account acc-carol: CLOSED USD, limit 0, held 0
  entry acc-carol t-0018: POSTED -100, balance 0, version 5
  entry acc-carol t-0019: POSTED 0, balance 0, version 6
process_transactions/10-closed-account
  entry acc-carol t-0020: REJECTED ACCOUNT_CLOSED, balance 0, version 7
process_transactions/11-account-exists
  entry acc-alice t-0021: REJECTED ACCOUNT_EXISTS, balance 1597.84, version 7
process_transactions/12-junk-among-good
  entry acc-alice t-0022: POSTED -12, balance 1585.84, version 8
  entry acc-bob t-0038: POSTED 280, balance 0, version 8
  dead 1: body: …
  dead 2: body: …
  dead 3: body: …
  dead 4: type: …
  dead 5: body: object contains unknown field `ammount`
  dead 6: body: object missing required field `amount`
  dead 7: currency: …
  dead 8: amount: …
  dead 9: amount: …
  dead 10: amount: …
  dead 11: amount: 39 digits, expected at most 38
  dead 12: amount: …
  dead 13: account_id: …
  dead 14: transaction_id: …
  dead 15: overdraft_limit: …
  dead 16: occurred_at: …
process_transactions/13-id-used-before
  dead 0: transaction_id: 't-0004' was used before on account 'acc-alice' with another amount, description
process_transactions/14-unknown-account
  back 0
process_transactions/15-unknown-account-last-day
  dead 0: …: account_id: no account 'acc-dave' has been opened
process_transactions/16-transfer
  entry acc-alice t-0040: POSTED -85.84, balance 1500, version 9
  entry acc-bob t-0040: POSTED 85.84, balance 85.84, version 9
process_transactions/17-transfer-overdraws
  entry acc-alice t-0041: REJECTED OVERDRAFT_LIMIT, balance 1500, version 10
  entry acc-bob t-0041: REJECTED OVERDRAFT_LIMIT, balance 85.84, version 10
process_transactions/18-transfer-to-oneself
  dead 0: to_account_id: expected another account than from_account_id
process_transactions/19-into-the-overdraft
  entry acc-alice t-0050: POSTED -1950, balance -450, version 11
process_transactions/20-holds
  account acc-frank: OPEN EUR, limit 0, held 390.5
  account acc-grace: OPEN EUR, limit 0, held 0
  entry acc-frank t-0060: POSTED 0, balance 0, version 1
  entry acc-frank t-0062: POSTED 400, balance 400, version 2
  entry acc-frank t-0063: POSTED 0, balance 400, version 3
  entry acc-frank t-0064: POSTED 0, balance 400, version 4
  entry acc-frank t-0065: POSTED 0, balance 400, version 5
  entry acc-frank t-0066: POSTED 0, balance 400, version 6
  entry acc-grace t-0061: POSTED 0, balance 0, version 1
process_transactions/21-hold-above-what-is-available
  entry acc-frank t-0067: REJECTED OVERDRAFT_LIMIT, balance 400, version 7
process_transactions/22-post-hold-in-part
  account acc-frank: OPEN EUR, limit 0, held 300.5
  entry acc-frank t-0068: POSTED -90, balance 310, version 8
process_transactions/23-post-hold-to-a-payee
  account acc-frank: OPEN EUR, limit 0, held 190.5
  entry acc-frank t-0069: POSTED -95, balance 215, version 9
  entry acc-grace t-0069: POSTED 95, balance 95, version 2
process_transactions/24-void-hold
  account acc-frank: OPEN EUR, limit 0, held 160
  entry acc-frank t-0070: POSTED 0, balance 215, version 10
process_transactions/25-hold-not-open
  entry acc-frank t-0071: REJECTED HOLD_NOT_OPEN, balance 215, version 11
process_transactions/26-expire-hold
  account acc-frank: OPEN EUR, limit 0, held 120
  entry acc-frank t-0072: POSTED 0, balance 215, version 12
process_transactions/27-reverse-in-part
  entry acc-frank t-0073: POSTED 10, balance 225, version 13
process_transactions/28-reverse-both-sides
  entry acc-frank t-0074: POSTED 95, balance 320, version 14
  entry acc-grace t-0074: POSTED -95, balance 0, version 3
process_transactions/29-reverse-too-much
  entry acc-frank t-0075: REJECTED REVERSAL_EXCEEDED, balance 320, version 15
  entry acc-frank t-0076: REJECTED ALREADY_REVERSED, balance 320, version 16
  entry acc-grace t-0076: REJECTED ALREADY_REVERSED, balance 0, version 4
process_transactions/30-too-many-decimals
  dead 0: amount: 3 decimals, expected at most 2, as many as EUR has
upsert_profiles/01-first-entries
  profile acc-alice: preferences.language: "fr"
  profile acc-alice: preferences.theme: "dark"
upsert_profiles/02-deeper-path
  profile acc-alice: limits.card.abroad.currency: "EUR"
  profile acc-alice: limits.card.abroad.day: 250
upsert_profiles/03-later-wins
  profile acc-alice: preferences.theme: "light"
upsert_profiles/04-late-arrival
  profile acc-alice: preferences.contrast: "high"
upsert_profiles/05-duplicate
upsert_profiles/06-removal
  profile acc-alice: preferences.language: gone
upsert_profiles/07-late-for-a-removal
upsert_profiles/08-without-as-of
  profile acc-bob: contact.phone: "+33 6 39 98 02 02"
upsert_profiles/09-batch
  profile acc-alice: limits.card.abroad.day: 400
  profile acc-alice: limits.card.abroad.month: 2000
  profile acc-alice: preferences.statements.by: "mail"
  profile acc-alice: preferences.statements.every_days: 30
  profile acc-alice: preferences.theme: "dark"
  profile acc-bob: consents.mail: true
  profile acc-bob: consents.post: true
  profile acc-carol: devices.tablet.model: "T-8"
  profile acc-carol: devices.tablet.seen: ["home", "office"]
upsert_profiles/10-junk-among-good
  profile acc-carol: consents.mail: true
  profile acc-carol: preferences.theme: "dark"
  dead 1: body: …
  dead 2: body: …
  dead 3: body: object missing required field `account_id`
  dead 4: account_id: …
  dead 5: body: object contains unknown field `set`
  dead 6: path: …
  dead 7: path: …
  dead 8: path: …
  dead 9: entries: …
  dead 10: a name in entries: …
  dead 11: removed: expected no name that is in entries, too, got 'theme'
  dead 12: entries.score: expected a finite decimal number, got NaN
  dead 13: entries.score: 39 digits, expected at most 38
  dead 14: as_of: …
upsert_profiles/11-entry-becomes-a-map
  profile acc-alice: preferences.contrast: "low"
  profile acc-alice: preferences.theme.accent: "blue"
  profile acc-alice: preferences.theme: gone
upsert_profiles/12-map-becomes-an-entry
  profile acc-alice: limits.card.abroad.currency: gone
  profile acc-alice: limits.card.abroad.day: gone
  profile acc-alice: limits.card.abroad.month: gone
  profile acc-alice: limits.card: "blocked"
upsert_profiles/13-erasure
  profile acc-bob: consents.mail: gone
  profile acc-bob: consents.post: gone
  profile acc-bob: contact.phone: gone
upsert_profiles/14-late-for-an-erasure
charge_overdraft_interest/01-a-day
  outcome Done
  entry acc-alice overdraft-interest-2026-01-01-67abe3db2bd7760d: POSTED -0.15, balance -450.15, version 12
charge_overdraft_interest/02-the-same-day-again
  outcome DoneBefore
charge_overdraft_interest/03-the-next-day
  outcome Done
  entry acc-alice overdraft-interest-2026-01-02-67abe3db2bd7760d: POSTED -0.15, balance -450.3, version 13
expire_holds/01-an-hour
  outcome Done
  account acc-frank: OPEN EUR, limit 0, held 0
  entry acc-frank expire-hold-8fe8eeb9dced22bf6ca3eafaaac54fee: POSTED 0, balance 320, version 17
expire_holds/02-the-same-hour-again
  outcome DoneBefore
expire_holds/03-the-next-hour
  outcome Done
reconcile_accounts/01-a-night
  outcome Done
  report of reconcile_accounts 2026-01-01T02:01:00+00:00: 5 accounts, 0 mismatches
reconcile_accounts/02-the-same-night-again
  outcome DoneBefore
reconcile_accounts/03-the-next-night
  outcome Done
  report of reconcile_accounts 2026-01-02T02:01:00+00:00: 5 accounts, 0 mismatches
read_accounts/01-an-account
  answer available=49.7 balance=-450.3 currency=EUR decimal_places=2 held=0 overdraft_limit=-500 status=OPEN version=13
read_accounts/02-the-last-entries
  answer account_version=10 complete=true
  answer's entry t-0040: POSTED 85.84, balance 85.84, version 9
  answer's entry t-0041: REJECTED OVERDRAFT_LIMIT, balance 85.84, version 10
read_accounts/03-from-a-version-on
  answer account_version=13 complete=true next={"from_version": 7, "to_version": 13}
  answer's entry t-0010: POSTED -9.99, balance 1597.84, version 5
  answer's entry t-0013: REJECTED CURRENCY_MISMATCH, balance 1597.84, version 6
read_accounts/04-between-two-times
  answer account_version=7 complete=true final=false next={"from_version": 4, "to_version": 7}
  answer's entry t-0003: POSTED 0, balance 0, version 1
  answer's entry t-0007: POSTED 120.5, balance 120.5, version 2
  answer's entry t-0011: POSTED -20.5, balance 100, version 3
read_accounts/05-the-balance-at-a-time
  answer account_version=13 at=2100-01-01T00:00:00+00:00 balance=-450.3 complete=true final=false held=0
read_accounts/06-the-balance-before-the-opening
  answer account_version=0 at=2020-01-01T00:00:00+00:00 complete=true final=true
read_accounts/07-a-transaction
  answer state=rejected transaction_id=t-0041
  answer's entry t-0041: REJECTED OVERDRAFT_LIMIT, balance 85.84, version 10
read_accounts/08-a-transaction-that-never-came
  answer state=unknown transaction_id=t-9999
read_accounts/09-an-unknown-account
  answer error={"code": "UNKNOWN_ACCOUNT", "reason": "account_id: no account 'acc-nobody' has been opened"}
read_accounts/10-no-such-request
  answer error={"code": "INVALID_REQUEST", "reason": "limit: expected it with from_version or from, got it with last"}
read_accounts/11-a-transaction-that-was-reversed
  answer reversed={"amount": "95", "number": 1, "reversed_by": "t-0074"} state=posted transaction_id=t-0069
  answer's entry t-0069: POSTED -95, balance 215, version 9
publish_outcomes/01-a-batch-of-the-stream
  event acc-erin#1: AccountOpened
  event acc-erin#2: TransactionPosted
  event acc-erin#3: TransactionRejected
  event acc-erin#4: TransactionPosted
publish_outcomes/02-the-same-batch-again
  event acc-erin#1: AccountOpened
  event acc-erin#2: TransactionPosted
  event acc-erin#3: TransactionRejected
  event acc-erin#4: TransactionPosted
publish_outcomes/03-a-damaged-entry-among-good
  event acc-erin#6: TransactionPosted
  dead 0: status: missing
publish_outcomes/04-an-entry-that-was-changed-and-removed
  dead 0: the journal entry was overwritten: amount
  dead 1: the journal entry was deleted
republish_outcomes/01-versions-again
  answer dead_lettered=0 published=3
  event acc-alice#1: AccountOpened
  event acc-alice#2: TransactionPosted
  event acc-alice#3: TransactionPosted
republish_outcomes/02-since-a-time-again
  answer dead_lettered=0 published=7
  event acc-carol#1: AccountOpened
  event acc-carol#2: TransactionPosted
  event acc-carol#3: TransactionPosted
  event acc-carol#4: TransactionRejected
  event acc-carol#5: TransactionPosted
  event acc-carol#6: AccountClosed
  event acc-carol#7: TransactionRejected
republish_outcomes/03-of-all-accounts-since-a-time
  answer dead_lettered=0 published=0
republish_outcomes/04-of-an-unknown-account
  answer error={"code": "UNKNOWN_ACCOUNT", "reason": "account_id: no account 'acc-nobody' has been opened"}
republish_outcomes/05-no-such-request
  answer error={"code": "INVALID_REQUEST", "reason": "to_version: expected 3 or more, which is from_version"}
"""
"""Each event with its effect, as `Effect` describes it. `…` stands for any words: a reason must name the field."""
EXPECTED: dict[str, list[str]] = {}
for line in EXPECTED_TEXT.splitlines():
    if line.startswith(" "):
        EXPECTED[[*EXPECTED][-1]].append(line.strip())
    else:
        EXPECTED[line] = []


def as_expected(effect: Effect, expected: list[str]) -> Effect:
    """The effect, in which what stands for any words is left out as it is in the expectation."""
    patterns = {line: re.escape(line).replace("…", ".+") for line in expected if "…" in line}
    return sorted(next((line for line in patterns if re.fullmatch(patterns[line], each)), each) for each in effect)


@pytest.fixture(scope="module", params=[in_process, sam_local_invoke], ids=lambda way: way.__name__)
def effects(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Effect]]:
    """The effect of each event. All are run in the order of the expectations: in this process once more at the end."""
    with request.param(tmp_path_factory.mktemp("events")) as runner:
        times = 2 if request.param is in_process else 1
        return [{name: runner.run(EVENTS[name]) for name in EXPECTED} for _ in range(times)]


@pytest.mark.parametrize("event", EXPECTED)
def test_an_event_has_the_effect_that_its_name_says(effects: list[dict[str, Effect]], event: str) -> None:
    expected = EXPECTED[event]
    assert as_expected(effects[0][event], expected) == sorted(expected)


def test_repeated_events_change_no_table(effects: list[dict[str, Effect]]) -> None:
    for again in effects[1:]:
        for name, effect in again.items():
            first = [line for line in EXPECTED[name] if line.startswith(("back", "dead", "event"))]
            lines = [line for line in as_expected(effect, first) if not line.startswith("answer")]
            assert lines == sorted([*first, *(["outcome DoneBefore"] if "outcome Done" in str(EXPECTED[name]) else [])])


def test_every_event_has_an_expectation() -> None:
    assert EVENTS.keys() == EXPECTED.keys()


def test_every_function_of_the_template_has_events() -> None:
    for folder in FOLDERS:
        assert any(name.startswith(f"{folder}/") for name in EVENTS), f"events/{folder} has no event for the function"
    assert {path.parent.name for path in EVENTS.values()} <= FOLDERS.keys()
