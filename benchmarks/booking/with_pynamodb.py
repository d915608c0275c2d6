"""The booking program with PynamoDB, which leaves the loops, the records and the missing maps to it."""

import random
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pynamodb.attributes import ListAttribute, MapAttribute, NumberAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.connection import Connection
from pynamodb.exceptions import DoesNotExist, PutError, TransactWriteError, UpdateError
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite


class Refused(Exception):
    """The flight is full, the passenger isn't on it, or the money doesn't do."""


class PayloadChanged(Exception):
    """The payment was made before, with another payer or amount."""


class Booking:
    def __init__(self, host: str, region: str) -> None:
        class Flight(Model):
            class Meta:
                table_name = "Flights"

            flight_id = UnicodeAttribute(hash_key=True)
            seats = NumberAttribute()
            passengers = ListAttribute(of=UnicodeAttribute)
            version = VersionAttribute()

        class Passenger(Model):
            class Meta:
                table_name = "Passengers"

            passenger_id = UnicodeAttribute(hash_key=True)
            money = NumberAttribute()
            devices = MapAttribute(null=True)
            version = VersionAttribute()

        class Record(Model):
            class Meta:
                table_name = "Records"

            id = UnicodeAttribute(hash_key=True)
            payload = UnicodeAttribute()
            money = NumberAttribute()
            expiration = NumberAttribute()

        for model in (Flight, Passenger, Record):
            model.Meta.host, model.Meta.region = host, region
        self.Flight, self.Passenger, self.Record = Flight, Passenger, Record
        self.connection = Connection(region=region, host=host)

    def open_flight(self, flight_id: str, seats: int) -> None:
        self.Flight(flight_id, seats=seats, passengers=[]).save()

    def open_passenger(self, passenger_id: str, money: int) -> None:
        self.Passenger(passenger_id, money=money).save()

    def until_done[Result](self, attempt: Callable[[], Result]) -> Result:
        deadline, conflicts = time.monotonic() + 30, 0
        while True:
            try:
                return attempt()
            except (PutError, TransactWriteError) as error:
                if not self.is_conflict(error) or time.monotonic() > deadline:
                    raise
                conflicts += 1
                time.sleep(random.uniform(0, min(1, 0.025 * 2**conflicts)))

    def is_conflict(self, error: PutError | TransactWriteError) -> bool:
        if isinstance(error, PutError):
            return error.cause_response_code == "ConditionalCheckFailedException"
        codes = {reason.code for reason in error.cancellation_reasons if reason is not None}
        return bool(codes) and codes <= {"ConditionalCheckFailed", "TransactionConflict"}

    def book(self, flight_id: str, passenger_id: str) -> None:
        def attempt() -> None:
            flight = self.Flight.get(flight_id, consistent_read=True)
            if len(flight.passengers) >= flight.seats:
                raise Refused(flight_id)
            flight.passengers.append(passenger_id)
            flight.save()

        self.until_done(attempt)

    def move(self, passenger_id: str, from_id: str, to_id: str) -> None:
        def attempt() -> None:
            left = self.Flight.get(from_id, consistent_read=True)
            taken = self.Flight.get(to_id, consistent_read=True)
            if passenger_id not in left.passengers or len(taken.passengers) >= taken.seats:
                raise Refused(to_id)
            left.passengers.remove(passenger_id)
            taken.passengers.append(passenger_id)
            with TransactWrite(connection=self.connection) as transaction:
                transaction.save(left)
                transaction.save(taken)

        self.until_done(attempt)

    def pay(self, payment: dict[str, Any]) -> dict[str, Any]:
        payload = f"{payment['passenger_id']} {payment['amount']}"

        def attempt() -> dict[str, Any]:
            try:
                record = self.Record.get(payment["payment_id"], consistent_read=True)
            except DoesNotExist:
                pass
            else:
                if record.expiration >= time.time():
                    if record.payload != payload:
                        raise PayloadChanged(payment["payment_id"])
                    return {"money": record.money}
            passenger = self.Passenger.get(payment["passenger_id"], consistent_read=True)
            if passenger.money < payment["amount"]:
                raise Refused(payment["payment_id"])
            passenger.money -= payment["amount"]
            expiration = int(time.time()) + 30 * 86_400
            record = self.Record(payment["payment_id"], payload=payload, money=passenger.money, expiration=expiration)
            free = self.Record.id.does_not_exist() | (self.Record.expiration < int(time.time()))
            with TransactWrite(connection=self.connection) as transaction:
                transaction.save(record, condition=free)
                transaction.save(passenger)
            return {"money": passenger.money}

        return self.until_done(attempt)

    def seen(self, passenger_id: str, device: str, at: datetime) -> None:
        passenger, entry, time_of_it = self.Passenger(passenger_id), self.Passenger.devices[device], at.isoformat()
        actions = [entry.set(time_of_it), self.Passenger.version.add(1)]
        for _ in range(2):
            try:
                passenger.update(
                    actions, condition=entry.does_not_exist() | (entry < time_of_it), add_version_condition=False
                )
            except UpdateError as error:
                if error.cause_response_code == "ConditionalCheckFailedException":
                    return  # a later one is there
                if error.cause_response_code != "ValidationException":
                    raise
                self.create_devices(passenger)
            else:
                return

    def create_devices(self, passenger: Any) -> None:
        try:
            passenger.update(
                [self.Passenger.devices.set({}), self.Passenger.version.add(1)],
                condition=self.Passenger.devices.does_not_exist(),
                add_version_condition=False,
            )
        except UpdateError as error:
            if error.cause_response_code != "ConditionalCheckFailedException":
                raise  # else another has made it
