"""Dead letters as the command sees them: why, what they were, what is sent again, and how they are mended."""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.command import run_on
from tests.support.strategies import any_message, profile_updates
from tools.teller import dead_letters, transaction
from tools.teller.failures import Failure
from tools.teller.letter_editing import InvalidLines, changed_bodies, draft, edited, lines_of
from tools.teller.letters import Letter, Origin, QueueName, Sending
from tools.teller.message_queues import Counts
from tools.teller.redriving import as_of_its_origin

DIED = datetime(2026, 2, 28, 13, tzinfo=UTC)
SENT = "2026-02-28T12:00:00.250+00:00"
DAMAGES: list[dict[str, Any]] = [{"sent_by": "\u202e"}, {"message_id": "m m"}, {"message_id": ["m"]}]
DAMAGES += [{"sent_at": "yesterday"}, {"sent_at": "0001-01-01T00:00:00+23:00"}, {"request_id": None}]
ORIGIN = json.dumps({"sent_by": "AROAEXAMPLE:shop", "message_id": "m-1", "sent_at": SENT, "request_id": "r-1"})
ERASURE = '{"type": "erase_profile", "account_id": "a"}'
SENT_AS_OF = f', "as_of": "{SENT}"}}'
SPELLED = '{"account_id":"a", "path":["p"], "entries":{"n":1.500e2, "m":12345678901234567890.10}}'
GOOD = '{"transaction_id": "t", "account_id": "a", "amount": 1.50}'


def letter(body: str, queue: QueueName = QueueName.TRANSACTIONS, message_id: str = "l-1", **attributes: str) -> Letter:
    return Letter(body, attributes, message_id, DIED, queue)


@pytest.mark.parametrize(
    ("queue", "attributes"),
    [
        (QueueName.TRANSACTIONS, {"reason_code": "X", "reason": "why"}),
        (QueueName.OUTCOMES, {"reason_code": "X", "reason": "why"}),
        (QueueName.JOBS, {"reason_code": "X", "reason": "why"}),
        (QueueName.JOBS, {"ERROR_CODE": "X", "ERROR_MESSAGE": "why"}),
        (QueueName.BUS, {"ERROR_CODE": "X", "ERROR_MESSAGE": "why"}),
    ],
)
def test_a_letter_says_why_it_is_dead_and_what_it_was(queue: QueueName, attributes: Mapping[str, str]) -> None:
    found = letter("junk", queue, origin=ORIGIN, **attributes)
    assert (found.code, found.reason) == ("X", "why")
    assert found.origin == Origin(Sending("AROAEXAMPLE:shop", "m-1", SENT), "r-1")


@pytest.mark.parametrize(
    "origin",
    [
        *["", "junk", "{}", "null", "[" * 100_000, '{"message_id": "m", "sent_at": 1}'],
        *(json.dumps(json.loads(ORIGIN) | damage) for damage in DAMAGES),
    ],
    ids=lambda origin: origin[:20],
)
def test_an_origin_that_cannot_be_read_is_none(origin: str) -> None:
    assert letter("junk", origin=origin).origin is None


def update(**fields: Any) -> str:
    return json.dumps({"account_id": "a", "path": ["p"], "entries": {"n": 1}, **fields})


@pytest.mark.parametrize(
    ("queue", "body", "sent"),
    [
        pytest.param(QueueName.PROFILES, update(), update()[:-1] + SENT_AS_OF, id="an update without a time"),
        pytest.param(QueueName.PROFILES, ERASURE, ERASURE[:-1] + SENT_AS_OF, id="an erasure without a time"),
        pytest.param(QueueName.PROFILES, SPELLED, SPELLED[:-1] + SENT_AS_OF, id="the rest stays as it is spelled"),
        *(
            (queue, body, body)
            for queue, body in (
                (QueueName.PROFILES, update(as_of="2020-01-01T00:00:00Z")),
                (QueueName.PROFILES, update(path=[])),
                (QueueName.PROFILES, "junk"),
                (QueueName.TRANSACTIONS, '{"transaction_id": "t", "account_id": "a", "amount": 1}'),
            )
        ),
    ],
)
def test_an_update_without_a_time_is_redriven_as_of_its_first_sending(queue: QueueName, body: str, sent: str) -> None:
    assert as_of_its_origin(letter(body, queue, origin=ORIGIN), body) == sent
    without_origin = as_of_its_origin(letter(body, queue), body)
    assert without_origin == (body if sent == body else f'{body[:-1]}, "as_of": "{DIED.isoformat()}"}}')


@given(
    st.lists(
        st.one_of(
            st.text(st.characters(codec="utf-8")),
            any_message().map(lambda message: msgspec.json.encode(message).decode()),
            profile_updates().map(lambda update: msgspec.json.format(msgspec.json.encode(update)).decode()),
        ),
        max_size=5,
    )
)
def test_lines_that_are_left_alone_change_no_body(bodies: list[str]) -> None:
    letters = {f"l-{number}": letter(body, message_id=f"l-{number}") for number, body in enumerate(bodies)}
    text = lines_of(letters.values())
    assert text.count("\n") == len(letters)
    assert changed_bodies(text, letters) == {}


@pytest.mark.parametrize(
    ("dead", "old", "new"),
    [
        pytest.param(GOOD.replace("1.50", '"1,50"'), '"1,50"', "1.50", id="a body"),
        pytest.param(GOOD[:-1], '1.50"', '1.50}"', id="a text that is no JSON"),
        pytest.param("junk", '"text": "junk"', f'"body": {GOOD}', id="a text that becomes a body"),
    ],
)
def test_an_edited_message_is_sent_as_it_was_typed(dead: str, old: str, new: str) -> None:
    found = letter(dead, reason="amount: expected a number")
    line = lines_of([found])
    assert "amount: expected a number" in line
    assert changed_bodies(line.replace(old, new), {"l-1": found}) == {"l-1": GOOD}


@pytest.mark.parametrize(
    ("queue", "line", "problem"),
    [
        ("transactions", "junk", "JSON is malformed"),
        ("transactions", '{"id": "l-1"}', "expected a body, or a text"),
        ("transactions", '{"id": "l-2", "text": "x"}', "no letter of this redrive has the id 'l-2'"),
        ("transactions", '{"id": "l-1", "text": "x", "colour": 1}', "unknown field `colour`"),
        ("transactions", '{"id": "l-1", "text": "x"}', "body: expected JSON"),
        ("transactions", f'{{"id": "l-1", "body": {GOOD.replace("1.50", "[]")}}}', "amount: expected `decimal`"),
        ("profiles", '{"id": "l-1", "body": {"account_id": "a", "path": ["p"], "entries": {}}}', "at least one name"),
    ],
)
def test_an_edited_line_that_is_wrong_is_named_and_nothing_is_changed(queue: str, line: str, problem: str) -> None:
    with pytest.raises(InvalidLines, match=f"^line 2: .*{problem}"):
        changed_bodies(f"\n{line}\n", {"l-1": letter("junk", QueueName(queue))})


@pytest.mark.parametrize("editor", ["sed -i s/old/new/", "false"])
def test_edits_stay_in_a_named_file_unless_the_block_ends_well(editor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", editor)
    said: list[str] = []
    with pytest.raises(Failure), draft("an old text", said.append) as path:  # noqa: PT012 (as a redrive that fails)
        edited(path)
        raise Failure("the queue is away")
    if editor == "false":
        assert (said, path.parent.exists()) == ([], False)
    else:
        assert said == [f"Your edits are kept in {path}. Its lines can be pasted into another --edit."]
        assert path.read_text() == "an new text"
        shutil.rmtree(path.parent)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a command prints about letters that all are on the transactions queue."""

    def run(letters: list[Letter], *arguments: str) -> str:
        for module in (dead_letters, transaction):
            monkeypatch.setattr(module, "look", lambda _, queue: letters if queue == "transactions" else [])
            monkeypatch.setattr(module, "counts_of", lambda *_: Counts(0, 0, 0))
        answers = {"transaction": {"entry": None, "reversed": None, "refusal": None}, "account": {"holds": []}}
        ended = run_on(SimpleNamespace(invoke=lambda _, request: answers[request["read"]]), *arguments)
        return ended.out + ended.err

    return run


def dead(number: int, **attributes: str) -> Letter:
    body = json.dumps({"transaction_id": "t 1", "account_id": "a", "amount": "x" if number else 1})
    return replace(letter(body, message_id=f"l-{number}", **attributes), sent_at=DIED + timedelta(hours=number))


def test_the_newest_letters_are_shown_first_and_how_many_are_left_out(shown: Callable[..., str]) -> None:
    letters = [dead(number) for number in (*range(5, 25), *range(5))]
    text = shown(letters, "dead-letters", "show")
    assert re.findall("l-[0-9]+", text) == [f"l-{number}" for number in range(24, 4, -1)]
    assert "Left out: 5 older letters. --limit 25 shows all." in text
    few = json.loads(shown(letters, "dead-letters", "show", "--limit", "2", "--json").partition("Left out")[0])
    assert ([each["id"] for each in few["dead_letters"]], few["left_out"]) == (["l-24", "l-23"], 23)
    assert json.loads(shown(letters, "dead-letters", "show", "--json"))["left_out"] == 0


def test_of_a_transaction_with_many_letters_few_are_shown_and_one_command_mends_all(shown: Callable[..., str]) -> None:
    letters = [dead(number, reason_code="INVALID_MESSAGE") for number in range(100)]
    text = shown(letters, "transaction", "a", "t 1")
    assert re.findall("l-[0-9]+", text) == ["l-99", "l-98", "l-97"]
    assert "dead-letter queue, 100 times" in text
    command = "dead-letters redrive transactions --edit --about a 't 1'"
    assert f"teller {command}\n" in text
    others = [letter(payment) for payment in ('{"transaction_id": "t 1", "account_id": "b"}', "junk")]
    would = shown([*others, *letters], *shlex.split(command.replace("--edit", "--dry-run --json")))
    assert json.loads(would) == {"would_redrive": {"INVALID_MESSAGE": 100}}
