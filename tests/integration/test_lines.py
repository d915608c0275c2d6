"""The line before a contended account: requests, and the order of turns. Patience: tests/unit/test_lines.py."""

import itertools
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ReadTimeoutError

from conditional_writes.core.items import Item
from ledger.core.transaction_types import decode
from ledger.lines import LONGEST_LINE, LONGEST_LIVE_LINE, RECORD_SECONDS
from ledger.tables import CONTENDED_SECONDS, Line
from tests.checkers.books import violations
from tests.support import ledger as harness
from tests.support.bodies import Body, compound, openings, payment, transfer
from tests.support.clock import LOOK_SECONDS, START, clock_of_lines, plenty
from tests.support.folding import message_of
from tools.local_aws.server import Endpoint
from workers.queue_messages import Again, Done

READ, TICKET, LOOK, COMMIT = "BatchGetItem", "UpdateItem locks", "GetItem accounts", "TransactWriteItems"
MARK = LEAVE = "UpdateItem accounts"


class Ledger(harness.Ledger):
    """Two workers of the same tables, with alice's and bob's accounts. `calls` has the requests of the first.

    `before` has what is done before each of its next calls of an operation.
    """

    def __init__(self, aws: Endpoint, dynamodb: Endpoint) -> None:
        super().__init__(aws, dynamodb)
        self.other = self.another_worker()
        self.post(*openings("alice", "bob", limit=-100))
        self.before: dict[str, Iterator[Callable[[], object]]] = {}
        self.before_call = lambda operation, body: next(self.before.get(operation, iter(())), lambda: None)()
        self.watch(self.worker.poster.client)

    def requests_of(self, *messages: Body) -> list[str]:
        """The requests that these messages take. None of the messages goes back to the queue."""
        self.calls.clear()
        assert not self.returned(*messages)
        return [call if call in (TICKET, MARK, LOOK) else call.split()[0] for call in self.calls]

    def dispositions(self, *messages: Body) -> list[type]:
        posted = [message_of(decode(json.dumps(body))) for body in messages]
        self.worker.poster.post(posted, plenty())
        return [type(message.disposition) for message in posted]

    def before_commits(self, *messages: Body, post: Callable[[Body], object] | None = None) -> None:
        """Before each of the next commits the other worker posts one of these messages."""
        post = post or self.post_by_other
        self.before["TransactWriteItems"] = iter([lambda each=each: post(each) for each in messages])

    def post_by_other(self, message: Body) -> None:
        assert not self.returned(message, worker=self.other)

    def post_without_a_line(self, message: Body) -> None:
        """Lets the other worker post this message, as if the accounts were quiet."""
        with mock.patch("ledger.tables.Line.is_contended", property(lambda line: False)):
            self.post_by_other(message)

    def set_line(self, account_id: str = "alice", **attributes: Any) -> None:
        """Changes attributes of the account's item. By default the account is contended."""
        contended = {"contended_until": round((self.clock() + CONTENDED_SECONDS) * 1000)}
        self.put_account(account_id, **self.account_item(account_id) | contended | attributes)

    def set_last_ticket(self, number: object, account_id: str = "alice") -> None:
        self.put(self.locks_table, {"lock_key": f"line {account_id}", "last_ticket": number})

    def records(self) -> dict[str, Item]:
        return {item["lock_key"]: item for item in self.items(self.locks_table)}


def times(capsys: pytest.CaptureFixture[str]) -> dict[str, list[float]]:
    """The values in milliseconds of the metrics that were emitted last."""
    emitted = [line for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    return {name: values for name, values in json.loads(emitted[-1]).items() if name in ("LineTime", "CommitTime")}


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Iterator[Ledger]:
    ledger = Ledger(aws, dynamodb)
    with clock_of_lines(ledger.clock):
        yield ledger
    assert not violations(ledger.books)


def test_a_quiet_account_takes_no_request_more_and_has_no_line(ledger: Ledger) -> None:
    assert ledger.requests_of(payment("1"), payment("2")) == [READ, COMMIT]
    assert not ledger.records()
    assert not {"ticket_served", "contended_until"} & ledger.account_item().keys()


def test_after_a_lost_commit_the_next_try_is_made_at_once(ledger: Ledger) -> None:
    ledger.before_commits(payment("theirs"))
    assert ledger.requests_of(payment("ours")) == [READ, COMMIT, COMMIT]
    assert not ledger.records()
    assert not {"ticket_served", "contended_until"} & ledger.account_item().keys()


def test_after_a_second_lost_commit_the_account_is_contended_and_the_next_try_has_a_ticket(ledger: Ledger) -> None:
    ledger.before_commits(payment("1"), payment("2"))
    assert ledger.requests_of(payment("ours")) == [READ, COMMIT, COMMIT, MARK, TICKET, LOOK, COMMIT]
    account, record = ledger.account_item(), ledger.records()["line alice"]
    assert account["contended_until"] == (START + CONTENDED_SECONDS) * 1000
    assert account["ticket_served"] == record["last_ticket"] == 1
    assert record["expires_at"] == START + RECORD_SECONDS


def test_if_nobody_is_ahead_a_contended_account_takes_a_ticket_and_a_look_more(ledger: Ledger) -> None:
    ledger.set_line()
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT]
    assert ledger.requests_of(payment("2"), payment("3")) == [READ, TICKET, LOOK, COMMIT]
    assert ledger.account_item()["ticket_served"] == 2


def test_contention_ends_if_for_its_time_no_commit_was_lost_and_none_had_to_wait(ledger: Ledger) -> None:
    ledger.before_commits(payment("theirs"), payment("theirs, too"))
    ledger.requests_of(payment("ours"))
    ledger.clock.seconds += CONTENDED_SECONDS - 1
    assert TICKET in ledger.requests_of(payment("1"))
    ledger.clock.seconds += 1
    assert ledger.requests_of(payment("2")) == [READ, COMMIT]


def test_a_commit_that_waited_keeps_the_account_contended(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.set_last_ticket(1)
    ledger.clock.seconds += CONTENDED_SECONDS - 1
    ledger.requests_of(payment("1"))
    assert ledger.account_item()["contended_until"] == round((ledger.clock() + CONTENDED_SECONDS) * 1000)


def test_a_ticket_whose_holder_is_dead_is_waited_for_until_patience_ends(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.set_line()
    ledger.set_last_ticket(1)
    ledger.before["TransactWriteItems"] = iter([lambda: ledger.clock.sleep(2)])
    assert ledger.requests_of(payment("1")) == [READ, TICKET, *[LOOK] * 4, COMMIT]
    assert ledger.clock() == START + 0.375 + 2
    assert times(capsys) == {"LineTime": [375.0], "CommitTime": [2000.0]}
    assert ledger.requests_of(payment("2")) == [READ, TICKET, LOOK, COMMIT], "the line went on from the ticket after it"


def test_the_look_that_ends_the_wait_is_what_the_commit_starts_from(ledger: Ledger) -> None:
    """The ticket ahead is served before the second look."""
    ledger.set_line()
    ledger.set_last_ticket(1)
    ledger.before["GetItem"] = iter([lambda: None, lambda: ledger.set_line(ticket_served=1)])
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, LOOK, COMMIT]
    assert ledger.account_item()["ticket_served"] == 2


def test_a_turn_that_is_stolen_without_a_ticket_is_still_the_groups(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.before_commits(payment("theirs"), post=ledger.post_without_a_line)
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT, LOOK, COMMIT]
    assert ledger.account_item()["ticket_served"] == 1


def test_a_turn_that_the_next_in_line_takes_doesnt_set_the_line_back(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.before_commits(payment("theirs"))
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT, TICKET, LOOK, COMMIT]
    assert ledger.account_item()["ticket_served"] == 3
    assert ledger.requests_of(payment("2")) == [READ, TICKET, LOOK, COMMIT]


def test_if_nothing_is_left_to_write_the_turn_is_given_up(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    ledger.requests_of(payment("1"))
    ledger.set_line()
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT, LEAVE]
    assert times(capsys) == {}
    assert ledger.requests_of(payment("2")) == [READ, TICKET, LOOK, COMMIT]


def test_the_last_of_several_commits_serves_the_ticket(ledger: Ledger) -> None:
    ledger.set_line()
    served: list[int] = []
    note = lambda: served.append(ledger.account_item().get("ticket_served", 0))  # noqa: E731
    ledger.before["TransactWriteItems"] = itertools.repeat(note)
    batch = [payment(str(number)) for number in range(150)]
    assert ledger.requests_of(*batch) == [READ, TICKET, LOOK, COMMIT, COMMIT]
    assert served == [0, 0]
    assert ledger.account_item()["ticket_served"] == 1


def test_a_line_begins_anew_with_its_record(ledger: Ledger) -> None:
    """DynamoDB's TTL has removed it."""
    ledger.set_line(ticket_served=5_000)
    assert ledger.requests_of(payment("1")) == [READ, TICKET, LOOK, COMMIT]
    assert ledger.account_item()["ticket_served"] == 1


def test_messages_go_back_to_the_queue_if_too_many_tickets_are_ahead(ledger: Ledger) -> None:
    ledger.set_line(ticket_served=7)
    ledger.set_last_ticket(7 + LONGEST_LINE + 1)
    assert len(ledger.returned(payment("1"), payment("2", 1, "bob"))) == 1, "bob's account is quiet"
    assert ledger.records()["line alice"]["last_ticket"] == 7 + LONGEST_LINE + 1
    ledger.set_last_ticket(7 + LONGEST_LINE)
    ledger.requests_of(payment("1"))
    assert ledger.account_item()["ticket_served"] == 7 + LONGEST_LINE + 1


def test_a_worker_that_lost_two_commits_ends_a_line_that_is_too_long(ledger: Ledger) -> None:
    ledger.set_last_ticket(1_000)
    ledger.before_commits(payment("theirs"), payment("theirs, too"))
    ledger.requests_of(payment("ours"))
    assert ledger.account_item()["ticket_served"] == 1_001


MESH = ("alice", "bob", "carol", "dave", "erin")
IN_SHARED_TURN = ["GetItem", TICKET, "GetItem", READ, COMMIT]


def circle(name: str) -> list[Body]:
    pairs = itertools.pairwise((*MESH, "alice"))
    return [transfer(f"{name}-{payer}", 1, payer, payee) for payer, payee in pairs]


def open_mesh(ledger: Ledger) -> None:
    ledger.post(*openings(*MESH[2:], limit=-100))
    for name in MESH:
        ledger.set_line(name)


def all_of(name: str, first: str, *others: str) -> Body:
    return compound(name, **{first: -len(others)} | dict.fromkeys(others, 1))


def test_a_transaction_of_four_contended_accounts_waits_in_one_line_the_same_for_all(ledger: Ledger) -> None:
    open_mesh(ledger)
    assert ledger.requests_of(all_of("1", *MESH[3::-1])) == [READ, TICKET, LOOK, COMMIT]
    assert ledger.requests_of(transfer("2", 1, "alice", "bob")) == [READ, TICKET, LOOK, COMMIT]
    assert ledger.records().keys() == {"line alice"}
    assert ledger.account_item("alice")["ticket_served"] == 2
    assert "ticket_served" not in ledger.account_item("bob")


@pytest.mark.parametrize(
    ("number", "then", "records"),
    [(4, [MARK, TICKET, LOOK, COMMIT], {"line alice"}), (5, IN_SHARED_TURN, {"lines", "lines served"})],
)
def test_a_group_that_lost_more_than_four_accounts_twice_waits_for_a_shared_turn(
    ledger: Ledger, number: int, then: list[str], records: set[str]
) -> None:
    ledger.post(*openings(*MESH[2:], limit=-100))
    theirs, theirs_too, ours = (all_of(name, *MESH[:number]) for name in ("theirs", "theirs, too", "ours"))
    ledger.before_commits(theirs, theirs_too)
    assert ledger.requests_of(ours) == [READ, COMMIT, COMMIT, *then]
    assert ledger.records().keys() == records


def test_the_groups_of_a_mesh_share_a_turn_which_ends_with_their_last_commit(ledger: Ledger) -> None:
    open_mesh(ledger)
    ledger.post(*openings("frank", "grace", "heidi"))
    for name in ("frank", "grace", "heidi"):
        ledger.set_line(name)
    ledger.clock.seconds += 1
    until = ledger.account_item()["contended_until"]
    payments = [payment(str(number)) for number in range(100)]
    assert ledger.requests_of(*circle("1"), *payments) == [READ, *IN_SHARED_TURN, COMMIT]
    assert ledger.account_item()["contended_until"] == until, "none had to wait"
    with mock.patch("ledger.batch_poster.in_parallel", lambda call, groups: list(map(call, groups))):
        assert ledger.requests_of(*circle("2"), transfer("2", 1, "frank", "grace"), payment("2", 1, "heidi")) == [
            *(READ, TICKET, LOOK, COMMIT),
            *IN_SHARED_TURN,
            *(READ, COMMIT),
        ]
    records = ledger.records()
    assert records["lines served"]["ticket_served"] == records["lines"]["last_ticket"] == 2
    assert records["lines served"]["expires_at"] == records["lines"]["expires_at"] == START + 1 + RECORD_SECONDS


def test_groups_that_waited_for_their_shared_turn_keep_their_accounts_contended(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    open_mesh(ledger)
    ledger.put(ledger.locks_table, {"lock_key": "lines", "last_ticket": 1})
    ledger.clock.seconds += CONTENDED_SECONDS / 2
    ledger.requests_of(*circle("1"))
    assert times(capsys)["LineTime"] == [2000.0]
    until = round((ledger.clock() + CONTENDED_SECONDS) * 1000)
    assert {ledger.account_item(name)["contended_until"] for name in MESH} == {until}


def test_if_nothing_is_left_to_write_the_shared_turn_is_given_up(ledger: Ledger) -> None:
    open_mesh(ledger)
    ledger.requests_of(*circle("1"))
    assert ledger.requests_of(*circle("1")) == [READ, *IN_SHARED_TURN, TICKET]
    assert ledger.records()["lines served"]["ticket_served"] == 2


def test_a_shared_line_without_the_record_of_its_turns_goes_on(ledger: Ledger) -> None:
    """DynamoDB's TTL has removed it, or it is of a release before there was one."""
    open_mesh(ledger)
    ledger.put(ledger.locks_table, {"lock_key": "lines", "last_ticket": 5_000, "ticket_served": 4_999})
    ledger.requests_of(*circle("1"))
    assert ledger.records()["lines served"]["ticket_served"] == 5_001


@pytest.mark.parametrize(
    ("last_ticket", "looks", "pauses_seconds"),
    [(0, ["GetItem", TICKET, "GetItem"], 0), ("the last", ["GetItem", TICKET], 1 + 2 + 2 * LOOK_SECONDS)],
    ids=["a turn", "none"],
)
def test_in_a_shared_turn_a_lost_commit_is_tried_again_at_once_and_without_one_after_a_pause(
    ledger: Ledger, last_ticket: object, looks: list[str], pauses_seconds: float
) -> None:
    open_mesh(ledger)
    ledger.put(ledger.locks_table, {"lock_key": "lines", "last_ticket": last_ticket})
    ledger.before_commits(payment("theirs"), payment("theirs, too"), post=ledger.post_without_a_line)
    ledger.clock.seconds += 1
    with mock.patch("random.uniform", lambda low, high: low + high):
        assert ledger.requests_of(*circle("1")) == [READ, *looks, READ, *[COMMIT] * 3]
    assert ledger.clock() == START + 1 + pauses_seconds
    assert ledger.account_item()["contended_until"] == (ledger.clock() + CONTENDED_SECONDS) * 1000


def test_if_the_shared_line_is_too_long_its_groups_come_again_and_no_other(ledger: Ledger) -> None:
    open_mesh(ledger)
    ledger.post(*openings("frank"))
    ledger.put(ledger.locks_table, {"lock_key": "lines", "last_ticket": 7 + LONGEST_LINE + 1})
    ledger.put(ledger.locks_table, {"lock_key": "lines served", "ticket_served": 7})
    assert ledger.dispositions(*circle("1"), payment("1", 1, "frank")) == [Again] * 5 + [Done]


def test_a_transaction_whose_commit_was_refused_is_not_called_untried(ledger: Ledger) -> None:
    """An earlier try of that commit may have got no answer."""

    def fail() -> None:
        raise ReadTimeoutError(endpoint_url="DynamoDB")

    ledger.post(*openings(*MESH[2:], limit=-100))
    ledger.before_commits(all_of("theirs", *MESH), all_of("theirs, too", *MESH))
    ledger.before["BatchGetItem"] = iter([lambda: None, fail])
    assert ledger.dispositions(all_of("ours", *MESH)) == [Again]


def test_after_a_wait_the_other_accounts_of_the_group_are_read_again(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.set_last_ticket(1)
    ledger.before["GetItem"] = iter([lambda: None, lambda: ledger.post_by_other(payment("theirs", 1, "bob"))])
    assert ledger.requests_of(transfer("1", 1, "bob", "alice")) == [READ, TICKET, *[LOOK] * 4, READ, COMMIT]


def test_a_quiet_account_doesnt_wait_for_a_contended_one_in_its_batch(ledger: Ledger) -> None:
    ledger.set_line()
    ledger.set_last_ticket(1)
    with mock.patch("ledger.batch_poster.in_parallel", ledger.clock.side_by_side):  # in a known order
        assert ledger.requests_of(payment("1"), payment("1", 1, "bob"))[:2] == [READ, COMMIT]


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


def test_without_a_turn_each_lost_commit_takes_a_longer_pause(ledger: Ledger) -> None:
    """Up to a second for each loss of the account that was lost most often."""
    ledger.set_line(ticket_served=7)
    ledger.set_last_ticket("the last")
    ledger.before_commits(transfer("1", 1, "alice", "bob"), payment("2"), post=ledger.post_without_a_line)
    with mock.patch("random.uniform", lambda low, high: low + high):
        assert ledger.requests_of(transfer("3", 1, "bob", "alice")) == [READ, *[TICKET, COMMIT] * 3]
    assert ledger.clock() == START + 0 + 1 + 2 + 3 * LOOK_SECONDS


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
