"""PyTorch on our graphs, eagerly: float32, and int8 by its own quantized engine.

Our operations have the names and options of PyTorch's, so the float graph, whose batch
norms are folded already, runs node by node. The int8 one has the same codes and scales;
its engine takes biases as floats.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from mdtensor.quant.model.graph import Graph, Node

ENGINE = "x86"
Call = Callable[..., Any]


class NotRun(LookupError):
    """PyTorch has no function for an operation here."""


class Session:
    """A graph, float or quantized, on so many threads of the process.

    Raises:
        NotRun: an operation has no function of PyTorch here.
    """

    def __init__(self, graph: Graph, threads: int) -> None:
        torch.set_num_threads(threads)
        (self._input,), (self._output,) = graph.inputs, graph.outputs
        self._constants: dict[str, Any] = {}
        for name, tensor in graph.constants.items():
            if getattr(tensor, "qparams", None) is None:
                self._constants[name] = torch.tensor(np.asarray(tensor))
        self._steps = [self._step(graph, node) for node in graph.nodes]

    def _step(self, graph: Graph, node: Node) -> tuple[Call, list[str], str]:
        kind = node.operation.__name__
        grid = graph.specs()[node.output].qparams
        is_quantized = grid is not None or kind == "dequantize"
        table = QUANTIZED if is_quantized else FLOATING
        if kind not in table:
            codes = "codes" if is_quantized else "floats"
            raise NotRun(f"{kind} has no function on {codes}")
        with warnings.catch_warnings():
            # Its quantized tensors go with a later release; this one has them.
            warnings.simplefilter("ignore", UserWarning)
            step = table[kind](graph, node, grid)
        names = [x for x in node.values if x in self._constants or _moves(graph, x)]
        return step, names, node.output

    def __call__(self, pixels: Any) -> Any:
        values = {**self._constants, self._input: torch.from_numpy(pixels)}
        with torch.inference_mode():
            for step, names, output in self._steps:
                values[output] = step(*(values[name] for name in names))
        return values[self._output].numpy()


def _moves(graph: Graph, name: str) -> bool:
    return name not in graph.constants


def _plain(function: Call, **names: str) -> Callable[[Graph, Node, Any], Call]:
    """A function that takes the node's options, some by other names."""

    def make(graph: Graph, node: Node, grid: Any) -> Call:
        options = {names.get(k, k): value for k, value in node.options.items()}
        return partial(function, **options)

    return make


def _convolution(graph: Graph, node: Node, grid: Any) -> Call:
    padding = _even(node)
    return partial(functional.conv2d, **{**node.options, "padding": padding})


def _even(node: Node) -> tuple[int, int]:
    """The padding of a window, equal on opposite sides.

    Raises:
        NotRun: it is not.
    """
    top, left, bottom, right = node.options["padding"]
    if (top, left) != (bottom, right):
        raise NotRun(f"the padding of {node.name!r} is uneven")
    return top, left


def _pool(graph: Graph, node: Node, grid: Any) -> Call:
    padding = _even(node)
    return partial(functional.max_pool2d, **{**node.options, "padding": padding})


def _mean(graph: Graph, node: Node, grid: Any) -> Call:
    return partial(functional.adaptive_avg_pool2d, output_size=1)


def _hardsigmoid(graph: Graph, node: Node, grid: Any) -> Call:
    slope, offset = node.options["alpha"], node.options["beta"]
    return lambda x: torch.clamp(x * slope + offset, 0, 1)


FLOATING: Mapping[str, Any] = {
    "conv2d": _convolution,
    "linear": _plain(functional.linear),
    "relu": _plain(functional.relu),
    "relu6": _plain(functional.relu6),
    "hardswish": _plain(functional.hardswish),
    "hardsigmoid": _hardsigmoid,
    "global_avg_pool2d": _mean,
    "max_pool2d": _pool,
    "add": _plain(torch.add),
    "mul": _plain(torch.mul),
    "reshape": _plain(torch.reshape),
    "softmax": _plain(torch.softmax, axis="dim"),
}


def _quantize(graph: Graph, node: Node, grid: Any) -> Call:
    step, zero = _grid(grid)
    return lambda x: torch.quantize_per_tensor(x, step, zero, torch.quint8)


def _grid(grid: Any) -> tuple[float, int]:
    if grid.dtype.name != "quint8":
        raise NotRun(f"activations are {grid.dtype.name}, not quint8")
    return float(grid.scale), int(grid.zero_point)


def _weights(graph: Graph, node: Node) -> tuple[Any, Any]:
    """Codes of the weights per channel, and biases as floats."""
    weight, bias = (graph.constants[name] for name in node.inputs[1:3])
    codes = torch.tensor(np.asarray(weight.codes))
    scale = torch.tensor(weight.qparams.scale).expand(len(codes)).contiguous()
    zeros = torch.zeros(len(codes), dtype=torch.int64)
    packed = torch._make_per_channel_quantized_tensor(codes, scale, zeros, 0)
    real = np.asarray(bias.codes) * bias.qparams.scale
    return packed, torch.tensor(real.astype(np.float32))


def _quantized_conv2d(graph: Graph, node: Node, grid: Any) -> Call:
    torch.backends.quantized.engine = ENGINE
    options, padding = node.options, _even(node)
    packed = torch.ops.quantized.conv2d_prepack(
        *_weights(graph, node),
        *(options["stride"], padding, options["dilation"], options["groups"]),
    )
    step, zero = _grid(grid)
    return lambda x: torch.ops.quantized.conv2d(x, packed, step, zero)


def _quantized_linear(graph: Graph, node: Node, grid: Any) -> Call:
    torch.backends.quantized.engine = ENGINE
    packed = torch.ops.quantized.linear_prepack(*_weights(graph, node))
    step, zero = _grid(grid)
    return lambda x: torch.ops.quantized.linear(x, packed, step, zero)


def _on_codes(name: str) -> Callable[[Graph, Node, Any], Call]:
    """A function of its engine that takes the grid of its result."""

    def make(graph: Graph, node: Node, grid: Any) -> Call:
        function, (step, zero) = getattr(torch.ops.quantized, name), _grid(grid)
        return lambda *given: function(*given, step, zero)

    return make


def _quantized_mean(graph: Graph, node: Node, grid: Any) -> Call:
    # Its pool keeps the grid of its input; the other grid is one more step.
    step, zero = _grid(grid)

    def mean(x: Any) -> Any:
        y = functional.adaptive_avg_pool2d(x, 1).dequantize()
        return torch.quantize_per_tensor(y, step, zero, torch.quint8)

    return mean


QUANTIZED: Mapping[str, Any] = {
    "quantize": _quantize,
    "dequantize": lambda graph, node, grid: torch.Tensor.dequantize,
    "conv2d": _quantized_conv2d,
    "linear": _quantized_linear,
    "add": _on_codes("add"),
    "hardswish": _on_codes("hardswish"),
    "global_avg_pool2d": _quantized_mean,
    "reshape": _plain(torch.reshape),
}
