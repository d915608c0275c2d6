"""Powertools' protocol with a staged record, whose methods make no requests."""

import json
import time
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from conditional_writes.staged_record import StagedRecord


def call(store: StagedRecord, order: dict[str, Any], *, fails: bool = False) -> tuple[Any, int]:
    """The answer, and the number of times that the function ran."""
    runs: list[object] = []

    def submit(*, order: dict[str, Any]) -> dict[str, Any]:
        runs.append(order)
        if fails:
            raise LookupError("no such customer")
        return {"placed": order["id"]}

    config = IdempotencyConfig(event_key_jmespath="id", payload_validation_jmespath="@")
    once = idempotent_function(submit, data_keyword_argument="order", persistence_store=store, config=config)
    return once(order=order), len(runs)


def placed() -> DataRecord:
    store = StagedRecord(None)
    call(store, {"id": "1", "amount": 5})
    assert store.completed
    return store.completed


def test_a_first_call_runs_and_stages_its_completed_record() -> None:
    record = placed()
    assert record.status == "COMPLETED"
    assert json.loads(record.response_data) == {"placed": "1"}
    assert record.payload_hash


def test_with_an_existing_record_the_call_is_replayed_and_stages_nothing() -> None:
    store = StagedRecord(placed())
    assert call(store, {"id": "1", "amount": 5}) == ({"placed": "1"}, 0)
    assert store.completed is None


def test_with_another_payload_it_is_refused() -> None:
    store = StagedRecord(placed())
    with pytest.raises(IdempotencyValidationError):
        call(store, {"id": "1", "amount": 6})
    assert store.completed is None


def test_a_call_that_raises_stages_nothing_and_its_error_passes_through() -> None:
    store = StagedRecord(None)
    with pytest.raises(LookupError, match="no such customer"):
        call(store, {"id": "1", "amount": 5}, fails=True)
    assert store.completed is None


def in_progress(*, expires_in: int = 60, times_out_in: int | None = None) -> DataRecord:
    """A record of a stock function that runs, or was killed. The times are in seconds from now."""
    record = placed()
    timed_out_at = None if times_out_in is None else int((time.time() + times_out_in) * 1000)
    return DataRecord(
        record.idempotency_key, "INPROGRESS", int(time.time()) + expires_in, timed_out_at, "", record.payload_hash
    )


@pytest.mark.parametrize("record", [in_progress(times_out_in=60), in_progress()])
def test_a_stock_functions_record_in_progress_is_respected(record: DataRecord) -> None:
    with pytest.raises(IdempotencyAlreadyInProgressError):
        call(StagedRecord(record), {"id": "1", "amount": 5})


@pytest.mark.parametrize("record", [in_progress(times_out_in=-1), in_progress(expires_in=-2, times_out_in=60)])
def test_a_record_that_is_over_counts_as_none(record: DataRecord) -> None:
    store = StagedRecord(record)
    assert call(store, {"id": "1", "amount": 5}) == ({"placed": "1"}, 1)
    assert store.completed


def test_a_call_that_began_has_the_key_of_its_record() -> None:
    store = StagedRecord(None)
    call(store, {"id": "1", "amount": 5})
    assert store.in_progress
    assert store.in_progress.idempotency_key == placed().idempotency_key
