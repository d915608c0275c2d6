"""Properties of every refusal: a short sentence that, as it is sent, has only characters that SQS accepts."""

from collections.abc import Callable

import pytest

from ledger.core.reason_codes import InvalidMessage
from tests.support import sqs
from workers.queue_messages import MAXIMUM_REASON_CHARACTERS, printable_reason

SENTENCE_CHARACTERS = 301
"""The maximum length of a refusal's sentence, for any body."""
REASON_CHARACTERS = MAXIMUM_REASON_CHARACTERS
"""The maximum length of a reason as it is sent and logged, with escapes for unprintable characters."""


NOT_FOR_SQS = sqs.NOT_FOR_SQS


def reason_of(decode: Callable[[str], object], body: str) -> str:
    """The reason for the body's refusal, as it is sent."""
    with pytest.raises(InvalidMessage) as caught:
        decode(body)
    return as_sent(caught.value)


def as_sent(refusal: InvalidMessage) -> str:
    sentence = str(refusal)
    assert 0 < len(sentence) <= SENTENCE_CHARACTERS
    reason = printable_reason(sentence)
    assert len(reason) <= REASON_CHARACTERS
    assert not NOT_FOR_SQS.search(reason)
    return reason
