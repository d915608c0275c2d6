"""EventBridge in the process: buses, rules whose targets are queues, and PutEvents.

https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html
"""

import itertools
import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from conditional_writes.testing import Clock
from tests.support.sqs import ACCOUNT, ARN, Sqs

MAXIMUM_EVENTS = 10
MAXIMUM_BYTES = 1024 * 1024
"""Of a request's events: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html"""
NUMERIC: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class EventsError(Exception):
    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass
class Rule:
    pattern: Mapping[str, Any]
    queues: dict[str, str] = field(default_factory=dict)
    """The names of the targets' queues, by the targets' ids."""


class EventBridge:
    """`buses` have their rules by name. What matches a rule is on its queues at once."""

    def __init__(self, clock: Clock, sqs: Sqs) -> None:
        self.buses: dict[str, dict[str, Rule]] = {"default": {}}
        self._clock, self._sqs, self._numbers = clock, sqs, itertools.count(1)

    def answer(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        match operation:
            case "CreateEventBus":
                if request["Name"] in self.buses:
                    raise EventsError("ResourceAlreadyExistsException", f"Event bus {request['Name']} already exists.")
                self.buses[request["Name"]] = {}
                return {"EventBusArn": f"arn:aws:events:us-east-1:{ACCOUNT}:event-bus/{request['Name']}"}
            case "PutRule":
                rules = self._rules(request)
                rules[request["Name"]] = Rule(json.loads(request["EventPattern"]))
                return {"RuleArn": f"arn:aws:events:us-east-1:{ACCOUNT}:rule/{request['Name']}"}
            case "PutTargets":
                targets = {target["Id"]: target["Arn"].removeprefix(ARN) for target in request["Targets"]}
                self._rules(request)[request["Rule"]].queues.update(targets)
                return {"FailedEntryCount": 0, "FailedEntries": []}
            case "RemoveTargets":
                for target_id in request["Ids"]:
                    self._rules(request)[request["Rule"]].queues.pop(target_id, None)
                return {"FailedEntryCount": 0, "FailedEntries": []}
            case "DeleteRule":
                self._rules(request).pop(request["Name"], None)
                return {}
            case "DeleteEventBus":
                self.buses.pop(request["Name"], None)
                return {}
            case "PutEvents":
                return self._put_events(request["Entries"])
        raise NotImplementedError(f"this EventBridge has no {operation}")

    def _rules(self, request: Mapping[str, Any]) -> dict[str, Rule]:
        name = request.get("EventBusName", "default")
        if name not in self.buses:
            raise EventsError("ResourceNotFoundException", f"Event bus {name} does not exist.")
        return self.buses[name]

    def _put_events(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        if not 1 <= len(entries) <= MAXIMUM_EVENTS:
            raise EventsError("ValidationException", f"{len(entries)} entries: a request has from 1 to 10.")
        if sum(len(json.dumps(entry, ensure_ascii=False).encode()) for entry in entries) > MAXIMUM_BYTES:
            raise EventsError("ValidationException", "Total size of the entries in the request is over the limit.")
        results = [self._put(entry) for entry in entries]
        return {"FailedEntryCount": sum("ErrorCode" in result for result in results), "Entries": results}

    def _put(self, entry: Mapping[str, Any]) -> dict[str, str]:
        """An event without its bus is taken and is gone, as on AWS."""
        for name in ("Source", "DetailType", "Detail"):
            if not entry.get(name):
                return {"ErrorCode": "InvalidArgument", "ErrorMessage": f"Parameter {name} is not valid."}
        if entry["Source"].startswith("aws."):
            return {"ErrorCode": "NotAuthorizedForSourceException", "ErrorMessage": "Not authorized for the source."}
        try:
            detail = json.loads(entry["Detail"])
        except ValueError:
            return {"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."}
        event = {
            "version": "0",
            "id": f"event-{next(self._numbers)}",
            "detail-type": entry["DetailType"],
            "source": entry["Source"],
            "account": ACCOUNT,
            "time": datetime.fromtimestamp(entry.get("Time", self._clock.time()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": "us-east-1",
            "resources": entry.get("Resources", []),
            "detail": detail,
        }
        for rule in self.buses.get(entry.get("EventBusName", "default"), {}).values():
            if matches(rule.pattern, event):
                for queue in rule.queues.values():
                    self._sqs.send(queue, json.dumps(event))
        return {"EventId": event["id"]}


_ABSENT = object()


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html"""
    for name, wanted in pattern.items():
        found = event.get(name, _ABSENT)
        if isinstance(wanted, Mapping):
            if not isinstance(found, Mapping) or not matches(wanted, found):
                return False
        elif not any(_fits(each, one) for each in wanted for one in (found if isinstance(found, list) else [found])):
            return False
    return True


def _fits(wanted: Any, found: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return type(wanted) is type(found) and bool(wanted == found)
    [(kind, value)] = wanted.items()
    match kind:
        case "exists":
            return (found is not _ABSENT) is value
        case "prefix":
            return isinstance(found, str) and found.startswith(value)
        case "numeric":
            pairs = itertools.batched(value, 2, strict=True)
            return isinstance(found, (int, float)) and all(NUMERIC[sign](found, number) for sign, number in pairs)
    raise NotImplementedError(f"this EventBridge has no {kind}")
