"""docs/events.md agrees with the schemas and the code. Its consumer has each outcome once, in order, without gaps."""

import io
import json
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from ledger.core import outcome_events
from ledger.core.republish_requests import RepublishAccount, RepublishAccounts, decode_republish_request
from ledger.core.transaction_types import TRANSACTION_TYPES
from tests.checkers.event_schemas import problems, schema
from tools.local_aws.server import PROJECT

PAGE = (PROJECT / "docs" / "events.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_every_sample_fits_its_schema() -> None:
    samples = list(map(json.loads, blocks("json")))
    assert [problems(sample) for sample in samples] == [[], []]
    assert [sample["detail-type"] for sample in samples] == ["TransactionPosted", "TransactionRefused"]


def test_the_table_of_detail_types_is_what_the_code_publishes() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section("Detail types"), re.MULTILINE))
    types = defaultdict[str, set[str]](set)
    for name, each in TRANSACTION_TYPES.items():
        types[each.posted_event].add(name)
    assert rows.keys() == {*types, outcome_events.REJECTED, outcome_events.REFUSED}
    for detail_type, names in types.items():
        assert set(re.findall(r"`(\w+)`", rows[detail_type])) == names


def test_the_tables_of_fields_have_each_field_of_the_schemas_in_one_row() -> None:
    tables = section("An event").split("| field of `detail` |")[1:]
    for name, table in zip(("outcome", "transaction_refused"), tables, strict=True):
        first_cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        fields = [field for cell in first_cells for field in re.findall(r"`(\w+)`", cell)]
        in_both = {"schema_version", "delivery"} if name == "transaction_refused" else set()
        assert sorted(fields) == sorted(schema(name)["$defs"]["detail"]["properties"].keys() - in_both)


def test_every_request_to_publish_again_is_one() -> None:
    requests = re.findall(r"^\| `(\{.*?)` \|", section("Publishing again"), re.MULTILINE)
    types = [type(decode_republish_request({"republish": json.loads(request)})) for request in requests]
    assert types == [RepublishAccount] * 3 + [RepublishAccounts]


class Bank:
    """Accounts with so many outcomes each, and the functions that a consumer invokes.

    An event that is published again is lost, if `is_lost` says so. An invocation publishes at most two. `left` has the
    requests of the last answer's `next`.
    """

    def __init__(self, versions: dict[str, int], is_lost: Callable[[], bool]) -> None:
        self.versions, self.is_lost = versions, is_lost
        self.published: list[dict[str, Any]] = []
        self.left: list[dict[str, Any]] = []

    def event(self, account_id: str, version: int) -> dict[str, Any]:
        return {"detail": {"account_id": account_id, "account_version": version, "id": f"{account_id}#{version}"}}

    def invoke(self, FunctionName: str, Payload: str) -> dict[str, Any]:  # noqa: N803 (boto3's names)
        answer = getattr(self, FunctionName)(**json.loads(Payload))
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}

    def read_accounts(self, read: str, account_id: str) -> dict[str, Any]:
        assert read == "account"
        return {"account_id": account_id, "version": self.versions[account_id]}

    def republish_outcomes(self, republish: dict[str, Any]) -> dict[str, Any]:
        account_id, first, last = republish["account_id"], republish["from_version"], republish["to_version"]
        assert 1 <= first <= last <= self.versions[account_id]
        through = min(first + 1, last)
        again = [self.event(account_id, version) for version in range(first, through + 1)]
        self.published += (event for event in again if not self.is_lost())
        self.left = [{"republish": republish | {"from_version": through + 1}}] if through < last else []
        return {"published": len(again), "next": self.left}


@given(st.data())
def test_the_pages_consumer_applies_each_outcome_once_in_order_whatever_is_lost(data: st.DataObject) -> None:
    versions = {"a": data.draw(st.integers(0, 9)), "b": data.draw(st.integers(0, 9))}
    losses = data.draw(st.lists(st.booleans(), max_size=8))
    bank = Bank(versions, is_lost=lambda: bool(losses) and losses.pop())
    applied = defaultdict[str, list[int]](list)
    names: dict[str, Any] = {"READ_ACCOUNTS": "read_accounts", "REPUBLISH_OUTCOMES": "republish_outcomes"}
    with mock.patch("boto3.client", return_value=bank):
        exec(blocks("python")[0], names)
    consumer = names["InOrder"](lambda outcome: applied[outcome["account_id"]].append(outcome["account_version"]))
    events = [bank.event(account_id, n + 1) for account_id, last in versions.items() for n in range(last)]
    for event in data.draw(st.lists(st.sampled_from(events), max_size=40)) if events else []:
        consumer.take(event)
    for account_id, last in versions.items():
        for _ in range(20):  # a round closes one gap, or loses an event
            consumer.close_gap(account_id)
            assert not bank.left, "the consumer asked for all of the gap"
            published, bank.published = bank.published, []
            for event in data.draw(st.permutations(published)):
                consumer.take(event)
        assert applied[account_id] == list(range(1, last + 1))
        assert not published, "there was no gap any more"
