"""The command `profile`: where a model spends its time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import mdtensor as md
from mdtensor.cli.outputs import check_apart, model_inputs
from mdtensor.cli.report import Facts, working
from mdtensor.cli.samples import parse_shapes, read_array
from mdtensor.errors import ModelError, shown
from mdtensor.graph.inputs import shapes_example
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model


def profile_file(
    path: Path, inputs: Sequence[Path], shapes: Sequence[str], out: Path | None
) -> Facts:
    """Measure each node of a model file; write a trace to `out` if given."""
    model = load(path, parse_shapes(shapes))
    if out is not None:
        check_apart(out, {**model_inputs(path), "an input itself": inputs})
    given = model.fed(*map(read_array, inputs)) if inputs else _zeros(model, path)
    with working() as progress:
        progress.add_task("measuring", total=None)
        found = model.profile(given)
    if out is not None:
        found.save(out)
    return {"model": str(path), **found.as_dict(), "text": str(found)}


def _zeros(model: Model, path: Path) -> dict[str, Any]:
    """Return zeros for each input: times hardly depend on the elements."""
    for name, spec in model.inputs.items():
        if md.DYNAMIC in spec.shape:
            problem = f"{path}: some sizes of the input {shown(name)} are unknown"
            raise ModelError(problem, f"Pass {shapes_example(model.inputs)}")
    return {n: np.zeros(s.shape, s.dtype.storage) for n, s in model.inputs.items()}


def show_profile(console: Console, facts: Facts) -> None:
    """Print the result of `mdtensor profile`."""
    console.print(facts["text"])
