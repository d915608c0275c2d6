"""Records by Powertools' own machinery: key, payload and expiry by its `IdempotencyConfig`. Needs Powertools."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple, override

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.base import IdempotencyHandler
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyValidationError
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from aws_lambda_powertools.utilities.idempotency.serialization.custom_dict import CustomDictSerializer

from conditional_writes.core.items import Item
from conditional_writes.core.staged_record import StagedRecord
from conditional_writes.exactly_once.payload import PayloadChanged
from conditional_writes.exactly_once.record import (
    COMPLETED,
    EXPIRATION,
    ID,
    IN_PROGRESS_EXPIRATION,
    STATUS,
    Recorded,
    Records,
    is_over,
)

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
        store = StagedRecord(None)
        data = self.handler(request, store).data
        store.raise_on_no_idempotency_key = True  # else the function would run, and nothing be recorded
        store.save_inprogress(data)
        assert store.in_progress is not None, "a request without a key raises an error"
        return PowertoolsCall(self, request, data, store.in_progress.idempotency_key)

    def handler(self, request: Any, store: StagedRecord) -> IdempotencyHandler:
        """Configures the store. Powertools' keys begin with the function's name."""
        return IdempotencyHandler(
            function=self.function,
            function_payload=request,
            config=self.config,
            persistence_store=store,
            output_serializer=CustomDictSerializer(to_dict=_out_of_list, from_dict=_out_of_list),
            key_prefix=self.prefix,
        )


class PowertoolsCall(NamedTuple):
    recording: PowertoolsRecording
    request: Any
    data: Any
    record_id: str

    def recorded_in(self, found: Item | None) -> Recorded | None:
        """Raises IdempotencyAlreadyInProgressError, too: stock Powertools runs the function elsewhere."""
        if found is None or is_over(found):
            return None
        handler = self.recording.handler(self.request, StagedRecord(self._record_in(found)))
        try:
            return Recorded(handler.handle(), found)
        except IdempotencyValidationError:
            fields = (self.recording.config.payload_validation_jmespath,)
            raise ConfiguredPayloadChanged(self.recording.records.key(self.record_id), fields) from None

    def record_of(self, result: Any) -> Recorded:
        store = StagedRecord(None)
        self.recording.handler(self.request, store)
        store.save_success(self.data, result)
        assert store.completed is not None, "the request has a key"
        completed = store.completed
        record = {ID: self.record_id, STATUS: COMPLETED, EXPIRATION: completed.expiry_timestamp}
        record |= {DATA: completed.response_data}
        record |= {VALIDATION: completed.payload_hash} if completed.payload_hash else {}
        return Recorded(json.loads(completed.response_data), record)

    def _record_in(self, item: Item) -> DataRecord:
        if item.get(STATUS) == COMPLETED and DATA not in item:
            key = self.recording.records.key(self.record_id)
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
