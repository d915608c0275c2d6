"""The benchmarks' counts of requests and units are exact, so these tests assert them.

A sample counts what is ours. Every case is the benchmark itself, with what is beside it there.
"""

from benchmarks import counted, locks, upserts, versioned
from tools.local_aws.server import Endpoint


def test_a_transaction_costs_what_the_readme_says(ministack: Endpoint, every_case: bool) -> None:
    if every_case:
        counted.main()
    else:
        counted.check_units(ministack)
        for count in counted.count_all(counted.teller_side(ministack), "ours"):
            counted.check(count)


def test_a_versioned_item_costs_what_its_benchmark_says(dynamodb: Endpoint) -> None:
    versioned.check(versioned.count_all(dynamodb, "counted-orders"))


def test_an_upsert_takes_the_requests_that_its_benchmark_says(dynamodb: Endpoint, every_case: bool) -> None:
    ways = upserts.WAYS if every_case else [way for way in upserts.WAYS if way.startswith("ours")]
    upserts.check(upserts.count_all(dynamodb, "counted-upserts", ways))


def test_a_locks_steps_take_the_requests_that_its_benchmark_says(dynamodb: Endpoint, every_case: bool) -> None:
    locks.check(locks.count_all(dynamodb, "counted-locks", locks.CONTENDERS if every_case else ["ours"]))
