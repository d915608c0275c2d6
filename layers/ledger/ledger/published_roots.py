"""The roots of all nights in a bucket with S3's Object Lock, where nobody can change one: docs/seals.md.

Each is an object, which is put if there is none. Another put adds a version: the oldest counts.
"""

import json
from operator import itemgetter
from typing import Any, NamedTuple

from botocore.exceptions import ClientError
from botocore.session import get_session

from conditional_writes.core.client import CONFIG
from ledger.checkpoints import Root

PREFIX = "roots/"
MOST_BYTES = 10_000
"""That are read of an object. A root's has some 3,100."""


class PublishedRoots(NamedTuple):
    """The bucket, and a client of S3. All methods raise botocore's errors."""

    client: Any
    bucket: str

    @classmethod
    def of(cls, bucket: str) -> "PublishedRoots":
        return cls(get_session().create_client("s3", config=CONFIG), bucket)

    def publish(self, root: Root) -> Root:
        """Puts the root, if there is none of its run. Returns the one that was put first."""
        key = f"{PREFIX}{root.scheduled_time.replace(':', '').replace('+0000', 'Z')}.json"
        body = json.dumps(root._asdict(), separators=(",", ":")) + "\n"
        try:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body.encode(), IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
        return self._root(self._oldest(key)[key])

    def newest(self) -> Root | None:
        """The root that was published last, as it was put first. None if there is none."""
        oldest = self._oldest(PREFIX).values()
        return self._root(max(oldest, key=itemgetter("LastModified", "Key"))) if oldest else None

    def _oldest(self, prefix: str) -> dict[str, Any]:
        """The oldest version of each object. S3 lists an object's versions from the newest on."""
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=self.bucket, Prefix=prefix)
        return {version["Key"]: version for page in pages for version in page.get("Versions", [])}

    def _root(self, version: Any) -> Root:
        of = {"Key": version["Key"], "VersionId": version["VersionId"]}
        body = self.client.get_object(Bucket=self.bucket, **of)["Body"].read(MOST_BYTES)
        try:
            return Root.read(json.loads(body))
        except (ValueError, RecursionError):
            return Root.read({})
