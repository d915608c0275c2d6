"""Properties of every refusal: a short sentence that, as it is sent, has only characters that SQS accepts."""

import re
from collections.abc import Callable

import pytest

from ledger.core.reason_codes import InvalidMessage
from workers.queue_messages import MAXIMUM_REASON_CHARACTERS, printable_reason

SENTENCE_CHARACTERS = 301
"""The maximum length of a refusal's sentence, for any body."""
REASON_CHARACTERS = MAXIMUM_REASON_CHARACTERS
"""The maximum length of a reason as it is sent and logged, with escapes for unprintable characters."""

NOT_FOR_SQS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that SQS refuses in a body or an attribute."""


def reason_of(decode: Callable[[str], object], body: str) -> str:
    """The reason for the body's refusal, as it is sent."""
    with pytest.raises(InvalidMessage) as caught:
        decode(body)
    return as_sent(caught.value)


def as_sent(refusal: InvalidMessage) -> str:
    sentence = str(refusal)
    assert 0 < len(sentence) <= SENTENCE_CHARACTERS
    return printable_reason(sentence)
