"""The registry of transaction types, from which posting, replay and tests learn; and the decoding of a body."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec

from ledger.core.decoding import SHARD, TELLERS_OWN, check_fields, check_id, check_names, decode_json
from ledger.core.limits import NAME_PATTERN
from ledger.core.reason_codes import InvalidMessage, WrongQueue
from ledger.core.rules import RULES
from ledger.core.transaction_types.base import CURRENCY_PATTERN, Door, TransactionMessage
from ledger.core.transaction_types.charge_interest import ChargeInterest
from ledger.core.transaction_types.close_account import CloseAccount
from ledger.core.transaction_types.compound import Compound
from ledger.core.transaction_types.expire_hold import ExpireHold
from ledger.core.transaction_types.freeze_account import FreezeAccount
from ledger.core.transaction_types.historic_transaction import HistoricTransaction
from ledger.core.transaction_types.hold import Hold
from ledger.core.transaction_types.import_account import ImportAccount
from ledger.core.transaction_types.open_account import OpenAccount
from ledger.core.transaction_types.post_hold import PostHold
from ledger.core.transaction_types.reverse import Reverse
from ledger.core.transaction_types.set_interest import SetInterest
from ledger.core.transaction_types.set_limits import SetLimits
from ledger.core.transaction_types.set_overdraft_limit import SetOverdraftLimit
from ledger.core.transaction_types.set_shards import SetShards
from ledger.core.transaction_types.transaction import Transaction
from ledger.core.transaction_types.transfer import Transfer
from ledger.core.transaction_types.void_hold import VoidHold
from ledger.core.values import JSON_NUMBER

TRANSACTION_TYPES: dict[str, type[TransactionMessage]] = {
    "open_account": OpenAccount,
    "import_account": ImportAccount,
    "transaction": Transaction,
    "transfer": Transfer,
    "compound": Compound,
    "set_overdraft_limit": SetOverdraftLimit,
    "set_limits": SetLimits,
    "freeze_account": FreezeAccount,
    "set_interest": SetInterest,
    "set_shards": SetShards,
    "close_account": CloseAccount,
    "charge_interest": ChargeInterest,
    "hold": Hold,
    "post_hold": PostHold,
    "void_hold": VoidHold,
    "expire_hold": ExpireHold,
    "reverse": Reverse,
}
"""By the `type` in a message. A body without a `type` is a `transaction`."""
HISTORIC = "historic_transaction"
"""The type of entries that no message makes."""
RULE_SETS: dict[int, dict[str, type[TransactionMessage]]] = {
    RULES: {**TRANSACTION_TYPES, HISTORIC: HistoricTransaction},
}
"""Every rule set that ever decided, by its number. docs/extending.md says how a rule is changed."""


def decode(body: str) -> TransactionMessage:
    """The transaction in a message's body. Raises InvalidMessage."""
    envelope = decode_json(body, _envelope_decoder)
    if envelope.type not in _decoders:
        raise InvalidMessage(f"type: got {envelope.type[:40]!r}, expected one of {', '.join(_decoders)}")
    message = decode_json(body, _decoders[envelope.type], _EXPECTATIONS)
    for field in _numbers[envelope.type]:
        if getattr(message, field) is not None:
            _check_spelling(field, getattr(envelope, field))
    for field in message.nested:
        _check_nested(field, getattr(message, field), getattr(envelope, field))
    _check_job(message)
    _check_shards(message)
    check_names(body)
    return message


def decode_from(door: Door, body: str) -> TransactionMessage:
    """The transaction in the body of a message of this queue. Raises InvalidMessage, and WrongQueue."""
    message = decode(body)
    if message.own_door is not door:
        kind = repr(message.__struct_config__.tag)
        named = kind if message.own_door is message.door else f"a forced {kind}"
        raise WrongQueue(f"type: this is the {door} queue, and the {message.own_door} queue takes {named}")
    return message


_DECIMAL = 'expected a decimal number, such as "12.50"'
_EXPECTATIONS = {
    "Invalid decimal string": _DECIMAL,
    f"Expected `str` matching regex {NAME_PATTERN!r}": "expected 1 to 24 of a to z, 0 to 9, - and _",
    f"Expected `str` matching regex {CURRENCY_PATTERN!r}": 'expected three capital letters, such as "EUR"',
}

_numbers = {name: [field for field, _ in message_type.numbers] for name, message_type in TRANSACTION_TYPES.items()}
_NESTED = sorted({field for message_type in TRANSACTION_TYPES.values() for field in message_type.nested})
_NESTED_NUMBERS = ("amount", "number")
_Numbers = msgspec.defstruct("_Numbers", [(number, msgspec.Raw, msgspec.Raw(b"0")) for number in _NESTED_NUMBERS])
_Envelope: Any = msgspec.defstruct(
    "_Envelope",
    [
        ("type", str, "transaction"),
        *((field, dict[str, _Numbers] | list[_Numbers] | None, None) for field in _NESTED),  # type: ignore[valid-type]
        *((field, msgspec.Raw, msgspec.Raw(b"0")) for field in sorted({*chain.from_iterable(_numbers.values())})),
    ],
)
"""A message's type, and its numbers as the producer spelled them."""
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_decoders = {name: msgspec.json.Decoder(message_type) for name, message_type in TRANSACTION_TYPES.items()}


def _check_job(message: TransactionMessage) -> None:
    """Raises InvalidMessage for an id of Teller's own that isn't on a job's own message: it would keep that one out."""
    if message.transaction_id.startswith(TELLERS_OWN) and message != message.of_job:
        raise InvalidMessage(f"transaction_id: only a job's own message has one that begins with {TELLERS_OWN}")


def _check_shards(message: TransactionMessage) -> None:
    """Raises InvalidMessage for the account id of a shard: only a reversal names one, as the entries do."""
    if any(account_id.startswith(SHARD) for account_id in message.account_ids) and not isinstance(message, Reverse):
        raise InvalidMessage(f"body: no account of it may be a shard, {SHARD}…: expected the pool")


def _check_nested(field: str, given: Any, envelopes: Any) -> None:
    """Checks each element of a field as a message is checked: its ids, its times, and the spelling of its numbers."""
    spelled = _by_place(envelopes)
    for place, element in _by_place(given).items():
        if isinstance(place, str):
            check_id(field, place)
        prefix = f"{field}: {place}: " if isinstance(place, str) else f"{field}[{place}]."
        check_fields(prefix, element)
        for number in _NESTED_NUMBERS:
            if getattr(element, number, None) is not None:
                _check_spelling(f"{prefix}{number}", getattr(spelled[place], number))


def _by_place(elements: dict[str, Any] | Iterable[Any] | None) -> dict[Any, Any]:
    """By the name of each, or by its number in a list."""
    return elements if isinstance(elements, dict) else dict(enumerate(elements or ()))


def _check_spelling(field: str, raw: msgspec.Raw) -> None:
    """Raises InvalidMessage unless it is a JSON number, or the same in a string."""
    spelling = bytes(raw).strip(b'"').decode()
    if not JSON_NUMBER.fullmatch(spelling if "\\" not in spelling else msgspec.json.decode(raw)):  # .NET: 1E\u002B2
        raise InvalidMessage(f"{field}: {_DECIMAL}")
