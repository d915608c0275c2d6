"""Powertools' protocol with a staged record, whose methods make no requests."""

import json
import time
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from conditional_writes.core.staged_record import StagedRecord


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


def test_a_first_call_stages_its_completed_record_and_with_it_a_second_is_replayed_and_stages_nothing() -> None:
    record = placed()
    assert (record.status, json.loads(record.response_data)) == ("COMPLETED", {"placed": "1"})
    store = StagedRecord(record)
    assert call(store, {"id": "1", "amount": 5}) == ({"placed": "1"}, 0)
    assert store.completed is None


def test_a_call_that_raises_stages_nothing_and_its_error_passes_through() -> None:
    store = StagedRecord(None)
    with pytest.raises(LookupError, match="no such customer"):
        call(store, {"id": "1", "amount": 5}, fails=True)
    assert store.completed is None


@pytest.mark.parametrize("timeout_seconds", [None, 60])
def test_a_stock_functions_record_in_progress_is_respected(timeout_seconds: int | None) -> None:
    record, now = placed(), time.time()
    timed_out_at = None if timeout_seconds is None else int((now + timeout_seconds) * 1000)
    running = DataRecord(record.idempotency_key, "INPROGRESS", int(now) + 60, timed_out_at, "", record.payload_hash)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        call(StagedRecord(running), {"id": "1", "amount": 5})
