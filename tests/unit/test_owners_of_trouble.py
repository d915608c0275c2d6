"""Trouble stays with its owner: an unread key, a corrupt item or an error costs only the messages that it is about."""

import gc
import weakref
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, NoReturn, override

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from conditional_writes import Deadline, Item, Key, Observed, Put, Write, Written
from conditional_writes.core import unconditional
from conditional_writes.core.requests import as_request
from conditional_writes.core.steps import Steps, blocking
from conditional_writes.testing import Clock
from ledger import batch_poster
from ledger.batch_poster import BatchPoster
from ledger.core.journal import EntryId
from ledger.core.transaction_types import Transaction
from ledger.core.transaction_types.base import TransactionMessage
from ledger.dispositions import disposition_of
from ledger.lines import Lines
from tests.support.folding import NOBODY, TABLES, items_of, message_of
from tests.support.samples import alice, closing, limit, opening, payment, transfer
from workers.queue_messages import MAXIMUM_TRACEBACK_CHARACTERS, Again, Dead, Disposition, Done, PerhapsDone


def engine(items: dict[Key, Item], refuses: Callable[[Sequence[Write]], None]) -> Callable[..., Written[Any]]:
    """Stands for `write`, and for a DynamoDB that has these items. `refuses` may raise an error of DynamoDB's."""

    def write(_: object, plan: Any, observed: Observed, deadline: Deadline, **__: object) -> Written[Any]:
        while True:
            deadline.check("writing")
            planned = plan(observed)
            for each in planned.writes:
                as_request(each, "w-1")
            refuses(planned.writes)
            puts = [each.key for each in planned.writes if isinstance(each, Put)]
            found = {key: items[key] for key in puts if key in items}
            if not found:
                break
            observed = {**observed, **found}
        for each in planned.writes:
            items[each.key] = each.item if isinstance(each, Put) else items[each.key] | dict(each.values)
        return Written(planned.result, 0, "w-1", {})

    return write


def without_steps[Result](function: Callable[..., Result]) -> Callable[..., Steps[Result]]:
    def steps(*arguments: object) -> Steps[Result]:
        yield from ()
        return function(*arguments)

    return steps


def posted(
    items: dict[Key, Item],
    transactions: Iterable[TransactionMessage],
    receive_count: int = 1,
    read_once: Callable[..., Observed] | None = None,
    refuses: Callable[[Sequence[Write]], None] = lambda writes: None,
    post: Callable[..., object] = BatchPoster.post,
) -> list[Disposition | None]:
    """The disposition of each message. `items` are those in the tables, before and afterwards."""

    def read_all(_: object, keys: Iterable[Key], *__: object) -> Observed:
        return {key: items.get(key) for key in keys}

    messages = [message_of(transaction, receive_count) for transaction in transactions]
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(batch_poster, "write", engine(items, refuses))
        patching.setattr(batch_poster, "read_once", read_once or read_all)
        patching.setattr(unconditional, "read_once", blocking(without_steps(read_once or read_all)))
        post(BatchPoster(NOBODY, TABLES, Lines(NOBODY, "locks")), messages, Deadline.after(60))
    return [message.disposition for message in messages]


def accounts(*names: str) -> dict[Key, Item]:
    return items_of(*(alice(account_id=name) for name in names))


def error_of(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "TransactWriteItems")


def kinds(dispositions: Iterable[Disposition | None]) -> list[type]:
    return [type(disposition) for disposition in dispositions]


@pytest.mark.usefixtures("one_call_at_a_time")
@pytest.mark.parametrize(("post", "amount"), [(BatchPoster.post, 1), (BatchPoster.decide, 0)], ids=["posting", "dry"])
def test_an_account_that_is_never_read_costs_its_own_group_only(post: Callable[..., object], amount: int) -> None:
    stuck = [f"stuck {number}" for number in range(20)]  # more than there are threads
    items = accounts("alice", "bob", "carol", *stuck)

    def read_once(_: object, keys: Iterable[Key], deadline: Deadline, *__: object) -> Observed:
        deadline.check("reading")
        return {key: items.get(key) for key in keys if key.attributes[0][1] not in stuck}

    transactions = [
        payment(1, account_id="alice"),
        *(payment(1, account_id=name) for name in stuck),
        payment(1, account_id="bob"),
        transfer(1, from_account_id="carol", to_account_id=stuck[0]),
    ]
    with Clock().simulated_time():
        assert kinds(posted(items, transactions, 1, read_once, post=post)) == [Done, *[Again] * 20, Done, Again]
    balances = [items[TABLES.account_key(name)]["balance"] for name in ("alice", "bob", "carol")]
    assert balances == [100 + amount, 100 + amount, 100]


def test_a_key_that_is_left_unread_once_costs_nobody() -> None:
    items, left = accounts("alice", "slow"), iter([TABLES.account_key("slow")])

    def read_once(_: object, keys: Iterable[Key], *__: object) -> Observed:
        unread = next(left, None)
        return {key: items.get(key) for key in keys if key != unread}

    assert kinds(posted(items, [payment(1, account_id=name) for name in ("alice", "slow")], 1, read_once)) == [Done] * 2


def test_a_read_that_fails_costs_the_groups_with_its_keys_and_is_not_repeated_by_each_of_them() -> None:
    names = [f"account-{number:03}" for number in range(150)]
    items, requests = accounts(*names), list[int]()

    def read_once(_: object, keys: Iterable[Key], *__: object) -> Observed:
        requests.append(len(wanted := list(keys)))
        if len(requests) == 1:
            raise EndpointConnectionError(endpoint_url="https://dynamodb")
        return {key: items[key] for key in wanted}

    became = posted(items, [payment(1, account_id=name) for name in names], 1, read_once)
    assert kinds(became) == [Again] * 100 + [Done] * 50
    assert requests == [100, 50]


def changed(item: Item, attribute: str, wrong: object) -> Item:
    return {name: value for name, value in (item | {attribute: wrong}).items() if value is not LEFT_OUT}


LEFT_OUT = object()
NUMBERS = map(Decimal, ["0", "1.5", "-3", "9.9E+125", "1E-130", "9" * 38])
WRONG: list[Any] = [LEFT_OUT, None, "12", "", True, b"12", [1], {"a": 1}, {"a"}, *NUMBERS]
OF_ACCOUNTS = [
    *("balance", "overdraft_limit", "currency", "status", "version", "posted_at"),
    *("cw:version_id", "cw:write_id", "extra"),
]
OF_ENTRIES = [
    *("request", "sent", "rules", "seal", "status", "reason", "amount", "balance_after", "currency"),
    *("account_version", "posted_at", "format", "cw:write_id", "extra"),
]


@pytest.mark.parametrize("attribute", OF_ACCOUNTS)
def test_a_corrupt_account_costs_no_message_of_another_account_of_its_group(attribute: str) -> None:
    chain = [
        payment(1, transaction_id="1", account_id="one"),
        payment(1, transaction_id="2", account_id="corrupt"),
        transfer(10, transaction_id="3", from_account_id="one", to_account_id="corrupt"),
        payment(1, "EUR", transaction_id="4", account_id="corrupt"),
        opening(transaction_id="5", account_id="corrupt"),
        limit(-100, transaction_id="6", account_id="corrupt"),
        closing(transaction_id="7", account_id="corrupt"),
        transfer(10, transaction_id="8", from_account_id="corrupt", to_account_id="other"),
        payment(1, transaction_id="9", account_id="other"),
    ]
    for wrong in WRONG:
        items, key = accounts("one", "other", "corrupt"), TABLES.account_key("corrupt")
        items[key] = changed(items[key], attribute, wrong)
        one, *corrupt, other = posted(items, chain)
        assert (type(one), type(other)) == (Done, Done), wrong
        assert all(isinstance(disposition, Done | Again) for disposition in corrupt), wrong
        entries = [item for key, item in items.items() if key.table == "journal"]
        for name in ("one", "other"):
            posted_amounts = sum(entry["amount"] for entry in entries if entry["account_id"] == name)
            assert items[TABLES.account_key(name)]["balance"] == 100 + posted_amounts


@pytest.mark.parametrize("receive_count", [1, 2], ids=["found by the commit", "read before"])
@pytest.mark.parametrize("attribute", OF_ENTRIES)
def test_a_corrupt_journal_entry_costs_its_own_message_only(attribute: str, receive_count: int) -> None:
    first = payment(5, transaction_id="2", account_id="one")
    group = [
        payment(1, transaction_id="1", account_id="one"),
        first,
        transfer(1, transaction_id="3", from_account_id="one", to_account_id="other"),
        payment(1, transaction_id="4", account_id="other"),
    ]
    for wrong in WRONG:
        items = accounts("one", "other")
        posted(items, [first])
        key = TABLES.entry_key(EntryId("one", "2"))
        items[key] = changed(items[key], attribute, wrong)
        before, repeated, *after = posted(items, group, receive_count)
        assert {type(disposition) for disposition in (before, *after)} == {Done}, wrong
        possible = {"cw:write_id": Done, "extra": Done, "request": Dead | Again}.get(attribute, Done | Again)
        assert isinstance(repeated, possible), (wrong, repeated)


@pytest.mark.parametrize(
    ("code", "status", "disposition"),
    [
        ("ThrottlingException", 400, Again),
        ("AccessDeniedException", 400, Again),
        ("InternalServerError", 500, PerhapsDone),
    ],
)
def test_awss_own_trouble_costs_a_group_a_try_and_no_earlier_commit(code: str, status: int, disposition: type) -> None:
    tries: list[int] = []

    def refuses(writes: Sequence[Write]) -> None:
        tries.append(len(writes))
        if len(tries) == 2:
            raise error_of(code, status)

    became = posted(accounts("alice"), [payment(1, transaction_id=str(n)) for n in range(150)], refuses=refuses)
    assert (kinds(became), tries) == ([Done] * 99 + [disposition] * 51, [100, 52])
    assert len(set(map(id, became[99:]))) == 1  # the error's text is made once


def test_awss_own_trouble_with_one_half_costs_no_try_of_the_other() -> None:
    codes = iter(["ValidationException", "ThrottlingException"])

    def refuses(_: Sequence[Write]) -> None:
        raise error_of(next(codes), 400)

    became = posted(accounts("alice"), [payment(1, transaction_id=str(n)) for n in range(2)], refuses=refuses)
    assert kinds(became) == [Again] * 2
    assert next(codes, None) is None
    assert all("Throttling" in each.reason for each in became if isinstance(each, Again))


def test_a_commit_that_ended_in_an_odd_error_leaves_its_messages_perhaps_done() -> None:
    """Its halves are refused by DynamoDB: that says nothing of the first try."""
    errors = iter([RuntimeError("the answer can't be read"), *[error_of("ThrottlingException", 400)] * 2])

    def refuses(_: Sequence[Write]) -> None:
        raise next(errors)

    became = posted(accounts("alice"), [payment(1, transaction_id=str(n)) for n in range(2)], refuses=refuses)
    assert kinds(became) == [PerhapsDone] * 2


class Panic(BaseException):
    """As PyO3's PanicException. It has no text."""

    @override
    def __str__(self) -> str:
        raise RuntimeError("no text")


def endless(number: int) -> int:
    return endless(number + 1)


RAISES: dict[str, Callable[..., object]] = {"a panic": Panic, "an exit": SystemExit, "a recursion": endless}


@pytest.mark.parametrize("kind", RAISES)
def test_an_error_of_any_type_in_a_decision_costs_its_message_only(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decide_for = Transaction.decide_for

    def decide(self: Transaction, *arguments: Any) -> Any:
        if self.transaction_id != "7":
            return decide_for(self, *arguments)
        raise RAISES[kind](0)

    monkeypatch.setattr(Transaction, "decide_for", decide)
    items = accounts("alice")
    became = posted(items, [payment(1, transaction_id=str(number)) for number in range(99)])
    assert kinds(became) == [Done] * 7 + [Again] + [Done] * 91
    assert items[TABLES.account_key("alice")]["balance"] == 198
    [failed] = [each for each in became if isinstance(each, Again)]
    assert failed.reason
    assert failed.error
    assert len(failed.error.traceback) <= MAXIMUM_TRACEBACK_CHARACTERS + 1


class Large:
    """Stands for an item of 400 KB."""


def fail_with(large: Large) -> NoReturn:
    raise ValueError("not a map") from KeyError(large)


def test_no_disposition_keeps_an_item_that_its_error_or_a_frame_has() -> None:
    large = Large()
    kept = weakref.ref(large)
    try:
        fail_with(large)
    except ValueError as error:
        again = disposition_of(error)
    del large
    gc.collect()
    assert kept() is None
    assert isinstance(again, Again)
    assert again.error
    assert again.error.name == "ValueError"
    assert "KeyError" in again.error.traceback
    assert "in fail_with" in again.error.traceback
    assert again.error.traceback.endswith("ValueError: not a map")
