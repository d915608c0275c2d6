"""Step 8: the metrics are what was sent. On AWS CloudWatch has them, on a local AWS only the functions' log lines."""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from tools.teller.figures import logged_sums
from tools.teller.verify.run import Run, TimeIsUp
from tools.teller.verify.steps import Step, different

LOG_SECONDS = 20
CLOUDWATCH_SECONDS = 300
"""CloudWatch reads metrics from log lines within some two minutes."""
CLOCKS_DIFFER = timedelta(minutes=5)


def conflicts(run: Run) -> int:
    """The refused commits of transactions since the run began, by the lines with metrics."""
    return int(_logged(run, "process_transactions")["Conflicts"])


def _logged(run: Run, service: str) -> Counter[str]:
    """The sums of the metrics in a function's log since the run began. Others' messages count, too."""
    return logged_sums(run.deployment, service, run.began, datetime.now(UTC) + CLOCKS_DIFFER)


def metrics(run: Run, step: Step) -> None:
    for service, expected in _expected(run).items():
        _check_log(run, step, service, expected)
        claim = f"{service}: {', '.join(expected)} in CloudWatch are what was sent"
        if run.deployment.is_local:
            step.only_on_aws(claim, "a local AWS makes no metrics of log lines")
        else:
            _check_cloudwatch(run, step, service, expected, claim)
    run.refused_commits = conflicts(run)


def _check_log(run: Run, step: Step, service: str, expected: Mapping[str, int]) -> None:
    def missing() -> list[str]:
        totals = _logged(run, service)
        return [name for name in expected if not totals[name]]

    def why() -> str:
        lines = f"{service}: expected lines with {', '.join(missing())} in its log, got none"
        return f"{lines}: a log level may drop lines with metrics"

    claim = f"{service}: its log has its metrics"
    try:
        run.wait(lambda: not missing(), why, LOG_SECONDS)
    except TimeIsUp as error:
        step.check(claim, error.reason)
    else:
        step.check(claim)


def _expected(run: Run) -> Mapping[str, Mapping[str, int]]:
    """The least sum of each metric, by the journal and by what was sent."""
    posted, rejected, entries = 0, 0, 0
    for account_id in run.accounts:
        for entry in run.entries(account_id):
            entries += 1
            if entry["request"].get("to_account_id") != account_id:  # a transfer counts once
                posted += entry["status"] == "POSTED"
                rejected += entry["status"] == "REJECTED"
    of_transactions = {"Posted": posted, "Rejected": rejected}
    of_profiles = {"Upserted": run.upserted}
    expected = {
        "process_transactions": of_transactions,
        "upsert_profiles": of_profiles,
        "publish_outcomes": {"Published": entries},
    }
    return {
        service: sent
        for service, numbers in expected.items()
        if (sent := {name: number for name, number in numbers.items() if number})
    }


def _check_cloudwatch(run: Run, step: Step, service: str, expected: Mapping[str, int], claim: str) -> None:
    def missing() -> list[str]:
        return [
            problem
            for name, number in expected.items()
            for problem in different(f"{service}, {name}, at least", number, min(number, _sum(run, service, name)))
        ]

    try:
        run.wait(lambda: not missing(), lambda: "; ".join(missing()), CLOUDWATCH_SECONDS)
    except TimeIsUp as error:
        step.check(claim, error.reason)
        return
    step.check(claim)
    for name, number in expected.items():
        more = _sum(run, service, name) - number
        also = f", and {more:,} of others or counted twice" if more else ""
        step.measure(f"{service}: {name} {number:,}{also}")


def _sum(run: Run, service: str, name: str) -> int:
    """The metric's sum since the run began."""
    now = datetime.now(UTC)
    minutes = math.ceil((now - run.began).total_seconds() / 60) + 2
    answer = run.client("cloudwatch").get_metric_statistics(
        Namespace=f"Teller/{run.deployment.name}",
        MetricName=name,
        Dimensions=[{"Name": "service", "Value": service}],
        StartTime=run.began.replace(second=0, microsecond=0),
        EndTime=now + CLOCKS_DIFFER,
        Period=60 * min(minutes, 60),
        Statistics=["Sum"],
    )
    return round(sum(point["Sum"] for point in answer["Datapoints"]))
