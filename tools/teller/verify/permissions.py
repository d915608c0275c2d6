"""Step 6: each role may do what its function needs, and nothing else. Plain HTTP to the queues is denied."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from tools import template
from tools.teller.verify.resources import ARNS
from tools.teller.verify.run import Run
from tools.teller.verify.steps import Step

DENIED: Mapping[str, tuple[str, ...]] = {
    "AccountsTable": ("dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:DeleteTable", "dynamodb:UpdateTable"),
    "JournalTable": (
        *("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"),
        *("dynamodb:Scan", "dynamodb:DeleteTable"),
    ),
    "ReversalsTable": ("dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:Scan", "dynamodb:DeleteTable"),
    "RefusalsTable": ("dynamodb:DeleteItem", "dynamodb:Scan", "dynamodb:DeleteTable"),
    "ProfilesTable": ("dynamodb:GetItem", "dynamodb:Scan", "dynamodb:DeleteTable"),
    "LocksTable": ("dynamodb:DeleteItem", "dynamodb:Scan", "dynamodb:DeleteTable"),
    "AttemptsTable": ("dynamodb:DeleteItem", "dynamodb:Scan", "dynamodb:DeleteTable"),
    "TransactionsQueue": ("sqs:PurgeQueue", "sqs:DeleteQueue", "sqs:SetQueueAttributes"),
    "AdministrationQueue": ("sqs:PurgeQueue", "sqs:DeleteQueue", "sqs:SetQueueAttributes"),
    "TransactionsDeadLetterQueue": ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:PurgeQueue"),
    "ProfilesDeadLetterQueue": ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:PurgeQueue"),
    "OutcomesBus": ("events:PutRule", "events:DeleteEventBus"),
    "ReadAccountsFunction": ("lambda:InvokeFunction", "lambda:UpdateFunctionCode"),
    "PublishOutcomesFunction": ("lambda:InvokeFunction", "lambda:UpdateFunctionCode"),
}
"""The actions that no function may do, by the resource. Accounts, entries and counts are put in transactions alone."""
OF_OTHERS = ("iam:CreateRole", "iam:PassRole", "sts:AssumeRole", "s3:GetObject", "kms:Decrypt", "dynamodb:PutItem")
"""The actions that no function may do on resources of others."""
SENDERS_OF_ADMINISTRATION = {"ChargeOverdraftInterestRole", "ExpireHoldsRole"}
"""The jobs' messages come by the administration's queue. No other function may send to it."""


class Question(NamedTuple):
    """Whether a role may do this. If a condition looks at it: the key of the item, and the operation that it is in."""

    action: str
    arn: str
    leading_key: str | None = None
    enclosing_operation: str | None = None


def permissions(run: Run, step: Step) -> None:
    resources, simulated = run.resources, Simulated(run)
    roles = [name for name, resource in resources.expected.items() if resource["Type"] == "AWS::IAM::Role"]
    for role in roles:
        needs = list(simulated.needs(role))
        if run.deployment.is_local and any(need.enclosing_operation for need in needs):
            needs = [need for need in needs if not need.enclosing_operation]
            step.only_on_aws(
                f"{role} may put in transactions what it may not put alone",
                "the local AWS's simulator doesn't know dynamodb:EnclosingOperation",
            )
        step.check(f"{role} may do what it needs", *simulated.unlike("allowed", role, needs))
        if role == "SchedulesRole":
            continue
        denied = [Question(action, resources.arn(name)) for name, actions in DENIED.items() for action in actions]
        denied += [Question(action, "*") for action in OF_OTHERS]
        if role not in SENDERS_OF_ADMINISTRATION:
            denied.append(Question("sqs:SendMessage", resources.arn("AdministrationQueue")))
        step.check(f"{role} may do nothing else of {len(denied)} actions", *simulated.unlike("denied", role, denied))
        others = [need._replace(leading_key="another's") for need in needs if need.leading_key]
        claim = f"{role} may write no record of another function"
        if others and run.deployment.is_local:
            step.only_on_aws(claim, "the local AWS doesn't know dynamodb:LeadingKeys")
        elif others:
            step.check(claim, *simulated.unlike("denied", role, others))
    step.sent = f"{simulated.questions} questions to IAM's simulator"
    _check_plain_http(run, step)
    for role in roles:
        step.check(f"{role} is allowed nothing beside the template's statements", *_other_statements(run, role))


class Simulated:
    """IAM's answers: whether a role may do something, by its own policies and its boundary."""

    def __init__(self, run: Run) -> None:
        self.resources, self.questions, self.name_of_run = run.resources, 0, run.name
        self.iam = run.deployment.new_client("iam", retries={"mode": "adaptive", "total_max_attempts": 10})

    def needs(self, role: str) -> Iterator[Question]:
        """Each action and resource that the template grants the role."""
        for statement in template.statements(role, **self.resources.parameters):
            condition = statement.get("Condition", {})
            if "kms:ViaService" in str(condition):
                continue  # The simulator can't tell, because DynamoDB and SQS use the key.
            [pattern] = condition.get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", [None])
            [enclosing] = condition.get("ForAnyValue:StringEquals", {}).get("dynamodb:EnclosingOperation", [None])
            for resource in _listed(self.resources.resolved(statement["Resource"])):
                for action in _listed(statement["Action"]):
                    # sqs:SendMessage* stands for sqs:SendMessage.
                    key = pattern and pattern.replace("*", self.name_of_run)
                    yield Question(action.removesuffix("*"), _example(resource), key, enclosing)

    def unlike(self, expected: str, role: str, questions: Iterable[Question]) -> list[str]:
        """The problems: an action that isn't `allowed`, or isn't `denied`."""
        actions_of: dict[Question, set[str]] = {}
        for question in questions:
            actions_of.setdefault(question._replace(action=""), set()).add(question.action)
        return [
            f"{role}, {action} on {self._name(question.arn)}: expected {expected}, got {decision}"
            for question, actions in actions_of.items()
            for action, decision in self._decisions(role, sorted(actions), question)
            if (decision == "allowed") != (expected == "allowed")
        ]

    def _decisions(self, role: str, actions: list[str], question: Question) -> Iterator[tuple[str, str]]:
        values = {
            "dynamodb:LeadingKeys": question.leading_key,
            "dynamodb:EnclosingOperation": question.enclosing_operation,
        }
        entries = [
            {"ContextKeyName": name, "ContextKeyValues": [value], "ContextKeyType": "stringList"}
            for name, value in values.items()
            if value
        ]
        pages = self.iam.get_paginator("simulate_principal_policy")
        found = pages.paginate(
            PolicySourceArn=self.resources.arn(role),
            ActionNames=actions,
            ResourceArns=[question.arn],
            **({"ContextEntries": entries} if entries else {}),
        )
        for page in found:
            for result in page["EvaluationResults"]:
                self.questions += 1
                yield result["EvalActionName"], result["EvalDecision"]

    def _name(self, arn: str) -> str:
        """The logical id of what the ARN names, else its last part: without the number of the AWS account."""
        found = {self.resources.arn(name): name for name, kind in self.resources.kinds.items() if kind in ARNS}
        table, _, part = arn.partition("/index/" if "/index/" in arn else "/stream/")
        return f"{found[table]}{part and f', {part}'}" if table in found else arn.rpartition(":")[2]


def _other_statements(run: Run, role: str) -> Iterator[str]:
    """A sentence for each statement of the role's policies that allows something, and that isn't in the template."""
    iam, resources = run.client("iam"), run.resources
    name = resources[role]
    inline = iam.get_paginator("list_role_policies").paginate(RoleName=name)
    attached = iam.get_paginator("list_attached_role_policies").paginate(RoleName=name)
    documents = [
        iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
        for page in inline
        for policy in page["PolicyNames"]
    ]
    for arn in [policy["PolicyArn"] for page in attached for policy in page["AttachedPolicies"]]:
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        documents.append(iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"])
    expected = template.statements(role, **resources.parameters)
    known = {_canonical(resources.resolved(statement)) for statement in expected}
    for document in documents:
        for statement in _listed(document["Statement"]):
            if statement["Effect"] == "Allow" and _canonical(statement) not in known:
                actions = ", ".join(_listed(statement.get("Action", "all but some actions")))
                yield f"{role}, {actions}: expected the template's statements, got another one that allows this"


def _canonical(statement: Any) -> str:
    """One spelling of a statement: lists of one and in any order, truth values as texts."""
    match statement:
        case dict():
            return str(sorted((name, _canonical(value)) for name, value in statement.items()))
        case list():
            return _canonical(statement[0]) if len(statement) == 1 else str(sorted(map(_canonical, statement)))
        case bool():
            return str(statement).lower()
    return str(statement)


def _example(arn: str) -> str:
    return arn.replace("/stream/*", "/stream/2026-01-01T00:00:00.000")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _check_plain_http(run: Run, step: Step) -> None:
    claim = "plain HTTP to the queues is denied"
    if run.deployment.is_local:
        step.only_on_aws(claim, "the local AWS speaks plain HTTP")
        return
    address = run.client("sqs").meta.endpoint_url.replace("https://", "http://")
    client = run.deployment.new_client("sqs", endpoint_url=address)
    try:
        client.get_queue_attributes(QueueUrl=run.deployment["TransactionsQueueUrl"], AttributeNames=["QueueArn"])
    except ClientError as error:
        code = error.response["Error"]["Code"]
        step.check(claim, *([] if "AccessDenied" in code else [f"expected AccessDenied, got {code}"]))
    except BotoCoreError:
        step.check(claim)  # The endpoint takes no plain HTTP at all.
    else:
        step.check(claim, "TransactionsQueue: expected a refusal of plain HTTP, got an answer")
