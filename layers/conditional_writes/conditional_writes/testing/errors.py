"""DynamoDB's refusals, as its answers name them."""

from typing import Any


class Refused(Exception):
    """A call that DynamoDB refuses: the error's code, its message, and the fields that the error has beside them."""

    def __init__(self, code: str, message: str, **fields: Any) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.fields = code, message, fields

    def as_body(self) -> dict[str, Any]:
        """The answer's JSON."""
        spelled = "Message" if self.code == "TransactionCanceledException" else "message"
        return {"__type": f"com.amazonaws.dynamodb.v20120810#{self.code}", spelled: self.message} | self.fields


def invalid(message: str) -> Refused:
    """A ValidationException."""
    return Refused("ValidationException", message)


def invalid_parameter(message: str) -> Refused:
    """A ValidationException with the words that most of them begin with."""
    return invalid(f"One or more parameter values were invalid: {message}")


def no_such_table(message: str = "Requested resource not found") -> Refused:
    return Refused("ResourceNotFoundException", message)
