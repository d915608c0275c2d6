"""What would stop or hurt a deployment on AWS: rules on the expanded template, each with its mistake planted again."""

import itertools
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.template import PROJECT, TEMPLATE
from tools.template import TEXT, Template

ROLE = "arn:aws:iam::123456789012:role/till"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:alarms"
ARNS = {
    "AlarmTopicArn": [TOPIC],
    "WorkingHoursAlarmTopicArn": [TOPIC],
    "ProducerRoleArns": [ROLE, "arn:aws-cn:iam::*:role/branch-*", f"{ROLE},arn:aws:iam::1:user/u"],
    "AdministratorRoleArns": [ROLE, "arn:aws-cn:iam::*:role/branch-*", f"{ROLE},arn:aws:iam::1:user/u"],
    "PermissionsBoundaryArn": ["arn:aws:iam::123456789012:policy/b", "arn:aws:iam::aws:policy/PowerUserAccess"],
    "KmsKeyArn": ["arn:aws:kms:eu-west-1:123456789012:key/1a-2b", "arn:aws-us-gov:kms:r:123456789012:key/mrk-1a"],
    "BackupCopyVaultArn": ["arn:aws:backup:eu-west-1:123456789012:backup-vault:Teller_copies-1"],
}
ALIAS = "arn:aws:kms:eu-west-1:123456789012:alias/teller"
"""Log groups refuse an alias, and IAM grants nothing by it."""
OPTIONAL: list[dict[str, str]] = [
    *({name: arns[0]} for name, arns in ARNS.items()),
    {"RestoredTables": "teller-1", "RestoredJournalStreamLabel": "2026-11-22T18:00:00.000"},
    {"OutcomesArchiveDays": "30"},
    {"LedgerRootsBucket": "roots-of-the-ledger"},
    {"PostTransactionsUrlState": "on", "PostTransactionsConcurrency": "100"},
    {"DeploymentPreference": "Canary10Percent5Minutes"},
    {"DoubleEntry": "on", "InterestAccountId": "interest", "ImportsAccountId": "imports"},
    {"ReconcileState": "DISABLED", "InterestState": "DISABLED", "ExpireHoldsState": "DISABLED"},
    {"AwsEndpointUrl": "http://local"},
]
CHOICES: list[dict[str, str]] = [
    {"Stage": stage} | chosen
    for stage in ("dev", "prod")
    for chosen in ({}, *OPTIONAL, {name: value for each in OPTIONAL[:-1] for name, value in each.items()})
]
"""Both stages, with none, each, and all of the optional parameters but that of a local AWS."""
FEW: list[dict[str, str]] = [{"Stage": "prod"}, {"Stage": "prod", "ProducerRoleArns": ROLE}, CHOICES[-1]]
"""Each planted mistake is one with some of them."""

type Resources = dict[str, Any]
type Rule = Callable[[Resources, dict[str, str]], Iterator[str]]
NAMES = re.compile(r"(Table|Queue|Role|Alarm|Dashboard|Layer|LogGroup|ManagedPolicy|Backup(Vault|Plan))?Name")


def of_kind(resources: Resources, kind: str) -> Iterator[tuple[str, Any]]:
    return ((name, each) for name, each in resources.items() if each["Type"] == kind)


KEPT = ("AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::Logs::LogGroup")
"""By Retain: AWS::LanguageExtensions knew no RetainExceptOnCreate, and no deployment has shown that it does now.
https://github.com/aws-cloudformation/cfn-language-discussion/issues/139"""


def data_is_kept_in_prod_with_the_policies_of_its_queues(resources: Resources, given: dict[str, str]) -> Iterator[str]:
    for name, each in resources.items():
        found = [each.get(policy, "Delete") for policy in ("DeletionPolicy", "UpdateReplacePolicy")]
        is_kept = each["Type"] in KEPT and given["Stage"] == "prod"
        is_always_kept = each["Type"] in ("AWS::SQS::QueuePolicy", "AWS::Backup::BackupVault")
        expected = "Retain" if is_kept or is_always_kept else "Delete"
        if found != [expected] * 2:
            yield f"{name}: expected {expected} as DeletionPolicy and UpdateReplacePolicy"


def a_key_of_kms_is_used_if_one_is_given(resources: Resources, given: dict[str, str]) -> Iterator[str]:
    for name, each in resources.items():
        uses = "KmsKeyArn" in json.dumps(each["Properties"])
        more = ("Events::EventBus", "Events::Archive", "IAM::Role", "Backup::BackupVault")
        encrypted = each["Type"] in (*KEPT, *(f"AWS::{kind}" for kind in more))
        is_of_key = encrypted and name != "BusDeadLetterQueue"  # that takes the events that the key fails
        if uses != ("KmsKeyArn" in given and is_of_key):
            yield f"{name}: uses a key, or doesn't, unlike what is given"
        if each["Properties"].get("SSESpecification", {}).get("SSEEnabled") and "KmsKeyArn" not in given:
            yield f"{name}: AWS's managed key costs its requests"


def every_change_publishes_a_version(resources: Resources, _: dict[str, str]) -> Iterator[str]:
    for name, layer in of_kind(resources, "AWS::Serverless::LayerVersion"):
        if layer["Properties"].get("PublishLambdaVersion") is not True:
            yield f"{name}: its change publishes no version"


def what_calls_a_function_calls_its_alias(resources: Resources, _: dict[str, str]) -> Iterator[str]:
    for name, url in of_kind(resources, "AWS::Lambda::Url"):
        if url["Properties"].get("Qualifier") != "live":
            yield f"{name}: calls the newest code, not the deployed version"
    for name, policy in of_kind(resources, "AWS::IAM::ManagedPolicy"):
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            calls = "lambda:InvokeFunction" in statement["Action"]
            if calls and not str(statement["Resource"]).endswith(":live'}"):
                yield f"{name}: lets call the newest code, not the deployed version"


def no_caller_of_a_url_can_write_the_event_that_names_it(resources: Resources, given: dict[str, str]) -> Iterator[str]:
    for name, policy in of_kind(resources, "AWS::IAM::ManagedPolicy"):
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            calls = "lambda:InvokeFunction" in statement["Action"] and "Url" not in statement["Action"]
            by_url = statement.get("Condition") == {"Bool": {"lambda:InvokedViaFunctionUrl": "true"}}
            if calls and by_url != ("PostTransactionsUrlState" in given):
                yield f"{name}: lets invoke a function that believes its event, or refuses all calls"


def two_stacks_of_an_account_have_no_name_in_common(resources: Resources, _: dict[str, str]) -> Iterator[str]:
    for name, each in resources.items():
        for key, value in each["Properties"].items():
            if NAMES.fullmatch(key) and "AWS::Stack" not in json.dumps(value):
                yield f"{name}.{key}: another stack has the same name"
        if each["Type"] == "AWS::Serverless::Function" and "FunctionName" in each["Properties"]:
            yield f"{name}.FunctionName: another stack has the same name"


OF_RESOURCES: list[Rule] = [
    two_stacks_of_an_account_have_no_name_in_common,
    data_is_kept_in_prod_with_the_policies_of_its_queues,
    a_key_of_kms_is_used_if_one_is_given,
    every_change_publishes_a_version,
    what_calls_a_function_calls_its_alias,
    no_caller_of_a_url_can_write_the_event_that_names_it,
]


def of_the_whole(text: str, source: dict[str, Any]) -> Iterator[str]:
    every = ["", "till", f"{ROLE}, {ROLE}", f"{ROLE},", "*", "arn:aws:x", ALIAS, *itertools.chain(*ARNS.values())]
    for name, arns in ARNS.items():
        pattern = source["Parameters"][name]["AllowedPattern"]
        if {each for each in every if re.fullmatch(pattern, each)} != {"", *arns}:
            yield f"{name}: takes other ARNs than its kind's"
    for name in source["Parameters"].keys() & Template(text).deployed().keys():
        yield f"{name}: a parameter and a resource have one name"
    function = source["Globals"]["Function"]
    if (function["AutoPublishAlias"], function["AutoPublishAliasAllProperties"]) != ("live", True):
        yield "functions: a changed setting publishes no version"
    # https://github.com/aws-cloudformation/cfn-language-discussion/issues/136
    items = set(re.findall(r"Fn::ForEach::\w+:\n +- (\w+)\n", text))
    for line in text.splitlines():
        names = set(re.findall(r"\$\{([\w:.]+)\}", line)) if "!Sub" in line else set()
        if names & items and names - items:
            yield f"{line.strip()}: CloudFormation may leave it unresolved"
    if re.search(r"Equals': \[\{'Ref': '\w+'\}, \d", str(source["Rules"])):
        yield "Rules: a parameter is a text, and is compared to a number"


def problems(text: str, choices: list[dict[str, str]] = CHOICES) -> list[set[str]]:
    """With each of the choices."""
    template = Template(text)
    always = set(of_the_whole(text, template.source))
    return [
        always | {sentence for rule in OF_RESOURCES for sentence in rule(template.deployed(**given), given)}
        for given in choices
    ]


def test_the_template_breaks_no_rule_in_either_stage_with_any_optional_parameter() -> None:
    assert set().union(*problems(TEXT)) == set()


def test_each_parameter_that_is_off_or_empty_by_default_is_tried() -> None:
    off = {name for name, each in TEMPLATE["Parameters"].items() if each.get("Default") in ("", "off", 0)}
    assert off <= {name for chosen in OPTIONAL for name in chosen}


POLICY = "QueuesPolicy:\n        Type: AWS::SQS::QueuePolicy\n"
PLANTED = {
    "F3": ('"|arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+"', '"|arn:.*"', "KmsKeyArn: takes other ARNs"),
    "F5, layers": ("PublishLambdaVersion: true", "PublishLambdaVersion: false", "publishes no version"),
    "F5, settings": ("AllProperties: true", "AllProperties: false", "a changed setting publishes no version"),
    "F5, a URL": ("      Qualifier: live\n", "", "calls the newest code"),
    "F5, callers": ("Function.Arn}:live", "Function.Arn}", "lets call the newest code"),
    "F6": ("[IsProd, Retain, Delete]", "[IsProd, RetainExceptOnCreate, Delete]", "expected Retain"),
    "F7": (f"{POLICY}        DeletionPolicy: Retain\n", POLICY, "QueuesPolicy: expected Retain"),
    "F9": ('{ Ref: !Sub "${Function}Function" }', '!Sub "${Function}Function${Stage}"', "may leave it unresolved"),
    "F10": ('!Equals [!Ref BatchWindowSeconds, "0"]', "!Equals [!Ref BatchWindowSeconds, 0]", "compared to a number"),
    "F12": ("SSEEnabled: !If [HasKey, true, false]", "SSEEnabled: true", "AWS's managed key costs its requests"),
    "a fixed name": ("Name: !Sub ${AWS::StackName}-outcomes", "Name: outcomes", "another stack has the same name"),
    "one name": ("ExpiredHoldsSchedule:", "ExpireHoldsSchedule:", "a parameter and a resource have one name"),
    "forged callers": ('- Bool: { lambda:InvokedViaFunctionUrl: "true" }', "- Ref: AWS::NoValue", "believes its event"),
}
"""The numbers are those of the audit. F1 and F11 are in test_template.py. F2, F4, F8 and F13 are sentences for people,
and F14 is the jobs' code: tests/integration/test_sending_jobs.py.
"""


@pytest.mark.parametrize(("old", "new", "problem"), PLANTED.values(), ids=PLANTED)
def test_each_mistake_that_is_planted_again_is_named(old: str, new: str, problem: str) -> None:
    assert old in TEXT
    assert any(problem in sentence for found in problems(TEXT.replace(old, new, 1), FEW) for sentence in found)


def test_every_environment_of_sam_expands_the_loops() -> None:
    """Without it SAM ends with a traceback, or says that resources must be objects."""
    environments = tomllib.loads((PROJECT / "samconfig.toml").read_text())
    del environments["version"]
    without = [name for name, each in environments.items() if not each["global"]["parameters"]["language_extensions"]]
    assert without == []
    assert environments.keys() >= {"default", "prod"}


def test_no_environment_of_sam_deletes_the_code_of_another_with_its_own() -> None:
    """SAM names an object after its content alone, and `sam delete` deletes all objects of a stack's template."""
    environments = tomllib.loads((PROJECT / "samconfig.toml").read_text())
    del environments["version"]
    deploying = [each["deploy"]["parameters"] for each in environments.values()]
    assert [each["s3_prefix"] for each in deploying] == [each["stack_name"] for each in deploying]
