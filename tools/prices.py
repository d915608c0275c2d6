"""AWS's prices that the benchmarks and the documentation compute with: the only list of them.

On demand, beyond all free tiers, for the first and dearest tier. They are those of one region, and they change: look up
your region's on the pages named here.
"""

from datetime import date
from typing import NamedTuple

REGION = "us-east-1"
AS_OF = date(2026, 11, 22)
"""The day on which the list was last compared with the pages' text."""

DYNAMODB = "https://aws.amazon.com/dynamodb/pricing/on-demand/"
SQS = "https://aws.amazon.com/sqs/pricing/"
LAMBDA = "https://aws.amazon.com/lambda/pricing/"
EVENTBRIDGE = "https://aws.amazon.com/eventbridge/pricing/"
CLOUDWATCH = "https://aws.amazon.com/cloudwatch/pricing/"
X_RAY = "https://aws.amazon.com/xray/pricing/"


class Price(NamedTuple):
    """Dollars `per` so much, and the page that says so."""

    dollars: float
    per: str
    source: str


WRITE_UNITS = Price(0.625, "a million write units", DYNAMODB)
READ_UNITS = Price(0.125, "a million read units", DYNAMODB)
TABLE_STORAGE = Price(0.25, "a GB and month, in a table or an index", DYNAMODB)
RECOVERY_STORAGE = Price(0.20, "a GB of a table and month, for point-in-time recovery", DYNAMODB)
QUEUE_REQUESTS = Price(0.40, "a million requests to a standard queue", SQS)
INVOCATIONS = Price(0.20, "a million invocations", LAMBDA)
GB_SECONDS = Price(0.0000133334, "a GB-second on arm64", LAMBDA)
EVENTS = Price(1.00, "a million custom events of up to 64 KB", EVENTBRIDGE)
PIPE_REQUESTS = Price(0.40, "a million requests of a pipe", EVENTBRIDGE)
LOG = Price(0.50, "a GB of log", CLOUDWATCH)
CUSTOM_METRICS = Price(0.30, "a metric and month", CLOUDWATCH)
API_REQUESTS = Price(0.01, "a thousand requests about metrics and alarms", CLOUDWATCH)
ALARM_METRICS = Price(0.10, "a metric of an alarm and month", CLOUDWATCH)
DASHBOARDS = Price(3.00, "a dashboard and month, after the first three", CLOUDWATCH)
TRACES = Price(5.00, "a million traces that are recorded", X_RAY)
