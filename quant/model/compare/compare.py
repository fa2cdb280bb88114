"""Comparison of a quantized model with its float model on samples, node by node."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import inf, isfinite, nan
from textwrap import wrap
from typing import Any, Protocol

from mdtensor import TensorSpec
from mdtensor.errors import DataError, OptionError, shown
from mdtensor.extend import explain_wrong_calls
from mdtensor.graph import Graph, Node
from mdtensor.graph.inputs import each
from mdtensor.graph.plan import Plan
from mdtensor.quant.generics import quantize
from mdtensor.quant.model.compare.advice import Adviser, Fix
from mdtensor.quant.model.compare.gains import channel_gains
from mdtensor.quant.model.compare.match import match_nodes, references
from mdtensor.quant.model.compare.measure import Measure, real_numbers
from mdtensor.quant.model.compare.outputs import (
    ComparedOutput,
    decibels_text,
    output_text,
    start,
)
from mdtensor.quant.model.compare.visible import Views
from mdtensor.quant.model.quantize.calibrate import sample_feeds
from mdtensor.quant.model.quantize.float_nodes import is_quantized
from mdtensor.quant.tensor import QuantizedTensor

#: How many nodes a comparison prints.
SHOWN = 10
#: The width of a printed comparison without a terminal.
UNBOUND = 160


class Runs(Protocol):
    """What a comparison needs of a model."""

    @property
    def graph(self) -> Graph: ...
    def plan(self, input_shapes: Any = None) -> Plan: ...


@dataclass(frozen=True)
class ComparedNode:
    """The errors of one node of the quantized model.

    Args:
        node: the name of the node.
        operation: its operation.
        local: SQNR in dB if only this node is quantized, each channel weighted by the
            weights of the layers that read it; inf if it computes in float or only
            moves codes.
        accumulated: SQNR in dB of its result in the quantized model.
        cosine: the cosine of its result and that of the float model.
        saturated: the share of the float values beyond the range of its grid.
        channel: the channel with the least local SQNR; None without an error.
        channel_sqnr: the local SQNR of that channel.
        covers: the nodes of the float model that it computes.
        fix: what reduces its local error; None if that is as 8 bits allow.
    """

    node: str
    operation: str
    local: float
    accumulated: float
    cosine: float
    saturated: float
    channel: int | None
    channel_sqnr: float
    covers: tuple[str, ...]
    fix: Fix | None


@dataclass(frozen=True)
class Comparison:
    """The errors of all nodes of a quantized model; `print` shows the worst.

    Args:
        nodes: the nodes with float or quantized results, in the order of the graph.
        outputs: the error of each output, by name.
        samples: the number of samples.
    """

    nodes: tuple[ComparedNode, ...]
    outputs: Mapping[str, ComparedOutput]
    samples: int

    @property
    def sqnr(self) -> float:
        """Return the SQNR of the worst output, in dB; NaN if all are integers."""
        found = [one.sqnr for one in self.outputs.values() if one.sqnr is not None]
        return min(found, default=nan)

    def worst(self, count: int = SHOWN) -> list[ComparedNode]:
        """Return the nodes with the least local SQNR, the worst first."""
        return sorted(self.nodes, key=lambda node: node.local)[:count]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON.

        JSON does not have infinities: an SQNR of inf, which is exact, becomes None, and
        -inf the text "-inf".
        """
        found = {
            "samples": self.samples,
            "outputs": {name: asdict(one) for name, one in self.outputs.items()},
            "nodes": [asdict(node) for node in self.nodes],
        }
        plain: dict[str, Any] = _finite(found)
        return plain

    def __str__(self) -> str:
        """Return the outputs, the worst nodes, and what helps them."""
        width = shutil.get_terminal_size((UNBOUND, 1)).columns
        return "\n".join(_lines(self, width))


@explain_wrong_calls
def compare(model: Runs, small: Runs, samples: Iterable[Any]) -> Comparison:
    """Compare a quantized model with its float model, node by node.

    The local error of a node is what it adds by itself: it gets the float model's
    values, its weights are quantized, and its result is rounded to its grid. Channels
    count by the weights of the layers that read them: otherwise a large channel would
    hide the errors of all others. The accumulated error is that of its result in the
    quantized model, and contains the errors of all nodes before it.

    Nodes are found by their names, which `quantize` and files keep. The memory that is
    needed does not depend on the number of samples.

    Args:
        model: the float model on which `quantize` was called. After `equalize` or
            `smooth`, that is their result, not the model before them.
        small: the quantized model, or its file, loaded.
        samples: inputs, as for `Model.calibrate`; best those that calibration has not
            seen.

    Returns:
        The errors. `print` shows the worst nodes, and how to improve them.

    Raises:
        OptionError: an argument is not a model, or their inputs or outputs differ.
        DataError: there are no samples, or one does not fit.

    Example:
        >>> import numpy as np
        >>> from mdtensor import quant
        >>> from mdtensor.cli import demo_data
        >>> model = quant.load(demo_data.classifier_path(), demo_data.INPUT_SHAPE)
        >>> crops = [crop.pixels for crop in demo_data.crops()[0][:4]]
        >>> small = model.quantize(model.calibrate(crops))
        >>> found = quant.compare(model, small, crops[:2])
        >>> found.worst(1)[0].local < 40 < found.sqnr
        True
    """
    check_models(model, small)
    run = _Run(model, small)
    for count, sample in enumerate(each(samples, model.graph.inputs), start=1):
        run.add(sample_feeds(model.graph, sample, f"sample {count}"))
    if not run.samples:
        raise DataError("there are no samples to compare on", "Give at least one")
    if not any(sums.count for sums in run.outputs.values()):
        problem = f"the outputs of {run.samples} samples have no elements to compare"
        raise DataError(problem, "Give a sample with at least one row")
    return run.result()


def check_models(model: Any, small: Any) -> None:
    """Raise unless both are models with the same inputs and outputs."""
    for what, one in (("model", model), ("small", small)):
        if not isinstance(getattr(one, "graph", None), Graph):
            raise OptionError(f"{what} is {shown(one)}", "Give a quant.Model")
    one, other = model.graph, small.graph
    if is_quantized(one) and not is_quantized(other):
        problem = "the first model is quantized, and the second is float"
        raise OptionError(problem, "Give the float model first")
    for what in ("inputs", "outputs"):
        mine, theirs = list(getattr(one, what)), list(getattr(other, what))
        if mine != theirs:
            raise OptionError(
                f"the models have the {what} {mine} and {theirs}",
                "Compare a model with what `quantize` made of it",
            )


class _Run:
    """The sums over samples."""

    def __init__(self, model: Runs, small: Runs) -> None:
        self.model, self.small, self.samples = model, small, 0
        graph = small.graph
        self.matches = match_nodes(model.graph, graph)
        self.real = {name: real_numbers(x) for name, x in graph.constants.items()}
        codes = {
            n for n, x in graph.constants.items() if isinstance(x, QuantizedTensor)
        }
        # A layer in float reads its codes through a conversion.
        for match in self.matches:
            if match.is_conversion and match.node.values[0] in codes:
                codes.add(match.node.output)
        self.specs = graph.specs()
        views, gains = Views(model.graph), channel_gains(model.graph)
        self.measures = [
            Measure(
                *(match, self.specs, frozenset(codes)),
                *(views.of(match.value), gains.get(match.value or "")),
            )
            for match in self.matches
            if _is_real(self.specs[match.node.output])
        ]
        known = model.graph.specs()
        self.outputs = {name: start(name, known[name]) for name in graph.outputs}

    def add(self, feeds: dict[str, Any]) -> None:
        """Add one sample."""
        self.samples += 1
        shapes = {name: x.shape for name, x in feeds.items()}
        floats = {**feeds, **self.model.plan(shapes).values(feeds)}
        given = {name: _as_input(x, self.specs[name]) for name, x in feeds.items()}
        found = {**given, **self.small.plan(shapes).values(given)}
        known = references(self.matches, floats, {**self.real, **feeds})
        for measure in self.measures:
            name = measure.match.node.output
            measure.add(known, known[name], found[name])
        for name, sums in self.outputs.items():
            wanted = floats.get(name, self.model.graph.constants.get(name))
            sums.add(wanted, found.get(name, self.real.get(name)))

    def result(self) -> Comparison:
        adviser = Adviser(self.model.graph, self.small.graph, self.matches)
        outputs = {name: sums.result() for name, sums in self.outputs.items()}
        nodes = tuple(_compared(m, adviser.fix_of(m)) for m in self.measures)
        return Comparison(nodes, outputs, self.samples)


def _is_real(spec: TensorSpec) -> bool:
    """Return whether a value is numbers that may differ: codes or floats."""
    return spec.qparams is not None or spec.dtype.is_floating


def _as_input(x: Any, spec: TensorSpec) -> Any:
    """Return a float input as the quantized model takes it."""
    return x if spec.qparams is None else quantize(x, spec.qparams)


def _compared(measure: Measure, fix: Fix | None) -> ComparedNode:
    node: Node = measure.match.node
    local, accumulated = measure.local, measure.accumulated
    channel, sqnr = local.worst_channel or (None, float("inf"))
    return ComparedNode(
        node.name,
        node.operation.__name__,
        local.seen,
        accumulated.sqnr,
        accumulated.cosine,
        measure.saturated,
        channel,
        sqnr,
        measure.match.covers,
        fix,
    )


def _finite(found: Any) -> Any:
    """Return data without infinities, which JSON does not have."""
    if isinstance(found, dict):
        return {key: _finite(x) for key, x in found.items()}
    if isinstance(found, (list, tuple)):
        return [_finite(x) for x in found]
    if isinstance(found, float) and not isfinite(found):
        return "-inf" if found == -inf else None
    return found


HEADS = ("node", "operation", "local dB", "accumulated", "cosine", "saturated", "worst")


def cells(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the text of each column for a ComparedNode as a dictionary."""
    worst = ""
    if node["channel"] is not None:
        worst = f"channel {node['channel']}: {decibels_text(node['channel_sqnr'])} dB"
    return (
        *(
            node["node"],
            node["operation"],
            decibels_text(node["local"]),
            decibels_text(node["accumulated"]),
        ),
        *(f"{node['cosine']:.6f}", f"{node['saturated']:.2%}", worst),
    )


def _lines(found: Comparison, width: int) -> Iterator[str]:
    for name, one in found.outputs.items():
        yield f"{name}: {output_text(asdict(one))}"
    rows = [HEADS, *(cells(asdict(node)) for node in found.worst())]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
    yield f"\nThe {len(rows) - 1} nodes of {len(found.nodes)} with the largest errors:"
    for row in rows:
        padded = [
            text.ljust(most) if i in (0, 1, 6) else text.rjust(most)
            for i, (text, most) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()[:width]
    fixes = [node for node in found.worst() if node.fix is not None]
    if fixes:
        yield "\nWhat helps:"
    for node in fixes:
        assert node.fix is not None
        text = f"{node.node}: {node.fix.text}"
        yield from wrap(text, width, initial_indent="  ", subsequent_indent="    ")
