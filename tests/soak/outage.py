"""Outages in the middle of a soak: for some seconds AWS denies the functions what they ask for.

Lambda goes on delivering messages to them. Each delivery fails, and comes again.

EventBridge has an outage of its own. A function that can't publish tries for half a minute, and meanwhile the local AWS
polls no queue. The outage is shorter than that: the local AWS takes entries that a response names as failed for done.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.deployed import Bank

OF_TABLES_AND_QUEUES = ("dynamodb:*", "sqs:SendMessage*", "sqs:ChangeMessageVisibility*")
OF_EVENTBRIDGE = ("events:PutEvents",)
POLICY = "Outage"


@dataclass
class Outage:
    """The actions are denied.

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
            document = {"Effect": "Deny", "Action": list(self.actions), "Resource": "*"}
            for role in self.bank.function_roles():
                self._iam.put_role_policy(
                    RoleName=role,
                    PolicyName=POLICY,
                    PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [document]}),
                )
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
