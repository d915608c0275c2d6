"""`teller outcomes tail` and `teller outcomes republish`: the events that tell of outcomes."""

import contextlib
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ledger.core.reason_codes import InvalidMessage
from ledger.core.republish_requests import decode_republish_request
from tools.teller.failures import WrongUse
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.plain import as_json
from tools.teller.republishing import publish_again
from tools.teller.tail import LONGEST, Event
from tools.teller.tail import tail as tail_of
from tools.teller.times import duration, moment, shown

OfAccount = Annotated[str | None, typer.Option("--account", help="Only the events of this account.", metavar="ACCOUNT")]
RangeStart = Annotated[
    str | None,
    typer.Option("--from", help="The first version, or a time: entries posted then or later.", metavar="VERSION|TIME"),
]
RangeEnd = Annotated[
    str | None,
    typer.Option("--to", help="The last version, or a time: entries posted before it.", metavar="VERSION|TIME"),
]
OfOneAccount = Annotated[
    str | None, typer.Argument(help="The account's id. Without it: all accounts, --from a time.", metavar="ACCOUNT")
]

group = typer.Typer(no_args_is_help=True, help="Hear of outcomes, and have them published again.")


def add_to(app: typer.Typer) -> None:
    subcommand(group)(tail)
    subcommand(group)(republish)
    app.add_typer(group, name="outcomes")


def tail(operator: Operator, account_id: OfAccount = None, yes: YesOption = False) -> None:
    """Print the events of outcomes as they come, until Ctrl-C.

    A line per event; with --json the whole event. The tail has a rule and a queue of its own on the bus, which are
    removed at the end. It ends by itself after a day. It is for looking on: on AWS a new rule may take a minute, and
    the events come in no order. A consumer that must have each event subscribes to the bus: docs/events.md.
    """
    deployment = operator.deployment
    operator.agree("give the bus a rule, and the rule a queue, until the end of the tail", yes=yes)
    with ended_by_signals(), tail_of(deployment, account_id, datetime.now(UTC)) as events:
        operator.remark(f"Listening to the outcomes of {deployment.name}. Ctrl-C ends it.")
        for event in events:
            operator.line(as_json(event) if operator.as_json else line(event))
        operator.remark(f"Ended after {duration(LONGEST)}.")


def republish(
    operator: Operator,
    account_id: OfOneAccount = None,
    begin: RangeStart = None,
    end: RangeEnd = None,
    yes: YesOption = False,
) -> None:
    """Publish an account's outcomes again, or all since a time.

    Every consumer of the bus gets them, with the same ids as before. Times without an offset are in UTC. Exit status 1:
    a version has no entry, or an entry can't be published.
    """
    event = {"republish": request(account_id, begin, end)}
    of = f"of {account_id}" if account_id else "of all accounts"
    operator.agree(f"publish the outcomes {of} again, to all consumers", yes=yes)
    answer = publish_again(operator.deployment, event, operator.remark)
    were = "outcome {} was" if answer["published"] == 1 else "outcomes {} were"
    operator.show(answer, f"{answer['published']:,} {were.format(of)} published again.")
    if answer["missing_versions"]:
        operator.not_well(f"not published: {'; '.join(map(_missing, answer['missing_versions']))}")
    if answer["dead_lettered"]:
        operator.not_well(f"{answer['dead_lettered']:,} can't be published: teller dead-letters outcomes")


def request(account_id: str | None, begin: str | None, end: str | None) -> dict[str, Any]:
    """The request to publish again. Raises WrongUse for one that the function would refuse."""
    fields: dict[str, Any] = {"account_id": account_id} if account_id else {}
    for name, bound in (("from", begin), ("to", end)):
        if bound and bound.isdecimal():
            fields[f"{name}_version"] = int(bound)
        elif bound:
            try:
                fields[name] = moment(bound).isoformat()
            except typer.BadParameter:
                expected = "a version, such as 7, or an ISO 8601 time, such as 2026-11-01T12:30:00Z"
                raise WrongUse(f"--{name}: expected {expected}, got {bound!r}") from None
    if len({name.endswith("_version") for name in fields if name != "account_id"}) > 1:
        raise WrongUse(f"--from and --to: expected two versions, or two times, got {begin} and {end}")
    if account_id is None and "from" not in fields:
        raise WrongUse("name an account, or the time --from which the outcomes of all accounts are published again")
    try:
        decode_republish_request({"republish": fields})
    except InvalidMessage as error:
        raise WrongUse(str(error)) from None
    return fields


def line(event: Event) -> str:
    """An event in a line: its time and type, the account and version, the transaction, the amounts, what is held."""
    detail = event["detail"]
    match detail:
        case {"reason_code": code, "reason": reason, "refused_at": time}:
            accounts = ", ".join(detail["account_ids"]) or "no account"
            transaction = detail["transaction_id"] or "no transaction"
            return f"{shown(time)}  {event['detail-type']}  {accounts}  {transaction}  {code}: {reason}"
    change = f"{detail['amount']} -> {detail['balance_after']}"
    if detail["held_after"] != "0":
        change += f"  held {detail['held_after']}"
    words = [shown(detail["posted_at"]), event["detail-type"], detail["id"], detail["transaction_id"], change]
    return "  ".join([*words, *([detail["reason"]] if detail["reason"] else [])])


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """A block that Ctrl-C, SIGTERM and the end of the terminal end without a word. What follows them is ignored.

    A signal that is ignored at the beginning, as `nohup` does, stays ignored.
    """
    before = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    heeded = [which for which, handler in before.items() if handler != signal.SIG_IGN]

    def end(*_: object) -> None:
        for which in heeded:
            signal.signal(which, signal.SIG_IGN)
        raise KeyboardInterrupt

    for which in heeded:
        signal.signal(which, end)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        for which in heeded:
            signal.signal(which, before[which])


def _missing(missing: dict[str, Any]) -> str:
    match missing:
        case {"from_version": first, "to_version": last}:
            versions = f"version {first}" if first == last else f"versions {first} to {last}"
        case _:
            versions = "entries"
    return f"{versions} of {missing['account_id']}, because {missing['reason']}"
