"""The URL of `post_transactions`: the page's code and its curl command sign their requests, and post by it.

Lambda's own answers are asked for by tests/assumptions/test_lambda.py.
"""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.support.ledger import Ledger
from tests.support.template import PROJECT
from tools.local_aws.functions import Context, post_transactions
from tools.local_aws.server import Endpoint

REGION = "eu-west-1"
USER = Credentials("AKIAEXAMPLE", "the secret of the user")
ROLE = Credentials("ASIAEXAMPLE", "the secret of the role", "the session's token")
USER_IDS = {"AKIAEXAMPLE": "AIDAEXAMPLE", "ASIAEXAMPLE": "AROAEXAMPLE:payments"}
PAYMENT = {"transaction_id": "order-1001", "account_id": "acc-1", "amount": "-12.50"}
PAGE = (PROJECT / "docs/synchronous.md").read_text()
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>\w+)/(?P<date>\d{8})/eu-west-1/lambda/aws4_request, ?"
    r"SignedHeaders=(?P<names>[\w;-]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    ledger = Ledger(aws, dynamodb)
    ledger.open("acc-1", limit="-100")
    return ledger


@pytest.fixture(params=[USER, ROLE], ids=["a user", "a role"])
def principal(request: pytest.FixtureRequest) -> Credentials:
    return request.param


def signature_of(principal: Credentials, names: str, address: str, headers: Mapping[str, str], body: bytes) -> str:
    """That of these headers and this body, by botocore:
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
    """
    request = AWSRequest("POST", address, {name: headers.get(name, "") for name in names.split(";")}, body)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(principal, "lambda", REGION)
    return auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)


@pytest.fixture
def url(ledger: Ledger, principal: Credentials) -> Iterator[str]:
    """A function's URL of the type AWS_IAM, over HTTP: a request that isn't signed by the principal fails."""
    function = post_transactions(ledger.dynamodb, ledger.tables, ledger.locks_table, HAS_URL="on")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers["content-length"]))
            signed = AUTHORIZATION.fullmatch(headers["authorization"])
            assert signed
            assert (signed["key"], signed["date"]) == (principal.access_key, headers["x-amz-date"][:8])
            assert {"host", "x-amz-date"} <= {*signed["names"].split(";")}
            assert headers.get("x-amz-security-token") == principal.token
            assert signed["signature"] == signature_of(principal, signed["names"], address, headers, body)
            authorizer = {"iam": {"accessKey": principal.access_key, "userId": USER_IDS[principal.access_key]}}
            context = {"http": {"method": "POST", "path": self.path}, "authorizer": authorizer}
            event = {"version": "2.0", "requestContext": context, "body": body.decode(), "isBase64Encoded": False}
            response = function.lambda_handler(event, Context(60))
            self.send_response(response["statusCode"])
            self.send_header("Content-Length", str(len(response["body"])))
            self.end_headers()
            self.wfile.write(response["body"].encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        threading.Thread(target=server.serve_forever).start()
        yield address
        server.shutdown()


def journal(ledger: Ledger) -> list[tuple[str, str]]:
    """The transactions with their senders, but for the opening of the account."""
    entries = [item for item in ledger.items(ledger.tables.journal) if item["account_version"] > 1]
    return [(entry["transaction_id"], entry["sent"]["sent_by"]) for entry in entries]


def environment(principal: Credentials) -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": principal.access_key, "AWS_SECRET_ACCESS_KEY": principal.secret_key}
    return keys | {"AWS_SESSION_TOKEN": principal.token or "", "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION}


def test_the_pages_python_posts(
    ledger: Ledger, url: str, principal: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(principal).items():
        monkeypatch.setenv(name, value)
    [code] = [code for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE) if "SigV4" in code]
    names: dict[str, Any] = {}
    exec(code, names)
    [outcome] = names["post"](url, PAYMENT)
    assert (outcome["state"], outcome["balance_after"]) == ("posted", "-12.5")
    assert journal(ledger) == [("order-1001", USER_IDS[principal.access_key])]
    with pytest.raises(RuntimeError, match="transactions: expected `array` of length >= 1"):
        names["post"](url)


@pytest.mark.skipif(not shutil.which("curl"), reason="CURL ISN'T HERE: the page's command wasn't tried")
def test_the_pages_curl_posts(ledger: Ledger, url: str, principal: Credentials) -> None:
    [command] = re.findall(r"^\$ (curl .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    given = {"PATH": "/usr/local/bin:/usr/bin:/bin", "POST_TRANSACTIONS_URL": url}
    done = subprocess.run(["sh", "-c", command], env=environment(principal) | given, capture_output=True, check=True)
    [outcome] = json.loads(done.stdout)["outcomes"]
    assert outcome["state"] == "posted"
    assert journal(ledger) == [("order-1001", USER_IDS[principal.access_key])]
