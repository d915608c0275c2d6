"""Deliberate breakages of the product: for each guarantee, a change that breaks it."""

from typing import NamedTuple

LIBRARY = "layers/conditional_writes/conditional_writes"
WORKERS = "layers/workers/workers"
LEDGER = "layers/ledger/ledger"

LOOP = "tests/unit/test_loop.py"
BATCHES = "tests/unit/test_batches.py"
DEAD_LETTERS = "tests/unit/test_dead_letters.py"
BATCH_POSTER = "tests/unit/test_batch_poster.py"
CONTEXT = "tests/unit/test_decision_context.py"
LOCKS = "tests/integration/test_locks.py"
UPSERTS = "tests/integration/test_upserts.py"
VERSIONED = "tests/integration/test_versioned.py"
POSTING = "tests/integration/test_posting.py"
INTEREST = "tests/integration/test_interest.py"
EVERY_CALL = "tests/faults/test_every_call.py"
OF_INTEREST = "tests/faults/test_every_call_of_interest.py"
OF_RECONCILIATION = "tests/faults/test_every_call_of_reconciliation.py"


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
        f"{LIBRARY}/item_diff.py",
        "return Update(key, values, condition, removed, expected=expected)",
        "return Update(key, values, exists(key.attributes[0][0]), removed, expected=expected)",
        (VERSIONED, EVERY_CALL),
    ),
    Breakage(
        "a change brings a deleted item back",
        f"{LIBRARY}/item_diff.py",
        "    condition = version_is(version, version_attribute)\n",
        "    condition = version_is(version, version_attribute) | absent(version_attribute)\n",
        (VERSIONED,),
    ),
    Breakage(
        "an account is committed apart from its journal entries",
        f"{LIBRARY}/loop.py",
        "        _send_together(client, writes, write_id)\n    except",
        "        for each in writes:\n            _send_alone(client, each, write_id)\n    except",
        (EVERY_CALL,),
    ),
    Breakage(
        "a refused write doesn't ask for the current item",
        f"{LIBRARY}/requests.py",
        'request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"',
        'request["ReturnValuesOnConditionCheckFailure"] = "NONE"',
        ("tests/unit/test_requests.py",),
    ),
    Breakage(
        "a write that is sent again doesn't recognize its own effect",
        f"{LIBRARY}/loop.py",
        "if not answer.refused or answer.has_mark_of(write_id):",
        "if not answer.refused:",
        (LOOP, LOCKS, VERSIONED),
    ),
    Breakage(
        "a write that may have taken effect is made a second time",
        f"{LIBRARY}/loop.py",
        "        if unanswered:\n            _check_outcome_is_known(planned, answer.found)\n",
        "",
        (VERSIONED,),
    ),
    Breakage(
        "an addition that is sent again counts twice",
        f"{LIBRARY}/requests.py",
        "if not isinstance(write, Update) or not write.added:",
        "if True:",
        ("tests/unit/test_requests.py", UPSERTS, VERSIONED),
    ),
    Breakage(
        "reads of a batch are eventually consistent",
        f"{LIBRARY}/reading.py",
        '{"Keys": [], "ConsistentRead": True}',
        '{"Keys": [], "ConsistentRead": False}',
        ("tests/unit/test_reading.py",),
    ),
    Breakage(
        "an id with a changed payload is taken for a repetition",
        f"{WORKERS}/staged_record.py",
        "            self._validate_payload(data_record, self.existing)\n",
        "",
        ("tests/unit/test_staged_record.py", BATCH_POSTER, POSTING),
    ),
    Breakage(
        "a rejection isn't recorded",
        f"{LEDGER}/batch_poster.py",
        "if payload_hash is not None:",
        "if payload_hash is not None and outcome.reason is None:",
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
        "if amount < 0 and balance < account.overdraft_limit:",
        "if amount < 0 and balance < account.overdraft_limit - 1:",
        ("tests/unit/test_rules.py",),
    ),
    Breakage(
        "an earlier journal entry that a decision refers to isn't read",
        f"{LEDGER}/batch_poster.py",
        "entries = transaction.referred_entries + (transaction.entry_ids if message.delivered_before else ())",
        "entries = transaction.entry_ids if message.delivered_before else ()",
        (CONTEXT,),
    ),
    Breakage(
        "the journal replay doesn't see the entries that a decision refers to",
        f"{LEDGER}/core/replay.py",
        "yield from _wrong_decision(entry, message, replayed, other_sides, Context(earlier))",
        "yield from _wrong_decision(entry, message, replayed, other_sides, Context())",
        (CONTEXT,),
    ),
    Breakage(
        "a message that waits for its account is dead at once",
        f"{LEDGER}/dispositions.py",
        "return Again(error.code, str(error), delay_seconds=growing_delay_seconds(message.receive_count))",
        "return Dead(error.code, str(error))",
        (BATCH_POSTER, POSTING),
    ),
    Breakage(
        "messages that failed are acknowledged",
        f"{WORKERS}/batches.py",
        "returned_ids = [message.message_id for message in messages if isinstance(message.disposition, Again)]",
        "returned_ids: list[str] = []",
        (BATCHES, POSTING),
    ),
    Breakage(
        "records that can't be read are acknowledged",
        f"{WORKERS}/batches.py",
        "for each in unreadable_ids + returned_ids",
        "for each in returned_ids",
        (BATCHES,),
    ),
    Breakage(
        "a message whose retries are exhausted is left to SQS, which gives no reason",
        f"{WORKERS}/batches.py",
        "if message.receive_count >= self.queue.maximum_deliveries:",
        "if message.receive_count > self.queue.maximum_deliveries:",
        (BATCHES, POSTING),
    ),
    Breakage(
        "a dead message that wasn't sent to the dead-letter queue is acknowledged",
        f"{WORKERS}/dead_letters.py",
        '            message.disposition = Again(disposition.code, f"{error}; {disposition.reason}", error=error)\n',
        "            del error\n",
        (DEAD_LETTERS, BATCHES, EVERY_CALL),
    ),
    Breakage(
        "dead letters have no reason",
        f"{WORKERS}/dead_letters.py",
        '| {"reason": _text(reason), "reason_code": _text(disposition.code)},',
        '| {"reason_code": _text(disposition.code)},',
        (DEAD_LETTERS, POSTING),
    ),
    Breakage(
        "dead letters have no reason code",
        f"{WORKERS}/dead_letters.py",
        '| {"reason": _text(reason), "reason_code": _text(disposition.code)},',
        '| {"reason": _text(reason)},',
        (DEAD_LETTERS,),
    ),
    Breakage(
        "a message that waits comes again only after the visibility timeout",
        f"{WORKERS}/redelivery.py",
        "client.change_message_visibility_batch(QueueUrl=queue_url, Entries=list(batch))",
        "list(batch)",
        ("tests/unit/test_redelivery.py", BATCHES),
    ),
    Breakage(
        "messages that the queue refused are forgotten",
        f"{WORKERS}/sending.py",
        'for entry in response.get("Failed", [])',
        "for entry in []",
        ("tests/unit/test_sending.py",),
    ),
    Breakage(
        "an earlier write of an entry overwrites a later one",
        f"{LIBRARY}/upserts/clocks.py",
        "draft.forbidden.append(at_least((attribute, name), new))\n",
        "pass\n",
        (UPSERTS,),
    ),
    Breakage(
        "a map that is taken for missing is overwritten",
        f"{LIBRARY}/upserts/plan.py",
        "            draft.required.append(absent(path))\n            draft.values[path] = {}\n",
        "            draft.values[path] = {}\n",
        (UPSERTS,),
    ),
    Breakage(
        "a former holder releases and refreshes a lock that has another holder by now",
        f"{LIBRARY}/locks.py",
        '        mine = equals("owner", self._held.owner)\n',
        '        mine = Condition("attribute_exists({})", ("lock_key",))\n',
        (LOCKS,),
    ),
    Breakage(
        "the condition of a holder's own writes holds for others, too",
        f"{LIBRARY}/locks.py",
        'return Check(self._key, equals("owner", self._held.owner))',
        'return Check(self._key, Condition("attribute_exists({})", ("lock_key",)))',
        (LOCKS,),
    ),
    Breakage(
        "a lock's tokens begin anew if its record was deleted",
        f"{LIBRARY}/locks.py",
        'token = max(int(now * 1_000_000), int((found or {}).get("token", 0)) + 1)',
        'token = int((found or {}).get("token", 0)) + 1',
        (LOCKS,),
    ),
    Breakage(
        "a lease is over without regard to the clock skew",
        f"{LIBRARY}/locks.py",
        "lapsed = _timestamp(now - self.clock_skew_seconds)",
        "lapsed = _timestamp(now)",
        (LOCKS,),
    ),
    Breakage(
        "a window that is done is done again",
        f"{LIBRARY}/locks.py",
        '            taken += [contains("windows_done", window), at_least("windows_done_through", window)]\n',
        "            pass\n",
        (LOCKS,),
    ),
    Breakage(
        "a window that is forgotten, because later ones were done, is done again",
        f"{LIBRARY}/locks.py",
        '            taken += [contains("windows_done", window), at_least("windows_done_through", window)]\n',
        '            taken += [contains("windows_done", window)]\n',
        (LOCKS,),
    ),
    Breakage(
        "an error in the guarded block is swallowed",
        f"{LIBRARY}/locks.py",
        "            lock.release()\n        raise\n",
        "            lock.release()\n",
        (LOCKS,),
    ),
    Breakage(
        "the report is written apart from the window's completion",
        f"{LIBRARY}/locks.py",
        "        self._release(self._with_this_window_done(), finished, writes)\n",
        "        self._release(self._with_this_window_done(), finished)\n"
        "        if writes:\n            write_together(self._locks.client, writes)\n",
        (OF_RECONCILIATION,),
    ),
    Breakage(
        "a job's checkpoint is saved before its step is done",
        "functions/charge_overdraft_interest/app.py",
        """\
        send_all(sqs, QUEUE_URL, [Message(json.dumps(one.canonical_payload())) for one in charges])
        metrics.add_metric("InterestTransactions", MetricUnit.Count, len(charges))
        after, sent, last = page.after, sent + len(charges), page.after is None
""",
        """\
        after, sent, last = page.after, sent + len(charges), page.after is None
        if not last:
            yield Step({"after": after, "sent": sent, "not yet": True})
        send_all(sqs, QUEUE_URL, [Message(json.dumps(one.canonical_payload())) for one in charges])
        metrics.add_metric("InterestTransactions", MetricUnit.Count, len(charges))
""",
        (OF_INTEREST,),
    ),
    Breakage(
        "a day's interest has the id of another day's",
        f"{LEDGER}/overdraft_interest.py",
        'transaction_id=f"overdraft-interest-{day}-{account_hash}"',
        'transaction_id=f"overdraft-interest-{account_hash}"',
        ("tests/unit/test_overdraft_interest.py", INTEREST),
    ),
    Breakage(
        "the reconciliation reports a commit in progress as a mismatch",
        f"{LEDGER}/reconciler.py",
        "PAUSES_SECONDS = (0.05, 0.2, 1.0)",
        "PAUSES_SECONDS = ()",
        ("tests/integration/test_reconciliation.py",),
    ),
    Breakage(
        "the reconciliation's reads are eventually consistent",
        f"{LEDGER}/reconciler.py",
        '":account_id": account_id}),\n            ConsistentRead=True,\n',
        '":account_id": account_id}),\n            ConsistentRead=False,\n',
        ("tests/integration/test_reconciliation.py",),
    ),
    Breakage(
        "a function writes lines below its log level",
        f"{WORKERS}/logs.py",
        "        logging.getLogger().setLevel(level)\n",
        "        logging.getLogger().setLevel(logging.DEBUG)\n",
        ("tests/unit/test_log_levels.py",),
    ),
]
