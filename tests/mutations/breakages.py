"""Deliberate breakages of the product: for each guarantee, a change that breaks it."""

from typing import NamedTuple

LIBRARY = "layers/conditional_writes/conditional_writes"
WORKERS = "layers/workers/workers"
LEDGER = "layers/ledger/ledger"

LOOP = "tests/unit/test_loop.py"
EXPLORE = "tests/unit/test_explore.py"
BATCHES = "tests/unit/test_batches.py"
EVENT_BUS = "tests/unit/test_event_bus.py"
OUTCOME_PUBLISHER = "tests/unit/test_outcome_publisher.py"
DEAD_LETTERS = "tests/unit/test_dead_letters.py"
BATCH_POSTER = "tests/unit/test_batch_poster.py"
CONTEXT = "tests/unit/test_decision_context.py"
TYPES = "tests/unit/test_transaction_types.py"
CURRENCIES = "tests/unit/test_currencies.py"
OWNERS = "tests/unit/test_owners_of_trouble.py"
HANDED_BACK = "tests/unit/test_handed_back.py"
LINES = "tests/integration/test_lines.py"
LOCKS = "tests/integration/test_locks.py"
UPSERTS = "tests/integration/test_upserts.py"
VERSIONED = "tests/integration/test_versioned.py"
ONCE = "tests/integration/test_exactly_once.py"
MODELS = "tests/integration/test_models.py"
CODECS = "tests/unit/test_codecs.py"
POSTING = "tests/integration/test_posting.py"
HOLDS = "tests/integration/test_holds.py"
REVERSALS = "tests/integration/test_reversals.py"
INTEREST = "tests/integration/test_sending_jobs.py"
IN_MOTO = "tests/integration/test_clients_in_moto.py"
QUERIES_ALONE = "tests/unit/test_queries.py"
OF_VERSIONED_ITEMS = "tests/integration/test_upserts_of_versioned_items.py"
SEGMENTS = "tests/integration/test_segments.py"
JOURNAL_VERSIONS = "tests/integration/test_journal_versions.py"
REPUBLISHING = "tests/integration/test_republishing.py"
STATEMENTS = "tests/integration/test_statements.py"
RECONCILIATION = "tests/integration/test_reconciliation.py"
REPLAY_OF_HOLDS = "tests/unit/test_replay_of_holds.py"
EVERY_CALL = "tests/faults/test_every_call.py"
OF_INTEREST = "tests/faults/test_every_call_of_jobs.py"
OF_OUTCOMES = "tests/faults/test_every_call_of_outcomes.py"
OUTAGES = "tests/faults/test_outages.py"
CHECKPOINTS = "tests/integration/test_checkpoints.py"
LONG_JOURNALS = "tests/integration/test_long_journals.py"
OF_RECONCILIATION = OF_INTEREST


class Breakage(NamedTuple):
    """Replaces `old`, which is in the file once, by `new`. One of `tests`, the fastest first, must fail."""

    what: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


BREAKAGES = [
    Breakage(
        "a change of a versioned item doesn't assert its version",
        f"{LIBRARY}/core/requests.py",
        "return Update(key, values, condition, removed, expected=expected)",
        "return Update(key, values, exists(key.attributes[0][0]), removed, expected=expected)",
        (VERSIONED, EVERY_CALL),
    ),
    Breakage(
        "a saved model loses the attributes that it doesn't know",
        f"{LIBRARY}/models/table.py",
        "for name, value in stored.items() if name not in known or name in after}",
        "for name, value in stored.items() if name in known and name in after}",
        (MODELS,),
    ),
    Breakage(
        "a model that couldn't be loaded again is written",
        f"{LIBRARY}/models/table.py",
        "        self._check_comes_back(self.table.key_of(item), item, encoded)\n",
        "",
        (MODELS,),
    ),
    Breakage(
        "a set becomes a list",
        f"{LIBRARY}/models/msgspec_models.py",
        "        return lambda elements: set(elements) or []\n",
        "        return lambda elements: elements\n",
        (CODECS,),
    ),
    Breakage(
        "a change brings a deleted item back",
        f"{LIBRARY}/core/requests.py",
        '    return expected, Condition("({} = []) AND ({} = [])", names, (version, version_id))\n',
        '    return expected, Condition("({} = [] AND {} = []) OR attribute_not_exists({})",'
        " (*names, version_attribute), (version, version_id))\n",
        (VERSIONED,),
    ),
    Breakage(
        "an account is committed apart from its journal entries",
        f"{LIBRARY}/core/loop.py",
        "                if alone is not None:\n",
        "                for each in writes[:-1]:\n                    _send_alone(client, each, self.write_id)\n"
        "                if alone := writes[-1]:\n",
        (EVERY_CALL,),
    ),
    Breakage(
        "a currency is missing from the list",
        f"{LEDGER}/core/currencies.py",
        '"BHD IQD JOD KWD LYD OMR TND"',
        '"BHD IQD JOD KWD LYD OMR"',
        (CURRENCIES,),
    ),
    Breakage(
        "a refused write doesn't ask for the current item",
        f"{LIBRARY}/core/requests.py",
        'request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"',
        'request["ReturnValuesOnConditionCheckFailure"] = "NONE"',
        ("tests/unit/test_requests.py",),
    ),
    Breakage(
        "an answer 5xx is taken for a refusal, as if nothing had been written",
        f"{LIBRARY}/core/prepared.py",
        "    elif http.status_code != 400:\n",
        "    elif False:\n",
        (LOOP,),
    ),
    Breakage(
        "a write whose answer came damaged is made a second time",
        f"{LIBRARY}/core/prepared.py",
        "    if context.pop(_WAS_200, False):\n",
        "    if context.pop(_WAS_200, False) and False:\n",
        (EXPLORE,),
    ),
    Breakage(
        "a transaction in progress is sent again with another token, and may take effect beside the first",
        f"{LIBRARY}/core/loop.py",
        "        if not self.unanswered:\n",
        "        if True:\n",
        (LOOP,),
    ),
    Breakage(
        "an addition that is sent again counts twice",
        f"{LIBRARY}/core/requests.py",
        "if not isinstance(write, Update) or not write.added:",
        "if True:",
        ("tests/unit/test_requests.py", UPSERTS, VERSIONED),
    ),
    Breakage(
        "reads of a batch are eventually consistent",
        f"{LIBRARY}/core/reading.py",
        '{"Keys": [], "ConsistentRead": True}',
        '{"Keys": [], "ConsistentRead": False}',
        ("tests/unit/test_reading.py",),
    ),
    Breakage(
        "an id with a changed payload is taken for a repetition",
        f"{LEDGER}/fold.py",
        "            if entry.request != request:\n",
        "            if False:\n",
        (BATCH_POSTER, POSTING),
    ),
    Breakage(
        "a rejection isn't recorded",
        f"{LEDGER}/fold.py",
        "return Decided(sides[0].entry.outcome, sides, reversed_before)",
        "return Decided(sides[0].entry.outcome, [] if decisions[0].reason else sides, reversed_before)",
        (BATCH_POSTER, POSTING),
    ),
    Breakage(
        "a transfer's accounts are committed apart",
        f"{LEDGER}/batch_poster.py",
        "            parents[root(other)] = root(first)\n",
        "            root(other), root(first)\n",
        (BATCH_POSTER, POSTING),
    ),
    Breakage(
        "a debit goes below the limit",
        f"{LEDGER}/core/rules.py",
        "amount < 0 and account.available < amount.copy_negate():",
        "amount < 0 and account.available + 1 < amount.copy_negate():",
        (TYPES,),
    ),
    Breakage(
        "what was reversed is counted apart on the payer's side and on the payee's",
        f"{LEDGER}/core/journal.py",
        "return EntryId(self.account_ids[0], self.transaction_id)",
        "return self.entry_id",
        (CONTEXT, REVERSALS),
    ),
    Breakage(
        "a resolved hold can be resolved again",
        f"{LEDGER}/core/transaction_types/hold_resolution.py",
        "holds = without_hold(account.open_holds, self.hold_id)",
        "holds = account.open_holds",
        (TYPES, HOLDS),
    ),
    Breakage(
        "a key that DynamoDB leaves unread holds up the batch",
        f"{LEDGER}/batch_poster.py",
        "items |= read_once(self.client, keys, deadline, self._attributes)",
        "items |= read(self.client, keys, deadline, self._attributes)",
        (OWNERS,),
    ),
    Breakage(
        "a commit that fails for one of its messages fails for all",
        f"{LEDGER}/batch_poster.py",
        "if not is_about_content(error):",
        "if True:",
        (OWNERS,),
    ),
    Breakage(
        "a decision that ends the process takes its batch along",
        f"{LEDGER}/fold.py",
        "            except BaseException as error:",
        "            except Exception as error:",
        (OWNERS,),
    ),
    Breakage(
        "a message that waits for its account is dead at once",
        f"{LEDGER}/dispositions.py",
        "return Waiting(error.code, str(error))",
        "return Dead(error.code, str(error))",
        (BATCH_POSTER, POSTING),
    ),
    Breakage(
        "a suspect's attempt is written down after it",
        f"{WORKERS}/batches.py",
        "            self.attempts.begin([message for message in suspects if not message.attempt.begun], deadline)\n",
        "",
        (BATCHES,),
    ),
    Breakage(
        "a suspect is processed together with its neighbours",
        f"{WORKERS}/batches.py",
        "            return ()\n        return alone\n",
        "            return ()\n        return ()\n",
        (BATCHES,),
    ),
    Breakage(
        "a message that AWS couldn't process until its last hours is left to SQS, which deletes it",
        f"{WORKERS}/batches.py",
        "case Again(reason) if last_hours:",
        "case Again(reason) if False:",
        (BATCHES,),
    ),
    Breakage(
        "an attempt that failed counts as a kill, so that an outage condemns healthy messages",
        f"{WORKERS}/attempts.py",
        "message.attempt._replace(begun=0 if message.was_processed else message.begun_before)",
        "message.attempt",
        (BATCHES, OUTAGES),
    ),
    Breakage(
        "an end that couldn't be written down is never written, so that a brownout condemns healthy messages",
        f"{WORKERS}/attempts.py",
        "END_TRIES = 10",
        "END_TRIES = 1",
        (OUTAGES,),
    ),
    Breakage(
        "messages are acknowledged before they are processed",
        f"{WORKERS}/batches.py",
        "        measurements = self._process(together, work_deadline)\n",
        "        acknowledge(self.queue.client, self.queue.url, together, deadline)\n"
        "        measurements = self._process(together, work_deadline)\n",
        (BATCHES, EVERY_CALL),
    ),
    Breakage(
        "the first redelivery comes after eight seconds",
        f"{WORKERS}/redelivery.py",
        "DELAYS_SECONDS = (2, 8, 32, 128, 512)",
        "DELAYS_SECONDS = (8, 8, 32, 128, 512)",
        ("tests/unit/test_redelivery.py",),
    ),
    Breakage(
        "a dead message that wasn't sent to the dead-letter queue is acknowledged",
        f"{WORKERS}/dead_letters.py",
        '            message.disposition = Again(f"{why}; {disposition.code}: {disposition.reason}")\n',
        "            del why\n",
        (DEAD_LETTERS, BATCHES, EVERY_CALL),
    ),
    Breakage(
        "dead letters have no reason",
        f"{WORKERS}/dead_letters.py",
        'return _texts({"reason": reason, "reason_code": str(code)})',
        'return _texts({"reason_code": str(code)})',
        (DEAD_LETTERS, POSTING),
    ),
    Breakage(
        "an earlier write of an entry overwrites a later one",
        f"{LIBRARY}/upserts/edit.py",
        "            self.limit(place, later.entry)\n",
        "            pass\n",
        (UPSERTS,),
    ),
    Breakage(
        "a map that is taken for missing is overwritten",
        f"{LIBRARY}/upserts/edit.py",
        "                    self.expect_as_found(each)\n",
        "                    pass\n",
        (UPSERTS,),
    ),
    Breakage(
        "a former holder releases and refreshes a lock that has another holder by now",
        f"{LIBRARY}/locks/lock.py",
        '        mine = equals("owner", self._held.owner)\n',
        '        mine = Condition("attribute_exists({})", ("lock_key",))\n',
        (LOCKS,),
    ),
    Breakage(
        "a lock's tokens begin anew if its record was deleted",
        f"{LIBRARY}/locks/lock.py",
        'token = max(int(now * 1_000_000), int((found or {}).get("token", 0)) + 1)',
        'token = int((found or {}).get("token", 0)) + 1',
        (LOCKS,),
    ),
    Breakage(
        "a lease is over without regard to the clock skew",
        f"{LIBRARY}/locks/lock.py",
        "lapsed = _timestamp(now - self.clock_skew_seconds)",
        "lapsed = _timestamp(now)",
        (LOCKS,),
    ),
    Breakage(
        "a window that is done is done again",
        f"{LIBRARY}/locks/lock.py",
        '            taken += [contains("windows_done", window), at_least("windows_done_through", window)]\n',
        "            pass\n",
        (LOCKS,),
    ),
    Breakage(
        "the report is written apart from the window's completion",
        f"{LIBRARY}/locks/lock.py",
        "        self._release(self._with_this_window_done(), finished, writes)\n",
        "        self._release(self._with_this_window_done(), finished)\n"
        "        if writes:\n            write_together(self._locks.client, writes)\n",
        (OF_RECONCILIATION,),
    ),
    Breakage(
        "a job's checkpoint is saved before its step is done",
        "functions/charge_overdraft_interest/app.py",
        """\
        send_all(sqs, QUEUE_URL, messages, Deadline.after(SENDING_SECONDS))
        metrics.add_metric("InterestTransactions", MetricUnit.Count, len(charges))
        after, sent, last = page.after, sent + len(charges), page.after is None
""",
        """\
        after, sent, last = page.after, sent + len(charges), page.after is None
        if not last:
            yield Step({"after": after, "sent": sent, "not yet": True})
        send_all(sqs, QUEUE_URL, messages, Deadline.after(SENDING_SECONDS))
        metrics.add_metric("InterestTransactions", MetricUnit.Count, len(charges))
""",
        (OF_INTEREST,),
    ),
    Breakage(
        "the reconciliation reports a commit in progress as a mismatch",
        f"{LEDGER}/reconciler.py",
        "PAUSES_SECONDS = (0.05, 0.2, 1.0)",
        "PAUSES_SECONDS = ()",
        (RECONCILIATION,),
    ),
    Breakage(
        "an operator's release throws out a holder that came since",
        "tools/teller/job_release.py",
        "Update(wanted, released, as_seen,",
        'Update(wanted, released, ~absent("lock_key"),',
        ("tests/integration/test_job_release.py",),
    ),
    Breakage(
        "each segment that finds all parts makes the report",
        f"{WORKERS}/segments.py",
        'finished, absent("finished_at"))',
        "finished)",
        (SEGMENTS,),
    ),
    Breakage(
        "the report is made of the parts that are there",
        f"{WORKERS}/segments.py",
        "if len(parts) < segments:",
        "if not parts:",
        (SEGMENTS,),
    ),
    Breakage(
        "each segment has all accounts",
        f"{LEDGER}/account_pages.py",
        "if segment.of > 1:",
        "if False:",
        (INTEREST,),
    ),
    Breakage(
        "a wrong checkpoint is replaced, and nobody is told",
        f"{LEDGER}/core/replay.py",
        "self.saved.version == version and self.saved != self.account:",
        "self.account is None:",
        ("tests/unit/test_replay.py", CHECKPOINTS),
    ),
    Breakage(
        "an account that was changed without an entry is read from an empty range",
        f"{LEDGER}/reconciler.py",
        "checkpoint.account.version >= account.version",
        "checkpoint.account.version > account.version",
        (CHECKPOINTS,),
    ),
    Breakage(
        "the open holds of an account aren't compared with its journal",
        f"{LEDGER}/core/mismatches.py",
        "        if value == given[name]:\n",
        '        if value == given[name] or name == "holds":\n',
        (REPLAY_OF_HOLDS,),
    ),
    Breakage(
        "all threads of a batch have large items at the same time",
        f"{LIBRARY}/core/prepared.py",
        "    this_thread.is_taken = True\n",
        "    _turns.release()\n",
        (HANDED_BACK,),
    ),
    Breakage(
        "a thread that changes an item again and again leaves the others no time",
        f"{LIBRARY}/versioned/pacing.py",
        "            others = version - last.version - 1\n",
        "            others = 0\n",
        ("tests/unit/test_pacing.py",),
    ),
    Breakage(
        "groups that wait in line hold up those on quiet accounts",
        f"{LEDGER}/batch_poster.py",
        "        groups.sort(key=lambda group: not ready.issuperset(group.keys))\n",
        "",
        (LINES,),
    ),
    Breakage(
        "a line waits for dead workers for ever",
        f"{LEDGER}/lines.py",
        "            if time.monotonic() - moved_at >= min(ahead, MOST_WAITED_FOR) * patience_seconds:\n",
        "            if False:\n",
        (LINES,),
    ),
    Breakage(
        "a ticket is taken on the account's own item",
        f"{LEDGER}/lines.py",
        'record = key(self.locks_table, lock_key=f"line {account_id!s}")',
        "record = account_key",
        (LINES,),
    ),
    Breakage(
        "a reader takes the index's word for what isn't there",
        f"{LEDGER}/journal_versions.py",
        "if page.missing else page",
        "if False else page",
        (JOURNAL_VERSIONS, STATEMENTS),
    ),
    Breakage(
        "a reader calls a statement complete that lacks an entry",
        f"{LEDGER}/statements.py",
        '"complete": not missing,',
        '"complete": True,',
        (STATEMENTS,),
    ),
    Breakage(
        "a reader calls a time final that a worker may still post before",
        f"{LEDGER}/statements.py",
        "return time <= now - CLOCK_SKEW",
        "return time <= now",
        (STATEMENTS,),
    ),
    Breakage(
        "an event that was throttled is never published again",
        f"{WORKERS}/event_bus.py",
        "code in _ABOUT_THE_EVENT)",
        "True)",
        (EVENT_BUS, OF_OUTCOMES),
    ),
    Breakage(
        "the stream goes on after the last entry that failed, not from the first",
        "functions/publish_outcomes/app.py",
        "for number, _ in failed[:1]]",
        "for number, _ in failed[-1:]]",
        (OF_OUTCOMES,),
    ),
    Breakage(
        "an entry is lost that neither the bus nor the dead-letter queue takes",
        f"{LEDGER}/outcome_publisher.py",
        "            if refusal:\n",
        "            if False:\n",
        (OUTCOME_PUBLISHER, OF_OUTCOMES),
    ),
    Breakage(
        "a damaged entry ends the publisher, and the shard stands still",
        f"{LEDGER}/outcome_publisher.py",
        "except NotAnEntry as error:",
        "except NotImplementedError as error:",
        (OUTCOME_PUBLISHER, OF_OUTCOMES),
    ),
    Breakage(
        "a bus that fails fails the batch",
        f"{WORKERS}/batches.py",
        "                self.tell_of_dead(dead, deadline)\n            except Exception:",
        "                self.tell_of_dead(dead, deadline)\n            except NotImplementedError:",
        (BATCHES,),
    ),
    Breakage(
        "while the index fails, versions are missing instead of left",
        f"{LEDGER}/republishing.py",
        "raise page.index_error",
        "pass",
        (REPUBLISHING,),
    ),
    Breakage(
        "an exactly-once function's writes aren't in the record's transaction",
        f"{LIBRARY}/exactly_once/function.py",
        "[Put(record_key, record, free()), *planned.writes]",
        "[Put(record_key, record, free())]",
        (ONCE,),
    ),
    Breakage(
        "an expired record of an exactly-once function is replayed",
        f"{LIBRARY}/exactly_once/record.py",
        "if found is None or is_over(found):",
        "if found is None:",
        (ONCE,),
    ),
    Breakage(
        "a request without a key is done without a record",
        f"{LIBRARY}/exactly_once/powertools.py",
        "store.raise_on_no_idempotency_key = True",
        "store.raise_on_no_idempotency_key = False",
        (ONCE,),
    ),
    Breakage(
        "an upsert of a versioned item makes no version",
        f"{LIBRARY}/versioned/table.py",
        "version_attribute=self._version,",
        "version_attribute=None,",
        (OF_VERSIONED_ITEMS,),
    ),
    Breakage(
        "a throttled page ends a query",
        f"{LIBRARY}/versioned/queries.py",
        "not in _THROTTLING_ERRORS or",
        "in _THROTTLING_ERRORS or",
        (QUERIES_ALONE,),
    ),
    Breakage(
        "clients share a session, with the credentials and handlers of the first",
        f"{LIBRARY}/core/client.py",
        "copy.copy(_handlers(*BUILTIN_HANDLERS))",
        "copy.copy(_handlers())",
        (IN_MOTO,),
    ),
]
