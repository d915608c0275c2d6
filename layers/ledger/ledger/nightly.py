"""A night's check of all accounts, in steps: a page of accounts side by side, or an account that needs more, alone.

Whatever one account is like, the others are checked: the time for an account is bounded. Trouble of AWS's is raised.

A run saves how far it has come after each step. So a killed run goes on, and an account that kills it is found.

Before the accounts, the last night's root is compared with the table Checkpoints, and after them a new one is
published: `roots.py`.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from conditional_writes import Deadline, DeadlinePassed, Item
from conditional_writes.core.client import SLOWEST_CALL_SECONDS
from conditional_writes.core.unconditional import projection
from ledger.checkpoints import Checkpoint, Checkpoints, Root, Roots, Walk
from ledger.core.accounts import CLOCK_SKEW, LONGEST_POSTING, Account, timestamp
from ledger.core.totals import HashTree, TrialBalance
from ledger.published_roots import PublishedRoots
from ledger.reconciler import (
    LONGEST_REASON,
    PAUSES_SECONDS,
    Checked,
    Mismatched,
    Night,
    Position,
    Reconciler,
    Skipped,
    Sound,
)
from ledger.table_reading import AWS_ERRORS, TablePage, account_page
from workers.scheduled_jobs import Run, Step, flag_of

MAX_PARALLEL = 8
"""Accounts that are checked at the same time: one journal is read while another is replayed."""
STEP_SECONDS = 30
"""Of accounts side by side: then none begins, and a replay stops after its page."""
ALONE_SECONDS = 55
CHECKPOINTS_SECONDS = 5
"""To read the accounts' checkpoints of a step, and to save them. If that fails, the run does, and Lambda retries it."""
LONGEST_ALONE_SECONDS = ALONE_SECONDS + CHECKPOINTS_SECONDS + 2 * SLOWEST_CALL_SECONDS
"""Of an account alone: the last call of the check begins within its time, and the last of the saving within its own."""

FIRST = 20
"""The number of mismatches, and of skipped accounts, in the report. The log has all of them.

A sentence has 1,500 characters at most, a reason 1,000. With account ids of 2 KB, and 4 bytes for each character, the
report has 290 KB, of DynamoDB's 400.
"""
MOST_KILLS = 2
"""An account is skipped when its check alone was killed so often. Once, any run may be killed."""


class Place(NamedTuple):
    """How far a run has come.

    `after` is the last account that was checked or skipped, `alone` how many of the next accounts are checked alone,
    `begun` the account whose check alone has begun, `position` how far the replay of its journal has come if that is
    long, and `kills` how often the function was killed since then.
    """

    after: str | None = None
    alone: int = 0
    begun: str | None = None
    position: Item | None = None
    kills: int = 0


class Tally(NamedTuple):
    """The report's fields: of a run so far, or of a part of it."""

    accounts_checked: int = 0
    accounts_replayed_whole: int = 0
    accounts_skipped: int = 0
    mismatches: int = 0
    first_mismatches: Sequence[str] = ()
    first_skipped: Sequence[str] = ()

    def plus(self, other: "Tally") -> "Tally":
        """The sums of the numbers, and the first of the lists."""
        return Tally(
            self.accounts_checked + other.accounts_checked,
            self.accounts_replayed_whole + other.accounts_replayed_whole,
            self.accounts_skipped + other.accounts_skipped,
            self.mismatches + other.mismatches,
            [*self.first_mismatches, *other.first_mismatches][:FIRST],
            [*self.first_skipped, *other.first_skipped][:FIRST],
        )

    @classmethod
    def of(cls, checked: Sequence[Checked]) -> "Tally":
        mismatches = [mismatch for each in checked if isinstance(each, Mismatched) for mismatch in each.mismatches]
        skipped = [each for each in checked if isinstance(each, Skipped)]
        return cls(
            accounts_checked=len(checked) - len(skipped),
            accounts_replayed_whole=sum(isinstance(each, Sound) and each.is_whole for each in checked)
            + sum(isinstance(each, Mismatched) for each in checked),
            accounts_skipped=len(skipped),
            mismatches=len(mismatches),
            first_mismatches=[f"{each.account_id}: {each.what}: {each.sentence}" for each in mismatches][:FIRST],
            first_skipped=[f"{each.account_id}: {each.reason}" for each in skipped][:FIRST],
        )


class Gone(NamedTuple):
    """A mismatch of all accounts, or of their checkpoints: which account it is about isn't known."""

    what: Literal["wrong root", "missing accounts", "trial balance"]
    sentence: str

    def __str__(self) -> str:
        of = "all accounts" if self.what == "trial balance" else "table Checkpoints"
        return f"{of}: {self.what}: {self.sentence}"


class Progress(NamedTuple):
    """How far a run has come, and the tally so far.

    Its parts are the comparison of the last root, with what that has found in `root_before`; the accounts; the new root
    """

    place: Place = Place()
    tally: Tally = Tally()
    trial_balance: TrialBalance = TrialBalance()
    part: Literal["last root", "accounts", "root"] = "last root"
    walk: Walk = Walk()
    root_before: Literal["confirmed", "changed", "unknown"] = "unknown"

    def as_item(self) -> Item:
        parts = {"part": self.part, "walk": self.walk, "root_before": self.root_before}
        trial_balance = {"trial_balance": self.trial_balance.as_item()}
        return self.place._asdict() | self.tally._asdict() | trial_balance | parts

    @classmethod
    def from_item(cls, item: Item) -> "Progress":
        place = Place(item["after"], int(item["alone"]), item["begun"], item["position"], int(item["kills"]))
        tally = {name: item[name] for name in Tally._fields}
        numbers = {name: int(value) for name, value in tally.items() if not isinstance(value, list)}
        after, accounts, ranges, (size, peaks) = item["walk"]
        walk = Walk(after, int(accounts), tuple(ranges), HashTree(int(size), tuple(peaks)))
        trial_balance = TrialBalance.from_item(item["trial_balance"])
        return cls(place, Tally(**tally | numbers), trial_balance, item["part"], walk, item["root_before"])


class NightlyCheck(NamedTuple):
    """The work of the job `reconcile_accounts`. A step checks at most so many accounts.

    `tell` gets the results for accounts, with their tally, before the run's progress has them; and what is gone. Roots
    are `published` in a bucket, if there is one. In `double_entry` the balances of each currency sum to zero.
    """

    reconciler: Reconciler
    checkpoints: Checkpoints
    roots: Roots
    tell: Callable[[Sequence[Checked | Gone], Tally], None]
    accounts_per_step: int
    double_entry: bool = False
    published: PublishedRoots | None = None

    def steps(self, run: Run) -> Iterator[Step]:
        """A step is a page of accounts, side by side, or a part of the check of one account. Raises InvalidEvent."""
        progress = Progress.from_item(run.checkpoint) if run.checkpoint else _beginning(run)
        night = Night(run.scheduled_time.date(), flag_of(run.event, "whole"), progress.trial_balance.as_of)
        if run.after_kill and (after_kill := self._after_kill(progress)) != progress:
            progress = after_kill
            yield Step(progress.as_item())
        if progress.part == "last root":
            progress = yield from self._last_root(run, progress)
        is_last = progress.part == "root"
        while not is_last:
            if progress.place.alone:
                progress, is_last = yield from self._alone(run, night, progress)
            else:
                progress, is_last = self._page(run, night, progress)
            if is_last:
                progress = progress._replace(part="root")
            yield Step(progress.as_item(), next_seconds=LONGEST_ALONE_SECONDS if progress.place.begun else 0)
        progress = yield from self._walked(progress)
        accounts, root = progress.walk.accounts, Root.of(run.scheduled_time.isoformat(), progress.walk.ranges)
        if accounts > (checked := progress.tally.accounts_checked):
            sentence = f"it has {accounts:,} accounts, of the table Accounts {checked:,} were checked"
            progress = self._with(progress, Gone("missing accounts", sentence))
        if self.published and (first := self.published.publish(root)).root != root.root:
            sentence = f"it is {root.root}, the bucket has {first.root} for this run since before"
            progress = self._with(progress, Gone("wrong root", sentence))
        for sentence in progress.trial_balance.wrong(double_entry=self.double_entry):
            progress = self._with(progress, Gone("trial balance", sentence))
        report: Item = progress.tally._asdict() | {"root": root.root, "root_before": progress.root_before}
        report["trial_balance"] = progress.trial_balance.as_report()
        yield Step(progress.as_item(), report, writes=[self.roots.record(root)])

    def _last_root(self, run: Run, progress: Progress) -> Generator[Step, None, Progress]:
        """The progress after the comparison. From then on the last root is none: checkpoints are written."""
        if last := self._newest():
            progress = yield from self._walked(progress)
            found = Root.of(last.scheduled_time, progress.walk.ranges)
            is_confirmed = found.root == last.root
            progress = progress._replace(root_before="confirmed" if is_confirmed else "changed")
            if not is_confirmed:
                progress = self._with(progress, Gone("wrong root", self.roots.difference(found, last)))
        progress = progress._replace(part="accounts", walk=Walk())
        yield Step(progress.as_item(), writes=[self.roots.record(Root(run.scheduled_time.isoformat()))])
        return progress

    def _newest(self) -> Root | None:
        """The bucket's, if there is one: the record is in a table that others may write."""
        recorded = self.roots.newest()
        if self.published and not (recorded and recorded.is_pending):
            recorded = self.published.newest() or recorded
        return None if recorded is None or recorded.is_pending else recorded

    def _with(self, progress: Progress, gone: Gone) -> Progress:
        """The progress with one more mismatch, after it was told."""
        tally = Tally(mismatches=1, first_mismatches=[str(gone)])
        self.tell([gone], tally)
        return progress._replace(tally=progress.tally.plus(tally))

    def _walked(self, progress: Progress) -> Generator[Step, None, Progress]:
        """The progress after all checkpoints were read: a step for each page but the last."""
        while (walk := self.roots.further(progress.walk)).after is not None:
            progress = progress._replace(walk=walk)
            yield Step(progress.as_item())
        return progress._replace(walk=walk)

    def _page(self, run: Run, night: Night, progress: Progress) -> tuple[Progress, bool]:
        """The progress after a page, and whether it was the last. An account that needs more is checked alone next."""
        page = self._accounts(run, progress, self.accounts_per_step)
        checked: list[Checked] = []
        for result in self._side_by_side(page.items, night):
            if result is None or isinstance(result, Position):
                place = Place(checked[-1].account_id if checked else progress.place.after, alone=1)
                if result:
                    place = place._replace(begun=result.target.account_id, position=result.as_item())
                return self._counted(progress, checked)._replace(place=place), False
            checked.append(result)
        return self._counted(progress, checked)._replace(place=Place(page.after)), page.after is None

    def _side_by_side(self, items: Sequence[Item], night: Night) -> list[Checked | Position | None]:
        """The results for accounts, in order. None if the reads of an account failed, or if no time was left for it."""
        saved = self.checkpoints.read([item["account_id"] for item in items], Deadline.after(CHECKPOINTS_SECONDS))
        until = Deadline.after(STEP_SECONDS)

        def check(item: Item) -> Checked | Position | None:
            try:
                until.check("beginning an account")
                return self.reconciler.check(item, saved.get(item["account_id"]), night, until)
            except AWS_ERRORS:
                return None

        with ThreadPoolExecutor(MAX_PARALLEL) as pool:
            return list(pool.map(check, items))

    def _alone(self, run: Run, night: Night, progress: Progress) -> Generator[Step, None, tuple[Progress, bool]]:
        """The progress after the next account, and whether it was the last. A long journal takes several steps."""
        page = self._accounts(run, progress, 1)
        for account in page.items:
            if account["account_id"] != progress.place.begun:
                begun = progress.place._replace(begun=account["account_id"], position=None, kills=0)
                progress = progress._replace(place=begun)
                yield Step(progress.as_item(), next_seconds=LONGEST_ALONE_SECONDS)
            position = Position.from_item(progress.place.position) if progress.place.position else None
            while isinstance(result := self._checked_alone(account, night, position), Position):
                position = result
                progress = progress._replace(place=progress.place._replace(position=position.as_item(), kills=0))
                yield Step(progress.as_item(), next_seconds=LONGEST_ALONE_SECONDS)
            progress = self._counted(progress, [result])
        place = Place(page.after, alone=progress.place.alone - 1)
        return progress._replace(place=place), page.after is None

    def _checked_alone(self, item: Item, night: Night, position: Position | None) -> Checked | Position:
        """An account whose reads fail is skipped.

        But if the reads of an account that doesn't exist fail, too, the trouble is AWS's: then raises AWS_ERRORS.
        """
        account_id, deadline = item["account_id"], Deadline.after(ALONE_SECONDS)
        for pause_seconds in (*PAUSES_SECONDS, None):
            try:
                checkpoint = self.checkpoints.read([account_id], deadline).get(account_id)
                return self.reconciler.check(item, checkpoint, night, deadline, position)
            except AWS_ERRORS as error:
                reason = f"its items couldn't be read: {type(error).__name__}: {error}"[:LONGEST_REASON]
                if pause_seconds is None or isinstance(error, DeadlinePassed):
                    break
            time.sleep(pause_seconds)
        self.reconciler.read_nothing(Deadline.after(SLOWEST_CALL_SECONDS))
        return Skipped(account_id, reason)

    def _after_kill(self, progress: Progress) -> Progress:
        """After a kill, the next accounts are checked alone. One whose check alone is killed again is skipped."""
        place = progress.place
        if place.begun is None:
            return progress._replace(place=place._replace(alone=self.accounts_per_step))
        kills = place.kills + 1
        if kills < MOST_KILLS:
            return progress._replace(place=place._replace(kills=kills))
        reason = f"the function was killed {kills} times while it checked this account alone"
        skipped = self._counted(progress, [Skipped(place.begun, reason)])
        return skipped._replace(place=Place(place.begun, alone=place.alone - 1))

    def _counted(self, progress: Progress, checked: Sequence[Checked]) -> Progress:
        """The progress with these results, after they were told, and their checkpoints saved.

        The checkpoint of an account with mismatches, or of a skipped one, is deleted: so it is replayed whole each
        night until it is mended.
        """
        tally = Tally.of(checked)
        self.tell(checked, tally)
        changed: dict[str, Checkpoint | None] = {}
        for each in checked:
            match each:
                case Sound(account_id, Checkpoint() as new):
                    changed[account_id] = new
                case Mismatched() | Skipped():
                    changed[each.account_id] = None
        self.checkpoints.write(changed, Deadline.after(CHECKPOINTS_SECONDS))
        trial_balance = progress.trial_balance
        for each in checked:
            found = (each.currency, each.turnover) if isinstance(each, Sound) else ("", None)
            trial_balance = trial_balance.plus(*found)
        return progress._replace(tally=progress.tally.plus(tally), trial_balance=trial_balance)

    def _accounts(self, run: Run, progress: Progress, limit: int) -> TablePage:
        tables, only = self.reconciler.tables, projection(Account.__struct_fields__)
        return account_page(self.reconciler.client, tables.accounts, progress.place.after, limit, **only)


def _beginning(run: Run) -> Progress:
    """The sums are those of a moment so long ago that what was posted before it can be read."""
    now = min(run.scheduled_time, datetime.now(UTC))
    return Progress(trial_balance=TrialBalance(timestamp(now - LONGEST_POSTING - CLOCK_SKEW)))
