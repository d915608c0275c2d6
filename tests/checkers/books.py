"""Invariants of accounts and journals, checked from the tables alone by the oracle's rules, not by the product's."""

import hashlib
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from msgspec.structs import astuple

from conditional_writes.core.items import from_dynamodb
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import JournalEntry, entry_from_item
from ledger.core.limits import limits_item
from ledger.core.reason_codes import InvalidMessage
from ledger.core.reversals import Reversed, reversed_from_item
from ledger.core.transaction_types import decode
from tests.checkers import oracle, seals
from tests.checkers.interest_oracle import YEAR, Interest
from tests.checkers.poison import is_invalid
from tools.local_aws.queues import DeadLetter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, scan

MILLISECOND = timedelta(milliseconds=1)

type Items = Iterable[dict[str, Any]]


@dataclass(frozen=True)
class Books:
    """The accounts, each account's journal in version order, and what was reversed; None if that wasn't read.

    `reversals` are by the home of the reversed transaction, and its id. `broken_seals` has a sentence for each key and
    each seal in the tables that isn't as it should be.
    """

    accounts: dict[str, Account]
    journal: dict[str, list[JournalEntry]]
    reversals: dict[tuple[str, str], Reversed] | None = None
    broken_seals: Sequence[str] = ()

    @property
    def entries(self) -> list[JournalEntry]:
        return [entry for entries in self.journal.values() for entry in entries]

    def counts(self) -> Counter[str]:
        """Counts posted transactions by status and rejected ones by reason. One with two entries counts once."""
        return Counter(entry.outcome.reason or entry.outcome.status for entry in self._of_first_accounts)

    def types(self) -> Counter[str]:
        """Counts posted transactions by type. A transfer with two entries counts once."""
        return Counter(entry.request["type"] for entry in self._of_first_accounts if not entry.outcome.reason)

    @property
    def _of_first_accounts(self) -> list[JournalEntry]:
        return [each for each in self.entries if each.account_id == account_ids_of(each, oracle.Journal())[0]]


def read_books(endpoint: Endpoint, tables: Tables) -> Books:
    reversals = scan(endpoint, tables.reversals) if tables.reversals else None
    return books_of(scan(endpoint, tables.accounts), scan(endpoint, tables.journal), reversals)


def books_of(account_items: Items, journal_items: Items, reversal_items: Items | None = None) -> Books:
    """The books in the tables' items, which are in DynamoDB's JSON."""
    plain_accounts, plain_entries = list(map(from_dynamodb, account_items)), list(map(from_dynamodb, journal_items))
    accounts = list(map(account_from_item, plain_accounts))
    journal: dict[str, list[JournalEntry]] = defaultdict(list)
    for entry in map(entry_from_item, plain_entries):
        journal[entry.account_id].append(entry)
    for entries in journal.values():
        entries.sort(key=lambda entry: entry.outcome.account_version)
    reversals = None
    if reversal_items is not None:
        found = (reversed_from_item(from_dynamodb(item)) for item in reversal_items)
        reversals = {(each.account_id, each.transaction_id): each for each in found}
    broken_seals = tuple(seals.broken(plain_accounts, plain_entries))
    return Books({account.account_id: account for account in accounts}, dict(journal), reversals, broken_seals)


CLAIMS = (
    "every account's versions are 1…n, each once",
    "replaying each journal gives every decision again",
    "replaying each journal gives every balance",
    "no debit left an account below its limit at any version",
    "held money is never spent: no debit left the balance without it below the limit at any version",
    "what is held is the sum of the open holds, and a hold is resolved once",
    "each transaction of two accounts has its two sides, posted at one time, and they sum to zero",
    "no transaction is reversed by more than its amount, and the Reversals table has the sum of its reversals",
    "each entry's key follows from its home and its id, and each seal from the entry and the seal before",
    "no account's times go back from a version to the next, and the account has the last one",
    "the sum of the balances is the sum of the posted amounts",
    "every message is in the journal, or in the dead-letter queue with a reason",
)


def violations(books: Books) -> list[str]:
    """Returns a sentence for each violated invariant."""
    return [
        *_unknown_types(books),
        *_unknown_accounts(books),
        *_conservation(books),
        *_two_sides(books),
        *_holds(books),
        *_reversals(books),
        *_each_account(books),
        *_shards(books),
        *_times(books),
        *books.broken_seals,
    ]


def vanished(bodies: Iterable[str], books: Books, letters: Iterable[DeadLetter]) -> Iterator[str]:
    """Yields a sentence for each message that is neither in the journal, as it is, nor dead-lettered with a reason."""
    requests = {
        (name_of(each.account_id), name_of(each.home_account_id), each.transaction_id): each.request
        for each in books.entries
    }
    dead = {letter.body for letter in letters if letter.reason}
    for body in bodies:
        if body in dead:
            continue
        try:
            message = decode(body)
        except InvalidMessage:
            yield f"an invalid message vanished: {body}"
        else:
            keys = [(account_id, *message.home_entry_id) for account_id in message.account_ids]
            if any(requests.get(key) != message.canonical_payload() for key in keys):
                yield f"a message vanished: {body}"


def is_poison(letter: DeadLetter) -> bool:
    """Whether the dead letter has a reason, and no delivery could have posted it."""
    reason = letter.reason or ""
    if is_invalid(decode, letter.body):
        return bool(reason)
    sentences = (
        *("was used before on account", "decimals, expected at most", "expected the hold's own expires_at"),
        *("can't give the balance", "is reversed whole"),
        *("is a pool, which takes no", "is no pool", "expected more than the"),
    )
    return any(sentence in reason for sentence in sentences)


def journal_of(books: Books) -> oracle.Journal:
    """All entries of the books, in the oracle's terms. Those of types that the oracle doesn't know are left out."""
    journal = oracle.Journal()
    for entry in books.entries:
        if entry.request.get("type") in oracle.ACCOUNT_FIELDS:
            journal.add(entry.account_id, request_of(entry), entry.outcome.amount, entry.outcome.posted_at)
    return journal


def request_of(entry: JournalEntry) -> dict[str, Any]:
    """The entry's request, which names shards in place of their pools."""

    def named(name: str, value: Any) -> Any:
        if name == "legs":
            return [{each: named(each, of) for each, of in leg.items()} for leg in value]
        is_pool = name.endswith("account_id") and value in entry.shards
        return f"teller:shard:{entry.shards[value]}:{value}" if is_pool else value

    return {name: named(name, value) for name, value in entry.request.items()}


def on_shards(request: dict[str, Any], books: Books) -> dict[str, Any]:
    """The request on the shards that its entry names, or else on some that a worker may choose."""
    placed = oracle.on_shards(request, pools_of(books))
    home, transaction_id = oracle.named_account_ids(placed)[0], placed["transaction_id"]
    own = next((each for each in books.journal.get(home, ()) if each.home_entry_id == (home, transaction_id)), None)
    return request_of(own) if own and own.request == request else placed


def pools_of(books: Books) -> dict[str, tuple[int, int]]:
    """Of each pool the number of its shards, and that of its opening."""
    accounts = books.accounts.values()
    return {each.account_id: (each.pool.shards, each.pool.opened) for each in accounts if each.pool}


def state_in(books: Books, account_id: str) -> oracle.State | None:
    """The account in the oracle's terms. A shard that isn't there yet is as its pool."""
    if account := books.accounts.get(account_id):
        return state_of(account)
    pool = books.accounts.get(name_of(account_id))
    return oracle.new_shard(state_of(pool)) if pool else None


def name_of(account_id: str) -> str:
    """The account as messages name it: a shard's pool."""
    return account_id.split(":", 3)[3] if account_id.startswith("teller:shard:") else account_id


def account_ids_of(entry: JournalEntry, journal: oracle.Journal) -> list[str]:
    """The accounts of the entry's transaction. If the oracle doesn't know its type, only the entry's own account."""
    try:
        return oracle.account_ids(request_of(entry), journal)
    except oracle.UnknownType:
        return [entry.account_id]


def _unknown_types(books: Books) -> Iterator[str]:
    for entry in books.entries:
        try:
            oracle.named_account_ids(entry.request)
        except oracle.UnknownType as error:
            yield f"{entry.account_id}: {entry.transaction_id}: {error}"


def _unknown_accounts(books: Books) -> Iterator[str]:
    for account_id in books.journal.keys() - books.accounts.keys():
        yield f"{account_id}: {len(books.journal[account_id])} journal entries, and no account"


def _conservation(books: Books) -> Iterator[str]:
    balances = _sum(account.balance for account in books.accounts.values())
    amounts = _sum(entry.outcome.amount for entry in books.entries)
    if balances != amounts:
        yield f"the sum of the balances is {balances}, the sum of the posted amounts is {amounts}"


def _two_sides(books: Books) -> Iterator[str]:
    transactions: dict[tuple[str, ...], list[JournalEntry]] = defaultdict(list)
    journal = journal_of(books)
    for entry in books.entries:
        account_ids = account_ids_of(entry, journal)
        if len(account_ids) > 1:
            transactions[entry.request["type"], *entry.home_entry_id, *account_ids].append(entry)
    for (kind, _, transaction_id, *account_ids), sides in transactions.items():
        transfer = f"{kind} {transaction_id} from {' to '.join(account_ids)}"
        if sorted(side.account_id for side in sides) != sorted(account_ids):
            yield f"{transfer}: its entries are on {', '.join(side.account_id for side in sides)}"
            continue
        yield from _unlike(transfer, *sides)


def _unlike(transfer: str, one: JournalEntry, *others: JournalEntry) -> Iterator[str]:
    for other in others:
        if one.request != other.request:
            yield f"{transfer}: its sides are of different requests, {one.request} and {other.request}"
        if _decision(one) != _decision(other):
            yield f"{transfer}: its sides have different outcomes, {one.outcome} and {other.outcome}"
        if one.outcome.posted_at != other.outcome.posted_at:
            yield f"{transfer}: its sides were posted at {one.outcome.posted_at} and {other.outcome.posted_at}"
    for currency in {side.outcome.currency for side in (one, *others)}:
        amounts = [side.outcome.amount for side in (one, *others) if side.outcome.currency == currency]
        if _sum(amounts):
            yield f"{transfer}: its sides' amounts are {' and '.join(f'{amount:f}' for amount in amounts)}"


def _decision(side: JournalEntry) -> tuple[str | None, ...]:
    return side.outcome.status, side.outcome.reason, side.outcome.rejecting_account_id


def _holds(books: Books) -> Iterator[str]:
    """Checks the holds without the rules: from their postings alone."""
    for account_id, entries in books.journal.items():
        left: dict[str, Decimal] = {}
        for entry in entries:
            yield from _resolve(left, entry)
            held = _sum(left.values())
            if entry.outcome.held_after != held:
                expected = f"version {entry.outcome.account_version} should have {held:f} held"
                yield f"{account_id}: {expected}, and has {entry.outcome.held_after:f}"
        account = books.accounts.get(account_id)
        if account and {name: hold.remaining for name, hold in account.open_holds.items()} != left:
            yield f"{account_id}: its journal has the open holds {left}, the account has {account.holds}"
    for account_id, account in books.accounts.items():
        held = _sum(hold.remaining for hold in account.open_holds.values())
        if account.held != held:
            yield f"{account_id}: the sum of its open holds is {held:f}, and {account.held:f} is held"


def _resolve(left: dict[str, Decimal], entry: JournalEntry) -> Iterator[str]:
    """Changes what is left of an account's holds by its next entry."""
    request, hold_id = entry.request, entry.request.get("hold_id")
    if entry.outcome.status != "POSTED":
        return
    if request["type"] == "hold":
        if entry.transaction_id in left:
            yield f"{entry.account_id}: {entry.transaction_id} takes the place of an open hold"
        left[entry.transaction_id] = Decimal(request["amount"])
    elif request["type"] == "import_account" and request["account_id"] == entry.account_id:
        left |= {name: Decimal(hold["amount"]) for name, hold in request.get("holds", {}).items()}
    elif hold_id is not None and request["account_id"] == entry.account_id:
        if hold_id not in left:
            yield f"{entry.account_id}: {entry.transaction_id} resolves {hold_id}, which isn't open"
            return
        left[hold_id] = oracle.EXACTLY.add(left[hold_id], entry.outcome.amount)
        if left[hold_id] < 0:
            yield f"{entry.account_id}: {entry.transaction_id} posts {-left[hold_id]:f} more than {hold_id} holds"
        if request["type"] != "post_hold" or request.get("final", True) or left[hold_id] <= 0:
            del left[hold_id]


def _sum(numbers: Iterable[Decimal]) -> Decimal:
    with localcontext(oracle.EXACTLY):  # By default Python rounds to 28 digits.
        return sum(numbers, Decimal(0))


def _reversals(books: Books) -> Iterator[str]:
    """Checks the reversals without the rules: their sums against the amounts, and against the Reversals table."""
    journal, expected = journal_of(books), dict[tuple[str, str], Reversed]()
    for entry in books.entries:
        if entry.request.get("type") != "reverse" or entry.outcome.status != "POSTED":
            continue
        _, home, of = oracle.reversed_id_of(request_of(entry))
        reversed_id = entry.account_id, home, of
        if not journal.has(reversed_id):
            yield f"{entry.account_id}: {entry.transaction_id} reverses {of}, which isn't in the journal"
            continue
        whole = journal.amount(reversed_id).copy_abs()
        number, amount = journal.reversed(reversed_id)
        if amount > whole:
            yield f"{entry.account_id}: {of} was reversed by {amount:f}, and its amount is {whole:f}"
        last = Reversed(home, of, amount, number, entry.transaction_id, entry.outcome.account_version)
        if entry.account_id == home:  # The entries are in version order, so the last one counts.
            expected[home, of] = last
    for key in () if books.reversals is None else expected.keys() | books.reversals.keys():
        found = books.reversals and books.reversals.get(key)
        if found != expected.get(key):
            yield f"{': '.join(key)} was reversed as {expected.get(key)}, and the Reversals table has {found}"


def _times(books: Books) -> Iterator[str]:
    for account_id, entries in books.journal.items():
        outcomes = [entry.outcome for entry in entries]
        for one, following in itertools.pairwise(outcomes):
            if following.posted_at < one.posted_at:
                yield (
                    f"{account_id}: version {following.account_version} was posted at {following.posted_at}, and the"
                    f" one before at {one.posted_at}"
                )
        account = books.accounts.get(account_id)
        if account and account.posted_at and account.posted_at != outcomes[-1].posted_at:
            yield f"{account_id}: its last entry was posted at {outcomes[-1].posted_at}, it says {account.posted_at}"


def _shards(books: Books) -> Iterator[str]:
    """Each transaction is on shards that its pools have.

    If the pool is its home, it is on the one of which docs/messages.md tells: the same one whenever it is delivered.
    """
    for entry in books.entries:
        home = entry.home_account_id
        for name, number in entry.shards.items():
            shards, opened = state_of(books.accounts[name])["pool"]
            possible = set(range(shards))
            if home == f"teller:shard:{number}:{name}" and oracle.named_account_ids(entry.request)[0] == name:
                possible = {hashlib.sha256(entry.transaction_id.encode()).digest()[0] % opened}
            if number not in possible:
                yield f"{entry.account_id}: {entry.transaction_id} is on shard {number} of {name}"


def _each_account(books: Books) -> Iterator[str]:
    sound: dict[str, list[JournalEntry]] = {}
    for account_id, account in books.accounts.items():
        entries = books.journal.get(account_id, [])
        versions = [entry.outcome.account_version for entry in entries]
        if versions != list(range(1, account.version + 1)):
            yield f"{account_id}: at version {account.version}, but its journal has {versions}"
        else:
            sound[account_id] = entries
    yield from _replay(books.accounts, sound)


def _replay(accounts: dict[str, Account], journal: dict[str, list[JournalEntry]]) -> Iterator[str]:
    """Replays all journals together. A transfer is decided when it is the next entry of both its accounts."""
    replayed: dict[str, oracle.State] = {}
    earlier = oracle.Journal()
    left = {account_id: deque(entries) for account_id, entries in journal.items()}
    to_try = sorted(left, key=lambda name: accounts[name].pool is not None)  # pools first: their shards need them
    while to_try:
        entries = left[to_try.pop()]
        if not entries:
            continue
        request, account_ids = request_of(entries[0]), account_ids_of(entries[0], earlier)
        if any(not left.get(name) or request_of(left[name][0]) != request for name in account_ids):
            continue
        try:
            effects = oracle.effects(
                request,
                [_state(name, replayed) for name in account_ids],
                earlier,
                minor_units=left[account_ids[0]][0].outcome.decimal_places is not None,
                posted_at=entries[0].outcome.posted_at,
            )
        except (oracle.UnknownType, oracle.Invalid):
            continue
        for account_id, effect in zip(account_ids, effects or (), strict=effects is not None):
            before, replayed[account_id] = _state(account_id, replayed), effect.after
            earlier.add(account_id, request, effect.amount, left[account_id][0].outcome.posted_at)
            yield from _compare(left[account_id].popleft(), effect, before)
            to_try.append(account_id)
    for account_id, entries in left.items():
        state = state_of(accounts[account_id])
        if entries:
            yield (
                f"{account_id}: version {entries[0].outcome.account_version} can't be replayed: {entries[0].request}"
                " isn't next on all of its accounts, or should wait, or is invalid, or the oracle doesn't know its type"
            )
        elif replayed.get(account_id) != state:
            yield f"{account_id}: its journal gives {replayed.get(account_id)}, the account is {state}"


def _state(account_id: str, replayed: dict[str, oracle.State]) -> oracle.State | None:
    """A shard is as its pool, before its first transaction."""
    pool = replayed.get(name_of(account_id))
    return replayed.get(account_id) or (oracle.new_shard(pool) if pool else None)


def state_of(account: Account) -> oracle.State:
    """The account in the oracle's terms."""
    rate, due, accrued = map(Fraction, astuple(account.interest))
    return {
        "balance": account.balance,
        "overdraft_limit": account.overdraft_limit,
        "currency": account.currency,
        "status": str(account.status),
        "version": account.version,
        "held": account.held,
        "holds": {name: (hold.remaining, hold.expires_at) for name, hold in account.open_holds.items()},
        "decimal_places": account.decimal_places,
        "frozen": {"debits": account.frozen.debits, "credits": account.frozen.credits},
        "pool": account.pool and (account.pool.shards, account.pool.opened),
        "interest": Interest(rate, due, accrued / (YEAR // MILLISECOND), account.posted_at),
        "limits": limits_item(account.limits),
    }


def _compare(entry: JournalEntry, effect: oracle.Effect, before: oracle.State | None) -> Iterator[str]:
    """`before` is the account's state before the entry, None before the first one."""
    found, after = entry.outcome, effect.after
    expected = (effect.status, effect.reason, effect.rejecting_account_id, effect.amount, after["balance"])
    if (found.status, found.reason, found.rejecting_account_id, found.amount, found.balance_after) != expected:
        yield f"{entry.account_id}: version {after['version']} should be {expected}, and is {found}"
    if found.currency != after["currency"]:
        yield f"{entry.account_id}: version {after['version']} should be in {after['currency']}, and is {found}"
    if found.held_after != after["held"]:
        yield f"{entry.account_id}: version {after['version']} should have {after['held']:f} held, and is {found}"
    is_opening = entry.request["type"] in oracle.OPENINGS and entry.request["account_id"] == entry.account_id
    is_opening = is_opening and after["version"] == 1
    decimal_places = after["decimal_places"] if is_opening else None
    if found.decimal_places != decimal_places:
        yield f"{entry.account_id}: version {after['version']} should have {decimal_places} decimal places: {found}"
    reversal = found.reversal and oracle.Reversal(*astuple(found.reversal))
    if reversal != effect.reversal:
        yield f"{entry.account_id}: version {after['version']} should have {effect.reversal}, and has {reversal}"
    exceeded = found.exceeded and astuple(found.exceeded)
    if exceeded != effect.exceeded:
        yield f"{entry.account_id}: version {after['version']} should exceed {effect.exceeded}, and has {exceeded}"
    lowest = min(Decimal(0), _available(before)) if before else Decimal(0)
    if entry.request["type"] == "charge_interest":
        lowest += min(effect.amount, Decimal(0))
    available = _available(after | {"balance": found.balance_after, "held": found.held_after})
    if entry.request["type"] != "import_account" and not entry.request.get("forced") and available < lowest:
        is_below = found.balance_after < after["overdraft_limit"]
        what = f"is below its limit {after['overdraft_limit']}" if is_below else f"has spent held money: {found}"
        yield f"{entry.account_id}: version {after['version']} {what}"


def _available(state: oracle.State) -> Decimal:
    return _sum([state["balance"], -state["held"], -state["overdraft_limit"]])
