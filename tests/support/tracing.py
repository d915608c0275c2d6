"""What a run of the product enters: all of its modules, the calls between them, and how deep the calls go.

No module is left out, be it entered by a constructor, a property, a lambda or a thread. What isn't the product is
`conditional_writes.testing`, and what that calls.
"""

import functools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from tools.local_aws.server import PROJECT

CONSTRUCTORS = {"__new__", "__init__", "__post_init__"}


class Function(NamedTuple):
    """A function of the product. `module` is its file, as docs/extending.md names it: `ledger/batch_poster.py`."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module} {self.name}"


class Trace(NamedTuple):
    """`modules` are in the order in which they are entered.

    `calls` has each function that another module calls, once, with its first caller. A call through another package or
    a thread is one of the function that caused it. A value that is made, or asked for a property, is no call: it hands
    nothing on. `deepest` has the frames of the deepest call, of whatever kind, the threads' behind their starter's.
    """

    modules: list[str]
    calls: dict[Function, Function]
    deepest: list[Function]

    @property
    def numbers(self) -> tuple[int, int, int]:
        return len(self.modules), len(self.calls), len(self.deepest)

    def __str__(self) -> str:
        """For people: the three numbers, and all that they count."""
        modules, calls, frames = self.numbers
        made = [f"{called} from {caller}" for called, caller in self.calls.items()]
        title = f"{modules} modules, {calls} calls, {frames} frames deep"
        return "\n".join([title, "", *self.modules, "", *made, "", *map(str, self.deepest)])


def traced(run: Callable[[], object]) -> Trace:
    """The trace of one run. Warm it up before: what is made once belongs to the first run."""
    trace = Trace([], {}, [])
    starters: dict[int, list[Function]] = {}
    main_thread = threading.get_ident()

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        called = _function(frame) if event == "call" else None
        stack = _stack(frame) if called else None
        if called is None or stack is None:
            return
        thread = threading.get_ident()
        if thread != main_thread:
            if thread not in starters:
                starters[thread] = _stack(sys._current_frames()[main_thread]) or []
            stack = starters[thread] + stack
        if called.module not in trace.modules:
            trace.modules.append(called.module)
        is_from_other = len(stack) > 1 and stack[-2].module != called.module
        if is_from_other and called.name.split(".")[-1] not in CONSTRUCTORS and not _is_property(frame):
            trace.calls.setdefault(called, stack[-2])
        if len(stack) > len(trace.deepest):
            trace.deepest[:] = stack

    threading.setprofile(on_event)
    sys.setprofile(on_event)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return trace


def _stack(frame: FrameType | None) -> list[Function] | None:
    """The product's functions from the outermost to this frame's. None if the library's engine is among them."""
    functions = []
    while frame is not None:
        if _is_of_the_engine(frame.f_code.co_filename):
            return None
        if function := _function(frame):
            functions.append(function)
        frame = frame.f_back
    return functions[::-1]


def _function(frame: FrameType) -> Function | None:
    """The frame's function; None if it isn't the product's."""
    code = frame.f_code
    file, name = code.co_filename, code.co_qualname
    if file.startswith("<"):  # a generated constructor, whose class says where it is written
        first = next(iter(frame.f_locals.values()), None)
        made = first if isinstance(first, type) else type(first)
        file = getattr(sys.modules.get(made.__module__), "__file__", None) or ""
        name = f"{made.__qualname__}.{'__new__' if name == '<lambda>' else name}"
    module = _module_of(file)
    return Function(module, name) if module else None


@functools.cache
def _is_of_the_engine(file: str) -> bool:
    return "testing" in Path(file).parts


@functools.cache
def _module_of(file: str) -> str | None:
    path, layers = Path(file), PROJECT / "layers"
    if path.is_relative_to(PROJECT / "functions"):
        return str(path.relative_to(PROJECT))
    if path.is_relative_to(layers) and not _is_of_the_engine(file):
        return str(Path(*path.relative_to(layers).parts[1:]))
    return None


def _is_property(frame: FrameType) -> bool:
    return isinstance(getattr(type(frame.f_locals.get("self")), frame.f_code.co_name, None), property)
