"""The URL of `post_transactions`: the page's code and its curl command sign their requests, and post by it.

The URL is tests/support/function_url.py. Lambda's own answers are asked for by tests/assumptions/test_lambda.py.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from botocore import httpsession
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from tests.support.function_url import Principal, function_url
from tests.support.ledger import Ledger
from tests.support.template import PROJECT
from tools.local_aws.functions import post_transactions
from tools.local_aws.server import Endpoint

REGION = "eu-west-1"
USER = Principal("AIDAEXAMPLE", "AKIAEXAMPLE", "the secret of the user")
ROLE = Principal("AROAEXAMPLE:payments", "ASIAEXAMPLE", "the secret of the role", "the session's token")
PAYMENT = {"transaction_id": "order-1001", "account_id": "acc-1", "amount": "-12.50"}
BODY = json.dumps({"transactions": [PAYMENT]}).encode()
PAGE = (PROJECT / "docs/synchronous.md").read_text()


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    ledger = Ledger(aws, dynamodb)
    ledger.open("acc-1", limit="-100")
    return ledger


@pytest.fixture
def url(ledger: Ledger) -> Iterator[str]:
    function = post_transactions(ledger.dynamodb, ledger.tables, ledger.locks_table, HAS_URL="on")
    with function_url(function, REGION, USER, ROLE) as address:
        yield address


def journal(ledger: Ledger) -> list[tuple[str, str]]:
    """The transactions with their senders, but for the opening of the account."""
    entries = [item for item in ledger.items(ledger.tables.journal) if item["account_version"] > 1]
    return [(entry["transaction_id"], entry["sent"]["sent_by"]) for entry in entries]


@pytest.mark.parametrize("principal", [USER, ROLE], ids=["a user", "a role"])
def test_the_pages_python_posts(
    ledger: Ledger, url: str, principal: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(principal).items():
        monkeypatch.setenv(name, value)
    [code] = [code for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE) if "SigV4" in code]
    names: dict[str, Any] = {}
    exec(code, names)
    [outcome] = names["post"](url, PAYMENT)
    assert (outcome["state"], outcome["balance_after"]) == ("posted", "-12.5")
    assert journal(ledger) == [("order-1001", principal.user_id)]
    with pytest.raises(RuntimeError, match="transactions: expected `array` of length >= 1"):
        names["post"](url)


def environment(principal: Principal) -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": principal.access_key, "AWS_SECRET_ACCESS_KEY": principal.secret_key}
    return keys | {"AWS_SESSION_TOKEN": principal.token or "", "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION}


@pytest.mark.skipif(not shutil.which("curl"), reason="CURL ISN'T HERE: the page's command wasn't tried")
@pytest.mark.parametrize("principal", [USER, ROLE], ids=["a user", "a role"])
def test_the_pages_curl_posts(ledger: Ledger, url: str, principal: Principal) -> None:
    [command] = re.findall(r"^\$ (curl .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    given = {"PATH": "/usr/local/bin:/usr/bin:/bin", "POST_TRANSACTIONS_URL": url}
    done = subprocess.run(["sh", "-c", command], env=environment(principal) | given, capture_output=True, check=True)
    [outcome] = json.loads(done.stdout)["outcomes"]
    assert outcome["state"] == "posted"
    assert journal(ledger) == [("order-1001", principal.user_id)]


def test_another_body_than_was_signed_is_refused_and_nothing_is_written(ledger: Ledger, url: str) -> None:
    request = AWSRequest("POST", url, {"Content-Type": "application/json"}, BODY)
    SigV4Auth(USER, "lambda", REGION).add_auth(request)
    request.data = BODY.replace(b"-12.50", b"-99.50")
    assert httpsession.URLLib3Session().send(request.prepare()).status_code == 403
    assert journal(ledger) == []
