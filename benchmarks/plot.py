"""Plots the results of `contention` for the documentation. `make bench` draws the plot again."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import matplotlib as mpl
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

mpl.use("agg")

COLOURS = {"Teller": "#0b6e4f", "stock Powertools": "#b5482a"}
INK, GRID = "#222222", "#dddddd"


class Point(NamedTuple):
    """The result of a run: transactions per second of all workers together, and write units per transaction."""

    workers: int
    per_second: float
    write_units: float


type Series = Mapping[str, Sequence[Point]]
"""A point for each number of workers, by the name of the function that was measured."""


def medians(points: Sequence[Point]) -> list[Point]:
    """The medians of the runs, one point for each number of workers."""
    runs: dict[int, list[Point]] = {}
    for point in points:
        runs.setdefault(point.workers, []).append(point)
    return [
        Point(workers, median(run.per_second for run in each), median(run.write_units for run in each))
        for workers, each in sorted(runs.items())
    ]


def draw(series: Series, title: str, path: Path) -> None:
    """Draws two panels side by side: throughput and write units."""
    panels: dict[str, Callable[[Point], float]] = {
        "Transactions per second": lambda point: point.per_second,
        "Write units per transaction": lambda point: point.write_units,
    }
    style = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 10, **style}):
        figure, both = pyplot.subplots(1, len(panels), figsize=(7.6, 3.7), layout="constrained")
        figure.suptitle(title, fontsize=10, x=0.012, ha="left")
        for axes, (name, value) in zip(both, panels.items(), strict=True):
            axes.set_title(name, fontsize=11, fontweight="bold", loc="left", pad=10)
            _draw_lines(axes, {each: [value(point) for point in points] for each, points in series.items()})
            workers = [str(point.workers) for point in next(iter(series.values()))]
            axes.set_xticks(range(len(workers)), workers)
            axes.set_xlabel("workers on the account")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=184, facecolor="white", metadata={"Software": None})
        pyplot.close(figure)


def _draw_lines(axes: Axes, lines: Mapping[str, Sequence[float]]) -> None:
    """Labels points with their figures and lines with their names, instead of a legend and a scale."""
    highest = max(max(values) for values in lines.values())
    last = max(len(values) for values in lines.values()) - 1
    axes.set_ylim(0, highest * 1.1)
    axes.set_xlim(-0.3, last + 1.15)
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0)
    for name, values in lines.items():
        axes.plot(values, color=COLOURS[name], marker="o", markersize=5, linewidth=2)
        for index, value in enumerate(values):
            over = value < highest / 6 or all(value >= other[index] for other in lines.values())
            figure = f"{value:.0f}" if highest >= 100 else f"{value:.1f}"
            position = {"va": "bottom" if over else "top", "xytext": (0, 7 if over else -7)}
            note = axes.annotate(figure, (index, value), textcoords="offset points", ha="center", **position)
            note.set(color=COLOURS[name], path_effects=[withStroke(linewidth=3, foreground="white")])
    lowest_free = highest / 12
    for name, values in sorted(lines.items(), key=lambda line: line[1][-1]):
        height = max(values[-1], lowest_free)
        lowest_free = height + highest / 6  # The height of two lines of text, so that names don't overlap.
        text = name.replace(" ", "\n")
        axes.text(last + 0.2, height, text, color=COLOURS[name], weight="bold", va="center", linespacing=1.1)
