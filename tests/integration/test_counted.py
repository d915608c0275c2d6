"""The benchmarks' counts of requests and units are exact, so these tests assert them.

A sample counts what is ours. Every case is the benchmark itself, with what is beside it there.
"""

import re
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks import costs, counted, locks, mesh, night, outcomes, upserts, versioned
from benchmarks.filled import Ledger
from ledger.core.pools import SHARDS_OF_A_WORKER
from tests.support.bodies import compound, expire_hold, hold, opening, payment, post_hold, reverse, transfer, void_hold
from tests.support.samples import IMPORTED
from tests.support.template import resources
from tools import prices
from tools.local_aws.functions import record
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import Tables, create_tables, scan

# DynamoDB Local runs one transaction at a time. On a busy machine a hundred at once wait for longer than the clients'
# read timeout, and are sent again.
HUNDRED_AT_ONCE = pytest.mark.parametrize("dynamodb", ["in_process", "ministack"], indirect=True)


@HUNDRED_AT_ONCE
def test_a_transaction_costs_what_the_readme_says(
    aws: Endpoint, dynamodb: Endpoint, tables: Tables, every_case: bool
) -> None:
    counted.check_units(dynamodb)
    for count in counted.count_all(counted.teller_side(aws, tables, dynamodb), "ours"):
        counted.check(count)
    if every_case and dynamodb is aws:
        counted.main()


def test_a_transfer_that_is_alone_costs_ten_units_and_so_does_a_rejected_one(
    aws: Endpoint, dynamodb: Endpoint, tables: Tables
) -> None:
    side = counted.teller_side(aws, tables, dynamodb)
    side.open_accounts(["alice", "bob"])
    counted.deliver(side.function, [record(payment("credit", 5))])
    for transaction_id in ("posted", "rejected"):
        side.meter.reset()
        counted.deliver(side.function, [record(transfer(transaction_id, 5))])
        assert side.meter.requests == {"BatchGetItem": 1, "TransactWriteItems": 1}
        assert side.meter.write_units == 2 * (2 + 1) + 2 * 2


def test_a_compound_costs_five_units_a_leg_alone_three_and_two_an_account_in_a_batch_and_its_reversal_two_more(
    aws: Endpoint, dynamodb: Endpoint, tables: Tables
) -> None:
    side = counted.teller_side(aws, tables, dynamodb)
    names = [f"leg-{number}" for number in range(10)]
    side.open_accounts(names)
    for legs, messages in ((3, 1), (10, 1), (3, 10), (10, 8)):
        amounts = dict.fromkeys(names[1:legs], 1) | {names[0]: 1 - legs}
        bodies = [compound(f"c-{legs}-{number}-of-{messages}", **amounts) for number in range(messages)]
        counted.deliver(side.function, [record(payment(f"credit-{legs}-{messages}", 20 * legs, names[0]))])
        side.meter.reset()
        counted.deliver(side.function, [record(body) for body in bodies])
        assert side.meter.write_units == 3 * legs * messages + 2 * legs
        backs = [reverse(f"back-{body['transaction_id']}", None, names[1], body["transaction_id"]) for body in bodies]
        side.meter.reset()
        counted.deliver(side.function, list(map(record, backs)))
        assert side.meter.requests == {"BatchGetItem": 2, "TransactWriteItems": 1}
        assert side.meter.write_units == (3 * legs + 2) * messages + 2 * legs


@HUNDRED_AT_ONCE
def test_transfers_of_a_hundred_payers_to_a_pool_commit_side_by_side(
    aws: Endpoint, dynamodb: Endpoint, tables: Tables
) -> None:
    """A plain account has one group, of three commits one after another. A shard costs what an account costs."""
    side = counted.teller_side(aws, tables, dynamodb)
    payers = [f"payer-{number}" for number in range(100)]
    side.open_accounts([*payers, "plain"])
    counted.deliver(side.function, [record(opening(name, shards=64)) for name in ("pool", "fees")])

    def commits(run: str, **amounts: int) -> int:
        bodies = [compound(f"{run}-{payer}", **{payer: -100} | amounts) for payer in payers]
        counted.deliver(side.function, [record(payment(f"{run}-credit-{payer}", 100, payer)) for payer in payers])
        side.meter.reset()
        counted.deliver(side.function, [record(body) for body in bodies])
        legs, accounts = 100 * (1 + len(amounts)), 100 + len(amounts) * SHARDS_OF_A_HUNDRED
        if "plain" not in amounts:
            assert side.meter.write_units == 3 * legs + 2 * accounts
        return side.meter.requests["TransactWriteItems"]

    assert commits("to-one", plain=100) == 4
    assert commits("to-pool", pool=100) == SHARDS_OF_A_HUNDRED
    assert commits("with-fee", pool=97, fees=3) == SHARDS_OF_A_HUNDRED


SHARDS_OF_A_HUNDRED = SHARDS_OF_A_WORKER
"""Each of them is chosen for some of the hundred payers."""


def test_ten_workers_on_fifty_hot_accounts_are_nearly_as_fast_as_one_and_return_nothing(every_case: bool) -> None:
    """In virtual time. When groups waited in the lines of all the accounts that they had lost, it was a quarter."""
    one, ten = (mesh.Run(mesh.mesh(50), workers, 300, latency=mesh.FAST).result for workers in (1, 10))
    assert ten.per_second > 0.7 * one.per_second
    assert ten.write_units < 2 * one.write_units
    assert ten.delivered_twice == 0
    if every_case:
        assert mesh.Run(mesh.mesh(50), 10, 300, latency=mesh.SLOW).result.delivered_twice == 0


class Costs:
    """Counts the requests, the write units and the read units of one message, or of several in a batch.

    In the process alone: the meter doesn't know the size of an item that DynamoDB Local has updated in a transaction.
    """

    def __init__(self, aws: Endpoint, tables: Tables) -> None:
        self._side = counted.teller_side(aws, tables)
        self._side.open_accounts(["alice", "bob"])

    def of(self, *messages: dict[str, Any]) -> tuple[int, int, float, float]:
        """BatchGetItems, TransactWriteItems, write units, read units."""
        meter = self._side.meter
        meter.reset()
        counted.deliver(self._side.function, [record(message) for message in messages])
        assert meter.requests.keys() == {"BatchGetItem", "TransactWriteItems"}
        return (
            *map(meter.requests.__getitem__, ("BatchGetItem", "TransactWriteItems")),
            meter.write_units,
            meter.read_units,
        )


@pytest.fixture
def costs_of(aws: Endpoint) -> Costs:
    return Costs(aws, create_tables(aws, f"counted-{uuid.uuid4()}"))


EXPIRES_AT = "2026-12-01T00:00:00Z"


def test_a_hold_and_its_resolution_cost_what_two_transactions_cost(costs_of: Costs) -> None:
    one = costs_of.of(payment("t-1", 100))
    assert one == (1, 1, 5, 1)
    two = costs_of.of(payment("t-2"), payment("t-3"))
    resolutions = [
        post_hold("p-1"),
        post_hold("p-2", "0.5", hold_id="h-2", final=False),
        void_hold("v-3", hold_id="h-3"),
        expire_hold("x-4", hold_id="h-4", as_of=EXPIRES_AT),
    ]
    for number, resolution in enumerate(resolutions, 1):
        assert costs_of.of(hold(f"h-{number}", expires_at=EXPIRES_AT)) == one
        assert costs_of.of(resolution) == one
    assert costs_of.of(hold("h-5"), post_hold("p-5", hold_id="h-5")) == two == (1, 1, 8, 1)
    assert costs_of.of(hold("h-6")) == one
    assert costs_of.of(transfer("t-7", 5)) == (1, 1, 10, 2)
    assert costs_of.of(post_hold("p-6", hold_id="h-6", to_account_id="bob")) == (1, 1, 10, 2)


def test_an_import_costs_five_units(costs_of: Costs) -> None:
    """With two holds and ids of 36 characters, too. A third one makes the entry larger than a kilobyte."""
    long_ids = [str(uuid.UUID(int=number)) for number in range(2)]
    for name, holds in zip(long_ids, ({}, dict.fromkeys(long_ids, HELD)), strict=True):
        account = {"type": "import_account", "transaction_id": "i", "account_id": name} | IMPORTED
        assert costs_of.of(account | {"holds": holds}) == (1, 1, 5, 1)


HELD = {"amount": "12.34", "expires_at": EXPIRES_AT}


def test_a_reversal_costs_two_units_more_and_reads_the_entry_and_what_was_reversed(costs_of: Costs) -> None:
    costs_of.of(payment("t-1", 100))
    costs_of.of(transfer("t-2", 5))
    for number, amount in enumerate((10, 90, 1)):  # the first one, the last one, one that is rejected
        costs_of.of(payment(f"credit-{number}", 100))
        assert costs_of.of(reverse(f"r-{number}", amount)) == (1, 1, 7, 3)
    by_payer, by_payee = (reverse(f"r-{name}", 1, name, "t-2", of_account_id="alice") for name in ("alice", "bob"))
    assert costs_of.of(by_payer) == (2, 1, 12, 4)
    assert costs_of.of(by_payee) == (1, 1, 12, 4)  # it names both accounts
    assert costs_of.of(transfer("t-3", 5), reverse("r-3", None, "alice", "t-3")) == (1, 1, 18, 4)


def test_eight_holds_with_long_ids_fit_into_the_first_kilobyte_and_twenty_into_the_second(costs_of: Costs) -> None:
    costs_of.of(payment("t-1", 10_000))
    costs = [costs_of.of(hold(str(uuid.uuid4()), "12.34", expires_at=EXPIRES_AT)) for _ in range(20)]
    assert costs == [(1, 1, 5, 1)] * 8 + [(1, 1, 7, 1)] * 12
    assert costs_of.of(payment("t-2")) == (1, 1, 7, 1)


def test_a_night_costs_the_day_and_the_whole_journals_of_a_thirtieth(
    aws: Endpoint, every_case: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not every_case:  # fewer accounts are due each night
        monkeypatch.setattr(night, "DUE", 3)
        monkeypatch.setattr(night, "ACTIVE", 9)
        monkeypatch.setattr(night, "NAMES", list(night.names_by_day()))
    ledger = Ledger(aws, create_tables(aws, "counted-night"))
    night.check(list(night.count_nights(aws, ledger, histories=(3, 8))))


def test_publishing_takes_an_event_for_each_entry_and_a_request_for_ten_of_a_batch(aws: Endpoint) -> None:
    ledger = Ledger(aws, create_tables(aws, "counted-outcomes"))
    ledger.grow("a", 100)
    items = list(scan(aws, ledger.tables.journal))
    batches = {"1": [1, 1, 1], "11": [11, 11], "100": [100]}
    for cost, sizes in zip(outcomes.count_costs(aws, items, batches), batches.values(), strict=True):
        outcomes.check(cost, sizes)


def test_a_versioned_item_costs_what_its_benchmark_says(dynamodb: Endpoint) -> None:
    versioned.check(versioned.count_all(dynamodb, "counted-orders"))


def test_an_upsert_takes_the_requests_that_its_benchmark_says(
    dynamodb: Endpoint, every_case: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upserts, "UPSERTS", 100 if every_case else 40)
    ways = upserts.WAYS if every_case else [way for way in upserts.WAYS if way.startswith("ours")]
    upserts.check(upserts.count_all(dynamodb, "counted-upserts", ways))


def test_a_locks_steps_take_the_requests_that_its_benchmark_says(dynamodb: Endpoint, every_case: bool) -> None:
    locks.check(locks.count_all(dynamodb, "counted-locks", locks.CONTENDERS if every_case else ["ours"]))


def rows(heading: str, page: str = "operations", first: str = "") -> dict[str, list[float]]:
    """The figures of the table in this section of the page, by the first cell of each row, from this row on."""
    section = (PROJECT / f"docs/{page}.md").read_text().split(f"# {heading}\n")[1].split("\n##")[0]
    cells = [row.strip("| ").replace("*", "").split(" | ") for row in section.splitlines() if row.startswith("| ")]
    begin = next(number for number, (name, *_) in enumerate(cells) if name.startswith(first)) if first else 1
    return {name: list(map(float, figures)) for name, *figures in cells[begin:]}


def test_a_million_transactions_cost_what_the_documentation_says(aws: Endpoint) -> None:
    written, batches = rows("A million transactions"), list(costs.counted_batches(aws))
    check_a_million_a_day(batches[:2])
    for column, batch in enumerate(batches):
        in_all, storage = sum(batch.dollars.values()), batch.storage_dollars
        counted_now = {**batch.dollars, "in all": in_all, "storage, each month": storage}
        assert written.keys() == counted_now.keys()
        # Lines of a log have some bytes more or less each time.
        assert {name: figures[column] for name, figures in written.items()} == pytest.approx(
            counted_now, abs=0.006, rel=0.02
        )
        assert batch.write_units == 3 * batch.size + 2


def check_a_million_a_day(batches: Sequence[costs.Batch]) -> None:
    """Of n = 1 and n = 10: docs/capacity.md has the sums of what other pages say."""
    written = list(rows("A million transactions a day", "capacity", first="30 million").values())
    stack = rows("A month of a stack")
    fixed = sum(figure for [figure] in stack.values()) + stack["traces, a function"][0]
    [night] = re.findall(r"\| 120 \|.*?\| ([\d.]+) dollars \| 18", (PROJECT / "docs/jobs.md").read_text())
    for column, batch in enumerate(batches):
        a_month = [30 * sum(batch.dollars.values()), fixed, 30 * float(night)]
        month, year = 30 * batch.storage_dollars, 365 * batch.storage_dollars
        expected = [*a_month, month, sum(a_month) + month, year, sum(a_month) + year]
        assert [figures[column] for figures in written] == pytest.approx(expected, abs=0.6, rel=0.02)


def test_two_write_units_more_cost_what_the_documentation_says() -> None:
    page = " ".join((PROJECT / "docs/operations.md").read_text().split())
    [dollars] = re.findall(r"two write units, or ([\d.]+) dollars for a million, more", page)
    assert float(dollars) == pytest.approx(2 * prices.WRITE_UNITS.dollars)


def test_a_month_of_a_stack_costs_what_the_documentation_says() -> None:
    alarms = resources("AWS::CloudWatch::Alarm").values()
    alarm_metrics = sum(len(alarm.get("Metrics", [None, None])) - 1 for alarm in alarms)
    expected = costs.fixed_dollars(alarm_metrics, custom_metrics=50)
    assert {name: figure for name, [figure] in rows("A month of a stack").items()} == pytest.approx(expected, abs=0.005)
    [a_month] = re.findall(r"They cost ([\d.]+) dollars a month", (PROJECT / "docs/operations.md").read_text())
    assert float(a_month) == pytest.approx(expected["alarms"])
