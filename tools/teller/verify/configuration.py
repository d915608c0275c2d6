"""Step 7: each resource is configured as template.yaml says, with the stack's parameters."""

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from tools import template
from tools.teller.alarms import described
from tools.teller.failures import failure_of
from tools.teller.verify.run import Run
from tools.teller.verify.steps import Step

MAPPED = {"SQS": "Queue", "DynamoDB": "Stream"}
"""The property with the source's ARN, by the type of a function's event source that is a mapping."""


def configuration(run: Run, step: Step) -> None:
    resources = run.resources
    missing = sorted(
        name for name, resource in resources.expected.items() if not _is_layer(resource) and name not in resources
    )
    step.check("the stack has the template's resources", *(f"{name}: not in the stack" for name in missing))
    compared = Compared(run)
    for kind, compare in compared.by_kind.items():
        names = [
            name for name, resource in resources.expected.items() if resource["Type"] == kind and name not in missing
        ]
        problems = [problem for name in names for problem in compared.problems(compare, name)]
        step.check(f"{kind.removeprefix('AWS::')}: {len(names)} as in the template", *problems)
    step.measure(f"{len(compared.read):,} properties compared")
    for claim in compared.only_on_aws:
        step.only_on_aws(claim, "the local AWS doesn't keep them")


class Compared:
    """The comparisons, by types of resources. Each takes a logical id and its properties, and yields problems."""

    def __init__(self, run: Run) -> None:
        self.run, self.resources = run, run.resources
        self.read: list[str] = []
        self.local = run.deployment.is_local
        self.by_kind: dict[str, Callable[[str, Any], Iterator[str]]] = {
            "AWS::Serverless::Function": self._function,
            "AWS::Lambda::EventSourceMapping": self._mapping,
            "AWS::SQS::Queue": self._queue,
            "AWS::DynamoDB::Table": self._table,
            "AWS::CloudWatch::Alarm": self._alarm,
            "AWS::Logs::LogGroup": self._log_group,
            "AWS::Scheduler::Schedule": self._schedule,
            "AWS::IAM::Role": self._role,
        }
        if not self.local:
            self.by_kind |= {"AWS::Events::EventBus": self._bus, "AWS::Events::Archive": self._archive}
        self.only_on_aws = (
            [
                "tables: encryption, TTL and point-in-time recovery",
                "functions: recursion",
                "the bus: its dead-letter queue, its key and its archive",
                "queues: their policies",
            ]
            if self.local
            else []
        )

    def properties(self, name: str) -> Any:
        """The resource's properties with the stack's values, and with those that all functions have."""
        resource = self.resources.expected[name]
        own = resource.get("Properties", {})
        if resource["Type"] == "AWS::Serverless::Function":
            own = _merged(template.TEMPLATE["Globals"]["Function"], own)
        # Layers are compared by the stack's own list, for SAM changes their names.
        return self.resources.resolved({key: value for key, value in own.items() if key != "Layers"})

    def problems(self, compare: Callable[[str, Any], Iterator[str]], name: str) -> list[str]:
        """The differences. A part that AWS doesn't find is one, too."""
        try:
            return list(compare(name, self.properties(name)))
        except ClientError as error:
            if "NotFound" in error.response["Error"]["Code"]:
                return [f"{name}: {failure_of(error).reason}"]
            raise

    def _differences(self, where: str, expected: Any, found: Any) -> Iterator[str]:
        """The template's values that aren't there. What the template doesn't name isn't compared."""
        match expected:
            case dict():
                for name, value in expected.items():
                    inside = found.get(name) if isinstance(found, dict) else None
                    yield from self._differences(f"{where}.{name}", value, inside)
            case list():
                if not isinstance(found, list) or _sorted(expected) != _sorted(found):
                    yield f"{where}: expected {_shown(expected)}, got {_shown(found)}"
                self.read.append(where)
            case _:
                if _plain(expected) != _plain(found):
                    yield f"{where}: expected {_shown(expected)}, got {_shown(found)}"
                self.read.append(where)

    def _function(self, name: str, properties: Any) -> Iterator[str]:
        lambda_, function = self.run.client("lambda"), self.resources[name]
        found = lambda_.get_function_configuration(FunctionName=function)
        same = ("Runtime", "Handler", "Architectures", "MemorySize", "Timeout", "Environment", "LoggingConfig", "Role")
        expected = {key: properties[key] for key in same}
        yield from self._differences(name, expected, found)
        yield from self._differences(
            name, {"Tracing": properties["Tracing"]}, {"Tracing": found["TracingConfig"]["Mode"]}
        )
        layers = sorted(layer["Arn"] for layer in found.get("Layers", []))
        yield from self._differences(name, {"Layers": self.resources.layers()}, {"Layers": layers})
        if not self.local:
            found = lambda_.get_function_recursion_config(FunctionName=function)
            yield from self._differences(name, {"RecursiveLoop": "Terminate"}, found)
        for source_name, source in properties.get("Events", {}).items():
            mapping = dict(source["Properties"])
            mapping["EventSourceArn"] = mapping.pop(MAPPED[source["Type"]])
            yield from self._mapping(f"{name}{source_name}", mapping)

    def _mapping(self, name: str, expected: Any) -> Iterator[str]:
        found = self.run.client("lambda").get_event_source_mapping(UUID=self.resources[name])
        found["FilterCriteria"] = found.get("FilterCriteria", {})
        expected = {key: value for key, value in expected.items() if key != "FunctionName"} | {"State": "Enabled"}
        destination = expected.pop("DestinationConfig", None)
        if destination:
            expected["DestinationConfig"] = {"OnFailure": {"Destination": destination["OnFailure"]["Destination"]}}
        yield from self._differences(name, expected, found)
        if found.get("LastProcessingResult", "").startswith("PROBLEM"):
            yield f"{name}: {found['LastProcessingResult']}"

    def _schedule(self, name: str, expected: Any) -> Iterator[str]:
        found = self.run.client("scheduler").get_schedule(Name=self.resources[name].rpartition("/")[2])
        yield from self._differences(name, expected, found)

    def _queue(self, name: str, expected: Any) -> Iterator[str]:
        answer = self.run.client("sqs").get_queue_attributes(QueueUrl=self.resources[name], AttributeNames=["All"])
        found = answer["Attributes"]
        found["RedrivePolicy"] = json.loads(found.get("RedrivePolicy", "{}"))
        yield from self._differences(name, expected, found)
        if not self.local:
            yield from self._queue_policy(name, json.loads(found.get("Policy", "{}")))

    def _queue_policy(self, name: str, found: Any) -> Iterator[str]:
        expected = [
            statement
            for policy in self.resources.expected.values()
            if policy["Type"] == "AWS::SQS::QueuePolicy" and {"Ref": name} in policy["Properties"]["Queues"]
            for statement in self.resources.resolved(policy["Properties"]["PolicyDocument"]["Statement"])
        ]
        by_sid, found_by_sid = _by_sid(expected), _by_sid(found.get("Statement", []))
        yield from self._differences(f"{name}.Policy", by_sid, found_by_sid)
        others = sorted(found_by_sid.keys() - by_sid.keys())
        yield from self._differences(f"{name}.Policy", {"others": []}, {"others": others})

    def _table(self, name: str, expected: Any) -> Iterator[str]:
        dynamodb, table = self.run.client("dynamodb"), self.resources[name]
        found = dynamodb.describe_table(TableName=table)["Table"]
        found["BillingMode"] = found.get("BillingModeSummary", {}).get("BillingMode")
        expected = dict(expected)
        encryption, recovery, ttl = (
            expected.pop(key, {})
            for key in ("SSESpecification", "PointInTimeRecoverySpecification", "TimeToLiveSpecification")
        )
        indexes = {index["IndexName"]: index for index in expected.pop("GlobalSecondaryIndexes", [])}
        found_indexes = {index["IndexName"]: index for index in found.get("GlobalSecondaryIndexes", [])}
        yield from self._differences(name, expected, found)
        yield from self._differences(f"{name}.GlobalSecondaryIndexes", indexes, found_indexes)
        if not self.local:
            sse = found.get("SSEDescription", {})
            key = encryption.get("KMSMasterKeyId", "")
            yield from self._differences(
                name, {"encrypted": encryption["SSEEnabled"]}, {"encrypted": sse.get("Status") == "ENABLED"}
            )
            if key:
                yield from self._differences(
                    name, {"key": encryption["KMSMasterKeyId"]}, {"key": sse.get("KMSMasterKeyArn")}
                )
            backups = dynamodb.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
            is_on = backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
            yield from self._differences(name, recovery, {"PointInTimeRecoveryEnabled": is_on})
            description = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
            found_ttl = {"Enabled": description["TimeToLiveStatus"] == "ENABLED", **description}
            yield from self._differences(f"{name}.TimeToLive", ttl, found_ttl)

    @functools.cached_property
    def _alarms(self) -> Mapping[str, Any]:
        """The alarms of the stack, by their names."""
        kinds = self.resources.kinds.items()
        names = [self.resources[name] for name, kind in kinds if kind == "AWS::CloudWatch::Alarm"]
        return {alarm["AlarmName"]: alarm for alarm in described(self.run.deployment, names)}

    def _alarm(self, name: str, expected: Any) -> Iterator[str]:
        found = self._alarms.get(self.resources[name], {})
        expected = {"ActionsEnabled": True} | {key: expected[key] for key in expected if key != "AlarmDescription"}
        metrics = {metric["Id"]: metric for metric in expected.pop("Metrics", [])}
        found_metrics = {metric["Id"]: metric for metric in found.get("Metrics", [])}
        yield from self._differences(name, expected, found)
        yield from self._differences(f"{name}.Metrics", metrics, found_metrics)

    def _log_group(self, name: str, expected: Any) -> Iterator[str]:
        group = self.resources[name]
        answer = self.run.client("logs").describe_log_groups(logGroupNamePrefix=group)
        found = next((one for one in answer["logGroups"] if one["logGroupName"] == group), {})
        names = {"RetentionInDays": "retentionInDays", "KmsKeyId": "kmsKeyId"}
        yield from self._differences(name, {names[key]: value for key, value in expected.items()}, found)

    def _bus(self, name: str, expected: Any) -> Iterator[str]:
        found = self.run.client("events").describe_event_bus(Name=self.resources[name])
        yield from self._differences(name, expected, found)

    def _archive(self, name: str, expected: Any) -> Iterator[str]:
        found = self.run.client("events").describe_archive(ArchiveName=self.resources[name])
        expected = dict(expected)
        expected["EventSourceArn"] = expected.pop("SourceArn")
        yield from self._differences(name, expected, found)

    def _role(self, name: str, expected: Any) -> Iterator[str]:
        """Who may take the role, and its boundary. What it may do: permissions.py."""
        found = self.run.client("iam").get_role(RoleName=self.resources[name])["Role"]
        boundary = found.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn")
        yield from self._differences(name, {"boundary": expected.get("PermissionsBoundary")}, {"boundary": boundary})
        trusted = [_spelled(policy["AssumeRolePolicyDocument"]["Statement"]) for policy in (expected, found)]
        yield from self._differences(f"{name}.AssumeRolePolicyDocument", *trusted)


def _is_layer(resource: Mapping[str, Any]) -> bool:
    return resource["Type"] == "AWS::Serverless::LayerVersion"


def _merged(common: Any, own: Any) -> Any:
    """The properties that SAM makes of Globals and a function's own: its own values win, maps are merged."""
    if isinstance(common, dict) and isinstance(own, dict):
        return common | {name: _merged(common.get(name), value) for name, value in own.items()}
    return own


def _by_sid(statements: list[Any]) -> dict[str, Any]:
    """A policy's statements in one spelling: AWS may answer a list of one as its member, and "*" as any principal."""
    return {statement.get("Sid", "without a Sid"): _spelled(statement) for statement in statements}


def _spelled(node: Any) -> Any:
    match node:
        case {"AWS": "*"}:
            return "*"
        case dict():
            return {name: _spelled(value) for name, value in node.items()}
        case [one]:
            return _spelled(one)
    return node


def _plain(value: Any) -> str:
    """The value as text, in one spelling: AWS answers some numbers and truth values as texts."""
    match value:
        case None | "" | [] | {}:
            return ""
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value:g}" if value < 1e6 else str(int(value))
        case str():
            return value.lower() if value.lower() in {"true", "false"} else value
    return json.dumps(value, sort_keys=True, default=str)


def _sorted(values: list[Any]) -> list[str]:
    return sorted(
        json.dumps({key: _plain(one) for key, one in value.items()}, sort_keys=True)
        if isinstance(value, dict)
        else _plain(value)
        for value in values
    )


def _shown(value: Any) -> str:
    return "nothing" if value in (None, "", [], {}) else str(value)
