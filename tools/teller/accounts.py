"""`teller account`, and the answers of read_accounts."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from tools.teller.failures import failure_in
from tools.teller.money import money, most_places
from tools.teller.operator import Operator, subcommand
from tools.teller.printed_tables import Rows, fields_table, table
from tools.teller.times import shown

AccountId = Annotated[str, typer.Argument(help="The account's id.", metavar="ACCOUNT")]
MOST_ENTRIES = 1000
"""Of a page: read_accounts's own bound."""
SUMS = ("balance", "held", "available", "overdraft_limit")
"""The amounts of an account."""

type Entry = dict[str, Any]
type Page = dict[str, Any]


def add_to(app: typer.Typer) -> None:
    subcommand(app)(account)


def account(operator: Operator, account_id: AccountId) -> None:
    """Show an account as it is now, with its open holds.

    What is available is the largest debit or hold that the account allows: the balance less what is held, down to the
    overdraft limit; less if `teller limits` says so, and nothing if debits are frozen. The hold that expires first is
    the first one. Of a pool it is the sum of its shards, each of which has a row.
    """
    answer = read_account(operator, account_id)
    shards = answer["pool"]["used"] if "pool" in answer else []
    given = {name: answer[name] for name in SUMS if answer[name] is not None}
    places = most_places([*given.values(), *(shard["balance"] for shard in shards)], answer["decimal_places"])
    sums = {name: money(amount, places) for name, amount in given.items()}
    width = max(map(len, sums.values()))
    fields = {name: value for name, value in answer.items() if name not in ("holds", "interest", "limits")}
    fields |= {name: amount.rjust(width) for name, amount in sums.items()}
    fields["frozen"] = " and ".join(name for name, is_frozen in answer["frozen"].items() if is_frozen) or "no"
    fields |= {f"interest, {name}": value for name, value in (answer["interest"] or {}).items()}
    tables = [_holds_table(answer)] if answer["holds"] else []
    if "pool" in answer:
        fields["pool"] = f"{answer['pool']['shards']} shards, {len(shards)} of them used"
        tables = [_shards_table(shards, places)]
    operator.show(answer, fields_table(fields), *tables)


def read(operator: Operator, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of read_accounts. Raises NotFound for an unknown account, and WrongUse or Failure for other errors."""
    answer = operator.deployment.invoke("ReadAccountsFunctionName", request)
    if failure := failure_in(answer):
        raise failure
    return answer


def read_account(operator: Operator, account_id: str) -> dict[str, Any]:
    return read(operator, {"read": "account", "account_id": account_id})


def last_entries(operator: Operator, account_id: str, last: int) -> Iterator[Page]:
    if last <= MOST_ENTRIES:
        return entries(operator, account_id, {"last": last})
    version = read_account(operator, account_id)["version"]
    first = max(1, version - last + 1)
    return entries(operator, account_id, {"from_version": first, "to_version": version, "limit": MOST_ENTRIES})


def entries(operator: Operator, account_id: str, wanted: dict[str, Any]) -> Iterator[Page]:
    """The pages of a statement, as read_accounts answers them."""
    request = {"read": "statement", "account_id": account_id}
    page = read(operator, request | wanted)
    yield page
    while page["next"]:
        page = read(operator, request | {"limit": MOST_ENTRIES} | page["next"])
        yield page


def _shards_table(shards: Sequence[dict[str, Any]], places: int) -> Rows:
    rows = table("shard", "balance", "version", "posted at", right=["balance", "version"])
    for shard in shards:
        balance, posted_at = money(shard["balance"], places), shown(shard["posted_at"])
        rows.add_row(shard["account_id"], balance, str(shard["version"]), posted_at)
    return rows


def _holds_table(account: dict[str, Any]) -> Rows:
    holds = account["holds"]
    made = table("open hold", "remaining", "expires at (UTC)", right=["remaining"])
    places = most_places((hold["remaining"] for hold in holds), account["decimal_places"])
    for hold in holds:
        made.add_row(hold["hold_id"], money(hold["remaining"], places), shown(hold["expires_at"]) or "never")
    return made
