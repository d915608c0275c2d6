"""Runs mutants in a process that has imported all tests: each in a fork, with the quick suite's tests that reach it.

A fork swaps the code of the functions that the mutant changes. What the module did while it was imported stays, so only
the bodies of functions are mutated. What a test imports itself, as at a cold start, is the whole mutant. The tests that
need a server aren't run.
"""

import functools
import gc
import hashlib
import itertools
import os
import pickle
import resource
import select
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest

from tests.mutations.breakages import Breakage
from tests.mutations.operators import Mutant
from tools.local_aws.server import PROJECT

SUITES = ("tests/unit", "tests/checkers", "tests/integration", "tests/faults", "tests/explore")
SERVERS = {"ministack", "dynamodb_local", "built"}
"""Fixtures that start one."""
PRODUCT = tuple(str(PROJECT / folder) for folder in ("layers", "functions", "tools"))
GENERATES = 0x20 | 0x80 | 0x100 | 0x200
"""CPython's flags of generators and coroutines: what a call of the function makes."""

type Lines = Mapping[str, frozenset[int]]
"""By file."""
type _Name = tuple[str, str, int]
BROKEN = 3
"""The exit status of a fork whose tests couldn't be run at all."""


class Reach(NamedTuple):
    """What a test does without a mutant."""

    cpu_seconds: float
    lines: Lines


class Result(NamedTuple):
    """`killer` is the test that failed, or the limit that was passed; None if no test found the mutant."""

    mutant: Mutant | Breakage
    killer: str | None
    tests: int


class Runner:
    """A plugin of pytest's: instead of running the collected tests, it runs the mutants."""

    def __init__(
        self, mutants: Sequence[Mutant | Breakage], *, workers: int, cpu_seconds: float, say: Callable[[Result], None]
    ) -> None:
        self.mutants, self.workers, self.cpu_seconds, self.say = mutants, workers, cpu_seconds, say
        self.results: list[Result] = []
        self.broken: list[str] = []
        self._failed = self._skipped = False
        self._functions: list[FunctionType] = []
        self._kills: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed
        self._skipped |= report.skipped

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items if not SERVERS & {*getattr(item, "fixturenames", ())}}
        session.config._tmp_path_factory.getbasetemp()  # one for all forks
        functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
        self._functions = [each for each in functions if each.__code__.co_filename.startswith(PRODUCT)]
        gc.freeze()  # Forks share what none of them changes.
        reaches = self._reaches([*items.values()])
        self.broken = sorted(items.keys() - reaches.keys())
        by_line = defaultdict[tuple[str, int], list[str]](list)
        for name, reach in reaches.items():
            for file, lines in reach.lines.items():
                for line in lines:
                    by_line[file, line].append(name)

        def jobs() -> Iterator[tuple[Mutant | Breakage, list[str], "_Fork"]]:
            for mutant in self.mutants:
                swapped = _swapped(mutant, self._functions)
                if swapped is None:
                    continue
                file = str(PROJECT / mutant.path)
                tests = self._in_order({name for line in mutant.lines for name in by_line[file, line]}, reaches, file)
                planned = sum(reaches[name].cpu_seconds for name in tests)
                run = functools.partial(self._run_mutant, mutant, swapped, [items[name] for name in tests])
                yield mutant, tests, _Fork(run, cpu_seconds=3 * planned + 5)

        for (mutant, tests, _), answer in _in_forks(jobs(), self.workers, lambda job: job[2]):
            killer = answer.decode() or None
            if killer in reaches:
                self._kills[str(PROJECT / mutant.path), str(killer)] += 1
            result = Result(mutant, killer, len(tests))
            self.results.append(result)
            self.say(result)
        return True

    def _in_order(self, tests: Iterable[str], reaches: Mapping[str, Reach], file: str) -> list[str]:
        """Quick tests first, and those that found other mutants of the module. As many as the time allows."""
        ordered = sorted(tests, key=lambda name: (reaches[name].cpu_seconds + 0.01) / (1 + self._kills[file, name]))
        chosen, spent = [], 0.0
        for name in ordered:
            if spent + reaches[name].cpu_seconds <= self.cpu_seconds:
                chosen.append(name)
                spent += reaches[name].cpu_seconds
        return chosen

    def _run_mutant(
        self, mutant: Mutant | Breakage, swapped: Mapping[FunctionType, CodeType], items: Sequence[pytest.Item]
    ) -> bytes:
        for function, code in swapped.items():
            function.__code__ = code
        file = str(PROJECT / mutant.path)
        _change_imported(lambda code: mutant.compiled(file) if code.co_filename == file else code)
        for item in self._run(items):
            if self._failed:
                return item.nodeid.encode()
        return b""

    def _run(self, items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
        for item, following in zip(items, [*items[1:], None], strict=False):
            self._failed = self._skipped = False
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item

    def _reaches(self, items: Sequence[pytest.Item]) -> dict[str, Reach]:
        """Of the tests that pass. Those of a module are kept until it changes, or the product, or what tests share."""
        shared, found = _shared_fingerprint(), dict[str, Reach]()
        forks = []
        for path, group in itertools.groupby(items, key=lambda item: item.path):
            tests = [*group]
            kept = PROJECT / ".cache/mutations" / str(path.relative_to(PROJECT)).replace("/", ".")
            names = "\n".join(test.nodeid for test in tests)
            fingerprint = hashlib.sha256(shared + path.read_bytes() + names.encode()).digest()
            if kept.exists() and kept.read_bytes().startswith(fingerprint):
                found |= pickle.loads(kept.read_bytes().removeprefix(fingerprint))
            else:
                forks.append((kept, fingerprint, _Fork(functools.partial(self._watch, tests), cpu_seconds=3600)))
        for (kept, fingerprint, _), answer in _in_forks(forks, self.workers, lambda job: job[2]):
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(fingerprint + answer)
            found |= pickle.loads(answer)
        return found

    def _watch(self, items: Sequence[pytest.Item]) -> bytes:
        reached: defaultdict[str, set[int]] = defaultdict(set)

        def note(code: CodeType, line: int) -> object:
            reached[code.co_filename].add(line)
            return sys.monitoring.DISABLE

        tool = sys.monitoring.OPTIMIZER_ID
        sys.monitoring.use_tool_id(tool, "mutations")
        sys.monitoring.register_callback(tool, sys.monitoring.events.LINE, note)

        def watched(code: CodeType) -> CodeType:
            if code.co_filename.startswith(PRODUCT):
                for each in _codes(code).values():
                    sys.monitoring.set_local_events(tool, each, sys.monitoring.events.LINE)
            return code

        _change_imported(watched)
        for function in self._functions:
            watched(function.__code__)
        found, before = {}, _cpu_seconds()
        for item in self._run(items):
            after = _cpu_seconds()
            if not self._failed and not self._skipped:
                lines = {file: frozenset(lines) for file, lines in reached.items()}
                found[item.nodeid] = Reach(after - before, lines)
            before = after
            reached.clear()
            sys.monitoring.restart_events()
        return pickle.dumps(found)


def _cpu_seconds() -> float:
    """Of this process, and of those that it waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


def _shared_fingerprint() -> bytes:
    """Of the product, and of what is under `tests` but no module of tests."""
    whole = hashlib.sha256()
    for folder in ("layers", "functions", "tools", "tests"):
        for path in sorted((PROJECT / folder).rglob("*.py")):
            if path.parent.name != "mutations" and (folder != "tests" or not path.name.startswith("test_")):
                whole.update(path.read_bytes())
    return whole.digest()


def _change_imported(changed: Callable[[CodeType], CodeType]) -> None:
    """Changes the code of each module that this process imports from now on."""
    of_file = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        code = of_file(loader, name)
        return code and changed(code)

    SourceFileLoader.get_code = get_code


def _codes(code: CodeType) -> dict[_Name, CodeType]:
    """The code and all code within it, by file, name and line."""
    found = {(code.co_filename, code.co_qualname, code.co_firstlineno): code}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _codes(constant)
    return found


def _swapped(mutant: Mutant | Breakage, functions: Iterable[FunctionType]) -> Mapping[FunctionType, CodeType] | None:
    """The mutant's codes of functions that are in memory. None if Python can't swap one: it needs other variables."""
    file = str(PROJECT / mutant.path)
    codes = _codes(mutant.compiled(file))
    swapped = {}
    for function in functions:
        old = function.__code__
        new = codes.get((old.co_filename, old.co_qualname, old.co_firstlineno))
        if old.co_filename != file or new is None or new == old:
            continue
        if new.co_freevars != old.co_freevars or (new.co_flags ^ old.co_flags) & GENERATES:
            return None
        swapped[function] = new
    return swapped


class _Fork(NamedTuple):
    """Work for a process of its own, and the time on the processor after which it is ended."""

    run: Callable[[], bytes]
    cpu_seconds: float


def _in_forks[Job](jobs: Iterable[Job], workers: int, fork_of: Callable[[Job], _Fork]) -> Iterator[tuple[Job, bytes]]:
    """Each job with what its fork answered."""
    running: dict[int, tuple[Job, int, int, float]] = {}
    waiting = iter(jobs)
    more = True
    answers: dict[int, bytes] = {}
    while more or running:
        while more and len(running) < workers:
            job = next(waiting, None)
            if job is None:
                more = False
                break
            fork = fork_of(job)
            process, reader = _forked(fork)
            running[reader] = (job, process, reader, time.monotonic() + 10 * fork.cpu_seconds + 60)
            answers[reader] = b""
        readable, _, _ = select.select([*running], [], [], 1)
        for reader, (job, process, _, until) in [*running.items()]:
            part = os.read(reader, 1 << 20) if reader in readable else None
            answers[reader] += part or b""
            late = time.monotonic() > until
            if part == b"" or late:
                if late:
                    os.killpg(process, signal.SIGKILL)
                _, status = os.waitpid(process, 0)
                os.close(reader)
                del running[reader]
                answer = answers.pop(reader)
                if os.waitstatus_to_exitcode(status) == BROKEN:
                    raise RuntimeError(answer.decode())
                yield job, b"killed: it took too long, or too much memory" if status else answer


def _forked(fork: _Fork) -> tuple[int, int]:
    """Its process, whose group has its number, and where to read its answer."""
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    status = 1
    try:
        os.setsid()
        limit = int(fork.cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        try:
            answer, status = fork.run(), 0
        except Exception:  # noqa: BLE001
            answer, status = traceback.format_exc().encode(), BROKEN
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(answer)
    finally:
        os._exit(status)
