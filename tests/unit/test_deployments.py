"""A deployment is one change: everything uses the alias, and each change makes a new version."""

import json
import subprocess
from typing import Any

import pytest

from tests.support.template import FUNCTIONS, PROJECT, TEMPLATE, resources
from tools.local_aws.server import TOOLS

GLOBALS = TEMPLATE["Globals"]["Function"]


def test_no_parameter_reaches_functions_by_globals_where_its_change_would_make_no_version() -> None:
    """aws-sam #3820. The local AWS's address never changes, and the preference isn't a function's."""
    settings = {name: value for name, value in GLOBALS.items() if name != "DeploymentPreference"}
    assert referred(settings) & TEMPLATE["Parameters"].keys() == {"AwsEndpointUrl"}


CHANGED = {
    "Architecture": "x86_64",
    "BatchSize": "50",
    "DoubleEntry": "on",
    "InterestAccountId": "interest",
    "LedgerRootsBucket": "roots",
    "LogLevel": "WARN",
    "MaximumWaits": "40",
    "MinorUnits": "off",
    "PostTransactionsConcurrency": "100",
    "PostTransactionsUrlState": "on",
    "RestoredTables": "teller-1",
}
OF_THE_FUNCTION = {"ReservedConcurrentExecutions", "Tags"}
"""Settings that all versions of a function share."""


def test_a_changed_parameter_makes_a_version_of_each_function_whose_settings_change_and_of_no_other() -> None:
    """Lambda refuses a version that is as the one before: `A version for this Lambda function exists`.
    https://github.com/aws/serverless-application-model/issues/3281
    """
    given: list[dict[str, str]] = [{}, *({name: value} for name, value in CHANGED.items())]
    script = [TOOLS / "python", "-P", PROJECT / "tests" / "support" / "transforms.py"]
    run = subprocess.run(script, input=json.dumps(given), capture_output=True, text=True, check=True)
    before, *after = map(versions, json.loads(run.stdout))
    for name, found in zip(CHANGED, after, strict=True):
        changed = {function for function in before if found[function][0] != before[function][0]}
        made = {function for function in before if found[function][1] != before[function][1]}
        assert made == changed, name


def versions(resources: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    """Each function's settings that are a version's own, and the logical id of its version."""
    found = {}
    for name, version in resources.items():
        if version["Type"] == "AWS::Lambda::Version":
            function = version["Properties"]["FunctionName"]["Ref"]
            settings = resources[function]["Properties"].items()
            found[function] = ({key: value for key, value in settings if key not in OF_THE_FUNCTION}, name)
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
def test_callers_get_a_functions_name_with_its_alias(function: str) -> None:
    assert TEMPLATE["Outputs"][f"{function}Name"]["Value"] == {"Sub": f"${{{function}}}:live"}


def test_a_gradual_deployment_goes_back_if_a_function_fails_or_the_books_differ() -> None:
    watched, shifts = GLOBALS["DeploymentPreference"]["Alarms"], TEMPLATE["Mappings"]["Deployments"]
    assert {alarm["Ref"] for alarm in watched} <= resources("AWS::CloudWatch::Alarm").keys()
    assert set(TEMPLATE["Parameters"]["DeploymentPreference"]["AllowedValues"]) == shifts.keys()
    assert [name for name, shift in shifts.items() if shift["IsGradual"] == "false"] == ["AllAtOnce"]


def referred(value: Any) -> set[str]:
    match value:
        case {"Ref": name}:
            return {name}
        case dict():
            return set().union(*map(referred, value.values()))
        case list():
            return set().union(*map(referred, value))
    return set()
