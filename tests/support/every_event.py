"""Holds each event that a test sees against its schema: what functions in this process publish, and consumers take."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any
from unittest import mock

from botocore.handlers import BUILTIN_HANDLERS

from conditional_writes.core.client import _handlers
from tests.checkers.event_schemas import problems
from tools.local_aws.consumers import Consumer

PUT_EVENTS = "provide-client-params.eventbridge.PutEvents"


@dataclass
class SeenEvents:
    """The number of events that were published and taken, and a sentence for each problem of one of them."""

    published: int = 0
    taken: int = 0
    problems: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def watching(self) -> Iterator["SeenEvents"]:
        """Sees all events of consumers, and of functions whose clients are made meanwhile."""
        take, hooks = Consumer.take, _handlers(*BUILTIN_HANDLERS)

        def taken(consumer: Consumer) -> list[dict[str, Any]]:
            events = take(consumer)
            self.taken += len(events)
            self.problems += chain.from_iterable(map(problems, events))
            return events

        def published(params: Mapping[str, Any], **_: Any) -> None:
            self.published += len(params["Entries"])
            self.problems += chain.from_iterable(map(problems, map(_as_delivered, params["Entries"])))

        hooks.register(PUT_EVENTS, published)
        try:
            with mock.patch.object(Consumer, "take", taken):
                yield self
        finally:
            hooks.unregister(PUT_EVENTS, published)


def _as_delivered(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The event that EventBridge makes of an entry, as far as the entry has it."""
    time: datetime = entry["Time"]
    return {
        "source": entry["Source"],
        "detail-type": entry["DetailType"],
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "detail": json.loads(entry["Detail"]),
    }
