"""Posts the transactions of a batch: read, fold, commit.

The accounts of the batch are read together. The messages of each group of accounts are folded through the rules, in
memory and in order; then the group's accounts and journal entries commit in one DynamoDB transaction. After a conflict
the messages are folded again, from what DynamoDB found instead. Commits of a contended account take turns: `lines.py`.
"""

import contextlib
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from aws_lambda_powertools.metrics import MetricUnit
from msgspec import Struct, field

from conditional_writes import (
    MAXIMUM_WRITES,
    Deadline,
    Item,
    Key,
    Observed,
    Plan,
    Put,
    Write,
    absent,
    read,
    replacing,
    write,
)
from conditional_writes.item_diff import unchanged
from conditional_writes.own_attributes import VERSION_ID
from conditional_writes.reading import MAXIMUM_KEYS, read_once
from ledger.core.accounts import Account, account_item, sound_account
from ledger.core.currencies import MINOR_UNITS, no_minor_units
from ledger.core.journal import EntryId, JournalEntry, Outcome, entry_from_item, entry_item, outcome_of, sound_entry
from ledger.core.posting_time import posting_time
from ledger.core.reversals import Reversed, reversed_from_item, reversed_item
from ledger.core.rules import Status, check_effects
from ledger.core.transaction_types.base import Context, TransactionMessage
from ledger.dispositions import disposition_of, is_about_content
from ledger.idempotent_decision import decide_once
from ledger.lines import Lines, Mark, Ticket
from ledger.tables import ACCOUNT_ATTRIBUTES, LedgerTables, Line
from workers.batches import MAXIMUM_VALUES, Measurement
from workers.parallel import in_parallel
from workers.queue_messages import Disposition, Done, QueueMessage

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

type QueuedTransaction = QueueMessage[TransactionMessage]

NOTHING: Observed = {}
FEW_ACCOUNTS = 4
"""The contended accounts with which a group waits in the line of one of them. With more it waits for a shared turn."""


class BatchPoster(NamedTuple):
    """The ledger's tables, the client that reads and writes them, and the lines of contended accounts.

    `minor_units` says whether accounts are opened under the rule of minor units.
    """

    client: "DynamoDBClient"
    tables: LedgerTables
    lines: Lines
    minor_units: bool = True

    def post(self, messages: Sequence[QueuedTransaction], deadline: Deadline) -> list[Measurement]:
        """Posts or rejects each transaction exactly once, whoever else is posting. Sets each message's disposition.

        One read per 100 keys, and one commit per group of accounts (and 100 items). If a group's items can't be
        read, or AWS can't commit it, its messages come again, and no other group's. After DeadlinePassed nothing of a
        commit was written; if a commit got no answer, the next delivery finds its journal entries, and replays them.
        """
        messages = sorted(messages, key=lambda each: each.sent_at)  # a standard queue hands them over in any order
        observed: dict[Key, Item | None] = {}
        unread: dict[Key, Disposition] = {}
        for keys in itertools.batched(dict.fromkeys(self.keys_of(messages)), MAXIMUM_KEYS, strict=False):
            try:
                observed |= read_once(self.client, keys, deadline, self._attributes)
            except Exception as error:  # noqa: BLE001 (it costs the groups with these keys)
                unread |= dict.fromkeys(keys, disposition_of(error))
        posters = []
        for group in grouped_by_account(messages, lambda message: self._account_ids(message.decoded, observed)):
            keys_of_group = self.keys_of(group, observed)
            failed = next((unread[key] for key in keys_of_group if key in unread), None)
            if failed:
                _give(failed, group)
            else:
                posters.append(_GroupPoster(self, deadline, group, keys_of_group))
        # Groups that read again, or wait in line, come last: they may take all the threads, and all of the time.
        contended = {key for key, item in observed.items() if Line.of(item).is_contended}
        ready = observed.keys() - contended
        posters.sort(key=lambda poster: not ready.issuperset(poster.keys))
        if any(len(contended.intersection(poster.keys)) > FEW_ACCOUNTS for poster in posters):
            for poster in posters:
                poster.needs_shared_turn = len(contended.intersection(poster.keys)) > 1
        in_parallel(lambda poster: poster.post(observed), [each for each in posters if not each.needs_shared_turn])
        if in_turn := [poster for poster in posters if poster.needs_shared_turn]:
            self._post_in_turn(in_turn, deadline)
        return _measurements(messages, posters)

    def _post_in_turn(self, posters: "Sequence[_GroupPoster]", deadline: Deadline) -> None:
        """Posts groups with many contended accounts: in one turn of the shared line, and from what is read in it."""
        try:
            turn = self.lines.wait_for_shared_turn(deadline)
            in_parallel(lambda poster: poster.post_in_turn(turn), posters)
            if turn:
                posters[0].note_wait(turn)
                self.lines.leave(self.lines.shared_key, turn, deadline)
        except Exception as error:  # noqa: BLE001 (AWS's trouble is these groups' alone)
            for poster in posters:
                poster.give(disposition_of(error))

    def read(self, keys: Iterable[Key], deadline: Deadline) -> Observed:
        """The items as they are now, accounts without others' attributes. Raises what `read` raises."""
        return read(self.client, keys, deadline, self._attributes)

    def own_parts(self, observed: Observed) -> Observed:
        """The items as they would be read. A refused commit hands accounts back whole."""
        return {key: self._own_part(key, item) for key, item in observed.items()}

    def _own_part(self, key: Key, item: Item | None) -> Item | None:
        names = self._attributes.get(key.table)
        return item if item is None or names is None else {name: item[name] for name in names if name in item}

    @property
    def _attributes(self) -> dict[str, Sequence[str]]:
        """The attributes that are read, by table."""
        return {self.tables.accounts: ACCOUNT_ATTRIBUTES}

    def keys_of(self, messages: Iterable[QueuedTransaction], observed: Observed = NOTHING) -> list[Key]:
        """The keys of the items that are read before the fold: the messages' accounts, the journal entries that each
        decision refers to, with what was reversed of them, and the own entries of messages that were delivered before.
        Only those messages may be posted already.

        If a referred entry is in `observed`, the keys of its accounts are among them.
        """
        keys = []
        for message in messages:
            transaction = message.decoded
            account_ids = self._account_ids(transaction, observed)
            entry_ids = transaction.referred_entries
            first_ids = (found.first_entry_id for found in self._referred(transaction, observed))
            keys += [self.tables.reversed_key(entry_id) for entry_id in (*entry_ids, *first_ids)]
            if message.delivered_before:
                entry_ids += tuple(EntryId(account_id, transaction.transaction_id) for account_id in account_ids)
            keys += [self.tables.account_key(account_id) for account_id in account_ids]
            keys += [self.tables.entry_key(entry_id) for entry_id in entry_ids]
        return keys

    def _account_ids(self, transaction: TransactionMessage, observed: Observed) -> Sequence[str]:
        """The transaction's accounts, as far as they are known from what was read."""
        return (
            *transaction.account_ids,
            *itertools.chain.from_iterable(found.account_ids for found in self._referred(transaction, observed)),
        )

    def _referred(self, transaction: TransactionMessage, observed: Observed) -> Iterator[JournalEntry]:
        """Those of the referred entries that were read."""
        for entry_id in transaction.referred_entries:
            if item := observed.get(self.tables.entry_key(entry_id)):
                with contextlib.suppress(KeyError, TypeError, ValueError):  # the message's decision says what is wrong
                    yield entry_from_item(item)

    def plan(
        self,
        messages: Sequence[QueuedTransaction],
        observed: Observed,
        tickets: Mapping[Key, Ticket | Mark],
        now: datetime,
    ) -> "Plan[_Fold | _Lost | _ToRead]":
        """Folds the messages that fit into one DynamoDB transaction: a pure function of the observed items.

        If all of them fit, it serves the tickets. If a decision depends on items that weren't read, nothing is written.
        """
        observed = self.own_parts(observed)
        fold = _Fold(self.tables, now, self.minor_units, observed, dict(observed))
        unread: list[Key] = []
        for message in messages:
            if not fold.has_room_for(message.decoded):
                break
            try:
                fold.add(message)
            except _NotRead as error:
                unread += error.keys
        if unread:
            return Plan(_ToRead(unread, observed))
        if len(fold.dispositions) == len(messages):
            fold.serve(tickets)
        return Plan(fold, fold.writes())


class _GroupPoster(Struct):
    """Commits the messages of one group, in order, as many at a time as fit into one DynamoDB transaction.

    `keys` are those of the group's items, and `observed` has the items as they were last seen. `tickets` has those that
    no commit has served yet, by account. `conflicts` counts the commits that lost an account to another writer, by
    account in `losses`. If the group `needs_shared_turn`, its messages without a disposition wait for that. The group
    `is_in_turn` afterwards, with the `turn`, or without one if it couldn't be had.
    """

    poster: BatchPoster
    deadline: Deadline
    group: Sequence[QueuedTransaction]
    keys: Sequence[Key]
    observed: dict[Key, Item | None] = {}
    needs_shared_turn: bool = False
    is_in_turn: bool = False
    turn: Ticket | None = None
    tickets: dict[Key, Ticket] = {}
    losses: Counter[Key] = field(default_factory=Counter)
    conflicts: int = 0
    commit_milliseconds: list[float] = []
    line_milliseconds: list[float] = []

    def post(self, observed: Observed) -> None:
        """Sets the messages' dispositions, if the group doesn't need a shared turn in the end.

        `observed` has items that were read before. The others are read.
        """
        try:
            unread = self.poster.read([key for key in self.keys if key not in observed], self.deadline)
            self.observed = {key: unread[key] if key in unread else observed[key] for key in self.keys}
            if not self.is_in_turn and (contended := self._contended()):
                self._line_up(min(contended))  # one line for groups that share several accounts
            self._post()
        except Exception as error:  # noqa: BLE001 (AWS's trouble is this group's alone)
            self.give(disposition_of(error))

    def post_in_turn(self, turn: Ticket | None) -> None:
        """As `post`, from what is read now. If the turn couldn't be had, it is tried all the same."""
        self.is_in_turn, self.turn = True, turn
        self.post(NOTHING)

    def give(self, disposition: Disposition) -> None:
        """Gives it to the messages that have none."""
        _give(disposition, (message for message in self.group if message.disposition is None))

    def note_wait(self, ticket: Ticket) -> None:
        if ticket.waited_seconds is not None:
            self.line_milliseconds.append(round(ticket.waited_seconds * 1000, 1))

    def _post(self) -> None:
        """Posts the messages that have no disposition yet.

        If a commit loses an account to another writer, the next try is made at once. If the group loses the account
        again, it waits in the account's line before the next try: a quiet account is hardly lost twice.

        If a commit fails for something in it, its messages are committed in two halves, and so on down to one message:
        one at fault among n costs 2 log n further tries at most, n at fault cost 2 n. AWS's own trouble is raised:
        messages without a disposition can be tried again. Tickets that the group holds then are left to lapse.
        """
        left = [message for message in self.group if message.disposition is None]
        batches: list[Sequence[QueuedTransaction]] = [left]  # the next one is the last
        while batches:
            messages = batches.pop()
            try:
                result = self._commit(messages, {} if batches else {**self._marks(), **self.tickets})
            except Exception as error:
                if not is_about_content(error):
                    raise
                batches += _halves(messages, error)
                continue
            self.observed = dict(result.observed)
            if not isinstance(result, _Fold):
                batches.append(messages)
                self._prepare_again(result)
                if self.needs_shared_turn and not self.is_in_turn:
                    return
                continue
            assert result.dispositions, "a transaction has more accounts than one commit has room for"
            for message, disposition in result.dispositions.items():
                message.disposition = disposition
            for key in result.served_accounts:
                self.tickets.pop(key, None)
            if rest := messages[len(result.dispositions) :]:
                batches.append(rest)
        for key, ticket in self.tickets.items():
            self.poster.lines.leave(key, ticket, self.deadline)

    def _commit(
        self, messages: Sequence[QueuedTransaction], tickets: Mapping[Key, Ticket | Mark]
    ) -> "_Fold | _Lost | _ToRead":
        """Commits the first messages, as many as fit. If all fit, the commit serves the tickets.

        If another writer was first in an account, or if more items have to be read, nothing is written. Raises what
        `write` raises.
        """
        before, started = self.observed, time.monotonic()
        now = datetime.now(UTC)

        def plan(seen: Observed) -> "Plan[_Fold | _Lost | _ToRead]":
            # `write` hands on the same objects, but for those that DynamoDB has handed back.
            lost = [key for key in self._account_keys(before) if seen[key] is not before[key]]
            if lost:
                return Plan(_Lost(lost, self.poster.own_parts(seen)))
            return self.poster.plan(messages, seen, tickets, now)

        written = write(self.poster.client, plan, before, self.deadline)
        self.conflicts += written.conflicts
        if isinstance(written.result, _Fold) and written.result.new_entries:
            self.commit_milliseconds.append(round((time.monotonic() - started) * 1000, 1))
        return written.result

    def _prepare_again(self, result: "_Lost | _ToRead") -> None:
        if isinstance(result, _ToRead):
            self.observed |= self.poster.read(result.keys, self.deadline)
        else:
            self._line_up_after(result)

    def _line_up_after(self, lost: "_Lost") -> None:
        """Waits in one line if an account was lost for the second time, or although the group has its ticket.

        If many accounts are contended by now, the group needs a shared turn. In its turn it tries again at once.
        """
        self.losses.update(lost.account_keys)
        if self.is_in_turn:
            if self.turn is None:
                self._step_aside()
            return
        contended = self._contended()
        self.needs_shared_turn = len(contended) > FEW_ACCOUNTS
        if not self.needs_shared_turn and contended.intersection(lost.account_keys):
            self._line_up(min(contended))

    def _contended(self) -> set[Key]:
        """The accounts that are marked, and those that the group has a ticket of, or has lost twice."""
        marked = {key for key in self._account_keys(self.observed) if Line.of(self.observed[key]).is_contended}
        return marked | self.tickets.keys() | {key for key, losses in self.losses.items() if losses > 1}

    def _marks(self) -> dict[Key, Mark]:
        """Marks that keep accounts contended, if accounts were lost, or if the shared turn had to be waited for."""
        had_to_wait = self.turn is not None and self.turn.mark is not None
        is_contended = self.is_in_turn and (self.losses or had_to_wait)
        return dict.fromkeys(self._contended(), Mark.from_now()) if is_contended else {}

    def _step_aside(self) -> None:
        seconds = random.uniform(0, max(self.losses.values(), default=0))
        time.sleep(min(seconds, max(0.0, self.deadline.remaining_seconds)))

    def _line_up(self, account_key: Key) -> None:
        """Waits for the group's turn in the account's line. If that took time, its other accounts are read again.

        If the line's record can't be written, the group steps aside for a random time instead.
        """
        line, losses = Line.of(self.observed[account_key]), self.losses[account_key]
        ticket = self.tickets.get(account_key)
        if ticket is None or ticket.number <= line.ticket_served:
            if not line.is_contended:
                self.poster.lines.mark_as_contended(account_key, self.deadline)
            ticket = self.poster.lines.take_ticket(account_key, line, self.deadline)
        if ticket is None:
            self._step_aside()
            return
        ticket, account = self.poster.lines.wait(account_key, ticket, self.deadline, losses=losses)
        self.tickets[account_key] = ticket
        self.observed = {**self.observed, account_key: account}
        if ticket.waited_seconds is not None:
            self.note_wait(ticket)
            others = [key for key in self._account_keys(self.observed) if key != account_key]
            self.observed |= self.poster.read(others, self.deadline)

    def _account_keys(self, observed: Observed) -> list[Key]:
        return [key for key in observed if key.table == self.poster.tables.accounts]


class _Lost(NamedTuple):
    """A commit that wasn't made: other writers have changed these accounts. `observed` has the items as they are."""

    account_keys: Sequence[Key]
    observed: Observed


class _ToRead(NamedTuple):
    """A commit that wasn't made: decisions depend on these items, too. `observed` has the others as they are."""

    keys: Sequence[Key]
    observed: Observed


class _NotRead(Exception):
    """A decision depends on items that weren't read."""

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__(keys)
        self.keys = keys


class _Effect(NamedTuple):
    """A transaction's effect on one of its accounts: the account afterwards, and the new journal entry."""

    account: Account
    entry: JournalEntry


class _Decided(NamedTuple):
    """A transaction's outcome and, if it is new, its effects, and what had been reversed when it was decided."""

    outcome: Outcome
    effects: Sequence[_Effect] = ()
    reversed_before: Mapping[Key, Reversed] = {}


class _Fold(Struct):
    """A commit in the making. `before` has the items as DynamoDB has them, `observed` as the commit leaves them.

    `changed` has the accounts and the items of the Reversals table that it changes, `reversals` the keys of those items
    of the latter on which a decision depends. `served_accounts` are the accounts whose tickets it serves.
    """

    tables: LedgerTables
    now: datetime
    minor_units: bool
    before: Observed
    observed: dict[Key, Item | None]
    changed: dict[Key, Item] = {}
    new_entries: dict[Key, Item] = {}
    reversals: set[Key] = set()
    dispositions: dict[QueuedTransaction, Disposition] = {}
    served_accounts: set[Key] = set()

    def has_room_for(self, transaction: TransactionMessage) -> bool:
        """Whether the commit has room for the transaction's entries, and for those of its accounts that are new.

        If the transaction refers to an entry, it may have a second account, and change what was reversed of the entry.
        """
        account_keys = [self.tables.account_key(account_id) for account_id in transaction.account_ids]
        new_accounts = sum(account_key not in self.changed for account_key in account_keys)
        others = 3 if transaction.referred_entries else 0
        writes = len(self.changed) + len(self.new_entries) + len(self.reversals.difference(self.changed))
        return writes + new_accounts + len(account_keys) + others <= MAXIMUM_WRITES

    def add(self, message: QueuedTransaction) -> None:
        """Sets the message's disposition, and stages its effect: whole, or not at all if no decision can be made.

        Raises _NotRead.
        """
        try:
            decided = self._decided(message.decoded)
            changed = dict(map(self._changed_account, decided.effects)) | dict(self._changed_reversals(decided))
            entries = {self.tables.entry_key(entry.entry_id): entry_item(entry) for _, entry in decided.effects}
        except _NotRead:
            raise
        except BaseException as error:  # noqa: BLE001 (an error of any type is this message's alone)
            self.dispositions[message] = disposition_of(error)
            return
        self.changed |= changed
        self.new_entries |= entries
        self.reversals |= decided.reversed_before.keys()
        self.observed |= changed | entries
        self.dispositions[message] = Done(decided.outcome)

    def serve(self, tickets: Mapping[Key, Ticket | Mark]) -> None:
        """Notes the tickets as served in those of their accounts that the commit changes."""
        for key in tickets.keys() & self.changed.keys():
            served = self.changed[key] | tickets[key].served(Line.of(self.before[key]))
            self.changed[key] = self.observed[key] = served
            self.served_accounts.add(key)

    def writes(self) -> list[Write]:
        """One write for each item that it changes, however many messages change it, and one for each journal entry.

        An item of the Reversals table on which only rejections depend is checked: nobody has changed it since.
        """
        return [
            *(replacing(key, self.before[key], item) for key, item in self.changed.items()),
            *(Put(key, item, absent("transaction_id")) for key, item in self.new_entries.items()),
            *(unchanged(key, self.before[key]) for key in sorted(self.reversals.difference(self.changed))),
        ]

    def _decided(self, transaction: TransactionMessage) -> _Decided:
        """The outcome in the transaction's journal entry if one was observed, else that of a new decision.

        A replayed transaction has no effects. The entries of two accounts commit together, so either of them replays
        the transaction. The outcome is that of its first account, unless only the other one's entry was observed.
        Raises Refusal, NotYet and _NotRead.
        """
        reversed_before: dict[Key, Reversed] = {}

        def find_reversed(entry_id: EntryId) -> Reversed:
            key = self.tables.reversed_key(entry_id)
            item = self._item(key)
            reversed_before[key] = reversed_from_item(item) if item else Reversed(*entry_id)
            return reversed_before[key]

        minor_units = MINOR_UNITS.get if self.minor_units else no_minor_units
        context = Context(self._find_entry, find_reversed, minor_units)
        account_ids = transaction.account_ids
        request = transaction.canonical_payload()
        existing = self._existing(account_ids, request)
        if existing is None and transaction.referred_entries:
            account_ids = transaction.all_account_ids(context)
            existing = self._existing(account_ids, request)
        sides: list[tuple[Account, Outcome]] = []

        def decide() -> Outcome:
            accounts = self._accounts(account_ids)
            posted_at = posting_time(self.now, accounts)
            decisions = transaction.decide(accounts, context)
            for before, decision in zip(accounts, decisions, strict=True):
                after = transaction.next_account(before, decision, posted_at)
                assert after is not None, "a decision is about an account that exists, or that it opens"
                sides.append((after, outcome_of(decision, after, posted_at)))
            check_effects(decisions, accounts, [after for after, _ in sides])
            return sides[0][1]

        outcome, payload_hash = decide_once(request, existing, decide)
        if payload_hash is None:
            return _Decided(outcome)
        effects = [
            _Effect(account, JournalEntry(account.account_id, transaction.transaction_id, request, payload_hash, each))
            for account, each in sides
        ]
        return _Decided(outcome, effects, reversed_before)

    def _existing(self, account_ids: Sequence[str], request: dict[str, Any]) -> JournalEntry | None:
        """The transaction's own entry. One of another request comes first: it refuses this one."""
        ids = (EntryId(account_id, request["transaction_id"]) for account_id in account_ids)
        found = filter(None, (self.observed.get(self.tables.entry_key(entry_id)) for entry_id in ids))
        return min(map(entry_from_item, found), key=lambda entry: entry.request == request, default=None)

    def _accounts(self, account_ids: Sequence[str]) -> list[Account | None]:
        keys = [self.tables.account_key(account_id) for account_id in account_ids]
        if unread := [key for key in keys if key not in self.observed]:
            raise _NotRead(unread)
        return [sound_account(item) if item else None for item in map(self.observed.get, keys)]

    def _find_entry(self, entry_id: EntryId) -> JournalEntry | None:
        item = self._item(self.tables.entry_key(entry_id))
        return sound_entry(item) if item else None

    def _item(self, key: Key) -> Item | None:
        if key not in self.observed:
            raise _NotRead([key])
        return self.observed[key]

    def _changed_account(self, effect: _Effect) -> tuple[Key, Item]:
        key = self.tables.account_key(effect.account.account_id)
        changed = (self.observed[key] or {}) | account_item(effect.account)
        changed.pop(VERSION_ID, None)  # of the commit before: this one writes its own
        return key, changed

    def _changed_reversals(self, decided: _Decided) -> Iterator[tuple[Key, Item]]:
        """What was reversed, as the decision leaves it. A rejection leaves it as it was."""
        for key, before in decided.reversed_before.items():
            for _, entry in decided.effects:
                outcome = entry.outcome
                if outcome.reversal and outcome.status == Status.POSTED and entry.account_id == before.account_id:
                    after = before.after(outcome.reversal, entry.transaction_id, outcome.account_version)
                    yield key, reversed_item(after)


def _halves(messages: Sequence[QueuedTransaction], error: Exception) -> list[Sequence[QueuedTransaction]]:
    """The messages' second half and their first, to be committed apart. A message alone is at fault for the error."""
    if len(messages) == 1:
        _give(disposition_of(error), messages)
        return []
    half = len(messages) // 2
    return [messages[half:], messages[:half]]


def _give(disposition: Disposition, messages: Iterable[QueuedTransaction]) -> None:
    for message in messages:
        message.disposition = disposition


def _measurements(messages: Sequence[QueuedTransaction], posters: Sequence[_GroupPoster]) -> list[Measurement]:
    outcomes = [message.disposition.outcome for message in messages if isinstance(message.disposition, Done)]
    new = [outcome for outcome in outcomes if isinstance(outcome, Outcome) and not outcome.replayed]
    reasons = Counter(outcome.reason for outcome in new if outcome.reason)
    times = list(itertools.chain.from_iterable(poster.commit_milliseconds for poster in posters))
    waits = list(itertools.chain.from_iterable(poster.line_milliseconds for poster in posters))
    return [
        Measurement("Posted", sum(outcome.status == Status.POSTED for outcome in new)),
        Measurement("Rejected", reasons.total()),
        Measurement("Duplicates", len(outcomes) - len(new)),
        Measurement("Conflicts", sum(poster.conflicts for poster in posters)),
        *(Measurement("Rejected", count, dimension=("Reason", reason)) for reason, count in reasons.items()),
        *(Measurement("CommitTime", milliseconds, MetricUnit.Milliseconds) for milliseconds in times[:MAXIMUM_VALUES]),
        *(Measurement("LineTime", milliseconds, MetricUnit.Milliseconds) for milliseconds in waits[:MAXIMUM_VALUES]),
    ]


def grouped_by_account(
    messages: Sequence[QueuedTransaction], account_ids_of: Callable[[QueuedTransaction], Sequence[str]]
) -> list[list[QueuedTransaction]]:
    """Groups of messages, in order: messages that share an account, directly or through others, are in one group."""
    parents: dict[str, str] = {}

    def root(account_id: str) -> str:
        while (parent := parents.setdefault(account_id, account_id)) != account_id:
            parents[account_id] = parents[parent]
            account_id = parent
        return account_id

    for message in messages:
        first, *others = account_ids_of(message)
        for other in others:
            parents[root(other)] = root(first)
    groups: dict[str, list[QueuedTransaction]] = {}
    for message in messages:
        groups.setdefault(root(message.decoded.account_ids[0]), []).append(message)
    return list(groups.values())
