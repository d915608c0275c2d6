"""Exactly-once functions: the record that a function ran commits in one transaction with the function's writes."""

from conditional_writes.core.messages import ToBus, ToQueue, ToTopic
from conditional_writes.exactly_once.function import ExactlyOnce, Ran, exactly_once
from conditional_writes.exactly_once.payload import PayloadChanged
from conditional_writes.exactly_once.record import Records

__all__ = ["ExactlyOnce", "PayloadChanged", "Ran", "Records", "ToBus", "ToQueue", "ToTopic", "exactly_once"]
