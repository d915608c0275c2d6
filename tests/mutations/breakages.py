"""Deliberate breakages of the product: for each guarantee that no mutant of `operators` breaks, one or two that do."""

from collections.abc import Sequence
from types import CodeType
from typing import NamedTuple

from tools.local_aws.server import PROJECT

LIBRARY = "layers/conditional_writes/conditional_writes"
WORKERS = "layers/workers/workers"
LEDGER = "layers/ledger/ledger"


def patched(text: str, what: str, old: str, new: str) -> str:
    """Raises ValueError unless the old text occurs once. If the product changes, its breakages must, too."""
    if (found := text.count(old)) != 1:
        raise ValueError(f"{what}: found {found} times, expected once: {old!r}")
    return text.replace(old, new)


class Breakage(NamedTuple):
    """A mutant made by hand: replaces `old`, which is in a function of the file, once, by `new`."""

    what: str
    path: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"

    @property
    def name(self) -> tuple[str, str, str]:
        return self.path, "by hand", self.what

    @property
    def lines(self) -> Sequence[int]:
        text = self._text
        first = text[: text.index(self.old)].count("\n") + 1
        return range(first, first + self.old.rstrip("\n").count("\n") + 1)

    def compiled(self, filename: str) -> CodeType:
        return compile(patched(self._text, self.what, self.old, self.new), filename, "exec")

    @property
    def _text(self) -> str:
        return (PROJECT / self.path).read_text()


BREAKAGES = [
    Breakage(
        "a change of a versioned item doesn't assert its version",
        f"{LIBRARY}/core/requests.py",
        "return Update(key, values, condition, removed, expected=expected)",
        "return Update(key, values, exists(key.attributes[0][0]), removed, expected=expected)",
    ),
    Breakage(
        "a saved model loses the attributes that it doesn't know",
        f"{LIBRARY}/models/table.py",
        "for name, value in stored.items() if name not in known or name in after}",
        "for name, value in stored.items() if name in known and name in after}",
    ),
    Breakage(
        "a model that couldn't be loaded again is written",
        f"{LIBRARY}/models/table.py",
        "        self._check_comes_back(self.table.key_of(item), item, encoded)\n",
        "",
    ),
    Breakage(
        "a set becomes a list",
        f"{LIBRARY}/models/msgspec_models.py",
        "        return lambda elements: set(elements) or []\n",
        "        return lambda elements: elements\n",
    ),
    Breakage(
        "a change brings a deleted item back",
        f"{LIBRARY}/core/requests.py",
        '    return expected, Condition("({} = []) AND ({} = [])", names, (version, version_id))\n',
        '    return expected, Condition("({} = [] AND {} = []) OR attribute_not_exists({})",'
        " (*names, version_attribute), (version, version_id))\n",
    ),
    Breakage(
        "an account is committed apart from its journal entries",
        f"{LIBRARY}/core/loop.py",
        "        if alone is None:\n",
        "        for each in writes[:-1]:\n"
        "            method = {Put: 'put_item', Update: 'update_item'}[type(each)]\n"
        "            getattr(self._client, method)(**as_request(each, self.write_id))\n"
        "        if (alone := writes[-1]) is None:\n",
    ),
    Breakage(
        "a refused write doesn't ask for the current item",
        f"{LIBRARY}/core/requests.py",
        'request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"',
        'request["ReturnValuesOnConditionCheckFailure"] = "NONE"',
    ),
    Breakage(
        "an answer 5xx is taken for a refusal, as if nothing had been written",
        f"{LIBRARY}/core/steps.py",
        """        elif http.status_code != 400 or parsed.get("Error", {}).get("Code", "").isdigit():\n""",
        "        elif False:\n",
    ),
    Breakage(
        "a write whose answer came damaged is made a second time",
        f"{LIBRARY}/core/steps.py",
        "    unanswered = context.pop(_WAS_200, False)\n",
        "    unanswered = context.pop(_WAS_200, False) and False\n",
    ),
    Breakage(
        "an addition that is sent again counts twice",
        f"{LIBRARY}/core/requests.py",
        "if not isinstance(write, Update) or not write.accumulates:",
        "if True:",
    ),
    Breakage(
        "reads of a batch are eventually consistent",
        f"{LIBRARY}/core/unconditional.py",
        '{"Keys": [], "ConsistentRead": True}',
        '{"Keys": [], "ConsistentRead": False}',
    ),
    Breakage(
        "a rejection isn't recorded",
        f"{LEDGER}/fold.py",
        "return Decided(sides[0].entry.outcome, sides, reversed_before)",
        "return Decided(sides[0].entry.outcome, [] if decisions[0].reason else sides, reversed_before)",
    ),
    Breakage(
        "a transfer's accounts are committed apart",
        f"{LEDGER}/batch_poster.py",
        "            parents[root(other)] = root(first)\n",
        "            root(other), root(first)\n",
    ),
    Breakage(
        "a debit goes below the limit",
        f"{LEDGER}/core/rules.py",
        "amount < 0 and account.available < amount.copy_negate():",
        "amount < 0 and account.available + 1 < amount.copy_negate():",
    ),
    Breakage(
        "a resolved hold can be resolved again",
        f"{LEDGER}/core/transaction_types/hold_resolution.py",
        "holds = without_hold(account.open_holds, self.hold_id)",
        "holds = account.open_holds",
    ),
    Breakage(
        "a transaction of which a pool is the home is posted again on another shard when the pool has grown",
        f"{LEDGER}/core/pools.py",
        "_hash(transaction_id) % pool.opened",
        "_hash(transaction_id) % pool.shards",
    ),
    Breakage(
        "a key that DynamoDB leaves unread holds up the batch",
        f"{LEDGER}/batch_poster.py",
        "items |= read_once(self.client, keys, deadline, self._attributes)",
        "items |= read(self.client, keys, deadline, self._attributes)",
    ),
    Breakage(
        "a decision that ends the process takes its batch along",
        f"{LEDGER}/fold.py",
        "            except BaseException as error:",
        "            except Exception as error:",
    ),
    Breakage(
        "a message that waits for its account is dead at once",
        f"{LEDGER}/dispositions.py",
        "return Waiting(error.code, str(error))",
        "return Dead(error.code, str(error))",
    ),
    Breakage(
        "a suspect's attempt is written down after it",
        f"{WORKERS}/batches.py",
        "            self.attempts.begin([message for message in suspects if not message.attempt.begun], deadline)\n",
        "",
    ),
    Breakage(
        "a suspect is processed together with its neighbours",
        f"{WORKERS}/batches.py",
        "            return ()\n        return alone\n",
        "            return ()\n        return ()\n",
    ),
    Breakage(
        "a message that AWS couldn't process until its last hours is left to SQS, which deletes it",
        f"{WORKERS}/batches.py",
        "case Again(reason) if last_hours:",
        "case Again(reason) if False:",
    ),
    Breakage(
        "an attempt that failed counts as a kill, so that an outage condemns healthy messages",
        f"{WORKERS}/attempts.py",
        "message.attempt._replace(begun=0 if message.was_processed else message.begun_before)",
        "message.attempt",
    ),
    Breakage(
        "an end that couldn't be written down is never written, so that a brownout condemns healthy messages",
        f"{WORKERS}/attempts.py",
        "in reversed(range(END_TRIES)):",
        "in reversed(range(1)):",
    ),
    Breakage(
        "messages are acknowledged before they are processed",
        f"{WORKERS}/batches.py",
        "        measurements = self._process(together, work_deadline)\n",
        "        acknowledge(self.queue.client, self.queue.url, together, deadline)\n"
        "        measurements = self._process(together, work_deadline)\n",
    ),
    Breakage(
        "the first redelivery comes after eight seconds",
        f"{WORKERS}/redelivery.py",
        "        return most\n",
        "        return max(8, most)\n",
    ),
    Breakage(
        "a flood of waiting messages comes back together",
        f"{WORKERS}/redelivery.py",
        "SKIPPED_BY_A_FLOOD if len(waiting) >= FLOOD else 0",
        "0",
    ),
    Breakage(
        "the night's own messages delay payments",
        f"{LEDGER}/sending_job.py",
        ", group_id=self.group)",
        ")",
    ),
    Breakage(
        "a dead message that wasn't sent to the dead-letter queue is acknowledged",
        f"{WORKERS}/dead_letters.py",
        '            message.disposition = Again(f"{why}; {disposition.code}: {disposition.reason}")\n',
        "            del why\n",
    ),
    Breakage(
        "dead letters have no reason",
        f"{WORKERS}/dead_letters.py",
        'return _texts({"reason": reason, "reason_code": str(code)})',
        'return _texts({"reason_code": str(code)})',
    ),
    Breakage(
        "an earlier write of an entry overwrites a later one",
        f"{LIBRARY}/upserts/edit.py",
        "            self.limit(place, later.entry)\n",
        "            pass\n",
    ),
    Breakage(
        "a map that is taken for missing is overwritten",
        f"{LIBRARY}/upserts/edit.py",
        "                    self.expect_as_found(each)\n",
        "                    pass\n",
    ),
    Breakage(
        "a former holder releases and refreshes a lock that has another holder by now",
        f"{LIBRARY}/locks/lock.py",
        '        mine = equals("owner", self._held.owner)\n',
        '        mine = Condition("attribute_exists({})", ("lock_key",))\n',
    ),
    Breakage(
        "a lock's tokens begin anew if its record was deleted",
        f"{LIBRARY}/locks/lock.py",
        'token = max(int(now * 1_000_000), int((found or {}).get("token", 0)) + 1)',
        'token = int((found or {}).get("token", 0)) + 1',
    ),
    Breakage(
        "a lease is over without regard to the clock skew",
        f"{LIBRARY}/locks/lock.py",
        "lapsed = _timestamp(now - self.clock_skew_seconds)",
        "lapsed = _timestamp(now)",
    ),
    Breakage(
        "a window that is done is done again",
        f"{LIBRARY}/locks/lock.py",
        '            taken += [contains("windows_done", window), at_least("windows_done_through", window)]\n',
        "            pass\n",
    ),
    Breakage(
        "the report is written apart from the window's completion",
        f"{LIBRARY}/locks/lock.py",
        "        return self._release(self._with_this_window_done(), finished, writes)\n",
        "        yield from self._release(self._with_this_window_done(), finished)\n"
        "        if writes:\n"
        "            plan, deadline = Plan(None, writes), Deadline.after(CALL_SECONDS)\n"
        "            yield from steps(write)(self._locks.client, lambda _: plan, {}, deadline)\n",
    ),
    Breakage(
        "a job's checkpoint is saved before its step is done",
        f"{LEDGER}/sending_job.py",
        "            sent, skipped = self._send(page.items, messages_about)\n",
        """\
            if page.after is not None:
                yield Step({**progress, "after": page.after, "not yet": True})
            sent, skipped = self._send(page.items, messages_about)
""",
    ),
    Breakage(
        "the reconciliation reports a commit in progress as a mismatch",
        f"{LEDGER}/reconciler.py",
        "for pause_seconds in PAUSES_SECONDS:",
        "for pause_seconds in ():",
    ),
    Breakage(
        "an operator's release throws out a holder that came since",
        "tools/teller/job_release.py",
        "Update(wanted, released, as_seen,",
        'Update(wanted, released, ~absent("lock_key"),',
    ),
    Breakage(
        "a wrong checkpoint is replaced, and nobody is told",
        f"{LEDGER}/core/replay.py",
        "self.saved.version == version and self.saved != self.account:",
        "self.account is None:",
    ),
    Breakage(
        "the open holds of an account aren't compared with its journal",
        f"{LEDGER}/core/mismatches.py",
        "        if value == given[name]:\n",
        '        if value == given[name] or name == "holds":\n',
    ),
    Breakage(
        "all threads of a batch have large items at the same time",
        f"{LIBRARY}/core/steps.py",
        "        _thread.has_turn = True\n",
        "        _turns.release()\n",
    ),
    Breakage(
        "a thread that changes an item again and again leaves the others no time",
        f"{LIBRARY}/versioned/pacing.py",
        "            others = version - last.version - 1\n",
        "            others = 0\n",
    ),
    Breakage(
        "groups that wait in line hold up those on quiet accounts",
        f"{LEDGER}/batch_poster.py",
        "        groups.sort(key=lambda group: not ready.issuperset(group.keys))\n",
        "",
    ),
    Breakage(
        "a line waits for dead workers for ever",
        f"{LEDGER}/lines.py",
        "            if time.monotonic() - moved_at >= min(ahead, MOST_WAITED_FOR) * patience_seconds:\n",
        "            if False:\n",
    ),
    Breakage(
        "a ticket is taken on the account's own item",
        f"{LEDGER}/lines.py",
        'record = key(self.locks_table, lock_key=f"line {account_id!s}")',
        "record = account_key",
    ),
    Breakage(
        "a reader takes the index's word for what isn't there",
        f"{LEDGER}/table_reading.py",
        "if page.missing else page",
        "if False else page",
    ),
    Breakage(
        "a reader calls a statement complete that lacks an entry",
        f"{LEDGER}/statements.py",
        '"complete": not missing,',
        '"complete": True,',
    ),
    Breakage(
        "a reader calls a time final that a worker may still post before",
        f"{LEDGER}/statements.py",
        "return time <= now - CLOCK_SKEW",
        "return time <= now",
    ),
    Breakage(
        "an event that was throttled is never published again",
        f"{WORKERS}/event_bus.py",
        "code in _ABOUT_THE_EVENT)",
        "True)",
    ),
    Breakage(
        "the stream goes on after the last entry that failed, not from the first",
        "functions/publish_outcomes/app.py",
        "for number, _ in failed[:1]]",
        "for number, _ in failed[-1:]]",
    ),
    Breakage(
        "an entry is lost that neither the bus nor the dead-letter queue takes",
        f"{LEDGER}/outcome_publisher.py",
        "            if refusal:\n",
        "            if False:\n",
    ),
    Breakage(
        "a damaged entry ends the publisher, and the shard stands still",
        f"{LEDGER}/outcome_publisher.py",
        "except NotAJournalEntry as error:",
        "except NotImplementedError as error:",
    ),
    Breakage(
        "a bus that fails fails the batch",
        f"{WORKERS}/batches.py",
        "                self.tell_of_dead(dead, deadline)\n            except Exception:",
        "                self.tell_of_dead(dead, deadline)\n            except NotImplementedError:",
    ),
    Breakage(
        "while the index fails, versions are missing instead of left",
        f"{LEDGER}/republishing.py",
        "raise page.index_error",
        "pass",
    ),
    Breakage(
        "an exactly-once function's writes aren't in the record's transaction",
        f"{LIBRARY}/exactly_once/function.py",
        "[Put(record_key, record, free()), *planned.writes]",
        "[Put(record_key, record, free())]",
    ),
    Breakage(
        "an upsert of a versioned item makes no version",
        f"{LIBRARY}/versioned/table.py",
        "version_attribute=self._version,",
        "version_attribute=None,",
    ),
    Breakage(
        "a throttled page ends a query",
        f"{LIBRARY}/versioned/queries.py",
        "not in _THROTTLING_ERRORS or",
        "in _THROTTLING_ERRORS or",
    ),
    Breakage(
        "clients share a session, with the credentials and handlers of the first",
        f"{LIBRARY}/core/client.py",
        "copy.copy(_handlers(*BUILTIN_HANDLERS))",
        "copy.copy(_handlers())",
    ),
    Breakage(
        "a root is put over another one of its run",
        f"{LEDGER}/published_roots.py",
        ', IfNoneMatch="*")',
        ")",
    ),
    Breakage(
        "the newest version of a root counts",
        f"{LEDGER}/published_roots.py",
        'for version in page.get("Versions", [])}',
        'for version in reversed(page.get("Versions", []))}',
    ),
    Breakage(
        "an entry is published again whatever its seal is",
        f"{LEDGER}/republishing.py",
        "return not before or entry.seal in {seal_of(seal, entry) for seal in before}",
        "return not before or bool(entry.seal)",
    ),
]
