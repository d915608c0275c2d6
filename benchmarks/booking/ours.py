"""The booking program with conditional_writes. Made for one endpoint, so that a test can have several."""

from datetime import datetime
from typing import Any

from conditional_writes import Observed, Plan, VersionedItem, VersionedTable, dynamodb_client, read, write
from conditional_writes.deadline import Deadline
from conditional_writes.exactly_once import Records, exactly_once
from conditional_writes.upserts import MapEntry


class Refused(Exception):
    """The flight is full, the passenger isn't on it, or the money doesn't do."""


class Booking:
    def __init__(self) -> None:
        self.client = dynamodb_client()
        self.flights = VersionedTable(self.client, "Flights", "flight_id")
        self.passengers = VersionedTable(self.client, "Passengers", "passenger_id")
        records = Records(self.client, "Records")
        by_id = exactly_once(records, key=lambda paid: paid["payment_id"], items=self._payer, prefix="pay")
        self.pay = by_id(self._pay)

    def open_flight(self, flight_id: str, seats: int) -> None:
        self.flights.save({"flight_id": flight_id, "seats": seats, "passengers": []})

    def open_passenger(self, passenger_id: str, money: int) -> None:
        self.passengers.save({"passenger_id": passenger_id, "money": money})

    def book(self, flight_id: str, passenger_id: str) -> None:
        def booked(flight: VersionedItem | None) -> VersionedItem:
            if flight is None or len(flight["passengers"]) >= flight["seats"]:
                raise Refused(flight_id)
            return flight | {"passengers": [*flight["passengers"], passenger_id]}

        self.flights.modify(flight_id, change=booked, deadline=Deadline.after(30))

    def move(self, passenger_id: str, from_id: str, to_id: str) -> None:
        def plan(observed: Observed) -> Plan[None]:
            left, taken = self.flights.get_from(observed, from_id), self.flights.get_from(observed, to_id)
            if passenger_id not in left["passengers"] or len(taken["passengers"]) >= taken["seats"]:
                raise Refused(to_id)
            left["passengers"].remove(passenger_id)
            taken["passengers"].append(passenger_id)
            return Plan(None, [self.flights.saving(left), self.flights.saving(taken)])

        deadline = Deadline.after(30)
        keys = self.flights.key(from_id), self.flights.key(to_id)
        write(self.client, plan, read(self.client, keys, deadline), deadline)

    def _payer(self, payment: dict[str, Any]) -> list[Any]:
        return [self.passengers.key(payment["passenger_id"])]

    def _pay(self, payment: dict[str, Any], observed: Observed) -> Plan[dict[str, Any]]:
        passenger = self.passengers.get_from(observed, payment["passenger_id"])
        money = passenger["money"] - payment["amount"]
        if money < 0:
            raise Refused(payment["payment_id"])
        return Plan({"money": money}, [self.passengers.saving(passenger | {"money": money})])

    def seen(self, passenger_id: str, device: str, at: datetime) -> None:
        self.passengers.upsert(passenger_id, entries=[MapEntry(("devices", device), at.isoformat(), as_of=at)])
