"""The failures of a command: a sentence for people, a code for `--json`, and an exit status."""

from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
from botocore.exceptions import ConnectionError as NoConnectionError


class Failure(Exception):
    """The command can't do what was asked, or something isn't found or not well. The text is a sentence.

    `details` are more sentences, a line each.
    """

    status = 1

    def __init__(self, reason: str, code: str = "FAILED", details: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason, self.code, self.details = reason, code, details


class NotFound(Failure):
    def __init__(self, reason: str) -> None:
        super().__init__(reason, "NOT_FOUND")


class WrongUse(Failure):
    """The command can't be meant so: an argument contradicts another one, or the stack."""

    status = 2

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "WRONG_USE")


def failure_in(answer: Mapping[str, Any]) -> Failure | None:
    """The `error` that one of Teller's functions answered, or None."""
    match answer:
        case {"error": {"code": "INVALID_REQUEST", "reason": reason}}:
            return WrongUse(reason)
        case {"error": {"code": "UNKNOWN_ACCOUNT", "reason": reason}}:
            return NotFound(reason)
        case {"error": {"code": code, "reason": reason}}:
            return Failure(reason, code)
    return None


def failure_of(error: ClientError | BotoCoreError | OSError) -> Failure:
    """AWS's own words, or the system's about a file, as a sentence of the command's."""
    if isinstance(error, NoCredentialsError):
        return Failure("no credentials: set AWS_PROFILE, or the variables of an access key", "NO_CREDENTIALS")
    if isinstance(error, ClientError):
        return Failure(f"AWS refused {error.operation_name}: {error.response['Error'].get('Message')}", "AWS")
    if isinstance(error, HTTPClientError | NoConnectionError):
        return Failure(f"AWS can't be reached: {error}", "AWS")
    if isinstance(error, BotoCoreError):  # some of them are an OSError, too
        return Failure(f"AWS can't be called: {error}", "AWS")
    return Failure(f"{error.filename or 'a file'} can't be read or written: {error.strerror or error}")
