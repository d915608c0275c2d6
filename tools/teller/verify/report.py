"""The report of a verification: an object for programs, and Markdown to paste into an issue."""

import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from tools.teller.verify.run import Run
from tools.teller.verify.steps import Step, Verdict


@dataclass
class Report:
    run: Run
    steps: list[Step]
    left_behind: list[str]

    @property
    def failed(self) -> bool:
        return any(step.verdict is Verdict.FAILED for step in self.steps)

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def counts(self) -> Counter[Verdict]:
        """The numbers of checks, by their verdicts."""
        return Counter(check.verdict for step in self.steps for check in step.checks)

    def summary(self) -> str:
        counted = ", ".join(f"{self.counts[verdict]} {verdict}" for verdict in Verdict)
        return f"Checks: {counted}. It took {self.seconds:,.0f} s."

    def answer(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "run": self.run.name,
            "stack": self.run.deployment.name,
            "where": self._where(),
            "began": self.run.began,
            "seconds": round(self.seconds, 1),
            "checks": {str(verdict): self.counts[verdict] for verdict in Verdict},
            "steps": [
                {
                    "number": step.number,
                    "title": step.title,
                    "verdict": str(step.verdict),
                    "seconds": round(step.seconds, 1),
                    "sent": step.sent,
                    "measured": step.measured,
                    "checks": [
                        {"claim": check.claim, "verdict": str(check.verdict), "why": list(check.why)}
                        for check in step.checks
                    ],
                }
                for step in self.steps
            ],
            "left_behind": self.left_behind,
        }

    def markdown(self) -> list[str]:
        """The report's lines for people."""
        lines = [
            f"## teller verify: {self.run.deployment.name}, {self._where()}",
            "",
            f"Run `{self.run.name}`, {self.run.began.astimezone(UTC):%Y-%m-%d %H:%M} UTC. {self.summary()}",
            "",
            "| step | verdict | sent | measured | seconds |",
            "|---|---|---|---|---|",
        ]
        for step in self.steps:
            measured = "; ".join(step.measured)
            cells = (f"{step.number}. {step.title}", step.verdict, step.sent, measured, f"{step.seconds:.0f}")
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
        for verdict in (Verdict.FAILED, Verdict.NOT_TRIED, Verdict.ONLY_ON_AWS, Verdict.PASSED):
            checks = [(step, check) for step in self.steps for check in step.checks if check.verdict is verdict]
            if checks:
                lines += ["", f"**{verdict[0].upper()}{verdict[1:]}: {len(checks)}**", ""]
                lines += [line for step, check in checks for line in _bullet(step, check.claim, check.why)]
        lines += ["", f"**Left behind**: the closed accounts of `{self.run.name}` with their journals."]
        lines += [f"- {sentence}" for sentence in self.left_behind]
        return list(map(without_account_numbers, lines))

    def _where(self) -> str:
        return "a local AWS" if self.run.deployment.is_local else f"AWS, {self.run.deployment.region}"


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _bullet(step: Step, claim: str, why: Any) -> list[str]:
    if len(why) <= 1:
        return [f"- {step.number}: {claim}" + (f": {why[0]}" if why else "")]
    return [f"- {step.number}: {claim}:", *(f"  - {sentence}" for sentence in why)]


def without_account_numbers(text: str) -> str:
    """Numbers of AWS accounts, as they are in ARNs and in the URLs of queues, become stars."""
    return re.sub(r"\b\d{12}\b", "************", text)
