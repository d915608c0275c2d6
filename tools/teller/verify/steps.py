"""A step of the verification: what was sent and measured, and its checks, each with a verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_TRIED = "not tried"
    ONLY_ON_AWS = "only on AWS"


class Check(NamedTuple):
    """A claim and its verdict. `why` has a sentence for each problem: what, where, what was expected."""

    claim: str
    verdict: Verdict
    why: Sequence[str] = ()


@dataclass
class Step:
    """`number` and `title` name the step. The others tell what it did."""

    number: int
    title: str
    sent: str = "nothing"
    measured: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    seconds: float = 0

    def check(self, claim: str, *problems: str) -> bool:
        """Passed if there is no problem, else failed. Returns whether it passed."""
        self.checks.append(Check(claim, Verdict.FAILED if problems else Verdict.PASSED, problems))
        return not problems

    def not_tried(self, claim: str, why: str) -> None:
        self.checks.append(Check(claim, Verdict.NOT_TRIED, [why]))

    def only_on_aws(self, claim: str, why: str) -> None:
        """For a claim that a local AWS can't show: `why` says what the local AWS lacks."""
        self.checks.append(Check(claim, Verdict.ONLY_ON_AWS, [why]))

    def measure(self, what: str) -> None:
        self.measured.append(what)

    @property
    def verdict(self) -> Verdict:
        """Failed if a check failed. Passed if all passed that could be tried here, and at least one did."""
        verdicts = {check.verdict for check in self.checks}
        for verdict in (Verdict.FAILED, Verdict.NOT_TRIED, Verdict.PASSED):
            if verdict in verdicts:
                return verdict
        return Verdict.ONLY_ON_AWS


def different(what: str, expected: object, found: object) -> list[str]:
    """The problem that something isn't as expected, or none."""
    return [] if expected == found else [f"{what}: expected {expected}, got {found}"]
