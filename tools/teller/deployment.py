"""The deployed stack that the command works on. Everything is found by the stack's outputs."""

import functools
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from tools.teller.failures import Failure, WrongUse

LOCAL_REGION = "us-east-1"
LONGEST_INVOCATION_SECONDS = 175
"""A job's invocation takes up to 170 s."""


def function_of(service: str) -> str:
    """The beginning of the names of a function's outputs: ProcessTransactions of process_transactions."""
    return service.title().replace("_", "")


class Deployment:
    """A stack, on AWS or at the endpoint of a local AWS, as `describe_stacks` tells of it.

    Without credentials in the environment a local AWS is called as its root user. Raises WrongUse and Failure.
    """

    def __init__(self, name: str, endpoint_url: str | None = None) -> None:
        if endpoint_url and not _is_url(endpoint_url):
            raise WrongUse(f"the endpoint: expected a URL, such as http://127.0.0.1:4566, got {endpoint_url!r}")
        self.name = name
        self._session = _session(endpoint_url)
        self.endpoint_url = endpoint_url
        described = self._described()
        self.created_at: datetime = described["CreationTime"]
        self.stack_id: str = described["StackId"]
        self.outputs: Mapping[str, str] = {
            output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])
        }
        self.parameters: Mapping[str, str] = {
            parameter["ParameterKey"]: parameter["ParameterValue"] for parameter in described.get("Parameters", [])
        }

    def __getitem__(self, output: str) -> str:
        """The value of an output. Raises Failure if the stack has none of this name."""
        try:
            return self.outputs[output]
        except KeyError:
            raise Failure(
                f"the stack {self.name} has no output {output}: it isn't Teller's, or it was deployed by an earlier "
                "release. Deploy it again"
            ) from None

    @property
    def is_prod(self) -> bool:
        return self.parameters.get("Stage") == "prod"

    @property
    def region(self) -> str:
        return str(self._session.region_name)

    @property
    def is_local(self) -> bool:
        """Whether the stack is on a local AWS, whose answers some questions lack."""
        return bool(self.parameters.get("AwsEndpointUrl"))

    @functools.cache  # noqa: B019 (a command has one deployment)
    def client(self, service: str) -> Any:
        return self.new_client(service)

    def new_client(self, service: str, endpoint_url: str | None = None, **config: Any) -> Any:
        """A client of its own, with these settings of botocore's Config, by default at the deployment's endpoint."""
        settings = {"retries": {"mode": "standard", "total_max_attempts": 5}, **config}
        return self._session.client(service, endpoint_url=endpoint_url or self.endpoint_url, config=Config(**settings))

    def invoke(self, output: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the function whose name is in this output. Raises Failure if the function fails.

        The function is invoked once: an invocation that got no answer isn't repeated.
        """
        patient = self._patient_client
        response = patient.invoke(FunctionName=self[output], Payload=json.dumps(event).encode())
        answer: dict[str, Any] = json.loads(response["Payload"].read())
        if "FunctionError" in response:
            kind, text = answer.get("errorType", "an error"), answer.get("errorMessage", answer)
            raise Failure(f"the function {self[output]} failed: {kind}: {text}")
        return answer

    @functools.cached_property
    def _patient_client(self) -> Any:
        return self.new_client(
            "lambda", read_timeout=LONGEST_INVOCATION_SECONDS, retries={"mode": "standard", "total_max_attempts": 1}
        )

    def _described(self) -> Mapping[str, Any]:
        cloudformation = self.new_client("cloudformation")
        try:
            [described] = cloudformation.describe_stacks(StackName=self.name)["Stacks"]
        except ClientError as error:
            if "does not exist" in error.response["Error"]["Message"]:
                where = self.endpoint_url or f"the region {self._session.region_name}"
                raise Failure(f"there is no stack {self.name!r} in {where}") from None
            raise
        return described


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _session(endpoint_url: str | None) -> boto3.Session:
    session = boto3.Session()
    if endpoint_url and session.get_credentials() is None:
        session = boto3.Session("test", "test", region_name=session.region_name)
    if session.region_name is None:
        if not endpoint_url:
            raise WrongUse("no region: set AWS_DEFAULT_REGION, or a region of your profile")
        credentials = session.get_credentials()
        session = boto3.Session(
            credentials.access_key, credentials.secret_key, credentials.token, region_name=LOCAL_REGION
        )
    return session
