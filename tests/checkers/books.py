"""Invariants of accounts and journals, checked from the tables alone by the oracle's rules, not by the product's."""

import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext

from conditional_writes.items import from_dynamodb
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import JournalEntry, entry_from_item
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode
from tests.checkers import oracle
from tests.checkers.poison import is_invalid
from tools.local_aws.queues import DeadLetter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, scan


@dataclass(frozen=True)
class Books:
    """The accounts, and each account's journal in version order."""

    accounts: dict[str, Account]
    journal: dict[str, list[JournalEntry]]

    @property
    def entries(self) -> list[JournalEntry]:
        return [entry for entries in self.journal.values() for entry in entries]

    def counts(self) -> Counter[str]:
        """Counts posted transactions by status and rejected ones by reason. A transfer with two entries counts once."""
        return Counter(
            entry.outcome.reason or entry.outcome.status
            for entry in self.entries
            if entry.account_id == _account_ids(entry)[0]
        )

    def types(self) -> Counter[str]:
        """Counts posted transactions by type. A transfer with two entries counts once."""
        return Counter(
            entry.request["type"]
            for entry in self.entries
            if not entry.outcome.reason and entry.account_id == _account_ids(entry)[0]
        )


def read_books(endpoint: Endpoint, tables: Tables) -> Books:
    accounts = [account_from_item(from_dynamodb(item)) for item in scan(endpoint, tables.accounts)]
    journal: dict[str, list[JournalEntry]] = defaultdict(list)
    for item in scan(endpoint, tables.journal):
        entry = entry_from_item(from_dynamodb(item))
        journal[entry.account_id].append(entry)
    for entries in journal.values():
        entries.sort(key=lambda entry: entry.outcome.account_version)
    return Books({account.account_id: account for account in accounts}, dict(journal))


CLAIMS = (
    "every account's versions are 1…n, each once",
    "replaying each journal gives every decision again",
    "replaying each journal gives every balance",
    "no account was below its limit at any version",
    "each transfer has its two sides, posted at one time, and they sum to zero",
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
        *_transfers(books),
        *_each_account(books),
        *_times(books),
    ]


def vanished(bodies: Iterable[str], books: Books, letters: Iterable[DeadLetter]) -> Iterator[str]:
    """Yields a sentence for each message that is neither posted, nor rejected, nor dead-lettered with a reason."""
    posted = {(entry.account_id, entry.transaction_id) for entry in books.entries}
    dead = {letter.body for letter in letters if letter.reason}
    for body in bodies:
        if body in dead:
            continue
        try:
            message = decode(body)
        except InvalidMessage:
            yield f"an invalid message vanished: {body}"
        else:
            if any((account_id, message.transaction_id) not in posted for account_id in message.account_ids):
                yield f"a message vanished: {body}"


def is_poison(letter: DeadLetter) -> bool:
    """Whether the dead letter has a reason, and no delivery could have posted it."""
    reason = letter.reason or ""
    if is_invalid(decode, letter.body):
        return bool(reason)
    return "was used before on account" in reason or "decimals, expected at most" in reason


def _account_ids(entry: JournalEntry) -> list[str]:
    """The accounts of the entry's transaction. If the oracle doesn't know its type, only the entry's own account."""
    try:
        return oracle.account_ids(entry.request)
    except oracle.UnknownType:
        return [entry.account_id]


def _unknown_types(books: Books) -> Iterator[str]:
    for entry in books.entries:
        try:
            oracle.account_ids(entry.request)
        except oracle.UnknownType as error:
            yield f"{entry.account_id}: {entry.transaction_id}: {error}"


def _unknown_accounts(books: Books) -> Iterator[str]:
    for account_id in books.journal.keys() - books.accounts.keys():
        yield f"{account_id}: {len(books.journal[account_id])} journal entries, and no account"


def _conservation(books: Books) -> Iterator[str]:
    with localcontext(prec=1000):  # By default Python rounds to 28 digits.
        balances = sum((account.balance for account in books.accounts.values()), Decimal(0))
        amounts = sum((entry.outcome.amount for entry in books.entries), Decimal(0))
    if balances != amounts:
        yield f"the sum of the balances is {balances}, the sum of the posted amounts is {amounts}"


def _transfers(books: Books) -> Iterator[str]:
    transfers: dict[tuple[str, ...], list[JournalEntry]] = defaultdict(list)
    for entry in books.entries:
        account_ids = _account_ids(entry)
        if len(account_ids) > 1:
            transfers[entry.transaction_id, *account_ids].append(entry)
    for (transaction_id, *account_ids), sides in transfers.items():
        transfer = f"transfer {transaction_id} from {' to '.join(account_ids)}"
        if sorted(side.account_id for side in sides) != sorted(account_ids):
            yield f"{transfer}: its entries are on {', '.join(side.account_id for side in sides)}"
            continue
        one, other = sides
        if (one.request, one.payload_hash) != (other.request, other.payload_hash):
            yield f"{transfer}: its sides are of different requests, {one.request} and {other.request}"
        if (one.outcome.status, one.outcome.reason) != (other.outcome.status, other.outcome.reason):
            yield f"{transfer}: its sides have different outcomes, {one.outcome} and {other.outcome}"
        if one.outcome.posted_at != other.outcome.posted_at:
            yield f"{transfer}: its sides were posted at {one.outcome.posted_at} and {other.outcome.posted_at}"
        if one.outcome.amount + other.outcome.amount != 0:
            yield f"{transfer}: its sides' amounts are {one.outcome.amount:f} and {other.outcome.amount:f}"


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
    left = {account_id: deque(entries) for account_id, entries in journal.items()}
    to_try = list(left)
    while to_try:
        entries = left[to_try.pop()]
        if not entries:
            continue
        request, account_ids = entries[0].request, _account_ids(entries[0])
        if any(not left.get(name) or left[name][0].request != request for name in account_ids):
            continue
        try:
            effects = oracle.effects(request, [replayed.get(name) for name in account_ids])
        except oracle.UnknownType:
            continue
        for account_id, effect in zip(account_ids, effects or (), strict=effects is not None):
            replayed[account_id] = effect.after
            yield from _compare(left[account_id].popleft(), effect)
            to_try.append(account_id)
    for account_id, entries in left.items():
        state = state_of(accounts[account_id])
        if entries:
            yield (
                f"{account_id}: version {entries[0].outcome.account_version} can't be replayed: {entries[0].request}"
                " isn't next on all of its accounts, or one of them isn't open, or the oracle doesn't know its type"
            )
        elif replayed.get(account_id) != state:
            yield f"{account_id}: its journal gives {replayed.get(account_id)}, the account is {state}"


def state_of(account: Account) -> oracle.State:
    """The account in the oracle's terms."""
    return {
        "balance": account.balance,
        "overdraft_limit": account.overdraft_limit,
        "currency": account.currency,
        "status": str(account.status),
        "version": account.version,
    }


def _compare(entry: JournalEntry, effect: oracle.Effect) -> Iterator[str]:
    found, after = entry.outcome, effect.after
    expected = (effect.status, effect.reason, effect.amount, after["balance"])
    if (found.status, found.reason, found.amount, found.balance_after) != expected:
        yield f"{entry.account_id}: version {after['version']} should be {expected}, and is {found}"
    if found.balance_after < after["overdraft_limit"]:
        yield f"{entry.account_id}: version {after['version']} is below its limit {after['overdraft_limit']}"
