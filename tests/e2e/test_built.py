"""The layers as `sam build` makes them, for Lambda's Python and both processors."""

from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path

import pytest

from tests.support.template import resources
from tools.local_aws.server import PROJECT

LAYERS = sorted(resources("AWS::Serverless::LayerVersion"))
UNCHECKED_HASH = (0b01).to_bytes(4, "little")
"""Python uses such bytecode without a look at the source (PEP 552)."""


@pytest.fixture
def layer(built: None, request: pytest.FixtureRequest) -> Path:
    return PROJECT / ".aws-sam" / "build" / request.param


@pytest.mark.parametrize("layer", LAYERS, indirect=True)
def test_each_module_of_a_layer_has_bytecode(layer: Path) -> None:
    """Lambda mounts layers read-only: what has no bytecode is compiled at each cold start."""
    modules = sorted(layer.rglob("*.py"))
    assert modules
    for module in modules:
        header = Path(cache_from_source(module)).read_bytes()[:16]
        assert header == MAGIC_NUMBER + UNCHECKED_HASH + source_hash(module.read_bytes()), module


@pytest.mark.parametrize("layer", LAYERS, indirect=True)
def test_each_compiled_module_is_there_for_both_processors(layer: Path) -> None:
    compiled = {path.relative_to(layer) for path in layer.rglob("*.so")}
    both = {
        path.with_name(f"{path.name.partition('.')[0]}.cpython-313-{processor}-linux-gnu.so")
        for path in compiled
        for processor in ("x86_64", "aarch64")
    }
    assert compiled == both
    assert bool(compiled) == (layer.name == "DependenciesLayer")


@pytest.mark.parametrize("layer", LAYERS, indirect=True)
def test_a_layer_has_importable_files_alone(layer: Path) -> None:
    """A wheel may have packages in a folder `.data`, from which an installer moves them. The build doesn't."""
    assert [path.name for path in layer.iterdir()] == ["python"]
    assert not [*layer.glob("python/*.data/purelib"), *layer.glob("python/*.data/platlib")]
