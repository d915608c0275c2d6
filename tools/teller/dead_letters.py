"""`teller dead-letters`: what is on the dead-letter queues, and what becomes of it."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table

from tools.teller.deployment import Deployment
from tools.teller.failures import Failure, NotFound, WrongUse
from tools.teller.groups import ListByDefault
from tools.teller.letter_editing import InvalidLines, changed_bodies, edited, lines_of
from tools.teller.letters import NO_CODE, Letter, QueueName, Received, look
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.progress import progress_bar
from tools.teller.queues import MessageQueue, counts_of
from tools.teller.redriving import Redriven, redrive
from tools.teller.tables import fields_table, table
from tools.teller.times import duration, shown
from tools.teller.words import counted
from workers.batches import GivenUp
from workers.parallel import in_parallel

app = typer.Typer(cls=ListByDefault)


@app.callback()
def dead_letters() -> None:
    """Look at the dead letters, redrive them, or drop them.

    A dead letter is a message that no delivery can process. There are six dead-letter queues: of transactions, of
    profiles, of outcomes that couldn't be published, of the jobs' events that failed, of schedules that couldn't invoke
    a job, and of events that the bus couldn't deliver. Without a subcommand the letters are counted: teller
    dead-letters [QUEUE].
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
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Change nothing: count the letters that it is about.")]


class _Selection(NamedTuple):
    """The letters with this code, or one of these ids. Without either: all."""

    code: str | None
    ids: frozenset[str]

    @classmethod
    def of(cls, code: str | None, ids: list[str] | None) -> "_Selection":
        return cls(code, frozenset(ids or ()))

    def has(self, letter: Letter) -> bool:
        if self.code and _code(letter) != self.code:
            return False
        return not self.ids or bool({letter.message_id, letter.origin and letter.origin.message_id} & self.ids)

    def found(self, number: int, queue: QueueName | None) -> None:
        """Raises NotFound if there is no such letter."""
        if not number and (self.code or self.ids):
            asked = [f"the code {self.code}"] if self.code else []
            asked += [f"the id {' or '.join(sorted(self.ids))}"] if self.ids else []
            raise NotFound(f"no visible dead letter{f' of {queue}' if queue else ''} has {' and '.join(asked)}")


def _code(letter: Letter) -> str:
    return letter.code or NO_CODE


@subcommand(app, "list")
def list_letters(operator: Operator, queue: AnyQueueArgument = None) -> None:
    """Count the dead letters by their code, with their ages. This is what dead-letters does without a subcommand.

    The letters are received for that, and visible again at the end.
    """
    queues = [queue] if queue else list(QueueName)
    rows = [row for rows in in_parallel(lambda each: _counted(operator.deployment, each), queues) for row in rows]
    hidden = _hidden(operator.deployment, queues)
    shown_rows = table("queue", "code", "letters", "oldest", "newest", right=("letters",))
    now = datetime.now(UTC)
    for row in rows:
        ages = (duration(now - row[time]) for time in ("oldest", "newest"))
        shown_rows.add_row(row["queue"], row["code"], f"{row['letters']:,}", *ages)
    answer = {"dead_letters": rows, "hidden": hidden}
    operator.show(answer, *([shown_rows] if rows else ["no dead letters"]))
    _remark_hidden(operator, hidden)


def _hidden(deployment: Deployment, queues: Sequence[QueueName]) -> dict[QueueName, int]:
    """The numbers of letters that someone else has just received, of the queues that have some."""
    numbers = {each: counts_of(deployment, each.output).in_flight for each in queues}
    return {each: number for each, number in numbers.items() if number}


def _remark_hidden(operator: Operator, hidden: Mapping[QueueName, int]) -> None:
    for each, number in hidden.items():
        operator.remark(f"Hidden, because someone else has just received them: {number:,} more of {each}.")


def _counted(deployment: Deployment, queue: QueueName) -> list[dict[str, Any]]:
    """The number of a queue's letters, and the times of the oldest and the newest, by their codes."""
    rows: dict[str, dict[str, Any]] = {}
    for letter in look(deployment, queue):
        new = {"queue": queue, "code": _code(letter), "letters": 0, "oldest": letter.sent_at, "newest": letter.sent_at}
        row = rows.setdefault(_code(letter), new)
        row["letters"] += 1
        row["oldest"], row["newest"] = min(row["oldest"], letter.sent_at), max(row["newest"], letter.sent_at)
    return sorted(rows.values(), key=lambda row: -row["letters"])


@subcommand(app)
def show(operator: Operator, queue: AnyQueueArgument = None, code: CodeOption = None, ids: IdOption = None) -> None:
    """Show the dead letters whole, and why each is dead.

    A letter has the ids and times of the message that it was, and its body.
    """
    selection, answers, number = _Selection.of(code, ids), [], 0
    queues = [queue] if queue else list(QueueName)
    for each in queues:
        for letter in filter(selection.has, look(operator.deployment, each)):
            number += 1
            if operator.as_json:
                answers.append(letter.as_json())
            else:
                operator.console.print(letter_table(letter.as_json()))
    _remark_hidden(operator, _hidden(operator.deployment, queues))
    selection.found(number, queue)
    operator.show({"dead_letters": answers}, *([] if number else ["no dead letters"]))


def letter_table(letter: Mapping[str, Any]) -> Table:
    """For people, of what `Letter.as_json` has. What is empty is left out."""
    origin, dead_since = letter["origin"] or {}, letter["dead_since"]
    rows = {
        **{name: letter[name] for name in ("queue", "id", "code", "reason")},
        "dead since": f"{shown(dead_since)}, {duration(datetime.now(UTC) - dead_since)} ago",
        "sent": shown(origin.get("sent_at")),
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
    edit: Annotated[
        bool, typer.Option("--edit", help="Mend the messages in $EDITOR first. Only those that you change are sent.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Give dead messages another chance, and delete their letters.

    A message is sent to its queue again, with its producer's message attributes. Only then its letter is deleted, so
    nothing is lost if the command is killed, and what was posted before stays posted once. A profile update without
    as_of gets the time at which it was first sent. For a letter of outcomes, jobs or schedules the function is invoked
    with its body. What can't be processed comes back as a new letter.

    Letters with the code FUNCTION_KILLED stay, unless --code or --id names them: they would kill their function again.
    Exit status 1: a letter that was to be redriven stays.
    """
    if queue is QueueName.BUS:
        raise WrongUse(_BUS)
    if edit and queue not in MessageQueue:
        raise WrongUse(
            f"the letters of {queue} aren't messages that can be mended: --edit is for {', '.join(MessageQueue)}"
        )
    selection = _Selection.of(code, ids)
    letters = _Chosen(operator.deployment, queue, selection, keep=edit)
    if letters.killers:
        operator.remark(
            f"Left alone: {counted(letters.killers, 'letter')} with the code {GivenUp.FUNCTION_KILLED}, because the "
            f"message would kill its function again. When that is mended, add --code {GivenUp.FUNCTION_KILLED}."
        )
    bodies = _mended(operator, letters.kept) if edit else letters.codes
    codes = Counter(letters.codes[letter_id] for letter_id in bodies)
    if edit and not codes:
        operator.remark("No message was changed.")

    def new_body(letter: Letter) -> str | None:
        if letter.message_id not in bodies:
            return None
        return bodies[letter.message_id] if edit else letter.body

    if dry_run:
        operator.show({"would_redrive": codes}, f"would redrive {_counts(codes)}")
        return
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
        with_killers = selection.code or selection.ids
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


def _mended(operator: Operator, letters: dict[str, Letter]) -> dict[str, str]:
    """The new bodies of the letters that a person changes in an editor, by the letters' ids."""
    text = edited(lines_of(letters.values()))
    while True:
        try:
            return changed_bodies(text, letters)
        except InvalidLines as error:
            for problem in error.problems:
                operator.remark(problem)
            if not sys.stdin.isatty() or not typer.confirm("Edit again?", default=True, err=True):
                raise Failure(f"nothing was sent. Wrong lines: {len(error.problems)}") from None
        text = edited(text)


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
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Delete dead letters for good, by their code or their id. With --json the answer has them whole."""
    if not code and not ids:
        raise WrongUse("a dropped letter is gone for good: name the letters with --code CODE or --id ID")
    selection = _Selection.of(code, ids)
    found = {letter.message_id: _code(letter) for letter in look(operator.deployment, queue) if selection.has(letter)}
    selection.found(len(found), queue)
    codes = Counter(found.values())
    if dry_run:
        operator.show({"would_drop": codes}, f"would drop {_counts(codes)}")
        return
    operator.agree(f"drop {_counts(codes)} of {queue}", yes=yes)
    dropped, answers, not_deleted = Counter[str](), [], 0
    with Received(operator.deployment, queue) as received:
        for letters in received.rounds():
            chosen = [letter for letter in letters if letter.message_id in found]
            not_deleted += received.delete(chosen)
            dropped.update(map(_code, chosen))
            answers += map(Letter.as_json, chosen) if operator.as_json else ()
    operator.show({"dropped": answers}, f"dropped {_counts(dropped)}")
    if left := len(found) - dropped.total() + not_deleted:
        operator.not_well(f"not found again, or not deleted by SQS: {left} of them. Try again")
