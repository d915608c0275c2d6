"""What a batch came to: its log lines and its metrics."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit, single_metric

from workers.queue_messages import Again, Dead, Done, QueueMessage, Waiting

MAXIMUM_VALUES = 99
"""Of a metric in one invocation. With one more, Powertools would publish early what there is."""


class Measurement(NamedTuple):
    """A value of a metric. `dimension` is a name and a value, beside the service's."""

    metric: str
    value: float
    unit: MetricUnit = MetricUnit.Count
    dimension: tuple[str, str] | None = None


def report(
    messages: Sequence[QueueMessage[Any]], measurements: Iterable[Measurement], logger: Logger, metrics: Metrics
) -> None:
    """Writes a line for the batch, and a line for each message: at DEBUG for those that are done.

    Emits the measurements, and what the dispositions count to.
    """
    dispositions = [message.disposition for message in messages]
    done = Counter(disposition.outcome.label for disposition in dispositions if isinstance(disposition, Done))
    codes = Counter(disposition.code for disposition in dispositions if isinstance(disposition, Dead))
    waiting = sum(isinstance(disposition, Waiting) for disposition in dispositions)
    returned = sum(isinstance(disposition, Again) for disposition in dispositions)
    counts = {**done, "waiting": waiting, "returned": returned, "dead_lettered": codes.total()}
    logger.info("batch", extra={"messages": len(messages)} | {name: count for name, count in counts.items() if count})
    _log_each(messages, logger)
    ages = [message.age_seconds * 1000 for message in messages if isinstance(message.disposition, Done)]
    for measured in [
        *measurements,
        Measurement("Waiting", waiting),
        Measurement("ReturnedToQueue", returned),
        Measurement("DeadLettered", codes.total()),
        *(Measurement("DeadLettered", count, dimension=("ReasonCode", code)) for code, count in codes.items()),
        *(Measurement("MessageAge", age, MetricUnit.Milliseconds) for age in ages[:MAXIMUM_VALUES]),
    ]:
        _measure(measured, metrics)


def _log_each(messages: Iterable[QueueMessage[Any]], logger: Logger) -> None:
    """Writes the messages' lines, without their payloads. Messages with the same error share its traceback."""
    logged: set[Exception] = set()
    for message in messages:
        ids = {"message_id": message.message_id, **(message.content.log_fields if message.content else {})}
        match message.disposition:
            case Done(outcome):
                logger.debug(outcome.label, extra={**ids, **outcome.log_fields})
            case Dead(code, reason):
                logger.warning("dead-lettered", extra=ids | {"reason_code": code, "reason": reason})
            case Waiting(code, reason):
                logger.warning("waiting", extra=ids | {"reason_code": code, "reason": reason})
            case Again(reason, error):
                traceback = None if error in logged else error
                logger.error("returned to the queue", extra=ids | {"reason": reason}, exc_info=traceback)
                logged |= {error} if error else set()


def _measure(measured: Measurement, metrics: Metrics) -> None:
    if measured.dimension is None:
        metrics.add_metric(measured.metric, measured.unit, measured.value)
        return
    with single_metric(measured.metric, measured.unit, measured.value) as metric:
        metric.add_dimension(*measured.dimension)
