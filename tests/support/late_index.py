"""The journal's index as it may be: late, with holes, away, or throttled. Injected into a client's answers."""

import json
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSResponse

from conditional_writes.core.steps import FOUND
from conditional_writes.core.unconditional import found_items
from ledger.tables import JOURNAL_INDEX

if TYPE_CHECKING:
    from conditional_writes import Item

AWAY = "ValidationException", f"The table does not have the specified index: {JOURNAL_INDEX}"
THROTTLED = "ProvisionedThroughputExceededException", "The level of configured provisioned throughput was exceeded"


class LateIndex:
    """Watches clients' queries of the journal, and changes the answers of its index.

    `hidden` has versions that the index doesn't have: for `reads` more reads of it, or for ever. `error` is the code
    and the message that each read of it gets. `shown` changes the items that it has. `limits` are the most items of a
    page, of the index, of the table and of the checkpoints. `queries` counts the queries of each.
    """

    def __init__(self, *clients: Any) -> None:
        self.hidden: set[int] = set()
        self.reads: int | None = None
        self.error: tuple[str, str] | None = None
        self.shown: Callable[[Item], Item] = lambda item: item
        self.limits: dict[str, int] = {}
        self.queries: Counter[str] = Counter()
        for client in clients:
            self.watch(client)

    def watch(self, client: Any) -> None:
        client.meta.events.register("before-call.dynamodb.Query", self._before)
        client.meta.events.register("after-call.dynamodb.Query", self._after)

    def _before(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> Any:
        query = json.loads(params["body"])
        of = "table" if ":account_id" in query["ExpressionAttributeValues"] else "checkpoints"
        context["of"] = of = "index" if "IndexName" in query else of
        self.queries[of] += 1
        if of in self.limits:
            params["body"] = json.dumps(query | {"Limit": self.limits[of]}).encode()
        return self.refusal(*self.error) if self.error and of == "index" else None

    @staticmethod
    def refusal(code: str, message: str) -> Any:
        """What a handler of `before-call` returns in place of an answer: the SDK doesn't try again."""
        return AWSResponse("", 400, {}, None), {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {}}

    def _after(self, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        if context["of"] != "index" or "Error" in parsed:
            return
        items = list(found_items(parsed))
        if self.reads != 0:
            items = [item for item in items if item["account_version"] not in self.hidden]
            self.reads = None if self.reads is None else self.reads - 1
        parsed[FOUND] = list(map(self.shown, items))
