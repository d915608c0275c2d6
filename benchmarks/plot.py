"""Plots results of benchmarks for the documentation. `make bench` draws the plots again."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import exp, inf, log
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from benchmarks.hot_account import Point

mpl.use("agg")

COLOURS = ("#0b6e4f", "#3f9fd0", "#b5482a", "#8a5fbf", "#c79a1e")
INK, GRID = "#222222", "#dddddd"
SHORTEST_SECONDS = 0.001
"""Shorter times are drawn as this one: they are measured in milliseconds."""
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
    with _figure(title, list(series), path, len(PANELS)) as row:
        for axes, (name, (value, text)) in zip(row, PANELS.items(), strict=True):
            axes.set_title(name, fontsize=10, fontweight="bold", loc="left", pad=8)
            workers = [point.workers for point in next(iter(series.values()))]
            _draw_lines(
                axes, [[value(point) for point in points] for points in series.values()], text, LABELLED, workers
            )
            axes.set_xlabel("workers on the account")


def draw_distributions(panels: Mapping[str, Mapping[str, Sequence[float]]], title: str, path: Path) -> None:
    """Draws for each panel's names the share of their values, in seconds, that are at most `x`: cumulatively."""
    names = list(next(iter(panels.values())))
    with _figure(title, names, path, len(panels)) as row:
        for axes, (panel, distributions) in zip(row, panels.items(), strict=True):
            axes.set_title(panel, fontsize=10, fontweight="bold", loc="left", pad=8)
            for colour, seconds in zip(COLOURS, distributions.values(), strict=False):
                milliseconds = [max(each, SHORTEST_SECONDS) * 1000 for each in seconds]
                axes.ecdf(milliseconds, color=colour, linewidth=2)
            axes.set_xscale("log")
            axes.set_xlim(left=SHORTEST_SECONDS * 1000)
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.set_yticks([0, 0.5, 0.9, 0.99], ["0", "half", "90 %", "99 %"])
            axes.grid(color=GRID)
            axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
            axes.tick_params(length=0, which="both")
            axes.set_xlabel("milliseconds")


@contextmanager
def _figure(title: str, names: Sequence[str], path: Path, panels: int) -> Iterator[Sequence[Axes]]:
    """The panels of a figure with a title and a legend of these names. It is saved at the end."""
    style = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 9, **style}):
        figure, grid = pyplot.subplots(1, panels, figsize=(8.6, 3.9), layout="constrained", squeeze=False)
        figure.suptitle(title, fontsize=10, x=0.012, ha="left")
        yield grid[0]
        lines = [
            Line2D([], [], color=colour, marker="o", markersize=5, linewidth=2) for colour in COLOURS[: len(names)]
        ]
        figure.legend(lines, names, loc="outside lower center", ncols=min(3, len(lines)), frameon=False, fontsize=10)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=184, facecolor="white", metadata={"Software": None})
        pyplot.close(figure)


def _draw_lines(
    axes: Axes,
    lines: Sequence[Sequence[float]],
    text: Callable[[float], str],
    labelled: Collection[int],
    xs: Sequence[int],
) -> None:
    """Draws a line for each colour. The `xs` are at equal distances; the `labelled` ones have figures, not a scale."""
    for colour, values in zip(COLOURS, lines, strict=False):
        axes.plot(values, color=colour, marker="o", markersize=4, linewidth=2)
    lowest, highest = min(map(min, lines)), max(map(max, lines))
    axes.set_yscale("log")
    axes.set_ylim(lowest / 1.6, highest * 1.6)
    axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.set_xticks(range(len(xs)), list(map(str, xs)))
    axes.set_yticks([])
    axes.minorticks_off()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0)
    for index, x in enumerate(xs):
        if x in labelled:
            _label(axes, index, [values[index] for values in lines], text)


def _label(axes: Axes, index: int, values: Sequence[float], text: Callable[[float], str]) -> None:
    """Writes figures beside points: the lowest below its point, the others above, apart."""
    lowest, highest = map(log, axes.get_ylim())
    beside, apart = (highest - lowest) * 0.05, (highest - lowest) * 0.065
    height = -inf
    for each, colour in sorted(zip(values, COLOURS, strict=False)):
        height = max(log(each) + beside, height + apart) if height > -inf else log(each) - beside
        note = axes.annotate(text(each), (index, exp(height)), ha="center", va="center")
        note.set(color=colour, fontsize=9, path_effects=[withStroke(linewidth=3, foreground="white")])
