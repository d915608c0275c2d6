"""template.yaml in plain form: loops expanded, references in one form, conditions decided for given parameters.

A reference is {"Ref": "AccountsTable"} or {"GetAtt": "AccountsTable.Arn"}.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[1]
LOOP = "Fn::ForEach::"
NO_VALUE = {"Ref": "AWS::NoValue"}
LONG_FORMS = {"Fn::If": "If", "Fn::Sub": "Sub", "Fn::GetAtt": "GetAtt", "Fn::Join": "Join", "Fn::Split": "Split"}


class _Loader(yaml.CSafeLoader):
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
    if isinstance(node.get("Sub"), str):
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


class Template:
    """A template's text in plain form: `source` is all of it."""

    def __init__(self, text: str) -> None:
        self.source: dict[str, Any] = _expanded(yaml.load(text, _Loader), {})
        self._deployed = functools.cache(self._with)

    def deployed(self, **parameters: str) -> dict[str, Any]:
        """The resources that the stack has with these parameters, and with the defaults of the others."""
        return self._deployed(frozenset(parameters.items()))

    def resources(self, kind: str, **parameters: str) -> dict[str, Any]:
        """The properties of each resource of this type, by logical id."""
        found = self.deployed(**parameters).items()
        return {name: resource["Properties"] for name, resource in found if resource["Type"] == kind}

    def _with(self, parameters: frozenset[tuple[str, str]]) -> dict[str, Any]:
        defaults = {name: str(parameter.get("Default", "")) for name, parameter in self.source["Parameters"].items()}
        assert dict(parameters).keys() <= defaults.keys()
        values = defaults | dict(parameters)
        conditions = {name: self._holds(condition, values) for name, condition in self.source["Conditions"].items()}
        return {
            name: self._decided(resource, conditions)
            for name, resource in self.source["Resources"].items()
            if "Condition" not in resource or conditions[resource["Condition"]]
        }

    def _holds(self, condition: Any, values: Mapping[str, str]) -> bool:
        match condition:
            case {"Not": [denied]}:
                return not self._holds(denied, values)
            case {"And": demanded}:
                return all(self._holds(one, values) for one in demanded)
            case {"Condition": name}:
                return self._holds(self.source["Conditions"][name], values)
            case {"Equals": [{"Ref": name}, str(text)]}:
                return values[name] == text
        raise AssertionError(f"tools/template.py can't judge {condition}")

    def _decided(self, node: Any, conditions: Mapping[str, bool]) -> Any:
        match node:
            case {"If": [name, chosen, otherwise]}:
                return self._decided(chosen if conditions[name] else otherwise, conditions)
            case {"FindInMap": [name, first, second]}:
                return self.source["Mappings"][name][first][second]
            case dict():
                members = {name: self._decided(member, conditions) for name, member in node.items()}
                return {name: member for name, member in members.items() if member != NO_VALUE}
            case list():
                return [decided for member in node if (decided := self._decided(member, conditions)) != NO_VALUE]
        return node


TEXT = (PROJECT / "template.yaml").read_text()
_template = Template(TEXT)
TEMPLATE, deployed, resources = _template.source, _template.deployed, _template.resources


def statements(role: str, **parameters: str) -> list[dict[str, Any]]:
    """The statements of the role's own policies, of its managed policies, and of the policies attached to it."""
    properties = resources("AWS::IAM::Role", **parameters)[role]
    managed = resources("AWS::IAM::ManagedPolicy", **parameters)
    for policy in properties.get("ManagedPolicyArns", []):
        assert isinstance(policy, dict), f"{role}: can't judge {policy}, a policy that isn't in the template"
    policies = [
        *properties.get("Policies", []),
        *(managed[policy["Ref"]] for policy in properties.get("ManagedPolicyArns", [])),
        *(
            policy
            for policy in resources("AWS::IAM::Policy", **parameters).values()
            if {"Ref": role} in policy["Roles"]
        ),
    ]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]
