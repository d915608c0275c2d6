"""Uses of the library as a user's type checker sees them: checked by mypy in `make check`, never run."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypedDict, assert_type

from conditional_writes import (
    Check,
    Condition,
    Conflict,
    Deadline,
    Delete,
    Item,
    Key,
    NoSuchTable,
    Observed,
    Plan,
    Put,
    Update,
    VersionedItem,
    VersionedTable,
    Written,
    WrongKey,
    absent,
    at_least,
    begins_with,
    between,
    dynamodb_client,
    equals,
    key,
    read,
    version_is,
    write,
    write_together,
)
from conditional_writes.exactly_once import ExactlyOnce, PayloadChanged, Ran, Records, exactly_once
from conditional_writes.locks import Lock, LockLost, Locks, LockTaken
from conditional_writes.upserts import MapEntry, Upserted, erase
from conditional_writes.versioned import Page, Pages

client = dynamodb_client()
orders = VersionedTable(client, "Orders", "customer_id", "order_id", version="revision", checked=False)

order = orders.load("c-1", 7)
assert_type(order, VersionedItem | None)
assert order is not None
assert_type(order | {"status": "PAID"}, VersionedItem)
assert_type(orders.save(order, when=equals("status", "NEW"), checked=True), VersionedItem)
assert_type(orders.update("c-1", 7, version=3, values={"status": "PAID"}, removed=["note"]), int)
orders.delete(order)
assert_type(orders.add("c-1", 7, numbers={"pieces": 1}, appended={"notes": ["x"]}, when=equals("status", "NEW")), None)

assert_type(orders.get("c-1", 7), VersionedItem)
assert_type(orders.get("c-1", 7) | {"status": "PAID"}, VersionedItem)
of_one = equals("customer_id", "c-1")
noted = begins_with("note", "x")
assert_type(orders.query(of_one & between("order_id", 7, 9), matching=noted), Pages[VersionedItem])
orders.query(equals("status", "NEW"), index="by_status", descending=True, page_size=5, deadline=Deadline.after(1))
assert_type(orders.query(of_one, index="by_status", after="token").page(), Page[VersionedItem])
assert_type(orders.scan(consistent=True, after=orders.key("c-1", 7), segment=(0, 4)), Pages[VersionedItem])
assert_type(orders.upsert("c-1", 7, entries=[MapEntry(("lines", "a"), 1)], forget_after=timedelta(days=1)), Upserted)


def pay(item: VersionedItem | None) -> Item:
    if item is None:
        raise LookupError
    return item | {"status": "PAID"}


assert_type(orders.modify("c-1", 7, change=pay, deadline=Deadline.after(1.5)), VersionedItem)

assert_type(orders.saving(order), Put | Update)
assert_type(orders.adding("c-1", 7, numbers={"pieces": -1}, when=at_least("pieces", 1)), Update)
assert_type(orders.deleting(order), Delete)
write_together(client, [orders.saving(order), Put(key("Events", event_id="e-1"), {}, absent("event_id"))])

assert_type(version_is(3) & ~absent("paid_at") | equals("status", "NEW") & at_least("pieces", 3), Condition)


def plan(observed: Observed) -> Plan[int]:
    assert_type(observed[key("Orders", order_id="o-1")], dict[str, Any] | None)
    assert_type(orders.load_from(observed, "c-1", 7), VersionedItem | None)
    assert_type(orders.get_from(observed, "c-1", 7), VersionedItem)
    return Plan(7)


assert_type(
    write(client, plan, read(client, [key("Orders", order_id="o-1")], Deadline.after(1)), Deadline.after(1)),
    Written[int],
)


locks = Locks(client, "Locks", clock_skew_seconds=0.5)
lock = locks.acquire("nightly", lease_seconds=60, why="books", window="2026-02-28", deadline=Deadline.after(5))
assert_type(lock, Lock)
assert_type(lock.token, int)
assert_type(lock.leased_until, float)
assert_type(lock.checkpoint, Item | None)
assert_type(lock.condition_check(), Check)
with locks.once("nightly", "2026-02-28", lease_seconds=60) as held:
    assert_type(held, Lock)
lock.refresh(60)
lock.save_checkpoint({"after": "o-1"}, orders.saving(order))
lock.complete(orders.deleting(order))
lock.release()


def explain(
    refused: NoSuchTable | WrongKey, conflict: Conflict, taken: LockTaken, lost: LockLost, changed: PayloadChanged
) -> None:
    assert_type(refused.operation_name, str)
    assert_type((conflict.key, conflict.expected_version, conflict.found), tuple[Key, int | None, VersionedItem | None])
    assert_type((taken.holder, taken.leased_until), tuple[Item, datetime])
    assert_type((lost.token, lost.holder), tuple[int, Item | None])
    assert_type(changed.fields, tuple[str, ...])


assert_type(erase(client, key("Profiles", account_id="a"), datetime.fromisoformat("2026-02-28T12:00:00Z")), Upserted)


class Payment(TypedDict):
    payment_id: str
    order_id: int


class Receipt(TypedDict):
    paid: Decimal


records = Records(client, "Records")


def key_of(payment: Payment) -> str:
    return payment["payment_id"]


@exactly_once(
    records,
    key=key_of,
    items=lambda payment: [orders.key("c-1", payment["order_id"])],
    payload=lambda payment: payment["order_id"],
    expires_after=timedelta(days=7),
    prefix="shop.pay",
)
def pay_once(payment: Payment, observed: Observed) -> Plan[Receipt]:
    found = observed[orders.key("c-1", payment["order_id"])]
    assert found is not None
    return Plan({"paid": Decimal(1)}, [orders.saving(VersionedItem(found) | {"status": "PAID"})])


payment = Payment(payment_id="p-1", order_id=7)
assert_type(pay_once, ExactlyOnce[Payment, Receipt])
assert_type(pay_once(payment, deadline=Deadline.after(1)), Receipt)
assert_type(pay_once.run(payment), Ran[Receipt])
assert_type(pay_once.run(payment).replayed, bool)
assert_type(pay_once.plan(payment, {}), Plan[Receipt])
