"""Rules that template.yaml must follow."""

import json
import math
import re
from datetime import timedelta
from statistics import fmean
from typing import Any

import pytest

from conditional_writes.core.client import SLOWEST_CALL_SECONDS
from conditional_writes.locks import CALL_SECONDS, Locks
from ledger.core.decoding import SHARD
from ledger.core.outcome_events import REFUSED, SOURCE
from ledger.core.profile_messages import ALLOWANCE
from ledger.nightly import CHECKPOINTS_SECONDS, LONGEST_ALONE_SECONDS, STEP_SECONDS
from ledger.profile_writer import REMOVALS_REMEMBERED
from ledger.republishing import PUBLISHING_SECONDS
from ledger.tables import JOURNAL_INDEX
from tests.support import template
from tests.support.template import FOLDERS, FUNCTIONS, PROJECT, TEMPLATE, deployed, event_sources, granted, resources
from tools import restore
from tools.local_aws.functions import Context
from tools.template import statements
from workers.attempts import MAXIMUM_BEGUN
from workers.batches import LAST_SECONDS
from workers.invocation import RESERVED_SECONDS, SETTLING_SECONDS
from workers.queue_messages import FIRST_SUSPECT_DELIVERY
from workers.redelivery import DELAYS_SECONDS, growing_delay_seconds
from workers.scheduled_jobs import LONGEST_DELAY, UNRESOLVED, lease_seconds_of

QUEUES = resources("AWS::SQS::Queue")
TABLES = resources("AWS::DynamoDB::Table")
COMMIT_SECONDS = 0.02
"""Of a message that is alone with its account: eight times what `make bench` measures, for a slow day of AWS's."""
ALARMS = resources("AWS::CloudWatch::Alarm")
STREAM_KEEPS_SECONDS = 24 * 3600
PLACES_IN_FLIGHT = 120_000
"""Of a standard queue. SQS delivers nothing more when all are taken."""
STATES = {"reconcile_accounts": "ReconcileState", "expire_holds": "ExpireHoldsState"}
PRODUCERS = "arn:aws:iam::1:role/till,arn:aws:iam::1:role/branches/*"
RESTORED = {"RestoredTables": "teller-1", "RestoredJournalStreamLabel": "2026-11-22T18:00:00.000"}
KEY = "arn:aws:kms:eu-west-1:1:key/k"
VAULT = "arn:aws:backup:eu-west-1:1:backup-vault:copies"


def named(value: dict[str, Any]) -> str:
    """The logical id in a reference to an ARN."""
    return str(value["GetAtt"]).removesuffix(".Arn")


ROLES = {folder: named(FUNCTIONS[name]["Role"]) for folder, name in FOLDERS.items()}
SCHEDULES = {named(one["Target"]["Arn"]): one for one in resources("AWS::Scheduler::Schedule").values()}
"""The schedules by the queues to which they send."""
type Queued = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""A function, its event source, and the queue that is the source."""
QUEUED: dict[str, Queued] = {
    named(source["Queue"]): (FUNCTIONS[name], source, QUEUES[named(source["Queue"])])
    for name in FUNCTIONS
    for source in event_sources(name, "SQS")
}
JOBS = {name: queued for name, queued in QUEUED.items() if name in SCHEDULES}
SOURCES = {name: queued for name, queued in QUEUED.items() if name not in JOBS}
each_job = pytest.mark.parametrize("queued", JOBS.values(), ids=JOBS)
each_queue = pytest.mark.parametrize("queued", SOURCES.values(), ids=SOURCES)
STREAMS = {name: (FUNCTIONS[name], source) for name in FUNCTIONS for source in event_sources(name, "DynamoDB")}


def test_every_folder_of_functions_is_a_function_of_the_template() -> None:
    assert FOLDERS.keys() == {path.parent.name for path in (PROJECT / "functions").glob("*/app.py")}


def test_a_function_has_every_layer_in_the_order_of_imports() -> None:
    layers = resources("AWS::Serverless::LayerVersion")
    assert TEMPLATE["Globals"]["Function"]["Layers"] == [{"Ref": name} for name in layers]
    makefiles = (PROJECT / "layers").glob("*/Makefile")
    assert {layer["ContentUri"] for layer in layers.values()} == {f"layers/{path.parent.name}" for path in makefiles}
    assert not [name for name, function in FUNCTIONS.items() if "Layers" in function]


def seconds(value: Any) -> int:
    """A property's value, or the maximum of its parameter."""
    return int(TEMPLATE["Parameters"][value["Ref"]]["MaxValue"] if isinstance(value, dict) else value)


def timeout(function: dict[str, Any]) -> int:
    return int(function.get("Timeout", TEMPLATE["Globals"]["Function"]["Timeout"]))


@pytest.mark.parametrize("queued", QUEUED.values(), ids=QUEUED)
def test_a_batch_answers_for_each_message_which_stays_invisible_for_six_timeouts_and_a_window(queued: Queued) -> None:
    function, source, queue = queued
    window = seconds(source.get("MaximumBatchingWindowInSeconds", 0))
    assert queue["VisibilityTimeout"] >= 6 * timeout(function) + window
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"], "a batch answers for each of its messages"


def test_the_time_a_function_keeps_for_its_last_request_is_less_than_it_has() -> None:
    assert SLOWEST_CALL_SECONDS < RESERVED_SECONDS < min(map(timeout, FUNCTIONS.values()))


@each_queue
def test_the_largest_batch_fits_the_time_that_a_function_has_for_its_work(queued: Queued) -> None:
    function, source, _ = queued
    work_seconds = timeout(function) - RESERVED_SECONDS - SETTLING_SECONDS
    assert work_seconds == 33  # as the template says
    assert seconds(source["BatchSize"]) * COMMIT_SECONDS < work_seconds


def equals(parameter: str, text: str) -> dict[str, Any]:
    return {"Equals": [{"Ref": parameter}, text]}


def given(parameter: str) -> dict[str, Any]:
    return {"Not": [equals(parameter, "")]}


SIZES = [str(size) for size in range(1, 11)]
RULES = {
    "LargeBatchNeedsWindow": (equals("BatchWindowSeconds", "0"), {"Contains": [SIZES, {"Ref": "BatchSize"}]}),
    "RestoredTablesNeedTheirStream": (given("RestoredTables"), given("RestoredJournalStreamLabel")),
    "ProductionNamesItsSenders": (equals("Stage", "prod"), given("ProducerRoleArns"), given("AdministratorRoleArns")),
    "DoubleEntryNamesWhoGetsInterest": (
        equals("DoubleEntry", "on"),
        {"Or": [given("InterestAccountId"), equals("InterestState", "DISABLED")]},
    ),
}


@pytest.mark.parametrize("name", ["InterestAccountId", "ImportsAccountId"])
def test_a_parameter_takes_an_accounts_id_or_one_of_each_currency(name: str) -> None:
    """Else the first charges of interest would be dead letters, at the end of a month."""
    parameter = TEMPLATE["Parameters"][name]
    taken = ["", "i", "bank interest", "interest-{currency}", "{currency}", "Zinsen für {currency} ✈"]
    refused = [" ", "interest ", " interest", "interest\n", "interest-{Currency}", "interest-{currency", "{}"]
    matches = re.compile(parameter["AllowedPattern"]).fullmatch
    assert [each for each in (*taken, *refused) if matches(each)] == taken
    assert parameter["MaxLength"] == 128


@pytest.mark.parametrize("name", TEMPLATE["Rules"])
def test_a_rule_refuses_parameters_that_do_not_go_together_before_the_deployment(name: str) -> None:
    rule = TEMPLATE["Rules"][name]
    assert (rule["RuleCondition"], *(each["Assert"] for each in rule["Assertions"])) == RULES[name]
    assert all(each["AssertDescription"].endswith(".") for each in rule["Assertions"])


@each_queue
def test_sqs_gives_no_message_up_that_is_returned_to_it_and_deletes_none_that_was_never_judged(queued: Queued) -> None:
    function, _, queue = queued
    variables = function["Environment"]["Variables"]
    retention, longest = int(variables["RETENTION_SECONDS"]), int(variables["LONGEST_REDELIVERY_SECONDS"])
    assert retention == queue["MessageRetentionPeriod"]
    shortest = math.ceil(longest * 19 / 20)
    returned = len(DELAYS_SECONDS) + 1 + (retention - LAST_SECONDS) / shortest
    never_judged = retention / queue["VisibilityTimeout"]
    assert returned < queue["RedrivePolicy"]["maxReceiveCount"] < never_judged


def test_a_transaction_waits_until_its_accounts_opening_has_come_through_and_for_some_six_hours() -> None:
    """Within an hour a killer is found out that the opening shares a batch with, or the opening's own delay is over."""
    waits = TEMPLATE["Parameters"]["MaximumWaits"]
    for least, expected in ((waits["MinValue"], 3600), (waits["Default"], 6 * 3600)):
        mean = [fmean(growing_delay_seconds(wait, 900) for _ in range(1000)) for wait in range(1, least)]
        assert sum(mean) > expected * 19 / 20
    for function, _, _ in SOURCES.values():
        variables = function["Environment"]["Variables"]
        assert (variables["MAXIMUM_WAITS"], variables["LONGEST_REDELIVERY_SECONDS"]) == ({"Ref": "MaximumWaits"}, "900")


@each_queue
def test_a_message_that_kills_its_function_is_dead_within_an_hour(queued: Queued) -> None:
    function, _, queue = queued
    hidden_seconds = timeout(function) + 60
    assert (FIRST_SUSPECT_DELIVERY - 1) * queue["VisibilityTimeout"] + MAXIMUM_BEGUN * hidden_seconds < 3600


@each_queue
def test_a_dead_letter_goes_where_its_queue_does_stays_a_week_or_two_and_fits_with_its_reason(queued: Queued) -> None:
    function, source, queue = queued
    prefix = "ADMINISTRATION_" if queue is QUEUES["AdministrationQueue"] else ""
    variables = function["Environment"]["Variables"]
    assert variables[f"{prefix}QUEUE_URL"] == {"Ref": named(source["Queue"])}
    own = variables[f"{prefix}DEAD_LETTER_QUEUE_URL"]["Ref"]
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"GetAtt": f"{own}.Arn"}
    assert QUEUES[own]["MessageRetentionPeriod"] == 14 * 24 * 3600
    # A message that SQS moves keeps its age.
    assert queue["MessageRetentionPeriod"] <= QUEUES[own]["MessageRetentionPeriod"] / 2
    assert QUEUES[own]["MaximumMessageSize"] > queue["MaximumMessageSize"]


def test_a_removal_is_remembered_for_longer_than_a_message_is_on_its_way() -> None:
    _, _, alive = SOURCES["ProfilesQueue"]
    dead = QUEUES[named(alive["RedrivePolicy"]["deadLetterTargetArn"])]
    on_its_way = 2 * alive["MessageRetentionPeriod"] + dead["MessageRetentionPeriod"]  # it is redriven once
    assert timedelta(seconds=on_its_way) + ALLOWANCE < REMOVALS_REMEMBERED


def alarms(metric_name: str, **parameters: str) -> list[dict[str, Any]]:
    every = resources("AWS::CloudWatch::Alarm", **parameters).values()
    return [alarm for alarm in every if alarm.get("MetricName") == metric_name]


def test_an_alarm_counts_the_messages_that_are_in_each_dead_letter_queue() -> None:
    redriven = [queue["RedrivePolicy"] for queue in QUEUES.values() if "RedrivePolicy" in queue]
    dead = {policy["deadLetterTargetArn"]["GetAtt"] for policy in redriven}
    dead |= {schedule["Target"]["DeadLetterConfig"]["Arn"]["GetAtt"] for schedule in SCHEDULES.values()}
    dead |= {source["DestinationConfig"]["OnFailure"]["Destination"]["GetAtt"] for _, source in STREAMS.values()}
    [bus] = resources("AWS::Events::EventBus").values()
    dead.add(bus["DeadLetterConfig"]["Arn"]["GetAtt"])
    watched = {alarm["Dimensions"][0]["Value"]["GetAtt"] for alarm in alarms("ApproximateNumberOfMessagesVisible")}
    assert watched == {arn.replace(".Arn", ".QueueName") for arn in dead}


def test_the_journals_stream_brings_each_change_of_an_entry_with_both_images_and_from_its_start() -> None:
    assert STREAMS.keys() == {"PublishOutcomesFunction"}
    _, source = STREAMS["PublishOutcomesFunction"]
    assert source["Stream"] == {"GetAtt": "JournalTable.StreamArn"}
    assert {name for name, table in TABLES.items() if "StreamSpecification" in table} == {"JournalTable"}
    assert TABLES["JournalTable"]["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert "FilterCriteria" not in source, "an entry that was overwritten or deleted would pass in silence"
    assert source["StartingPosition"] == "TRIM_HORIZON", "else the first entries of a deployment are missed"


def test_an_outage_of_hours_loses_no_outcome_and_an_entry_that_is_given_up_is_known() -> None:
    function, source = STREAMS["PublishOutcomesFunction"]
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["BisectBatchOnFunctionError"] is True, "an entry that kills the function is given up alone"
    work_seconds = timeout(function) - RESERVED_SECONDS - SLOWEST_CALL_SECONDS  # as OutcomePublisher has it
    assert source["MaximumRetryAttempts"] * work_seconds > 2 * 3600
    assert timeout(FUNCTIONS["RepublishOutcomesFunction"]) == timeout(function)
    assert work_seconds - PUBLISHING_SECONDS > 20, "of an invocation that publishes again"
    assert 6 * 3600 <= source["MaximumRecordAgeInSeconds"] <= STREAM_KEEPS_SECONDS / 2
    failed = source["DestinationConfig"]["OnFailure"]
    own = function["Environment"]["Variables"]["DEAD_LETTER_QUEUE_URL"]["Ref"]
    assert failed == {"Type": "SQS", "Destination": {"GetAtt": f"{own}.Arn"}}
    assert QUEUES[own]["MessageRetentionPeriod"] == 14 * 24 * 3600


def test_an_alarm_rings_long_before_an_outcome_that_waits_is_given_up() -> None:
    [alarm] = alarms("IteratorAge")
    assert alarm == ALARMS["OutcomesLateAlarm"]
    assert (alarm["Namespace"], alarm["Statistic"]) == ("AWS/Lambda", "Maximum")
    assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": {"Ref": "PublishOutcomesFunction"}}]
    _, source = STREAMS["PublishOutcomesFunction"]
    rings_after_seconds = alarm["Threshold"] / 1000 + alarm["Period"] * alarm["EvaluationPeriods"]
    assert rings_after_seconds < source["MaximumRecordAgeInSeconds"] / 12


def test_the_functions_that_publish_do_so_on_the_stacks_own_bus_and_an_archive_of_it_is_an_option() -> None:
    [name] = resources("AWS::Events::EventBus")
    publishing = {
        folder: FUNCTIONS[FOLDERS[folder]]["Environment"]["Variables"].get("OUTCOMES_BUS")
        for folder, role in ROLES.items()
        if ("events:PutEvents", name) in granted(role)
    }
    assert publishing.keys() == {"process_transactions", "publish_outcomes", "republish_outcomes"}
    assert list(publishing.values()) == [{"Ref": name}] * 3
    assert TEMPLATE["Outputs"]["OutcomesBusName"] == {"Value": {"Ref": name}}
    [archive] = resources("AWS::Events::Archive", OutcomesArchiveDays="30").values()
    assert archive["SourceArn"] == {"GetAtt": f"{name}.Arn"}
    assert archive["RetentionDays"] == {"Ref": "OutcomesArchiveDays"}
    assert not resources("AWS::Events::Archive")


def test_an_alarm_rings_when_a_message_is_not_delivered_or_half_of_the_places_in_flight_are_taken() -> None:
    queues = {source["Queue"]["GetAtt"].replace(".Arn", ".QueueName") for _, source, _ in SOURCES.values()}
    for metric in ("ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesNotVisible"):
        assert {alarm["Dimensions"][0]["Value"]["GetAtt"] for alarm in alarms(metric)} == queues
    in_flight = {(alarm["Statistic"], alarm["Threshold"]) for alarm in alarms("ApproximateNumberOfMessagesNotVisible")}
    assert in_flight == {("Maximum", PLACES_IN_FLIGHT / 2)}


def test_an_alarm_rings_when_a_function_fails_of_which_no_caller_is_told() -> None:
    functions = {"ProcessTransactions", "PostTransactions", "UpsertProfiles", "PublishOutcomes", "ReadAccounts"}
    watching = {alarm["Dimensions"][0]["Value"]["Ref"]: alarm for alarm in alarms("Errors")}
    assert watching.keys() == {f"{name}Function" for name in functions}
    for alarm in watching.values():
        assert (alarm["Namespace"], alarm["Statistic"], alarm["Threshold"]) == ("AWS/Lambda", "Sum", 0)


@pytest.mark.parametrize(("job", "state"), STATES.items())
def test_an_alarm_rings_when_a_job_was_not_done_and_after_an_outage_of_six_hours_it_was(job: str, state: str) -> None:
    assert TEMPLATE["Parameters"][state]["Default"] == "ENABLED"
    own = FOLDERS[job].removesuffix("Function")
    name, queue = f"{own}UnfinishedAlarm", f"{own}Queue"
    assert SCHEDULES[queue]["State"] == {"Ref": state}
    alarm = resources("AWS::CloudWatch::Alarm", **{state: "ENABLED"})[name]
    [filled, done] = alarm["Metrics"]
    assert filled["Expression"] == "FILL(done, 0)", "CloudWatch takes older values in place of missing ones"
    assert (done["Id"], done["ReturnData"], done["MetricStat"]["Stat"]) == ("done", False, "Sum")
    metric = done["MetricStat"]["Metric"]
    assert (metric["MetricName"], metric["Dimensions"]) == ("Done", [{"Name": "service", "Value": job}])
    assert (alarm["TreatMissingData"], alarm["ComparisonOperator"]) == ("breaching", "LessThanThreshold")
    assert alarm["Threshold"] == 1
    # An outage of six hours at a job's time calls nobody: the run is done when its message comes again.
    quiet = (24 + 6) * 3600 + int(QUEUES[queue]["VisibilityTimeout"])
    assert quiet < done["MetricStat"]["Period"] * alarm["EvaluationPeriods"] <= quiet + 2 * 3600
    assert done["MetricStat"]["Period"] <= 3600
    assert name not in resources("AWS::CloudWatch::Alarm", **{state: "DISABLED"})


NOW = {
    *(name.replace("Queue", f"{kind}Alarm") for name in SOURCES for kind in ("Backlog", "InFlight")),
    *("TransactionsReturnedAlarm", "ProfilesReturnedAlarm"),
    *("MismatchesAlarm", "EntriesChangedAlarm", "OutcomesLateAlarm"),
}
"""The alarms at which somebody must act now: money doesn't move, is about to stop, or books were changed."""


def test_an_alarm_notifies_one_of_two_topics_and_only_undone_jobs_are_known_by_missing_data() -> None:
    topics = {"AlarmTopicArn": "arn:aws:sns:r:1:now", "WorkingHoursAlarmTopicArn": "arn:aws:sns:r:1:hours"}
    notifying = {name: resources("AWS::CloudWatch::Alarm", **{name: arn}) for name, arn in topics.items()}
    assert ALARMS.keys() > NOW
    for name, alarm in ALARMS.items():
        own, other = topics if name in NOW else reversed(topics)
        assert notifying[own][name] == alarm | {"AlarmActions": [{"Ref": own}]}
        assert notifying[other][name] == alarm
        assert alarm["TreatMissingData"] == ("breaching" if name.endswith("UnfinishedAlarm") else "notBreaching")


def test_the_dashboard_shows_both_queues_their_dead_letters_and_all_functions() -> None:
    shown: dict[str, set[str]] = {}
    for namespace, _, dimensions in template.dashboard_metrics():
        shown.setdefault(namespace, set()).update(value for _, value in dimensions)
    teller = "Teller/${AWS::StackName}"
    assert shown.keys() == {"AWS/SQS", "AWS/Lambda", "AWS/DynamoDB", teller}
    assert shown["AWS/DynamoDB"] == {JOURNAL_INDEX, *(f"${{{name.removesuffix('Table')}}}" for name in TABLES)}
    assert shown["AWS/SQS"] == {f"${{{name}.QueueName}}" for name in QUEUES.keys() - SCHEDULES.keys()}
    assert shown["AWS/Lambda"] == {f"${{{name}}}" for name in FUNCTIONS}
    assert shown[teller] == FOLDERS.keys()
    namespace = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]["POWERTOOLS_METRICS_NAMESPACE"]
    assert namespace == {"Sub": teller}


@each_job
def test_a_schedule_sends_its_job_the_scheduled_time_and_loses_none(queued: Queued) -> None:
    function, source, queue = queued
    schedule = SCHEDULES[named(source["Queue"])]
    target, job = schedule["Target"], function["CodeUri"].removeprefix("functions/")
    assert json.loads(target["Input"]) == {"job": job, "scheduled_time": UNRESOLVED}
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert timedelta(seconds=target["RetryPolicy"]["MaximumEventAgeInSeconds"]) < LONGEST_DELAY
    assert {schedule["State"]["Ref"], schedule["ScheduleExpression"]["Ref"]} <= TEMPLATE["Parameters"].keys()
    own = function["Environment"]["Variables"]["DEAD_LETTER_QUEUE_URL"]["Ref"]
    dead = target["DeadLetterConfig"]["Arn"], queue["RedrivePolicy"]["deadLetterTargetArn"]
    assert dead == ({"GetAtt": f"{own}.Arn"},) * 2


@each_job
def test_a_jobs_message_comes_again_for_a_week_when_the_lease_of_a_killed_run_is_over_and_can_be_read_for_as_long(
    queued: Queued,
) -> None:
    function, source, queue = queued
    assert source["BatchSize"] == 1
    lease = lease_seconds_of(Context(timeout_seconds=timeout(function)))
    assert lease + Locks.__init__.__kwdefaults__["clock_skew_seconds"] < queue["VisibilityTimeout"]
    week, tried = 7 * 24 * 3600, queue["RedrivePolicy"]["maxReceiveCount"] * queue["VisibilityTimeout"]
    assert week < tried < queue["MessageRetentionPeriod"]
    # A message that SQS moves keeps its age.
    dead = QUEUES[named(queue["RedrivePolicy"]["deadLetterTargetArn"])]
    assert dead["MessageRetentionPeriod"] - tried > 6 * 24 * 3600


def test_a_job_has_time_for_the_longest_step_that_begins_when_it_does() -> None:
    """Of two steps: one that notes which account is checked alone, and that check with its checkpoint."""
    alone = LONGEST_ALONE_SECONDS + CALL_SECONDS + SLOWEST_CALL_SECONDS
    checkpoints = CHECKPOINTS_SECONDS + SLOWEST_CALL_SECONDS
    in_parallel = STEP_SECONDS + SLOWEST_CALL_SECONDS + CALL_SECONDS + SLOWEST_CALL_SECONDS
    assert max(alone, checkpoints + in_parallel + checkpoints) < timeout(FUNCTIONS["ReconcileAccountsFunction"])
    assert timeout(FUNCTIONS["ReconcileAccountsFunction"]) - RESERVED_SECONDS > LONGEST_ALONE_SECONDS


DAY, SERVICE = 24 * 3600, ["Sum", "GreaterThanThreshold", "notBreaching"]
OF_SERVICES = {
    "an entry was changed, within a minute": ("EntriesChangedAlarm", "publish_outcomes", "EntriesChanged", 60, 0),
    "a mismatch, until the next night": ("MismatchesAlarm", "reconcile_accounts", "Mismatches", DAY, 0),
    "a skipped account, until then, too": ("SkippedAccountsAlarm", "reconcile_accounts", "AccountsSkipped", DAY, 0),
}


@pytest.mark.parametrize(("name", "service", "metric", "period", "threshold"), OF_SERVICES.values(), ids=OF_SERVICES)
def test_an_alarm_rings_for(name: str, service: str, metric: str, period: int, threshold: int) -> None:
    [alarm] = alarms(metric)
    assert alarm == ALARMS[name]
    assert alarm["Dimensions"] == [{"Name": "service", "Value": service}]
    assert [alarm[each] for each in ("Statistic", "ComparisonOperator", "TreatMissingData")] == SERVICE
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["Threshold"]) == (period, 1, threshold)


def test_an_alarm_rings_when_a_message_comes_again_for_an_hour() -> None:
    rings = [(alarm["Dimensions"][0]["Value"], alarm["Threshold"], alarm["Period"]) for alarm in alarms("ReturnedAge")]
    services = {function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] for function, _, _ in SOURCES.values()}
    assert {*rings} == {(service, 3_600_000, 900) for service in services}


@pytest.mark.parametrize("name", QUEUES)
def test_queues_are_encrypted_and_take_tls_only(name: str) -> None:
    """SQS takes one resource in a statement. "*" is the queue itself, if several have the policy."""
    assert QUEUES[name]["SqsManagedSseEnabled"] is True
    statement, *others = policy_of(name, ProducerRoleArns=PRODUCERS)["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "sqs:*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": False}}
    assert {each["Resource"] for each in (statement, *others)} == {"*"}


def policy_of(queue: str, **parameters: str) -> dict[str, Any]:
    policies = resources("AWS::SQS::QueuePolicy", **parameters).values()
    [policy] = [policy for policy in policies if {"Ref": queue} in policy["Queues"]]
    return dict(policy)


@pytest.mark.parametrize("name", SOURCES)
def test_only_the_named_roles_and_the_functions_that_send_may_send_if_roles_are_given(name: str) -> None:
    parameter = "AdministratorRoleArns" if name == "AdministrationQueue" else "ProducerRoleArns"
    policy = policy_of(name, **{parameter: PRODUCERS})
    _, statement = policy["PolicyDocument"]["Statement"]
    dead = QUEUES[name]["RedrivePolicy"]["deadLetterTargetArn"]
    assert policy == policy_of(named(dead), **{parameter: PRODUCERS})
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "sqs:SendMessage")
    # ArnNotLike holds, too, if there is no such key: for a service of AWS's.
    separator, joined = statement["Condition"]["ArnNotLike"]["aws:PrincipalArn"]["Split"]
    [producers, *roles] = joined["Join"][1]
    assert producers == {"Ref": parameter}
    assert joined["Join"][0] == separator == ","
    grants = [(role, action, target) for role in ROLES.values() for action, target in granted(role)]
    send = [each for each in grants if each[1].startswith("sqs:SendMessage")]
    senders = {role for role, _, target in send if target in {name, named(dead)}}
    assert senders
    assert {named(role) for role in roles} >= senders
    assert [each["Sid"] for each in policy_of(name)["PolicyDocument"]["Statement"]] == ["TlsOnly"]


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_on_demand_encrypted_and_recoverable(name: str) -> None:
    table = TABLES[name]
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["SSESpecification"] == {"SSEEnabled": False}  # DynamoDB's own key: that of KMS costs its requests.
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["DeletionProtectionEnabled"] is False
    assert resources("AWS::DynamoDB::Table", Stage="prod")[name]["DeletionProtectionEnabled"] is True


def test_of_restored_tables_everything_uses_these_and_the_stacks_own_stay_as_they_are() -> None:
    for name in TABLES:
        restored = {"Sub": f"${{RestoredTables}}-{name.removesuffix('Table')}"}
        assert TEMPLATE["Outputs"][f"{name}Name"] == {"Value": {"If": ["IsRestored", restored, {"Ref": name}]}}
    own, with_restored = deployed(), deployed(**RESTORED)
    assert with_restored.keys() == own.keys()
    assert {name: with_restored[name] for name in TABLES} == {name: own[name] for name in TABLES}
    others = json.dumps([with_restored[name] for name in with_restored.keys() - TABLES.keys()])
    assert not [name for name in TABLES if f'"{name}"' in others or f"{name}." in others]
    for name in own.keys() - TABLES.keys():
        assert as_the_own(json.dumps(with_restored[name])) == json.dumps(own[name])


@pytest.mark.parametrize("prefix", ["t3", "", "teller prod", "p" * 201])
def test_a_prefix_that_the_stack_would_not_take_is_refused_before_a_table_is_restored(
    prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(restore, "Deployment", lambda *_: None)
    asked = ["tables", "--stack", "teller-dev", "--to", "2026-11-21T20:45:00Z", "--prefix", prefix]
    assert restore.main(asked) == 2
    assert capsys.readouterr().err.startswith("--prefix: expected what the parameter RestoredTables takes")


def as_the_own(text: str) -> str:
    """A resource's text with the restored tables, spelled as with the stack's own."""
    table = r"(Accounts|Journal|Reversals|Refusals|Profiles|Locks|Attempts|Checkpoints)"
    arn = re.escape("arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${RestoredTables}-")
    label = re.escape("${RestoredJournalStreamLabel}")
    text = re.sub(rf'{{"Sub": "{arn}Journal/stream/{label}"}}', '{"GetAtt": "JournalTable.StreamArn"}', text)
    text = re.sub(rf'{{"Sub": "{arn}{table}(/[^"]+)"}}', r'{"Sub": "${\1Table.Arn}\2"}', text)
    text = re.sub(rf'{{"Sub": "{arn}{table}"}}', r'{"GetAtt": "\1Table.Arn"}', text)
    text = re.sub(rf'{{"Join": \["-", \[{{"Ref": "RestoredTables"}}, "{table}"\]\]}}', r'{"Ref": "\1Table"}', text)
    return re.sub(rf'{{"Sub": "\${{RestoredTables}}-{table}"}}', r'{"Ref": "\1Table"}', text)


def test_the_reconciliation_puts_roots_into_a_bucket_that_is_named_and_can_delete_none() -> None:
    role = ROLES["reconcile_accounts"]
    bucket = "arn:${AWS::Partition}:s3:::${LedgerRootsBucket}"
    more = {(f"s3:{action}", str({"Sub": f"{bucket}/roots/*"})) for action in ("PutObject", "GetObjectVersion")}
    more |= {("s3:ListBucketVersions", str({"Sub": bucket}))}
    assert granted(role, LedgerRootsBucket="roots-of-the-ledger") - granted(role) == more
    variables = FUNCTIONS["ReconcileAccountsFunction"]["Environment"]["Variables"]
    assert variables["LEDGER_ROOTS_BUCKET"] == {"Ref": "LedgerRootsBucket"}


@pytest.mark.parametrize("role", resources("AWS::IAM::Role"))
def test_a_role_may_use_the_key_if_there_is_one_and_only_by_dynamodb_and_sqs(role: str) -> None:
    of_a_function = "kms:Decrypt kms:DescribeKey kms:Encrypt kms:GenerateDataKey* kms:ReEncrypt*"
    actions = of_a_function if role in ROLES.values() else "kms:Decrypt kms:GenerateDataKey"
    with_key = granted(role, KmsKeyArn=KEY)
    assert with_key - granted(role) == {(action, "KmsKeyArn") for action in actions.split()}
    assert not granted(role) - with_key
    services = template.conditions(role, KmsKeyArn=KEY)["Key"]["StringEquals"]["kms:ViaService"]
    by = [service["Sub"] for service in (services if isinstance(services, list) else [services])]
    dynamodb, sqs = "dynamodb.${AWS::Region}.amazonaws.com", "sqs.${AWS::Region}.amazonaws.com"
    assert by == ([dynamodb, sqs] if role in ROLES.values() else [sqs])


def test_a_boundary_bounds_every_role() -> None:
    boundary = "arn:aws:iam::1:policy/boundary"
    bounded = resources("AWS::IAM::Role", PermissionsBoundaryArn=boundary, BackupCopyVaultArn=VAULT)
    assert "BackupRole" in bounded
    assert {str(role["PermissionsBoundary"]) for role in bounded.values()} == {"{'Ref': 'PermissionsBoundaryArn'}"}
    assert not [role for role in resources("AWS::IAM::Role").values() if "PermissionsBoundary" in role]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_a_role_and_a_log_group_of_its_own_and_signs_logs_and_metrics_with_its_name(name: str) -> None:
    """Metrics of several functions have the same names. Their dimension `service` distinguishes them."""
    function, own = FUNCTIONS[name], name.removesuffix("Function")
    assert function["Role"] == {"GetAtt": f"{own}Role.Arn"}
    assert function["LoggingConfig"]["LogGroup"] == {"Ref": f"{own}LogGroup"}
    assert "RetentionInDays" in resources("AWS::Logs::LogGroup")[f"{own}LogGroup"]
    service = function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
    assert function["CodeUri"] == f"functions/{service}"


OF_QUEUE = "sqs:ReceiveMessage sqs:DeleteMessage* sqs:GetQueueAttributes sqs:ChangeMessageVisibility*"
OF_ATTEMPTS = "dynamodb:BatchGetItem dynamodb:PutItem"
OF_JOBS_RECORDS = "dynamodb:UpdateItem dynamodb:PutItem"
OF_POSTING = {
    "AccountsTable": "dynamodb:BatchGetItem dynamodb:GetItem dynamodb:PutItem dynamodb:UpdateItem",
    "JournalTable": "dynamodb:BatchGetItem dynamodb:PutItem",
    "ReversalsTable": "dynamodb:BatchGetItem dynamodb:ConditionCheckItem dynamodb:PutItem dynamodb:UpdateItem",
    "LocksTable": "dynamodb:GetItem dynamodb:UpdateItem",
}
OF_SENDING_JOB = {
    "AccountsTable": "dynamodb:Scan",
    "LocksTable": OF_JOBS_RECORDS,
    "AdministrationQueue": "sqs:SendMessage*",
    "JobsDeadLetterQueue": "sqs:SendMessage*",
}
BY_VERSION = str({"Sub": "${JournalTable.Arn}/index/by_version"})
STREAM = str({"Sub": "${JournalTable.Arn}/stream/*"})
"""A stream's name is the time at which it began. A table has one at a time."""

NEEDS = {
    "process_transactions": OF_POSTING
    | {
        "TransactionsQueue": OF_QUEUE,
        "AdministrationQueue": OF_QUEUE,
        "AttemptsTable": OF_ATTEMPTS,
        "RefusalsTable": "dynamodb:BatchWriteItem",
        "TransactionsDeadLetterQueue": "sqs:SendMessage*",
        "AdministrationDeadLetterQueue": "sqs:SendMessage*",
        "OutcomesBus": "events:PutEvents",
    },
    "post_transactions": OF_POSTING,
    "upsert_profiles": {
        # No reads and no puts: updates keep other writers' attributes, and a refused update returns the item.
        "ProfilesTable": "dynamodb:UpdateItem",
        "ProfilesQueue": OF_QUEUE,
        "AttemptsTable": OF_ATTEMPTS,
        "ProfilesDeadLetterQueue": "sqs:SendMessage*",
    },
    "reconcile_accounts": {
        "AccountsTable": "dynamodb:Scan dynamodb:GetItem dynamodb:BatchGetItem",
        "JournalTable": "dynamodb:Query dynamodb:BatchGetItem",
        "ReversalsTable": "dynamodb:Query dynamodb:BatchGetItem",
        BY_VERSION: "dynamodb:Query",
        "CheckpointsTable": "dynamodb:BatchGetItem dynamodb:BatchWriteItem dynamodb:Query",
        "LocksTable": f"{OF_JOBS_RECORDS} dynamodb:GetItem",
        "JobsDeadLetterQueue": "sqs:SendMessage*",
        "ReconcileAccountsQueue": OF_QUEUE,
    },
    "charge_overdraft_interest": OF_SENDING_JOB | {"ChargeOverdraftInterestQueue": OF_QUEUE},
    "expire_holds": OF_SENDING_JOB | {"ExpireHoldsQueue": OF_QUEUE},
    "read_accounts": {
        "AccountsTable": "dynamodb:BatchGetItem dynamodb:GetItem",
        "JournalTable": "dynamodb:BatchGetItem dynamodb:Query",
        "ReversalsTable": "dynamodb:BatchGetItem",
        "RefusalsTable": "dynamodb:GetItem",
        BY_VERSION: "dynamodb:Query",
    },
    "publish_outcomes": {
        STREAM: "dynamodb:DescribeStream dynamodb:GetRecords dynamodb:GetShardIterator dynamodb:ListStreams",
        "OutcomesBus": "events:PutEvents",
        "OutcomesDeadLetterQueue": "sqs:SendMessage*",
    },
    "republish_outcomes": {
        "OutcomesBus": "events:PutEvents",
        "OutcomesDeadLetterQueue": "sqs:SendMessage*",
        "AccountsTable": "dynamodb:GetItem dynamodb:Scan",
        "JournalTable": "dynamodb:Query",
        BY_VERSION: "dynamodb:Query",
    },
}
"""The actions that each function needs on each resource, beside its logs and traces."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_role_grants_what_its_function_needs_and_no_more(folder: str) -> None:
    assert folder in NEEDS, f"functions/{folder} is missing in NEEDS: add the actions that it needs on each resource"
    log_group = FUNCTIONS[FOLDERS[folder]]["LoggingConfig"]["LogGroup"]["Ref"]
    needs = NEEDS[folder] | {
        log_group: "logs:CreateLogStream logs:PutLogEvents",
        "*": "xray:PutTraceSegments xray:PutTelemetryRecords",  # X-Ray has no resources to name.
    }
    needed = {(action, resource) for resource, actions in needs.items() for action in actions.split()}
    too_much, missing = granted(ROLES[folder]) - needed, needed - granted(ROLES[folder])
    assert not too_much, f"{ROLES[folder]} grants more than functions/{folder} needs by NEEDS: {sorted(too_much)}"
    assert not missing, f"{ROLES[folder]} grants less than functions/{folder} needs by NEEDS: {sorted(missing)}"


RESTRICTED = {
    "process_transactions": {"Lines": "line*"},
    "post_transactions": {"Lines": "line*"},
    "reconcile_accounts": {"LocksAndRuns": "reconcile_accounts*"},
    "charge_overdraft_interest": {"LocksAndRuns": "charge_overdraft_interest*"},
    "expire_holds": {"LocksAndRuns": "expire_holds*"},
}
"""The keys of the Locks table that each function may write, by the statement's Sid."""
OF_REFUSALS = {"StringEqualsIfExists": {"events:source": SOURCE, "events:detail-type": REFUSED}}
IN_TRANSACTIONS = {"ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}}
"""For any value: a request that is alone has no such key, and is denied."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_function_writes_its_own_records_of_locks_alone_and_the_books_in_transactions(folder: str) -> None:
    """DynamoDB judges PutItem and UpdateItem by a leading key in a transaction, too. ministack ignores that key."""
    prefixes = RESTRICTED.get(folder, {}).items()
    locks = {sid: {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [prefix]}} for sid, prefix in prefixes}
    posting = dict.fromkeys(("Entries", "CountsOfReversals"), IN_TRANSACTIONS)
    more = {
        "post_transactions": posting
        | {"Shards": IN_TRANSACTIONS | {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{SHARD}*"]}}},
        "process_transactions": posting | {"Openings": IN_TRANSACTIONS, "EventsOfRefusals": OF_REFUSALS},
    }
    assert template.conditions(ROLES[folder]) == locks | more.get(folder, {})
    may_write_locks = any(resource == "LocksTable" for _, resource in granted(ROLES[folder]))
    assert may_write_locks == bool(locks)


def test_a_journal_entry_is_put_in_a_transaction_and_in_no_other_way() -> None:
    writes = {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"}
    of_the_journal = [
        (folder, statement["Action"], statement.get("Condition"))
        for folder, role in ROLES.items()
        for statement in statements(role)
        if "JournalTable" in str(statement["Resource"]) and any(write in str(statement["Action"]) for write in writes)
    ]
    posting = ("process_transactions", "post_transactions")
    assert of_the_journal == [(folder, "dynamodb:PutItem", IN_TRANSACTIONS) for folder in posting]


def test_the_schedules_role_sends_to_the_jobs_queues_and_their_dead_letter_queue() -> None:
    [role] = {named(schedule["Target"]["RoleArn"]) for schedule in SCHEDULES.values()}
    [dead] = {named(schedule["Target"]["DeadLetterConfig"]["Arn"]) for schedule in SCHEDULES.values()}
    assert granted(role) == {("sqs:SendMessage", queue) for queue in (*SCHEDULES, dead)}
    [trusted] = resources("AWS::IAM::Role")[role]["AssumeRolePolicyDocument"]["Statement"]
    assert trusted["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trusted["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


def test_every_table_is_copied_to_the_given_vault_every_day_by_a_role_that_can_do_no_more() -> None:
    [selection] = resources("AWS::Backup::BackupSelection", BackupCopyVaultArn=VAULT).values()
    assert {named(arn) for arn in selection["BackupSelection"]["Resources"]} == resources("AWS::DynamoDB::Table").keys()
    assert named(selection["BackupSelection"]["IamRoleArn"]) == "BackupRole"
    actions = [f"dynamodb:{name}" for name in ("DescribeTable", "ListTagsOfResource", "StartAwsBackupJob")]
    tables = {(action, table) for action in actions for table in resources("AWS::DynamoDB::Table")}
    actions = ["backup:DescribeBackupVault", "backup:CopyIntoBackupVault"]
    vaults = {(each, vault) for each in actions for vault in ("BackupVault.BackupVaultArn", "BackupCopyVaultArn")}
    without_key = granted("BackupRole", BackupCopyVaultArn=VAULT)
    copies = {(action, arn) for action, arn in without_key if arn.endswith(":recovery-point:*'}")}
    assert {action for action, _ in copies} == {"backup:CopyFromBackupVault", "backup:TagResource"}
    assert without_key == {*tables, *vaults, *copies}
    with_key = granted("BackupRole", BackupCopyVaultArn=VAULT, KmsKeyArn=KEY)
    key = {(f"kms:{action}", "KmsKeyArn") for action in ("Decrypt", "DescribeKey", "GenerateDataKey", "CreateGrant")}
    assert with_key == {*tables, *vaults, *copies, *key}
    [plan] = resources("AWS::Backup::BackupPlan", BackupCopyVaultArn=VAULT).values()
    [rule] = plan["BackupPlan"]["BackupPlanRule"]
    assert rule["ScheduleExpression"] == "cron(0 4 * * ? *)"
    assert [copy["DestinationBackupVaultArn"] for copy in rule["CopyActions"]] == [{"Ref": "BackupCopyVaultArn"}]


def test_without_a_vault_for_the_copies_there_is_nothing_of_aws_backup() -> None:
    assert not [name for name, each in deployed().items() if "Backup" in name or "AWS::Backup" in each["Type"]]


@pytest.mark.parametrize("role", resources("AWS::IAM::Role"))
def test_a_role_names_its_resources_and_its_actions(role: str) -> None:
    grants = granted(role)
    assert grants
    many = {action for action, _ in grants if "*" in action}
    assert many <= {"sqs:SendMessage*", "sqs:ChangeMessageVisibility*", "sqs:DeleteMessage*"}
    assert all(action.startswith("xray:Put") for action, resource in grants if "*" in resource and resource != STREAM)


def test_every_role_is_a_functions_or_the_schedules_and_every_policy_is_of_these_roles() -> None:
    """Otherwise the comparison with NEEDS would leave one out, or SAM would make a role without key and boundary."""
    roles = resources("AWS::IAM::Role")
    of_schedules = {named(schedule["Target"]["RoleArn"]) for schedule in SCHEDULES.values()}
    assert sorted([*ROLES.values(), *of_schedules]) == sorted(roles)
    attached = [policy["Ref"] for role in roles.values() for policy in role.get("ManagedPolicyArns", [])]
    managed = resources("AWS::IAM::ManagedPolicy")
    assert sorted([*attached, "PostTransactionsCallerPolicy"]) == sorted(managed)  # its roles are in other stacks
    assert not [name for name, policy in managed.items() if policy.keys() & {"Roles", "Users", "Groups"}]
    for policy in resources("AWS::IAM::Policy").values():
        assert policy.keys() == {"PolicyName", "Roles", "PolicyDocument"}
        assert {role["Ref"] for role in policy["Roles"]} <= roles.keys()


def test_the_functions_url_takes_signed_requests_alone_and_no_permission_lets_others_in() -> None:
    assert resources("AWS::Lambda::Url") == {}
    [url] = resources("AWS::Lambda::Url", PostTransactionsUrlState="on").values()
    assert url["AuthType"] == "AWS_IAM"
    permissions = resources("AWS::Lambda::Permission", PostTransactionsUrlState="on").values()
    assert all(named(each["FunctionName"]) != "PostTransactionsFunction" for each in permissions)


OUTPUTS = """
TransactionsQueueUrl TransactionsDeadLetterQueueUrl AdministrationQueueUrl AdministrationDeadLetterQueueUrl
ProfilesQueueUrl ProfilesDeadLetterQueueUrl OutcomesBusName
OutcomesDeadLetterQueueUrl JobsDeadLetterQueueUrl BusDeadLetterQueueUrl
"""


def test_the_outputs_that_others_rely_on_are_there() -> None:
    named = [*TABLES, *FUNCTIONS, *resources("AWS::Logs::LogGroup")]
    assert TEMPLATE["Outputs"].keys() >= {*OUTPUTS.split(), *(f"{each}Name" for each in named)}
