"""Step 9: each role may do what its function needs, and nothing of a list. Plain HTTP to the queues is denied."""

from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tools import template
from tools.teller.verify.run import Run
from tools.teller.verify.stack import Resources
from tools.teller.verify.steps import Step

DENIED: Mapping[str, tuple[str, ...]] = {
    "AccountsTable": ("dynamodb:DeleteItem", "dynamodb:DeleteTable", "dynamodb:UpdateTable"),
    "JournalTable": ("dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:Scan", "dynamodb:DeleteTable"),
    "ProfilesTable": ("dynamodb:GetItem", "dynamodb:Scan", "dynamodb:DeleteTable"),
    "LocksTable": ("dynamodb:DeleteItem", "dynamodb:Scan", "dynamodb:DeleteTable"),
    "AttemptsTable": ("dynamodb:DeleteItem", "dynamodb:Scan", "dynamodb:DeleteTable"),
    "TransactionsQueue": ("sqs:PurgeQueue", "sqs:DeleteQueue", "sqs:SetQueueAttributes"),
    "TransactionsDeadLetterQueue": ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:PurgeQueue"),
    "ProfilesDeadLetterQueue": ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:PurgeQueue"),
    "OutcomesBus": ("events:PutRule", "events:DeleteEventBus"),
    "ReadAccountsFunction": ("lambda:InvokeFunction", "lambda:UpdateFunctionCode"),
}
"""What no function may do, by the resource."""
OF_OTHERS = ("iam:CreateRole", "iam:PassRole", "sts:AssumeRole", "s3:GetObject", "kms:Decrypt", "dynamodb:PutItem")
"""What no function may do on resources that aren't the stack's."""


def permissions(run: Run, step: Step) -> None:
    resources = Resources(run.deployment)
    roles = [name for name, resource in resources.expected.items() if resource["Type"] == "AWS::IAM::Role"]
    simulated = Simulated(run, resources)
    for role in roles:
        allowed = [(action, arn) for action, arn in simulated.needs(role)]
        problems = simulated.unlike("allowed", role, allowed)
        step.check(f"{role} may do what it needs", *problems)
        if role.endswith("FunctionScheduleRole"):
            continue
        denied = [(action, resources.arn(name)) for name, actions in DENIED.items() for action in actions]
        denied += [(action, "*") for action in OF_OTHERS]
        step.check(f"{role} may do nothing else of {len(denied)} actions", *simulated.unlike("denied", role, denied))
    step.sent = f"{simulated.questions} questions to IAM's simulator"
    _check_plain_http(run, step)


class Simulated:
    """IAM's answers: whether a role may do something, by its own policies and its boundary."""

    def __init__(self, run: Run, resources: Resources) -> None:
        self.run, self.resources, self.questions = run, resources, 0

    def needs(self, role: str) -> Iterator[tuple[str, str]]:
        """Each action and resource that the template grants the role."""
        parameters = {
            name: value
            for name, value in self.run.deployment.parameters.items()
            if name in template.TEMPLATE["Parameters"]
        }
        for statement in template.statements(role, **parameters):
            if "kms:ViaService" in str(statement.get("Condition")):
                continue  # The simulator can't tell, because DynamoDB and SQS use the key.
            for resource in _listed(self.resources.resolved(statement["Resource"])):
                for action in _listed(statement["Action"]):
                    yield _example(action), resource

    def unlike(self, expected: str, role: str, wanted: list[tuple[str, str]]) -> list[str]:
        """The problems: an action that isn't `allowed`, or isn't `denied`."""
        by_resource: dict[str, list[str]] = {}
        for action, arn in wanted:
            by_resource.setdefault(arn, []).append(action)
        problems = []
        for arn, actions in by_resource.items():
            for action, decision in self._decisions(role, actions, arn):
                if (decision == "allowed") != (expected == "allowed"):
                    problems.append(f"{role}, {action} on {self._name(arn)}: expected {expected}, got {decision}")
        return problems

    def _decisions(self, role: str, actions: list[str], arn: str) -> Iterator[tuple[str, str]]:
        pages = self.run.client("iam").get_paginator("simulate_principal_policy")
        found = pages.paginate(
            PolicySourceArn=self.resources.arn(role),
            ActionNames=sorted(set(actions)),
            ResourceArns=[arn.replace("/stream/*", "/stream/2026-01-01T00:00:00.000")],
        )
        for page in found:
            for result in page["EvaluationResults"]:
                self.questions += 1
                yield result["EvalActionName"], result["EvalDecision"]

    def _name(self, arn: str) -> str:
        """The logical id of what the ARN names, without the number of the AWS account."""
        for name, kind in self.resources.kinds.items():
            physical = self.resources[name].rpartition("/")[2]
            if kind != "AWS::IAM::Role" and physical and physical in arn:
                return name
        return arn.rpartition(":")[2]


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _example(action: str) -> str:
    """An action that a pattern matches: `sqs:SendMessage*` stands for sqs:SendMessage."""
    return action.removesuffix("*")


def _check_plain_http(run: Run, step: Step) -> None:
    claim = "plain HTTP to the queues is denied"
    if run.deployment.is_local:
        step.only_on_aws(claim, "the local AWS speaks plain HTTP")
        return
    address = run.client("sqs").meta.endpoint_url.replace("https://", "http://")
    client = run.requests.counted(run.deployment.new_client("sqs", endpoint_url=address))
    try:
        client.get_queue_attributes(QueueUrl=run.deployment["TransactionsQueueUrl"], AttributeNames=["QueueArn"])
    except ClientError as error:
        code = error.response["Error"]["Code"]
        step.check(claim, *([] if "AccessDenied" in code else [f"expected AccessDenied, got {code}"]))
    except BotoCoreError:
        step.check(claim)  # The endpoint takes no plain HTTP at all.
    else:
        step.check(claim, "TransactionsQueue: expected a refusal of plain HTTP, got an answer")
