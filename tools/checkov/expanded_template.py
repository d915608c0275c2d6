"""Prints template.yaml as CloudFormation deploys it, as JSON: checkov knows neither loops nor SAM's functions.

It is the template of the stage prod, with each optional ARN given. SAM's own code (.venv-tools) expands it, without the
network.
"""

import json
import sys
from pathlib import Path
from typing import Any

from samcli.lib.translate.sam_template_validator import SamTemplateValidator
from samcli.yamlhelper import yaml_parse

TEMPLATE = Path(__file__).parents[2] / "template.yaml"


class _NoManagedPolicies:
    """Stands for AWS's managed policies, which the template doesn't use, and which SAM would ask IAM for."""

    def load(self) -> dict[str, str]:
        return {}


def expanded_template() -> dict[str, Any]:
    """The template without loops, transforms and conditions."""
    source = yaml_parse(TEMPLATE.read_text())
    values = {name: "arn:aws:given" for name in source["Parameters"] if name.endswith(("Arn", "Arns"))}
    validator = SamTemplateValidator(
        source,
        _NoManagedPolicies(),
        region="us-east-1",
        parameter_overrides=values | {"Stage": "prod"},
        language_extensions_enabled=True,
    )
    return yaml_parse(validator.get_translated_template_if_valid())


if __name__ == "__main__":
    json.dump(expanded_template(), sys.stdout, indent=2)
