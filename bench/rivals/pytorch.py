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

from mdtensor.graph import Graph, Node

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
            raise NotRun(f"there is no function for {kind} of {codes}")
        with warnings.catch_warnings():
            # Its quantized tensors go with a later release; this one has them.
            warnings.simplefilter("ignore", UserWarning)
            step = table[kind](graph, node, grid)
        names = [
            x for x in node.values if x in self._constants or x not in graph.constants
        ]
        return step, names, node.output

    def __call__(self, pixels: Any) -> Any:
        values = {**self._constants, self._input: torch.from_numpy(pixels)}
        with torch.inference_mode():
            for step, names, output in self._steps:
                values[output] = step(*(values[name] for name in names))
        return values[self._output].numpy()


def _plain(function: Call, **names: str) -> Callable[[Graph, Node, Any], Call]:
    """A function that takes the node's options, some by other names."""

    def make(graph: Graph, node: Node, grid: Any) -> Call:
        options = {names.get(k, k): value for k, value in node.options.items()}
        return partial(function, **options)

    return make


def _even(node: Node) -> tuple[int, int]:
    """The padding of a window, equal on opposite sides.

    Raises:
        NotRun: it is not.
    """
    top, left, bottom, right = node.options["padding"]
    if (top, left) != (bottom, right):
        raise NotRun(f"the padding of {node.name!r} is uneven")
    return top, left


def _windowed(function: Call) -> Callable[[Graph, Node, Any], Call]:
    """A function whose padding is equal on opposite sides."""

    def make(graph: Graph, node: Node, grid: Any) -> Call:
        return partial(function, **{**node.options, "padding": _even(node)})

    return make


def _mean(graph: Graph, node: Node, grid: Any) -> Call:
    return partial(functional.adaptive_avg_pool2d, output_size=1)


def _hardsigmoid(graph: Graph, node: Node, grid: Any) -> Call:
    slope, offset = node.options["alpha"], node.options["beta"]
    return lambda x: torch.clamp(x * slope + offset, 0, 1)


def _batch_norm(graph: Graph, node: Node, grid: Any) -> Call:
    return partial(functional.batch_norm, training=False, **node.options)


def _layer_norm(graph: Graph, node: Node, grid: Any) -> Call:
    shape, eps = node.options["normalized_shape"], node.options["eps"]
    return lambda x, *affine: functional.layer_norm(x, shape, *affine, eps=eps)


def _concat(graph: Graph, node: Node, grid: Any) -> Call:
    axis = node.options["axis"]
    return lambda *given: torch.cat(given, axis)


def _getitem(graph: Graph, node: Node, grid: Any) -> Call:
    key = node.options["key"]
    return lambda x: x[key]


def _take(graph: Graph, node: Node, grid: Any) -> Call:
    axis = node.options["axis"]
    return lambda x, places: torch.index_select(x, axis, places)


FLOATING: Mapping[str, Any] = {
    "conv2d": _windowed(functional.conv2d),
    "conv_transpose2d": _windowed(functional.conv_transpose2d),
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "pixel_shuffle": _plain(functional.pixel_shuffle),
    "avg_pool2d": _windowed(functional.avg_pool2d),
    "sigmoid": _plain(torch.sigmoid),
    "sub": _plain(torch.sub),
    "div": _plain(torch.div),
    "pow": _plain(torch.pow),
    "sqrt": _plain(torch.sqrt),
    "matmul": _plain(torch.matmul),
    "mean": _plain(torch.mean, axis="dim", keepdims="keepdim"),
    "permute_dims": _plain(torch.permute, axes="dims"),
    "squeeze": _plain(torch.squeeze, axis="dim"),
    "concat": _concat,
    "getitem": _getitem,
    "take": _take,
    "linear": _plain(functional.linear),
    "relu": _plain(functional.relu),
    "relu6": _plain(functional.relu6),
    "hardswish": _plain(functional.hardswish),
    "hardsigmoid": _hardsigmoid,
    "global_avg_pool2d": _mean,
    "max_pool2d": _windowed(functional.max_pool2d),
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
