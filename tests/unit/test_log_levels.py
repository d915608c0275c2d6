"""At each LogLevel, a function's metrics pass Lambda's filter, and its lines are those of the level.

Each function runs in a process of its own, because loggers are the process's: a fork of one that has imported the
packages. The root logger is set up as Lambda's runtime does it (awslambdaric, bootstrap.py: `_setup_logging`).
"""

import json
import os
import re
import subprocess
import sys
from typing import Any

from tests.support.template import FOLDERS, FUNCTIONS, PROJECT, TEMPLATE

FILTER = TEMPLATE["Globals"]["Function"]["LoggingConfig"]["ApplicationLogLevel"]
LEVELS = TEMPLATE["Parameters"]["LogLevel"]["AllowedValues"]

INVOKE = """
import logging

class Formatter(logging.Formatter):
    def format(self, record):
        return json.dumps({"level": record.levelname, "message": record.getMessage(), "logger": record.name})

handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(Formatter())
logging.getLogger().addHandler(handler)
filter_level = os.environ["AWS_LAMBDA_LOG_LEVEL"]
logging.getLogger().setLevel("DEBUG" if filter_level == "TRACE" else filter_level)

import app
from tools.local_aws.functions import Context

logging.getLogger("botocore").info("found credentials")
for logger in (app.logger, logging.getLogger("workers.batches")):
    for level in ("debug", "info", "warning", "error"):
        getattr(logger, level)(f"a line at {level}")
if app.logger.service in ("process_transactions", "upsert_profiles"):
    app.lambda_handler({"Records": []}, Context())
app.metrics.add_metric("Counted", "Count", 1)
app.metrics.flush_metrics()
"""

IN_FORKS = f"""
import json, os, sys
import aws_lambda_powertools, boto3, msgspec

for folder, environment in json.loads(sys.argv[1]):
    print(json.dumps({{"begins": [folder, environment["POWERTOOLS_LOG_LEVEL"]]}}), flush=True)
    if not os.fork():
        os.environ.update(environment)
        sys.path.insert(0, environment["FOLDER"])
        exec({INVOKE!r})
        sys.exit()
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0, (folder, environment)
"""
WITH_A_BATCH = {"process_transactions": {"Posted", "ReturnedToQueue", "ColdStart"}}
CASES = [*(("process_transactions", level) for level in LEVELS), *((folder, "ERROR") for folder in FOLDERS)]


def environment_of(folder: str, level: str) -> dict[str, str]:
    variables = FUNCTIONS[FOLDERS[folder]]["Environment"]["Variables"]
    return {name: "1" if isinstance(value, dict) else str(value) for name, value in variables.items()} | {
        "FOLDER": str(PROJECT / "functions" / folder),
        "POWERTOOLS_METRICS_NAMESPACE": "Teller",
        "POWERTOOLS_LOG_LEVEL": level,
        "AWS_LAMBDA_LOG_LEVEL": FILTER,
        "AWS_LAMBDA_LOG_FORMAT": "JSON",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }


def lines() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The lines that Lambda sends to the log of an invocation, by case. A line without a level counts as INFO."""
    asked = json.dumps([(folder, environment_of(folder, level)) for folder, level in CASES])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT), *sys.path])}
    command = [sys.executable, "-c", IN_FORKS, asked]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not ran.returncode, ran.stderr
    order = ["TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL"]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in map(json.loads, ran.stdout.splitlines()):
        if "begins" in line:
            found[tuple(line["begins"])] = of_case = []
        elif order.index(line.get("level", "INFO")) >= order.index(FILTER):
            of_case.append(line)
    return found


def test_no_log_level_silences_a_metric_and_lines_are_those_of_the_level_with_times_that_lambda_reads() -> None:
    for (folder, level), of_case in lines().items():
        assert FUNCTIONS[FOLDERS[folder]]["Environment"]["Variables"]["POWERTOOLS_LOG_LEVEL"] == {"Ref": "LogLevel"}
        directives = [each for line in of_case if "_aws" in line for each in line["_aws"]["CloudWatchMetrics"]]
        metrics = {metric["Name"] for directive in directives for metric in directive["Metrics"]}
        assert metrics >= {"Counted"} | WITH_A_BATCH.get(folder, set()), (folder, level)
        written = [(line.get("logger"), line["level"]) for line in of_case if "a line" in line.get("message", "")]
        shown = ["DEBUG", "INFO", "WARNING", "ERROR"][LEVELS.index(level) :]
        assert written == [(logger, one) for logger in (None, "workers.batches") for one in shown]
        assert not [line for line in of_case if line.get("message") == "found credentials"]
        times = [line["timestamp"] for line in of_case if line.get("service") == folder and "level" in line]
        assert times
        rfc_3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"
        assert all(re.fullmatch(rfc_3339, time) for time in times)
