"""A slow DynamoDB that fails often, in simulated time: nothing waits."""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from tests.support.faults import internal_error

MODULES = (
    "conditional_writes.deadline",
    "conditional_writes.loop",
    "workers.attempts",
    "tools.local_aws.functions",
    "botocore.endpoint",
)
"""They take the time, and pause."""


class SlowDynamoDB:
    """Each try of a call takes `seconds`. A share of the tries fail, every second of them after it took effect.

    `fails` may decide instead: it is called for each try with the operation. `seconds_passed` is the simulated time.
    """

    def __init__(
        self, seconds: float, failing_share: float = 0.0, fails: Callable[[str], bool] | None = None, seed: int = 1
    ) -> None:
        self.seconds, self.seconds_passed, self.requests = seconds, 0.0, 0
        self._random = random.Random(seed)
        self._fails = fails or (lambda operation: self._random.random() < failing_share)

    @contextlib.contextmanager
    def on(self, client: Any) -> Iterator["SlowDynamoDB"]:
        send = client._endpoint.http_session.send

        def before_send(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
            self.requests += 1
            self._pass(self.seconds)
            target = request.headers["X-Amz-Target"]
            if not self._fails((target.decode() if isinstance(target, bytes) else target).partition(".")[2]):
                return None
            if self._random.random() < 0.5:
                send(request)
            return internal_error(request)

        clock = SimpleNamespace(monotonic=lambda: self.seconds_passed, sleep=self._pass, time=time.time)
        with contextlib.ExitStack() as patched:
            for module in MODULES:
                patched.enter_context(mock.patch(f"{module}.time", clock))
            client.meta.events.register_first("before-send", before_send)
            patched.callback(client.meta.events.unregister, "before-send", before_send)
            yield self

    def _pass(self, seconds: float) -> None:
        self.seconds_passed += seconds
