"""The template as CloudFormation's two transforms leave it, by the code of AWS's that comes with SAM.

The Python of .venv-tools runs it. Its input is a list in JSON, with parameters' values by their names for each
template. It prints a list of the templates' resources.
"""

import copy
import json
import logging
import sys
from pathlib import Path
from typing import Any

import boto3
from samcli.lib.cfn_language_extensions import PseudoParameterValues, process_template
from samcli.yamlhelper import yaml_parse
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
CODE = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}
PSEUDO = PseudoParameterValues(account_id="123456789012", region="eu-west-1", stack_name="teller-dev")


def transformed(template: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    """A parameter's value is a text, a number's too:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html
    """
    values = {name: str(each.get("Default", "")) for name, each in template["Parameters"].items()} | given
    expanded = process_template(copy.deepcopy(template), values, PSEUDO)
    translator = Translator({}, Parser(), boto_session=boto3.Session(region_name=PSEUDO.region))
    resources: dict[str, Any] = translator.translate(copy.deepcopy(expanded), values)["Resources"]
    return resources


def main() -> None:
    logging.disable()
    template = yaml_parse(TEMPLATE.read_text())
    for name, resource in template["Resources"].items():
        if isinstance(resource, dict) and resource["Type"] in CODE:
            resource["Properties"][CODE[resource["Type"]]] = f"s3://bucket/{name}"
    print(json.dumps([transformed(template, given) for given in json.load(sys.stdin)]))


main()
