"""The benchmarks' counts of requests and units are exact, so these tests assert them."""

from benchmarks import counted, locks, upserts, versioned
from tools.local_aws.server import Endpoint


def test_a_transaction_costs_what_the_readme_says() -> None:
    counted.main()


def test_a_versioned_item_costs_what_its_benchmark_says(dynamodb: Endpoint) -> None:
    versioned.check(versioned.count_all(dynamodb, "counted-orders"))


def test_an_upsert_takes_the_requests_that_its_benchmark_says(dynamodb: Endpoint) -> None:
    upserts.check(upserts.count_all(dynamodb, "counted-upserts"))


def test_a_locks_steps_take_the_requests_that_its_benchmark_says(dynamodb: Endpoint) -> None:
    locks.check(locks.count_all(dynamodb, "counted-locks"))
