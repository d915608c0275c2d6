"""Races planted in a copy of the product: only some orders of concurrent workers, or of faults, show them.

`python -m tests.mutations.races [WORDS]` searches the scenario that each names, for a minute at most, and runs the
script of what it finds again, twenty times.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.mutations.breakages import LEDGER, LIBRARY, WORKERS, patched
from tools.local_aws.server import PROJECT

SECONDS = 60
"""Of CPU, in which each is found."""
TIMES = 20


class Race(NamedTuple):
    """Replaces `old`, which is in the file once, by `new`. `scenario` has words of the claim that finds it."""

    what: str
    path: str
    old: str
    new: str
    scenario: str


FOLD, LOOP, LOCKS, ONCE, EDIT = (
    f"{LEDGER}/fold.py",
    f"{LIBRARY}/core/loop.py",
    f"{LIBRARY}/locks/lock.py",
    f"{LIBRARY}/exactly_once/function.py",
    f"{LIBRARY}/upserts/edit.py",
)

ASSERTED = "*[replacing(key, self.before[key], item) for key, item in self.changed.items()],"


def unasserted(when: str) -> str:
    """The changes of accounts without their versions, when that is so."""
    write = "replacing(key, self.before[key], item)"
    changed = f'{write}._replace(condition=absent("nothing")) if {when} else {write}'
    return f"*[{changed} for key, item in self.changed.items()],"


def of_type(name: str) -> str:
    """A commit of messages of this type alone, of an account that exists."""
    return f'self.before[key] and {{type(each.decoded).__name__ for each in self.dispositions}} == {{"{name}"}}'


RACES = [
    Race(
        "a condition left out: a journal entry may be there already",
        FOLD,
        "Put(key, item, NO_ENTRY)",
        "Put(key, item)",
        "two deliveries of one payment",
    ),
    Race(
        "a version not asserted: of an account whose balance stays",
        FOLD,
        ASSERTED,
        unasserted('(self.before[key] or {}).get("balance") == item["balance"]'),
        "a hold is posted, voided or expires",
    ),
    Race(
        "a double release of a hold: the version isn't asserted if less is held",
        FOLD,
        ASSERTED,
        unasserted('(self.before[key] or {}).get("held", 0) > item.get("held", 0)'),
        "two postings of one hold",
    ),
    Race(
        "a ticket taken over without asserting: whose turn it is commits without the version",
        FOLD,
        ASSERTED,
        unasserted("key in self.served_accounts and self.before[key]"),
        "behind a dead ticket",
    ),
    Race(
        "a read before a mark: what was read before the wait in line is taken for the account's state",
        f"{LEDGER}/batch_poster.py",
        "        self.items = {**self.items, account_key: account}\n",
        '        account = account and account | {"balance": self.items[account_key]["balance"]}\n'
        "        self.items = {**self.items, account_key: account}\n",
        "two workers commit in turn",
    ),
    Race(
        "a transfer asserts the version of its payer alone",
        FOLD,
        ASSERTED,
        unasserted("key != next(iter(self.changed)) and self.before[key]"),
        "two transfers back and forth",
    ),
    Race(
        "a redelivery commits without the versions",
        FOLD,
        ASSERTED,
        unasserted("self.before[key] and any(each.delivered_before for each in self.dispositions)"),
        "a redelivery and another payment",
    ),
    Race(
        "a reversal asserts the version of its first account alone",
        FOLD,
        ASSERTED,
        unasserted(of_type("Reverse") + " and key != min(self.changed)"),
        "a reversal and a payment of its money",
    ),
    Race(
        "a write that isn't known to be made is made again",
        LOOP,
        "            raise OutcomeUnknown(alone.key, item, why)\n",
        "            pass\n",
        "two changes of one item",
    ),
    Race(
        "a later version counts as a proof that a write was never made",
        LOOP,
        "if version == values[attribute]:",
        "if version >= values[attribute]:",
        "three changes of one item",
    ),
    Race(
        "a server's error is taken for its word that nothing was done",
        f"{LIBRARY}/core/steps.py",
        "elif http.status_code != 400 or",
        "elif http.status_code < 400 and",
        "two changes of one item",
    ),
    Race(
        "a damaged answer is taken for no try",
        f"{LIBRARY}/core/steps.py",
        "        context[_WAS_200] = True",
        "        context[_WAS_200] = False",
        "two changes of one item",
    ),
    Race(
        "a retry after an unknown outcome with a new token",
        LOOP,
        "        if not self.unanswered:\n",
        "        if self.unanswered:\n            self.write_id = uuid.uuid4().hex\n        if True:\n",
        "two additions in one transaction",
    ),
    Race(
        "a lock released by who lost it",
        LOCKS,
        'mine = equals("owner", self._held.owner)',
        'mine = equals("owner", self._held.owner) if "released_at" not in values else at_least("token", 0)',
        "paused for longer than its lease",
    ),
    Race(
        "a lock taken over before its lease has ended",
        LOCKS,
        'taken = [at_least("leased_until", lapsed), at_least("token", token)]',
        'taken = [at_least("token", token)]',
        "two holders follow",
    ),
    Race(
        "a checkpoint without condition",
        LOCKS,
        'mine = equals("owner", self._held.owner)',
        'mine = equals("owner", self._held.owner) if "checkpoint" not in values else at_least("token", 0)',
        "two of them paused",
    ),
    Race(
        "a window completed before its last writes are made",
        LOCKS,
        "            written = yield from steps(write)(self._locks.client, lambda _: plan, {}, deadline, stop=",
        "            plan, rest = Plan(None, [update], once=True), Plan(None, writes, once=True)\n"
        "            written = yield from steps(write)(self._locks.client, lambda _: plan, {}, deadline)\n"
        "            if writes:\n"
        "                yield from steps(write)(self._locks.client, lambda _: rest, {}, deadline, stop=",
        "two workers do a window's steps",
    ),
    Race(
        "a run's report written after instead of with its completion",
        f"{WORKERS}/scheduled_jobs.py",
        "                lock.complete(self._record(run, step.report), *step.writes)\n",
        "                lock.complete(*step.writes)\n"
        "                from conditional_writes.core.requests import as_request\n"
        '                self.locks.client.put_item(**as_request(self._record(run, step.report), "w"))\n',
        "two messages for one time",
    ),
    Race(
        "a record of a call written without asking whether there is one",
        ONCE,
        "[Put(record_key, record, free()), *planned.writes]",
        "[Put(record_key, record), *planned.writes]",
        "a function without items",
    ),
    Race(
        "a record written after instead of with the commit",
        ONCE,
        "            return Plan(Ran(result, replayed=False), [Put(record_key, record, free()), *planned.writes])\n",
        "            if planned.writes:\n"
        "                write(client, lambda seen: Plan(None, [] if seen else planned.writes), {}, deadline)\n"
        "            return Plan(Ran(result, replayed=False), [Put(record_key, record, free())])\n",
        "two calls of a function",
    ),
    Race(
        "a message has another id each time that it is sent",
        f"{LIBRARY}/exactly_once/outbox.py",
        'message_id = f"{write_id}-{number}"',
        'message_id = f"{write_id}-{id(message)}-{id(fields)}"',
        "two chains",
    ),
    Race(
        "a publisher takes records whose messages weren't sent",
        f"{LIBRARY}/exactly_once/publishing.py",
        "first = min(alive, default=len(records))",
        "first = len(records)",
        "a chain of two functions",
    ),
    Race(
        "an upsert that doesn't ask for the clock of what it replaces",
        EDIT,
        "            self.limit(place, later.entry)\n",
        """            self.limit(place, "~")\n""",
        "of two values of one entry",
    ),
    Race(
        "an upsert that doesn't ask whether the profile was erased",
        EDIT,
        "        if time:\n            self.limit",
        "        if False:\n            self.limit",
        "an erasure and an earlier value",
    ),
    Race(
        "an event that got no answer is taken for published",
        f"{WORKERS}/event_bus.py",
        "return dict.fromkeys(entries, Failure(str(error) or repr(error), is_about_events))",
        "return dict.fromkeys(entries, Failure(str(error), True) if is_about_events else None)",
        "a killed publisher",
    ),
    Race(
        "a waiting worker goes on from the checkpoint that it saw when the lock was taken",
        LOCKS,
        "        while True:\n"
        "            try:\n"
        "                written = yield from steps(write)(\n"
        "                    self.client,\n"
        "                    lambda observed: self._plan(wanted, observed.get(wanted.key)),\n"
        "                    {},\n"
        "                    Deadline.after(CALL_SECONDS),\n"
        "                )\n"
        "                return (yield from self._made(wanted, written.result, written.found[wanted.key] or {}))\n",
        "        seen = {}\n"
        "        while True:\n"
        "            try:\n"
        "                written = yield from steps(write)(\n"
        "                    self.client,\n"
        "                    lambda observed: [\n"
        "                        seen or seen.update(observed), self._plan(wanted, observed.get(wanted.key))\n"
        "                    ][1],\n"
        "                    {},\n"
        "                    Deadline.after(CALL_SECONDS),\n"
        "                )\n"
        "                record = written.found[wanted.key] or {}\n"
        '                earlier = {"checkpoint": seen[wanted.key].get("checkpoint")} if seen.get(wanted.key) else {}\n'
        "                return (yield from self._made(wanted, written.result, record | earlier))\n",
        "a worker that waits for the lock",
    ),
    Race(
        "the first plan's result is recorded with the writes of the last",
        ONCE,
        "record = call.record_of(planned.result)",
        'record = call.record_of(vars(plan).setdefault("first", planned.result))',
        "three calls of a function",
    ),
    Race(
        "a refused call isn't asked about: another call for its request may have been first",
        ONCE,
        "            return (yield from self._recorded_or_raise(call, ran.error, deadline))\n",
        "            raise ran.error\n",
        "two calls of a function",
    ),
    Race(
        "a refused call is asked about in what was read",
        ONCE,
        "            if record_key not in observed:\n                return Plan(None, [Check(record_key, free())])\n",
        "            if record_key not in observed:\n                return Plan(None)\n",
        "two calls of a function",
    ),
    Race(
        "a posting of a hold asserts the version of the held account alone",
        FOLD,
        ASSERTED,
        unasserted(of_type("PostHold") + ' and not self.before[key].get("holds")'),
        "a hold is posted to an account that is paid",
    ),
    Race(
        "a rejection that depends on a reversal doesn't ask whether there was another",
        FOLD,
        "*[unchanged(key, self.before[key]) for key in sorted(self.reversals.difference(self.changed))],",
        "",
        "a reversal that depends",
    ),
    Race(
        "a statement has the version of an account that is read after its entries",
        f"{LEDGER}/statements.py",
        '            "account_version": account.version,\n            "entries"',
        '            "account_version": read_account(self.client, self.tables, account.account_id, deadline).version,\n'
        '            "entries"',
        "a statement beside a payment",
    ),
    Race(
        "what a ticket has seen is committed with what was read after it",
        f"{LEDGER}/batch_poster.py",
        "        self.items = {**self.items, account_key: account}\n",
        "        if account:\n            observed = {name: account[name] for name in ('version', 'cw:version_id')}\n"
        "            self.items[account_key] |= observed\n",
        "two workers commit in turn",
    ),
    Race(
        "an entry that was looked for in vain is put without a condition: the account's version would say the same",
        FOLD,
        "Put(key, item, NO_ENTRY)",
        "Put(key, item, NO_ENTRY if self.before.get(key, item) else None)",
        "a redelivery beside the first",
    ),
]


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.mutations.races", description=__doc__)
    arguments.add_argument("words", nargs="*", help="only the races whose descriptions have all of these words")
    words = arguments.parse_args().words
    chosen = [each for each in RACES if all(word in each.what for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        project = copied(Path(folder) / "project")
        missed = sum(not is_found(project, each) for each in chosen)
    print(f"{len(chosen)} races, {len(chosen) - missed} found")
    sys.exit(1 if missed or not chosen else 0)


def copied(project: Path) -> Path:
    """A copy of the product and its tests that uses the original's environment."""
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    (project / ".venv").symlink_to(PROJECT / ".venv")
    return project


def is_found(project: Path, planted: Race) -> bool:
    path = project / planted.path
    whole = path.read_text()
    path.write_text(patched(whole, planted.what, planted.old, planted.new))
    try:
        search = subprocess.run(
            [project / ".venv/bin/python", "-m", "tests.explore", *planted.scenario.split(), "--again", str(TIMES)],
            cwd=project,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ":".join(layers(project))},
            capture_output=True,
            text=True,
            timeout=10 * SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"NOT FOUND  {planted.what}", flush=True)
        return False
    finally:
        path.write_text(whole)
    last = (search.stdout + search.stderr[-2000:]).strip().splitlines()
    print(f"{'found' if search.returncode == 0 else 'NOT FOUND'}  {planted.what}: {' '.join(last[-2:])}", flush=True)
    return search.returncode == 0


def layers(project: Path) -> list[str]:
    return [str(project), *(str(project / "layers" / name) for name in ("conditional_writes", "workers", "ledger"))]


if __name__ == "__main__":
    main()
