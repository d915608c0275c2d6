"""A day of profile updates as message bodies. The same seed gives the same day."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

MORNING = datetime(2026, 11, 20, 6, tzinfo=UTC)

MESSAGES_PER_ERASURE = 100

JUNK = (
    "theme=dark",
    '{"account_id": "acc-0001", "path": ["risk"], "entries": {"score": NaN}}',
    '{"account_id": "acc-0001", "path": ["risk"], "entries": {"score": 1' + 38 * "0" + "1}}",
    '{"account_id": "acc-0001", "path": [], "entries": {"theme": "dark"}}',
    '{"account_id": "acc-0001", "path": ["account_id"], "entries": {"theme": "dark"}}',
    '{"account_id": "acc-0001", "path": ["preferences"], "entries": {}}',
    '{"account_id": "acc-0001", "path": ["preferences"], "entries": {"theme": "dark"}, "as_of": "yesterday"}',
    '{"account_id": "acc-0001", "path": ["preferences"], "set": {"theme": "dark"}}',
)


def believable_updates(messages: int, accounts: int = 40, seed: int = 1, repeated_share: float = 0.1) -> list[str]:
    """Four producers write to the profiles. Updates arrive out of order, some are repeated and some are invalid.

    Two of the producers share an attribute. A few of their updates make a map of an entry, or an entry of a map.
    Each hundredth message erases a profile.
    """
    choose = random.Random(seed)
    names = [f"acc-{number:04}" for number in range(1, accounts + 1)]
    looks = [_app(choose, name) | {"as_of": _as_of(number)} for number, name in enumerate(names)]
    day = [
        _update(choose, choose.choice(names), number)
        for number in range(accounts, round(messages * (0.97 - repeated_share)))
    ]
    bodies = [json.dumps(update) for update in [*looks, *day]]
    repeated = choose.choices(bodies, k=int(messages * repeated_share))
    junk = choose.choices(JUNK, k=max(1, messages - len(bodies) - len(repeated)))
    sent = bodies + repeated + junk
    choose.shuffle(sent)
    return sent


def _as_of(number: int) -> str:
    return (MORNING + timedelta(seconds=7 * number)).isoformat()


def _update(choose: random.Random, name: str, number: int) -> dict[str, Any]:
    """An update from one of the four producers, or an erasure instead of it."""
    update = _produced(choose, name, number)
    if number % MESSAGES_PER_ERASURE == 0:
        return {"type": "erase_profile", "account_id": name, "as_of": _as_of(number)}
    return update


def _produced(choose: random.Random, name: str, number: int) -> dict[str, Any]:
    """The app reports each session once, without `as_of`."""
    writer = choose.choice([_app, _app, _desk, _risk, _consent])
    if choose.random() < 0.1:
        writer = choose.choice([_skin, _plain])
    if choose.random() < 0.05:
        return {"account_id": name, "path": ["sessions"], "entries": {f"session {number}": {"device": "phone"}}}
    return writer(choose, name) | {"as_of": _as_of(number)}


def _app(choose: random.Random, name: str) -> dict[str, Any]:
    look = {"theme": choose.choice(["dark", "light"]), "language": choose.choice(["de", "fr", "it", "en"])}
    return {"account_id": name, "path": ["preferences"], "entries": look}


def _desk(choose: random.Random, name: str) -> dict[str, Any]:
    """`statements` is a map inside the app's attribute."""
    how = {"by": choose.choice(["post", "mail"]), "every_days": choose.choice([7, 30, 90])}
    return {"account_id": name, "path": ["preferences", "statements"], "entries": how}


def _risk(choose: random.Random, name: str) -> dict[str, Any]:
    score = choose.randint(1, 999)
    entries = {"score": score / 1000, "reasons": [f"rule {score % 7}"]}
    return {"account_id": name, "path": ["risk", choose.choice(["credit", "fraud"])], "entries": entries}


def _consent(choose: random.Random, name: str) -> dict[str, Any]:
    given, withdrawn = choose.sample(["mail", "phone", "post", "profiling"], 2)
    update = {"account_id": name, "path": ["consents"], "entries": {given: True}}
    return update | {"removed": [withdrawn]} if choose.random() < 0.6 else update


def _skin(_: random.Random, name: str) -> dict[str, Any]:
    """A newer app: the theme is a map."""
    return {"account_id": name, "path": ["preferences", "theme"], "entries": {"accent": "blue"}}


def _plain(_: random.Random, name: str) -> dict[str, Any]:
    """An older desk: how statements are sent is an entry."""
    return {"account_id": name, "path": ["preferences"], "entries": {"statements": "mail"}}
