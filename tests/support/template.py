"""template.yaml for tests: tools/template.py, and what tests ask of it.

tests/e2e/test_permissions.py compares the logical ids with those of the deployed stack.
"""

import json
from collections.abc import Iterator
from typing import Any

from tools.template import PROJECT, TEMPLATE, deployed, resources, statements

__all__ = ["PROJECT", "TEMPLATE", "deployed", "resources"]

FUNCTIONS = resources("AWS::Serverless::Function")

FOLDERS = {function["CodeUri"].removeprefix("functions/"): name for name, function in FUNCTIONS.items()}
"""Each function's logical id, by its folder in functions/."""


def event_sources(name: str, kind: str) -> list[dict[str, Any]]:
    """The properties of a function's event sources of this type, such as "SQS" and "DynamoDB"."""
    own = [source["Properties"] for source in FUNCTIONS[name].get("Events", {}).values() if source["Type"] == kind]
    if kind != "SQS":
        return own
    mappings = resources("AWS::Lambda::EventSourceMapping").values()
    mine = [mapping for mapping in mappings if mapping["FunctionName"] == {"Ref": f"{name}Aliaslive"}]
    return own + [mapping | {"Queue": mapping["EventSourceArn"]} for mapping in mine]


def granted(role: str, **parameters: str) -> set[tuple[str, str]]:
    """Each action that the role grants, with the logical id of its resource, or else the resource as written.

    A condition that restricts a grant is left out: `conditions` has them.
    """
    grants = set()
    for statement in statements(role, **parameters):
        expected = {"Sid", "Effect", "Action", "Resource", "Condition"}
        assert statement.keys() <= expected, f"{role}: tests can't judge {statement}"
        assert statement["Effect"] == "Allow"
        for resource in _listed(statement["Resource"]):
            match resource:
                case {"GetAtt": target} | {"Ref": target}:
                    target = target.removesuffix(".Arn")
                case _:
                    target = str(resource)
            grants |= {(action, target) for action in _listed(statement["Action"])}
    return grants


def conditions(role: str, **parameters: str) -> dict[str, Any]:
    """The condition of each statement that has one, by its Sid."""
    return {one["Sid"]: one["Condition"] for one in statements(role, **parameters) if "Condition" in one}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


type Metric = tuple[str, str, frozenset[tuple[str, str]]]
"""A namespace, a name, and the dimensions. References are as written: "${ProfilesQueue.QueueName}"."""


def dashboard_metrics() -> Iterator[Metric]:
    """The metrics of all widgets. In the template, a dot stands for the same as in the metric before."""
    [dashboard] = resources("AWS::CloudWatch::Dashboard").values()
    for widget in json.loads(dashboard["DashboardBody"]["Sub"][0])["widgets"]:
        before: list[str] = []
        for metric in widget["properties"]["metrics"]:
            texts = [text for text in metric if isinstance(text, str)]
            before = [before[index] if text == "." else text for index, text in enumerate(texts)]
            namespace, name, *dimensions = before
            yield namespace, name, frozenset(zip(dimensions[::2], dimensions[1::2], strict=True))


def alarm_metrics() -> Iterator[Metric]:
    """The metrics of all alarms, those in expressions, too."""
    for alarm in resources("AWS::CloudWatch::Alarm").values():
        parts = [part["MetricStat"]["Metric"] for part in alarm.get("Metrics", []) if "MetricStat" in part]
        for metric in parts or [alarm]:
            dimensions = {(dimension["Name"], _as_text(dimension["Value"])) for dimension in metric["Dimensions"]}
            yield _as_text(metric["Namespace"]), metric["MetricName"], frozenset(dimensions)


def _as_text(value: Any) -> str:
    match value:
        case {"Sub": text}:
            return str(text)
        case {"Ref": name} | {"GetAtt": name}:
            return f"${{{name}}}"
    assert isinstance(value, str)
    return value
