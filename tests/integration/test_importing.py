"""`teller import` of accounts that the stack has: refused before anything is sent, unless it is the same file again."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.faults import Killed
from tests.support.ledger import Ledger
from tools.local_aws.server import Endpoint
from tools.teller import importing
from tools.teller import send as sending
from tools.teller.failures import Failure
from tools.teller.importing import import_accounts
from tools.teller.operator import Operator
from tools.teller.places import at_work_on, path_of

TOTALS = "EUR=6"
HEADER = "account_id,currency,balance,source_reference,as_of,description,overdraft_limit"
ROWS = [f'acc-{number},EUR,{number},core/{number},2025-12-31T23:00:00Z,"a,\nb",' for number in (1, 2, 3)]
"""Of two lines each."""
STEPS = range(1, 11)
"""Written or sent are a place, a part, a place, a part, a place: before or after one of them the import is killed."""
NOTHING_WAS_SENT = (1, 2, 3)


class Stack:
    """The stack of a ledger, whose queue is handled whenever the command pauses."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.parameters = ledger, dict[str, str]()
        self.outputs = {
            "AdministrationQueueUrl": ledger.worker.worker.queue.url,
            "TransactionsQueueUrl": ledger.worker.worker.queue.url,
            "AccountsTableName": ledger.tables.accounts,
            "JournalTableName": ledger.tables.journal,
        }
        self.is_prod, self.steps, self.killed_at, self.sent = False, itertools.count(1), 0, 0

    def __getitem__(self, output: str) -> str:
        return self.outputs[output]

    def client(self, service: str) -> Any:
        return self.new_client(service)

    def new_client(self, service: str, **_: Any) -> Any:
        if service == "dynamodb":
            return self.ledger.dynamodb.client(service)
        client = self.ledger.aws.client(service)
        client.meta.events.register("before-call.sqs.SendMessageBatch", self._begin_to_send)
        client.meta.events.register("after-call.sqs.SendMessageBatch", self.step)
        return client

    def _begin_to_send(self, **_: Any) -> None:
        self.step()
        self.sent += 1

    def step(self, **_: Any) -> None:
        if next(self.steps) == self.killed_at:
            raise Killed

    def handle(self, *_: object) -> None:
        self.ledger.post(*self.ledger.queued())

    def import_file(self, file: Path, killed_at: int = 0) -> None:
        self.steps, self.killed_at, self.sent = itertools.count(1), killed_at, 0
        operator = Operator("a stack", None, as_json=True)
        operator.__dict__["deployment"] = self
        import_accounts(operator, file, TOTALS)


@pytest.fixture
def stack(dynamodb: Endpoint, aws: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """Two rows are sent at once."""
    stack = Stack(Ledger(aws, dynamodb))
    write_place: Callable[..., None] = sending.write_place

    def killed_at_a_place(*of: Any) -> None:
        stack.step()
        write_place(*of)
        stack.step()

    monkeypatch.setattr(sending, "MOST_MESSAGES", 2)
    monkeypatch.setattr(sending, "write_place", killed_at_a_place)
    monkeypatch.setattr(importing.time, "sleep", stack.handle)
    monkeypatch.setattr("workers.parallel.ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    yield stack
    assert stack.ledger.dead_letters() == []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "accounts.csv")


def written(path: Path, limit: str = "") -> Path:
    path.write_text("".join(f"{line}\n" for line in (HEADER, *(f"{row}{limit}" for row in ROWS))))
    return path


@pytest.mark.parametrize("killed_at", STEPS)
def test_the_same_file_goes_on_wherever_it_was_killed(stack: Stack, file: Path, killed_at: int) -> None:
    for killed in (killed_at, 1):
        with pytest.raises(Killed):
            stack.import_file(file, killed)
    stack.import_file(file)
    stack.import_file(file)
    assert not path_of(file).exists()
    assert len(stack.ledger.books.entries) == len(ROWS)


def test_a_second_command_for_a_file_that_is_being_sent_is_refused(stack: Stack, file: Path) -> None:
    with at_work_on(file, alone=True), pytest.raises(Failure, match=r"another command is at work on .*accounts\.csv"):
        stack.import_file(file)
    assert not path_of(file).exists()
    stack.import_file(file)


@pytest.mark.parametrize(
    ("killed_at", "is_handled"), [*zip(STEPS, itertools.repeat(False)), (5, True), (8, True), (0, True)]
)
def test_a_second_file_of_the_same_accounts_is_refused(
    stack: Stack, file: Path, tmp_path: Path, killed_at: int, is_handled: bool
) -> None:
    """If the first one was killed before anything was sent, the second one is imported, and the first one refused."""
    other = written(tmp_path / "other.csv", limit="-5")
    with contextlib.suppress(Killed):
        stack.import_file(file, killed_at)
    if is_handled:
        stack.handle()
    if killed_at in NOTHING_WAS_SENT:
        stack.import_file(other)
        file, other = other, file
    with pytest.raises(Failure, match="nothing was sent") as caught:
        stack.import_file(other)
    assert caught.value.details[0] == (
        "line 2: account_id: the stack has 'acc-1' already. Expected the row that it was imported from, got another "
        "overdraft_limit"
    )
    assert stack.sent == 0
    stack.import_file(file)
    assert len(stack.ledger.books.entries) == len(ROWS)
