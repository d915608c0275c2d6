"""What happens to the functions in a soak: they are killed, and AWS denies them what they ask for.

Moments are counted in messages, not in seconds: if starting a function takes long, kills by the clock would end each
process before it did anything. A killed process of ministack corresponds to a lost execution environment on AWS: its
invocation fails, and its batch is redelivered after the visibility timeout.
"""

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.deployed import Bank

ALL_AT_ONCE_SHARE = 0.03
OF_TABLES_AND_QUEUES = ("dynamodb:*", "sqs:SendMessage*", "sqs:ChangeMessageVisibility*")
OF_EVENTBRIDGE = ("events:PutEvents",)
"""Its outage is shorter than a publisher tries: ministack takes entries that a response names as failed for done."""
POLICY = "Outage"


@dataclass
class ProcessKiller:
    """Sends SIGKILL to function processes at random moments, mostly to one, sometimes to all. `killed` counts them."""

    bank: Bank
    choose: random.Random
    mean_messages_between_kills: float
    killed: int = 0
    next_kill: float = 0.0

    def progressed(self, messages_done: int) -> None:
        """Kills if the number of messages for the next kill is done."""
        if messages_done >= self.next_kill:
            self.next_kill = messages_done + self.choose.expovariate(1 / self.mean_messages_between_kills)
            processes = self.bank.function_processes()
            if processes and self.choose.random() >= ALL_AT_ONCE_SHARE:
                processes = [self.choose.choice(processes)]
            self.bank.kill(processes)
            self.killed += len(processes)


@dataclass
class Outage:
    """For some seconds AWS denies the functions these actions, while Lambda goes on delivering messages to them.

    It begins when so many messages are done. `began` and `ended` are in seconds since the epoch; 0: not yet.
    """

    bank: Bank
    actions: Sequence[str]
    messages_before: int
    seconds: float
    began: float = 0.0
    ended: float = 0.0

    def progressed(self, messages_done: int) -> None:
        if not self.began and messages_done >= self.messages_before:
            statement = {"Effect": "Deny", "Action": list(self.actions), "Resource": "*"}
            document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            for role in self.bank.function_roles():
                self._iam.put_role_policy(RoleName=role, PolicyName=POLICY, PolicyDocument=document)
            self.began = time.time()
        elif self.began and time.time() >= self.began + self.seconds:
            self.close()

    def close(self) -> None:
        if self.began and not self.ended:
            self.ended = time.time()  # for the first of the functions
            for role in self.bank.function_roles():
                self._iam.delete_role_policy(RoleName=role, PolicyName=POLICY)

    @property
    def _iam(self):
        return self.bank.stack.endpoint.client("iam")
