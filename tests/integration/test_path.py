"""A posted transaction's path through the code is short, and as docs/extending.md describes it."""

import re
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tools.local_aws.functions import Context, invoke, process_transactions, record
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import create_tables

VALUES = {
    "conditional_writes": (
        *("conditions", "deadline", "handed_back", "item_diff", "items", "own_attributes"),
        *("prepared", "tries"),
    ),
    "ledger": (
        "core/holds",
        *("core/accounts", "core/attributes", "core/decoding", "core/journal", "core/money", "core/posting_time"),
        "tables",
    ),
    "workers": ("invocation", "parallel", "queue_messages"),
}
"""Modules that make values of values, the one that makes threads, the one for large items of refused writes, and those
that make a client ready and count its tries: no step begins in them."""
CONSTRUCTORS = ("__init__", "__post_init__", "<module>")


def test_a_posted_transaction_goes_through_a_dozen_files_and_as_the_docs_say(aws: Endpoint) -> None:
    tables = create_tables(aws, "path")
    function = process_transactions(aws, tables, POWERTOOLS_LOG_LEVEL="CRITICAL")
    opening = {"type": "open_account", "transaction_id": "open", "account_id": "a", "currency": "EUR"}
    assert not invoke(function, [record(opening)])
    event = {"Records": [record({"transaction_id": "t", "account_id": "a", "amount": 5})]}
    entered = entered_files(lambda: function.lambda_handler(event, Context()))
    values = {f"{package}/{name}.py" for package, names in VALUES.items() for name in names}
    steps = {file: functions for file, functions in entered.items() if file not in values}
    assert len(steps) <= 12
    assert {file: functions for file, functions in steps.items() if len(functions) > 3} == {}
    page = (PROJECT / "docs" / "extending.md").read_text()
    assert re.findall(r"^\| \d+ \| `(.*?)` \|", page, re.MULTILINE) == list(steps)


def entered_files(run: Callable[[], object]) -> dict[str, set[str]]:
    """The product's files in the order in which they are entered, each with the functions that other files call.

    A call through another library or a thread counts as a call of the file that caused it.
    """
    entered: dict[str, set[str]] = defaultdict(set)

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        file = _file(frame)
        if event != "call" or file is None or frame.f_code.co_name in CONSTRUCTORS or _is_property(frame):
            return
        asker = frame.f_back
        while asker is not None and _file(asker) is None:
            asker = asker.f_back
        if (asker is None and entered) or (asker is not None and _file(asker) == file):
            return  # A thread's first function, or a call in the same file.
        entered[file].add(frame.f_code.co_qualname)

    threading.setprofile(on_event)
    sys.setprofile(on_event)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return dict(entered)


def _file(frame: FrameType) -> str | None:
    """The path of a product file, as in the docs. None for other files, such as those of the engine in the process."""
    path = Path(frame.f_code.co_filename)
    if "testing" in path.parts:
        return None
    if path.is_relative_to(PROJECT / "functions"):
        return str(path.relative_to(PROJECT))
    if path.is_relative_to(PROJECT / "layers"):
        return str(path.relative_to(PROJECT / "layers" / path.relative_to(PROJECT / "layers").parts[0]))
    return None


def _is_property(frame: FrameType) -> bool:
    return isinstance(getattr(type(frame.f_locals.get("self")), frame.f_code.co_name, None), property)
