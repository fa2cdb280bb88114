"""The command `compare`: what quantization costs, node by node."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from mdtensor.cli.networks.page import page
from mdtensor.cli.outputs import check_apart, model_inputs, write_text
from mdtensor.cli.report import Facts, columns, working
from mdtensor.cli.samples import parse_shapes, read_samples, sample_files
from mdtensor.quant.model.compare.compare import (
    HEADS,
    SHOWN,
    cells,
    compare,
)
from mdtensor.quant.model.compare.outputs import output_text
from mdtensor.quant.model.load import load


def compare_files(
    model: Path,
    small: Path,
    data: Sequence[Path],
    shapes: Sequence[str],
    html: Path | None = None,
) -> Facts:
    """Compare two files on samples; return the errors of all nodes.

    With `html`, the times of all nodes are measured, too, and a page is written there.
    """
    sizes = parse_shapes(shapes)
    network, quantized = load(model, sizes), load(small, sizes)
    samples = read_samples(data, network)
    read = {"a file of samples": sample_files(data), **model_inputs(model)}
    check_apart(html, {**read, "the quantized model": [small]})
    with working() as progress:
        watched = progress.track(samples, description="comparing")
        found = compare(network, quantized, watched)
        if html is not None:
            progress.add_task("measuring", total=None)
            models = {"float": network, "int8": quantized}
            profiles = {n: m.profile(samples[0]) for n, m in models.items()}
            write_text(html, page(small.name, models, profiles, found))
    worst = [node.node for node in found.worst(len(found.nodes))]
    files = {"model": str(model), "quantized": str(small)}
    return {**files, **found.as_dict(), "worst": worst}


def show_comparison(console: Console, facts: Facts) -> None:
    """Print the result of `mdtensor compare`."""
    for name, one in facts["outputs"].items():
        console.print(f"{name}: {output_text(one)}")
    by_name = {node["node"]: node for node in facts["nodes"]}
    worst = [by_name[name] for name in facts["worst"][:SHOWN]]
    table = columns(*HEADS)
    for node in worst:
        table.add_row(*cells(node))
    console.print(table)
    if any(node["fix"] for node in worst):
        console.print("What helps:")
    for node in worst:
        if node["fix"]:
            console.print(f"  {node['node']}: {node['fix']['text']}")
