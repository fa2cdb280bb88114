"""The page of a quantized network: no scripts, no network, one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import mdtensor
from mdtensor.cli.networks import drawing
from mdtensor.cli.networks.facts import Row, figures, rows_of
from mdtensor.cli.templates import render
from mdtensor.graph.profile import Profile
from mdtensor.quant.model.compare.compare import Comparison
from mdtensor.quant.model.model import Model

HERE = Path(__file__).parent
#: The top of the plot of decibels, and how many fixes and bars are shown.
MOST_DB, FIXES, BARS = 80.0, 10, 30


def page(
    title: str,
    models: Mapping[str, Model],
    profiles: Mapping[str, Profile],
    comparison: Comparison,
) -> str:
    """Return the page of a network.

    Args:
        title: what it is called.
        models: the models, by `float` and `int8`.
        profiles: their times, by the same names.
        comparison: the errors of the nodes.

    Returns:
        HTML with the graph, curves of errors, the slowest nodes, what helps, and a row
        for each node.
    """
    # Only pages need them, and importing them takes longer than most commands run.
    from markupsafe import Markup

    rows = rows_of(models["int8"], profiles["int8"], comparison)
    times = {name: one.call_seconds for name, one in profiles.items()}
    sizes = {name: one.weight_bytes for name, one in models.items()}
    return render(
        HERE / "page.html.jinja",
        title=title,
        version=mdtensor.__version__,
        style=Markup((HERE / "page.css").read_text()),
        figures=figures(rows, comparison, times, sizes),
        comparison=comparison,
        rows=rows,
        poor=[row for row in rows if row.look == "poor"],
        fixes=_fixes(comparison),
        drawn=drawing.draw(rows),
        box=(drawing.WIDE, drawing.HIGH),
        plot=_plot(rows),
        bars=_bars(rows),
        db=_db,
        count=_count,
    )


def _plot(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the curves of local and accumulated errors."""
    found: dict[str, Any] = {
        "width": drawing.PLOT,
        "height": drawing.TALL,
        "left": drawing.LEFT,
        "ticks": list(drawing.ticks(MOST_DB)),
    }
    for name in ("local", "accumulated"):
        values = [getattr(row, name) for row in rows]
        found[name] = drawing.curve(values, MOST_DB)
        known = [
            row for row, value in zip(rows, values, strict=True) if value is not None
        ]
        places = drawing.points(values, MOST_DB)
        found[f"{name}_points"] = list(zip(known, places, strict=True))
    return found


def _bars(rows: Sequence[Row]) -> list[tuple[Row, float]]:
    """Return the slowest nodes, each with its share of the time of the slowest."""
    slowest = sorted(rows, key=lambda row: -row.cost.seconds)[:BARS]
    most = slowest[0].cost.seconds if slowest else 0.0
    return [(row, row.cost.seconds / most) for row in slowest if row.cost.seconds]


def _fixes(comparison: Comparison) -> list[tuple[str, str]]:
    worst = comparison.worst(len(comparison.nodes))
    return [(one.node, one.fix.text) for one in worst if one.fix is not None][:FIXES]


def _db(value: float | None) -> str:
    return "exact" if value is None or value == inf else f"{value:.1f}"


def _count(value: float) -> str:
    """Return a number in three digits, with k, M or G."""
    for unit in ("", "k", "M"):
        if value < 1000:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}G"
