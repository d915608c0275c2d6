"""Plots the results of `contention` for the documentation. `make bench` draws the plot again."""

from collections.abc import Callable, Mapping, Sequence
from math import exp, inf, log
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from benchmarks.hot_account import Point

mpl.use("agg")

COLOURS = ("#0b6e4f", "#3f9fd0", "#b5482a")
INK, GRID = "#222222", "#dddddd"
LABELLED = (1, 8, 32)
"""The numbers of workers whose figures are in the picture."""

type Series = Mapping[str, Sequence[Point]]
"""A point for each number of workers, by the name of the function that was measured."""

PANELS: dict[str, tuple[Callable[[Point], float], Callable[[float], str]]] = {
    "Transactions per second": (lambda point: point.per_second, lambda value: f"{value:,.0f}"),
    "Write units each": (lambda point: point.write_units, lambda value: f"{value:.1f}"),
    "The slowest message, seconds": (lambda point: point.slowest_seconds, lambda value: f"{value:.2g}"),
}


def draw(series: Series, title: str, path: Path) -> None:
    """Draws the panels side by side, with logarithmic scales."""
    style = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 9, **style}):
        figure, row = pyplot.subplots(1, len(PANELS), figsize=(8.6, 3.9), layout="constrained")
        figure.suptitle(title, fontsize=10, x=0.012, ha="left")
        for axes, (name, (value, text)) in zip(row, PANELS.items(), strict=True):
            axes.set_title(name, fontsize=10, fontweight="bold", loc="left", pad=8)
            _draw_lines(axes, [[value(point) for point in points] for points in series.values()])
            workers = [point.workers for point in next(iter(series.values()))]
            axes.set_xticks(range(len(workers)), list(map(str, workers)))
            axes.set_xlabel("workers on the account")
            _label(axes, series, value, text)
        lines = [Line2D([], [], color=colour, marker="o", markersize=5, linewidth=2) for colour in COLOURS]
        figure.legend(lines, list(series), loc="outside lower center", ncols=len(lines), frameon=False, fontsize=10)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=184, facecolor="white", metadata={"Software": None})
        pyplot.close(figure)


def _draw_lines(axes: Axes, lines: Sequence[Sequence[float]]) -> None:
    for colour, values in zip(COLOURS, lines, strict=True):
        axes.plot(values, color=colour, marker="o", markersize=4, linewidth=2)
    lowest, highest = min(map(min, lines)), max(map(max, lines))
    axes.set_yscale("log")
    axes.set_ylim(lowest / 1.6, highest * 1.6)
    axes.set_xlim(-0.5, len(lines[0]) - 0.5)
    axes.set_yticks([])
    axes.minorticks_off()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0)


def _label(axes: Axes, series: Series, value: Callable[[Point], float], text: Callable[[float], str]) -> None:
    """Writes figures beside points, instead of a scale: the lowest below its point, the others above, apart."""
    lowest, highest = map(log, axes.get_ylim())
    beside, apart = (highest - lowest) * 0.05, (highest - lowest) * 0.065
    for index, points in enumerate(zip(*series.values(), strict=True)):
        if points[0].workers not in LABELLED:
            continue
        height = -inf
        for each, colour in sorted(zip(map(value, points), COLOURS, strict=True)):
            height = max(log(each) + beside, height + apart) if height > -inf else log(each) - beside
            note = axes.annotate(text(each), (index, exp(height)), ha="center", va="center")
            note.set(color=colour, fontsize=9, path_effects=[withStroke(linewidth=3, foreground="white")])
