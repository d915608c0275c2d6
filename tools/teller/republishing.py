"""Has outcomes published again: asks republish_outcomes for what its answer leaves, until nothing is left."""

from collections.abc import Callable
from typing import Any

from tools.teller.deployment import Deployment
from tools.teller.failures import Failure, NotFound, WrongUse, failure_in

type Event = dict[str, Any]
"""An event for republish_outcomes, which has a request to publish again: docs/events.md#publishing-again."""


def publish_again(deployment: Deployment, event: Event, said: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """The sums of the function's answers to the event and to all that they leave.

    What is done so far is `said` while something is left. Raises NotFound for an unknown account, WrongUse for a
    request that isn't one, and Failure for any other error: the sentence has what was published by then.
    """
    total: dict[str, Any] = {"published": 0, "dead_lettered": 0, "missing_versions": []}
    events = [event]
    while events:
        following = events.pop()
        try:
            answer = deployment.invoke("RepublishOutcomesFunctionName", following)
            if failure := failure_in(answer):
                raise failure
        except (NotFound, WrongUse):
            raise
        except Failure as failure:
            raise Failure(failure.reason + _what_was_done(total, following), failure.code) from None
        for name in total:
            total[name] += answer[name]
        events += answer["next"]
        if events:
            said(f"{total['published']:,} outcomes were published again so far.")
    return total


def _what_was_done(total: dict[str, Any], failed: Event) -> str:
    """Empty if nothing was. Publishing everything from the beginning again does no harm, either."""
    if not total["published"]:
        return ""
    begin = failed["republish"].get("from_version")
    go_on = f"; go on with --from {begin}" if begin else ""
    return f". {total['published']:,} outcomes were published again before{go_on}"
