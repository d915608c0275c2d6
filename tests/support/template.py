"""template.yaml for tests: loops expanded, references in one form, and the permissions of each function's role.

A reference is {"Ref": "AccountsTable"} or {"GetAtt": "AccountsTable.Arn"}. tests/e2e/test_permissions.py compares the
logical ids with those of the deployed stack.
"""

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
            members[_filled(key, items)] = _expanded(value, items)
    return members


TEMPLATE: dict[str, Any] = _expanded(yaml.load((PROJECT / "template.yaml").read_text(), _Loader), {})


def resources(kind: str) -> dict[str, Any]:
    """The properties of each resource of this type, by logical id."""
    return {
        name: resource["Properties"] for name, resource in TEMPLATE["Resources"].items() if resource["Type"] == kind
    }


FUNCTIONS = resources("AWS::Serverless::Function")

FOLDERS = {function["CodeUri"].removeprefix("functions/"): name for name, function in FUNCTIONS.items()}
"""Each function's logical id, by its folder in functions/."""


def event_sources(name: str, kind: str) -> list[dict[str, Any]]:
    """The properties of a function's event sources of this type, such as "SQS" and "ScheduleV2"."""
    return [source["Properties"] for source in FUNCTIONS[name]["Events"].values() if source["Type"] == kind]


def statements(role: str) -> Iterator[dict[str, Any]]:
    """The statements of the role's own policies, of its managed policies, and of the policies attached to it."""
    properties, managed = resources("AWS::IAM::Role")[role], resources("AWS::IAM::ManagedPolicy")
    for policy in properties.get("ManagedPolicyArns", []):
        assert isinstance(policy, dict), f"{role}: tests can't judge {policy}, a policy that isn't in the template"
    policies = [
        *properties.get("Policies", []),
        *(managed[policy["Ref"]] for policy in properties.get("ManagedPolicyArns", [])),
        *(policy for policy in resources("AWS::IAM::Policy").values() if {"Ref": role} in policy["Roles"]),
    ]
    for policy in policies:
        yield from policy["PolicyDocument"]["Statement"]


def granted(role: str) -> set[tuple[str, str]]:
    """Each action that the role grants, with the logical id of its resource, or else the resource as written."""
    grants = set()
    for statement in statements(role):
        assert statement.keys() <= {"Sid", "Effect", "Action", "Resource"}, f"{role}: tests can't judge {statement}"
        assert statement["Effect"] == "Allow"
        for resource in _listed(statement["Resource"]):
            target = resource["GetAtt"].removesuffix(".Arn") if "GetAtt" in resource else str(resource)
            grants |= {(action, target) for action in _listed(statement["Action"])}
    return grants


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
