"""Powertools idempotency whose record commits in the same transaction as the effect.

Stock Powertools saves a record "in progress", runs the function, and updates the record to "completed". If the function
dies in between, its effect happens again on the next delivery (powertools-lambda-python #801). Here the function only
decides, and its completed record is staged in memory; the caller commits record and effect in one transaction.
docs/decisions/staged-record.md
"""

from typing import Any, override

from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord


class StagedRecord(BasePersistenceLayer):
    """The idempotency record of one call, as Powertools' `persistence_store`: no method makes a request.

    `existing` is the record in the table, if there is one: the call is then replayed from it. `completed` is the record
    of this call: the caller puts it, on the condition that it is absent, in the transaction with the effect. If that
    condition fails, the call is made again with the record that was found.
    """

    def __init__(self, existing: DataRecord | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.existing = existing
        self.completed: DataRecord | None = None

    @override
    def save_inprogress(self, data: dict[str, Any], remaining_time_in_millis: int | None = None) -> None:
        """No other invocation ever sees a record in progress, so how long it may last doesn't matter."""
        super().save_inprogress(data, remaining_time_in_millis=0)

    def _put_record(self, data_record: DataRecord) -> None:
        """Raises IdempotencyValidationError if the existing record had another payload."""
        if self.existing is not None:
            # Powertools validates a record that it fetched itself, not one that is handed to it here.
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
