"""A transaction decided once: Powertools' idempotency, with the journal entry as its record."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.base import IdempotencyHandler
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyValidationError
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import STATUS_CONSTANTS, DataRecord
from aws_lambda_powertools.utilities.idempotency.serialization.custom_dict import CustomDictSerializer

from conditional_writes.staged_record import StagedRecord
from ledger.core.journal import JournalEntry, Outcome, outcome_from_json, outcome_to_json
from ledger.core.reason_codes import PayloadChanged

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency import IdempotentHookFunction


class Decided(NamedTuple):
    """A transaction's outcome. `payload_hash` is for its new journal entry; None if the outcome is replayed."""

    outcome: Outcome
    payload_hash: str | None


def decide_once(request: dict[str, Any], existing: JournalEntry | None, decide: Callable[[], Outcome]) -> Decided:
    """The outcome in the existing journal entry, or if there is none the outcome that `decide` returns.

    `request` is the transaction's canonical payload. Raises PayloadChanged if the existing entry is of another request,
    and what `decide` raises.
    """
    record = StagedRecord(_completed_record(existing) if existing else None)

    def decide_now() -> Outcome:  # Powertools asks for a function's name
        return decide()

    # Not by `idempotent_function`: it stages nothing if POWERTOOLS_IDEMPOTENCY_DISABLED is set, so nothing would be
    # posted.
    once = IdempotencyHandler(
        function=decide_now,
        function_payload=request,
        config=_CONFIG,
        persistence_store=record,
        output_serializer=_OUTCOMES,
        key_prefix="journal",
        function_args=(),
        function_kwargs={},
    )
    try:
        outcome: Outcome = once.handle()
    except IdempotencyValidationError:
        assert existing is not None, "only an existing record has another payload"
        if existing.request == request:
            raise ValueError(f"{existing.entry_id}: its payload_hash isn't that of its request") from None
        raise _payload_changed(existing, request) from None
    return Decided(outcome, record.completed.payload_hash if record.completed else None)


def _completed_record(entry: JournalEntry) -> DataRecord:
    """The entry as Powertools' completed idempotency record. It doesn't expire."""
    return DataRecord(
        idempotency_key=f"{entry.account_id}#{entry.transaction_id}",
        status=STATUS_CONSTANTS["COMPLETED"],
        response_data=json.dumps(outcome_to_json(entry.outcome)),
        payload_hash=entry.payload_hash,
    )


def _payload_changed(existing: JournalEntry, request: dict[str, Any]) -> PayloadChanged:
    names = sorted(existing.request.keys() | request.keys())
    different = [name for name in names if existing.request.get(name) != request.get(name)]
    return PayloadChanged(
        f"transaction_id: {existing.transaction_id!r} was used before on account {existing.account_id!r}"
        f" with another {', '.join(different)}",
        existing.outcome.status,
    )


def _as_replayed(outcome: Outcome, _: DataRecord) -> Outcome:
    return outcome.as_replayed()


_OUTCOMES = CustomDictSerializer(to_dict=cast("Any", outcome_to_json), from_dict=cast("Any", outcome_from_json))
_CONFIG = IdempotencyConfig(
    event_key_jmespath="transaction_id",  # Powertools needs a key. The record is found by the journal's primary key
    payload_validation_jmespath="@",
    raise_on_no_idempotency_key=True,
    hash_function="sha256",
    response_hook=cast("IdempotentHookFunction", _as_replayed),
)
