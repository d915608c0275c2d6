"""The library alone, as another project installs it: by its path, without the application and without Powertools."""

import os
import subprocess
import sys
from pathlib import Path

from tools.local_aws.server import PROJECT, Endpoint

PROGRAM = """
import importlib.util
from importlib.resources import files
import conditional_writes
from conditional_writes import VersionedTable, dynamodb_client

assert not importlib.util.find_spec("aws_lambda_powertools")
assert not importlib.util.find_spec("ledger")
assert files("conditional_writes").joinpath("py.typed").is_file()
client = dynamodb_client()
client.create_table(
    TableName="Installed",
    BillingMode="PAY_PER_REQUEST",
    AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
)
saved = VersionedTable(client, "Installed", "id").save({"id": "1"})
print(conditional_writes.__file__, saved["version"])
"""


def test_the_library_is_a_package_of_its_own(ministack: Endpoint, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", tmp_path / "venv"],
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            PROJECT / "layers/conditional_writes",
        ],
    ):
        subprocess.run(command, check=True)
    environment = os.environ | ministack.environment
    run = subprocess.run([python, "-c", PROGRAM], check=True, capture_output=True, text=True, env=environment)
    path, version = run.stdout.split()
    assert path.startswith(str(tmp_path))
    assert version == "1"
