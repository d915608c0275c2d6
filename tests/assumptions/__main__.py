"""`make assumptions`: tries each assumption about AWS on the engines of this machine, or with AWS=1 on an account.

Prints a report in Markdown. Exits with 1 if an assumption doesn't hold and no difference is named.
"""

import argparse
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.assumptions.bill import LONGEST_SECONDS, ended_after
from tests.assumptions.conftest import difference, place_and_name
from tests.assumptions.page import PAGE, page, sentence
from tests.assumptions.places import PREFIX, on_aws, remove_leftovers

HERE = Path(__file__).parent


class Results:
    """What became of each test, as pytest tells it: `outcomes` by place and name."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str], str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        place, name = place_and_name(report.nodeid.rpartition("::")[2])
        if report.when == "call" or report.outcome != "passed":
            outcome = "differs" if hasattr(report, "wasxfail") else report.outcome
            self.outcomes[place, name] = "failed" if self.outcomes.get((place, name)) == "failed" else outcome


def report_of(outcomes: dict[tuple[str, str], str], seconds: float) -> str:
    """The report as Markdown: counts by place, and each assumption that doesn't hold."""
    counts = {place: Counter(each for (at, _), each in outcomes.items() if at == place) for place, _ in outcomes}
    lines = ["| place | hold | differ as named | don't hold | not tried |", "|---|---|---|---|---|"]
    for place, count in counts.items():
        counted = [str(count[each]) for each in ("passed", "differs", "failed", "skipped")]
        lines.append(f"| {place} | {' | '.join(counted)} |")
    lines += ["", f"{len({name for _, name in outcomes})} assumptions, {seconds:.0f} s", ""]
    for (place, name), outcome in sorted(outcomes.items()):
        if outcome in ("failed", "differs"):
            why = f": {difference(place, name)}" if outcome == "differs" else ": **doesn't hold**"
            lines.append(f"- {place}: {sentence(name)}{why}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.assumptions", description=__doc__)
    parser.add_argument("--remove", action="store_true", help="remove what killed runs left on AWS, and end")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}, and end")
    given = parser.parse_args()
    if given.remove:
        print("\n".join(remove_leftovers(on_aws(), PREFIX)) or "nothing is left")
    elif given.page:
        PAGE.write_text(page())
    elif os.environ.get("TELLER_ASSUMPTIONS_ON_AWS"):
        sys.exit(_on_aws())
    else:
        sys.exit(_run("--all"))


def _on_aws() -> int:
    """Whatever ends the run, but for SIGKILL, what it has made is removed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    place = on_aws()
    try:
        with ended_after(LONGEST_SECONDS):
            return _run()
    finally:
        for sentence in remove_leftovers(place, place.prefix):
            print(f"- {sentence}")
        print(f"\nat most {place.bill.dollars:.3f} dollars" if place.bill else "")


def _run(*arguments: str) -> int:
    results, started = Results(), time.monotonic()
    status = pytest.main([str(HERE), "--quiet", "--no-header", "-p", "no:cacheprovider", *arguments], plugins=[results])
    print(report_of(results.outcomes, time.monotonic() - started))
    if status == pytest.ExitCode.INTERRUPTED:
        print(f"\n**The run was interrupted**, after {LONGEST_SECONDS} s at the latest: the others weren't tried.")
    return int(status)


if __name__ == "__main__":
    main()
