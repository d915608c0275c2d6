"""template.yaml for tests: loops expanded, references in one form, conditions decided, and each role's permissions.

A reference is {"Ref": "AccountsTable"} or {"GetAtt": "AccountsTable.Arn"}. tests/e2e/test_permissions.py compares the
logical ids with those of the deployed stack.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[2]
LOOP = "Fn::ForEach::"


class _Loader(yaml.SafeLoader):
    """Reads CloudFormation's short tags: `!Ref X` as {"Ref": "X"}."""


def _tag(loader: Any, tag: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {tag: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {tag: loader.construct_sequence(node, deep=True)}
    return {tag: loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _tag)


LONG_FORMS = {"Fn::If": "If", "Fn::Sub": "Sub", "Fn::GetAtt": "GetAtt", "Fn::Join": "Join", "Fn::Split": "Split"}


def _filled(text: str, items: Mapping[str, str]) -> str:
    for identifier, item in items.items():
        text = text.replace(f"${{{identifier}}}", item)
    return text


def _expanded(node: Any, items: Mapping[str, str]) -> Any:
    """`items` has the current item of each loop around the node, by the loop's identifier."""
    if isinstance(node, list):
        return [_expanded(each, items) for each in node]
    if not isinstance(node, dict):
        return node
    if "Sub" in node:
        text = _filled(node["Sub"], items)
        return {"Sub": text} if "${" in text else text
    if "Ref" in node:
        name = _expanded(node["Ref"], items)
        return items.get(name, {"Ref": name})
    if isinstance(node.get("GetAtt"), list):
        return {"GetAtt": ".".join(_expanded(node["GetAtt"], items))}
    members: dict[str, Any] = {}
    for key, value in node.items():
        if key.startswith(LOOP):
            identifier, collection, fragment = value
            for item in collection:
                members |= _expanded(fragment, {**items, identifier: item})
        else:
            members[_filled(LONG_FORMS.get(key, key), items)] = _expanded(value, items)
    return members


TEMPLATE: dict[str, Any] = _expanded(yaml.load((PROJECT / "template.yaml").read_text(), _Loader), {})


NO_VALUE = {"Ref": "AWS::NoValue"}


@functools.cache
def deployed(**parameters: str) -> dict[str, Any]:
    """The resources that the stack has with these parameters, and with the defaults of the others."""
    defaults = {name: str(parameter.get("Default", "")) for name, parameter in TEMPLATE["Parameters"].items()}
    assert parameters.keys() <= defaults.keys()
    values = defaults | parameters
    conditions = {name: _holds(condition, values) for name, condition in TEMPLATE["Conditions"].items()}
    return {
        name: _decided(resource, conditions)
        for name, resource in TEMPLATE["Resources"].items()
        if "Condition" not in resource or conditions[resource["Condition"]]
    }


def _holds(condition: Any, values: Mapping[str, str]) -> bool:
    match condition:
        case {"Not": [denied]}:
            return not _holds(denied, values)
        case {"Equals": [{"Ref": name}, str(text)]}:
            return values[name] == text
        case {"Equals": [{"Select": [index, {"Ref": name}]}, str(text)]}:
            return values[name].split(",")[index] == text
    raise AssertionError(f"tests can't judge {condition}")


def _decided(node: Any, conditions: Mapping[str, bool]) -> Any:
    match node:
        case {"If": [name, chosen, otherwise]}:
            return _decided(chosen if conditions[name] else otherwise, conditions)
        case {"FindInMap": [name, first, second]}:
            return TEMPLATE["Mappings"][name][first][second]
        case dict():
            members = {name: _decided(member, conditions) for name, member in node.items()}
            return {name: member for name, member in members.items() if member != NO_VALUE}
        case list():
            return [decided for member in node if (decided := _decided(member, conditions)) != NO_VALUE]
    return node


def resources(kind: str, **parameters: str) -> dict[str, Any]:
    """The properties of each resource of this type, by logical id."""
    return {
        name: resource["Properties"] for name, resource in deployed(**parameters).items() if resource["Type"] == kind
    }


FUNCTIONS = resources("AWS::Serverless::Function")

FOLDERS = {function["CodeUri"].removeprefix("functions/"): name for name, function in FUNCTIONS.items()}
"""Each function's logical id, by its folder in functions/."""


def event_sources(name: str, kind: str) -> list[dict[str, Any]]:
    """The properties of a function's event sources of this type, such as "SQS" and "ScheduleV2"."""
    return [source["Properties"] for source in FUNCTIONS[name].get("Events", {}).values() if source["Type"] == kind]


def statements(role: str, **parameters: str) -> Iterator[dict[str, Any]]:
    """The statements of the role's own policies, of its managed policies, and of the policies attached to it."""
    properties = resources("AWS::IAM::Role", **parameters)[role]
    managed = resources("AWS::IAM::ManagedPolicy", **parameters)
    for policy in properties.get("ManagedPolicyArns", []):
        assert isinstance(policy, dict), f"{role}: tests can't judge {policy}, a policy that isn't in the template"
    policies = [
        *properties.get("Policies", []),
        *(managed[policy["Ref"]] for policy in properties.get("ManagedPolicyArns", [])),
        *(
            policy
            for policy in resources("AWS::IAM::Policy", **parameters).values()
            if {"Ref": role} in policy["Roles"]
        ),
    ]
    for policy in policies:
        yield from policy["PolicyDocument"]["Statement"]


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
            target = resource["GetAtt"].removesuffix(".Arn") if "GetAtt" in resource else str(resource)
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
    for widget in json.loads(dashboard["DashboardBody"]["Sub"])["widgets"]:
        before: list[str] = []
        for metric in widget["properties"]["metrics"]:
            texts = [text for text in metric if isinstance(text, str)]
            before = [before[index] if text == "." else text for index, text in enumerate(texts)]
            namespace, name, *dimensions = before
            yield namespace, name, frozenset(zip(dimensions[::2], dimensions[1::2], strict=True))


def alarm_metrics() -> Iterator[Metric]:
    """The metrics of all alarms, but for those of expressions."""
    for alarm in resources("AWS::CloudWatch::Alarm").values():
        if "MetricName" in alarm:
            dimensions = {(dimension["Name"], _as_text(dimension["Value"])) for dimension in alarm["Dimensions"]}
            yield _as_text(alarm["Namespace"]), alarm["MetricName"], frozenset(dimensions)


def _as_text(value: Any) -> str:
    match value:
        case {"Sub": text}:
            return str(text)
        case {"Ref": name} | {"GetAtt": name}:
            return f"${{{name}}}"
    assert isinstance(value, str)
    return value
