"""A small bank's day as message bodies. The same seed gives the same day."""

import json
import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

JUNK = (
    "not JSON at all",
    "[1, 2, 3]",
    '{"transaction_id": "junk", "account_id": "acc-0001", "amount": NaN}',
    '{"transaction_id": "junk", "account_id": "acc-0001", "amount": "12,50"}',
    '{"transaction_id": "junk", "account_id": "acc-0001", "amount": 0}',
    '{"transaction_id": "junk", "account_id": "acc-0001"}',
    '{"transaction_id": "junk", "account_id": "acc-0001", "amount": 1, "colour": "green"}',
    '{"transaction_id": "", "account_id": "acc-0001", "amount": 1}',
    '{"transaction_id": "junk", "account_id": "acc-0001", "amount": 1' + 38 * "0" + "1}",
    '{"type": "transfer", "transaction_id": "junk", "from_account_id": "acc-1", "to_account_id": "acc-1", "amount": 1}',
    '{"type": "withdraw", "transaction_id": "junk", "account_id": "acc-0001"}',
)
TOO_FINE = '{"transaction_id": "too-fine", "account_id": "acc-0001", "amount": "12.505"}'
"""Its amount has a decimal more than the account's currency."""
HOLDS_EXPIRE_AT = "2026-03-31T22:00:00+00:00"
"""Before any night of a job that expires holds."""

FEES = "fees"
"""The account that gets the fees. Its own money comes from its capital."""

type Message = dict[str, Any]


def believable_day(messages: int, accounts: int = 60, seed: int = 1, repeated_share: float = 0.1) -> list[str]:
    """Accounts are opened, credited, debited, overdrawn and closed; money is held, and transactions are reversed. A
    merchant is paid with a fee, which goes to the account `fees`, the last one.

    Some messages are repeated, some are invalid, and some arrive before those to which they refer.
    """
    choose = random.Random(seed)
    names = [f"acc-{number:04}" for number in range(1, accounts)]
    openings = [*(_opening(choose, name) for name in names), _opening(choose, FEES) | {"currency": "EUR"}]
    # Salaries come early: an account without money could be closed, and all else would be rejected.
    timed = [(0.05 * choose.random(), _salary(choose, name)) for name in names]
    timed.append((0, _salary(choose, FEES) | {"description": "Capital"}))
    different = math.ceil(messages * (0.97 - repeated_share)) - accounts
    while len(timed) < different:
        happening = _happening(choose, names, len(timed))
        timed += zip(_times(choose, len(happening)), happening, strict=True)
    del timed[max(different, accounts) :]
    changed = [
        json.dumps(message | {"amount": "0.01"})
        for _, message in choose.sample(timed[accounts:], 5)
        if "amount" in message
    ]
    bodies = [(time, json.dumps(message)) for time, message in timed]
    first = [json.dumps(opening) for opening in openings]
    repeated = [
        (choose.uniform(time, 1), body)
        for time, body in choose.choices([*((0, body) for body in first), *bodies], k=int(messages * repeated_share))
    ]
    others = messages - len(first) - len(bodies) - len(repeated) - len(changed)
    junk = [TOO_FINE, *choose.choices(JUNK, k=others - 1)] if others > 0 else []
    later = sorted([*bodies, *repeated, *((choose.random(), body) for body in junk)])
    return [*first, *(body for _, body in later), *changed]


def _times(choose: random.Random, number: int) -> Sequence[float]:
    """The times of messages that follow each other, as parts of the day. Now and then the later ones come first."""
    first = choose.random()
    times = [first + 0.02 * choose.random() * following for following in range(number)]
    return times[::-1] if choose.random() < 0.05 else times


def _opening(choose: random.Random, name: str) -> Message:
    return {
        "type": "open_account",
        "transaction_id": f"open-{name}",
        "account_id": name,
        "currency": choose.choice([*9 * ["EUR"], "CHF"]),
        "overdraft_limit": choose.choice(["0", "-200", "-500", "-1000"]),
    }


def _salary(choose: random.Random, name: str) -> Message:
    euros, cents = choose.randint(1500, 4500), choose.randint(0, 99)
    if name.endswith("5"):
        euros //= 100  # some have little, and are overdrawn at night
    amount = f"{euros}.{cents:02}"
    return {"transaction_id": f"salary-{name}", "account_id": name, "amount": amount, "description": "Salary"}


def _happening(choose: random.Random, names: list[str], number: int) -> list[Message]:
    """A message, and those that refer to it."""
    # As in a real bank, a few accounts have most of the transactions.
    name = names[min(int(choose.paretovariate(0.4)) - 1, len(names) - 1)]
    other = choose.choice([other for other in names if other != name])
    event = {"transaction_id": f"t-{number:06}", "account_id": name}
    kind = choose.random()
    if kind < 0.09:
        return _transfer(choose, name, other, number)
    if kind < 0.21:
        return _card_payment_with_hold(choose, event, other)
    if kind < 0.27:
        return _sale(choose, name, other, number)
    if kind < 0.75:
        payment = event | {"amount": f"-{_amount(choose, 120)}", "description": "Card payment"}
        return [payment, *_reversals(choose, payment, name)]
    if kind < 0.95:
        return [event | {"amount": _amount(choose, 380, at_least=10), "description": "Credit"}]
    if kind < 0.97:
        return [event | {"amount": "-25", "currency": choose.choice(["EUR", "USD"])}]
    if kind < 0.995:
        return [event | {"type": "set_overdraft_limit", "overdraft_limit": choose.choice(["-100", "-800", "-1500"])}]
    return [event | {"type": "close_account"}]


def _transfer(choose: random.Random, payer: str, payee: str, number: int) -> list[Message]:
    transfer = {
        "type": "transfer",
        "transaction_id": f"transfer-{number:06}",
        "from_account_id": payer,
        "to_account_id": payee,
        "amount": _amount(choose, 120),
    }
    return [transfer, *_reversals(choose, transfer, choose.choice([payer, payee]))]


def _sale(choose: random.Random, payer: str, merchant: str, number: int) -> list[Message]:
    """The merchant gets what the payer pays less a fee. One sale in eight is taken back, by whichever of the three."""
    amount = Decimal(_amount(choose, 120))
    fee = (amount * 3 / 100).quantize(Decimal("0.01")) + Decimal("0.10")
    shares = {payer: -amount, merchant: amount - fee, FEES: fee}
    legs = [{"account_id": name, "amount": str(share)} for name, share in shares.items()]
    sale = {"type": "compound", "transaction_id": f"sale-{number:06}", "legs": legs, "description": "A sale"}
    back: Message = {"type": "reverse", "of_account_id": payer}
    taken_back = choose.random() < 1 / 8
    return [sale, *_following(sale, choose.choice(list(shares)), [back] * taken_back, "of_transaction_id")]


def _card_payment_with_hold(choose: random.Random, event: Message, merchant: str) -> list[Message]:
    """A hold and its end. The merchant asks for a part of it, for all of it in two parts, or for too much."""
    hold = event | {"type": "hold", "amount": _amount(choose, 120, at_least=20), "expires_at": HOLDS_EXPIRE_AT}
    part = _amount(choose, 19)
    post: Message = {"type": "post_hold"}
    void: Message = {"type": "void_hold"}
    ends = choose.choice(
        [
            [],  # The hold expires.
            [post],
            [post | {"amount": part}],
            [post | {"amount": part, "final": False}, post | {"to_account_id": merchant}],
            [post | {"amount": part, "final": False, "to_account_id": merchant}, void],
            [post | {"amount": "500"}, post],
            [void, post],
        ]
    )
    if ends and choose.random() < 0.3:
        del hold["expires_at"]
    return [hold, *_following(event, event["account_id"], ends, "hold_id")]


def _reversals(choose: random.Random, message: Message, account_id: str) -> Iterator[Message]:
    """For one message in ten: a reversal of all of it or a part, and then of the rest, of too much, or of itself."""
    whole: Message = {"type": "reverse"}
    of_itself = whole | {"of_transaction_id": f"{message['transaction_id']}-1"}
    if message.get("to_account_id") == account_id:
        whole["of_account_id"] = message["from_account_id"]
    part = whole | {"amount": "1"}
    ways = [[whole], [whole, whole], [whole, of_itself], [part], [part, whole], [part, whole | {"amount": "500"}]]
    if choose.random() < 0.1:
        yield from _following(message, account_id, choose.choice(ways), "of_transaction_id")


def _following(first: Message, account_id: str, messages: Sequence[Message], refers: str) -> Iterator[Message]:
    for number, message in enumerate(messages, 1):
        ids = {"transaction_id": f"{first['transaction_id']}-{number}", "account_id": account_id}
        yield {refers: first["transaction_id"]} | message | ids


def _amount(choose: random.Random, at_most: int, at_least: int = 1) -> str:
    return f"{choose.randint(at_least, at_most)}.{choose.randint(0, 99):02}"
