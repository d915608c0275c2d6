"""Records by Powertools' own machinery: key, payload and expiry by its `IdempotencyConfig`. Needs Powertools."""

import functools
import json
from collections.abc import Callable
from typing import Any, override

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.base import IdempotencyHandler
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyValidationError
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from aws_lambda_powertools.utilities.idempotency.serialization.custom_dict import CustomDictSerializer

from conditional_writes.exactly_once.payload import PayloadChanged
from conditional_writes.exactly_once.record import (
    COMPLETED,
    EXPIRATION,
    ID,
    IN_PROGRESS_EXPIRATION,
    STATUS,
    Records,
    Settled,
    is_over,
)
from conditional_writes.items import Item
from conditional_writes.staged_record import StagedRecord

DATA, VALIDATION = "data", "validation"


class ConfiguredPayloadChanged(PayloadChanged, IdempotencyValidationError):
    """A PayloadChanged that is Powertools' error, too. `fields` has the payload's JMESPath."""


class PowertoolsRecording:
    """Records as stock Powertools would make them for this function, with the same keys. Results are JSON."""

    def __init__(
        self, records: Records, function: Callable[..., Any], config: IdempotencyConfig, prefix: str | None
    ) -> None:
        if config.expires_after_seconds < 1:
            raise ValueError(f"expires_after_seconds: {config.expires_after_seconds}, expected 1 or more")
        self.records, self.function, self.config, self.prefix = records, function, config, prefix

    def begin(self, request: Any) -> "PowertoolsCall":
        """Raises IdempotencyKeyError if the request has no key, whatever the configuration says."""
        return PowertoolsCall(self, request)


class PowertoolsCall:
    def __init__(self, recording: PowertoolsRecording, request: Any) -> None:
        self._recording = recording
        self._store = StagedRecord(None)

        @functools.wraps(recording.function)  # Powertools' key begins with the function's name
        def decide_now() -> Any:
            return [self._decide()]

        self._handler = IdempotencyHandler(
            function=decide_now,
            function_payload=request,
            config=recording.config,
            persistence_store=self._store,
            output_serializer=CustomDictSerializer(to_dict=_out_of_list, from_dict=_out_of_list),
            key_prefix=recording.prefix,
            function_args=(),
            function_kwargs={},
        )
        self._store.raise_on_no_idempotency_key = True  # else the function would run, and nothing be recorded
        self._store.save_inprogress(self._handler.data)
        assert self._store.in_progress is not None, "a request without a key raises an error"
        self.record_id: str = self._store.in_progress.idempotency_key

    def settle(self, found: Item | None, decide: Callable[[], Any]) -> Settled:
        self._decide = decide
        self._store.existing = None if found is None or is_over(found) else self._record_in(found)
        self._store.completed = None
        try:
            result = self._handler.handle()
        except IdempotencyValidationError:
            if self._store.existing is None:
                raise  # by the function itself
            fields = (self._recording.config.payload_validation_jmespath,)
            raise ConfiguredPayloadChanged(self._recording.records.key(self.record_id), fields) from None
        completed: DataRecord | None = self._store.completed
        if completed is None:
            return Settled(result, None)
        record = {ID: self.record_id, STATUS: COMPLETED, EXPIRATION: completed.expiry_timestamp}
        record |= {DATA: completed.response_data}
        record |= {VALIDATION: completed.payload_hash} if completed.payload_hash else {}
        return Settled(json.loads(completed.response_data), record)

    def _record_in(self, item: Item) -> DataRecord:
        if item.get(STATUS) == COMPLETED and DATA not in item:
            key = self._recording.records.key(self.record_id)
            raise ValueError(f"{key}: is no record of Powertools': choose another prefix")
        return _Record(
            idempotency_key=item[ID],
            status=item[STATUS],
            expiry_timestamp=item.get(EXPIRATION),
            in_progress_expiry_timestamp=item.get(IN_PROGRESS_EXPIRATION),
            response_data=item.get(DATA, ""),
            payload_hash=item.get(VALIDATION, ""),
        )


class _Record(DataRecord):
    """Its result is in a list, so it is true: Powertools takes a result that is false, such as 0 or {}, for None."""

    @override
    def response_json_as_dict(self) -> Any:
        return [json.loads(self.response_data) if self.response_data else None]


def _out_of_list(result: Any) -> Any:
    return result[0]
