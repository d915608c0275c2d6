"""A function's URL of the type AWS_IAM, over HTTP: it checks a request's signature before the function runs.

As Lambda does: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html and
https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html. Policies aren't evaluated here.
"""

import hashlib
import hmac
import json
import re
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tools.local_aws.functions import Context

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>\w+)/(?P<scope>\d{8}/[\w-]+/[\w-]+/aws4_request), ?"
    r"SignedHeaders=(?P<headers>[\w;-]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


class Forbidden(Exception):
    pass


class Principal(Credentials):
    """A user or a role's session, with its access key."""

    def __init__(self, user_id: str, access_key: str, secret_key: str, token: str | None = None) -> None:
        super().__init__(access_key, secret_key, token)
        self.user_id = user_id


def signer_of(
    request: AWSRequest, headers: Mapping[str, str], principals: Mapping[str, Principal], region: str
) -> Principal:
    """The principal that signed the request with these headers. Raises Forbidden if none has."""
    signed = AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if not signed:
        raise Forbidden("not signed")
    principal = principals.get(signed["key"])
    if not principal or principal.token != headers.get("x-amz-security-token"):
        raise Forbidden("an unknown key or token")
    names, sent_at = signed["headers"].split(";"), headers.get("x-amz-date", "")
    if signed["scope"] != f"{sent_at[:8]}/{region}/lambda/aws4_request":
        raise Forbidden("for another region, service or day")
    for name in names:
        request.headers[name] = headers.get(name, "")
    request.context["timestamp"] = sent_at
    signature = SigV4Auth(principal, "lambda", region)
    text = signature.string_to_sign(request, signature.canonical_request(request))
    named = headers.get("x-amz-content-sha256", hashlib.sha256(request.data).hexdigest())
    is_whole = named == hashlib.sha256(request.data).hexdigest() and {"host", "x-amz-date"} <= set(names)
    if not (is_whole and hmac.compare_digest(signature.signature(text, request), signed["signature"])):
        raise Forbidden("another signature than was calculated")
    return principal


def event_of(path: str, body: bytes, headers: Mapping[str, str], principal: Principal) -> dict[str, Any]:
    """The function's event in Lambda's format 2.0. A body that isn't text is encoded."""
    is_text = headers.get("content-type", "").startswith(("application/json", "text/"))
    return {
        "version": "2.0",
        "rawPath": path,
        "headers": dict(headers),
        "requestContext": {
            "http": {"method": "POST", "path": path},
            "authorizer": {"iam": {"accessKey": principal.access_key, "userId": principal.user_id}},
        },
        "body": body.decode() if is_text else b64encode(body).decode(),
        "isBase64Encoded": not is_text,
    }


@contextmanager
def function_url(function: ModuleType, region: str, *principals: Principal) -> Iterator[str]:
    """The address, as long as the block runs."""
    by_key = {principal.access_key: principal for principal in principals}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers["content-length"]))
            try:
                signer = signer_of(AWSRequest("POST", address, data=body), headers, by_key, region)
            except Forbidden as refused:
                self._answer(403, {"Message": str(refused)})
                return
            response = function.lambda_handler(event_of(self.path, body, headers, signer), Context(60))
            self._answer(response["statusCode"], json.loads(response["body"]))

        def _answer(self, status: int, answer: Mapping[str, Any]) -> None:
            encoded = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield address
        finally:
            server.shutdown()
            thread.join()
