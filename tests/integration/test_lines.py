"""The line before a contended account: requests, the order of turns, and patience."""

import itertools
from collections.abc import Iterator
from decimal import Decimal
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ReadTimeoutError

from conditional_writes.items import Item, from_dynamodb, to_dynamodb
from ledger.lines import LONGEST_LINE, LONGEST_LIVE_LINE, RECORD_SECONDS, Ticket
from ledger.tables import CONTENDED_SECONDS, Line
from tests.checkers.books import read_books, violations
from tests.support.clock import START, Clock, clock_of_lines, plenty
from tools.local_aws.functions import invoke, process_transactions, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, create_locks_table, scan

OPEN = {"type": "open_account", "transaction_id": "open", "currency": "EUR"}
READ, TICKET, LOOK, COMMIT = "BatchGetItem", "UpdateItem Locks", "GetItem", "TransactWriteItems"
MARK = LEAVE = "UpdateItem Accounts"


def payment(transaction_id: str, account_id: str = "alice", amount: int = 1) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "account_id": account_id, "amount": amount}


def transfer(transaction_id: str, payer: str, payee: str) -> dict[str, Any]:
    accounts = {"from_account_id": payer, "to_account_id": payee}
    return {"type": "transfer", "transaction_id": transaction_id, "amount": 1} | accounts


class Ledger:
    """Two workers of the same tables, with alice's and bob's accounts. `calls` has the requests of the first."""

    def __init__(self, aws: Endpoint, dynamodb: Endpoint, tables: Tables, clock: Clock) -> None:
        self.dynamodb, self.tables, self.clock = dynamodb, tables, clock
        self.locks_table = create_locks_table(dynamodb, tables.accounts)
        self.worker, self.other = (
            process_transactions(aws, tables, dynamodb, LOCKS_TABLE=self.locks_table) for _ in range(2)
        )
        self.deliver(*(OPEN | {"account_id": name, "overdraft_limit": -100} for name in ("alice", "bob")))
        self.calls: list[str] = []
        self.worker.poster.client.meta.events.register("before-call", self._note)

    def _note(self, model: Any, params: dict[str, Any], **_: object) -> None:
        tables = {self.locks_table: "Locks", self.tables.accounts: "Accounts"}
        body = params["body"].decode() if isinstance(params["body"], bytes) else params["body"]
        table = next(of for name, of in tables.items() if f'"{name}"' in body) if model.name == "UpdateItem" else ""
        self.calls.append(f"{model.name} {table}".strip())

    def deliver(self, *messages: dict[str, Any], worker: ModuleType | None = None) -> None:
        assert not self.returned(*messages, worker=worker)

    def returned(self, *messages: dict[str, Any], worker: ModuleType | None = None) -> set[str]:
        """Delivers the messages. Returns the ids of those that go back to the queue."""
        return invoke(worker or self.worker, [record(message) for message in messages])

    def requests_of(self, *messages: dict[str, Any]) -> list[str]:
        """The requests that these messages take."""
        self.calls.clear()
        self.deliver(*messages)
        return list(self.calls)

    def before_commits(self, *messages: dict[str, Any], without_a_line: bool = False) -> None:
        """Before each of the next commits the other worker posts one of these messages."""
        left = iter(messages)

        def before(**_: Any) -> None:
            message = next(left, None)
            if message and without_a_line:
                self.post_without_a_line(message)
            elif message:
                self.deliver(message, worker=self.other)

        self.worker.poster.client.meta.events.register("before-call.dynamodb.TransactWriteItems", before)

    def post_without_a_line(self, *messages: dict[str, Any]) -> None:
        """Lets the other worker post these messages, as if the accounts were quiet."""
        quiet = property(lambda line: False)
        with mock.patch("ledger.tables.Line.is_contended", quiet):
            self.deliver(*messages, worker=self.other)

    def set_line(self, account_id: str = "alice", **attributes: Any) -> None:
        """Changes attributes of the account's item. By default the account is contended."""
        contended = {"contended_until": round((self.clock() + CONTENDED_SECONDS) * 1000)}
        item = self.account(account_id) | contended | attributes
        self.dynamodb.client("dynamodb").put_item(TableName=self.tables.accounts, Item=to_dynamodb(item))

    def set_last_ticket(self, number: object, account_id: str = "alice") -> None:
        item = {"lock_key": f"line {account_id}", "last_ticket": number}
        self.dynamodb.client("dynamodb").put_item(TableName=self.locks_table, Item=to_dynamodb(item))

    def account(self, account_id: str = "alice") -> Item:
        items = map(from_dynamodb, scan(self.dynamodb, self.tables.accounts))
        return next(item for item in items if item["account_id"] == account_id)

    def records(self) -> dict[str, Item]:
        items = map(from_dynamodb, scan(self.dynamodb, self.locks_table))
        return {item["lock_key"]: item for item in items}


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    with clock_of_lines(clock):
        yield clock


@pytest.fixture
def ledger(ministack: Endpoint, dynamodb: Endpoint, tables: Tables, clock: Clock) -> Iterator[Ledger]:
    ledger = Ledger(ministack, dynamodb, tables, clock)
    yield ledger
    assert not violations(read_books(dynamodb, tables))


def test_a_quiet_account_takes_no_request_more_and_has_no_line(ledger: Ledger) -> None:
    assert ledger.requests_of(payment("1"), payment("2")) == [READ, COMMIT]
    assert not ledger.records()
    assert not {"ticket_served", "contended_until"} & ledger.account().keys()


def test_after_a_lost_commit_the_next_try_is_made_at_once(ledger: Ledger) -> None:
    ledger.before_commits(payment("theirs"))
    assert ledger.requests_of(payment("ours")) == [READ, COMMIT, COMMIT]
    assert not ledger.records()
    assert not {"ticket_served", "contended_until"} & ledger.account().keys()


def test_after_a_second_lost_commit_the_account_is_contended_and_the_next_try_has_a_ticket(ledger: Ledger) -> None:
    ledger.before_commits(payment("1"), payment("2"))
    assert ledger.requests_of(payment("ours")) == [READ, COMMIT, COMMIT, MARK, TICKET, LOOK, COMMIT]
    account, record = ledger.account(), ledger.records()["line alice"]
    assert account["contended_until"] == (START + CONTENDED_SECONDS) * 1000
    assert account["ticket_served"] == record["last_ticket"] == 1
    assert record["expires_at"] == START + RECORD_SECONDS


def test_if_nobody_is_ahead_a_contended_account_takes_a_ticket_and_a_look_more(ledger: Ledger) -> None:
    ledger.set_line()
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT]
    assert ledger.requests_of(payment("2"), payment("3")) == [READ, TICKET, LOOK, COMMIT]
    assert ledger.account()["ticket_served"] == 2


def test_contention_ends_if_for_its_time_no_commit_was_lost_and_none_had_to_wait(ledger: Ledger) -> None:
    ledger.before_commits(payment("theirs"), payment("theirs, too"))
    ledger.deliver(payment("ours"))
    ledger.clock.seconds += CONTENDED_SECONDS - 1
    assert TICKET in ledger.requests_of(payment("1"))
    ledger.clock.seconds += 1
    assert ledger.requests_of(payment("2")) == [READ, COMMIT]


def test_a_commit_that_waited_keeps_the_account_contended(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.set_last_ticket(1)
    ledger.clock.seconds += CONTENDED_SECONDS - 1
    ledger.deliver(payment("1"))
    assert ledger.account()["contended_until"] == round((ledger.clock() + CONTENDED_SECONDS) * 1000)


def test_a_ticket_whose_holder_is_dead_is_waited_for_until_patience_ends(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.set_last_ticket(1)
    assert ledger.requests_of(payment("1")) == [READ, TICKET, *[LOOK] * 4, COMMIT]
    assert ledger.clock() == START + 0.375
    assert ledger.requests_of(payment("2")) == [READ, TICKET, LOOK, COMMIT], "the line went on from the ticket after it"


def test_many_dead_holders_are_waited_for_two_seconds_at_most(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.set_last_ticket(LONGEST_LINE - 1)
    ledger.deliver(payment("1"))
    assert START + 1.5 <= ledger.clock() < START + 2
    assert ledger.account()["ticket_served"] == LONGEST_LINE


def test_the_look_that_ends_the_wait_is_what_the_commit_starts_from(ledger: Ledger) -> None:
    """The ticket ahead is served before the second look."""
    ledger.set_line()
    ledger.set_last_ticket(1)
    looks = iter([lambda: None, lambda: ledger.set_line(ticket_served=1)])
    ledger.worker.poster.client.meta.events.register(
        "before-call.dynamodb.GetItem", lambda **_: next(looks, lambda: None)()
    )
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, LOOK, COMMIT]
    assert ledger.account()["ticket_served"] == 2


def test_a_line_that_moves_is_waited_in(ledger: Ledger) -> None:
    """Each of three turns ahead ends at the second look at it, and so within the patience for one ticket."""
    ledger.set_line()
    ledger.set_last_ticket(3)
    looks, turns = itertools.count(1), iter([1, 2, 3])

    def look(**_: Any) -> None:
        if next(looks) % 2 == 0:
            turn = next(turns)
            ledger.post_without_a_line(payment(f"theirs-{turn}"))
            ledger.set_line(ticket_served=turn)

    ledger.worker.poster.client.meta.events.register("before-call.dynamodb.GetItem", look)
    assert ledger.requests_of(payment("1")) == [READ, TICKET, *[LOOK] * 6, COMMIT]
    assert ledger.account()["ticket_served"] == 4


def test_a_turn_that_is_stolen_without_a_ticket_is_still_the_groups(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.before_commits(payment("theirs"), without_a_line=True)
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT, LOOK, COMMIT]
    assert ledger.account()["ticket_served"] == 1


def test_a_turn_that_the_next_in_line_takes_doesnt_set_the_line_back(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.before_commits(payment("theirs"))
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT, TICKET, LOOK, COMMIT]
    assert ledger.account()["ticket_served"] == 3
    assert ledger.requests_of(payment("2")) == [READ, TICKET, LOOK, COMMIT]


def test_a_late_commit_leaves_the_number_of_a_later_ticket_as_it_is() -> None:
    assert Ticket(5).served(Line(ticket_served=7)) == {"ticket_served": 7}
    assert Ticket(5).served(Line(ticket_served=4)) == {"ticket_served": 5}
    assert Ticket(5).served(Line(ticket_served=5_000)) == {"ticket_served": 5}, "tickets began anew"


def test_if_nothing_is_left_to_write_the_turn_is_given_up(ledger: Ledger) -> None:
    ledger.deliver(payment("1"))
    ledger.set_line()
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT, LEAVE]
    assert ledger.requests_of(payment("2")) == [READ, TICKET, LOOK, COMMIT]


def test_the_last_of_several_commits_serves_the_ticket(ledger: Ledger) -> None:
    ledger.set_line()
    served = []
    ledger.worker.poster.client.meta.events.register(
        "before-call.dynamodb.TransactWriteItems", lambda **_: served.append(ledger.account().get("ticket_served", 0))
    )
    batch = [payment(str(number)) for number in range(150)]
    assert ledger.requests_of(*batch) == [READ, TICKET, LOOK, COMMIT, COMMIT]
    assert served == [0, 0]
    assert ledger.account()["ticket_served"] == 1


def test_a_line_begins_anew_with_its_record(ledger: Ledger) -> None:
    """DynamoDB's TTL has removed it."""
    ledger.set_line(ticket_served=5_000)
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT]
    assert ledger.account()["ticket_served"] == 1


def test_messages_go_back_to_the_queue_if_too_many_tickets_are_ahead(ledger: Ledger) -> None:
    ledger.set_line(ticket_served=7)
    ledger.set_last_ticket(7 + LONGEST_LINE + 1)
    assert len(ledger.returned(payment("1"), payment("2", "bob"))) == 1, "bob's account is quiet"
    assert ledger.records()["line alice"]["last_ticket"] == 7 + LONGEST_LINE + 1
    ledger.set_last_ticket(7 + LONGEST_LINE)
    ledger.deliver(payment("1"))
    assert ledger.account()["ticket_served"] == 7 + LONGEST_LINE + 1


def test_a_worker_that_lost_two_commits_ends_a_line_that_is_too_long(ledger: Ledger) -> None:
    ledger.set_last_ticket(1_000)
    ledger.before_commits(payment("theirs"), payment("theirs, too"))
    ledger.deliver(payment("ours"))
    assert ledger.account()["ticket_served"] == 1_001


def test_a_transfer_between_two_contended_accounts_waits_in_one_line_the_same_for_all(ledger: Ledger) -> None:
    ledger.set_line("alice")
    ledger.set_line("bob")
    assert ledger.requests_of(transfer("1", "bob", "alice")) == [READ, TICKET, LOOK, COMMIT]
    assert ledger.requests_of(transfer("2", "alice", "bob")) == [READ, TICKET, LOOK, COMMIT]
    assert ledger.records().keys() == {"line alice"}
    assert ledger.account("alice")["ticket_served"] == 2
    assert "ticket_served" not in ledger.account("bob")


def test_after_a_wait_the_other_accounts_of_the_group_are_read_again(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.set_last_ticket(1)
    looks = iter([lambda: None, lambda: ledger.deliver(payment("theirs", "bob"), worker=ledger.other)])
    ledger.worker.poster.client.meta.events.register(
        "before-call.dynamodb.GetItem", lambda **_: next(looks, lambda: None)()
    )
    assert ledger.requests_of(transfer("1", "bob", "alice")) == [READ, TICKET, *[LOOK] * 4, READ, COMMIT]


def test_a_quiet_account_doesnt_wait_for_a_contended_one_in_its_batch(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.set_last_ticket(1)
    assert ledger.requests_of(payment("1"), payment("1", "bob"))[:2] == [READ, COMMIT]


@pytest.mark.parametrize(
    "attributes",
    [
        {"contended_until": int(START + 3 * CONTENDED_SECONDS) * 1000},
        {"contended_until": int(START) * 1000},
        {"contended_until": "soon"},
        {"ticket_served": "the last"},
        {"ticket_served": None},
        {"ticket_served": Decimal("1E+100")},
        {"ticket_served": -1},
    ],
    ids=["a clock ahead", "a clock behind", "a text", "a served ticket's text", "none", "too large", "negative"],
)
def test_an_account_with_a_wrong_line_is_as_a_quiet_one(ledger: Ledger, attributes: dict[str, Any]) -> None:
    ledger.set_line(**attributes)
    assert ledger.requests_of(payment("1")) == [READ, COMMIT]


@pytest.mark.parametrize("last_ticket", ["the last", 7 + LONGEST_LIVE_LINE + 1, Decimal("1E+100")])
def test_if_the_record_of_a_line_is_damaged_a_group_commits_without_a_turn(ledger: Ledger, last_ticket: Any) -> None:
    ledger.set_line(ticket_served=7)
    ledger.set_last_ticket(last_ticket)
    assert ledger.requests_of(payment("1")) == [READ, TICKET, COMMIT]


def test_lost_commits_repair_a_wrong_line(ledger: Ledger) -> None:
    ledger.set_line(contended_until="soon", ticket_served="the last")
    ledger.before_commits(payment("theirs"), payment("theirs, too"))
    assert ledger.requests_of(payment("ours")) == [READ, COMMIT, COMMIT, MARK, TICKET, LOOK, COMMIT]
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT]


def test_a_ticket_that_cant_be_taken_is_one_line_in_the_log(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    def time_out(**_: Any) -> None:
        raise ReadTimeoutError(endpoint_url="DynamoDB")

    lines, alice = ledger.worker.poster.lines, ledger.worker.tables.account_key("alice")
    lines.client.meta.events.register("before-call.dynamodb.UpdateItem", time_out)
    caplog.clear()
    assert lines.take_ticket(alice, Line(), plenty()) is None
    [line] = (line for line in caplog.records if line.name == "ledger.lines")
    assert line.getMessage() == 'could not take a ticket of account alice: Read timeout on endpoint URL: "DynamoDB"'
    assert line.exc_info is None
