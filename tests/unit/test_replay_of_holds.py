"""The replay of journals with holds, reversals and minor units: sound ones, and any damage to them."""

from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.core.accounts import Account
from ledger.core.currencies import MINOR_UNITS
from ledger.core.holds import OpenHold
from ledger.core.journal import EntryId, JournalEntry
from ledger.core.mismatches import LONGEST_SENTENCE, difference
from ledger.core.replay import Needs, Replay
from ledger.core.reversals import Reversal, Reversed
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers.books import Books
from tests.checkers.small_books import post_messages
from tests.support import samples
from tests.support.numbers import exact_numbers
from tests.support.replaying import Ledger
from tests.support.samples import ALICE, NOW, compound, hold, legs_of, opening, payment, posting, reversing, transfer
from tests.support.strategies import exact_rates, messages_of, numbered, that_refer

WHOSE = (st.sampled_from(["alice", "bob"]), st.integers(0, 40).map(lambda number: f"t-{number}"))
EVERYDAY = messages_of(*WHOSE)
EXTREME = messages_of(*WHOSE, exact_numbers(), exact_numbers().map(lambda number: -abs(number)), exact_rates())
REASONS = "OVERDRAFT_LIMIT CURRENCY_MISMATCH ACCOUNT_CLOSED BALANCE_OUT_OF_RANGE HOLD_NOT_OPEN HOLD_EXCEEDED"
UNTIL = "2026-05-01T00:00:00+00:00"


def days(messages: st.SearchStrategy[TransactionMessage], limit: str) -> st.SearchStrategy[list[TransactionMessage]]:
    """Messages of ids of their own, after the openings of two accounts, one of a currency without minor units."""
    openings: list[TransactionMessage] = [opening(limit, "XAU", account_id=name) for name in ("alice", "bob")]
    return that_refer(st.lists(messages, min_size=15, max_size=40).map(numbered)).map(lambda day: openings + day)


@given(days(EVERYDAY, "-200") | days(EXTREME, "-9.9e125"), st.data())
def test_any_history_is_sound_from_its_start_or_any_state(day: list[TransactionMessage], data: st.DataObject) -> None:
    ledger = Ledger.of(day)
    assert ledger.mismatches() == []
    since = {name: data.draw(st.sampled_from(states)) for name, states in ledger.states.items()}
    assert ledger.mismatches(since) == []


BOOKS = [
    opening("-200"),
    opening("-200", account_id="bob"),
    payment(100, transaction_id="in"),
    hold(30, "h-1", expires_at="2026-05-01T00:00:00+00:00"),
    hold(20, "h-2"),
    posting(12, final=False, to_account_id="bob", transaction_id="p-1", hold_id="h-1"),
    samples.voiding("v-1", "h-2"),
    posting(to_account_id="bob", transaction_id="p-2", hold_id="h-2"),  # Rejected.
    samples.expiring("2026-04-01T00:00:00+00:00", "e-1", "h-1"),  # Rejected.
    transfer(40, "x-1"),
    reversing("x-1", 10, "r-1"),
    reversing("x-1", 5, "r-2", account_id="bob", of_account_id="alice"),
    reversing("x-1", 100, "r-3"),  # Rejected.
    reversing("in", transaction_id="r-4"),
    reversing("r-1", transaction_id="r-5", account_id="bob", of_account_id="alice"),
    opening("-200", account_id="carol"),
    compound(("alice", -9), ("carol", 8), ("bob", 1), transaction_id="c-1"),
    reversing("c-1", transaction_id="r-6", account_id="carol", of_account_id="alice"),
    reversing("c-1", transaction_id="r-7"),  # Rejected.
    reversing("r-6", transaction_id="r-8", account_id="bob", of_account_id="carol"),
    posting(legs=legs_of(("carol", 2), ("bob", 1)), final=False, transaction_id="p-3", hold_id="h-1"),
    posting(legs=legs_of(("carol", 2), ("bob", 20)), transaction_id="p-4", hold_id="h-1"),  # Rejected.
    reversing("p-3", transaction_id="r-9", account_id="bob", of_account_id="alice"),
    samples.importing("-7.5", account_id="dave", from_account_id="bob"),
    samples.importing(1, account_id="dave", from_account_id="alice", transaction_id="again"),  # Rejected.
    reversing("import", transaction_id="r-10", account_id="bob", of_account_id="dave"),
]
NUMBERS = st.sampled_from([Decimal(0), Decimal(7), Decimal("-1e-130"), Decimal("9.9e125"), Decimal("9" * 38)])
NAMES = st.sampled_from(["alice", "bob", "carl", "", "\uffff" * 3_000])
REVERSALS = st.none() | st.builds(
    Reversal, st.sampled_from([0, 1, 2, 3, 10**120]), NUMBERS, st.lists(NAMES, max_size=19, unique=True).map(tuple)
)
DAMAGES: dict[str, st.SearchStrategy[Any]] = {
    "account_version": st.sampled_from([1, 2, 7, 99]),
    "currency": st.sampled_from(["XAU", "", "\uffff" * 3_000]),
    "posted_at": st.sampled_from(["2030-01-31T12:00:00+00:00", "9999-12-31T23:59:59-23:59", "\uffff" * 3_000]),
    "held_after": NUMBERS,
    "amount": NUMBERS,
    "balance_after": NUMBERS,
    "decimal_places": st.sampled_from([None, 0, 2, 3, 10**120]),
    "reversal": REVERSALS,
    "status": st.sampled_from(["POSTED", "REJECTED", "\uffff" * 3_000]),
    "rejecting_account_id": st.sampled_from([None, "alice", "bob", "\uffff" * 3_000]),
    "reason": st.sampled_from([None, "HOLD_NOT_OPEN", "HOLD_EXCEEDED", "REVERSAL_EXCEEDED", "\uffff" * 3_000]),
}


def test_books_with_repeated_reversals_and_open_holds_are_sound() -> None:
    ledger = Ledger.of(BOOKS)
    assert ledger.mismatches() == []
    assert (len(ledger.entries), len(ledger.reversals)) == (50, 7)
    assert ledger.accounts["alice"].open_holds == {"h-1": OpenHold(Decimal(15), "2026-05-01T00:00:00+00:00")}


class Asked(NamedTuple):
    """A ledger, and the keys that a replay has asked it for."""

    ledger: Ledger
    account_ids: set[str]
    entry_ids: set[EntryId]
    reversed_ids: set[EntryId]

    def account(self, account_id: str) -> Account | None:
        self.account_ids.add(account_id)
        return self.ledger.account(account_id)

    def entry(self, entry_id: EntryId) -> JournalEntry | None:
        self.entry_ids.add(entry_id)
        return self.ledger.entry(entry_id)

    def reversed(self, entry_id: EntryId) -> Reversed | None:
        self.reversed_ids.add(entry_id)
        return self.ledger.reversed(entry_id)


@pytest.mark.parametrize("entry", Ledger.of(BOOKS).entries.values(), ids=lambda entry: " ".join(entry.entry_id))
def test_what_an_entry_needs_is_what_its_replay_asks_for(entry: JournalEntry) -> None:
    ledger = Ledger.of(BOOKS)
    version, states = entry.outcome.account_version, ledger.states[entry.account_id]
    asked = Asked(ledger, set(), set(), set())
    replay = Replay(states[-1], states[version - 2] if version > 1 else None)
    assert list(replay.mismatches([entry], version, asked, datetime.fromisoformat(NOW))) == []
    assert [*map(set, Needs.of(entry))] == [*asked[1:]]


@pytest.mark.parametrize("request_", [{"account_id": "bob", "of_transaction_id": 1, "hold_id": 1}, {"type": "magic"}])
@pytest.mark.parametrize(("account_id", "home", "transaction_id"), [("alice", "alice", "p-2"), ("bob", "alice", "r-1")])
def test_an_entry_with_an_unreadable_request_needs_what_can_be_read_of_it(
    account_id: str, home: str, transaction_id: str, request_: dict[str, Any]
) -> None:
    entry = Ledger.of(BOOKS).entries[EntryId.on(account_id, home, transaction_id)]
    unreadable = replace(entry, request=entry.request | {"account_id": "bob"} | request_)
    others = [name for name in ("alice", "bob") if name != account_id]
    assert Needs.of(unreadable) == (others, [EntryId.on(name, home, transaction_id) for name in others], ())


def test_an_account_id_that_nobody_can_have_is_not_looked_for() -> None:
    entry = Ledger.of(BOOKS).entries[EntryId("alice", "r-4")]
    reversal = Reversal(1, Decimal(100), ("", "b" * 129, "bob"))
    damaged = replace(entry, outcome=replace(entry.outcome, reversal=reversal))
    assert [*Needs.of(damaged).account_ids] == ["bob"]


DAY = {"name": "day", "of": "debits", "per": "transaction", "amount": 50}
LIMITED = [
    *BOOKS,
    samples.limits([DAY], account_id="carol"),
    payment(-60, transaction_id="out", account_id="carol"),  # Rejected.
]
LATER = "2026-01-31T12:00:01.000+00:00"
REJECTED = {"status": "REJECTED", "reason": "OVERDRAFT_LIMIT", "amount": Decimal(0)}
DAMAGED_OUTCOMES: list[tuple[str, str, str, dict[str, Any], list[str]]] = [
    (
        *("alice", "alice", "x-1", {"posted_at": LATER}),
        [f"unlike sides: here {LATER}, on bob {NOW}"],
    ),
    (
        *("alice", "alice", "x-1", {"currency": "USD"}),
        ["unlike sides: the amounts in USD sum to -40", "wrong currency: it is USD, expected EUR"],
    ),
    ("bob", "alice", "p-2", {"currency": "USD"}, ["wrong currency: it is USD, expected EUR"]),  # a rejection's, of 0
    (
        *("alice", "alice", "x-1", REJECTED | {"rejecting_account_id": "bob"}),
        [
            "unlike sides: here REJECTED 0, OVERDRAFT_LIMIT by bob, balance 48, held 18, on bob POSTED 40, balance 52",
            "wrong decision: it is REJECTED 0, OVERDRAFT_LIMIT by bob, balance 48, held 18,"
            " expected REJECTED 0, OVERDRAFT_LIMIT by bob, balance 88, held 18",
        ],
    ),
    (
        *("alice", "alice", "c-1", REJECTED),
        [
            "unlike sides: here REJECTED 0, OVERDRAFT_LIMIT, balance -56, held 18, on carol POSTED 8, balance 8",
            "wrong decision: it is REJECTED 0, OVERDRAFT_LIMIT, balance -56, held 18,"
            " expected POSTED -9, balance -56, held 18",
        ],
    ),
    (
        *("alice", "alice", "open", {"amount": Decimal(1)}),
        ["wrong decision: it is POSTED 1, balance 0, 2 decimals, expected POSTED 0, balance 0, 2 decimals"],
    ),
    (
        *("carol", "carol", "out", {"amount": Decimal(1)}),
        [
            "wrong decision: it is REJECTED 1, LIMIT_EXCEEDED of day, left 50, balance 8,"
            " expected REJECTED 0, LIMIT_EXCEEDED of day, left 50, balance 8"
        ],
    ),
    (
        *("alice", "alice", "r-1", {"reversal": Reversal(1, Decimal(10))}),
        ["one-sided transfer: its other account is none, expected bob"],
    ),
    (
        *("alice", "alice", "r-4", {"reversal": None}),
        [
            "wrong decision: it is POSTED -100, balance -37, held 18,"
            " expected POSTED -100, balance -37, held 18, reversal 1, reversed 100"
        ],
    ),
    *(
        (
            *("alice", "bob", "r-2", {"reversal": Reversal(2, Decimal(since), ("bob",))}),
            [
                f"unlike sides: here POSTED 5, balance 63, held 18, reversal 2, reversed {since}, with bob,"
                " on bob POSTED -5, balance 37, reversal 2, reversed 15, with alice",
                f"wrong decision: it is POSTED 5, balance 63, held 18, reversal 2, reversed {since}, with bob,"
                " expected POSTED 5, balance 63, held 18, reversal 1, reversed 5, with bob",
                f"wrong reversal: of x-1 on alice it is reversal 2, reversed {since}, with bob,"
                " the table Reversals has reversal 2, reversed 15, by r-2 of version 11",
            ],
        )
        for since in (1, 5)
    ),
    (
        *("alice", "alice", "r-4", {"reversal": Reversal(1, Decimal(150))}),
        [
            "wrong decision: it is POSTED -100, balance -37, held 18, reversal 1, reversed 150,"
            " expected POSTED -100, balance -37, held 18, reversal 1, reversed 100",
            "wrong reversal: of in on alice it is reversal 1, reversed 150,"
            " the table Reversals has reversal 1, reversed 100, by r-4 of version 13",
        ],
    ),
]


@pytest.mark.parametrize(("account_id", "home", "transaction_id", "changes", "sentences"), DAMAGED_OUTCOMES)
def test_a_damaged_outcome_is_described_beside_the_expected_one(
    account_id: str, home: str, transaction_id: str, changes: dict[str, Any], sentences: list[str]
) -> None:
    entry_id = EntryId.on(account_id, home, transaction_id)
    found = Ledger.of(LIMITED).damaged(entry_id, **changes).mismatches()
    version = Ledger.of(LIMITED).entries[entry_id].outcome.account_version
    here = [each for each in found if (each.account_id, each.version) == (account_id, version)]
    about = f"version {version}, {transaction_id}: "
    assert here[0].what == "broken seal"
    assert [f"{each.what}: {each.sentence}".replace(about, "") for each in here[1:]] == sentences


@pytest.mark.parametrize(
    ("transaction_id", "changes", "reversal_id", "sentence"),
    [
        ("in", None, "r-4", "of in on alice it is reversal 1, reversed 100, the table Reversals has none"),
        (
            *("c-1", {"amount": Decimal(1)}, "r-6"),
            "of c-1 on alice it is reversal 1, reversed 9, with carol and bob,"
            " the table Reversals has reversal 1, reversed 1, by r-6 of version 16",
        ),
        (
            *("x-1", {"account_version": 14}, "r-2"),
            "of x-1 on alice it is reversal 2, reversed 15, with bob,"
            " the table Reversals has reversal 2, reversed 15, by r-2 of version 14",
        ),
        (
            *("x-1", {"number": 3}, "r-2"),
            "of x-1 on alice it is reversal 2, reversed 15, with bob,"
            " the table Reversals has reversal 3, reversed 15, by r-2 of version 11",
        ),
    ],
)
def test_what_was_reversed_is_described_beside_the_last_reversal(
    transaction_id: str, changes: dict[str, Any] | None, reversal_id: str, sentence: str
) -> None:
    ledger, at = Ledger.of(BOOKS), EntryId("alice", transaction_id)
    found = ledger.reversals.pop(at)
    damaged = {} if changes is None else {at: replace(found, **changes)}
    mismatches = ledger._replace(reversals=ledger.reversals | damaged).mismatches()
    about = f"version {found.account_version}, {reversal_id}: "
    assert about + sentence in [each.sentence for each in mismatches if each.what == "wrong reversal"]


def test_an_entry_on_an_account_that_its_request_does_not_name_is_found() -> None:
    ledger = Ledger.of(BOOKS)
    entry = ledger.entries[EntryId.on("bob", "alice", "x-1")]
    damaged = {entry.entry_id: replace(entry, request=entry.request | {"to_account_id": "carol"})}
    found = ledger._replace(entries=ledger.entries | damaged).mismatches()
    [mismatch] = [each for each in found if (each.account_id, each.what) == ("bob", "wrong request")]
    assert mismatch.sentence == "version 4, x-1: its request is that of x-1 on alice and carol"


def test_another_sum_of_what_was_reversed_is_found_on_both_sides_of_a_transfer() -> None:
    ledger = Ledger.of(BOOKS)
    ledger.reversals[EntryId("alice", "x-1")] = replace(ledger.reversals[EntryId("alice", "x-1")], amount=Decimal(1))
    found = {(each.account_id, each.version) for each in ledger.mismatches() if each.what == "wrong reversal"}
    assert found == {("alice", 11), ("alice", 12), ("bob", 6), ("bob", 7)}


def test_a_reversal_before_its_transaction_or_without_it_can_have_had_no_decision() -> None:
    ledger, rest = Ledger.of(BOOKS), "expected nothing: of_transaction_id: account 'alice' has no transaction"
    before = ledger.damaged(EntryId("alice", "in"), account_version=13).damaged(
        EntryId("alice", "r-4"), account_version=2
    )
    ledger.entries.pop(EntryId("alice", "x-1"))
    for damaged, place, transaction_id in (before, ("alice", 2), "in"), (ledger, ("bob", 5), "x-1"):
        found = [each for each in damaged.mismatches() if (each.account_id, each.version) == place]
        [sentence] = [each.sentence for each in found if each.what == "wrong decision"]
        assert sentence.endswith(f"{rest} {transaction_id!r}")


def test_a_resolution_that_is_rejected_without_a_reason_leaves_the_hold_open() -> None:
    """The replay goes on from what the entry says: the later voiding is right, if the entry is."""
    ledger = Ledger.of([opening(), payment(9), hold(5), samples.voiding("v-1")])
    found = ledger.damaged(EntryId("alice", "v-1"), status="REJECTED", reason=None, held_after=Decimal(5)).mismatches()
    assert found[-1].sentence == "held is 0, the journal gives 5; holds is empty, the journal gives h-1 of 5"


@pytest.mark.parametrize("name", ["b", "b" * 128])
def test_a_transfer_with_an_account_of_a_short_or_a_long_id_is_sound(name: str) -> None:
    assert (
        Ledger.of([opening("-9"), opening(account_id=name), transfer(3, "x-1", to_account_id=name)]).mismatches() == []
    )


def test_a_later_reversal_is_none_of_the_other_side_whatever_its_version() -> None:
    """The payee's account is at a later version than the payer's."""
    openings = [opening("-9", account_id=name) for name in ("alice", "bob")]
    busy = [payment(1, transaction_id=f"p-{number}", account_id="bob") for number in range(9)]
    reversals = [reversing("x-1", amount, f"r-{amount}") for amount in (3, 2)]
    assert Ledger.of([*openings, *busy, transfer(9, "x-1"), *reversals]).mismatches() == []


@pytest.mark.parametrize("by", [None, "alice", "bob"])
@pytest.mark.parametrize("reason", REASONS.split())
@pytest.mark.parametrize(
    ("home", "transaction_id"), [("alice", "p-1"), ("alice", "p-2"), ("alice", "x-1"), ("bob", "r-2"), ("alice", "x-2")]
)
def test_a_wrong_rejection_on_which_both_sides_agree_is_a_wrong_decision_on_one(
    home: str, transaction_id: str, reason: str, by: str | None
) -> None:
    ledger = Ledger.of([*BOOKS, transfer(500, "x-2")])
    for name in ("alice", "bob"):
        entry_id = EntryId.on(name, home, transaction_id)
        outcome = ledger.entries[entry_id].outcome
        if (outcome.reason, outcome.rejecting_account_id) == (reason, by):
            assert ledger.mismatches() == []
            return
        before = outcome.balance_after - outcome.amount
        rejected = {"status": "REJECTED", "reason": reason, "rejecting_account_id": by, "amount": Decimal(0)}
        ledger = ledger.damaged(entry_id, **rejected, balance_after=before)
    assert "wrong decision" in {mismatch.what for mismatch in ledger.mismatches()}


THREE = ("alice", "bob", "carol")
COMPOUNDS = [
    *(opening("-200", account_id=name, transaction_id="open") for name in THREE),
    compound(("alice", -40), ("bob", 39), ("carol", 1), transaction_id="c-1"),
    compound(("carol", 290), ("alice", -50), ("bob", -240), transaction_id="c-2"),  # Rejected: alice has the money.
]


def test_of_a_compound_another_amount_is_found_on_each_account_and_so_is_a_missing_entry() -> None:
    ledger = Ledger.of(COMPOUNDS)
    entry_id = EntryId.on("bob", "alice", "c-1")
    found = ledger.damaged(entry_id, amount=Decimal(40), balance_after=Decimal(40)).mismatches()
    unlike = {mismatch.account_id for mismatch in found if mismatch.what == "unlike sides"}
    assert unlike == set(THREE)
    assert "wrong decision" in {mismatch.what for mismatch in found if mismatch.account_id == "bob"}
    del ledger.entries[entry_id]
    one_sided = {mismatch.account_id for mismatch in ledger.mismatches() if mismatch.what == "one-sided transfer"}
    assert one_sided == {"alice", "carol"}


@given(st.data())
def test_any_damage_to_an_entry_is_a_mismatch_in_whole_sentences(data: st.DataObject) -> None:
    ledger = Ledger.of(BOOKS)
    entry_id = data.draw(st.sampled_from(list(ledger.entries)))
    name = data.draw(st.sampled_from(list(DAMAGES)))
    damaged = ledger.damaged(entry_id, **{name: data.draw(DAMAGES[name])})
    assume(damaged.entries != ledger.entries)
    found = damaged.mismatches()
    assert found
    for mismatch in found:
        assert len(mismatch.sentence) < LONGEST_SENTENCE + 2
        assert "Decimal(" not in mismatch.sentence
        assert "Reversal(" not in mismatch.sentence
        assert "OpenHold(" not in mismatch.sentence


@given(st.data())
def test_any_damage_to_what_was_reversed_is_a_mismatch(data: st.DataObject) -> None:
    ledger = Ledger.of(BOOKS)
    name = data.draw(st.sampled_from(["alice", "bob"]))
    transaction_id = data.draw(st.sampled_from(["x-1", "in", "c-1", "z"]))
    before = ledger.reversals.get(EntryId(name, transaction_id))
    of_numbers = st.sampled_from([0, 1, 2, 3, 10**120])
    damaged = data.draw(
        st.none()
        | st.builds(Reversed, st.just(name), st.just(transaction_id), NUMBERS, of_numbers, st.just("r-2"), st.just(11))
    )
    assume((damaged or Reversed(name, transaction_id)) != (before or Reversed(name, transaction_id)))
    assume(before or (damaged and (damaged.number or damaged.amount)))
    rest = {at: item for at, item in ledger.reversals.items() if at != (name, transaction_id)}
    planted = {EntryId(name, transaction_id): damaged} if damaged else {}
    assert ledger._replace(reversals=rest | planted).mismatches()


@pytest.mark.parametrize("entry_id", Ledger.of(BOOKS).entries, ids=" ".join)
def test_each_entry_that_is_gone_is_a_mismatch(entry_id: EntryId) -> None:
    ledger = Ledger.of(BOOKS)
    del ledger.entries[entry_id]
    assert "missing entry" in {mismatch.what for mismatch in ledger.mismatches()}


def test_the_payees_side_is_sound_if_the_payers_holds_would_not_fit() -> None:
    """The hold would need 60 digits after the posting. The payee's side knows nothing of the payer's holds."""
    openings = [opening("-1e30", currency="XAU", account_id=name) for name in ("alice", "bob")]
    part = posting("1e-30", final=False, to_account_id="bob")
    ledger = Ledger.of([*openings, hold("1e30"), part])
    assert ledger.entries[EntryId.on("bob", "alice", "p-1")].outcome.reason == "BALANCE_OUT_OF_RANGE"
    assert ledger.mismatches() == []
    assert Ledger.of([*openings, hold("1e30"), posting(to_account_id="bob")]).mismatches() == []


@pytest.mark.parametrize("today", [None, 3])
def test_an_account_is_sound_whatever_the_list_says_today(today: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """ISO 4217 drops a currency, or gives it another number, after the account was opened."""
    ledger = Ledger.of([opening(), payment("0.01", transaction_id="t-1")])
    monkeypatch.delitem(MINOR_UNITS, "EUR") if today is None else monkeypatch.setitem(MINOR_UNITS, "EUR", today)
    assert ledger.mismatches() == []


def test_an_amount_of_more_decimals_than_the_account_has_is_found() -> None:
    ledger = Ledger.of([opening(), payment("0.001", transaction_id="t-1")], minor_units=False)
    places = ledger.damaged(EntryId("alice", "open"), decimal_places=2)
    sentences = [each.sentence for each in places.mismatches() if each.what != "broken seal"]
    assert sentences == [
        "version 2, t-1: it is POSTED 0.001, balance 0.001, expected nothing: amount: 3 decimals, expected at most 2,"
        " as many as EUR has",
        "decimal_places is none, the journal gives 2",
    ]


def test_a_reversal_is_replayed_whether_or_not_the_entry_of_its_original_can_be_read() -> None:
    """If it can't, nobody knows whether bob's limit counted the transfer. The limit gets nothing back then."""
    rule = {"name": "day", "of": "credits", "per": "day", "time_zone": "UTC", "amount": 100}
    openings = [opening("-200", account_id=name) for name in ("alice", "bob")]
    books = post_messages(Books({}, {}, {}), [*openings, samples.limits([rule], "l-1", "bob")], posted_at=NOW)
    ledger = Ledger.with_books(post_messages(books, [transfer(40, "x-1"), reversing("x-1")], posted_at=LATER))
    assert [each.used for each in ledger.accounts["bob"].limits] == [0]
    assert ledger.mismatches() == []
    entry = ledger.entries.pop(EntryId("alice", "x-1"))
    assert found_of(ledger, "bob") == ["one-sided transfer", "wrong decision", "changed account"]
    damaged = ledger._replace(entries=ledger.entries | {entry.entry_id: replace(entry, request={"type": "transfer"})})
    assert found_of(damaged, "bob") == ["unlike sides", "wrong request", "changed account"]


def found_of(ledger: Ledger, account_id: str) -> list[str]:
    return [each.what for each in ledger.mismatches() if each.account_id == account_id]


def held(remaining: str, until: str | None = None, hold_id: str = "h-1") -> dict[str, OpenHold]:
    return {hold_id: OpenHold(Decimal(remaining), until)}


TWENTY, OTHERS = ({f"h-{number}": OpenHold(Decimal(number + more)) for number in range(1, 21)} for more in (0, 1))
HOLDS: list[tuple[dict[str, OpenHold] | None, dict[str, OpenHold] | None, str]] = [
    (held("5", UNTIL), held("7.50", UNTIL), f"hold h-1 is 5 until {UNTIL}, the journal gives 7.5 until {UNTIL}"),
    (held("5"), held("5", UNTIL), f"hold h-1 is 5, the journal gives 5 until {UNTIL}"),
    (held("5"), held("5", None, "h-2"), "hold h-1 is 5, the journal gives none; hold h-2 is none, the journal gives 5"),
    (None, {}, "holds is none, the journal gives empty"),
    (TWENTY, None, "holds is h-1 of 1 and h-2 of 2 and 18 more, the journal gives none"),
    (TWENTY, OTHERS, "hold h-1 is 1, the journal gives 2; hold h-2 is 2, the journal gives 3; 18 more holds differ"),
]


@pytest.mark.parametrize(("holds", "given_holds", "sentence"), HOLDS, ids=[sentence for *_, sentence in HOLDS])
def test_holds_that_differ_are_described_in_words(
    holds: dict[str, OpenHold] | None, given_holds: dict[str, OpenHold] | None, sentence: str
) -> None:
    account = replace(ALICE, holds=holds)
    assert difference(account, replace(ALICE, holds=given_holds)) == sentence
