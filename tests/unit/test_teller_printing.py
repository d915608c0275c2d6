"""Whatever a command prints of messages, items and events: no text of theirs reaches the terminal as it is."""

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.test_teller_accounts import ACCOUNT, HOLD, entry
from tests.unit.test_teller_page import COMMANDS
from tests.unit.test_teller_status import status
from tools.local_aws.server import PROJECT
from tools.teller import dead_letters, job_records, jobs, outcomes, profile, transaction
from tools.teller import status as status_module
from tools.teller.alarms import Alarms, Ringing
from tools.teller.command import app
from tools.teller.failures import Failure
from tools.teller.job_records import JobRecords, LockRecord, RunOfJob
from tools.teller.letters import Letter
from tools.teller.operator import Operator
from tools.teller.queues import Counts
from tools.teller.redriving import Redriven
from tools.teller.verify import command as verify
from tools.teller.verify.run import Run
from workers.segments import Segment

HOSTILE = "h\x1b[2J\x07\x7f\x9b1A\u202e\u2066\u2028\U000e0041\r\nFORGED"
"""It clears the screen, goes up a line, turns the direction, and forges a line."""
TIME = "2026-11-22T18:43:41+00:00"
NOW = datetime(2026, 11, 22, 19, tzinfo=UTC)
JOB = job_records.JOBS["reconcile_accounts"]
LETTER = Letter(
    json.dumps({"transaction_id": HOSTILE, "account_id": HOSTILE}, ensure_ascii=False) + HOSTILE,
    {"reason": HOSTILE, "reason_code": HOSTILE, HOSTILE: HOSTILE},
    HOSTILE,
    NOW,
)
REQUEST = {"type": HOSTILE, "amount": "1", "description": HOSTILE, "hold_id": HOSTILE, "occurred_at": HOSTILE}
ENTRY = entry(HOSTILE, "0", REQUEST, status="REJECTED", reason=HOSTILE, posted_at=HOSTILE, held_after="1")
FINISHED = {"finished_at": TIME, "mismatches": 1, "first_mismatches": [HOSTILE], HOSTILE: 1}
RUN = RunOfJob(HOSTILE, FINISHED)
LOCK = LockRecord(
    HOSTILE,
    Segment(),
    {
        "owner": HOSTILE,
        "token": 1,
        "leased_until": "2026-11-22T20:00:00+00:00",
        "holder": {"where": HOSTILE, "why": HOSTILE, "since": HOSTILE},
        "checkpoint": {"window": HOSTILE, "saved": {"after": HOSTILE}},
    },
)


class Deployment:
    """Each function answers with hostile texts."""

    name, endpoint_url, is_prod, is_local = "teller-dev", None, False, False
    parameters: Mapping[str, str] = {"ReconcileSchedule": HOSTILE, "InterestSchedule": "", "ExpireHoldsSchedule": ""}

    def __getitem__(self, output: str) -> str:
        return output

    def client(self, _: str) -> Any:
        raise AssertionError

    def invoke(self, output: str, request: Mapping[str, Any]) -> dict[str, Any]:
        if output == "RepublishOutcomesFunctionName":
            missing = [{"account_id": HOSTILE, "reason": HOSTILE}]
            return {"published": 0, "dead_lettered": 0, "missing_versions": missing, "next": []}
        holds = [{"hold_id": HOSTILE, "remaining": "1", "expires_at": HOSTILE}]
        match request["read"]:
            case "account":
                texts = dict.fromkeys(("account_id", "currency", "status", "posted_at"), HOSTILE)
                return ACCOUNT | texts | {"holds": holds}
            case "transaction":
                is_dead = request["transaction_id"] == "dead"
                refusal = dict.fromkeys(("reason_code", "reason", "refused_at", "message_id"), HOSTILE)
                return {"entry": None if is_dead else ENTRY, "reversed": None, "refusal": refusal}
        page = {"account_id": HOSTILE, "account_version": 2, "entries": [ENTRY, HOLD], "next": None}
        return page | {"complete": True, "missing_versions": []}


type Patch = pytest.MonkeyPatch


def _letters(patch: Patch) -> None:
    patch.setattr(dead_letters, "look", lambda _, queue: [LETTER] if queue == "transactions" else [])
    patch.setattr(transaction, "look", lambda *_: [LETTER])
    patch.setattr(transaction, "is_about", lambda *_: True)
    for module in (dead_letters, transaction):
        patch.setattr(module, "counts_of", lambda *_: Counts(1, 1, 1))
    received = SimpleNamespace(rounds=lambda: [[LETTER]], delete=lambda _: 0)
    patch.setattr(dead_letters, "Received", lambda *_: contextlib.nullcontext(received))
    patch.setattr(dead_letters, "redrive", lambda *_: Redriven(staying={HOSTILE: HOSTILE}))


def _jobs(patch: Patch) -> None:
    answer: Future[dict[str, Any]] = Future()
    patch.setattr(jobs, "read_job", lambda _, job: JobRecords(job, [LOCK], [RUN]))
    patch.setattr(jobs, "read_locks", lambda *_: [LOCK])
    patch.setattr(jobs, "read_runs", lambda *_: [RUN])
    patch.setattr(jobs, "begin", lambda *_: answer)
    patch.setattr(jobs, "follow", lambda *_: ({"outcome": "DoneBefore", "reason": HOSTILE}, RUN))


def _status(patch: Patch) -> None:
    alarms = Alarms(1, 0, [Ringing(HOSTILE, NOW, HOSTILE)])
    found = status()
    became = {kind: dict.fromkeys(counted.metrics, 1) for kind, counted in status_module.BECAME.items()}
    patch.setattr(
        status_module,
        "status_of",
        lambda *_: found._replace(
            alarms=alarms,
            jobs=[JobRecords(JOB, [LOCK], [RUN])],
            figures=found.figures._replace(became=became, came={}, oldest_message_seconds={}),
        ),
    )


def _tail(patch: Patch) -> None:
    detail = ENTRY | {"account_id": HOSTILE, "id": HOSTILE}
    refused = {"reason_code": HOSTILE, "reason": HOSTILE, "refused_at": TIME, "account_ids": [HOSTILE]}
    events = [
        {"detail-type": HOSTILE, "detail": detail},
        {"detail-type": HOSTILE, "detail": refused | {"transaction_id": HOSTILE}},
    ]
    patch.setattr(outcomes, "tail_of", lambda *_: contextlib.nullcontext(events))


def _profile(patch: Patch) -> None:
    item = {"account_id": "a", "erased_as_of": HOSTILE, HOSTILE: {HOSTILE: [HOSTILE]}}
    patch.setattr(profile, "read", lambda *_: item)


def _verify(patch: Patch) -> None:
    def fails(run: Run, step: Any) -> None:
        step.measure(HOSTILE)
        raise Failure(HOSTILE)

    deployment = SimpleNamespace(name=HOSTILE, is_local=True, requests={})
    run = SimpleNamespace(deployment=deployment, usage=dict, name=HOSTILE, began=NOW)
    patch.setattr(verify, "STEPS", [(HOSTILE, fails)])
    patch.setattr(verify, "CountedDeployment", lambda *_: None)
    patch.setattr(verify, "Run", lambda _: run)
    patch.setattr(verify, "costs", lambda *_: [])
    patch.setattr(verify, "tidy_up", lambda _: [HOSTILE])


def _nothing(_: Patch) -> None:
    pass


CASES: list[tuple[str, Callable[[Patch], None]]] = [
    ("status", _status),
    ("send FILE", _nothing),
    ("account a", _nothing),
    ("statement a", _nothing),
    ("statement a --wide", _nothing),
    ("statement a --csv", _nothing),
    ("transaction a t", _nothing),
    ("transaction a dead", _letters),
    ("profile a", _profile),
    ("dead-letters list", _letters),
    ("dead-letters show", _letters),
    ("dead-letters redrive transactions", _letters),
    ("dead-letters drop transactions --id HOSTILE", _letters),
    ("jobs list", _jobs),
    ("jobs run reconcile_accounts", _jobs),
    ("jobs release reconcile_accounts", _jobs),
    ("outcomes tail", _tail),
    ("outcomes republish a", _nothing),
    ("verify", _verify),
]


def test_only_the_operator_prints() -> None:
    own = {"operator.py", "progress.py", "tables.py", "pictures.py"}
    for path in (PROJECT / "tools/teller").rglob("*.py"):
        found = re.findall(r"\bprint\(|rich\.table|sys\.std(?:out|err)|remarks\.|\bTable\(", path.read_text())
        assert path.name in own or found == [], path


def test_each_command_is_tried_with_hostile_texts() -> None:
    printing = [names for names in COMMANDS if names != ("page",)]  # tests/integration/test_served_page.py
    assert all(any(case.startswith(" ".join(names)) for case, _ in CASES) for names in printing)


def run(case: str, file: Path, patch: Patch, prepare: Callable[[Patch], None], *options: str) -> tuple[str, str, int]:
    """The outputs and the exit status of a case."""
    patch.setattr(Operator, "deployment", Deployment())
    prepare(patch)
    arguments = [{"FILE": str(file), "HOSTILE": HOSTILE}.get(word, word) for word in case.split()]
    variables = {"TELLER_STACK": "teller-dev", "COLUMNS": None}
    ended = CliRunner().invoke(app, [*arguments, *options], env=variables, catch_exceptions=False)
    return ended.stdout, ended.stderr, ended.exit_code


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["people", "json"])
@pytest.mark.parametrize(("case", "prepare"), CASES, ids=[case for case, _ in CASES])
def test_no_text_of_a_message_controls_the_terminal_or_forges_a_line(
    case: str, prepare: Callable[[Patch], None], form: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if "--csv" in case and form:
        pytest.skip("they exclude each other")
    file = tmp_path / "day.jsonl"
    file.write_text(json.dumps({"type": HOSTILE}, ensure_ascii=False))
    out, err, _ = run(case, file, monkeypatch, prepare, *form)
    lines = (out + err).split("\n")
    assert "FORGED" in out + err
    assert [line for line in lines if not line.isprintable()] == []
    assert [line for line in lines if line.strip(" |-").startswith("FORGED")] == []
    if form and not case.startswith("outcomes tail"):
        assert isinstance(json.loads(out), dict), "its top level is an object"


CHANGES = ("send", "dead-letters redrive", "dead-letters drop", "jobs run", "outcomes republish", "verify")
"""And `jobs release`, which tests/e2e/test_teller_jobs.py has."""


@pytest.mark.parametrize(
    ("case", "prepare"), [pytest.param(*each, id=each[0]) for each in CASES if each[0].startswith(CHANGES)]
)
def test_on_a_prod_stack_nothing_is_changed_without_a_yes(
    case: str, prepare: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def changed(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Deployment, "is_prod", True)
    monkeypatch.setattr(Deployment, "invoke", changed)
    file = tmp_path / "day.jsonl"
    file.write_text('{"transaction_id": "t", "account_id": "a", "amount": 1}')
    out, err, status = run(case, file, monkeypatch, prepare)
    assert (out, status) == ("", 2)
    assert "is a prod stack: to " in err
    assert "add --yes" in err
