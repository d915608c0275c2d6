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
    "conditional_writes.core.loop",
    "conditional_writes.core.steps",
    "workers.attempts",
    "tools.local_aws.functions",
    "botocore.endpoint",
)
"""They take the time, and pause."""


class SlowDynamoDB:
    """Each try of a call takes `seconds`. A share of the tries fail, every second of them after it took effect.

    While `is_out()`, all of them fail without an effect. `seconds_passed` is the simulated time.
    """

    def __init__(
        self, seconds: float, failing_share: float = 0.0, is_out: Callable[[], bool] = lambda: False, seed: int = 1
    ) -> None:
        self.seconds, self.failing_share, self.is_out = seconds, failing_share, is_out
        self.seconds_passed, self.requests = 0.0, 0
        self._random = random.Random(seed)

    @contextlib.contextmanager
    def on(self, client: Any) -> Iterator["SlowDynamoDB"]:
        send = client._endpoint.http_session.send

        def before_send(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
            self.requests += 1
            self._pass(self.seconds)
            if not self.is_out():
                if self._random.random() >= self.failing_share:
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
