"""Kinds of figures: each draws the readings of one table."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bench.figures.theme import Look, Theme, looks
from bench.harness.reading import Reading
from bench.harness.table import shown

WIDTH, LINE = 7.2, 0.23  # inches: of a figure, and of one line in it
ACROSS = 3  # panels in a line of small ones
#: Of the largest over the smallest: beyond it an axis names powers of ten alone.
WIDE = 30


def named(readings: Sequence[Reading]) -> list[str]:
    return list(dict.fromkeys(one.contender for one in readings))


def by_row(readings: Sequence[Reading]) -> dict[str, list[Reading]]:
    rows: dict[str, list[Reading]] = {}
    for one in readings:
        rows.setdefault(one.row, []).append(one)
    return rows


def point(look: Look, theme: Theme) -> dict[str, Any]:
    return {
        "marker": look.marker,
        "color": look.colour,
        "markerfacecolor": look.colour if look.is_filled else theme.paper,
        "markersize": 6,
    }


def told(axes: Any, value: float, at: float, text: str) -> None:
    """A text to the right of a point, or of the end of a bar."""
    place = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
    axes.annotate(text, (value, at), **place)


def in_time(axis: Any, values: Sequence[float]) -> None:
    """A logarithmic axis of seconds, or of numbers, with few names on it."""
    few = max(values) > WIDE * min(values)
    axis.set_major_locator(LogLocator(subs=(1,) if few else (1, 2, 5)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, "s")))


def keyed(figure: Figure, styles: dict[str, Look], theme: Theme) -> None:
    """Names of contenders above the figure."""
    marks = [
        Line2D([], [], linestyle="", label=name, **point(look, theme))
        for name, look in styles.items()
    ]
    figure.legend(handles=marks, loc="outside upper left", ncols=3)


def dots(readings: Sequence[Reading], theme: Theme) -> Figure:
    """Times of contenders, the least first; a panel for each row."""
    rows, ours = by_row(readings), named(readings)[0]
    styles = looks([ours, "rivals"], theme)
    heights = [len(found) + 1.5 for found in rows.values()]
    figure = Figure((WIDTH, LINE * sum(heights) + 0.4), layout="constrained")
    grid = {"height_ratios": heights}
    panels = figure.subplots(len(rows), sharex=True, squeeze=False, gridspec_kw=grid)
    for axes, (row, found) in zip(panels[:, 0], rows.items(), strict=True):
        ordered = sorted(found, key=lambda one: one.value)
        for at, one in enumerate(ordered):
            look = styles[ours if one.contender == ours else "rivals"]
            axes.plot(one.value, at, **point(look, theme))
            told(axes, one.value, at, shown(one.value, one.unit))
        axes.set_yticks(range(len(ordered)), [one.contender for one in ordered])
        axes.set_ylim(len(ordered) - 0.4, -0.6)
        axes.set_title(row if len(rows) > 1 else "", loc="left")
        axes.set_xscale("log")
        axes.margins(x=0.15)
        axes.grid(axis="x")
    in_time(panels[-1, 0].xaxis, [one.value for one in readings])
    return figure


def ratios(readings: Sequence[Reading], theme: Theme) -> Figure:
    """Our time over that of each rival, with its interval; a line for each row."""
    rows, styles = by_row(readings), looks(named(readings), theme)
    figure = Figure((WIDTH, LINE * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    for at, found in enumerate(rows.values()):
        for one in found:
            if one.ratio is not None:
                look = styles[one.contender]
                ends = [one.ratio.low, one.ratio.high]
                axes.plot(ends, [at, at], color=look.colour, linewidth=1)
                axes.plot(one.ratio.median, at, **point(look, theme))
    axes.axvline(1, color=theme.ink, linewidth=1)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    digits = range(1, 10) if high < 4 * low else (1, 2, 5)
    axes.xaxis.set_major_locator(LogLocator(subs=digits))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("mdtensor's time / other time: left of 1 mdtensor is faster")
    axes.grid(axis="x")
    compared = {one.contender for one in readings if one.ratio is not None}
    rivals = {name: look for name, look in styles.items() if name in compared}
    keyed(figure, rivals, theme)
    return figure


def growth(readings: Sequence[Reading], theme: Theme) -> Figure:
    """Times of contenders by the number with which the name of a row begins."""
    styles = looks(named(readings), theme)
    figure = Figure((WIDTH, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, look in styles.items():
        of = [one for one in readings if one.contender == name]
        sizes = [int(one.row.split()[0].replace(",", "")) for one in of]
        axes.plot(sizes, [one.value for one in of], label=name, **point(look, theme))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    in_time(axes.yaxis, [one.value for one in readings])
    axes.set_xlabel(readings[0].row.split(maxsplit=1)[1])
    axes.grid()
    keyed(figure, styles, theme)
    return figure


def sizes(readings: Sequence[Reading], theme: Theme) -> Figure:
    """Time per element by size; a panel for each operation: "name, size" is a row."""
    styles, panels = looks(named(readings), theme), {}
    for one in readings:
        name, size = one.row.rsplit(", ", 1)
        panels.setdefault(name, []).append((int(size.replace(",", "")), one))
    lines = -(-len(panels) // ACROSS)
    figure = Figure((WIDTH, 2 * lines + 0.6), layout="constrained")
    shared = {"sharex": True, "sharey": True, "squeeze": False}
    grid = figure.subplots(lines, min(ACROSS, len(panels)), **shared)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, (name, found) in zip(grid.flat, panels.items(), strict=False):
        for contender, look in styles.items():
            of = [(n, one.value / n) for n, one in found if one.contender == contender]
            line = {"linewidth": 0.8, **point(look, theme), "markersize": 4}
            axes.plot([n for n, _ in of], [each for _, each in of], **line)
        axes.set_title(name, loc="left")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.grid()
    in_time(grid[0, 0].yaxis, [one.value / n for f in panels.values() for n, one in f])
    figure.supxlabel("elements", fontsize="medium")
    figure.supylabel("time for each element", fontsize="medium")
    keyed(figure, styles, theme)
    return figure


def bars(readings: Sequence[Reading], theme: Theme) -> Figure:
    """Counts by contender, from zero; a group for each row."""
    rows, styles = by_row(readings), looks(named(readings), theme)
    lines = len(rows) * (len(styles) + 1)
    figure = Figure((WIDTH, LINE * lines + 0.8), layout="constrained")
    axes = figure.subplots()
    for order, (name, look) in enumerate(styles.items()):
        for group, found in enumerate(rows.values()):
            at = group * (len(styles) + 1) + order
            for one in (one for one in found if one.contender == name):
                color = look.colour if look.is_filled else theme.paper
                edge = {"edgecolor": look.colour, "hatch": look.hatch}
                axes.barh(at, one.value, color=color, height=0.8, **edge)
                told(axes, one.value, at, f"{shown(one.value, one.unit)} {name}")
    middles = [g * (len(styles) + 1) + (len(styles) - 1) / 2 for g in range(len(rows))]
    axes.set_yticks(middles, [fill(row, 26) for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.4)
    axes.set_xlabel(readings[0].unit)
    axes.grid(axis="x")
    return figure
