"""Powertools idempotency whose record commits in the same transaction as the effect. Needs Powertools.

Stock Powertools saves a record "in progress", runs the function, and updates the record to "completed". If the function
dies in between, its effect happens again on the next delivery (powertools-lambda-python #801). Here the function only
decides, and its completed record is staged in memory; the caller commits record and effect in one transaction.
docs/decisions/staged-record.md
"""

from typing import Any, override

from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer, IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord


class StagedRecord(BasePersistenceLayer):
    """The idempotency record of one call, as Powertools' `persistence_store`. No method makes a request.

    `existing` is the record that was read from the table, None if the table has none, or one that is over: a call
    with an existing record is replayed. `in_progress` is the record that the call began with, which has its key.
    `completed` is the record that the call staged, None if it was replayed or failed. The caller puts it in the
    transaction with the effect, on the condition that the table has none yet. If that condition fails, the caller makes
    the call again with the record that was found.
    """

    def __init__(self, existing: DataRecord | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.existing = existing
        self.in_progress: DataRecord | None = None
        self.completed: DataRecord | None = None

    @override
    def configure(
        self, config: IdempotencyConfig, function_name: str | None = None, key_prefix: str | None = None
    ) -> None:
        """Without Powertools' local cache, which would replay what was staged and never committed."""
        super().configure(config, function_name, key_prefix)
        self.use_local_cache = False

    @override
    def save_inprogress(self, data: dict[str, Any], remaining_time_in_millis: int | None = None) -> None:
        """The record stays in memory, so no other invocation must know when it expires: the remaining time is 0."""
        super().save_inprogress(data, remaining_time_in_millis=0)

    def _put_record(self, data_record: DataRecord) -> None:
        """Raises IdempotencyValidationError if the existing record had another payload."""
        self.in_progress = data_record
        if self.existing is not None:
            # Powertools validates the payload of a record that it fetched, not of one that comes with this error.
            self._validate_payload(data_record, self.existing)
            raise IdempotencyItemAlreadyExistsError(old_data_record=self.existing)

    def _get_record(self, idempotency_key: Any) -> DataRecord:
        if self.existing is None:
            raise IdempotencyItemNotFoundError
        return self.existing

    def _update_record(self, data_record: DataRecord) -> None:
        self.completed = data_record

    def _delete_record(self, data_record: DataRecord) -> None:
        """The function raised an error: nothing was decided, so nothing is staged."""
        self.completed = None
