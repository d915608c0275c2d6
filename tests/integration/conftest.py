"""The fixtures that the tests of the ledger share."""

import pytest

from tests.support.reconciling import Reconciled
from tools.local_aws.server import Endpoint


@pytest.fixture
def reconciled(aws: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Reconciled:
    """A ledger whose accounts are reconciled by its clock."""
    return Reconciled(aws, dynamodb, monkeypatch)
