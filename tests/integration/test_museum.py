"""What each release wrote, as files in tests/museum: this release reads it, replays it, and answers as that one did.

Before a release, `TELLER_MUSEUM=1.0.0 pytest` of this file writes that release's items. They never change afterwards.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from conditional_writes.core.items import from_dynamodb
from tests.support.bodies import reverse
from tests.support.planted import BOOKS, HELD_BOOKS
from tests.support.reconciling import Reconciled, mismatches
from tests.support.samples import life_of
from tools.local_aws.server import PROJECT, Endpoint

MUSEUM = PROJECT / "tests" / "museum"


def messages() -> list[dict[str, Any]]:
    """The books of other tests, messages of all types with one account, and a compound, reversed."""
    legs = [{"account_id": name, "amount": amount} for name, amount in (("ann", "-3"), ("ben", "2"), ("alice", "1"))]
    sale = {"type": "compound", "transaction_id": "c-1", "legs": legs}
    return [*BOOKS, *HELD_BOOKS, *life_of("erin"), sale, reverse("c-1-back", None, "ann", "c-1")]


if "TELLER_MUSEUM" in os.environ:

    def test_write_the_items_of_this_release(
        aws: Endpoint, in_process: Endpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger = Reconciled(aws, in_process, monkeypatch)
        ledger.post(*messages())
        assert mismatches(ledger.run()) == ""
        items = {name.rpartition("-")[2]: found for name, found in ledger.stored(checkpoints=True).items()}
        (MUSEUM / f"{os.environ['TELLER_MUSEUM']}.json").write_text(
            json.dumps(items, indent=None, sort_keys=True) + "\n"
        )


@pytest.mark.parametrize("release", sorted(MUSEUM.glob("*.json")), ids=lambda path: path.stem)
def test_what_a_release_wrote_is_replayed_and_answered_as_before(
    release: Path, aws: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Reconciled(aws, dynamodb, monkeypatch)
    items = json.loads(release.read_text())
    ledger.restore({table: items[table.rpartition("-")[2]] for table in ledger.stored(checkpoints=True)})
    report = ledger.run(whole=True)
    assert (mismatches(report), report["accounts_checked"]) == ("", len(items["accounts"]))
    before = ledger.stored()
    ledger.post(*(from_dynamodb(entry)["request"] for entry in items["journal"]))
    assert (ledger.stored(), ledger.dead_letters()) == (before, [])
