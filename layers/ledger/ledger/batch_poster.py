"""Posts the transactions of a batch: read, fold, commit.

The accounts of the batch are read together. The messages of each group of accounts are folded in memory: `fold.py`.
Then the group's accounts and journal entries commit in one DynamoDB transaction. After a conflict the messages are
folded again, from what DynamoDB found instead. Commits of a contended account take turns: `lines.py`.
"""

import contextlib
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aws_lambda_powertools.metrics import MetricUnit
from msgspec import Struct, field

from conditional_writes import Deadline, Item, Key, Observed, Stopped, Write, Written, read, write
from conditional_writes.core.unconditional import MAXIMUM_KEYS, read_once
from ledger.core.journal import EntryId, JournalEntry, Outcome, entry_from_item
from ledger.core.pools import NUMBERS_OF_SHARDS, Pool
from ledger.core.reason_codes import InvalidMessage
from ledger.core.rules import Status
from ledger.core.transaction_types.base import TransactionMessage
from ledger.dispositions import after_commit, disposition_of, is_about_content
from ledger.fold import Commit, Fold, QueuedTransaction
from ledger.lines import Lines, Mark, Ticket
from ledger.tables import ACCOUNT_ATTRIBUTES, LedgerTables, Line
from workers.batches import MAXIMUM_VALUES, Measurement
from workers.parallel import in_parallel
from workers.queue_messages import Again, Disposition, Done, PerhapsDone

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

NOTHING: Observed = {}
NO_POOLS: Mapping[str, Pool] = {}
FEW_ACCOUNTS = 4
"""The contended accounts with which a group waits in the line of one of them. With more it waits for a shared turn."""


class BatchPoster(Struct):
    """The ledger's tables, the client that reads and writes them, and the lines of contended accounts.

    `minor_units` says whether accounts are opened under the rule of minor units, `double_entry` whether no amount may
    have one side alone. `pools` has those that were read before: their shards are read together with them. A pool that
    isn't there, or that has more shards by now, takes one read more. `first_shard` is the first of the shards of each
    pool to which this worker keeps.
    """

    client: "DynamoDBClient"
    tables: LedgerTables
    lines: Lines
    minor_units: bool = True
    double_entry: bool = False
    pools: dict[str, Pool] = {}
    first_shard: int = field(default_factory=lambda: random.randrange(NUMBERS_OF_SHARDS[-1]))

    def post(self, messages: Sequence[QueuedTransaction], deadline: Deadline) -> list[Measurement]:
        """Posts or rejects each transaction exactly once, whoever else is posting. Sets each message's disposition.

        One read per 100 keys, and one commit per group of accounts (and 100 items). If a group's items can't be
        read, or AWS can't commit it, its messages come again, and no other group's. After DeadlinePassed nothing of a
        commit was written; if a commit got no answer, the next delivery finds its journal entries, and replays them.
        """
        messages = sorted(messages, key=lambda each: each.sent_at)  # a standard queue hands them over in any order
        items, unread = self._read(messages, deadline)
        groups = self._groups(messages, items, unread, deadline)
        at_once = [group for group in groups if not group.needs_shared_turn]
        if len(at_once) == 1:
            at_once[0].post(items)  # without a thread, which takes longer to start than a message to be decided
        else:
            in_parallel(lambda group: group.post(items), at_once)
        if in_turn := [group for group in groups if group.needs_shared_turn]:
            self._post_in_turn(in_turn, deadline)
        return _measurements(messages, groups)

    def decide(self, messages: Sequence[QueuedTransaction], deadline: Deadline) -> None:
        """Sets the dispositions that `post` would set now, and writes nothing."""
        items, unread = self._read(messages, deadline)
        for group in self._groups(messages, items, unread, deadline):
            group.decide(items)

    def _read(
        self, messages: Sequence[QueuedTransaction], deadline: Deadline
    ) -> tuple[Observed, Mapping[Key, Disposition]]:
        """The items that the messages are known to need; and of those that couldn't be read, what becomes the
        messages that need them. An item that DynamoDB left unprocessed is in neither."""
        items: dict[Key, Item | None] = {}
        unread: dict[Key, Disposition] = {}
        asked: set[Key] = set()
        pools: Mapping[str, Pool] = self.pools
        while wanted := [key for key in dict.fromkeys(self.keys_of(messages, NOTHING, pools)) if key not in asked]:
            asked.update(wanted)
            for keys in itertools.batched(wanted, MAXIMUM_KEYS, strict=False):
                try:
                    items |= read_once(self.client, keys, deadline, self._attributes)
                except Exception as error:  # noqa: BLE001 (it costs the groups with these keys)
                    unread |= dict.fromkeys(keys, Again.after(error))
            if not (pools := self.tables.pools_in(items)):
                break
            self.pools |= pools
        return items, unread

    def _groups(
        self,
        messages: Sequence[QueuedTransaction],
        items: Observed,
        unread: Mapping[Key, Disposition],
        deadline: Deadline,
    ) -> "list[_Group]":
        """The groups whose items could be read, or weren't asked for yet. The messages of the others come again.

        Groups that read again, or wait in line, come last: they may take all the threads, and all of the time.
        """
        groups, pools = [], self.tables.pools_in(items)

        def account_ids_of(message: QueuedTransaction) -> Sequence[str]:
            return self._account_ids(self._on_shards(message.decoded, pools), items)

        for of_group in grouped_by_account(messages, account_ids_of):
            group = _Group(self, deadline, of_group, self.keys_of(of_group, items, pools), batches=[of_group])
            if failed := next((unread[key] for key in group.keys if key in unread), None):
                group.give(failed)
            else:
                groups.append(group)
        contended = {key for key, item in items.items() if Line.of(item).is_contended}
        ready = items.keys() - contended
        groups.sort(key=lambda group: not ready.issuperset(group.keys))
        if any(len(contended.intersection(group.keys)) > FEW_ACCOUNTS for group in groups):
            for group in groups:
                group.needs_shared_turn = len(contended.intersection(group.keys)) > 1
        return groups

    def _post_in_turn(self, groups: "Sequence[_Group]", deadline: Deadline) -> None:
        """Posts groups with many contended accounts: in one turn of the shared line, and from what is read in it."""
        try:
            ticket = self.lines.wait_for_shared_turn(deadline)
            turn = _SharedTurn(ticket, list(groups))
            in_parallel(lambda group: group.post_in_turn(turn), groups)
            if ticket:
                groups[0].note_wait(ticket)
                if not turn.has_ended:
                    self.lines.leave_shared_turn(ticket, deadline)
        except Exception as error:  # noqa: BLE001 (AWS's trouble is these groups' alone)
            for group in groups:
                group.give(disposition_of(error))

    def read(self, keys: Iterable[Key], deadline: Deadline) -> Observed:
        """The items as they are now, accounts without others' attributes. Raises what `read` raises."""
        return read(self.client, keys, deadline, self._attributes)

    def own_parts(self, items: Observed) -> dict[Key, Item | None]:
        """The items as they would be read. A refused commit hands accounts back whole."""
        return {
            key: item and {name: item[name] for name in self._attributes.get(key.table, item) if name in item}
            for key, item in items.items()
        }

    @property
    def _attributes(self) -> dict[str, Sequence[str]]:
        """The attributes that are read, by table."""
        return {self.tables.accounts: ACCOUNT_ATTRIBUTES}

    def keys_of(
        self, messages: Iterable[QueuedTransaction], known: Observed = NOTHING, pools: Mapping[str, Pool] = NO_POOLS
    ) -> list[Key]:
        """The keys of the items that are read before the fold: the messages' accounts, the journal entries that each
        decision refers to, with what was reversed of them, and the own entries of messages that were delivered before.
        Only those messages may be posted already. The shards of `pools` are among the accounts, and what may be a pool.

        If a referred entry is in `known`, the keys of its accounts are among them, and those of its other sides if a
        decision depends on each of them.
        """
        keys: list[Key] = []
        for message in messages:
            transaction = self._on_shards(message.decoded, pools)
            account_ids = self._account_ids(transaction, known)
            entry_ids = (*transaction.referred_entries, *self._other_sides(transaction, known))
            keys += map(self.tables.reversed_key, transaction.reversed_ids)
            if message.delivered_before:
                entry_ids += (EntryId(account_ids[0], transaction.transaction_id),)
            keys += [self.tables.account_key(account_id) for account_id in account_ids]
            keys += map(self.tables.account_key, message.decoded.possible_pools)
            keys += [self.tables.entry_key(entry_id) for entry_id in entry_ids]
        return keys

    def _on_shards(self, transaction: TransactionMessage, pools: Mapping[str, Pool]) -> TransactionMessage:
        """The transaction on its shards of these pools."""
        if pools:
            with contextlib.suppress(InvalidMessage):  # its decision says so
                return transaction.on_shards(transaction.shards_in(pools, self.first_shard))
        return transaction

    def _account_ids(self, transaction: TransactionMessage, known: Observed) -> Sequence[str]:
        """The transaction's accounts, as far as they are known from what was read. Of a pool it is the shard."""
        return (
            *transaction.account_ids,
            *itertools.chain.from_iterable(found.account_ids for found in self._referred(transaction, known)),
        )

    def _other_sides(self, transaction: TransactionMessage, known: Observed) -> Iterator[EntryId]:
        """The ids of the entries of a referred transaction with more than two accounts."""
        for found in self._referred(transaction, known):
            if len(found.account_ids) > 2:
                yield from map(found.on, found.account_ids)

    def _referred(self, transaction: TransactionMessage, known: Observed) -> Iterator[JournalEntry]:
        """Those of the referred entries that were read."""
        for entry_id in transaction.referred_entries:
            if item := known.get(self.tables.entry_key(entry_id)):
                with contextlib.suppress(KeyError, TypeError, ValueError):  # the message's decision says what is wrong
                    yield entry_from_item(item)


class _SharedTurn(Struct):
    """A turn of the shared line. It `has_ended` if the last commit of its last group was the end of it, too.

    `groups` are those at work. If the turn couldn't be had, there is no `ticket`.
    """

    ticket: Ticket | None
    groups: list["_Group"]
    has_ended: bool = False


class _Group(Struct, eq=False):
    """The messages of one group, which are committed in order, as many at a time as fit into one DynamoDB transaction.

    `keys` are those of the group's items, and `items` has them as they were last seen. `batches` are the messages that
    aren't committed yet, the next ones last. `tickets` has those that no commit has served yet, by account. `conflicts`
    counts refused commits, `losses` those that lost an account, by account. If the group `needs_shared_turn`, its
    messages wait for that. Afterwards it has the `turn`.
    """

    poster: BatchPoster
    deadline: Deadline
    messages: Sequence[QueuedTransaction]
    keys: Sequence[Key]
    batches: list[Sequence[QueuedTransaction]]
    items: dict[Key, Item | None] = {}
    needs_shared_turn: bool = False
    turn: _SharedTurn | None = None
    tickets: dict[Key, Ticket] = {}
    losses: Counter[Key] = field(default_factory=Counter)
    conflicts: int = 0
    commit_milliseconds: list[float] = []
    line_milliseconds: list[float] = []

    def post(self, known: Observed) -> None:
        """Sets the messages' dispositions, unless the group comes to need a shared turn.

        `known` has items that were read before. The others are read. Each commit has the next messages, as many as fit.

        If a commit loses an account to another writer, the next try is made at once. If the group loses the account
        again, it waits in the account's line before the next try: a quiet account is hardly lost twice.

        If a commit fails for something in it, its messages are committed in two halves, and so on down to one message:
        one at fault among n costs 2 log n further tries at most, n at fault cost 2 n. If AWS is in trouble, messages
        without a disposition can be tried again. Tickets that the group holds then are left to lapse.
        """
        try:
            self._read(known)
            if not self.turn and (contended := self._contended()):
                self._line_up(min(contended))  # one line for groups that share several accounts
            while self.batches:
                messages, started = self.batches.pop(), time.monotonic()
                plan = self._commit(messages).plan
                try:
                    written = write(self.poster.client, plan, self.items, self.deadline, stop=self._has_accounts)
                except Exception as error:  # noqa: BLE001 (AWS's trouble is raised again)
                    self._halve(messages, error)
                else:
                    self._take(messages, written, started)
                if self.needs_shared_turn and not self.turn:
                    return
            for key, ticket in self.tickets.items():
                self.poster.lines.leave(key, ticket, self.deadline)
        except Exception as error:  # noqa: BLE001 (AWS's trouble is this group's alone)
            self.give(disposition_of(error))

    def post_in_turn(self, turn: _SharedTurn) -> None:
        """As `post`, from what is read now. If the turn couldn't be had, it is tried all the same."""
        self.turn = turn
        self.post(NOTHING)
        turn.groups.remove(self)

    def decide(self, known: Observed) -> None:
        """As `post`, without a write: the fold alone says what would be committed."""
        try:
            self._read(known)
            while self.batches:
                messages = self.batches.pop()
                fold = self._commit(messages).plan(self.items).result
                if fold.unread:
                    self._read_again(messages, fold)
                else:
                    self._finish(messages, fold)
        except Exception as error:  # noqa: BLE001 (AWS's trouble is this group's alone)
            self.give(disposition_of(error))

    def _read(self, known: Observed) -> None:
        self.items = {key: known[key] for key in self.keys if key in known}
        if unread := [key for key in self.keys if key not in known]:
            self.items |= self.poster.read(unread, self.deadline)

    def give(self, disposition: Disposition) -> None:
        """Gives it to the messages that have none."""
        for message in self.messages:
            message.disposition = message.disposition or disposition

    def note_wait(self, ticket: Ticket) -> None:
        if ticket.waited_seconds is not None:
            self.line_milliseconds.append(round(ticket.waited_seconds * 1000, 1))

    def _take(self, messages: Sequence[QueuedTransaction], written: Written[Fold] | Stopped, started: float) -> None:
        """Takes the answer to the commit of these messages: they have their dispositions, or are next again."""
        self.conflicts += written.conflicts
        match written:
            case Stopped(found=found, observed=observed):
                self.batches.append(messages)
                self.items = self.poster.own_parts(observed)
                self._line_up_after(self._accounts_of(found))
            case Written(Fold(unread=[_, *_]) as fold):
                self._read_again(messages, fold)
            case Written(fold):
                if fold.new_entries:
                    self.commit_milliseconds.append(round((time.monotonic() - started) * 1000, 1))
                self._finish(messages, fold)

    def _end_of_turn(self) -> list[Write]:
        """The write that ends the shared turn, if the next batch is the last one in it."""
        if not self.turn or not self.turn.ticket or self.batches or self.turn.groups != [self]:
            return []
        return [self.poster.lines.end_of_shared_turn(self.turn.ticket)]

    def _commit(self, messages: Sequence[QueuedTransaction]) -> Commit:
        """The commit of these messages, which are a batch."""
        tickets: Mapping[Key, Ticket | Mark] = {**self._marks(), **self.tickets}
        poster, now = self.poster, datetime.now(UTC)
        return Commit(
            poster.tables,
            poster.minor_units,
            messages,
            tickets,
            now,
            poster.double_entry,
            poster.first_shard,
            self._end_of_turn(),
        )

    def _read_again(self, messages: Sequence[QueuedTransaction], fold: Fold) -> None:
        """The batch is next again, with the items that its decisions depend on, too."""
        self.batches.append(messages)
        self.items = {**fold.before, **self.poster.read(fold.unread, self.deadline)}

    def _finish(self, messages: Sequence[QueuedTransaction], fold: Fold) -> None:
        """Gives the committed messages their dispositions. The rest of the batch is next."""
        assert fold.dispositions, "a transaction has more accounts than one commit has room for"
        self.items = fold.after
        for message, disposition in fold.dispositions.items():
            message.disposition = disposition
        for key in fold.served_accounts:
            self.tickets.pop(key, None)
        if self.turn and fold.last_writes:
            self.turn.has_ended = True
        if rest := messages[len(fold.dispositions) :]:
            self.batches.append(rest)

    def _halve(self, messages: Sequence[QueuedTransaction], error: Exception) -> None:
        """The messages' halves are next, or a message alone is at fault for the error. Raises it if it is AWS's.

        A message that is perhaps done stays so, however a later commit of it fails.
        """
        disposition, is_of_aws = after_commit(error), not is_about_content(error)
        is_last_try = is_of_aws or len(messages) == 1
        if is_last_try or isinstance(disposition, PerhapsDone):
            for message in messages:
                if not isinstance(message.disposition, PerhapsDone):
                    message.disposition = disposition
        if is_of_aws:
            raise error
        if not is_last_try:
            half = len(messages) // 2
            self.batches += [messages[half:], messages[:half]]

    def _line_up_after(self, lost: Sequence[Key]) -> None:
        """Waits in one line if an account was lost for the second time, or although the group has its ticket.

        If many accounts are contended by now, the group needs a shared turn. In its turn it tries again at once.
        """
        self.losses.update(lost)
        if self.turn:
            if not self.turn.ticket:
                self._step_aside()
            return
        contended = self._contended()
        self.needs_shared_turn = len(contended) > FEW_ACCOUNTS
        if not self.needs_shared_turn and contended.intersection(lost):
            self._line_up(min(contended))

    def _contended(self) -> set[Key]:
        """The accounts that are marked, and those that the group has a ticket of, or has lost twice."""
        marked = {key for key in self._accounts_of(self.items) if Line.of(self.items[key]).is_contended}
        return marked | self.tickets.keys() | {key for key, losses in self.losses.items() if losses > 1}

    def _marks(self) -> dict[Key, Mark]:
        """Marks that keep accounts contended, if accounts were lost, or if the shared turn had to be waited for."""
        if not self.turn:
            return {}
        is_contended = self.losses or (self.turn.ticket and self.turn.ticket.mark)
        return dict.fromkeys(self._contended(), Mark.from_now()) if is_contended else {}

    def _step_aside(self) -> None:
        seconds = random.uniform(0, max(self.losses.values(), default=0))
        time.sleep(min(seconds, max(0.0, self.deadline.remaining_seconds)))

    def _line_up(self, account_key: Key) -> None:
        """Waits for the group's turn in the account's line. If that took time, its other accounts are read again.

        If the line's record can't be written, the group steps aside for a random time instead.
        """
        line, losses = Line.of(self.items[account_key]), self.losses[account_key]
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
        self.items = {**self.items, account_key: account}
        if ticket.waited_seconds is not None:
            self.note_wait(ticket)
            others = [key for key in self._accounts_of(self.items) if key != account_key]
            self.items |= self.poster.read(others, self.deadline)

    def _has_accounts(self, items: Observed) -> bool:
        return bool(self._accounts_of(items))

    def _accounts_of(self, items: Observed) -> list[Key]:
        return [key for key in items if key.table == self.poster.tables.accounts]


def _measurements(messages: Sequence[QueuedTransaction], groups: Sequence[_Group]) -> list[Measurement]:
    outcomes = [message.disposition.effect for message in messages if isinstance(message.disposition, Done)]
    new = [outcome for outcome in outcomes if isinstance(outcome, Outcome) and not outcome.replayed]
    reasons = Counter(outcome.reason for outcome in new if outcome.reason)
    times = list(itertools.chain.from_iterable(group.commit_milliseconds for group in groups))
    waits = list(itertools.chain.from_iterable(group.line_milliseconds for group in groups))
    return [
        Measurement("Posted", sum(outcome.status == Status.POSTED for outcome in new)),
        Measurement("Rejected", reasons.total()),
        Measurement("Duplicates", len(outcomes) - len(new)),
        Measurement("Conflicts", sum(group.conflicts for group in groups)),
        *(Measurement("Rejected", count, dimension=("Reason", reason)) for reason, count in reasons.items()),
        *(Measurement("CommitTime", milliseconds, MetricUnit.Milliseconds) for milliseconds in times[:MAXIMUM_VALUES]),
        *(Measurement("LineTime", milliseconds, MetricUnit.Milliseconds) for milliseconds in waits[:MAXIMUM_VALUES]),
    ]


def grouped_by_account(
    messages: Sequence[QueuedTransaction], account_ids_of: Callable[[QueuedTransaction], Sequence[str]]
) -> list[list[QueuedTransaction]]:
    """Groups of messages, in order: messages that share an account, directly or through others, are in one group."""
    parents: dict[str, str] = {}
    firsts: list[str] = []

    def root(account_id: str) -> str:
        while (parent := parents.setdefault(account_id, account_id)) != account_id:
            parents[account_id] = parents[parent]
            account_id = parent
        return account_id

    for message in messages:
        first, *others = account_ids_of(message)
        firsts.append(first)
        for other in others:
            parents[root(other)] = root(first)
    groups: dict[str, list[QueuedTransaction]] = {}
    for message, first in zip(messages, firsts, strict=True):
        groups.setdefault(root(first), []).append(message)
    return list(groups.values())
