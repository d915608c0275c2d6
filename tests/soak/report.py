"""The report of a soak in Markdown: its figures, its violations, and a plot over time."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot

from tests.soak.run import Soaked
from tests.soak.scheduled_runs import JOBS
from tests.soak.workload import counted

BUCKET_SECONDS = 5.0
TYPES_OF_HOLDS = ("hold", "post_hold", "void_hold", "expire_hold")

mpl.use("agg")


def write_report(soaked: Soaked, folder: Path, about: Sequence[str]) -> Path:
    """Writes the report and returns its path. `about` describes the deployment."""
    folder.mkdir(parents=True, exist_ok=True)
    _plot(soaked, folder / "soak.png")
    report = folder / "soak.md"
    report.write_text("\n".join(_lines(soaked, about)) + "\n")
    return report


def _lines(soaked: Soaked, about: Sequence[str]) -> Iterator[str]:
    day = datetime.fromtimestamp(soaked.start, UTC)
    yield from (f"# A soak of Teller, {day:%Y-%m-%d %H:%M} UTC", "")
    yield from (f"**{'Violations: none.' if not soaked.violations else f'{len(soaked.violations)} VIOLATIONS.'}**", "")
    for claims, sentences in soaked.found.items():
        yield from (f"- {'✗' if sentences else '✓'} {claim}" for claim in claims)
        yield from (f"  - {sentence}" for sentence in sentences[:50])
    yield from ("", "![Entries posted, conflicts and messages waiting, over time](soak.png)", "")
    yield from ("| | |", "|---|---:|")
    yield from (f"| {name} | {figure} |" for name, figure in _figures(soaked))
    yield from ("", *(f"- {sentence}" for sentence in about))


def _figures(soaked: Soaked) -> Iterator[tuple[str, str]]:
    logs = soaked.logs
    for queue, (sent, repeated, junk) in counted(soaked.workload).items():
        yield f"{queue} sent", f"{sent:,}"
        yield "of these repeated, invalid", f"{repeated:,}, {junk:,}"
    seconds = soaked.drained_at - soaked.start
    messages = len(soaked.workload.transactions) + len(soaked.workload.updates)
    yield "seconds until the queues were empty", f"{seconds:,.0f}"
    yield "messages per second", f"{messages / seconds:,.1f}"
    yield "function processes killed", f"{len(soaked.killed_at):,}"
    for name, died in soaked.died.items():
        yield f"of these while processing {name.lower()}", f"{died:,}"
    yield "of these while running a job", f"{_jobs_that_died(soaked):,}"
    yield "seconds of the outage", f"{soaked.outage.ended - soaked.outage.began:,.0f}"
    yield "of that of EventBridge", f"{soaked.eventbridge_outage.ended - soaked.eventbridge_outage.began:,.0f}"
    for name in logs:
        yield f"`{name}` invoked", f"{logs[name].invocations:,}"
    counts = soaked.quiescence.books.counts()
    yield "accounts", f"{len(soaked.quiescence.books.accounts):,}"
    yield "posted", f"{counts.pop('POSTED', 0):,}"
    yield (
        "rejected",
        f"{counts.total():,}: {', '.join(f'{reason} {count:,}' for reason, count in counts.most_common())}",
    )
    types = soaked.quiescence.books.types()
    yield "holds, and their postings, voids and expiries", ", ".join(f"{types[kind]:,}" for kind in TYPES_OF_HOLDS)
    yield "reversals", f"{types['reverse']:,}"
    yield "entries in the journal", f"{len(soaked.quiescence.books.entries):,}"
    yield "profiles", f"{len(soaked.quiescence.profiles):,}"
    letters = (soaked.quiescence.dead_transactions, soaked.quiescence.dead_updates)
    yield "dead-lettered: transactions, updates", ", ".join(f"{len(each):,}" for each in letters)
    yield (
        "duplicates absorbed, as far as logged",
        f"{logs['process_transactions'].metrics['Duplicates']:,}",
    )
    yield (
        "conflicts on accounts, on profiles, as far as logged",
        ", ".join(f"{logs[name].metrics['Conflicts']:,}" for name in ("process_transactions", "upsert_profiles")),
    )
    yield "tickets taken in lines of accounts", f"{soaked.tickets:,}"
    yield f"scheduled times, each with {len(JOBS)} jobs", f"{len(soaked.scheduled_runs.times):,}"
    for name in JOBS:
        names = ("Done", "Continued", "DoneBefore", "InProgress", "Refused")
        outcomes = {outcome: logs[name].metrics[outcome] for outcome in names}
        yield f"`{name}`", ", ".join(f"{outcome} {count:,}" for outcome, count in outcomes.items())
    interest = Counter(entry.outcome.reason or entry.outcome.status for entry in _interest(soaked))
    yield "interest", ", ".join(f"{outcome} {count:,}" for outcome, count in interest.most_common())
    yield "jobs' dead letters sent again", f"{soaked.scheduled_runs.sent_again:,}"
    hearing = soaked.hearing
    yield "entries of which the consumer heard", f"{hearing.events - hearing.twice:,} of {hearing.entries:,}"
    yield "events that came again", f"{hearing.twice:,}"
    yield "dead letters of which the consumer heard", f"{hearing.letters_told:,} of {hearing.letters:,}"
    yield "entries of which the consumer lost the events, in gaps", f"{hearing.lost:,}, {hearing.gaps:,}"
    yield "published again to close the gaps", f"{hearing.republished:,}"
    yield "messages sent again at the end", f"{len(soaked.again.transactions) + len(soaked.again.updates):,}"


def _jobs_that_died(soaked: Soaked) -> int:
    """The number of job runs that started, but logged no outcome."""
    logs = [soaked.logs[name] for name in JOBS]
    started = sum(line.get("message") == "started" for each in logs for line in each.lines)
    return started - sum(each.metrics["Done"] + each.metrics["Continued"] for each in logs)


def _interest(soaked: Soaked):
    return [entry for entry in soaked.quiescence.books.entries if entry.request["type"] == "charge_interest"]


def _plot(soaked: Soaked, path: Path) -> None:
    figure, (posted, conflicts, waiting) = pyplot.subplots(3, 1, sharex=True, figsize=(10, 8), layout="constrained")
    entries = ((_seconds(entry.outcome.posted_at), 1) for entry in soaked.quiescence.books.entries)
    posted.stairs(*_per_second(entries, soaked), fill=True, color="tab:green")
    posted.set_ylabel("entries per second")
    kills = [at - soaked.start for at in soaked.killed_at]
    posted.plot(kills, [0] * len(kills), "|", color="black", markersize=12, label="a process killed")
    posted.legend(loc="upper right")
    for name, color in (("process_transactions", "tab:red"), ("upsert_profiles", "tab:purple")):
        conflicts.stairs(*_per_second(soaked.logs[name].conflicts(), soaked), color=color, label=name)
    conflicts.set_ylabel("conflicts per second")
    conflicts.legend(loc="upper right")
    samples = [sample for sample in soaked.samples if sample.at <= soaked.end]
    times = [sample.at - soaked.start for sample in samples]
    waiting.plot(times, [sample.transactions for sample in samples], color="tab:blue", label="transactions")
    waiting.plot(times, [sample.updates for sample in samples], color="tab:orange", label="profile updates")
    waiting.set_ylabel("messages on the queue")
    waiting.legend(loc="upper right")
    for axes in (posted, conflicts, waiting):
        axes.axvspan(soaked.outage.began - soaked.start, soaked.outage.ended - soaked.start, color="mistyrose")
        axes.axvline(soaked.drained_at - soaked.start, color="gray", linestyle=":")
        axes.set_ylim(bottom=0)
    waiting.set_xlabel("seconds; red: the outage; dotted line: the queues are empty, and the kills end")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _per_second(happened: Iterable[tuple[float, int]], soaked: Soaked) -> tuple[list[float], list[float]]:
    """The rate of events, given by time and number, in each bucket; and the buckets' edges, from the soak's start."""
    buckets = int((soaked.end - soaked.start) / BUCKET_SECONDS) + 1
    rates = [0.0] * buckets
    for at, count in happened:
        bucket = int((at - soaked.start) / BUCKET_SECONDS)
        if 0 <= bucket < buckets:
            rates[bucket] += count / BUCKET_SECONDS
    return rates, [number * BUCKET_SECONDS for number in range(buckets + 1)]
