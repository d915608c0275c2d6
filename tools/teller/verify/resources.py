"""The stack's resources: physical ids by logical ids, and the template's references resolved with them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools import template
from tools.teller.deployment import Deployment
from tools.teller.failures import Failure

ARNS = {
    "AWS::DynamoDB::Table": "dynamodb:{region}:{account}:table/{name}",
    "AWS::SQS::Queue": "sqs:{region}:{account}:{name}",
    "AWS::Lambda::Function": "lambda:{region}:{account}:function:{name}",
    "AWS::IAM::Role": "iam::{account}:role/{name}",
    "AWS::Logs::LogGroup": "logs:{region}:{account}:log-group:{name}:*",
    "AWS::Events::EventBus": "events:{region}:{account}:event-bus/{name}",
}


class Resources(Mapping[str, str]):
    """The physical id of each resource of the stack, by its logical id in the template."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        pages = deployment.client("cloudformation").get_paginator("list_stack_resources")
        found = [
            resource
            for page in pages.paginate(StackName=deployment.name)
            for resource in page["StackResourceSummaries"]
            if "PhysicalResourceId" in resource
        ]
        self._ids = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in found}
        self.kinds = {resource["LogicalResourceId"]: resource["ResourceType"] for resource in found}
        known = template.TEMPLATE["Parameters"].keys()
        self.parameters = {name: value for name, value in deployment.parameters.items() if name in known}
        self.expected = template.deployed(**self.parameters)
        _, self.partition, _, self.region, self.account, _ = deployment.stack_id.split(":", 5)

    def __getitem__(self, logical_id: str) -> str:
        try:
            return self._ids[logical_id]
        except KeyError:
            raise Failure(f"the stack has no resource {logical_id}: it isn't that of this template.yaml") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def layers(self) -> list[str]:
        """The ARNs of the stack's layer versions. SAM adds a hash to their logical ids."""
        return sorted(self[name] for name, kind in self.kinds.items() if kind == "AWS::Lambda::LayerVersion")

    def resolved(self, node: Any) -> Any:
        """A part of the template, with this stack's values in place of references."""
        match node:
            case {"Ref": str(name)}:
                return self._ref(name)
            case {"GetAtt": str(text)}:
                return self._attribute(*text.split(".", 1))
            case {"Sub": str(text)}:
                return re.sub(r"\$\{([^}!]+)\}", lambda match: str(self._named(match[1])), text)
            case {"Join": [str(separator), parts]}:
                return separator.join(self.resolved(parts))
            case {"Split": [str(separator), text]}:
                return self.resolved(text).split(separator)
            case dict():
                return {name: self.resolved(member) for name, member in node.items()}
            case list():
                return [self.resolved(member) for member in node]
        return node

    def arn(self, logical_id: str) -> str:
        """The ARN that `GetAtt: X.Arn` is."""
        kind, physical = self.kinds[logical_id], self[logical_id]
        name = physical.rpartition("/")[2] if kind == "AWS::SQS::Queue" else physical
        return f"arn:{self.partition}:{ARNS[kind].format(region=self.region, account=self.account, name=name)}"

    def _named(self, text: str) -> Any:
        return self._attribute(*text.split(".", 1)) if "." in text else self._ref(text)

    def _ref(self, name: str) -> Any:
        pseudo = {
            "AWS::StackName": self.deployment.name,
            "AWS::Region": self.region,
            "AWS::AccountId": self.account,
            "AWS::Partition": self.partition,
        }
        if name in pseudo:
            return pseudo[name]
        if name in template.TEMPLATE["Parameters"]:
            parameter = template.TEMPLATE["Parameters"][name]
            return self.deployment.parameters.get(name, str(parameter.get("Default", "")))
        return self[name]

    def _attribute(self, logical_id: str, attribute: str) -> str:
        match attribute:
            case "Arn":
                return self.arn(logical_id)
            case "QueueName":
                return self[logical_id].rpartition("/")[2]
            case "StreamArn":
                described = self.deployment.client("dynamodb").describe_table(TableName=self[logical_id])
                return str(described["Table"].get("LatestStreamArn"))
        raise Failure(f"{logical_id}.{attribute}: verify can't resolve this reference of template.yaml")
