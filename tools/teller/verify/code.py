"""Step 8: what runs is what was built here."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

from tools.teller.verify.run import Run
from tools.teller.verify.steps import Step
from tools.template import PROJECT

BUILT = PROJECT / ".aws-sam" / "build"
CLAIM = "functions and layers have the code that is in .aws-sam/build"
DOWNLOAD_SECONDS = 60


def check_code(run: Run, step: Step) -> None:
    if not BUILT.is_dir():
        step.not_tried(CLAIM, "nothing is built here: make build")
        return
    step.check(CLAIM, *(problem for name, url in _deployed(run) for problem in _unlike(BUILT / name, url)))


def _deployed(run: Run) -> Iterator[tuple[str, str]]:
    """The logical id in the template, and the address of the deployed zip."""
    lambda_ = run.client("lambda")
    for name, resource in run.resources.expected.items():
        if resource["Type"] == "AWS::Serverless::Function":
            yield name, lambda_.get_function(FunctionName=run.resources[name], Qualifier="live")["Code"]["Location"]
        if resource["Type"] == "AWS::Serverless::LayerVersion":
            [arn] = [each for id_, each in run.resources.items() if id_.startswith(name)]  # SAM adds a hash
            yield name, lambda_.get_layer_version_by_arn(Arn=arn)["Content"]["Location"]


def _unlike(built: Path, url: str) -> Iterator[str]:
    with urlopen(url, timeout=DOWNLOAD_SECONDS) as answer, zipfile.ZipFile(io.BytesIO(answer.read())) as files:
        found = {each.filename: each.CRC for each in files.infolist() if not each.is_dir()}
    paths = (path for path in built.rglob("*") if path.is_file())
    expected = {path.relative_to(built).as_posix(): zlib.crc32(path.read_bytes()) for path in paths}
    if different := sorted(name for name, _ in expected.items() ^ found.items()):
        yield f"{built.name}: expected what is built, got {len({*different})} other files, such as {different[0]}"
