"""The documentation agrees with the code: links have targets, samples are valid, and tables are complete."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conditional_writes import Check, Delete, Put, Update
from conditional_writes.core.items import item_bytes
from ledger.core import profile_messages, rules, transaction_types
from ledger.core.accounts import Account, AccountStatus, account_item
from ledger.core.holds import MOST_OPEN_HOLDS, OpenHold, total
from ledger.core.reason_codes import ReasonCode
from ledger.core.transaction_types import base
from ledger.outcome_publisher import UnpublishedCode
from tests.support.template import TEMPLATE, resources
from tools.local_aws.server import PROJECT
from tools.release.site import menu, pages
from workers.batches import GivenUp

OF_LAYERS = [page for pattern in ("*.md", "docs/*.md", "examples/*.md") for page in PROJECT.glob(f"layers/*/{pattern}")]
PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *OF_LAYERS])
LIBRARY = PROJECT / "layers" / "conditional_writes"
OF_POWERTOOLS = {"ColdStart"}
SAMPLES = re.DOTALL | re.MULTILINE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if path.startswith("https://"):
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_sites_menu_has_each_page_once() -> None:
    in_menu = [page for section in menu() for found in section.values() for page in [*found]]
    assert sorted(in_menu) == sorted({*pages()} - {"docs/README.md"})


def anchors(target: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them of headings, or the tests of a test module."""
    if target.suffix == ".py":
        return set(re.findall(r"^def (\w+)\(", target.read_text(), re.MULTILINE))
    headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/extending.md", "docs/testing.md"])
def test_each_file_and_folder_that_a_page_for_contributors_names_is_there(page: str) -> None:
    named = re.findall(r"`(\.?\w[\w./]*/[\w./]*)`", (PROJECT / page).read_text())
    assert named
    places = ("", "layers/*/", "layers/*/*/")
    assert [name for name in named if not any(any(PROJECT.glob(place + name)) for place in places)] == []


@pytest.mark.parametrize(
    ("page", "decode", "types"),
    [
        ("messages", transaction_types.decode, {*transaction_types.TRANSACTION_TYPES.values()}),
        ("profiles", profile_messages.decode, {profile_messages.ProfileUpdate, profile_messages.EraseProfile}),
    ],
)
def test_each_type_has_a_sample_and_each_is_valid(page: str, decode: Callable[[str], object], types: set[type]) -> None:
    assert {type(decode(sample)) for sample in re.findall(r"^```json\n(.*?)^```", read(page), SAMPLES)} == types


def test_the_example_of_a_new_type_is_one() -> None:
    [example] = re.findall(r"^```python\n(.*?)^```", read("extending"), re.DOTALL | re.MULTILINE)
    names = {**vars(base), **vars(rules)}
    exec(example, names)
    fee = names["ChargeFee"](transaction_id="f-1", account_id="alice", fee=Decimal(3))
    for balance, after in ((Decimal(10), 7), (Decimal(0), 0)):
        account = Account("alice", balance, Decimal(0), "EUR", AccountStatus.OPEN, 1)
        [decision] = fee.decide([account], base.Context())
        assert (decision.status, decision.balance) == ("POSTED", after)


@pytest.mark.parametrize(
    ("page", "heading", "names"),
    [
        ("messages", "## Rejection reasons", rules.RejectionReason),
        ("messages", "## Dead letters", [*ReasonCode, *GivenUp]),
        ("deploying", "## Parameters", TEMPLATE["Parameters"]),
    ],
)
def test_a_table_has_all_names_and_no_others(page: str, heading: str, names: Iterable[str]) -> None:
    assert first_cells(page, heading) == sorted(names)


def test_the_table_of_the_outcomes_dead_letters_is_the_enum() -> None:
    section = read("operations").split("\n### An outcome that wasn't published\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE) == list(UnpublishedCode)


def test_the_table_of_metrics_is_what_the_functions_emit() -> None:
    sources = [*PROJECT.glob("functions/*/app.py"), *PROJECT.glob("layers/*/*/**/*.py")]
    emitted = {name for source in sources for name in metrics_in(source)}
    assert first_cells("operations", "## Metrics") == sorted(emitted | OF_POWERTOOLS)


def test_the_table_of_outputs_has_each_output() -> None:
    section = read("deploying").split("\n## Outputs\n")[1].split("\n## ")[0]
    cells = [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| `")]
    named = re.findall(r"`(\w+)`", " ".join(cells))
    outputs = [name for name in TEMPLATE["Outputs"] if not name.endswith("LogGroupName")]
    assert sorted(name for name in named if not name.endswith("LogGroupName")) == sorted(outputs)
    assert {"ProcessTransactionsLogGroupName"} <= {*named} & TEMPLATE["Outputs"].keys()


def test_the_table_of_alarms_has_each_alarm_in_one_row() -> None:
    section = read("operations").split("\n## Alarms\n")[1].split("\n## ")[0]
    first_columns = [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| `")]
    patterns = [pattern for column in first_columns for pattern in re.findall(r"`([\w*]+)`", column)]
    every = resources("AWS::CloudWatch::Alarm")
    for name in every:
        named = [each for each in patterns if each == name] or [each for each in patterns if fnmatch(name, each)]
        assert len(named) == 1, name
    assert [pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in every)] == []
    assert f"creates {len(every)} alarms" in section
    metrics = sum(len(alarm.get("Metrics", [None, None])) - 1 for alarm in every.values())
    assert f"their {metrics} metrics" in section
    now = section.split("\n### Now\n")[1].split("\n### ")[0]
    urgent = resources("AWS::CloudWatch::Alarm", AlarmTopicArn="arn:aws:sns:r:1:now")
    ringing = {name for name, alarm in urgent.items() if "AlarmActions" in alarm}
    assert {*re.findall(r"`(\w+Alarm)`", now)} == ringing


def metrics_in(source: Path) -> Iterator[str]:
    """The metrics' names in calls of `add_metric`, and of those that lead to it."""
    for call in ast.walk(ast.parse(source.read_text())):
        match call:
            case ast.Call(ast.Attribute(attr="add_metric" | "_ended") | ast.Name("Measurement"), [what, *_]):
                names = [what.body, what.orelse] if isinstance(what, ast.IfExp) else [what]
                yield from (name.value for name in names if isinstance(name, ast.Constant))
            case ast.Call(ast.Name("SendingJob"), [_, ast.Constant(str(name)), *_]):
                yield name


def first_cells(page: str, heading: str) -> list[str]:
    """The words in backticks at the start of each row of a section's table."""
    section = read(page).split(f"\n{heading}\n")[1].split("\n## ")[0]
    return sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def read(page: str) -> str:
    return (PROJECT / "docs" / f"{page}.md").read_text()


def test_the_librarys_readme_names_each_page_of_its_guide() -> None:
    """A link's text is its path: PyPI, which shows the page, has no such file."""
    linked = dict(re.findall(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)", (LIBRARY / "README.md").read_text()))
    assert {f"docs/{page.name}" for page in LIBRARY.glob("docs/*.md")} <= linked.keys()
    assert [text for text, path in linked.items() if path.startswith("docs/") and text != path] == []
    assert not re.search(r"\]\(\.\./", (LIBRARY / "README.md").read_text()), "the sdist has nothing above its README"


def test_the_table_of_plain_writes_has_each_parameter_and_whose_it_is() -> None:
    section = (LIBRARY / "docs" / "plans.md").read_text().split("\n## Writes\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", section, re.MULTILINE)
    kinds: tuple[Any, ...] = (Put, Update, Delete, Check)
    fields = {name: [kind for kind in kinds if name in kind._fields] for kind in kinds for name in kind._fields[1:]}
    whose = {name: "all" if len(those) == 4 else f"`{those[0].__name__}`" for name, those in fields.items()}
    assert dict(rows) == whose


def test_the_table_of_errors_has_each_error_of_the_library() -> None:
    page = (LIBRARY / "docs" / "errors.md").read_text()
    named = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    modules = [path for path in (LIBRARY / "conditional_writes").rglob("*.py") if path.parent.name != "testing"]
    sources = [ast.parse(source.read_text()) for source in modules]
    classes = {node.name: node for tree in sources for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    errors = {name for name in classes if not name.startswith("_") and is_error(name, classes)}
    assert errors - {*named} == INTERNAL_ERRORS
    assert {*named} - errors == set()


INTERNAL_ERRORS = {
    "NoTurn",  # becomes a try of the loop's
    "Unfit",  # becomes a Misfit
    "ConfiguredPayloadChanged",  # a PayloadChanged that is Powertools' error, too
}


def is_error(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name)] if name in classes else []
    builtin = {"Exception", "LookupError", "ValueError", "TypeError", "ClientError"}
    return any(base in builtin or is_error(base, classes) for base in bases)


DECISIONS = PROJECT / "docs" / "decisions"


def test_the_pages_name_tests_that_are_there() -> None:
    modules = [path.read_text() for path in (PROJECT / "tests").rglob("test_*.py")]
    tests = {name for text in modules for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text())}
    assert named <= tests, f"no such tests: {', '.join(sorted(named - tests))}"


def test_the_index_and_the_code_name_each_decision_and_no_other() -> None:
    pages = {page.name for page in DECISIONS.glob("*.md")} - {"README.md"}
    assert pages
    assert set(re.findall(r"\(([\w-]+\.md)\)", (DECISIONS / "README.md").read_text())) == pages
    code = [PROJECT / "template.yaml", *PROJECT.glob("tools/*.py"), *PROJECT.glob("functions/*/app.py")]
    code += PROJECT.glob("layers/*/*/**/*.py")
    named = {name for path in code for name in re.findall(r"docs/decisions/([\w-]+\.md)", path.read_text())}
    assert named == pages


@pytest.mark.parametrize(("number", "id_letters"), [(0, 36), (8, 36), (9, 36), (20, 36), (20, 128)])
def test_open_holds_take_the_bytes_that_their_page_says(number: int, id_letters: int) -> None:
    page = (DECISIONS / "holds.md").read_text()
    holds = {f"{each:0{id_letters}}": OpenHold(Decimal("12.34"), "2026-03-05T12:00:00+00:00") for each in range(number)}
    account = Account(36 * "a", Decimal("123.45"), Decimal(-50), "EUR", AccountStatus.OPEN, 1234)
    at = "2026-02-28T12:00:00.000+00:00"
    account = replace(account, posted_at=at, held=total(holds), holds=holds or None, decimal_places=2, seal=43 * "s")
    item = account_item(account) | {"cw:version_id": 32 * "x"}
    assert re.search(rf"\b{item_bytes(item):,}\b", page), item_bytes(item)
    assert f"at most {MOST_OPEN_HOLDS}" in page
