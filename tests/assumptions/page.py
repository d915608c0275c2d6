"""The page of the assumptions, made from the tests' names, their pages, and the differences that are named."""

import importlib
import inspect
from collections.abc import Iterator

from tests.assumptions.differences import DIFFERENCES, LACKING
from tools.local_aws.server import PROJECT

PAGE = PROJECT / "docs" / "assumptions.md"
SERVICES = {"dynamodb": "DynamoDB", "sqs": "SQS", "events": "EventBridge", "lambda": "Lambda", "iam": "IAM", "s3": "S3"}
PLACES = {"in_process": "the engine in the process", "ministack": "ministack", "dynamodb_local": "DynamoDB Local"}
HEAD = """# What is assumed of AWS

Teller and its library rest on what AWS's services do. Each behaviour is a named test in `tests/assumptions`, with AWS's
page that states it. `make test` tries them on the engine in the process. `make assumptions` tries them on ministack
and on DynamoDB Local, too, and `make assumptions AWS=1` on an AWS account: with the credentials that boto3 finds, in
tables, queues, a bus, buckets, a function and a role of its own. It ends after 180 s, or when it may have cost 0.05
dollars by the bytes that it has sent and read. At its end, and if it is interrupted, it removes what it has made, and
names what it may not remove; `.venv/bin/python -m tests.assumptions --remove` removes what killed runs have left. With
a local AWS in place of the account a run takes 50 s, and counts 0.043 dollars at most. Each run prints a report in
Markdown. **Nobody has run it on an account yet.**

The tables are made by `python -m tests.assumptions --page`.
"""


def sentence(name: str) -> str:
    """A test's name in words."""
    words, _, case = name.removeprefix("test_").removesuffix("]").partition("[")
    return words.replace("_", " ").replace("utf 8", "UTF-8") + (f" ({case})" if case else "")


def page() -> str:
    """The text of docs/assumptions.md."""
    parts = [HEAD, "\n".join(_counts()) + "\n"]
    for service, title in SERVICES.items():
        lacking = [PLACES[place] for place, services in LACKING.items() if service in services]
        note = f"Not on {' and '.join(lacking)}.\n\n" if lacking else ""
        rows = [f"| [{sentence(name)}]({url}) | {_differs(name)} |" for name, url in _assumptions(service)]
        parts.append(f"## {title}\n\n{note}| assumption | differs |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _counts() -> Iterator[str]:
    """A run holds them: a difference that is named has to be there, and each other test to pass."""
    names = {service: [name for name, _ in _assumptions(service)] for service in SERVICES}
    yield f"| of {sum(map(len, names.values()))} assumptions | tried | hold | differ, in a case at least |"
    yield "|---|---|---|---|"
    for place, title in PLACES.items():
        tried = [name for service in SERVICES if service not in LACKING.get(place, ()) for name in names[service]]
        differ = {name.partition("[")[0] for name in DIFFERENCES.get(place, {})}
        yield f"| {title} | {len(tried)} | {len(tried) - len(differ)} | {len(differ)} |"


def _assumptions(service: str) -> Iterator[tuple[str, str]]:
    module = importlib.import_module(f"tests.assumptions.test_{service}")
    for name, function in inspect.getmembers(module, inspect.isfunction):
        for mark in getattr(function, "pytestmark", []):
            if mark.name == "rests_on":
                yield name, mark.args[0]


def _differs(name: str) -> str:
    found: list[str] = []
    for place, differences in DIFFERENCES.items():
        reasons = {reason for test, reason in differences.items() if test.partition("[")[0] == name}
        found += [f"{PLACES[place]} {reason}" for reason in sorted(reasons)]
    return "; ".join(found)
