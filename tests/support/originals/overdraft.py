"""Payments under an overdraft limit, by an article on optimistic locking, in Python.

As it was printed it doesn't import ClientError, which is mended here.
"""

from typing import Any

from boto3.dynamodb.conditions import Attr
from botocore.exceptions import ClientError


def post(table: Any, account_id: str, value: int) -> None:
    """The article's script."""
    account = table.get_item(Key={"AccountId": account_id})["Item"]
    version_before = account["Version"]
    if account["Balance"] + value >= account["OverdraftLimit"]:
        account["Balance"] += value
    else:
        raise ValueError("the overdraft limit doesn't allow it")
    account["Version"] += 1
    try:
        table.put_item(
            Item=account,
            ConditionExpression=Attr("Version").eq(version_before),
        )
    except ClientError as error:
        if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
            raise ValueError("the balance was changed meanwhile: try again") from error
        else:  # noqa: RET506 (as in the article)
            raise error  # noqa: TRY201
