"""Refusals of AWS alone in a restore: the local AWS has each table at once."""

import time

import boto3
import pytest
from botocore.stub import Stubber

from tools.restore import _recover


def test_a_restored_table_gets_its_recovery_when_its_backups_are_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamodb = boto3.client("dynamodb", "eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with Stubber(dynamodb) as stubber:
        call = "update_continuous_backups"
        stubber.add_client_error(call, "ContinuousBackupsUnavailableException")
        enabled = {"PointInTimeRecoveryEnabled": True}
        stubber.add_response(call, {}, {"TableName": "t", "PointInTimeRecoverySpecification": enabled})
        _recover(dynamodb, "t")
        stubber.assert_no_pending_responses()
    assert len(slept) == 1
