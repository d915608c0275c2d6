"""Takes the run's own dead letters from a dead-letter queue. Letters of others stay, and are soon visible again."""

from tools.teller.failures import Failure
from tools.teller.letters import Letter, QueueName, Received
from tools.teller.verify.run import USUAL_SECONDS, Run


def take_own(run: Run, queue: QueueName, number: int, seconds: float = USUAL_SECONDS) -> list[Letter]:
    """Waits for so many letters of the run's own, and deletes them. Raises TimeIsUp if there are fewer."""
    taken: list[Letter] = []

    def all_taken() -> bool:
        taken.extend(take_those_there(run, queue))
        return len(taken) >= number

    run.wait(all_taken, lambda: f"{queue}: expected {number} dead letters, got {len(taken)}", seconds)
    return taken


def take_those_there(run: Run, queue: QueueName) -> list[Letter]:
    """Deletes the letters of the run's own that are there now. Raises Failure if SQS doesn't delete one."""
    own: list[Letter] = []
    with Received(run.deployment, queue) as received:
        for letters in received.rounds():
            found = [letter for letter in letters if run.name in letter.body]
            own += found
            if failures := received.delete(found):
                raise Failure(f"{queue}: {failures} dead letters of {run.name} couldn't be deleted")
    return own
