"""Two of DynamoDB's errors that say too little: the table doesn't exist, or has another key."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from conditional_writes.core.items import Key

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class _Explained(ClientError):
    """botocore's error, with a sentence of ours before its own. `response` and `operation_name` are as they were.

    It is caught as the client's own exception, too: `except client.exceptions.ResourceNotFoundException`.
    """

    @classmethod
    def of(cls, error: ClientError, sentence: str) -> "_Explained":
        both: Any = type(cls.__name__, (cls, type(error)), {"__module__": __name__, "_importable": cls})
        explained: _Explained = both(error.response, error.operation_name, sentence)
        return explained

    def __init__(self, error_response: Any, operation_name: str, sentence: str) -> None:
        super().__init__(error_response, operation_name)
        self._sentence = sentence

    def __str__(self) -> str:
        return f"{self._sentence}: {super().__str__()}"

    def __reduce__(self) -> Any:
        # A client makes its exceptions when it is made, so another process has other ones.
        return getattr(self, "_importable", type(self)), (self.response, self.operation_name, self._sentence)


class NoSuchTable(_Explained):
    """The table doesn't exist in the client's account and region. botocore's ResourceNotFoundException."""


class WrongKey(_Explained):
    """The table's key, or the index's, has other names or types than those of the request.

    botocore's ValidationException, or its TransactionCanceledException.
    """


_OF_THE_KEY = (
    "key element does not match the schema",
    "Missing the key",
    "Type mismatch for key",
    "Query condition missed key schema element",
    "Condition parameter type does not match schema type",
    "The provided starting key is invalid",
    # DynamoDB Local's
    "One of the required keys was not given a value",
    "The number of conditions on the keys is invalid",
    "must have same size as table's key schema",
)


def explain(client: "DynamoDBClient", error: ClientError, keys: Sequence[Key]) -> None:
    """Raises NoSuchTable or WrongKey if the error of a request with these keys is one."""
    response: Any = error.response
    explain_table(client, error, [key.table for key in keys])
    others = f" or another of the request's {len(keys)} keys" if len(keys) > 1 else ""
    named = [f"{keys[0]}{others}", *map(str, keys)]
    for name, reason in zip(named, [response["Error"], *response.get("CancellationReasons", [])], strict=False):
        explain_key(error, reason.get("Message", ""), name)


def explain_table(client: "DynamoDBClient", error: ClientError, tables: Iterable[str]) -> None:
    """Raises NoSuchTable if it is the error."""
    if error.response["Error"]["Code"] == "ResourceNotFoundException":
        named = ", or no table ".join(dict.fromkeys(tables))
        sentence = f"there is no table {named} in {client.meta.region_name}, in the account of the client"
        raise NoSuchTable.of(error, sentence) from None


def explain_key(error: ClientError, message: str, named: str) -> None:
    """Raises WrongKey if DynamoDB's message is of that. `named` says which key was sent."""
    if any(part in message for part in _OF_THE_KEY):
        sentence = f"{named}: the key has other names or types in DynamoDB"
        if message not in str(error):  # of one write of a transaction
            sentence += f" ({message})"
        raise WrongKey.of(error, sentence) from None
