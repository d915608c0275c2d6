"""A deployment is one change: everything uses the alias, and each change makes a new version."""

from typing import Any

import pytest

from tests.support.template import FUNCTIONS, TEMPLATE, resources

GLOBALS = TEMPLATE["Globals"]["Function"]


def test_no_parameter_reaches_functions_by_globals_where_its_change_would_make_no_version() -> None:
    """aws-sam #3820. The local AWS's address never changes, and the preference isn't a function's."""
    settings = {name: value for name, value in GLOBALS.items() if name != "DeploymentPreference"}
    assert referred(settings) & TEMPLATE["Parameters"].keys() == {"AwsEndpointUrl"}


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
