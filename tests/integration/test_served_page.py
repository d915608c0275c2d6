"""`teller page` answers this machine's own page alone, changes nothing, and shows strangers' texts as texts."""

import html
import http.client
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tools.teller import page
from tools.teller.failures import NotFound
from tools.teller.operator import Operator

HOSTILE = '<img src=x onerror="document.title=1">\u202eevil\x1b]52;c;aGk=\x07'
LAST = 10_000


def entry(version: int) -> dict[str, Any]:
    request = {"account_id": "acc-1", "amount": "1", "description": HOSTILE, "transaction_id": f"t-{version}"}
    times = {"posted_at": f"2026-11-{1 + version % 28:02}T10:00:00.000+00:00"}
    sums = {"amount": "1", "balance_after": str(version), "held_after": "0", "currency": "EUR"}
    decision = {"status": "POSTED", "account_version": version, "transaction_id": f"t-{version}", "request": request}
    return {**decision, **sums, **times}


class Stack(page.Answers):
    """Answers as those of a stack, without one."""

    def __init__(self) -> None:
        super().__init__(Operator(None, None, as_json=False))

    def account(self, account_id: str) -> dict[str, Any]:
        if account_id == "nobody":
            raise NotFound("no account 'nobody' has been opened")
        sums = {"balance": "12.5", "held": "2", "available": "110.5", "overdraft_limit": "-100"}
        hold = {"hold_id": HOSTILE, "remaining": "2", "expires_at": None}
        about = {"account_id": account_id, "currency": "EUR", "decimal_places": 2, "status": "OPEN", "version": LAST}
        counted = {"name": "often", "of": "debits", "per": "day", "time_zone": "Europe/Paris"}
        limits = [counted | {"amount": None, "number": "3", "left": "2"}]
        controls = {"frozen": {"debits": True, "credits": False}, "limits": limits}
        return {**about, **sums, **controls, "holds": [hold]}

    def statement(self, account_id: str, to_version: str, limit: str = "200") -> dict[str, Any]:
        last = int(to_version)
        return {"entries": [entry(version) for version in range(max(1, last - int(limit) + 1), last + 1)]}

    def transaction(self, account_id: str, transaction_id: str, home: str = "") -> dict[str, Any]:
        side = {"account_id": account_id, "state": "posted", "entry": entry(1), "reversed": None, "refusal": None}
        return {"sides": [side | {"hold": None}]}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setattr(page, "Answers", lambda _: Stack())
    for name in ("account", "statement", "transaction"):
        monkeypatch.setitem(page.ANSWERS, name, getattr(Stack, name))
    with page.server(Operator("teller-dev", None, as_json=False), 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: ThreadingHTTPServer, target: str, method: str = "GET", **headers: str) -> tuple[int, str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, target, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body, response.headers


def test_the_page_is_served_on_the_loopback_without_anything_from_outside(served: ThreadingHTTPServer) -> None:
    assert served.server_address[0] == "127.0.0.1"
    for target in page.FILES:
        status, body, headers = ask(served, target)
        assert status == 200
        assert not re.search(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w.]+\.\w", body)
        assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_the_page_stays_small() -> None:
    files = [Path(page.__file__), *(Path(page.__file__).parent / "page_files").iterdir()]
    assert sum(len(file.read_text().splitlines()) for file in files) <= 500


@pytest.mark.parametrize(
    ("target", "method", "headers", "status"),
    [
        ("/", "GET", {"Host": "evil.example"}, 403),
        ("/answers/account?account_id=a", "GET", {"Sec_Fetch_Site": "cross-site"}, 403),
        ("/answers/account?account_id=a", "POST", {}, 501),
        ("/../page.py", "GET", {}, 404),
    ],
    ids=["by another name", "for another site", "to change something", "for another file"],
)
def test_the_page_refuses_a_request(
    served: ThreadingHTTPServer, target: str, method: str, headers: dict[str, str], status: int
) -> None:
    assert ask(served, target, method, **headers)[0] == status


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/answers/account?account_id=nobody", "no account 'nobody' has been opened"),
        ("/answers/account", "missing a required argument: 'account_id'"),
        ("/answers/statement?account_id=a&to_version=x", "invalid literal for int() with base 10: 'x'"),
    ],
)
def test_what_cant_be_answered_has_a_reason(served: ThreadingHTTPServer, target: str, reason: str) -> None:
    assert json.loads(ask(served, target)[1])["error"]["reason"] == reason


@pytest.mark.skipif(not shutil.which("chromium"), reason="NOT TESTED IN A BROWSER: there is no chromium")
@pytest.mark.parametrize("way", ["account/acc-1", "transaction/acc-1/t-1"])
def test_a_browser_shows_texts_of_strangers_as_texts(served: ThreadingHTTPServer, tmp_path: Path, way: str) -> None:
    shown = _in_browser(f"http://127.0.0.1:{served.server_port}/#{way}", tmp_path)
    assert "<img" not in shown
    assert "<title>1</title>" not in shown
    text = html.unescape(re.sub(r"<[^>]*>", "", shown))
    assert way[0] == "t" or "oftendebitsday, Europe/Paris32" in text
    assert '<img src=x onerror="document.title=1"><U+202E>evil<U+001B>]52;c;aGk=<U+0007>' in text


def _in_browser(address: str, profile: Path) -> str:
    quiet = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
    quiet += ("--disable-component-update", "--disable-sync", f"--user-data-dir={profile}")
    command = ["chromium", "--headless", *quiet, "--virtual-time-budget=9000", "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout
