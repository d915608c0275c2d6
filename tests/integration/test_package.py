"""The library alone, as another project installs it: wheel and sdist, each Python, the lowest versions, no application.

Environments are made by uv, in a second, from PyPI: most of them with `--all` alone. `pip` installs the folder, as the
README says.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tools.local_aws.server import PROJECT

LIBRARY = PROJECT / "layers" / "conditional_writes"
UV = (Path(sys.executable).with_name("uv"), "--system-certs")  # as pip: a network may have a certificate of its own
EXTRAS = ("msgspec", "pydantic", "powertools", "asyncio")
LOWEST_MOTO = "5.0.28"

PROGRAM = """
import importlib.util
from importlib.resources import files
import conditional_writes
from conditional_writes import VersionedTable
from conditional_writes.testing import Engine

for absent in ("aws_lambda_powertools", "msgspec", "ledger"):
    assert not importlib.util.find_spec(absent)
assert files("conditional_writes").joinpath("py.typed").is_file()
with Engine() as engine:
    client = engine.client()
    client.create_table(
        TableName="Installed",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    print(conditional_writes.__file__, VersionedTable(client, "Installed", "id").save({"id": "1"})["version"])
"""

TESTS = [
    "versioned.py",
    "queries.py::test_an_item_that_others_changed_after_its_page_was_read_is_a_conflict",
    "queries.py::test_a_match_leaves_items_out_and_takes_any_condition",
    "models.py::test_a_model_is_created_loaded_changed_and_deleted",
    "models.py::test_attributes_that_the_model_does_not_know_are_kept",
    "models.py::test_a_field_for_the_version_is_filled_and_not_saved",
    "exactly_once.py::test_a_second_call_has_the_first_ones_result_and_writes_nothing",
    "exactly_once.py::test_the_key_with_another_payload_is_refused",
    "exactly_once.py::test_a_record_of_stock_powertools_is_replayed_and_ours_by_stock",
    "asyncio.py",
    "connections.py::test_an_answer_says_what_it_says_by_botocore",
    "kinds.py",
    "upserts.py::test_a_save_between_a_refusal_and_what_follows_from_it_is_not_lost",
    "locks.py::test_a_fault_never_makes_one_lose_to_oneself",
    "locks.py::test_a_window_is_done_once_and_a_failed_one_is_given_back",
]
"""Some of each part's own tests, which import no application."""


def run(*command: object, **options: Any) -> str:
    """The command's output. If it fails, the test shows what it printed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def empty_environment(folder: Path, python: Path = Path(sys.executable)) -> Path:
    """The Python of a new environment, which has nothing installed."""
    run(*UV, "venv", "--quiet", "--python", python, folder)
    return folder / "bin" / "python"


def install(python: Path, *packages: object) -> None:
    run(*UV, "pip", "install", "--quiet", "--python", python, *packages)


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist, and the wheel that is made of it."""
    folder = tmp_path_factory.mktemp("distributions")
    run(*UV, "build", "--quiet", "--python", sys.executable, "--out-dir", folder, LIBRARY)
    return {"sdist": next(folder.glob("*.tar.gz")), "wheel": next(folder.glob("*.whl"))}


@pytest.mark.exhaustive
def test_a_copy_elsewhere_makes_the_same_bytes(distributions: dict[str, Path], tmp_path: Path) -> None:
    copy = shutil.copytree(LIBRARY, tmp_path / "copied" / "library")
    run(*UV, "build", "--quiet", "--python", sys.executable, "--out-dir", tmp_path / "dist", copy)
    for built in distributions.values():
        assert (tmp_path / "dist" / built.name).read_bytes() == built.read_bytes()


MODULES = {str(path.relative_to(LIBRARY)) for path in (LIBRARY / "conditional_writes").rglob("*.py")}


def test_the_wheel_has_the_library_its_types_and_its_licence_and_nothing_else(distributions: dict[str, Path]) -> None:
    with zipfile.ZipFile(distributions["wheel"]) as wheel:
        names = set(wheel.namelist())
    about = {name for name in names if ".dist-info/" in name}
    assert names - about == MODULES | {"conditional_writes/py.typed"}
    assert {name.partition(".dist-info/")[2] for name in about} == {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE"}


def test_the_sdist_has_the_guide_the_changelog_and_the_examples_too(distributions: dict[str, Path]) -> None:
    with tarfile.open(distributions["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    beside = {
        str(path.relative_to(LIBRARY)) for folder in ("docs", "examples") for path in LIBRARY.glob(f"{folder}/*.*")
    }
    around = {".gitignore", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO"}
    assert "docs/errors.md" in beside
    assert names == MODULES | beside | around | {"conditional_writes/py.typed"}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        [name] = [name for name in opened.namelist() if name.endswith("/METADATA")]
        return message_from_bytes(opened.read(name))


def test_the_metadata_says_what_is_needed(distributions: dict[str, Path]) -> None:
    about = metadata(distributions["wheel"])
    assert about["Requires-Python"] == ">=3.12"
    assert about["License-Expression"] == "Apache-2.0"
    assert sorted(about.get_all("Provides-Extra", [])) == sorted(EXTRAS)
    needed = [line for line in about.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert [re.split(r"[<>=]", line)[0] for line in needed] == ["boto3"]
    assert (LIBRARY / "LICENSE").read_text() == (PROJECT / "LICENSE").read_text()


@pytest.mark.parametrize("kind", ["wheel", pytest.param("sdist", marks=pytest.mark.exhaustive)])
def test_either_is_a_package_of_its_own(distributions: dict[str, Path], kind: str, tmp_path: Path) -> None:
    python = empty_environment(tmp_path / "environment")
    install(python, distributions[kind])
    check_installed(python, tmp_path)


@pytest.mark.exhaustive
def test_pip_installs_the_folder(tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "environment")
    python = tmp_path / "environment" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", LIBRARY)
    check_installed(python, tmp_path)


def check_installed(python: Path, folder: Path) -> None:
    path, version = run(python, "-c", PROGRAM, cwd=folder).split()
    assert path.startswith(str(folder))
    assert version == "1"


def pythons() -> dict[str, Path]:
    """The Pythons from 3.12 on that are here, by version: pyenv's, and those on the PATH."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for minor in range(12, 20):
        installed = sorted(pyenv.glob(f"3.{minor}.*/bin/python3.{minor}"))
        on_path = shutil.which(f"python3.{minor}")
        candidates = [*reversed(installed), *([Path(on_path)] if on_path else [])]
        if python := next(filter(works, candidates), None):
            found[f"3.{minor}"] = python
    return found


def works(python: Path) -> bool:
    """A shim of pyenv's is there without its Python."""
    return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0


PYTHONS = pythons()
OLDEST, THIS = min(PYTHONS), f"3.{sys.version_info.minor}"
OTHERS = sorted(PYTHONS.keys() - {THIS})


@pytest.mark.parametrize(
    ("version", "versions"), [(OLDEST, "lowest"), *((version, "newest") for version in OTHERS or [THIS])]
)
@pytest.mark.exhaustive
def test_the_librarys_tests_pass_on_each_python_and_with_the_lowest_versions_that_it_declares(
    distributions: dict[str, Path], version: str, versions: str, tmp_path: Path
) -> None:
    """On this Python all other tests run, with the newest versions."""
    if (version, versions) == (THIS, "newest"):
        pytest.skip(f"ONLY PYTHON {THIS} IS HERE: conditional_writes wasn't tried on another from 3.12 on")
    python = empty_environment(tmp_path / "environment", PYTHONS[version])
    needed = [line.partition(";")[0].strip() for line in metadata(distributions["wheel"]).get_all("Requires-Dist", [])]
    assert all(re.fullmatch(r"[\w-]+>=[\d.]+", line) for line in needed)
    [boto3] = [line for line in needed if line.startswith("boto3")]
    needed.append(boto3.replace("boto3", "botocore"))  # boto3 takes any botocore from its own version on
    if versions == "lowest":
        needed = [*(line.replace(">=", "==") for line in needed), "urllib3<2"]  # botocore takes it
    install(python, distributions["wheel"], *needed, "pytest", "pytest-timeout", "hypothesis")
    options = ("--noconftest", "-p", "tests.support.library_alone", "-p", "no:cacheprovider", "-q")
    # botocore of 2024 uses what Python 3.12 deprecates, so warnings aren't errors here.
    tests = [f"tests/integration/test_{test}" for test in TESTS]
    command = (python, "-m", "pytest", *options, "-W", "default", *tests)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    said = run(*command, cwd=PROJECT, env=environment | {"PYTHONPATH": str(PROJECT)})
    [passed] = re.findall(r"^(\d+) passed", said, re.MULTILINE)
    assert int(passed) > 80


@pytest.mark.exhaustive
def test_the_page_on_testing_works_with_the_lowest_moto_that_it_names(
    distributions: dict[str, Path], tmp_path: Path
) -> None:
    page = (LIBRARY / "docs" / "testing.md").read_text()
    assert f"moto {LOWEST_MOTO} and later" in page
    [example] = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "a_flight_is_delayed" in each]
    python = empty_environment(tmp_path / "environment", PYTHONS[OLDEST])
    install(python, distributions["wheel"], f"moto[dynamodb]=={LOWEST_MOTO}")
    region = {"AWS_DEFAULT_REGION": "us-east-1"}
    run(python, "-c", f"{example}\ntest_a_flight_is_delayed()", cwd=tmp_path, env=os.environ | region)
