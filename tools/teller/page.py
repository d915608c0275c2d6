"""`teller page`: a local, read-only page of accounts, statements, transactions, queues, dead letters and jobs.

The page's data are the answers of the other subcommands. The server listens on the loopback alone, answers GET alone,
and refuses requests that another site's page makes.
"""

import inspect
import json
import webbrowser
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

import typer
from botocore.exceptions import BotoCoreError, ClientError

from ledger.core.journal import ACCOUNT_FIELDS, ids_in_legs
from tools.teller.accounts import MOST_ENTRIES, read, read_account
from tools.teller.dead_letters import counted_letters
from tools.teller.failures import Failure, WrongUse, failure_of
from tools.teller.holds import hold_of
from tools.teller.operator import Operator, subcommand
from tools.teller.plain import plain
from tools.teller.status import status_of
from tools.teller.transaction import what_became_of

FILES = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
DEFAULT_PORT = 8321

PortOption = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="The port; 0 for any free one.", metavar="PORT")
]
NoBrowserOption = Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")]


def add_to(app: typer.Typer) -> None:
    subcommand(app)(page)


def page(operator: Operator, port: PortOption = DEFAULT_PORT, no_browser: NoBrowserOption = False) -> None:
    """Serve a page to look at the stack, on this machine alone, until Ctrl-C.

    The page finds an account, and shows its statement with the balance over time, its holds, a transaction's story, the
    queues, the dead letters and the jobs. It changes nothing.
    """
    with server(operator, port) as made:
        address = f"http://127.0.0.1:{made.server_port}/"
        operator.show({"address": address}, address)
        operator.remark(f"The page of {operator.deployment.name}. Ctrl-C ends it.")
        if not no_browser:
            webbrowser.open(address)
        try:
            made.serve_forever()
        except KeyboardInterrupt:
            operator.remark("ended")


def server(operator: Operator, port: int) -> ThreadingHTTPServer:
    """Raises WrongUse if the port is taken."""
    answers = Answers(operator)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = _response(answers, self.path, self.headers, made.server_port)
            self.send_response(status)
            for name, value in {"Content-Type": f"{kind}; charset=utf-8", **HEADERS}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The terminal stays quiet."""

    try:
        made = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise WrongUse(f"--port: {port} can't be listened on: {error.strerror}") from None
    return made


def _response(answers: "Answers", target: str, headers: Mapping[str, str], port: int) -> tuple[HTTPStatus, str, bytes]:
    """The status, the media type and the body."""
    if refusal := _refusal(headers, port):
        return HTTPStatus.FORBIDDEN, "text/plain", refusal.encode()
    parts = urlsplit(target)
    if parts.path in FILES:
        name, kind = FILES[parts.path]
        return HTTPStatus.OK, kind, (Path(__file__).with_name("page_files") / name).read_bytes()
    answer = ANSWERS.get(parts.path.removeprefix("/answers/"))
    if answer is None:
        return HTTPStatus.NOT_FOUND, "text/plain", b"there is no such page"
    query = dict(parse_qsl(parts.query))
    try:
        inspect.signature(answer).bind(answers, **query)
        found: Any = answer(answers, **query)
    except (Failure, ClientError, BotoCoreError) as error:
        failure = error if isinstance(error, Failure) else failure_of(error)
        found = {"error": {"code": failure.code, "reason": failure.reason}}
    except (TypeError, ValueError) as error:
        found = {"error": {"code": "WRONG_USE", "reason": str(error)}}
    return HTTPStatus.OK, "application/json", json.dumps(found, default=plain).encode()


def _refusal(headers: Mapping[str, str], port: int) -> str | None:
    """A page of another site could ask by this address or, after a change of its DNS entry, by its own name."""
    if headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
        return "Host: expected this page's own address"
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return "Sec-Fetch-Site: only this page may ask"
    return None


class Answers:
    """What the page asks for, each as a subcommand answers it with --json."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def status(self) -> dict[str, Any]:
        deployment = self._operator.deployment
        return {"stack": deployment.name} | status_of(deployment, datetime.now(UTC)).answer()

    def account(self, account_id: str) -> dict[str, Any]:
        return read_account(self._operator, account_id)

    def statement(self, account_id: str, to_version: str, limit: str = "200") -> dict[str, Any]:
        """The entries up to a version, so many at most. Of a pool, which has no version: the last ones."""
        most = min(int(limit), MOST_ENTRIES)
        if not to_version:
            return read(self._operator, {"read": "statement", "account_id": account_id, "last": most})
        last = int(to_version)
        versions = {"from_version": max(1, last - most + 1), "to_version": last, "limit": most}
        return read(self._operator, {"read": "statement", "account_id": account_id, **versions})

    def transaction(self, account_id: str, transaction_id: str, home: str = "") -> dict[str, Any]:
        """What became of it on the account, and on each other account that its message names.

        `home` is the account that the message names first, if it isn't this one.
        """
        home = home or account_id
        first = self._story(account_id, transaction_id, home)
        request = first["entry"]["request"] if first["entry"] else {}
        named = {request[name] for name in ACCOUNT_FIELDS if name in request}
        others = named.union(ids_in_legs(request.get("legs"))) - {account_id}
        return {"sides": [first, *(self._story(other, transaction_id, home) for other in sorted(others))]}

    def dead_letters(self) -> dict[str, Any]:
        return {"dead_letters": counted_letters(self._operator.deployment)}

    def _story(self, account_id: str, transaction_id: str, home: str) -> dict[str, Any]:
        story = what_became_of(self._operator, account_id, transaction_id, home)
        if story["entry"]:
            story["hold"] = hold_of(self._operator, story["entry"], read_account(self._operator, account_id))
        return story


ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "status": Answers.status,
    "account": Answers.account,
    "statement": Answers.statement,
    "transaction": Answers.transaction,
    "dead-letters": Answers.dead_letters,
}
