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
POSTING_TIME = "tests/unit/test_posting_time.py"
OWNERS = "tests/unit/test_owners_of_trouble.py"
HANDED_BACK = "tests/unit/test_handed_back.py"
BIG_ITEMS = "tests/integration/test_big_items.py"
LINES = "tests/integration/test_lines.py"
LOCKS = "tests/integration/test_locks.py"
UPSERTS = "tests/integration/test_upserts.py"
VERSIONED = "tests/integration/test_versioned.py"
POSTING = "tests/integration/test_posting.py"
INTEREST = "tests/integration/test_interest.py"
TLS = "tests/integration/test_tls.py"
JOBS = "tests/integration/test_jobs.py"
SEGMENTS = "tests/integration/test_segments.py"
JOURNAL_VERSIONS = "tests/integration/test_journal_versions.py"
STATEMENTS = "tests/integration/test_statements.py"
RECONCILIATION = "tests/integration/test_reconciliation.py"
EVERY_CALL = "tests/faults/test_every_call.py"
OF_INTEREST = "tests/faults/test_every_call_of_interest.py"
OF_A_KILLER = "tests/faults/test_every_call_of_a_killer.py"
OUTAGES = "tests/faults/test_outages.py"
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
        "        _send_together(client, writes, write_id, token)\n    except",
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
        "an answer 5xx is taken for a refusal, as if nothing had been written",
        f"{LIBRARY}/loop.py",
        "if response is None or response[0].status_code >= 500:",
        "if response is None:",
        (LOOP,),
    ),
    Breakage(
        "a cancelled transaction is sent again with its token, for which DynamoDB may repeat the cancellation",
        f"{LIBRARY}/loop.py",
        "        elif not unanswered:\n",
        "        elif False:\n",
        (LOOP,),
    ),
    Breakage(
        "a transaction in progress is sent again with another token, and may take effect beside the first",
        f"{LIBRARY}/loop.py",
        "        elif not unanswered:\n",
        "        else:\n",
        (LOOP,),
    ),
    Breakage(
        "a transaction in progress is given up",
        f"{LIBRARY}/loop.py",
        '        case "TransactionInProgressException":\n',
        '        case "TransactionInProgressException" if False:\n',
        (LOOP, EVERY_CALL),
    ),
    Breakage(
        "of a transaction in progress the deadline says that nothing was written",
        f"{LIBRARY}/loop.py",
        "in_progress=True, unanswered=True)",
        "in_progress=True)",
        (LOOP,),
    ),
    Breakage(
        "a later answer stands for a single write's first try, which got none",
        f"{LIBRARY}/loop.py",
        "unanswered = answer.unanswered or (unanswered and _sent_alone(planned.writes) is not None)",
        "unanswered = answer.unanswered",
        (LOOP,),
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
        "expected = {_decided(message, entry.account_id, before, other, context) for other in others}",
        "expected = {_decided(message, entry.account_id, before, other, Context()) for other in others}",
        (CONTEXT,),
    ),
    Breakage(
        "a key that DynamoDB leaves unread holds up the batch",
        f"{LEDGER}/batch_poster.py",
        "observed |= read_once(self.client, keys, deadline, self._attributes)",
        "observed |= read(self.client, keys, deadline, self._attributes)",
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
        "in an outage each group is tried message by message",
        f"{LEDGER}/batch_poster.py",
        "if not is_about_content(error):",
        "if False:",
        (OWNERS,),
    ),
    Breakage(
        "the times of an account go back if a worker's clock is behind",
        f"{LEDGER}/core/posting_time.py",
        "return timestamp(max([now, *(time for time in earlier if time and time <= now + CLOCK_SKEW)]))",
        "return timestamp(now)",
        (POSTING_TIME, BATCH_POSTER),
    ),
    Breakage(
        "a time far ahead holds an account's times up",
        f"{LEDGER}/core/posting_time.py",
        "if time and time <= now + CLOCK_SKEW",
        "if time",
        (POSTING_TIME,),
    ),
    Breakage(
        "the sides of a transfer are posted at two times",
        f"{LEDGER}/batch_poster.py",
        "                after = transaction.next_account(before, decision, posted_at)\n",
        "                posted_at = posting_time(self.now, [before])\n"
        "                after = transaction.next_account(before, decision, posted_at)\n",
        (BATCH_POSTER,),
    ),
    Breakage(
        "a decision that ends the process takes its batch along",
        f"{LEDGER}/batch_poster.py",
        "        except BaseException as error:",
        "        except Exception as error:",
        (OWNERS,),
    ),
    Breakage(
        "a body that ends its decoder takes its batch along",
        f"{WORKERS}/batches.py",
        "            except BaseException as error:",
        "            except Exception as error:",
        (BATCHES,),
    ),
    Breakage(
        "a request that was changed under its hash isn't found",
        f"{LEDGER}/core/replay.py",
        "if payload_hash_of(entry.request) != entry.payload_hash:",
        "if False:",
        ("tests/unit/test_replay.py", RECONCILIATION),
    ),
    Breakage(
        "a message that waits for its account is dead at once",
        f"{LEDGER}/dispositions.py",
        "return Waiting(error.code, str(error))",
        "return Dead(error.code, str(error))",
        (BATCH_POSTER, POSTING),
    ),
    Breakage(
        "messages that failed are acknowledged",
        f"{WORKERS}/batches.py",
        "returned_ids = [message.message_id for message in messages if message.goes_back]",
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
        "an outage uses up the deliveries in which a message waits",
        f"{WORKERS}/queue_messages.py",
        "return self.attempt.waits + 1 if self.attempt.waited_at == self.receive_count - 1 else 1",
        "return max(self.attempt.waits + 1, self.receive_count)",
        (BATCHES,),
    ),
    Breakage(
        "a suspect's attempt is written down after it",
        f"{WORKERS}/batches.py",
        "            self.attempts.begin([message for message in suspects if not message.attempt.begun], deadline)\n",
        "",
        (BATCHES,),
    ),
    Breakage(
        "a slow table of attempts takes all the time of first deliveries",
        f"{WORKERS}/batches.py",
        "        deadline = min(deadline, Deadline.after(BEGIN_SECONDS))\n",
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
        "what is done isn't acknowledged before a suspect may kill the function",
        f"{WORKERS}/batches.py",
        "            self._acknowledge(together, deadline)\n",
        "",
        (BATCHES,),
    ),
    Breakage(
        "all messages of an outage come back at the same moment",
        f"{WORKERS}/redelivery.py",
        "return random.randint(math.ceil(delay * 19 / 20), delay)",
        "return delay",
        ("tests/unit/test_redelivery.py",),
    ),
    Breakage(
        "a message that AWS couldn't process until its last hours is left to SQS, which deletes it",
        f"{WORKERS}/batches.py",
        "case Again(reason) if last_hours:",
        "case Again(reason) if False:",
        (BATCHES,),
    ),
    Breakage(
        "a message that AWS couldn't process is given up after six deliveries",
        f"{WORKERS}/batches.py",
        "case Again(reason) if last_hours:",
        "case Again(reason) if last_hours or message.receive_count >= 6:",
        (BATCHES, OUTAGES),
    ),
    Breakage(
        "a message waits once more than it may",
        f"{WORKERS}/batches.py",
        "message.waits_in_a_row >= self.queue.maximum_waits:",
        "message.waits_in_a_row > self.queue.maximum_waits:",
        (BATCHES, POSTING),
    ),
    Breakage(
        "an attempt that failed counts as a kill, so that an outage condemns healthy messages",
        f"{WORKERS}/attempts.py",
        "message.attempt._replace(begun=0 if message.attempted else message.begun_before)",
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
        "a message that kills its function is never found out",
        f"{WORKERS}/batches.py",
        "                    self.attempts.begin([message], work_deadline)\n",
        "                    pass\n",
        (BATCHES, OF_A_KILLER),
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
        "a letter is sent after the deadline",
        f"{WORKERS}/sending.py",
        '            deadline.check("sending")\n',
        "",
        ("tests/unit/test_sending.py", DEAD_LETTERS),
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
        "        client.change_message_visibility_batch(QueueUrl=queue_url, Entries=entries)",
        "        list(entries)",
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
        "an earlier write goes into a map that was removed since",
        f"{LIBRARY}/upserts/clocks.py",
        "draft.forbidden.append(more_than((attribute, name), map_mark(earliest[inner])))\n",
        "pass\n",
        (UPSERTS,),
    ),
    Breakage(
        "a removal of a map takes what is later along",
        f"{LIBRARY}/upserts/reshape.py",
        "if is_map_mark(each) or time_of(each) >= time",
        "if is_map_mark(each)",
        (UPSERTS,),
    ),
    Breakage(
        "removals are forgotten before their time",
        f"{LIBRARY}/upserts/tidying.py",
        "if not (is_removal(each) and each < before)",
        "if not is_removal(each)",
        (UPSERTS,),
    ),
    Breakage(
        "another upsert comes between an item and its reshaping",
        f"{LIBRARY}/upserts/edit.py",
        "            return [(mark,) for mark in MARKS]\n",
        "            return []\n",
        (UPSERTS,),
    ),
    Breakage(
        "messages that are done come again with those that failed",
        f"{LEDGER}/profile_writer.py",
        "        if not self.pending:\n            self.message.disposition =",
        "        if False:\n            self.message.disposition =",
        ("tests/unit/test_profile_writer.py",),
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
        "a lock's record that can't be read counts as free",
        f"{LIBRARY}/locks.py",
        "free = READABLE & ~any_of(taken)",
        "free = ~any_of(taken)",
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
        send_all(sqs, QUEUE_URL, [Message(json.dumps(one.canonical_payload())) for one in charges], deadline)
        metrics.add_metric("InterestTransactions", MetricUnit.Count, len(charges))
        after, sent, last = page.after, sent + len(charges), page.after is None
""",
        """\
        after, sent, last = page.after, sent + len(charges), page.after is None
        if not last:
            yield Step({"after": after, "sent": sent, "not yet": True})
        send_all(sqs, QUEUE_URL, [Message(json.dumps(one.canonical_payload())) for one in charges], deadline)
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
        (RECONCILIATION,),
    ),
    Breakage(
        "the reconciliation's reads are eventually consistent",
        f"{LEDGER}/reconciler.py",
        '":account_id": account_id}),\n                ConsistentRead=True,\n',
        '":account_id": account_id}),\n                ConsistentRead=False,\n',
        (RECONCILIATION,),
    ),
    Breakage(
        "a duplicate of a job's event in progress is refused",
        f"{WORKERS}/scheduled_jobs.py",
        'if holder_why.startswith(_why(window, "")) and holder_why != why:',
        "if False:",
        (JOBS,),
    ),
    Breakage(
        "a killed run's retry is taken for a duplicate",
        f"{WORKERS}/scheduled_jobs.py",
        'if holder_why.startswith(_why(window, "")) and holder_why != why:',
        'if holder_why.startswith(_why(window, "")):',
        (JOBS,),
    ),
    Breakage(
        "a run that follows a killed one uses up the retries of its event",
        f"{WORKERS}/scheduled_jobs.py",
        "if lock.taken_over or deadline",
        "if deadline",
        (JOBS, RECONCILIATION),
    ),
    Breakage(
        "each segment that finds all parts makes the report",
        f"{WORKERS}/segments.py",
        'finished, absent("finished_at"))',
        "finished)",
        (SEGMENTS,),
    ),
    Breakage(
        "a run goes on with the number of segments that is set now",
        f"{WORKERS}/scheduled_jobs.py",
        'segments = int(begun["segments"])',
        "segments = self.segments",
        (SEGMENTS,),
    ),
    Breakage(
        "a segment that was killed after its end doesn't look for the parts",
        f"{WORKERS}/scheduled_jobs.py",
        "outcome = record.finish(segment.of, self.report)",
        'outcome = "DoneBefore"',
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
        "an outage skips every account",
        f"{LEDGER}/reconciler.py",
        "        self._read_an_account_that_does_not_exist()\n        return",
        "        return",
        (RECONCILIATION,),
    ),
    Breakage(
        "a journal that is too long is read to its end",
        f"{LEDGER}/reconciler.py",
        "for _ in range(bounds.pages):",
        "while True:",
        (RECONCILIATION,),
    ),
    Breakage(
        "an account that kills the function kills it each time",
        "functions/reconcile_accounts/app.py",
        "    if kills < MOST_KILLS:",
        "    if True:",
        (RECONCILIATION,),
    ),
    Breakage(
        "all threads of a batch have large items at the same time",
        f"{LIBRARY}/handed_back.py",
        "    _turn.is_taken = True\n",
        "    _turns.release()\n",
        (HANDED_BACK,),
    ),
    Breakage(
        "a thread never gives the turn with large items to another",
        f"{LIBRARY}/handed_back.py",
        "            _turns.release()\n",
        "            pass\n",
        (HANDED_BACK,),
    ),
    Breakage(
        "in a large item a map's name is taken for a type of DynamoDB's",
        f"{LIBRARY}/handed_back.py",
        "        if type(value) is tuple:\n",
        "        if False:\n",
        (HANDED_BACK,),
    ),
    Breakage(
        "of an answer that nobody read the deadline says that nothing was written",
        f"{LIBRARY}/loop.py",
        "        return _Answer(refused=True, found={}, unanswered=_tries.unanswered)\n",
        "        return _Answer(refused=True, found={})\n",
        (HANDED_BACK,),
    ),
    Breakage(
        "an account is read with whatever else is in its item",
        f"{LEDGER}/batch_poster.py",
        "read_once(self.client, keys, deadline, self._attributes)",
        "read_once(self.client, keys, deadline)",
        (BIG_ITEMS,),
    ),
    Breakage(
        "each connection loads the file of certificate authorities",
        f"{LIBRARY}/client.py",
        "            if version not in loaded:",
        "            if version:",
        (TLS,),
    ),
    Breakage(
        "a new file of certificate authorities is never loaded",
        f"{LIBRARY}/client.py",
        "Path(cafile).stat().st_mtime_ns if cafile else None",
        "None",
        (TLS,),
    ),
    Breakage(
        "a function writes lines below its log level",
        f"{WORKERS}/logs.py",
        "        logging.getLogger().setLevel(level)\n",
        "        logging.getLogger().setLevel(logging.DEBUG)\n",
        ("tests/unit/test_log_levels.py",),
    ),
    Breakage(
        "a ticket isn't noted as served",
        f"{LEDGER}/batch_poster.py",
        "        if len(fold.dispositions) == len(messages):\n            fold.serve(tickets)\n",
        "",
        (LINES,),
    ),
    Breakage(
        "a ticket is served by a commit that isn't the group's last",
        f"{LEDGER}/batch_poster.py",
        "        if len(fold.dispositions) == len(messages):\n            fold.serve(tickets)\n",
        "        fold.serve(tickets)\n",
        (LINES,),
    ),
    Breakage(
        "a ticket that no commit served is kept",
        f"{LEDGER}/batch_poster.py",
        "            self.poster.lines.leave(key, ticket, self.deadline)\n",
        "            pass\n",
        (LINES,),
    ),
    Breakage(
        "a reader of a contended account commits without a ticket",
        f"{LEDGER}/batch_poster.py",
        "        if contended:\n",
        "        if False:\n",
        (LINES,),
    ),
    Breakage(
        "the commit after a wait doesn't start from the newest account",
        f"{LEDGER}/batch_poster.py",
        "self.observed = {**self.observed, account_key: account}",
        "self.observed = dict(self.observed)",
        (LINES,),
    ),
    Breakage(
        "after a wait the group's other accounts are as they were before it",
        f"{LEDGER}/batch_poster.py",
        "            self.observed |= self.poster.read(others, self.deadline)\n",
        "            self.poster.read(others, self.deadline)\n",
        (LINES,),
    ),
    Breakage(
        "a single lost commit makes an account contended",
        f"{LEDGER}/batch_poster.py",
        "if self.losses[key] > 1 or key in self.tickets:",
        "if True:",
        (LINES,),
    ),
    Breakage(
        "an account is never lined up for after lost commits",
        f"{LEDGER}/batch_poster.py",
        "if self.losses[key] > 1 or key in self.tickets:",
        "if key in self.tickets:",
        (LINES,),
    ),
    Breakage(
        "groups line up for the same accounts in any order",
        f"{LEDGER}/batch_poster.py",
        "self._line_up(min(contended))",
        "self._line_up(contended[0])",
        (LINES,),
    ),
    Breakage(
        "groups that wait in line hold up those on quiet accounts",
        f"{LEDGER}/batch_poster.py",
        "        groups.sort(key=lambda group: not ready.issuperset(self.keys_of(group)))\n",
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
        "a line waits for each of many dead workers",
        f"{LEDGER}/lines.py",
        "min(ahead, MOST_WAITED_FOR) * patience_seconds",
        "ahead * patience_seconds",
        (LINES,),
    ),
    Breakage(
        "a line that moves is left",
        f"{LEDGER}/lines.py",
        "            if account != before:\n                moved_at = time.monotonic()\n",
        "",
        (LINES,),
    ),
    Breakage(
        "nobody waits for the tickets ahead",
        f"{LEDGER}/lines.py",
        "- Line.of(account).ticket_served - 1) > 0:",
        "- Line.of(account).ticket_served - 1) > LONGEST_LINE:",
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
        "a line grows without limit",
        f"{LEDGER}/lines.py",
        "condition = is_short if line.is_contended else None",
        "condition = None",
        (LINES,),
    ),
    Breakage(
        "a line that is too long stays so",
        f"{LEDGER}/lines.py",
        "condition = is_short if line.is_contended else None",
        "condition = is_short",
        (LINES,),
    ),
    Breakage(
        "a line's record stays for ever",
        f"{LEDGER}/lines.py",
        "Update(record, expiry, condition,",
        "Update(record, {}, condition,",
        (LINES,),
    ),
    Breakage(
        "a late commit sets its line back",
        f"{LEDGER}/lines.py",
        "is_late = 0 < line.ticket_served - self.number <= LONGEST_LINE",
        "is_late = False",
        (LINES,),
    ),
    Breakage(
        "a line doesn't begin anew",
        f"{LEDGER}/lines.py",
        "is_late = 0 < line.ticket_served - self.number <= LONGEST_LINE",
        "is_late = 0 < line.ticket_served - self.number",
        (LINES,),
    ),
    Breakage(
        "an account in whose line commits wait doesn't stay contended",
        f"{LEDGER}/lines.py",
        "ticket = Ticket(ticket.number, time.monotonic() - began_at, _contended_from_now())",
        "ticket = Ticket(ticket.number, time.monotonic() - began_at)",
        (LINES,),
    ),
    Breakage(
        "an account stays contended for ever",
        f"{LEDGER}/tables.py",
        "return 0 < self.contended_until / 1000 - time.time() < 2 * CONTENDED_SECONDS",
        "return 0 < self.contended_until",
        (LINES,),
    ),
    Breakage(
        "a wrong clock makes an account contended for long",
        f"{LEDGER}/tables.py",
        "time.time() < 2 * CONTENDED_SECONDS",
        "time.time()",
        (LINES,),
    ),
    Breakage(
        "an account whose line isn't a number can't be posted on",
        f"{LEDGER}/tables.py",
        "return cls(*map(int, values)) if possible else cls()",
        "return cls(*map(int, values))",
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
        "a reader loses the second entry of a version at the end of a page",
        f"{LEDGER}/journal_versions.py",
        "through = newest - 1 if items[0]",
        "through = newest if items[0]",
        (JOURNAL_VERSIONS,),
    ),
    Breakage(
        "a reader takes an entry posted at the very time for one before it",
        f"{LEDGER}/journal_times.py",
        "_posting_time(item) < time",
        "_posting_time(item) <= time",
        (STATEMENTS,),
    ),
    Breakage(
        "a reader calls a statement complete that lacks an entry",
        f"{LEDGER}/statements.py",
        '"complete": not missing,',
        '"complete": True,',
        (STATEMENTS,),
    ),
    Breakage(
        "a reader tells a balance though entries before the time are missing",
        f"{LEDGER}/statements.py",
        "_balance_after(found, account) if found.is_certain else (None, None)",
        "_balance_after(found, account)",
        (STATEMENTS,),
    ),
    Breakage(
        "a reader gives a page that begins with the last entry of the page before",
        f"{LEDGER}/statements.py",
        'beyond = entry["account_version"] + 1',
        'beyond = entry["account_version"]',
        (STATEMENTS,),
    ),
    Breakage(
        "a reader calls a time final that a worker may still post before",
        f"{LEDGER}/statements.py",
        "return time <= now - CLOCK_SKEW",
        "return time <= now",
        (STATEMENTS,),
    ),
]
