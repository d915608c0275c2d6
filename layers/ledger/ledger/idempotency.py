"""A transaction is decided once: Powertools' idempotency, whose records are the journal's entries.

Stock Powertools writes its record apart from the effect. Here the record is the journal entry, and it commits together
with the account: docs/decisions/staged-record.md
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, cast, override

from aws_lambda_powertools.utilities.idempotency.base import IdempotencyHandler
from aws_lambda_powertools.utilities.idempotency.config import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyItemAlreadyExistsError
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import STATUS_CONSTANTS, DataRecord

from ledger.core.journal import JournalEntry

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer


class Once[**Facts, Decided](IdempotencyHandler):
    """Powertools' handler of a function that decides a transaction, for many transactions and one thread:
    `once.of(entry, *facts).handle()`.

    `handle` returns what `decide` makes of the facts, or if the transaction has its entry already, what `replay` makes
    of that. It raises what `decide` raises.
    """

    # Not `idempotent_function`: if POWERTOOLS_IDEMPOTENCY_DISABLED is set, it looks for no record.

    def __init__(self, decide: Callable[Facts, Decided], replay: Callable[[JournalEntry], Decided]) -> None:
        self._journal = _Journal()
        super().__init__(
            function=decide,
            function_payload=None,  # the fold has compared the requests by then: nothing has to be copied and hashed
            config=IdempotencyConfig(response_hook=lambda entry, _: replay(cast("JournalEntry", entry))),
            persistence_store=cast("BasePersistenceLayer", self._journal),
        )

    def of(self, entry: JournalEntry | None, *facts: Facts.args, **named: Facts.kwargs) -> Self:
        """For one transaction. `entry` is its own in the journal, None if it has none yet."""
        self._journal.entry, self.fn_args, self.fn_kwargs = entry, facts, named
        return self


class _Journal:
    """The persistence layer, with the methods that Powertools' handler calls. None of them makes a request.

    The entries were read with the batch, and a decision's entries are written by its commit. So no record is ever in
    progress, and a decision that fails leaves none behind.
    """

    entry: JournalEntry | None = None

    def configure(self, **_: object) -> None:
        """Nothing is configured: an entry is found by its primary key."""

    def save_inprogress(self, **_: object) -> None:
        if self.entry is not None:
            raise IdempotencyItemAlreadyExistsError(old_data_record=_CompletedRecord(self.entry))

    def save_success(self, **_: object) -> None:
        """The decision has its entries."""

    def delete_record(self, **_: object) -> None:
        """No record was saved."""


class _CompletedRecord(DataRecord):
    """An entry as a record that never expires. Its response is the entry itself, which nobody has to parse."""

    def __init__(self, entry: JournalEntry) -> None:
        super().__init__(f"{entry.account_id}#{entry.transaction_id}", STATUS_CONSTANTS["COMPLETED"])
        self.entry = entry

    @override
    def response_json_as_dict(self) -> Any:
        return self.entry
