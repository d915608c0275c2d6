"""What the product assumes of Lambda and its mapping of a queue. Each test names the page that states it."""

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.httpsession import URLLib3Session

from tests.assumptions.conftest import rests_on
from tests.assumptions.places import Place, queue, queue_arn

PAGE = "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"
PYTHON = "https://docs.aws.amazon.com/lambda/latest/dg/lambda-python.html"
RECORDS = "https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html"
CODE = """
import json, os, boto3, datetime, zoneinfo

def handler(event, context):
    if "requestContext" in event:
        return {"statusCode": 200, "body": event["requestContext"]["authorizer"]["iam"]["userId"]}
    if "Records" not in event:
        noon = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.timezone.utc)
        return {name: str(noon.astimezone(zoneinfo.ZoneInfo(name)))[11:] for name in event.get("time_zones", [])}
    sqs = boto3.client("sqs")
    for record in event["Records"]:
        sqs.send_message(QueueUrl=os.environ["TOLD"], MessageBody=json.dumps(record))
    again = [record for record in event["Records"] if record["body"].startswith("again")]
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in again]}
"""
TRUST = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}


class Polled(NamedTuple):
    """A queue that a function polls: messages that begin with "again" go back. It tells each record that it got."""

    place: Place
    url: str
    arn: str
    told: str
    function: str

    def records(self, count: int) -> list[dict[str, Any]]:
        """The records that the function told of: so many, or all that came in time."""
        sqs, found = self.place.client("sqs"), []

        def receive() -> bool:
            answer = sqs.receive_message(QueueUrl=self.told, MaxNumberOfMessages=10, VisibilityTimeout=300)
            found.extend(json.loads(message["Body"]) for message in answer.get("Messages", []))
            return len(found) >= count

        for _ in range(4):  # a mapping takes a minute to begin
            if self.place.eventually(receive):
                break
        return found


@pytest.fixture(scope="session")
def polled(place: Place) -> Iterator[Polled]:
    iam, functions, name = place.client("iam"), place.client("lambda"), place.new_name()
    with queue(place, VisibilityTimeout="6") as url, queue(place) as told, ExitStack() as removals:
        arns = [queue_arn(place, each) for each in (url, told)]
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=_policy(TRUST))["Role"]["Arn"]
        removals.callback(iam.delete_role, RoleName=name)
        allowed = {"Effect": "Allow", "Action": "sqs:*", "Resource": arns}
        iam.put_role_policy(RoleName=name, PolicyName="queues", PolicyDocument=_policy(allowed))
        removals.callback(iam.delete_role_policy, RoleName=name, PolicyName="queues")
        place.eventually(lambda: _create_function(functions, name, role, told))
        removals.callback(functions.delete_function, FunctionName=name)
        functions.get_waiter("function_active_v2").wait(FunctionName=name)
        mapping = functions.create_event_source_mapping(
            EventSourceArn=arns[0], FunctionName=name, FunctionResponseTypes=["ReportBatchItemFailures"]
        )
        removals.callback(functions.delete_event_source_mapping, UUID=mapping["UUID"])
        yield Polled(place, url, arns[0], told, name)


def _create_function(functions: Any, name: str, role: str, told: str) -> bool:
    """False if a new role can't be assumed yet."""
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr(zipfile.ZipInfo("app.py"), CODE)
        archive.infolist()[0].external_attr = 0o644 << 16
    try:
        functions.create_function(
            FunctionName=name,
            Runtime="python3.13",
            Role=role,
            Handler="app.handler",
            Timeout=5,
            Code={"ZipFile": code.getvalue()},
            Environment={"Variables": {"TOLD": told}},
        )
    except functions.exceptions.InvalidParameterValueException:
        return False
    return True


def _policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@rests_on(RECORDS)
def test_a_record_says_by_which_queue_it_came_who_sent_it_when_and_how_often_it_was_received(polled: Polled) -> None:
    attribute = {"DataType": "String", "StringValue": "value"}
    polled.place.client("sqs").send_message(
        QueueUrl=polled.url, MessageBody="once", MessageAttributes={"name": attribute}
    )
    [record] = polled.records(1)
    assert (record["body"], record["eventSourceARN"]) == ("once", polled.arn)
    assert {"SenderId", "SentTimestamp", "ApproximateReceiveCount"} <= record["attributes"].keys()
    assert record["messageAttributes"]["name"]["stringValue"] == "value"


@rests_on(PAGE)
def test_the_messages_that_a_function_names_come_again_and_the_others_are_deleted(polled: Polled) -> None:
    sqs = polled.place.client("sqs")
    for body in ("again", "done"):
        sqs.send_message(QueueUrl=polled.url, MessageBody=body)
    told = [(record["body"], record["attributes"]["ApproximateReceiveCount"]) for record in polled.records(3)]
    assert sorted(told)[:3] == [("again", "1"), ("again", "2"), ("done", "1")]


@rests_on("https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html")
def test_a_functions_url_names_who_has_signed_and_refuses_others(polled: Polled) -> None:
    functions = polled.place.client("lambda")
    assert "amazonaws.com" in functions.meta.endpoint_url, "it has no such address"
    functions.create_function_url_config(FunctionName=polled.function, AuthType="AWS_IAM")
    try:
        url, own = functions.get_function_url_config(FunctionName=polled.function)["FunctionUrl"], boto3.Session()
        region, keys = functions.meta.region_name, own.get_credentials().get_frozen_credentials()
        answers = []
        for key in (keys, Credentials(keys.access_key, "another", keys.token), None):
            request = AWSRequest("POST", url, {"Content-Type": "application/json"}, "{}")
            if key:
                SigV4Auth(key, "lambda", region).add_auth(request)
            answers.append(URLLib3Session().send(request.prepare()))
        assert [answer.status_code for answer in answers] == [200, 403, 403]
        assert answers[0].text == own.client("sts").get_caller_identity()["UserId"]
    finally:
        functions.delete_function_url_config(FunctionName=polled.function)


@rests_on(PYTHON)
def test_the_runtime_has_the_time_zones_of_the_iana_database(polled: Polled) -> None:
    """The page says Amazon Linux 2023, whose package of them Lambda has had since January 2024."""
    expected = {"Europe/Paris": "14:00:00+02:00", "Asia/Kathmandu": "17:45:00+05:45"}
    expected["America/New_York"] = "08:00:00-04:00"
    event = json.dumps({"time_zones": list(expected)})
    answer = polled.place.client("lambda").invoke(FunctionName=polled.function, Payload=event)
    assert json.load(answer["Payload"]) == expected
