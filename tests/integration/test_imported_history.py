"""History: files for DynamoDB's import of the journal, and the accounts that are imported after it.

Of the local engines only moto has ImportTable. For the others the items of the files are written one by one.
"""

import gzip
import json
import re
import textwrap
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import jmespath
import pytest
from moto import mock_aws

from conditional_writes.core.items import from_dynamodb, to_dynamodb
from ledger.core.currencies import MINOR_UNITS
from ledger.core.journal import entry_from_item, entry_item, seal_of
from ledger.core.republish_requests import RepublishAccount, republish_event
from tests.support.bodies import payment, reverse
from tests.support.deployed import until
from tests.support.new_tables import definition
from tests.support.reconciling import Reconciled, in_pages, mismatches
from tools.local_aws.functions import Context, read_accounts, republish_outcomes
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import BY_VERSION
from tools.teller.account_files import checked, messages_from
from tools.teller.failures import Failure
from tools.teller.history import make

ACCOUNTS = """account_id,currency,balance,overdraft_limit,source_reference,as_of,holds
alice,EUR,-700.5,-500,core/1,2025-12-31T23:00:00Z,"{""h-1"": {""amount"": ""5""}}"
bob,USD,12,0,core/2,2025-12-31T23:00:00Z,
carol,CHF,0,0,core/3,2025-12-31T23:00:00Z,
"""
HEADER = "account_id,transaction_id,amount,posted_at,balance_after,description,metadata"
HISTORY = f"""{HEADER}
alice,c-1,100,2024-05-01T10:00:00+02:00,100,"Salary, May","{{""branch"": ""7""}}"
bob,c-1,20.00,2024-05-01T10:00:00Z,,,
alice,c-2,-0.5,2024-05-02T00:00:00.5Z,99.50,,

bob,c-2,-8,2024-06-01T10:00:00Z,12,,
alice,c-3,-800,2025-05-02T00:00:00Z,,,
"""


def made(directory: Path, accounts: str = ACCOUNTS, history: str | bytes = HISTORY) -> dict[str, Any]:
    (directory / "accounts.csv").write_text(accounts)
    (directory / "history.csv").write_bytes(history if isinstance(history, bytes) else history.encode())
    return make(directory / "accounts.csv", directory / "history.csv", directory / "made")


def items_of(directory: Path) -> Iterator[dict[str, Any]]:
    for path in (directory / "made" / "journal").iterdir():
        yield from (json.loads(line)["Item"] for line in gzip.decompress(path.read_bytes()).splitlines())


def imported(directory: Path) -> list[str]:
    with (directory / "made" / "accounts.jsonl").open("rb") as file:
        return [message.body for message in messages_from(file, 0, is_csv=False)]


@pytest.fixture
def ledger(reconciled: Reconciled, tmp_path: Path) -> Reconciled:
    """Has the history. The accounts aren't imported yet."""
    ledger, manifest = reconciled, made(tmp_path)
    assert (manifest["entries"], manifest["accounts"]) == (5, 2)
    for item in items_of(tmp_path):
        read = from_dynamodb(item)
        assert to_dynamodb(read) == item
        assert entry_item(entry_from_item(read)) == read
        ledger.client.put_item(TableName=ledger.tables.journal, Item=item)
    return ledger


def test_the_books_go_back_through_the_history(
    ledger: Reconciled, aws: Endpoint, dynamodb: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = imported(tmp_path)
    ledger.post(*bodies, *bodies, payment("t-1", 200), payment("c-3", -1))
    ledger.post(reverse("r-1", "0.5", "alice", "c-2"))
    assert mismatches(ledger.run(whole=True)) == ""
    in_pages(ledger, monkeypatch)  # the first page has the history, the second one begins with the import
    assert mismatches(ledger.run(1, whole=True)) == ""
    [letter] = ledger.dead_letters()
    assert "'c-3' was used before on account 'alice'" in letter.reason
    read = read_accounts(dynamodb, ledger.tables).lambda_handler

    def answer(kind: str, **fields: Any) -> Any:
        return read({"read": kind, "account_id": "alice"} | fields, Context(60))

    account = answer("account")
    assert (account["balance"], account["held"], account["version"]) == ("-500", "5", 6)
    entries = answer("statement", from_version=1)["entries"]
    found = [(e["request"]["type"], e["amount"], e["balance_after"]) for e in entries]
    assert found == [
        ("historic_transaction", "100", "100"),
        ("historic_transaction", "-0.5", "99.5"),
        ("historic_transaction", "-800", "-700.5"),
        ("import_account", "-700.5", "-700.5"),
        ("transaction", "200", "-500.5"),
        ("reverse", "0.5", "-500"),
    ]
    assert entries[0]["posted_at"] == "2024-05-01T08:00:00.000+00:00"
    assert entries[0]["request"]["metadata"] == {"branch": "7"}
    balances = {"2024-05-01T07:00:00Z": None, "2024-06-01T00:00:00Z": "99.5", "2026-01-01T00:00:00Z": "-700.5"}
    assert {at: answer("balance", at=at)["balance"] for at in balances} == balances
    republished = republish_outcomes(aws, ledger.tables, dynamodb).lambda_handler(
        republish_event(RepublishAccount(account_id="alice", from_version=1, to_version=6)), Context(150)
    )
    assert republished == {"published": 3, "dead_lettered": 0, "missing_versions": [], "next": []}


WRONG: list[tuple[Callable[[Reconciled], None], str]] = [
    (lambda ledger: ledger.change_entry("c-2", "alice", amount=-1), "alice: broken seal, wrong decision"),
    (lambda ledger: ledger.change_entry("c-2", "alice", posted_at="2024-06"), "alice: broken seal, wrong time"),
    (lambda ledger: ledger.delete(ledger.tables.journal, "alice", transaction_id="c-1"), "alice: missing entry"),
    (lambda ledger: ledger.change_entry("c-3", "alice", seal="x" * 43), "alice: broken seal, wrong request"),
]


@pytest.mark.parametrize(("change", "expected"), WRONG)
def test_the_replay_checks_the_history(
    ledger: Reconciled, tmp_path: Path, change: Callable[[Reconciled], None], expected: str
) -> None:
    ledger.post(*imported(tmp_path))
    change(ledger)
    assert mismatches(ledger.run(whole=True)) == expected


def test_an_account_is_imported_after_its_own_history(ledger: Reconciled, tmp_path: Path) -> None:
    """With another balance, or as if it had no history."""
    messages = {message["account_id"]: message for message in map(json.loads, imported(tmp_path))}
    alice, bob = messages["alice"], messages["bob"]
    ledger.post(json.dumps(alice | {"balance": "-700"}), json.dumps({k: v for k, v in bob.items() if k != "history"}))
    assert mismatches(ledger.run(whole=True)) == "alice: wrong request; bob: entries twice"


def test_a_history_that_nobody_has_is_missing(ledger: Reconciled, tmp_path: Path) -> None:
    [body] = [body for body in imported(tmp_path) if "alice" in body]
    history = {"version": "999999999", "seal": "x" * 43}
    ledger.post(json.dumps(json.loads(body) | {"account_id": "dave", "history": history}))
    assert mismatches(ledger.run(whole=True)) == "dave: missing entry"


def row(old: str, new: str) -> str:
    assert old in HISTORY
    return HISTORY.replace(old, new)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (row("alice,c-2,", "dave,c-2,"), "line 4: account_id: 'dave' isn't in the file of accounts"),
        (row("bob,c-2", "bob,c-1"), "line 6: transaction_id: 'c-1' is in the file before"),
        (row("c-3", "teller:c"), "line 7: transaction_id: only Teller's own begin with teller:"),
        (row("c-3", "c\u200b3"), "line 7: transaction_id: U+200B at character 2 can't be seen"),
        (row("-800", "-8_00"), "line 7: amount: expected a decimal number, such as \"12.50\", got '-8_00'"),
        (row("-800", "-801"), "line 2: of the accounts: balance: 'alice' has -700.5, its history ends with -701.5"),
        (row("-800", "1e99"), "line 7: "),
        (row("99.50", "99"), "line 4: balance_after: expected 99.5, got 99"),
        (row("99.50", f"1e{'9' * 20}"), "line 4: balance_after: expected 99.5, got 1e999"),
        (row("2024-05-01T10:00:00+02:00", "0001-01-01T00:00:00+02:00"), "line 2: posted_at: expected a time between"),
        (row("2025-05-02T", "2024-05-01T"), "line 7: posted_at: expected a time not before 2024-05-02T00:00:00.500"),
        (row("2025-05-02T", "2125-05-02T"), "and not after now, got 2125-05-02T00:00:00Z"),
        (row("2025-05-02T00:00:00Z", "2025-05-02"), "line 7: posted_at: expected an ISO 8601 time with its offset"),
        (row('"{""branch"": ""7""}"', "[7]"), "line 2: metadata: expected `object | null`, got `array`"),
        (row('"{""branch"": ""7""}"', "[" * 9_000), "line 2: metadata: expected an object in JSON"),
        (row('""7""', '""7"", ""branch"": ""8""'), "line 2: branch: expected it once"),
        (row("alice,c-3,-800", "alice,-800"), "line 7: 6 cells, expected 7, as many as the header has"),
        (row("amount,", "sum,"), "line 1: expected a header of account_id, transaction_id, amount, posted_at,"),
        (HISTORY[:-1], "expected a line break at its end: the file may be cut off there"),
        ("", "expected a line break at its end"),
        (row("c-3", "\udcff").encode(errors="surrogateescape"), "line 7: expected UTF-8, got the byte 0xff"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_named_and_nothing_is_left(tmp_path: Path, history: str | bytes, expected: str) -> None:
    with pytest.raises(Failure) as raised:
        made(tmp_path, history=history)
    assert expected in "\n".join([raised.value.reason, *raised.value.details])
    assert not (tmp_path / "made").exists()


def test_a_wrong_row_of_the_accounts_is_named_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"accounts\.csv: line 5: expected a line break at its end"):
        made(tmp_path, ACCOUNTS + "dave")


def test_a_file_is_no_new_directory(tmp_path: Path) -> None:
    (tmp_path / "made").touch()
    with pytest.raises(Failure, match=r"made can't be made: File exists"):
        made(tmp_path)


def test_dynamodbs_import_takes_the_files_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (PROJECT / "docs" / "migrating.md").read_text()
    [query] = re.findall('JOURNAL --query "(.*?)"', page, re.DOTALL)
    kind, compression = re.findall(r"import-table --input-format (\w+) --input-compression-type (\w+)", page)[0]
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    manifest = made(tmp_path)
    with mock_aws():
        client, s3 = boto3.client("dynamodb"), boto3.client("s3")
        own = definition("own", {"account_id": "S", "transaction_id": "S"}, {"account_version": "N"})
        client.create_table(**own, GlobalSecondaryIndexes=[BY_VERSION])
        s3.create_bucket(Bucket="bucket")
        for path in (tmp_path / "made" / "journal").iterdir():
            s3.upload_file(path, "bucket", f"journal/{path.name}")
        begun = client.import_table(
            S3BucketSource={"S3Bucket": "bucket", "S3KeyPrefix": "journal/"},
            InputFormat=kind,
            InputCompressionType=compression,
            TableCreationParameters=jmespath.search(query, client.describe_table(TableName="own")),
        )
        arn = begun["ImportTableDescription"]["ImportArn"]

        def described() -> dict[str, Any]:
            return client.describe_import(ImportArn=arn)["ImportTableDescription"]

        until(lambda: described()["ImportStatus"] != "IN_PROGRESS", "the files are imported")
        counts = described()["ImportStatus"], described()["ImportedItemCount"], described()["ErrorCount"]
        assert counts == ("COMPLETED", manifest["entries"], 0)
        items = client.scan(TableName="PREFIX-Journal")["Items"]
    assert sorted(item["transaction_id"]["S"] for item in items) == ["c-1", "c-1", "c-2", "c-2", "c-3"]


def test_the_page_has_files_that_are_right(tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "migrating.md").read_text()
    files = [textwrap.dedent(text) for text in re.findall(r"```csv\n(.*?\n) *```", page, re.DOTALL)]
    assert made(tmp_path, *files)["entries"] == 3
    [totals] = re.findall(r"--totals (\S+) --dry-run", page)
    sums = {currency: Decimal(total) for currency, total in re.findall(r"(\w+)=([-.\d]+)", totals)}
    assert checked(tmp_path / "made" / "accounts.jsonl", MINOR_UNITS.get).totals == sums


def test_any_texts_are_sealed_as_the_library_seals_them(tmp_path: Path) -> None:
    """Names of metadata in no order, quotes, escapes, and characters beyond ASCII."""
    accounts = 'account_id,currency,balance,source_reference,as_of\n"ä""b",EUR,3,1,2025-12-31T23:00:00Z\n'
    texts = ["", '"\\ ""é"" \x7f \u2028",', ',"{""z"": ""\\u0007\\"""", ""é"": ""1"", ""A"": """"}"']
    rows = [f'"ä""b",t ✓{number},1e0,2025-01-01T00:00:00Z,,{text or ","}' for number, text in enumerate(texts)]
    made(tmp_path, accounts, "\n".join([HEADER, *rows, ""]))
    seal = ""
    for item in map(from_dynamodb, items_of(tmp_path)):
        entry = entry_from_item(item)
        assert entry_item(entry) == item
        seal = seal_of(seal, entry)
        assert entry.seal == seal
    assert entry.request["metadata"] == {"z": '\x07"', "é": "1", "A": ""}


def test_all_digits_are_kept(tmp_path: Path) -> None:
    amount = Decimal("1.0000000000000000000000000000000000001")
    accounts = f"account_id,currency,balance,source_reference,as_of\na,XTS,{amount},1,2025-12-31T23:00:00Z\n"
    made(tmp_path, accounts, f"{HEADER}\na,1,{amount},2025-01-01T00:00:00Z,,,\n")
    [item] = items_of(tmp_path)
    assert from_dynamodb(item)["balance_after"] == amount
