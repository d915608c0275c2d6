"""`teller outcomes tail` and `teller outcomes republish`: the events that tell of outcomes."""

import contextlib
import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tools.teller.accounts import AccountId
from tools.teller.failures import Failure, NotFound, WrongUse
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.tail import LONGEST, Event
from tools.teller.tail import tail as tail_of
from tools.teller.times import duration, shown

OfAccount = Annotated[str | None, typer.Option("--account", help="Only the events of this account.", metavar="ACCOUNT")]
FromVersion = Annotated[
    int | None, typer.Option("--from", min=1, help="The first version. Without it: 1.", metavar="VERSION")
]
ToVersion = Annotated[
    int | None,
    typer.Option("--to", min=1, help="The last version. Without it: the account's own.", metavar="VERSION"),
]

group = typer.Typer(no_args_is_help=True, help="Hear of outcomes, and have them published again.")


def add_to(app: typer.Typer) -> None:
    subcommand(group)(tail)
    subcommand(group)(republish)
    app.add_typer(group, name="outcomes")


def tail(operator: Operator, account_id: OfAccount = None) -> None:
    """Print the events of outcomes as they come, until Ctrl-C.

    A line per event; with --json the whole event. The tail has a rule and a queue of its own on the bus, which are
    removed at the end. It ends by itself after a day. It is for looking on: on AWS a new rule may take a minute, and
    the events come in no order. A consumer that must have each event subscribes to the bus: docs/events.md.
    """
    deployment = operator.deployment
    with ended_by_signals(), tail_of(deployment, account_id, datetime.now(UTC)) as events:
        operator.remark(f"Listening to the outcomes of {deployment.name}. Ctrl-C ends it.")
        for event in events:
            print(json.dumps(event, ensure_ascii=False) if operator.as_json else line(event), flush=True)
        operator.remark(f"Ended after {duration(LONGEST)}.")


def republish(
    operator: Operator,
    account_id: AccountId,
    from_version: FromVersion = None,
    to_version: ToVersion = None,
    yes: YesOption = False,
) -> None:
    """Publish the outcomes of an account's entries again.

    Every consumer of the bus gets them, with the same ids as before. Exit status 1: a version has no entry, or an
    entry can't be published.
    """
    if from_version and to_version and to_version < from_version:
        raise WrongUse(f"--to: expected {from_version} or more, which is --from, got {to_version}")
    operator.agree(f"publish the outcomes of {account_id} again, to all consumers", yes=yes)
    versions = {"from_version": from_version, "to_version": to_version}
    request = {"account_id": account_id} | {name: value for name, value in versions.items() if value}
    answer = published_again(operator, request)
    were = "outcome of {} was" if answer["published"] == 1 else "outcomes of {} were"
    operator.show(answer, f"{answer['published']:,} {were.format(account_id)} published again.")
    if answer["missing_versions"]:
        operator.not_well(f"not published: {'; '.join(map(_missing, answer['missing_versions']))}")
    if answer["dead_lettered"]:
        operator.not_well(f"{answer['dead_lettered']:,} can't be published: teller dead-letters outcomes")


def published_again(operator: Operator, request: dict[str, Any]) -> dict[str, Any]:
    """The sums of the answers of publish_outcomes to a request and to all that it leaves.

    Raises NotFound for an unknown account, and Failure if an invocation fails: what was published by then is said.
    """
    total: dict[str, Any] = {"account_id": request["account_id"], "published": 0, "dead_lettered": 0}
    total["missing_versions"] = []
    events = [{"republish": request}]
    while events:
        event = events.pop()
        try:
            answer = operator.deployment.invoke("PublishOutcomesFunctionName", event)
        except Failure as failure:
            begin = event["republish"].get("from_version", 1)
            raise Failure(f"{failure.reason}. {_so_far(total)}; go on with --from {begin}") from None
        match answer:
            case {"error": {"code": "INVALID_REQUEST", "reason": reason}}:
                raise WrongUse(reason)
            case {"error": {"code": "UNKNOWN_ACCOUNT", "reason": reason}}:
                raise NotFound(reason)
            case {"error": {"code": code, "reason": reason}}:
                raise Failure(f"{reason}. {_so_far(total)}", code)
        for name in ("published", "dead_lettered", "missing_versions"):
            total[name] += answer[name]
        events += answer["next"]
        if events:
            operator.remark(f"{_so_far(total)}, going on.")
    return total


def line(event: Event) -> str:
    """What an event says, in a line: when, what, of which account and version, which transaction, and the amounts."""
    detail = event["detail"]
    match detail:
        case {"reason_code": code, "reason": reason, "refused_at": time}:
            accounts = ", ".join(detail["account_ids"]) or "no account"
            transaction = detail["transaction_id"] or "no transaction"
            return f"{shown(time)}  {event['detail-type']}  {accounts}  {transaction}  {code}: {reason}"
    change = f"{detail['amount']} -> {detail['balance_after']}"
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


def _so_far(total: dict[str, Any]) -> str:
    return f"{total['published']:,} outcomes were published again so far"


def _missing(missing: dict[str, Any]) -> str:
    first, last = missing["from_version"], missing["to_version"]
    versions = f"version {first}" if first == last else f"versions {first} to {last}"
    return f"{versions} of {missing['account_id']}, because {missing['reason']}"
