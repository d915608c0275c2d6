"""The template as CloudFormation's two transforms leave it, by the code of AWS's that comes with SAM.

The Python of .venv-tools runs it. Its input is a list in JSON, with parameters' values by their names for each
template. It prints a list of the templates' resources.
"""

import copy
import json
import logging
import sys
from pathlib import Path

import boto3
from samcli.lib.cfn_language_extensions import PseudoParameterValues, process_template
from samcli.yamlhelper import yaml_parse
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

PSEUDO = PseudoParameterValues(account_id="123456789012", region="eu-west-1", stack_name="teller-dev")
CODE = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}

logging.disable()
template = yaml_parse((Path(__file__).parents[2] / "template.yaml").read_text())
for name, resource in template["Resources"].items():
    if isinstance(resource, dict) and resource["Type"] in CODE:
        resource["Properties"][CODE[resource["Type"]]] = f"s3://bucket/{name}"
# A number is a text: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html
defaults = {name: str(each.get("Default", "")) for name, each in template["Parameters"].items()}
made = []
for given in json.load(sys.stdin):
    expanded = process_template(copy.deepcopy(template), defaults | given, PSEUDO)
    translator = Translator({}, Parser(), boto_session=boto3.Session(region_name=PSEUDO.region))
    made.append(translator.translate(copy.deepcopy(expanded), defaults | given)["Resources"])
print(json.dumps(made))
