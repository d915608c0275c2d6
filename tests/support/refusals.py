"""What every refusal at a door is: a short sentence, of characters that SQS takes."""

import re
from collections.abc import Callable

import pytest

from ledger.core.refusals import InvalidMessage

REASON_CHARACTERS = 400
"""A reason is a sentence, whatever the body is: it goes into a message attribute, and into a line of the log."""

NOT_FOR_SQS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""SQS refuses a message with one of these, in the body or in an attribute."""


def reason_of(decode: Callable[[str], object], body: str) -> str:
    with pytest.raises(InvalidMessage) as caught:
        decode(body)
    return str(caught.value)
