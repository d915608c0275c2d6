"""Step 12: how long the functions took to start and to work, by Lambda's own lines, and whether they have room."""

import re
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from tools.teller.verify.run import Run
from tools.teller.verify.steps import Step

FUNCTIONS = ("ProcessTransactions", "UpsertProfiles", "PublishOutcomes", "ReconcileAccounts", "ReadAccounts")
FULL = 0.9
"""Of the timeout or the memory: the alarm of long durations rings at this part, too."""


class Report(NamedTuple):
    """Of an invocation. `init_ms` is None if the function was warm, or if Lambda doesn't say."""

    duration_ms: float
    memory_mb: float
    used_mb: float
    init_ms: float | None = None


def start_up(run: Run, step: Step) -> None:
    lambda_ = run.client("lambda")
    initialized = False
    for function in FUNCTIONS:
        reports = list(_reports(run, function))
        claim = f"{function}: each invocation had time and memory to spare"
        if not reports:
            step.not_tried(claim, "its log has no line of an invocation since the run began")
            continue
        configuration = lambda_.get_function_configuration(FunctionName=run.deployment[f"{function}FunctionName"])
        longest = max(report.duration_ms for report in reports)
        used, memory = max(report.used_mb for report in reports), configuration["MemorySize"]
        timeout_ms = 1000 * configuration["Timeout"]
        problems = []
        if longest > FULL * timeout_ms:
            problems.append(f"{function}: expected at most {FULL * timeout_ms:,.0f} ms, got {longest:,.0f} ms")
        if used > FULL * memory:
            problems.append(f"{function}: expected at most {FULL * memory:,.0f} MB, got {used:,.0f} MB")
        step.check(claim, *problems)
        run.gb_seconds += sum(report.duration_ms / 1000 * memory / 1024 for report in reports)
        run.invocations += len(reports)
        cold = [report for report in reports if report.init_ms is not None]
        initialized |= bool(cold)
        median = statistics.median(report.duration_ms for report in reports)
        measured = [f"{len(reports):,} invocations", f"median {median:,.0f} ms", f"longest {longest:,.0f} ms"]
        if used:
            measured.append(f"{used:,.0f} of {memory:,} MB")
        if cold:
            measured.append(f"init {max(report.init_ms or 0 for report in cold):,.0f} ms at most")
            measured.append(f"first batch {max(report.duration_ms for report in cold):,.0f} ms at most")
        step.measure(f"{function}: {', '.join(measured)}")
    claim = "the time of a cold start is known"
    if run.deployment.is_local:
        step.only_on_aws(claim, "a local AWS's lines don't have it")
    elif initialized:
        step.check(claim)
    else:
        step.not_tried(claim, "no function began anew in this run")


def _reports(run: Run, function: str) -> Iterator[Report]:
    """On AWS a line is an object of the type `platform.report`. On a local AWS it is a text."""
    if run.deployment.is_local:
        for text in run.log_texts(function, "REPORT"):
            yield from _of_text(text)
        return
    for line in run.log_lines(function, "platform.report"):
        if line.get("type") == "platform.report":
            found = line["record"]["metrics"]
            yield Report(
                found["durationMs"], found["memorySizeMB"], found["maxMemoryUsedMB"], found.get("initDurationMs")
            )


def _of_text(line: str) -> Iterator[Report]:
    """A line such as `REPORT RequestId: … Duration: 12 ms … Memory Size: 1024 MB Max Memory Used: 80 MB`."""
    numbers = [re.search(rf"\b{name}: ([\d.]+)", line) for name in ("Duration", "Memory Size", "Max Memory Used")]
    if all(numbers):
        duration, memory, used = (float(number[1]) for number in numbers if number)
        yield Report(duration, memory, used)
