"""The journal's index as it may be: late, with holes, away, or throttled. Injected into a client's answers."""

import itertools
import json
from collections import Counter
from decimal import Decimal
from typing import Any

from botocore.awsrequest import AWSResponse

from ledger.tables import JOURNAL_INDEX

AWAY = "ValidationException", f"The table does not have the specified index: {JOURNAL_INDEX}"
THROTTLED = "ProvisionedThroughputExceededException", "The level of configured provisioned throughput was exceeded"


class LateIndex:
    """Watches a client's queries of the journal, and changes the answers of its index.

    `hidden` has versions that the index doesn't have: for `reads` more reads of it, or for ever. `error` is the code
    and the message that each read of it gets. `limits` are the most items of a page, of the index and of the table.
    `queries` counts the queries of both.
    """

    def __init__(self, client: Any) -> None:
        self.hidden: set[int] = set()
        self.reads: int | None = None
        self.error: tuple[str, str] | None = None
        self.limits: dict[str, int] = {}
        self.queries: Counter[str] = Counter()
        client.meta.events.register("before-call.dynamodb.Query", self._before)
        client.meta.events.register("after-call.dynamodb.Query", self._after)

    def _before(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> Any:
        query = json.loads(params["body"])
        context["of"] = of = "index" if "IndexName" in query else "table"
        self.queries[of] += 1
        if of in self.limits:
            params["body"] = json.dumps(query | {"Limit": self.limits[of]}).encode()
        return self.refusal(*self.error) if self.error and of == "index" else None

    @staticmethod
    def refusal(code: str, message: str) -> Any:
        """What a handler of `before-call` returns in place of an answer: the SDK doesn't try again."""
        return AWSResponse("", 400, {}, None), {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {}}

    def _after(self, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        if context["of"] == "index" and "Items" in parsed and self.reads != 0:
            there = [Decimal(item["account_version"]["N"]) not in self.hidden for item in parsed["Items"]]
            parsed["Items"] = list(itertools.compress(parsed["Items"], there))
            self.reads = None if self.reads is None else self.reads - 1
