"""Settings for `sam local invoke`, which runs a function in Lambda's container against a deployed stack."""

import json
from pathlib import Path

from tools.local_aws import stack
from tools.local_aws.functions import SAMPLE_JOURNAL, administration_queue


def write_settings(deployed: stack.Stack, folder: Path) -> Path:
    """Writes a SAM configuration file for a deployed stack. Returns its path.

    `sam local invoke` doesn't resolve references in the template's environment variables. The file has the deployed
    functions' values. The endpoint is replaced, for its address is another inside a container; and so are the table
    whose stream publish_outcomes takes, and the administration's queue, by those of the sample events.
    """
    endpoint = deployed.endpoint
    resources = endpoint.client("cloudformation").describe_stack_resources(StackName=stack.NAME)["StackResources"]
    lambda_ = endpoint.client("lambda")
    functions = {
        resource["LogicalResourceId"]: lambda_.get_function_configuration(FunctionName=resource["PhysicalResourceId"])
        for resource in resources
        if resource["ResourceType"] == "AWS::Lambda::Function"
    }
    in_container = {"AWS_ENDPOINT_URL": f"http://host.docker.internal:{endpoint.url.rpartition(':')[2]}"}
    variables = {name: function["Environment"]["Variables"] | in_container for name, function in functions.items()}
    variables["PublishOutcomesFunction"]["JOURNAL_TABLE"] = SAMPLE_JOURNAL
    variables["ProcessTransactionsFunction"]["ADMINISTRATION_QUEUE_URL"] = administration_queue(endpoint)
    (architecture,) = {function["Architectures"][0] for function in functions.values()}
    env_vars = folder / "local-variables.json"
    env_vars.write_text(json.dumps(variables, indent=2) + "\n")
    settings = folder / "local.toml"
    settings.write_text(f"""\
version = 0.1
[default.local_invoke.parameters]
language_extensions = true
env_vars = "{env_vars}"
parameter_overrides = "Architecture={architecture}"
add_host = "host.docker.internal:host-gateway"
skip_pull_image = true
""")
    return settings
