"""Holds events against docs/schemas, as strictly as they can be: what a later release may add is a problem today."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jsonschema_rs import Draft202012Validator

from tools.local_aws.server import PROJECT

CLAIMS = ("every event is as its schema says",)


def schema(name: str) -> dict[str, Any]:
    """The schema in docs/schemas, as consumers have it."""
    return json.loads((PROJECT / "docs" / "schemas" / f"{name}.json").read_text())


def strict(schema: Any) -> Any:
    """The schema without further fields, and without other values than its examples."""
    match schema:
        case dict():
            strictly = {name: strict(part) for name, part in schema.items()}
            if "examples" in strictly:
                strictly["enum"] = strictly.pop("examples")
            if "unevaluatedProperties" in strictly:
                strictly["unevaluatedProperties"] = False
            return strictly
        case list():
            return [strict(part) for part in schema]
    return schema


_OUTCOME = Draft202012Validator(strict(schema("outcome")))
_REFUSED = Draft202012Validator(strict(schema("transaction_refused")))


def problems(event: Mapping[str, Any]) -> list[str]:
    """A sentence for each place where a whole event, as EventBridge delivers it, isn't as its schema says.

    A schema can't compare fields, so the id is compared here, and the account and the transaction with the request.
    """
    is_refusal = event.get("detail-type") == "TransactionRefused"
    errors = (_REFUSED if is_refusal else _OUTCOME).iter_errors(event)
    found = [] if is_refusal else _missing_numbers(event.get("detail"))
    found += sorted(f"{'.'.join(map(str, error.instance_path)) or 'event'}: {error.message}" for error in errors)
    return found or (_wrong_refusal if is_refusal else _wrong_outcome)(event["detail"])


def violations(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields a sentence for each problem of an event."""
    for event in events:
        yield from (f"{event.get('detail', {}).get('id')}: {problem}" for problem in problems(event))


def _missing_numbers(detail: Any) -> list[str]:
    """A later release has added `held_after`, so the schema doesn't require it: events in an archive lack it."""
    is_there = isinstance(detail, dict) and "held_after" in detail
    return [] if is_there else ['detail: "held_after" is a required property']


def _wrong_refusal(detail: Mapping[str, Any]) -> list[str]:
    expected = f"message#{detail['message_id']}"
    return [] if detail["id"] == expected else [f"detail.id: {detail['id']!r}, expected {expected!r}"]


def _wrong_outcome(detail: Mapping[str, Any]) -> list[str]:
    request = detail["request"]
    accounts = [request[name] for name in ("account_id", "from_account_id", "to_account_id") if name in request]
    accounts += [leg["account_id"] for leg in request.get("legs", [])]
    others = detail.get("reversal", {}).get("other_account_ids", [])
    if set(others) & set(accounts):  # so the entry is on an account that the request doesn't name
        accounts = [detail["account_id"]] if detail["account_id"] not in others else ["another one"]
    accounts += [f"teller:shard:{number}:{pool}" for pool, number in detail.get("shards", {}).items()]
    expected = {"id": [f"{detail['account_id']}#{detail['account_version']}"], "account_id": accounts}
    expected["transaction_id"] = [request["transaction_id"]]
    return [
        f"detail.{name}: {detail[name]!r}, expected {' or '.join(map(repr, values))}"
        for name, values in expected.items()
        if detail[name] not in values
    ]
