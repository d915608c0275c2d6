"""Runs the whole system with random steps, chosen by Hypothesis, and checks all invariants after each step.

A fault is injected at one call of a step. The result is read from the tables.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ledger.core.profile_messages import decode as decode_update
from ledger.core.transaction_types import Transaction, Transfer
from ledger.core.transaction_types.compound import Compound
from ledger.core.transaction_types.legs import Leg
from ledger.core.transaction_types.set_shards import SetShards
from tests.checkers import history, quiescence, windows
from tests.checkers import profiles as profiles_checker
from tests.checkers.books import Books, name_of, vanished, violations
from tests.checkers.few_ids import holds_and_reversals
from tests.faults.system import (
    CHARGE,
    EXPIRE,
    NOTHING,
    PROFILES,
    RECONCILE,
    START,
    TRANSACTIONS,
    Injection,
    System,
)
from tests.support.bodies import opening, payment
from tests.support.faults import FOR_TRANSACTIONS, OUTAGES, Fault
from tests.support.samples import life_of
from tests.support.strategies import messages_of
from tools.local_aws.day import JUNK

RETRIED = {Fault.RESPONSE_LOST, Fault.THROTTLED, Fault.SERVER_ERROR, Fault.SERVER_ERROR_AFTER, *FOR_TRANSACTIONS}
"""Faults that the SDK or the library overcomes by retries: the step has the same result as without the fault."""

OF_ITSELF = {"INVALID_MESSAGE", "FUNCTION_KILLED"}
"""The reason codes of messages that are dead whatever the tables have."""

type FaultAt = tuple[Fault, int] | None
"""A fault, and the number of the call at which it is injected."""

ACCOUNTS = ["a", "b", "c"]
HOT_ACCOUNT = ACCOUNTS[0]
POOL = "pool"
whole_amounts = st.integers(-300, 300).filter(bool).map(Decimal)
too_fine = whole_amounts.map(lambda amount: amount + Decimal("0.005"))
"""A decimal more than the accounts' currency has."""
amounts = st.one_of([whole_amounts] * 14 + [too_fine])
limits = st.sampled_from([0, -100, -500]).map(Decimal)
account_ids, few_ids = st.sampled_from([*ACCOUNTS, "d"]), st.integers(1, 20).map(str)
transfers = st.builds(
    lambda accounts, number, amount: Transfer(
        transaction_id=f"transfer-{number}", from_account_id=accounts[0], to_account_id=accounts[1], amount=abs(amount)
    ),
    st.permutations([*ACCOUNTS, POOL]),
    st.integers(1, 60),
    whole_amounts,
)
compounds = st.builds(
    lambda accounts, number, amounts: Compound(
        transaction_id=f"compound-{number}",
        legs=tuple(map(Leg, accounts, [*amounts, -sum(amounts)] if sum(amounts) else [*amounts])),
    ),
    st.permutations([*ACCOUNTS, POOL]),
    st.integers(1, 20),
    st.tuples(whole_amounts, whole_amounts),
)
"""Transfers and compounds of open accounts: of the random messages, few are."""


of_pool = {"transaction_id": few_ids, "account_id": st.just(POOL)}
messages = st.one_of(
    messages_of(account_ids, few_ids, amounts, limits),
    holds_and_reversals(st.sampled_from([*ACCOUNTS, *ACCOUNTS, "d", POOL]), few_ids | st.just("first"), amounts),
    transfers,
    compounds,
    st.builds(SetShards, **of_pool, shards=st.sampled_from([Decimal(4), Decimal(8)]))
    | st.builds(Transaction, **of_pool, amount=whole_amounts),
)


@st.composite
def one_of_bodies(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(JUNK))
    return json.dumps(draw(messages).canonical_payload())


bodies = one_of_bodies()
picks = st.lists(st.integers(0, 9), min_size=1, max_size=6)
faults = st.sampled_from([*Fault] + [Fault.KILLED_BEFORE, Fault.KILLED_AFTER] * 3)
calls = st.sampled_from([1, 1, 2, 2, 2, 3, 3, 4, 5, 7])
"""The call at which a fault is injected. A batch takes three or four calls."""
of_transactions = st.tuples(
    st.sampled_from(sorted(FOR_TRANSACTIONS, key=lambda fault: fault.name)), st.sampled_from([1, 1, 2])
)
faults_at = st.one_of(st.none(), of_transactions, *[st.tuples(faults, calls)] * 3)
outages = st.sampled_from(sorted(OUTAGES, key=lambda outage: outage.name))
services = st.sampled_from([("dynamodb", "sqs"), ("dynamodb",), ("sqs",)])
queues = st.sampled_from([TRANSACTIONS, TRANSACTIONS, PROFILES])
meetings = st.sampled_from([2, 2, 2, 3, 1, 4])
"""The call before which a competing worker runs. A batch's first call reads, its second commits."""
later = st.sampled_from([False, False, True])
jobs = st.sampled_from([CHARGE, EXPIRE, RECONCILE])
days = st.integers(1, 2)
workers = st.integers(0, 1)

FONT, THEME = ["preferences", "font"], ["preferences", "theme"]
names = st.sampled_from(["theme", "font", "size", "colour"])
updates = st.fixed_dictionaries(
    {
        "account_id": st.sampled_from(ACCOUNTS),
        "path": st.sampled_from([["preferences"], ["preferences"], ["limits"], FONT, FONT, THEME, [*FONT, "size"]]),
        "entries": st.dictionaries(names, st.integers(1, 9), min_size=1, max_size=3),
        "removed": st.lists(names, max_size=1),
    }
)
"""`theme` and `font` are entries, maps, and removed, in turns. A name in both fields makes the message invalid."""
erasures = st.sampled_from(ACCOUNTS).map(lambda name: {"type": "erase_profile", "account_id": name})


class Machine(RuleBasedStateMachine):
    """A subclass for each engine defines `make_system`."""

    make_system: Callable[[], System]

    def __init__(self) -> None:
        super().__init__()
        self.system = type(self).make_system()
        self.sound = True
        self.seen: dict[tuple[str, str], Any] = {}
        self.books = Books({}, {})
        self.records: windows.Records = {}
        self.delivered: list[str] = []
        self.system.tally.done["examples"] += 1

    @initialize(limit=st.sampled_from(["-500", "-500", "-100", "0"]), first=st.integers(-300, 300))
    def open_accounts(self, limit: str, first: int) -> None:
        for name in ACCOUNTS:
            self._send(TRANSACTIONS, json.dumps(opening(name, limit)))
            if first:
                self._send(TRANSACTIONS, json.dumps(payment("first", first, name)))
        self._send(TRANSACTIONS, json.dumps(opening(POOL, shards=2)))

    @rule(bodies=st.lists(bodies, min_size=1, max_size=6), fault_at=faults_at, worker=workers, later=later)
    def send(self, bodies: Sequence[str], fault_at: FaultAt, worker: int, later: bool) -> None:
        """Sends messages, and delivers the waiting ones unless `later`."""
        for body in bodies:
            self._send(TRANSACTIONS, self._aimed(body))
        if not later:
            self._deliver(TRANSACTIONS, self.system.waiting[TRANSACTIONS][:10], fault_at, worker)

    @rule(
        updates=st.lists(updates | st.sampled_from(JUNK) | erasures, min_size=1, max_size=4),
        seconds=st.none() | st.integers(0, 9),
        fault_at=faults_at,
        worker=workers,
        later=later,
    )
    def send_updates(
        self, updates: Sequence[Any], seconds: int | None, fault_at: FaultAt, worker: int, later: bool
    ) -> None:
        """Sends updates and erasures as of the same second, so that ties are common, or as of their sending."""
        as_of = None if seconds is None else (START + timedelta(seconds=seconds)).isoformat()
        for update in updates:
            body = update | {"as_of": as_of} if isinstance(update, dict) and as_of else update
            self._send(PROFILES, body if isinstance(body, str) else json.dumps(body))
        if not later:
            self._deliver(PROFILES, self.system.waiting[PROFILES][:10], fault_at, worker)

    @rule(queue=queues, picks=picks, by_the_queue=st.booleans())
    def repeat(self, queue: str, picks: Sequence[int], by_the_queue: bool) -> None:
        """Repeats messages: the producer sends them again, or SQS delivers them again after their acknowledgement."""
        history, waiting = self.system.history, self.system.waiting[queue]
        for number in self._picked(self.system.numbers[queue], picks):
            if not by_the_queue:
                self._send(queue, history.messages[number].body)
            elif number not in waiting:
                waiting.append(number)

    @precondition(lambda self: self._waiting())
    @rule(queue=queues, picks=picks, fault_at=faults_at, worker=workers)
    def deliver(self, queue: str, picks: Sequence[int], fault_at: FaultAt, worker: int) -> None:
        if numbers := self._picked(self.system.waiting[queue], picks):
            self._deliver(queue, numbers, fault_at, worker)

    @precondition(lambda self: self._waiting())
    @rule(queue=queues, picks=picks, theirs=picks, before=meetings, fault_at=faults_at)
    def deliver_to_two(
        self, queue: str, picks: Sequence[int], theirs: Sequence[int], before: int, fault_at: FaultAt
    ) -> None:
        waiting = self.system.waiting[queue]
        self._deliver_to_two(queue, self._picked(waiting, picks), self._picked(waiting, theirs), before, fault_at)

    @rule(
        ours=st.lists(bodies, min_size=1, max_size=4), theirs=st.lists(bodies, min_size=1, max_size=4), before=meetings
    )
    def send_to_two(self, ours: Sequence[str], theirs: Sequence[str], before: int) -> None:
        numbers, others = ([self._send(TRANSACTIONS, self._aimed(body)) for body in sent] for sent in (ours, theirs))
        self._deliver_to_two(TRANSACTIONS, numbers, others, before, None)

    @rule(amounts=st.lists(whole_amounts, min_size=3, max_size=5), fault_at=faults_at)
    def contend(self, amounts: Sequence[Decimal], fault_at: FaultAt) -> None:
        """Two workers post on one account: one of them loses two commits, and both wait in line from then on."""
        messages = [
            payment(f"contended-{number}", str(amount), HOT_ACCOUNT)
            for number, amount in enumerate(amounts, len(self.system.history.messages))
        ]
        ours, *theirs = [self._send(TRANSACTIONS, json.dumps(message)) for message in messages]
        self._note(TRANSACTIONS, [ours], "a worker gets")
        self._note(TRANSACTIONS, theirs, "before its commits, one by one, another gets")
        self.delivered += self._bodies([ours, *theirs])

        def meanwhile() -> None:
            self.system.deliver(TRANSACTIONS, [theirs.pop(0)], worker=1)

        self.system.deliver(
            TRANSACTIONS, [ours], Injection(*(fault_at or (None, 0)), meanwhile, before=2, calls=len(theirs))
        )
        self.check_all()

    @rule(worker=workers)
    def live(self, worker: int) -> None:
        """The life of an account, from its opening to its closing, in one batch: random messages seldom close one."""
        name = f"short-lived-{len(self.system.history.messages)}"
        numbers = [self._send(TRANSACTIONS, json.dumps(body)) for body in life_of(name)]
        self._deliver(TRANSACTIONS, numbers, None, worker)

    @rule(queue=queues)
    def redrive(self, queue: str) -> None:
        self.system.redrive(queue)

    @rule(job=jobs, day=days, fault_at=faults_at, worker=workers, one_step=st.booleans())
    def run_job(self, job: str, day: int, fault_at: FaultAt, worker: int, one_step: bool) -> None:
        """Runs a day's job. Its event is delivered again if the job didn't end, and maybe even if it did."""
        event = self.system.schedule(job, day)
        expected = self._expected_of(event)
        outcome = self.system.run_job(event, Injection(*fault_at) if fault_at else NOTHING, worker, one_step=one_step)
        note(f"  {event['job']} for {event['scheduled_time']} ended with {outcome}")
        wrong = f"{event} should end with {expected}, but ended with {outcome}"
        self.check_all([wrong] if self._is_whole(fault_at) and outcome not in expected else [])

    @rule(
        job=jobs,
        two_days=st.tuples(days, days),
        fault_at=faults_at,
        pause=st.tuples(st.sampled_from([2, 2, 3, 3, 4, 5, 1]), st.sampled_from([100, 100, 10, 0])),
        one_step=st.booleans(),
    )
    def run_job_on_two(
        self, job: str, two_days: tuple[int, int], fault_at: FaultAt, pause: tuple[int, int], one_step: bool
    ) -> None:
        """Pauses a run before a call, maybe until after its lease, and runs the job for the second event meanwhile."""
        before, paused_seconds = pause
        event, theirs = (self.system.schedule(job, day) for day in two_days)

        def meanwhile() -> None:
            self.system.clock.seconds += paused_seconds
            outcome = self.system.run_job(theirs, worker=1, one_step=one_step)
            note(f"  meanwhile, {theirs['job']} for {theirs['scheduled_time']} ended with {outcome}")

        outcome = self.system.run_job(event, Injection(*(fault_at or (None, 0)), meanwhile, before))
        note(f"  {event['job']} for {event['scheduled_time']} ended with {outcome}")
        self.check_all()

    @precondition(lambda self: self._waiting() or self.system.events)
    @rule(kind=outages, services=services, at=calls, deliveries=st.sampled_from([1, 2, 8]))
    def outage(self, kind: Fault, services: Sequence[str], at: int, deliveries: int) -> None:
        """From call `at` on all calls fail, for so many deliveries of all that waits, and runs of all jobs."""
        for _ in range(deliveries):
            note(f"  {kind.value}, of {' and '.join(services)}")
            letters = len(self.system.history.letters)
            injection = Injection(kind, at, services=services)
            for queue, waiting in self.system.waiting.items():
                numbers = waiting[:10]
                self.delivered += self._bodies(numbers)
                self.system.deliver(queue, numbers, injection)
            for event in list(self.system.events):
                self.system.run_job(event, injection)
            new = [letter for _, letter in self.system.history.letters[letters:]]
            healthy = [letter for letter in new if letter.attributes["reason_code"] not in OF_ITSELF]
            self.check_all(f"dead-lettered in an outage: {letter}" for letter in healthy if at == 1)
            at = 1

    @rule(seconds=st.sampled_from([1, 20, 100]))
    def advance(self, seconds: int) -> None:
        self.system.clock.seconds += seconds

    def teardown(self) -> None:
        """After the faults, the queues drain, and delivering all messages again changes nothing."""
        if not self.sound:
            return
        self.delivered += self._bodies(list(self.system.history.messages))
        self.system.drain()
        self.delivered += self._bodies(list(self.system.history.messages))
        self.check_all(self._unfinished())
        self.system.tally.done["tickets"] += self.system.tickets_taken()
        self.system.tally.done["entries on shards"] += sum(bool(entry.shards) for entry in self.books.entries)
        self.system.tally.outcomes.update(
            (entry.request["type"], entry.outcome.reason or entry.outcome.status) for entry in self.books.entries
        )
        before = self.system.everything()
        self.system.redeliver_everything()
        self.check_all([*quiescence.changed(before, self.system.everything()), *self._unfinished()])

    def check_all(self, wrong: Iterable[str] = ()) -> None:
        system, before, records = self.system, self.books, self.records
        self.books, self.records = system.books(), system.lock_records()
        sent, letters = system.history.messages.values(), system.history.letters
        found = [
            *wrong,
            *violations(self.books),
            *history.flipped(self.seen, self.books),
            *vanished(self._acknowledged(), self.books, ()),
            *history.unasked(before, self.books, self.delivered),
            *history.out_of_order(sent, self.books, letters),
            *windows.done_again(system.runs),
            *windows.undone(system.runs, self.records),
            *windows.forgotten(records, self.records),
            *windows.misreported(self.records, RECONCILE, len(self.books.accounts)),
            *windows.charged_twice(self.books),
            *self._wrong_profiles(),
        ]
        self.seen |= history.entries_of(self.books)
        self.delivered = []
        self.sound = not found
        assert self.sound, "\n".join(found)

    def _deliver(self, queue: str, numbers: Sequence[str], fault_at: FaultAt, worker: int) -> None:
        """A batch is of one queue of SQS: the administration's messages come in batches of their own."""
        for _, batch in itertools.groupby(numbers, key=self.system.source_of):
            self._deliver_batch(queue, [*batch], fault_at, worker)

    def _deliver_batch(self, queue: str, numbers: Sequence[str], fault_at: FaultAt, worker: int) -> None:
        self._note(queue, numbers, "a worker gets")
        self.delivered += self._bodies(numbers)
        acknowledged = self.system.deliver(queue, numbers, Injection(*fault_at) if fault_at else NOTHING, worker)
        back = [number for number in numbers if queue == PROFILES and not acknowledged[number]]
        self.check_all(
            f"message {number} should be upserted, but is back" for number in back if self._is_whole(fault_at)
        )

    def _deliver_to_two(
        self, queue: str, numbers: Sequence[str], others: Sequence[str], before: int, fault_at: FaultAt
    ) -> None:
        """A competing worker processes its messages before this worker's call number `before`."""
        if not numbers:
            return
        self._note(queue, numbers, "a worker gets")
        self._note(queue, others, f"meanwhile, before its call {before}, another gets")
        self.delivered += self._bodies([*numbers, *others])

        def meanwhile() -> None:
            self.system.deliver(queue, others, worker=1)

        self.system.deliver(queue, numbers, Injection(*(fault_at or (None, 0)), meanwhile, before))
        self.check_all()

    def _is_whole(self, fault_at: FaultAt) -> bool:
        return fault_at is None or fault_at[0] in RETRIED

    def _expected_of(self, event: dict[str, Any]) -> set[str]:
        """The expected outcomes of a run without interference, by the records."""
        job, window = event["job"], event["scheduled_time"]
        if window in windows.windows_done(self.records, job):
            return {"DoneBefore"}
        taken = self.records.get(job, {}).get("leased_until", "") >= self.system.leases_lapsed_by()
        return {"InProgress"} if taken else {"Done", "Continued"}

    def _wrong_profiles(self) -> Iterable[str]:
        """Checks the profiles if no update is waiting, because a waiting update may be in its profile or not."""
        letters = [letter for _, letter in self.system.dead[PROFILES]]
        if self.system.waiting[PROFILES] or not all(map(profiles_checker.is_poison, letters)):
            return []
        dead = {number for number, _ in self.system.history.letters}
        alive = [self.system.history.messages[number] for number in self.system.numbers[PROFILES] if number not in dead]
        if lost := [*profiles_checker.vanished([message.body for message in alive], [])]:
            return lost
        winners = profiles_checker.latest((decode_update(message.body), message.sent_at) for message in alive)
        return profiles_checker.violations(self.system.profiles(), winners)

    def _unfinished(self) -> list[str]:
        system = self.system
        dead = [letter for _, letter in system.dead[TRANSACTIONS]]
        dead_updates = [letter for _, letter in system.dead[PROFILES]]
        return [
            *quiescence.unfinished(self._bodies(self._waiting()), dead, self.system.books()),
            *(f"dead-lettered, but no poison: {each}" for each in dead_updates if not profiles_checker.is_poison(each)),
            *(f"never done: {event}" for event in system.events),
        ]

    def _acknowledged(self) -> list[str]:
        """The bodies of the transactions that were acknowledged, and aren't dead."""
        messages, dead = self.system.history.messages, {number for number, _ in self.system.history.letters}
        numbers = [number for number in self.system.numbers[TRANSACTIONS] if number not in dead]
        return [messages[number].body for number in numbers if messages[number].acknowledged is not None]

    def _send(self, queue: str, body: str) -> str:
        number = self.system.send(queue, body)
        note(f"  message {number} to {queue}: {body}")
        return number

    def _aimed(self, body: str) -> str:
        """Three of four messages that refer to a hold or to a transaction are sent about one that is there."""
        number = len(self.system.history.messages)
        if number % 4 == 0 or not ('"hold_id"' in body or '"of_transaction_id"' in body):
            return body
        message = json.loads(body)
        name = "hold_id" if "hold_id" in message else "of_transaction_id"
        there = [(each.account_id, hold_id) for each in self.books.accounts.values() for hold_id in each.open_holds]
        if name == "of_transaction_id":
            moved = [each for each in self.books.entries if each.outcome.amount]
            there = [(each.account_id, each.transaction_id, each.home_account_id) for each in moved]
        if there:
            account_id, message[name], *home = sorted(there)[number % len(there)]
            message |= dict(zip(["of_account_id"], home, strict=False))
            if home and number % 4 == 1:
                message["of_account_id"] = name_of(home[0])
            if message.get("to_account_id") == account_id:
                message["to_account_id"] = message["account_id"]
            message["account_id"] = account_id
        if message.get("to_account_id") == message["account_id"]:
            del message["to_account_id"]
        return json.dumps(message)

    def _note(self, queue: str, numbers: Sequence[str], who: str) -> None:
        note(f"  {who} messages {', '.join(numbers)} of {queue}")

    def _waiting(self) -> list[str]:
        return self.system.waiting[TRANSACTIONS] + self.system.waiting[PROFILES]

    def _bodies(self, numbers: Sequence[str]) -> list[str]:
        return [self.system.history.messages[number].body for number in numbers]

    @staticmethod
    def _picked(numbers: Sequence[str], picks: Sequence[int]) -> list[str]:
        return list(dict.fromkeys(numbers[pick % len(numbers)] for pick in picks)) if numbers else []
