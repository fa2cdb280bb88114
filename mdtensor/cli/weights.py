"""`mdtensor quantize-weights`: weights as codes, activations as they are."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from mdtensor.cli.models import check_apart
from mdtensor.cli.report import Facts, pairs, shrunk
from mdtensor.cli.samples import parse_shapes, read_samples
from mdtensor.cli.working import working
from mdtensor.quant.model.graph import Graph
from mdtensor.quant.model.model import load
from mdtensor.quant.model.onnx.qdq import WEIGHTED
from mdtensor.quant.model.quantize.weights import described


def quantize_weights_file(
    model: Path,
    data: Sequence[Path],
    out: Path,
    shapes: Sequence[str],
    how: dict[str, Any],
    keep_float: Sequence[str],
) -> Facts:
    """Write `model` with codes for weights to `out`; facts about both.

    `how` are the options of `Model.quantize_weights`.
    """
    start = time.perf_counter()
    network = load(model, parse_shapes(shapes))
    check_apart(model, out)
    samples = read_samples(data, network) if data else None
    with working() as bar:
        seen = samples and bar.track(samples, description="weighing inputs")
        small = network.quantize_weights(samples=seen, keep_float=keep_float, **how)
    small.save(out)
    notes = small.graph.notes
    return {
        "model": str(model),
        "output": str(out),
        "seconds": time.perf_counter() - start,
        "file_bytes": {"float": model.stat().st_size, "codes": out.stat().st_size},
        "weight_bytes": {"float": network.weight_bytes, "codes": small.weight_bytes},
        "layers": sum(node.operation in WEIGHTED for node in small.graph.nodes),
        "kinds": _kinds(small.graph),
        "float_layers": [{"node": name, "why": why} for name, why in notes.items()],
    }


def _kinds(graph: Graph) -> list[Facts]:
    """How many layers have which weights, and the bits of one on average."""
    found: dict[str, list[Any]] = {}
    for node in graph.nodes:
        if node.operation in WEIGHTED and node.inputs[1] in graph.constants:
            weights = graph.constants[node.inputs[1]]
            found.setdefault(described(weights)[0], []).append(weights)
    return [
        {"weights": kind, "layers": len(them), "bits": _bits(them)}
        for kind, them in found.items()
    ]


def _bits(weights: Sequence[Any]) -> float:
    size = sum(tensor.size for tensor in weights)
    bits = 8 * sum(tensor.nbytes for tensor in weights)
    return float(bits / max(size, 1))


def show_weights(console: Console, facts: Facts) -> None:
    files, weights = facts["file_bytes"], facts["weight_bytes"]
    rows = [
        ("written", facts["output"]),
        ("file", shrunk(files["float"], files["codes"])),
        ("weights", shrunk(weights["float"], weights["codes"])),
        ("layers", f"{facts['layers']}, {len(facts['float_layers'])} in float"),
        ("time", f"{facts['seconds']:.2f} s"),
    ]
    for kind in facts["kinds"]:
        told = (
            f"{kind['layers']} of {kind['weights']}, {kind['bits']:.3g} bits a weight"
        )
        rows.insert(-1, ("", told))
    pairs(console, rows)
    for layer in facts["float_layers"]:
        console.print(f"  {layer['node']} is float; {layer['why']}")
