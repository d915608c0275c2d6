"""Messages that leave with the commit of an exactly-once function: to SQS, SNS or EventBridge."""

from collections.abc import Mapping
from typing import Any, NamedTuple

type Body = Mapping[str, Any] | str
"""A mapping is sent as JSON, with the field `message_id`, which is the same however often the message comes. A text is
sent as it is."""


class ToQueue(NamedTuple):
    """A message to an SQS queue. A FIFO queue needs a `group_id`; any other queue shares its deliveries by it."""

    queue_url: str
    body: Body
    group_id: str | None = None


class ToTopic(NamedTuple):
    """A message to an SNS topic. A FIFO topic needs a `group_id`."""

    topic_arn: str
    body: Body
    group_id: str | None = None


class ToBus(NamedTuple):
    """An event to an EventBridge bus, by its name or ARN."""

    bus: str
    source: str
    detail_type: str
    detail: Mapping[str, Any]


type Message = ToQueue | ToTopic | ToBus
