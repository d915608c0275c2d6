"""What `teller account`, `statement`, `transaction` and `outcomes tail` show of holds and reversals, in 80 columns."""

import csv
import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.command import run_on
from tools.teller.outcomes import line

TIME = "2026-11-22T18:43:41.263+00:00"
ACCOUNT = {
    "account_id": "acc-1",
    "balance": "609.5",
    "held": "52.75",
    "available": "1356.75",
    "overdraft_limit": "-800",
    "currency": "EUR",
    "decimal_places": 2,
    "status": "OPEN",
    "frozen": {"debits": True, "credits": False},
    "limits": [],
    "version": 4,
    "posted_at": TIME,
    "interest": {"annual_rate": "0.12", "due": "3.21", "accrued": "0.5"},
    "holds": [
        {"hold_id": "h-2", "remaining": "12.75", "expires_at": "2026-11-29T12:00:00+00:00"},
        {"hold_id": "h-1", "remaining": "40", "expires_at": None},
    ],
}


def entry(transaction_id: str, amount: str, request: dict[str, Any], **fields: Any) -> dict[str, Any]:
    rest = {"balance_after": "60", "held_after": "0", "currency": "EUR", "account_version": 2}
    rest |= {"posted_at": TIME, "status": "POSTED", "home_account_id": "acc-1"}
    rest |= {"sent": {"sent_by": "AROAEXAMPLE:shop", "message_id": "m-1", "sent_at": TIME}}
    return {"transaction_id": transaction_id, "amount": amount, "request": request} | rest | fields


HOLD = entry("h-1", "0", {"type": "hold", "amount": "40"}, held_after="40")
POSTING = entry("p-1", "-15", {"type": "post_hold", "hold_id": "h-1", "final": False}, held_after="25")
REVERSE = {"type": "reverse", "of_transaction_id": "t-1"}
REVERSAL = entry("r-1", "5", REVERSE, reversal={"number": 1, "reversed_after": "5"})
TWO_ACCOUNTS = {"number": 1, "reversed_after": "5", "other_account_ids": ["b"]}
NO_REVERSAL = entry("r-2", "0", REVERSE, status="REJECTED", reason="REVERSAL_EXCEEDED", reversal=TWO_ACCOUNTS)


def shown(answer: dict[str, Any], *arguments: str, columns: int | None = 80, **others: dict[str, Any]) -> str:
    """The output of the command, on a deployment whose function gives this answer.

    The account is ACCOUNT, unless the answer is an account. `others` are answers by what is read.
    """
    others = {"account": answer if "balance" in answer else ACCOUNT} | others

    def invoke(_: str, request: dict[str, Any]) -> dict[str, Any]:
        return others.get(request["read"], answer)

    ended = run_on(SimpleNamespace(invoke=invoke), *arguments, columns=columns)
    assert ended.status == 0
    assert "--csv" in arguments or not columns or max(map(len, ended.out.splitlines())) <= columns
    return ended.out


def became(entry: dict[str, Any], count: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer about a transaction that has this entry."""
    ids = {"account_id": "acc-1", "home_account_id": "acc-1", "transaction_id": entry["transaction_id"]}
    return ids | {"state": entry["status"].lower(), "entry": entry, "reversed": count, "refusal": None}


def rows(text: str) -> list[list[str]]:
    return [row.split() for row in text.splitlines()]


USED = {"account_id": "teller:shard:7:acc-1", "balance": "97", "version": 3, "posted_at": TIME, "seal": "s"}
POOL = ACCOUNT | {"balance": "100", "held": "0", "available": None, "overdraft_limit": None, "holds": []}
POOL |= {"pool": {"shards": 64, "used": [USED | {"account_id": "teller:shard:0:acc-1", "balance": "3"}, USED]}}
OF_POOL = entry("sale-1", "3", {"type": "compound"}, account_id="teller:shard:0:acc-1", home_account_id="shop")


def test_a_pool_is_shown_as_the_sum_of_its_shards_with_a_row_for_each() -> None:
    found = rows(shown(POOL, "account", "acc-1"))
    assert ["balance", "100.00"] in found
    assert ["pool", "64", "shards,", "2", "of", "them", "used"] in found
    head = found.index(["shard", "balance", "version", "posted", "at"])
    names = [row[:3] for row in found[head + 1 :] if row and row[0].startswith("teller:")]
    assert names == [["teller:shard:0:acc-1", "3.00", "3"], ["teller:shard:7:acc-1", "97.00", "3"]]


def test_the_statement_of_a_pool_says_which_shard_each_entry_is_on() -> None:
    opened = entry("open", "0", {"type": "open_account"}, account_id="acc-1", account_version=1)
    page = {"account_id": "acc-1", "account_version": 2, "entries": [opened, OF_POOL], "complete": True}
    page |= {"missing_versions": [], "next": None}
    versions = [row[:2] for row in rows(shown(page, "statement", "acc-1", account=POOL))]
    assert ["0:", "2"] in versions
    lines = list(csv.DictReader(shown(page, "statement", "acc-1", "--csv").splitlines()))
    assert [(line["transaction_id"], line["shard"]) for line in lines] == [("open", ""), ("sale-1", "0")]


def test_an_account_is_shown_with_what_is_available_and_its_holds() -> None:
    found = rows(shown(ACCOUNT, "account", "acc-1"))
    fields = ("held 52.75", "available 1356.75", "overdraft_limit -800.00", "decimal_places 2", "frozen debits")
    for row in ("balance 609.50", *fields):
        assert row.split() in found
    for row in ("interest, annual_rate 0.12", "interest, due 3.21", "interest, accrued 0.5"):
        assert row.split() in found
    holds = found.index(["h-2", "12.75", "2026-11-29", "12:00:00"])
    assert found[holds + 1] == ["h-1", "40.00", "never"]
    assert json.loads(shown(ACCOUNT, "account", "acc-1", "--json")) == ACCOUNT


def statement_of(*entries: dict[str, Any], options: tuple[str, ...] = (), columns: int | None = 80) -> str:
    answer = {"account_id": "acc-1", "account_version": 9, "entries": list(entries), "complete": True}
    answer |= {"missing_versions": [], "next": None}
    return shown(answer, "statement", "acc-1", *options, columns=columns)


PAYMENT = {"type": "transaction", "amount": "-9000", "description": "a car"}
REJECTED = entry("t-4", "0", PAYMENT, status="REJECTED", reason="OVERDRAFT_LIMIT")
EXPIRY = entry(f"expire-hold-{'0af4' * 8}", "0", {"type": "expire_hold", "hold_id": "h-1", "description": "expired"})
INTEREST = entry(f"overdraft-interest-2026-11-21-{'0af4' * 8}", "-0.4", {"type": "charge_interest"})


def test_a_statement_shows_what_is_held_and_what_an_entry_is_about() -> None:
    found = rows(statement_of(HOLD, POSTING, REVERSAL, NO_REVERSAL, REJECTED, EXPIRY))
    for row in (
        "h-1 hold of 40.00 0.00 60.00",
        "held 40.00",
        "p-1 post_hold of -15.00 60.00",
        "r-1 reverse of t-1 5.00 60.00",
        "r-2 reverse of t-1 0.00 60.00 REVERSAL_EXCEEDED",
        "t-4 transaction (-9000.00) 60.00 OVERDRAFT_LIMIT: a",
        "expiry of h-1 0.00 60.00 expired",
    ):
        words = row.split()
        assert words in [each[-len(words) :] for each in found], row


def test_wide_ids_are_whole_and_times_to_the_second() -> None:
    narrow, wide = (statement_of(EXPIRY, INTEREST, options=options, columns=None) for options in ((), ("--wide",)))
    texts = ("overdraft-interest-2026-11-21-0af4…", INTEREST["transaction_id"], "2026-11-22 18:43:41")
    assert [text in narrow for text in texts] == [True, False, False]
    assert [text in wide for text in texts] == [False, True, True]


@pytest.mark.parametrize(
    ("found", "count", "sentence"),
    [
        (entry("t-1", "-12.5", {}), None, None),
        (
            entry("t-1", "-12.5", {}),
            {"amount": "5", "number": 2, "reversed_by": "r-1"},
            "5.00 EUR of its 12.50 EUR has been reversed, by 2 reversals, the last of which is r-1.",
        ),
        (REVERSAL, None, "It is reversal 1 of t-1. 5.00 EUR of t-1 had been reversed after it."),
        (NO_REVERSAL, None, "5.00 EUR of t-1 had been reversed before, by 1 reversal."),
    ],
)
def test_a_transaction_says_what_was_reversed(
    found: dict[str, Any], count: dict[str, Any] | None, sentence: str | None
) -> None:
    answer, asked = became(found, count), ("transaction", "acc-1", found["transaction_id"])
    text = " ".join(shown(answer, *asked).split())
    assert sentence in text if sentence else "reversed" not in text
    assert json.loads(shown(answer, *asked, "--json")) == answer | {"hold": None}


VOIDING = entry("v-1", "0", {"type": "void_hold", "hold_id": "h-9"})
LAST_POSTING = entry("p-3", "-25", {"type": "post_hold", "hold_id": "h-9", "final": False})
FINAL_POSTING = entry("p-4", "-1", {"type": "post_hold", "hold_id": "h-9"})
EXPIRED = entry("x-1", "0", {"type": "expire_hold", "hold_id": "h-9"})
OTHER = entry("p-5", "-40", {"type": "post_hold", "hold_id": "h-8"})
REFUSED = entry("v-2", "0", {"type": "void_hold", "hold_id": "h-9"}, status="REJECTED")
PART = entry("p-2", "-15", {"type": "post_hold", "hold_id": "h-9", "final": False})


@pytest.mark.parametrize(
    ("hold_id", "later", "sentence"),
    [
        ("h-1", [], "It placed a hold of 40.00 EUR. 40.00 EUR of it is held, without an end."),
        ("h-2", [], "It placed a hold of 40.00 EUR. 12.75 EUR of it is held, until 2026-11-29 12:00:00."),
        ("h-9", [OTHER, REFUSED, PART, VOIDING], "The hold was voided at 2026-11-22 18:43:41, by v-1."),
        ("h-9", [PART, LAST_POSTING, OTHER], "The hold was posted at 2026-11-22 18:43:41, by p-3."),
        ("h-9", [FINAL_POSTING], "The hold was posted at 2026-11-22 18:43:41, by p-4."),
        ("h-9", [EXPIRED], "The hold has expired at 2026-11-22 18:43:41, by x-1."),
        ("h-9", [OTHER], "The hold isn't open any more. Its end isn't among the next entries of the account."),
    ],
)
def test_a_hold_is_shown_with_what_became_of_it(hold_id: str, later: list[dict[str, Any]], sentence: str) -> None:
    answer = became(HOLD | {"transaction_id": hold_id})
    page = {"entries": later, "next": None}
    text = shown(answer, "transaction", "acc-1", hold_id, statement=page)
    assert sentence in " ".join(text.split())
    assert (["type", "hold"] in rows(text), ["held", "40.00", "EUR"] in rows(text)) == (True, True)
    told = json.loads(shown(answer, "transaction", "acc-1", hold_id, "--json", statement=page))["hold"]
    assert (told["amount"], told["state"] in sentence or told["state"] in ("open", "unknown")) == ("40", True)


def test_a_line_about_a_hold_says_how_much_is_held() -> None:
    detail = HOLD | {"account_id": "acc-1", "id": "acc-1#2", "reason": None}
    told = line({"detail-type": "HoldPlaced", "detail": detail})
    assert told == "2026-11-22 18:43:41  HoldPlaced  acc-1#2  h-1  0 -> 60  held 40"
    told = line({"detail-type": "HoldVoided", "detail": detail | {"held_after": "0"}})
    assert told == "2026-11-22 18:43:41  HoldVoided  acc-1#2  h-1  0 -> 60"
