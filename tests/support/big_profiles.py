"""A batch of `upsert_profiles` in a process of its own, as on Lambda, beside profiles that nearly fill their items.

`serving` answers as DynamoDB would: each first request of a big profile is refused, and its item comes back. As a
script it processes one batch with a message for each of so many big profiles, and as many for healthy ones. It prints
what the batch took, as JSON. The arguments are the endpoint's URL, the number of profiles, and the messages' `as_of`.
"""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, override

from conditional_writes.core.items import MAXIMUM_ITEM_BYTES
from conditional_writes.core.own_attributes import ITEM_BYTES
from conditional_writes.upserts.clocks import clocks_attribute
from tests.support.night import most_megabytes
from tests.support.samples import profile_body
from tools.local_aws.functions import QUEUE_LIMITS, Context, invoke, load_function, record
from tools.local_aws.server import Endpoint

LATE, NEW = "2020-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
"""Before the profile's entries were written, and after."""
LONG_SECONDS = 3600
"""The time of the invocation: how busy the machine is decides nothing."""
NULL = {"NULL": True}

FILLINGS: dict[str, list[Any]] = {
    # The entries of 19 messages of `{"eN": [1, …]}`.
    "numbers": [{"L": [{"N": "1"}] * 4_990}] * 19,
    "empty texts": [{"L": [{"S": ""}] * 4_990}] * 77,
    "nulls": [{"L": [NULL] * 4_990}] * 39,
    "different numbers": [{"L": [{"N": str(100_001 + number)} for number in range(4_990)]}] * 12,
    "maps of one name": [{"L": [{"M": {"a": {"S": ""}}}] * 4_990}] * 12,
    "tiny names": [{"M": {f"{name:x}": {"S": ""} for name in range(4_990)}}] * 18,
    # Messages can't write sets, but others may.
    "sets": [{"L": [{"SS": ["a"]}] * 4_990}] * 38,
}
"""Entries that fill an item, by what they are, in DynamoDB's JSON."""


def item(account_id: str, filling: str) -> dict[str, Any]:
    """A profile of 370 to 400 KB in DynamoDB's JSON. Its count of bytes is higher, so that it has to be counted."""
    entries = {f"e{number}": value for number, value in enumerate(FILLINGS[filling])}
    clock = {"S": f"2026-01-01T00:00:00.000000+00:00 {'a' * 16}"}
    return {
        "account_id": {"S": account_id},
        "preferences": {"M": entries},
        clocks_attribute(("preferences",)): {"M": dict.fromkeys(entries, clock)},
        ITEM_BYTES: {"N": str(MAXIMUM_ITEM_BYTES)},
    }


class Batch(NamedTuple):
    """`returned` counts the messages that went back to the queue, `megabytes` is the most that the process took."""

    returned: int
    cpu_seconds: float
    megabytes: float


@contextlib.contextmanager
def serving(filling: str) -> Iterator[tuple[Endpoint, list[str]]]:
    """The endpoint, and the ids of the profiles of the requests. The first one of each big profile is refused."""
    refused = {
        "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
        "Message": "The conditional request failed",
        "Item": item("THE-ID", filling),
    }
    refusal, asked = json.dumps(refused, separators=(",", ":")), list[str]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request, status, body = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), 200, b"{}"
            if "Key" in request:
                account_id = request["Key"]["account_id"]["S"]
                if account_id.startswith("big") and account_id not in asked:
                    status, body = 400, refusal.replace("THE-ID", account_id).encode()
                asked.append(account_id)
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Endpoint(f"http://127.0.0.1:{server.server_port}"), asked
        server.shutdown()


def main(url: str, profiles: str, as_of: str) -> None:
    queues = {"QUEUE_URL": url, "DEAD_LETTER_QUEUE_URL": url, "ATTEMPTS_TABLE": "Attempts"} | QUEUE_LIMITS
    function = load_function("upsert_profiles", Endpoint(url), queues | {"PROFILES_TABLE": "Profiles"})
    ids = [f"{kind}-{number}" for number in range(int(profiles)) for kind in ("big", "healthy")]
    records = [
        record(profile_body(account_id=json.dumps(each), entries='{"e0":1}', as_of=f'"{as_of}"')) for each in ids
    ]
    started_cpu = time.process_time()
    returned = invoke(function, records, Context(LONG_SECONDS))
    print(json.dumps(Batch(len(returned), time.process_time() - started_cpu, most_megabytes())._asdict()))


if __name__ == "__main__":
    main(*sys.argv[1:])
