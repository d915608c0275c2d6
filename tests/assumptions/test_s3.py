"""What the product assumes of S3. Each test is one assumption, and names the page that states it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.assumptions.conftest import rests_on
from tests.assumptions.places import Place, bucket

GUIDE = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/"
API = "https://docs.aws.amazon.com/AmazonS3/latest/API/"


def put(client: Any, name: str, body: str, **more: Any) -> str:
    """The version's id."""
    return client.put_object(Bucket=name, Key="roots/a", Body=body.encode(), **more)["VersionId"]


def bodies(client: Any, name: str) -> list[str]:
    """Of the object's versions, as S3 lists them."""
    versions = client.list_object_versions(Bucket=name, Prefix="roots/")["Versions"]
    ids = [version["VersionId"] for version in versions]
    return [client.get_object(Bucket=name, Key="roots/a", VersionId=each)["Body"].read().decode() for each in ids]


@rests_on(GUIDE + "conditional-writes.html")
def test_a_put_on_the_condition_that_no_object_is_there_is_refused_if_one_is(place: Place) -> None:
    client = place.client("s3")
    with bucket(place) as name:
        put(client, name, "one", IfNoneMatch="*")
        with pytest.raises(ClientError, match="PreconditionFailed"):
            put(client, name, "two", IfNoneMatch="*")
        assert bodies(client, name) == ["one"]


@rests_on(API + "API_ListObjectVersions.html")
def test_versions_are_listed_from_the_newest_on_and_a_deletion_removes_none(place: Place) -> None:
    client = place.client("s3")
    with bucket(place) as name:
        put(client, name, "one")
        put(client, name, "two")
        client.delete_object(Bucket=name, Key="roots/a")
        put(client, name, "three", IfNoneMatch="*")
        assert bodies(client, name) == ["three", "two", "one"]


@rests_on(GUIDE + "object-lock.html")
def test_a_version_that_is_locked_is_not_deleted(place: Place) -> None:
    client, until = place.client("s3"), datetime.now(UTC) + timedelta(days=1)
    with bucket(place) as name:
        version = put(client, name, "one", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
        with pytest.raises(ClientError, match="AccessDenied"):
            client.delete_object(Bucket=name, Key="roots/a", VersionId=version)
        assert bodies(client, name) == ["one"]
