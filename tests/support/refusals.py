"""What every refusal at a door is: a short sentence, and as it is sent, of characters that SQS takes."""

import re
from collections.abc import Callable

import pytest

from ledger.core.reason_codes import InvalidMessage
from workers.queue_messages import MAXIMUM_REASON_CHARACTERS, printable_reason

SENTENCE_CHARACTERS = 301
"""A reason is a sentence, whatever the body is."""
REASON_CHARACTERS = MAXIMUM_REASON_CHARACTERS
"""Of a reason as it is sent in a message attribute, and logged: with escapes for what isn't printable."""

NOT_FOR_SQS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""SQS refuses a message with one of these, in the body or in an attribute."""


def reason_of(decode: Callable[[str], object], body: str) -> str:
    """Why the body is refused, as it is sent."""
    with pytest.raises(InvalidMessage) as caught:
        decode(body)
    return as_sent(caught.value)


def as_sent(refusal: InvalidMessage) -> str:
    sentence = str(refusal)
    assert 0 < len(sentence) <= SENTENCE_CHARACTERS
    return printable_reason(sentence)
