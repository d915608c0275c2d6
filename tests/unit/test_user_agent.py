"""The text by which a client calls itself in each request."""

from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from conditional_writes.core.client import dynamodb_client
from tests.support.answers import answer


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_SDK_UA_APP_ID", raising=False)


def user_agent(of: Any) -> list[str]:
    """The words of the header `User-Agent` in a request of the client's."""
    sent: list[str] = []

    def note(request: Any, **_: Any) -> AWSResponse:
        sent.append(request.headers["User-Agent"])
        return answer(request, 200, {})

    of.meta.events.register_first("before-send", note)
    of.get_item(TableName="Orders", Key={"order_id": {"S": "o-1"}})
    [text] = sent
    return (text.decode() if isinstance(text, bytes) else text).split()


def test_a_client_names_botocore_and_python_once_each() -> None:
    names = [word.split("/")[0] for word in user_agent(dynamodb_client())]
    assert [names.count(name) for name in ("Botocore", "Python")] == [1, 1]


def test_a_client_names_the_application_and_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "flights")
    monkeypatch.setenv("AWS_EXECUTION_ENV", "AWS_Lambda_python3.13")
    assert {"app/flights", "exec-env/AWS_Lambda_python3.13"} <= set(user_agent(dynamodb_client()))
