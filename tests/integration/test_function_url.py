"""The URL of `post_transactions`: the page's code and its curl command post by it, and whoever hasn't signed doesn't.

The URL is tests/support/function_url.py. Lambda's own answers are asked for by tests/assumptions/test_lambda.py.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore import awsrequest, httpsession
from botocore.auth import SigV4Auth

from tests.support import function_url as urls
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


def signed(url: str, body: bytes = BODY, by: Principal = USER, region: str = REGION, service: str = "lambda"):
    request = awsrequest.AWSRequest("POST", url, {"Content-Type": "application/json"}, body)
    SigV4Auth(by, service, region).add_auth(request)
    return request.prepare()


def sent(request: awsrequest.AWSPreparedRequest) -> tuple[int, dict[str, Any]]:
    response = httpsession.URLLib3Session().send(request)
    return response.status_code, json.loads(response.content)


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


def changed(request: awsrequest.AWSPreparedRequest, **headers: str | None) -> awsrequest.AWSPreparedRequest:
    for name, value in headers.items():
        del request.headers[name.replace("_", "-")]
        if value is not None:
            request.headers[name.replace("_", "-")] = value
    return request


def another_body(url: str) -> awsrequest.AWSPreparedRequest:
    request = signed(url)
    request.body = BODY.replace(b"-12.50", b"-99.50")
    return request


def another_time(url: str) -> awsrequest.AWSPreparedRequest:
    request = signed(url)
    return changed(request, X_Amz_Date=request.headers["X-Amz-Date"][:9] + "000000Z")


REFUSED: dict[str, tuple[Callable[[str], awsrequest.AWSPreparedRequest], str]] = {
    "no signer": (lambda url: changed(signed(url), Authorization=None), urls.NOT_SIGNED),
    "a password": (lambda url: changed(signed(url), Authorization="Basic YWxpY2U6c2VjcmV0"), urls.NOT_SIGNED),
    "a secret that isn't the key's": (
        lambda url: signed(url, by=Principal("", USER.access_key, "another")),
        urls.WRONG_SIGNATURE,
    ),
    "a key that nobody has": (lambda url: signed(url, by=Principal("", "AKIANOBODY", "secret")), urls.UNKNOWN_KEY),
    "a role without its session's token": (
        lambda url: signed(url, by=Principal("", ROLE.access_key, ROLE.secret_key)),
        urls.UNKNOWN_KEY,
    ),
    "for another service": (lambda url: signed(url, service="execute-api"), urls.WRONG_SCOPE),
    "for another region": (lambda url: signed(url, region="us-east-1"), urls.WRONG_SCOPE),
    "another body than was signed": (another_body, urls.WRONG_SIGNATURE),
    "another time than was signed": (another_time, urls.WRONG_SIGNATURE),
}


@pytest.mark.parametrize(("request_to", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_signer_is_refused_and_nothing_is_written(
    ledger: Ledger, url: str, request_to: Callable[[str], awsrequest.AWSPreparedRequest], reason: str
) -> None:
    assert sent(request_to(url)) == (403, {"Message": reason})
    assert journal(ledger) == []


def test_a_recorded_request_is_refused_later(ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "LONGEST_AGE", timedelta(seconds=-1))
    assert sent(signed(url)) == (403, {"Message": urls.EXPIRED})
    assert journal(ledger) == []


BAD = {
    "junk": (b"junk", 400, "body: expected JSON"),
    "101 messages": (
        json.dumps({"transactions": [PAYMENT] * 101}).encode(),
        400,
        "transactions: expected `array` of length <= 100",
    ),
    "more than 6 MB": (
        BODY + b" " * urls.LARGEST_BODY_BYTES,
        413,
        f"Request must be smaller than {urls.LARGEST_BODY_BYTES} bytes",
    ),
}


@pytest.mark.parametrize(("body", "status", "reason"), BAD.values(), ids=BAD)
def test_a_bad_request_of_a_signer_is_refused_with_a_sentence(
    ledger: Ledger, url: str, body: bytes, status: int, reason: str
) -> None:
    answered, answer = sent(signed(url, body))
    said = answer["error"]["reason"] if "error" in answer else answer["Message"]
    assert (answered, said[: len(reason)]) == (status, reason)
    assert journal(ledger) == []
