"""The command `compile`: stored plans of models."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from mdtensor.cli.outputs import check_apart, model_inputs
from mdtensor.cli.report import pairs
from mdtensor.cli.samples import parse_shapes
from mdtensor.kernels.cpu.kernel_set import HOST
from mdtensor.quant import load
from mdtensor.quant.plans.write import chosen_isas


def compile_file(
    model: Path, out: Path, shapes: Sequence[str], isas: Sequence[str]
) -> dict[str, Any]:
    """Store the plan of `model` in `out`, and return facts about it."""
    network = load(model, parse_shapes(shapes))
    check_apart(out, model_inputs(model))
    network.compile(out, isas=isas)
    specs = network.plan().specs
    return {
        "model": str(model),
        "output": str(out),
        "isas": list(chosen_isas(isas, HOST.name)),
        "file_bytes": out.stat().st_size,
        "inputs": {name: str(specs[name]) for name in network.inputs},
        "outputs": {name: str(specs[name]) for name in network.outputs},
    }


def show_compiled(console: Console, facts: dict[str, Any]) -> None:
    """Print the result of `mdtensor compile`."""
    values = {"inputs": facts["inputs"], "outputs": facts["outputs"]}
    pairs(
        console,
        [
            ("plan", f"{facts['output']}, {facts['file_bytes'] / 1000:.1f} kB"),
            ("ISA", ", ".join(facts["isas"])),
            *(
                (kind, ", ".join(f"{name}: {spec}" for name, spec in found.items()))
                for kind, found in values.items()
            ),
        ],
    )
