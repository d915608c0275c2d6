"""`teller dead-letters`: what is on the dead-letter queues, and what becomes of it."""

import contextlib
import heapq
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from tools.teller.deployment import Deployment
from tools.teller.failures import Failure, NotFound, WrongUse
from tools.teller.groups import ListByDefault
from tools.teller.letter_editing import InvalidLines, changed_bodies, draft, edited, lines_of, with_comments
from tools.teller.letters import NO_CODE, Letter, QueueName, Received, in_general, is_about, look
from tools.teller.message_queues import MessageQueue, counts_of
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.places import write_whole
from tools.teller.printed_tables import Rows, fields_table, table
from tools.teller.progress import progress_bar
from tools.teller.redriving import Redriven, redrive
from tools.teller.times import duration, shown
from tools.teller.words import counted
from workers.batches import GivenUp
from workers.parallel import in_parallel

app = typer.Typer(cls=ListByDefault)


@app.callback()
def dead_letters() -> None:
    """Look at the dead letters, redrive them, or drop them.

    A dead letter is a message that no delivery can process. There are six dead-letter queues: of transactions, of
    the administration, of profiles, of outcomes that couldn't be published, of the jobs' messages, and of events that
    the bus couldn't deliver. Without a subcommand the letters are counted: teller dead-letters [QUEUE].
    """


def add_to(root: typer.Typer) -> None:
    root.add_typer(app, name="dead-letters")


QueueArgument = Annotated[QueueName, typer.Argument(help="The dead letters' queue.", metavar="QUEUE")]
AnyQueueArgument = Annotated[
    QueueName | None, typer.Argument(help="The dead letters' queue. Without it: all.", metavar="QUEUE")
]
CodeOption = Annotated[
    str | None,
    typer.Option("--code", help=f"Only letters with this code, or {NO_CODE} for those without one.", metavar="CODE"),
]
IdOption = Annotated[
    list[str] | None,
    typer.Option("--id", help="Only the letter with this id: its own, or its message's. Repeatable.", metavar="ID"),
]
AboutOption = Annotated[
    tuple[str, str] | None,
    typer.Option("--about", help="Only letters of this transaction on this account.", metavar="ACCOUNT TRANSACTION"),
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", min=1, help="The newest N letters. Without it: 20; with --json all.", metavar="N"),
]
DEFAULT_LIMIT = 20
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Change nothing: count the letters that it is about.")]


class _Selection(NamedTuple):
    """The letters with this code, with one of these ids, and about this transaction. Without any of them: all."""

    code: str | None
    ids: frozenset[str]
    about: tuple[str, str] | None

    @classmethod
    def of(cls, code: str | None, ids: list[str] | None, about: tuple[str, str] | None) -> "_Selection":
        return cls(code, frozenset(ids or ()), about)

    @property
    def is_all(self) -> bool:
        return not (self.code or self.ids or self.about)

    def has(self, letter: Letter) -> bool:
        if self.code and _code(letter) != self.code:
            return False
        if self.about and not is_about(letter.body, *self.about):
            return False
        return not self.ids or bool({letter.message_id, letter.origin and letter.origin.sending.message_id} & self.ids)

    def found(self, number: int, queue: QueueName | None) -> None:
        """Raises NotFound if there is no such letter."""
        if not number and not self.is_all:
            asked = [f"has the code {self.code}"] if self.code else []
            asked += [f"has the id {' or '.join(sorted(self.ids))}"] if self.ids else []
            asked += [f"is about {self.about[1]} on {self.about[0]}"] if self.about else []
            raise NotFound(f"no visible dead letter{f' of {queue}' if queue else ''} {' and '.join(asked)}")


def _code(letter: Letter) -> str:
    return letter.code or NO_CODE


@subcommand(app, "list")
def list_letters(operator: Operator, queue: AnyQueueArgument = None) -> None:
    """Count the dead letters by why they are dead, with their ages.

    This is what dead-letters does without a subcommand.

    The letters are received for that, and visible again at the end.
    """
    queues = [queue] if queue else list(QueueName)
    rows = counted_letters(operator.deployment, queues)
    hidden = _hidden(operator.deployment, queues)
    shown_rows = table("queue", "letters", "oldest", "newest", "code: reason", right=("letters",))
    now = datetime.now(UTC)
    for row in rows:
        ages = (duration(now - row[time]) for time in ("oldest", "newest"))
        why = ": ".join(filter(None, [row["code"], row["reason"]]))
        shown_rows.add_row(row["queue"], f"{row['letters']:,}", *ages, why)
    answer = {"dead_letters": rows, "hidden": hidden}
    operator.show(answer, *([shown_rows] if rows else ["no dead letters"]))
    _remark_hidden(operator, hidden)


def counted_letters(deployment: Deployment, queues: Sequence[QueueName] = tuple(QueueName)) -> list[dict[str, Any]]:
    """A row for each queue, code and reason."""
    return [row for rows in in_parallel(lambda each: _counted(deployment, each), queues) for row in rows]


def _hidden(deployment: Deployment, queues: Sequence[QueueName]) -> dict[QueueName, int]:
    """The numbers of letters that someone else has just received, of the queues that have some."""
    numbers = {each: counts_of(deployment, each.output).in_flight for each in queues}
    return {each: number for each, number in numbers.items() if number}


def _remark_hidden(operator: Operator, hidden: Mapping[QueueName, int]) -> None:
    for each, number in hidden.items():
        operator.remark(f"Hidden, because someone else has just received them: {number:,} more of {each}.")


def _counted(deployment: Deployment, queue: QueueName) -> list[dict[str, Any]]:
    """The number of a queue's letters, and the times of the oldest and the newest, by their codes and reasons."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for letter in look(deployment, queue):
        why = _code(letter), in_general(letter.reason)
        new = dict(zip(("queue", "code", "reason"), (queue, *why), strict=True))
        row = rows.setdefault(why, new | {"letters": 0, "oldest": letter.sent_at, "newest": letter.sent_at})
        row["letters"] += 1
        row["oldest"], row["newest"] = min(row["oldest"], letter.sent_at), max(row["newest"], letter.sent_at)
    return sorted(rows.values(), key=lambda row: -row["letters"])


@subcommand(app)
def show(
    operator: Operator,
    queue: AnyQueueArgument = None,
    code: CodeOption = None,
    ids: IdOption = None,
    about: AboutOption = None,
    limit: LimitOption = None,
) -> None:
    """Show the newest dead letters whole, and why each is dead.

    The newest is the first one. A letter has the ids and times of the message that it was, and its body.
    """
    selection, number = _Selection.of(code, ids, about), 0
    queues = [queue] if queue else list(QueueName)
    most = limit or (sys.maxsize if operator.as_json else DEFAULT_LIMIT)
    newest: list[tuple[datetime, int, Letter]] = []  # a heap: the oldest is the first to give way
    for letter in (letter for each in queues for letter in look(operator.deployment, each) if selection.has(letter)):
        number += 1
        heapq.heappush(newest, (letter.sent_at, number, letter))
        if len(newest) > most:
            heapq.heappop(newest)
    letters = [letter.as_json() for *_, letter in sorted(newest, reverse=True)]
    left_out = number - len(letters)
    _remark_hidden(operator, _hidden(operator.deployment, queues))
    selection.found(number, queue)
    answer = {"dead_letters": letters, "left_out": left_out}
    operator.show(answer, *(map(letter_table, letters) if letters else ["no dead letters"]))
    if left_out:
        operator.remark(f"Left out: {counted(left_out, 'older letter')}. --limit {number} shows all.")


def letter_table(letter: Mapping[str, Any]) -> Rows:
    """For people, of what `Letter.as_json` has. What is empty is left out."""
    origin, dead_since = letter["origin"] or {}, letter["dead_since"]
    rows = {
        **{name: letter[name] for name in ("queue", "id", "code", "reason")},
        "dead since": f"{shown(dead_since)}, {duration(datetime.now(UTC) - dead_since)} ago",
        "sent": shown(origin.get("sent_at")),
        "sent by": origin.get("sent_by"),
        "message id": origin.get("message_id"),
        "request id": origin.get("request_id"),
        **letter["attributes"],
        "body": letter["body"],
    }
    return fields_table({name: text for name, text in rows.items() if text})


@subcommand(app, "redrive")
def redrive_letters(
    operator: Operator,
    queue: QueueArgument,
    code: CodeOption = None,
    ids: IdOption = None,
    about: AboutOption = None,
    edit: Annotated[
        bool, typer.Option("--edit", help="Mend the messages in $EDITOR first. Only those that you change are sent.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Give dead messages another chance, and delete their letters.

    A message is sent to its queue again, with its producer's message attributes. Only then its letter is deleted, so
    nothing is lost if the command is killed, and what was posted before stays posted once. A profile update without
    as_of gets the time at which it was first sent. For a letter of outcomes the function is invoked with
    its body. The message of a job begins its run whatever its time. What can't be processed comes back as a new letter.

    Letters with the code FUNCTION_KILLED stay, unless --code, --id or --about names them: they would kill their
    function again. Edits that aren't sent are kept in a file. Exit status 1: a letter that was to be redriven stays.
    """
    if queue is QueueName.BUS:
        raise WrongUse(_BUS)
    if edit and queue not in MessageQueue:
        raise WrongUse(
            f"the letters of {queue} aren't messages that can be mended: --edit is for {', '.join(MessageQueue)}"
        )
    selection = _Selection.of(code, ids, about)
    letters = _Chosen(operator.deployment, queue, selection, keep=edit)
    if letters.killers:
        operator.remark(
            f"Left alone: {counted(letters.killers, 'letter')} with the code {GivenUp.FUNCTION_KILLED}, because the "
            f"message would kill its function again. When that is mended, add --code {GivenUp.FUNCTION_KILLED}."
        )
    with contextlib.ExitStack() as until_it_is_sent:
        bodies: Mapping[str, str | None] = dict.fromkeys(letters.codes)
        if edit:
            path = until_it_is_sent.enter_context(draft(lines_of(letters.kept.values()), operator.remark))
            bodies = _mended(operator, letters.kept, path)
            if not bodies:
                operator.remark("No message was changed.")
        _redrive(operator, queue, letters, bodies, dry_run=dry_run, yes=yes)


def _redrive(
    operator: Operator,
    queue: QueueName,
    letters: "_Chosen",
    bodies: Mapping[str, str | None],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Redrives the letters with these ids, each with its new body, or with its own."""
    codes = Counter(letters.codes[letter_id] for letter_id in bodies)
    if dry_run:
        operator.show({"would_redrive": codes}, f"would redrive {_counts(codes)}")
        raise typer.Exit

    def new_body(letter: Letter) -> str | None:
        return (bodies[letter.message_id] or letter.body) if letter.message_id in bodies else None

    operator.agree(f"redrive {_counts(codes)} of {queue}", yes=yes)
    with progress_bar(operator, "redriving", letters.looked_at) as progress:
        redriven = redrive(operator.deployment, queue, new_body, progress) if codes else Redriven()
    _show_redriven(operator, redriven, codes.total())


_BUS = (
    "the bus's letters can't be redriven: EventBridge couldn't encrypt or decrypt these events with the stack's key. "
    "Mend the key's policy, publish the outcomes of that time again (docs/operations.md: an outcome that wasn't "
    "published), and drop the letters: teller dead-letters drop bus --code CODE"
)


class _Chosen:
    """The letters that a redrive is about, as they are when it begins: their `codes` by their ids; if `keep`, whole.

    `killers` are left out. `looked_at` counts all letters of the queue. Raises NotFound.
    """

    def __init__(self, deployment: Deployment, queue: QueueName, selection: _Selection, *, keep: bool) -> None:
        self.codes, self.kept = dict[str, str](), dict[str, Letter]()
        self.killers = self.looked_at = 0
        with_killers = not selection.is_all
        for letter in look(deployment, queue):
            self.looked_at += 1
            if not selection.has(letter):
                continue
            if letter.code == GivenUp.FUNCTION_KILLED and not with_killers:
                self.killers += 1
                continue
            self.codes[letter.message_id] = _code(letter)
            if keep:
                self.kept[letter.message_id] = letter
        selection.found(len(self.codes), queue)


def _mended(operator: Operator, letters: dict[str, Letter], path: Path) -> dict[str, str]:
    """The new bodies of the letters that a person changes in an editor, by the letters' ids."""
    while True:
        text = edited(path)
        try:
            return changed_bodies(text, letters)
        except InvalidLines as error:
            for problem in error.problems.values():
                operator.remark(problem)
            if not sys.stdin.isatty() or not typer.confirm("Edit again?", default=True, err=True):
                raise Failure(f"nothing was sent. Wrong lines: {len(error.problems)}") from None
            write_whole(path, with_comments(text, error.problems).encode())


def _show_redriven(operator: Operator, redriven: Redriven, wanted: int) -> None:
    staying = [{"id": letter_id, "reason": reason} for letter_id, reason in redriven.staying.items()]
    not_found = wanted - redriven.done.total() - len(staying)
    answer = {
        "redriven": redriven.done,
        "staying": staying,
        "not_found": not_found,
        "not_deleted": redriven.not_deleted,
    }
    operator.show(answer, f"redrove {_counts(redriven.done)}")
    for letter_id, reason in redriven.staying.items():
        operator.remark(f"{letter_id} stays: {reason}")
    if redriven.not_deleted:
        operator.remark(f"Couldn't be deleted, and may be redriven twice: {redriven.not_deleted} of them. No harm")
    if not_found:
        operator.remark(f"Not found again, because someone else has received or deleted them meanwhile: {not_found}")
    if staying or not_found:
        raise typer.Exit(1)


def _counts(codes: Counter[str]) -> str:
    """12 dead letters (INVALID_MESSAGE 10, UNKNOWN_ACCOUNT 2)."""
    listed = ", ".join(f"{code} {number:,}" for code, number in codes.most_common())
    return f"{counted(codes.total(), 'dead letter')}{f' ({listed})' if listed else ''}"


@subcommand(app)
def drop(
    operator: Operator,
    queue: QueueArgument,
    code: CodeOption = None,
    ids: IdOption = None,
    about: AboutOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Delete dead letters for good: those that are named.

    With --json the answer has them whole. It is written before they are deleted, so nothing is lost if the command is
    killed. Exit status 1: a letter that was to be dropped stays.
    """
    selection = _Selection.of(code, ids, about)
    if selection.is_all:
        raise WrongUse("a dropped letter is gone for good: name the letters with --code, --id or --about")
    found, letters = dict[str, str](), list[Any]()
    for letter in filter(selection.has, look(operator.deployment, queue)):
        found[letter.message_id] = _code(letter)
        letters += [letter.as_json()] if operator.as_json else []
    selection.found(len(found), queue)
    codes = Counter(found.values())
    if dry_run:
        operator.show({"would_drop": codes}, f"would drop {_counts(codes)}")
        return
    operator.agree(f"drop {_counts(codes)} of {queue}", yes=yes)
    if operator.as_json:
        operator.show({"dropped": letters})
    dropped, not_deleted = Counter[str](), 0
    with Received(operator.deployment, queue) as received:
        for received_letters in received.rounds():
            chosen = [letter for letter in received_letters if letter.message_id in found]
            not_deleted += received.delete(chosen)
            dropped.update(map(_code, chosen))
    if not operator.as_json:
        operator.say(f"dropped {_counts(dropped)}")
    if left := len(found) - dropped.total() + not_deleted:
        raise Failure(f"not found again, or not deleted by SQS: {left} of them. Try again")
