"""Builds template.yaml with SAM and deploys it, unchanged, to a local AWS."""

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.local_aws.server import PROJECT, TOOLS, Endpoint, LocalAwsError
from tools.local_aws.spinner import Say

NAME = "teller-dev"
BUILT = PROJECT / ".aws-sam" / "build" / "template.yaml"
"""The template that `build` makes."""


@dataclass(frozen=True)
class Stack:
    """The deployed stack; `outputs` are template.yaml's."""

    endpoint: Endpoint
    outputs: dict[str, str]
    name: str = NAME

    def __getitem__(self, output: str) -> str:
        return self.outputs[output]


def _to_nobody(line: str) -> None:
    pass


def build(say: Say = _to_nobody) -> None:
    """`make build`: `sam build`, with the SAM of .venv-tools. `say` gets each line that it prints."""
    _run("make", "build", say=say)


def deploy(endpoint: Endpoint, say: Say = _to_nobody, template: Path = BUILT, **parameters: object) -> Stack:
    """Runs `sam deploy` of a built template: creates the stack, or updates it. `parameters` are the template's."""
    overrides = {"Architecture": architecture(), "AwsEndpointUrl": endpoint.url} | parameters
    _run(
        str(TOOLS / "sam"),
        "deploy",
        *("--config-file", str(PROJECT / "samconfig.toml"), "--template-file", str(template)),
        *("--stack-name", NAME, "--no-progressbar"),
        *("--parameter-overrides", *(f"{name}={value}" for name, value in overrides.items())),
        environment=endpoint.environment,
        say=say,
    )
    described = endpoint.client("cloudformation").describe_stacks(StackName=NAME)["Stacks"][0]
    _set_concurrency(endpoint)
    _publish_what_changed(endpoint, described)
    return Stack(endpoint, {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]})


def _set_concurrency(endpoint: Endpoint) -> None:
    """Sets the concurrency as a number: ministack 1.5.33 stores a parameter's value as text, and then doesn't poll."""
    lambda_ = endpoint.client("lambda")
    mappings = lambda_.list_event_source_mappings()["EventSourceMappings"]
    for mapping in (mapping for mapping in mappings if "ScalingConfig" in mapping):
        concurrency = int(mapping["ScalingConfig"]["MaximumConcurrency"])
        lambda_.update_event_source_mapping(UUID=mapping["UUID"], ScalingConfig={"MaximumConcurrency": concurrency})


def _publish_what_changed(endpoint: Endpoint, described: dict) -> None:
    """Publishes functions whose variables have changed: ministack 1.5.33 makes no version if only parameters did."""
    lambda_ = endpoint.client("lambda")
    names = [each["OutputValue"] for each in described["Outputs"] if each["OutputKey"].endswith("FunctionName")]
    for name in names:
        live, newest = (
            lambda_.get_function_configuration(FunctionName=each)["Environment"] for each in (name, unqualified(name))
        )
        if live != newest:
            publish(lambda_, name)


def publish(lambda_: Any, function_name: str) -> None:
    """Makes a version of the function as it is now. Its alias, with which the name ends, goes over to it."""
    name, _, alias = function_name.partition(":")
    version = lambda_.publish_version(FunctionName=name)["Version"]
    lambda_.update_alias(FunctionName=name, Name=alias, FunctionVersion=version)


def unqualified(function_name: str) -> str:
    """A function's name without its alias: to change the function by, and in logs and metrics."""
    return function_name.partition(":")[0]


def architecture() -> str:
    return "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"


def _run(*arguments: str, say: Say, environment: dict[str, str] | None = None) -> None:
    lines = []
    with subprocess.Popen(
        arguments,
        cwd=PROJECT,
        env=os.environ | {"SAM_CLI_TELEMETRY": "0", "PYTHONUNBUFFERED": "1"} | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            say(line)
    if process.returncode:
        raise LocalAwsError(f"{' '.join(arguments[:2])} failed:\n{''.join(lines).strip()[-4000:]}")
