"""Powertools idempotency whose record commits in the same transaction as the effect.

Stock Powertools puts a record "in progress", runs the function, and updates the record to "completed": a function
that dies in between has its effect again on the next delivery (powertools-lambda-python #801). Here the function only
decides, the completed record is staged, and the caller commits both in one transaction or neither.
"""

from typing import Any

from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord


class StagedRecord(BasePersistenceLayer):
    """The idempotency record of one call, for Powertools' `persistence_store`: no method makes a request.

    `existing` is the record that is there already, where there is one: the call is then replayed from it.
    `completed` is what the call staged: the caller puts it, under the condition that it is absent, in the transaction
    that has the effect. When that condition fails, the call is made again with the record that was found.
    """

    def __init__(self, existing: DataRecord | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.existing = existing
        self.completed: DataRecord | None = None

    def _put_record(self, data_record: DataRecord) -> None:
        """Raises IdempotencyValidationError where the existing record had another payload."""
        if self.existing is not None:
            # Powertools validates a record that it fetched itself, not one that it is handed here.
            self._validate_payload(data_record, self.existing)
            raise IdempotencyItemAlreadyExistsError(old_data_record=self.existing)

    def _get_record(self, idempotency_key: Any) -> DataRecord:
        if self.existing is None:
            raise IdempotencyItemNotFoundError
        return self.existing

    def _update_record(self, data_record: DataRecord) -> None:
        self.completed = data_record

    def _delete_record(self, data_record: DataRecord) -> None:
        """The function raised: it decided nothing, so nothing is staged."""
        self.completed = None
