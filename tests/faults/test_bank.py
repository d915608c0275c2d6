"""A bank under random faults of every kind: many transfers, few accounts, eight workers."""

import contextlib
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from unittest import mock

import pytest

from tests.checkers.books import violations
from tests.support.bodies import Body, opening, payment, transfer
from tests.support.faults import CODES_OF_EVENTS, Fault, Killed, RandomFaults, no_logs
from tests.support.in_process import IN_PROCESS
from tests.support.ledger import Ledger
from tests.support.reporting import Say
from tools.local_aws.functions import Queue, record
from tools.local_aws.server import Endpoint

ACCOUNTS = [f"acc-{number:02}" for number in range(50)]
HOT_ACCOUNT, HOT_SHARE = ACCOUNTS[0], 0.25
"""The workers meet in this account's line: it gets this share of the transfers."""
TRANSFERS, FAULTS_PER_CALL = 10_000, 0.03
SAMPLED_TRANSFERS, SAMPLED_FAULTS_PER_CALL = 120, 0.1
"""With fewer transfers faults are more frequent, so that most of them are injected."""
DUPLICATES_SHARE = 0.15
WORKERS = 8
SEED = 20_261_121


def transfers(choose: random.Random, number_of_them: int) -> list[Body]:
    made = []
    for number in range(number_of_them):
        payer, payee = choose.sample(ACCOUNTS, 2)
        if choose.random() < HOT_SHARE and payer != HOT_ACCOUNT:
            payee = HOT_ACCOUNT
        made.append(transfer(f"t-{number}", f"{choose.randint(0, 150)}.{choose.randint(1, 99):02}", payer, payee))
    return made


@pytest.mark.timeout(600)
def test_thousands_of_transfers_leave_the_total_as_it_was(
    aws: Endpoint, dynamodb: Endpoint, say: Say, every_case: bool
) -> None:
    choose = random.Random(SEED)
    whole = every_case and dynamodb == IN_PROCESS
    number_of_them, probability = (
        (TRANSFERS, FAULTS_PER_CALL) if whole else (SAMPLED_TRANSFERS, SAMPLED_FAULTS_PER_CALL)
    )
    sent = transfers(choose, number_of_them)
    duplicates = choose.sample(sent, round(len(sent) * DUPLICATES_SHARE))
    messages = sent + duplicates
    choose.shuffle(messages)
    ledger = Ledger(aws, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
    workers = [ledger.worker, *(ledger.another_worker() for _ in range(WORKERS - 1))]
    ledger.post(*(opening(name, choose.choice(["0", "-100", "-250.50"])) for name in ACCOUNTS))
    ledger.post(*(payment("first", 200, name) for name in ACCOUNTS))
    faults = [RandomFaults(SEED + number, probability) for number in range(WORKERS)]

    def work(number: int) -> int:
        sizes, mine, deliveries = random.Random(number), messages[number::WORKERS], 0
        while mine:
            size = sizes.randint(1, 10)
            queue, mine = Queue([record(message) for message in mine[:size]]), mine[size:]
            while queue.records:
                faults[number].revive()
                queue.deliver(workers[number], Killed)
                deliveries += 1
        return deliveries

    with (
        no_logs(),
        # So many faults strike some message five times in a row, which then counts as one that kills its function.
        mock.patch("workers.batches.MAXIMUM_BEGUN", 1_000),
        # The pauses' real lengths are of no use here, and are up to a minute in all.
        mock.patch("conditional_writes.core.loop.LONGEST_PAUSE_SECONDS", 0.05),
        mock.patch("workers.attempts.LONGEST_PAUSE_SECONDS", 0.05),
        mock.patch("ledger.lines.PATIENCE_SECONDS", 0.05),
        contextlib.ExitStack() as injecting,
        ThreadPoolExecutor(WORKERS) as pool,
    ):
        for function, fault in zip(workers, faults, strict=True):
            injecting.enter_context(fault.on(function.poster.client, function.worker.queue.client))
        deliveries = sum(pool.map(work, range(WORKERS)))

    books = ledger.books
    tickets = sum(int(item.get("last_ticket", 0)) for item in ledger.items(ledger.locks_table))
    injected = sum((fault.injected for fault in faults), Counter())
    say(
        f"{len(sent):,} transfers and {len(duplicates):,} duplicates, {deliveries:,} deliveries,"
        f" {sum(len(fault.calls) for fault in faults):,} AWS calls, {tickets:,} tickets, {injected.total():,} faults:"
        f" {books.counts()}"
    )
    assert tickets > 0 or not whole, "workers should meet in lines"
    assert not violations(books)
    assert sum(account.balance for account in books.accounts.values()) == Decimal(200 * len(ACCOUNTS))
    ids = {"open", "first", *(each["transaction_id"] for each in sent)}
    assert {entry.transaction_id for entry in books.entries} == ids
    assert set(books.counts()) == {"POSTED", "OVERDRAFT_LIMIT"}
    assert not ledger.dead_letters()
    possible = set(Fault) - CODES_OF_EVENTS.keys()  # Nothing is refused, so no event is published.
    assert injected.keys() == possible if whole else len(injected) > len(possible) / 2
