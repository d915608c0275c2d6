"""The lines and requests of `teller outcomes`, and the end of a tail."""

import os
import signal
from typing import Any

import pytest

from tools.teller.failures import Failure, NotFound, WrongUse
from tools.teller.outcomes import ended_by_signals, request
from tools.teller.republishing import publish_again

MIDNIGHT = "2026-11-22T00:00:00+00:00"


class Function:
    """A deployment whose function gives these answers, in turn. An answer may be the error to raise."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.events, self.said = list(answers), list[Any](), list[str]()

    def invoke(self, output: str, event: Any) -> Any:
        assert output == "RepublishOutcomesFunctionName"
        self.events.append(event)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def answer(published: int, *following: int, **fields: Any) -> dict[str, Any]:
    """An answer that leaves the versions from each of the following ones on."""
    left = [{"republish": {"account_id": "a", "from_version": version}} for version in following]
    return {"published": published, "dead_lettered": 0, "missing_versions": [], "next": left} | fields


def again(function: Function) -> dict[str, Any]:
    return publish_again(function, {"republish": {"account_id": "a"}}, function.said.append)


def test_what_an_answer_leaves_is_asked_for_until_nothing_is_left() -> None:
    missing = [{"account_id": "a", "from_version": 4, "to_version": 5, "reason": "none"}]
    function = Function(answer(3, 4), answer(2, 6, 9, missing_versions=missing), answer(1, dead_lettered=1), answer(5))
    total = again(function)
    assert total == {"published": 11, "dead_lettered": 1, "missing_versions": missing}
    assert [event["republish"].get("from_version") for event in function.events] == [None, 4, 9, 6]
    assert len(function.said) == 3


def test_a_failure_on_the_way_says_what_was_published_and_how_to_go_on() -> None:
    with pytest.raises(Failure) as failed:
        again(Function(answer(3000, 3001), Failure("the function failed: killed")))
    assert "killed. 3,000 outcomes were published again before; go on with --from 3001" in failed.value.reason
    with pytest.raises(Failure, match=r"balance: none\. 1 outcomes were published again before"):
        again(Function(answer(1, 2), {"error": {"code": "UNREADABLE", "reason": "balance: none"}}))
    with pytest.raises(NotFound, match="no account"):
        again(Function({"error": {"code": "UNKNOWN_ACCOUNT", "reason": "no account 'a' has been opened"}}))


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (("a", None, None), {"account_id": "a"}),
        (("a", "3", "7"), {"account_id": "a", "from_version": 3, "to_version": 7}),
        (("a", None, "7"), {"account_id": "a", "to_version": 7}),
        (("a", "2026-11-21", None), {"account_id": "a", "from": "2026-11-21T00:00:00+00:00"}),
        ((None, "2026-11-21T20:30:00+01:00", "2026-11-22"), {"from": "2026-11-21T19:30:00+00:00", "to": MIDNIGHT}),
    ],
)
def test_a_range_is_of_versions_or_of_times(arguments: Any, fields: dict[str, Any]) -> None:
    assert request(*arguments) == fields


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((None, None, None), "name an account, or the time --from which"),
        ((None, "3", None), "name an account, or the time --from which"),
        (("a", "3", "2"), "to_version: expected"),
        (("a", "0", None), "from_version: expected"),
        (("a", "3", "2026-11-21"), "--from and --to: expected two versions, or two times, got 3 and 2026-11-21"),
        (("a", "x", None), "--from: expected a version, such as 7, or an ISO 8601 time, such as 2026-11-01T12:30:00Z"),
        (("a", None, "2026-11-21"), "to: expected it with from"),
        (("a", "2026-11-21", "2026-11-20"), "to: expected"),
    ],
)
def test_a_range_that_cant_be_meant_is_refused_before_anything_is_asked(arguments: Any, sentence: str) -> None:
    with pytest.raises(WrongUse, match=sentence):
        request(*arguments)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_block_and_others_dont_disturb_what_follows(which: signal.Signals) -> None:
    before, done = signal.getsignal(which), []
    with ended_by_signals():
        try:
            os.kill(os.getpid(), which)
            done.append("after the signal")
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), which)
            done.append("tidied up")
    assert done == ["tidied up"]
    assert signal.getsignal(which) == before
