"""A small bank's day as message bodies. The same seed gives the same day."""

import json
import random
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


def believable_day(messages: int, accounts: int = 60, seed: int = 1, repeated_share: float = 0.1) -> list[str]:
    """Accounts are opened, credited, debited, overdrawn and closed. Some messages are repeated, some are invalid."""
    choose = random.Random(seed)
    names = [f"acc-{number:04}" for number in range(1, accounts + 1)]
    day = [_opening(choose, name) for name in names]
    day += [_salary(choose, name) for name in names]
    while len(day) < messages * (0.97 - repeated_share):
        day.append(_event(choose, names, len(day)))
    changed = [entry | {"amount": "0.01"} for entry in choose.sample(day[2 * accounts :], 5) if "amount" in entry]
    bodies = [json.dumps(entry) for entry in day]
    repeated = choose.choices(bodies, k=int(messages * repeated_share))
    junk = choose.choices(JUNK, k=max(0, messages - len(bodies) - len(repeated) - len(changed)))
    later = bodies[accounts:] + repeated + junk
    choose.shuffle(later)
    return bodies[:accounts] + later + [json.dumps(entry) for entry in changed]


def _opening(choose: random.Random, name: str) -> dict[str, Any]:
    return {
        "type": "open_account",
        "transaction_id": f"open-{name}",
        "account_id": name,
        "currency": choose.choice([*9 * ["EUR"], "CHF"]),
        "overdraft_limit": choose.choice(["0", "-200", "-500", "-1000"]),
    }


def _salary(choose: random.Random, name: str) -> dict[str, Any]:
    euros, cents = choose.randint(1500, 4500), choose.randint(0, 99)
    if name.endswith("5"):
        euros //= 100  # some have little, and are overdrawn at night
    amount = f"{euros}.{cents:02}"
    return {"transaction_id": f"salary-{name}", "account_id": name, "amount": amount, "description": "Salary"}


def _event(choose: random.Random, names: list[str], number: int) -> dict[str, Any]:
    # As in a real bank, a few accounts have most of the transactions.
    name = names[min(int(choose.paretovariate(0.4)) - 1, len(names) - 1)]
    event = {"transaction_id": f"t-{number:06}", "account_id": name}
    kind = choose.random()
    if kind < 0.09:
        return {
            "type": "transfer",
            "transaction_id": event["transaction_id"],
            "from_account_id": name,
            "to_account_id": choose.choice([other for other in names if other != name]),
            "amount": f"{choose.randint(1, 120)}.{choose.randint(0, 99):02}",
        }
    if kind < 0.75:
        return event | {
            "amount": f"-{choose.randint(1, 120)}.{choose.randint(0, 99):02}",
            "description": "Card payment",
        }
    if kind < 0.95:
        return event | {"amount": f"{choose.randint(10, 380)}.{choose.randint(0, 99):02}", "description": "Credit"}
    if kind < 0.97:
        return event | {"amount": "-25", "currency": choose.choice(["EUR", "USD"])}
    if kind < 0.995:
        return event | {"type": "set_overdraft_limit", "overdraft_limit": choose.choice(["-100", "-800", "-1500"])}
    return event | {"type": "close_account"}
