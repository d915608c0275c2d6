"""The sample events of each function, run in order: each has the effect that its name says.

They are run by the handlers in this process, and by `sam local invoke` in Lambda's container.
"""

import itertools
import re

import pytest

from tests.checkers.books import violations
from tests.e2e.event_runner import Effect, in_process, sam_local_invoke
from tests.support.template import FOLDERS
from tools.local_aws.server import PROJECT

# The build, the deployment and a container for each event take some two minutes.
pytestmark = pytest.mark.timeout(900)

EVENTS = {f"{path.parent.name}/{path.stem}": path for path in sorted((PROJECT / "events").glob("*/*.json"))}

EXPECTED_TEXT = """
process_transactions/01-open-accounts: 3 POSTED
process_transactions/02-one-posting: POSTED
process_transactions/03-duplicate: 2 repeated
process_transactions/04-batch: 8 POSTED
process_transactions/05-overdraw: OVERDRAFT_LIMIT
process_transactions/06-currency-mismatch: CURRENCY_MISMATCH
process_transactions/07-limit-change: POSTED
process_transactions/08-into-the-limit: POSTED
process_transactions/09-limit-above-the-balance: OVERDRAFT_LIMIT
process_transactions/10-close-with-balance: BALANCE_NOT_ZERO
process_transactions/11-down-to-zero: POSTED
process_transactions/12-close-at-zero: POSTED
process_transactions/13-closed-account: ACCOUNT_CLOSED
process_transactions/14-account-exists: ACCOUNT_EXISTS
process_transactions/15-junk-among-good: POSTED, 16 INVALID_MESSAGE, POSTED
process_transactions/16-id-used-before: PAYLOAD_CHANGED
process_transactions/17-unknown-account: back
process_transactions/18-unknown-account-last-day: UNKNOWN_ACCOUNT
process_transactions/19-transfer: POSTED
process_transactions/20-transfer-overdraws: OVERDRAFT_LIMIT
process_transactions/21-transfer-to-oneself: INVALID_MESSAGE
process_transactions/22-into-the-overdraft: POSTED
process_transactions/23-open-more-accounts: 2 POSTED
process_transactions/24-holds: 5 POSTED
process_transactions/25-hold-above-what-is-available: OVERDRAFT_LIMIT
process_transactions/26-post-hold-in-part: POSTED
process_transactions/27-post-hold-to-a-payee: POSTED
process_transactions/28-void-hold: POSTED
process_transactions/29-hold-not-open: HOLD_NOT_OPEN
process_transactions/30-expire-hold: POSTED
process_transactions/31-reverse-in-part: POSTED
process_transactions/32-reverse-both-sides: POSTED
process_transactions/33-reverse-too-much: REVERSAL_EXCEEDED, ALREADY_REVERSED
process_transactions/34-too-many-decimals: INVALID_MESSAGE
process_transactions/35-opening-and-expiry-by-the-transactions-queue: 2 WRONG_QUEUE
process_transactions/36-payment-by-the-administration-queue: WRONG_QUEUE
process_transactions/37-ids-that-nobody-may-give: 5 INVALID_MESSAGE
process_transactions/38-freeze: POSTED
process_transactions/39-a-frozen-account: 2 ACCOUNT_FROZEN, POSTED
process_transactions/40-import-account: POSTED
process_transactions/41-an-account-with-interest: 2 POSTED
process_transactions/42-a-debt: POSTED
process_transactions/43-another-rate: POSTED
process_transactions/44-compound: POSTED, OVERDRAFT_LIMIT, INVALID_MESSAGE
process_transactions/45-limits: POSTED
process_transactions/46-a-limit-with-a-hold: LIMIT_EXCEEDED, POSTED
process_transactions/47-a-forced-debit: POSTED
process_transactions/48-a-forced-debit-by-the-transactions-queue: WRONG_QUEUE
process_transactions/49-a-pool: 2 POSTED, INVALID_MESSAGE
process_transactions/50-into-a-pool-and-out: 2 POSTED
process_transactions/51-a-hold-for-two-payees: 2 POSTED
process_transactions/52-a-compound-is-reversed: INVALID_MESSAGE, POSTED, ALREADY_REVERSED
post_transactions/01-what-would-become-of-it: posted
post_transactions/02-a-payment: posted, acc-frank s-0001=POSTED
post_transactions/03-every-state: posted, rejected, invalid, waiting, acc-frank s-0002=OVERDRAFT_LIMIT
post_transactions/04-an-opening: invalid
post_transactions/05-no-transactions: INVALID_REQUEST
post_transactions/06-by-its-url: 200, posted, acc-frank s-0003=POSTED
upsert_profiles/01-first-entries: acc-alice preferences.language="fr", acc-alice preferences.theme="dark"
upsert_profiles/02-deeper-path: acc-alice limits.card.abroad.currency="EUR", acc-alice limits.card.abroad.day=250
upsert_profiles/03-later-wins: acc-alice preferences.theme="light"
upsert_profiles/04-late-arrival: acc-alice preferences.contrast="high"
upsert_profiles/05-duplicate:
upsert_profiles/06-removal: acc-alice preferences.language=gone
upsert_profiles/07-late-for-a-removal:
upsert_profiles/08-without-as-of: acc-bob contact.phone="+33 6 39 98 02 02"
upsert_profiles/09-batch: acc-alice limits.card.abroad.day=400, acc-alice limits.card.abroad.month=2000, acc-alice
  preferences.statements.by="mail", acc-alice preferences.statements.every_days=30, acc-alice
  preferences.theme="dark", acc-bob consents.mail=true, acc-bob consents.post=true, acc-carol
  devices.tablet.model="T-8", acc-carol devices.tablet.seen=["home", "office"]
upsert_profiles/10-junk-among-good: acc-carol consents.mail=true, acc-carol preferences.theme="dark",
  14 INVALID_MESSAGE
upsert_profiles/11-entry-becomes-a-map: acc-alice preferences.contrast="low", acc-alice
  preferences.theme.accent="blue", acc-alice preferences.theme=gone
upsert_profiles/12-map-becomes-an-entry: acc-alice limits.card.abroad.currency=gone, acc-alice
  limits.card.abroad.day=gone, acc-alice limits.card.abroad.month=gone, acc-alice limits.card="blocked"
upsert_profiles/13-erasure: acc-bob consents.mail=gone, acc-bob consents.post=gone, acc-bob contact.phone=gone
upsert_profiles/14-late-for-an-erasure:
charge_overdraft_interest/01-a-month: acc-state teller:overdraft-interest-2026-01-01-0a78f395e41c1c29=a debit,
  charge_overdraft_interest 2026-01-01T00:31:00+00:00=1 sent
charge_overdraft_interest/02-the-same-month-again:
charge_overdraft_interest/03-the-next-month: charge_overdraft_interest 2026-02-01T00:31:00+00:00=0 sent
expire_holds/01-an-hour: acc-frank teller:expire-hold-9cc2b1d0ed31119c4270a68e886fa00a=POSTED,
  expire_holds 2026-01-01T00:01:00+00:00=1 sent
expire_holds/02-the-same-hour-again:
expire_holds/03-the-next-hour: expire_holds 2026-01-01T01:01:00+00:00=0 sent
reconcile_accounts/01-a-night: reconcile_accounts 2026-01-01T02:01:00+00:00=10 accounts, 0 mismatches
reconcile_accounts/02-the-same-night-again:
reconcile_accounts/03-the-next-night: reconcile_accounts 2026-01-02T02:01:00+00:00=10 accounts, 0
  mismatches
read_accounts/01-an-account: balance -450, available 50
read_accounts/02-the-last-entries: complete true, t-0040 t-0041
read_accounts/03-from-a-version-on: complete true, t-0010 t-0013
read_accounts/04-between-two-times: complete true, final false, t-0003 t-0007 t-0011
read_accounts/05-the-balance-at-a-time: balance -450, complete true, final false
read_accounts/06-the-balance-before-the-opening: complete true, final true
read_accounts/07-a-transaction: state rejected
read_accounts/08-a-transaction-that-never-came: state unknown
read_accounts/09-an-unknown-account: UNKNOWN_ACCOUNT
read_accounts/10-no-such-request: INVALID_REQUEST
read_accounts/11-a-transaction-that-was-reversed: state posted, reversed {"amount": "95", "number": 1, "reversed_by":
  "t-0074"}
publish_outcomes/01-a-batch-of-the-stream: AccountOpened, 2 TransactionPosted, TransactionRejected
publish_outcomes/02-the-same-batch-again: AccountOpened, 2 TransactionPosted, TransactionRejected
publish_outcomes/03-a-damaged-entry-among-good: TransactionPosted, NOT_AN_ENTRY
publish_outcomes/04-an-entry-that-was-changed-and-removed: ENTRY_CHANGED, ENTRY_REMOVED
republish_outcomes/01-versions-again: published 3, dead_lettered 0, AccountOpened, 2 TransactionPosted
republish_outcomes/02-since-a-time-again: published 7, dead_lettered 0, AccountClosed, AccountOpened,
  3 TransactionPosted, 2 TransactionRejected
republish_outcomes/03-of-all-accounts-since-a-time: published 0, dead_lettered 0
republish_outcomes/04-of-an-unknown-account: UNKNOWN_ACCOUNT
republish_outcomes/05-no-such-request: INVALID_REQUEST
"""
"""Each event with its effect, as `Effect` describes it; `3 POSTED` is of three records."""
EXPECTED = {
    name: " ".join(effect.split())
    for name, effect in re.findall(r"^(\S+):(.*(?:\n  .*)*)", EXPECTED_TEXT, re.MULTILINE)
}


def in_words(effect: Effect) -> str:
    numbers = ((word, len(list(same))) for word, same in itertools.groupby(effect))
    return ", ".join(word if number == 1 else f"{number} {word}" for word, number in numbers)


@pytest.fixture(scope="module", params=[in_process, sam_local_invoke], ids=lambda way: way.__name__)
def effects(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The effect of each event. All are run in the order of the expectations: in this process once more at the end."""
    with request.param(tmp_path_factory.mktemp("events")) as runner:
        times = 2 if request.param is in_process else 1
        effects = [{name: in_words(runner.run(EVENTS[name])) for name in EXPECTED} for _ in range(times)]
        assert violations(runner.books()) == []
        return effects


@pytest.mark.parametrize("event", EXPECTED)
def test_an_event_has_the_effect_that_its_name_says(effects: list[dict[str, str]], event: str) -> None:
    assert effects[0][event] == EXPECTED[event]


def test_repeated_events_change_no_table(effects: list[dict[str, str]]) -> None:
    for again in effects[1:]:
        posted = [text for name, text in again.items() if "POSTED" in text or "=" in text]
        assert posted == []


def test_every_event_has_an_expectation_and_every_function_has_events() -> None:
    assert EVENTS.keys() == EXPECTED.keys()
    assert {path.parent.name for path in EVENTS.values()} == FOLDERS.keys()
