"""Step 9: each posting is an event on the bus, which a consumer's rule brings to a queue."""

from collections.abc import Iterator
from typing import Any

from tools.teller.message_queues import counts_of
from tools.teller.tail import Event, listening, take
from tools.teller.verify.run import USUAL_SECONDS, Run, payment
from tools.teller.verify.steps import Step, different

POSTED = 3
"""So many payments are posted once the rule is at work: on AWS a new rule may take a minute."""
QUEUES = ("OutcomesDeadLetterQueueUrl", "BusDeadLetterQueueUrl")


def events(run: Run, step: Step) -> None:
    account_id, heard = run.account("heard"), dict[int, Event]()
    run.open(account_id)

    def listen(url: str) -> int:
        heard.update({event["detail"]["account_version"]: event for event in take(run.deployment, url)})
        return max(heard, default=0)

    def post_and_listen(url: str) -> int:
        run.send("Transactions", [payment(account_id, f"heard-{run.version(account_id)}", "1")])
        return listen(url)

    def otherwise() -> str:
        dead = "; ".join(f"{queue}: {counts_of(run.deployment, queue)}" for queue in QUEUES)
        return f"{account_id}: expected an event of each version, got those of {sorted(heard)}. {dead}"

    with listening(run.deployment, account_id, run.now()) as url:
        first = run.wait(lambda: post_and_listen(url), otherwise, USUAL_SECONDS)
        last = run.version(account_id) + POSTED
        run.send("Transactions", [payment(account_id, f"last-{number}", "1") for number in range(POSTED)])
        run.wait_for_version(account_id, last)
        run.wait(lambda: listen(url) and {*range(first, last + 1)} <= heard.keys(), otherwise, USUAL_SECONDS)
    step.sent = "payments of an account, until a new rule has heard of one, and three more"
    step.measure(f"{len(heard)} events heard")
    step.check("a consumer's rule hears of each posting", *_unlike(run.entries(account_id), heard, account_id))


def _unlike(entries: list[dict[str, Any]], heard: dict[int, Event], account_id: str) -> Iterator[str]:
    by_version = {int(entry["account_version"]): entry for entry in entries}
    for version, event in heard.items():
        for name in ("transaction_id", "amount", "balance_after"):
            expected = str(by_version[version][name])
            yield from different(f"{account_id}, event of version {version}, {name}", expected, event["detail"][name])
