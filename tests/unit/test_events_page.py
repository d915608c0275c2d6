"""docs/events.md agrees with the schemas and the code. Its consumer has each outcome once, in order, without gaps."""

import json
import re
from collections import defaultdict

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
