"""Workers on one account, with Teller and with stock Powertools: whole handlers, for as long as a run takes.

docs/pictures/contention.png shows their rates, the write units, and how long the slowest message took.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks import half_hot, hot_account, stock_contention
from benchmarks.deliveries import ADDED_SECONDS
from benchmarks.engine import new_ministack
from benchmarks.half_hot import (
    ALL_QUIET,
    HALF_HOT,
    QUIET_ACCOUNTS,
    STREAMS,
    TRANSFER_WORKERS,
    Arriving,
    Full,
    HalfHot,
    Times,
)
from benchmarks.hot_account import Point
from tools.local_aws.server import PROJECT, Endpoint

WORKERS = (1, 2, 4, 8, 16, 32)
ROUNDS = 3
"""Of all that a goal names. The rest is measured in the first round alone."""
WAITS_OF = (8, 32)
"""The numbers of workers whose slowest messages are compared with a turn of all workers."""
TITLE = f"One hot account, {ADDED_SECONDS * 1000:.0f} ms added to each request"
PICTURE = PROJECT / "docs" / "pictures" / "contention.png"
RUNS = {"Teller": hot_account.run, "stock Powertools": stock_contention.run}
"""The measurements, which scripts call, too: `hot_account.run(endpoint, prefix, workers, batch, seconds)`."""


class Case(NamedTuple):
    side: str
    batch: int
    workers: int

    @property
    def seconds(self) -> float:
        """The first collisions mustn't decide: eight workers lose some sixteen commits until they know of each other.

        Of batches of 100 that is 3,200 write units: the index has none of a refused commit.
        """
        return 16 if self.side == "Teller" and self.batch == 100 else 8


ONE_HUNDRED, ONE_TEN = Case("Teller", 100, 1), Case("Teller", 10, 1)
EIGHT_HUNDRED, EIGHT_TEN = Case("Teller", 100, 8), Case("Teller", 10, 8)
STOCK_HUNDRED, STOCK_TEN = Case("stock Powertools", 100, 8), Case("stock Powertools", 10, 8)
IN_GOALS = (ONE_HUNDRED, EIGHT_HUNDRED, STOCK_HUNDRED, ONE_TEN, EIGHT_TEN, STOCK_TEN)
LINES = {
    "Teller, batches of 100": ("Teller", 100),
    "Teller, batches of 10": ("Teller", 10),
    "stock Powertools": ("stock Powertools", 10),
}
"""The lines of the picture. Stock Powertools posts one message at a time, so the size of a batch hardly matters."""
CASES = tuple(
    dict.fromkeys((*IN_GOALS, *(Case(side, batch, workers) for side, batch in LINES.values() for workers in WORKERS)))
)


class Results(NamedTuple):
    """The rounds' results."""

    hot: Mapping[Case, list[Point]]
    arriving: Mapping[str, list[Arriving]]
    full: Mapping[str, list[Full]]
    transfers: Mapping[int, list[Point]]

    @classmethod
    def empty(cls) -> "Results":
        return cls(
            {case: [] for case in CASES},
            {stream.name: [] for stream in STREAMS},
            {stream.name: [] for stream in STREAMS},
            {workers: [] for workers in TRANSFER_WORKERS},
        )


def measure(endpoint: Endpoint, console: Console) -> Results:
    """Measures everything, a round after another. Raises AssertionError if a transaction is lost or posted twice."""
    results = Results.empty()
    ledger = HalfHot(endpoint, "half-hot")
    for number in range(ROUNDS):
        console.print(f"Round {number + 1} of {ROUNDS}")
        for case in CASES if number == 0 else IN_GOALS:
            prefix = f"{case.side.split()[0]}-{case.batch}-{case.workers}-{number}"
            results.hot[case].append(RUNS[case.side](endpoint, prefix, case.workers, case.batch, case.seconds))
        for stream in STREAMS:
            results.arriving[stream.name].append(ledger.arriving(stream))
            results.full[stream.name].append(ledger.full(stream))
        for workers in TRANSFER_WORKERS:
            results.transfers[workers].append(ledger.transfers(workers))
    ledger.check()
    return results


def middle[Each](results: Iterable[Each], figure: Callable[[Each], float]) -> float:
    """The median of the rounds' figures."""
    return median(map(figure, results))


def middle_point(points: Iterable[Point]) -> Point:
    """The median of each figure."""
    return Point(*map(median, zip(*points, strict=True)))


class Goal(NamedTuple):
    """A figure and its bound."""

    name: str
    measured: float
    bound: float
    at_least: bool = False

    def __str__(self) -> str:
        met = self.measured >= self.bound if self.at_least else self.measured <= self.bound
        verdict = "[green]ok[/]" if met else "[red]MISSED[/]"
        return f"{self.name}: {self.measured:.2f}, at {'least' if self.at_least else 'most'} {self.bound:g}: {verdict}"


def goals(results: Results) -> list[Goal]:
    points = {case: middle_point(points) for case, points in results.hot.items()}

    def faster(case: Case, other: Case) -> float:
        return points[case].per_second / points[other].per_second

    def slower(figure: Callable[[Arriving], float]) -> float:
        with_hot, without = (results.arriving[stream.name] for stream in (HALF_HOT, ALL_QUIET))
        return middle(with_hot, figure) / middle(without, figure)

    quiet = middle_point(each.point for each in results.arriving[ALL_QUIET.name])
    return [
        Goal(
            "batches of 100: eight workers' rate beside one's", faster(EIGHT_HUNDRED, ONE_HUNDRED), 0.9, at_least=True
        ),
        Goal("batches of 100: the rate beside stock's", faster(EIGHT_HUNDRED, STOCK_HUNDRED), 20, at_least=True),
        Goal("batches of 100: write units each", points[EIGHT_HUNDRED].write_units, 3.3),
        Goal("batches of 10: eight workers' rate beside one's", faster(EIGHT_TEN, ONE_TEN), 1.2, at_least=True),
        Goal("batches of 10: the rate beside stock's", faster(EIGHT_TEN, STOCK_TEN), 8, at_least=True),
        Goal("batches of 10: write units each", points[EIGHT_TEN].write_units, 4),
        Goal("quiet messages: median time, half hot beside all quiet", slower(lambda each: each.returned.median), 1),
        Goal(
            "quiet messages: 99th percentile, half hot beside all quiet",
            slower(lambda each: each.returned.slowest_hundredth),
            1,
        ),
        Goal("quiet messages, each alone: write units", quiet.write_units, 5),
        Goal("quiet messages, each alone: requests", quiet.requests, 1.01),
    ]


def longest_waits(hot: Mapping[Case, list[Point]]) -> Iterator[str]:
    """Sentences that compare the slowest message with a turn: each worker posts a batch, one after another."""
    for case in CASES:
        if case.workers in WAITS_OF:
            turn_seconds = case.workers * case.batch / middle_point(hot[case]).per_second
            slowest_seconds = max(point.slowest_seconds for point in hot[case])
            yield (
                f"{case.side.split()[0]}, batches of {case.batch}, {case.workers} workers: the slowest message took"
                f" {slowest_seconds:.1f} s, {slowest_seconds / turn_seconds:.1f} turns"
            )


def hot_tables(hot: Mapping[Case, list[Point]]) -> Iterator[Table]:
    for side, batch in dict.fromkeys((case.side, case.batch) for case in CASES):
        table = _table(f"{side}, batches of {batch}", "workers")
        for name in (
            "per\nsecond",
            "the rounds'",
            "write\nunits",
            "read\nunits",
            "requests\neach",
            "refused\nper 100",
            "slowest\nseconds",
        ):
            table.add_column(name, justify="right")
        for case, points in sorted(hot.items()):
            if (case.side, case.batch) == (side, batch):
                point = middle_point(points)
                table.add_row(
                    str(case.workers),
                    *_rates(points),
                    f"{point.write_units:.2f}",
                    f"{point.read_units:.2f}",
                    f"{point.requests:.2f}",
                    f"{point.conflicts * 100:.1f}",
                    f"{point.slowest_seconds:.2f}",
                    style="bold" if case in IN_GOALS else "",
                )
        yield table


def arriving_table(arriving: Mapping[str, list[Arriving]]) -> Table:
    title = f"A hot account among {QUIET_ACCOUNTS:,}, {half_hot.WORKERS} workers, batches at a fixed rate"
    table = _table(f"{title}. Ms: median, 99th percentile, slowest", "a batch has")
    for name in (
        "quiet, until\nthe return",
        "quiet, until\nthe commit",
        "hot, until\nthe return",
        "write\nunits",
        "workers\nbusy",
    ):
        table.add_column(name, justify="right")
    for name, rounds in arriving.items():
        table.add_row(
            name,
            _milliseconds(each.returned for each in rounds),
            _milliseconds(each.committed for each in rounds),
            _milliseconds(each.hot for each in rounds),
            f"{middle(rounds, lambda each: each.point.write_units):.2f}",
            f"{middle(rounds, lambda each: each.busy):.0%}",
        )
    return table


def full_table(full: Mapping[str, list[Full]]) -> Table:
    table = _table("The same, a batch after another", "a batch has")
    for name in ("quiet per second", "write units", "slowest seconds"):
        table.add_column(name, justify="right")
    for name, rounds in full.items():
        table.add_row(
            name,
            f"{middle(rounds, lambda each: each.quiet_per_second):.0f}",
            f"{middle(rounds, lambda each: each.point.write_units):.2f}",
            f"{middle(rounds, lambda each: each.point.slowest_seconds):.2f}",
        )
    return table


def transfers_table(transfers: Mapping[int, list[Point]]) -> Table:
    table = _table("Batches of 100 transfers from the quiet accounts to the hot one", "workers")
    for name in ("per second", "the rounds'", "write units", "refused per 100", "slowest seconds"):
        table.add_column(name, justify="right")
    for workers, points in transfers.items():
        point = middle_point(points)
        table.add_row(
            str(workers),
            *_rates(points),
            f"{point.write_units:.2f}",
            f"{point.conflicts * 100:.1f}",
            f"{point.slowest_seconds:.2f}",
        )
    return table


def _table(title: str, first_column: str) -> Table:
    """Without lines, for terminals of 80 columns."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1), pad_edge=False)
    table.add_column(first_column, no_wrap=True)
    return table


def _rates(points: Iterable[Point]) -> tuple[str, str]:
    """The median, and the rounds' rates if there are several."""
    rates = [point.per_second for point in points]
    return f"{median(rates):.0f}", " ".join(f"{rate:.0f}" for rate in rates if len(rates) > 1)


def _milliseconds(rounds: Iterable[Times | None]) -> str:
    """The median, the 99th percentile and the slowest: the medians of the rounds."""
    times = [each for each in rounds if each]
    return " ".join(f"{median(figures) * 1000:.0f}" for figures in zip(*times, strict=True))


def main() -> None:
    console = Console(highlight=False)
    with new_ministack() as endpoint:
        results = measure(endpoint, console)
    console.print(f"\n{TITLE}. Medians of {ROUNDS} rounds, or one")
    for table in (
        *hot_tables(results.hot),
        arriving_table(results.arriving),
        full_table(results.full),
        transfers_table(results.transfers),
    ):
        console.print()
        console.print(table)
    console.print()
    for sentence in longest_waits(results.hot):
        console.print(sentence)
    console.print()
    for goal in goals(results):
        console.print(str(goal))
    series = {
        name: [middle_point(results.hot[Case(*line, workers)]) for workers in WORKERS] for name, line in LINES.items()
    }
    from benchmarks.plot import draw  # noqa: PLC0415 (`make bench` alone has matplotlib)

    draw(series, TITLE, PICTURE)
    console.print(f"Drawn in {PICTURE.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
