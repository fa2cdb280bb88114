"""LiteRT on our quantized network: the same codes, scales and biases as a .tflite file.

Its 8-bit activations are int8: a grid of uint8 moves by 128, so that each code stays
the same number. Images are NHWC, weights OHWI. What the format has not is written as
operators that are equal, or refused by name:

    padding that is neither SAME nor VALID    PAD, then VALID
    hardsigmoid(x; a, b)                      MUL by a, which keeps all codes; ADD of b,
                                              whose grid and RELU_N1_TO_1 clip to 0..1
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from bench.rivals.tflite_file import Options, Step, Value, model, options_of
from mdtensor.graph import Graph, Node

SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID
#: Of codes that move from uint8 to int8.
SHIFT = {"quint8": 128, "qint8": 0, "qint32": 0}
STORED = {"quint8": "int8", "qint8": "int8", "qint32": "int32"}


class NotWritten(LookupError):
    """An operation has no form in a .tflite file."""


def written(graph: Graph) -> bytes:
    """The graph as a .tflite file; its shapes must be known.

    Raises:
        NotWritten: an operation has no int8 form there.
    """
    return _Writer(graph).file()


class Session:
    """A .tflite file, run by XNNPACK on so many threads."""

    def __init__(self, file: bytes, threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._run = Interpreter(model_content=file, num_threads=threads)
        self._run.allocate_tensors()
        (entered,), (left,) = (
            self._run.get_input_details(),
            self._run.get_output_details(),
        )
        self._input, self._output = entered["index"], left["index"]

    def __call__(self, pixels: Any) -> Any:
        """The result for an NHWC array."""
        self._run.set_tensor(self._input, pixels)
        self._run.invoke()
        return self._run.get_tensor(self._output)


class _Writer:
    """Values and steps while a graph is written; numbers of values by their names."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.specs = graph, graph.specs()
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.numbers: dict[str, int] = {}

    def file(self) -> bytes:
        for node in self.graph.nodes:
            kind = node.operation.__name__
            if kind not in WRITERS:
                raise NotWritten(f"{kind} {node.name!r} has no int8 form")
            WRITERS[kind](self, node)
        entered = [self.moving(name) for name in self.graph.inputs]
        left = [self.moving(name) for name in self.graph.outputs]
        return model(self.values, self.steps, entered, left)

    def add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def moving(self, name: str) -> int:
        """The number of an input or a result."""
        if name not in self.numbers:
            spec = self.specs[name]
            self.numbers[name] = self.add(_activation(spec, _last(spec.shape)))
        return self.numbers[name]

    def weight(self, name: str, order: tuple[int, ...], axis: int) -> int:
        """The number of a constant with its axes in this order.

        Args:
            axis: of the file along which scales lie.
        """
        tensor = self.graph.constants[name]
        grid = tensor.qparams
        if grid.zero_point.any():
            raise NotWritten(f"the weights {name!r} have zero points")
        codes = np.ascontiguousarray(np.asarray(tensor.codes).transpose(order))
        kind = STORED[grid.dtype.name]
        return self.add(Value(codes.shape, grid.scale, 0, axis, kind, codes))

    def layer(self, node: Node, order: tuple[int, ...], axis: int) -> list[int]:
        """The numbers of the input, the weights and the biases of a product."""
        x, weight, bias = node.inputs[:3]
        found = [self.moving(x), self.weight(weight, order, axis)]
        return found if bias is None else [*found, self.weight(bias, (0,), 0)]

    def step(self, kind: str, inputs: list[int], output: str, options: Any) -> None:
        self.steps.append(Step(kind, inputs, self.moving(output), options))

    def padded(self, node: Node, number: int) -> int:
        """The number of a convolution's input with zeros around it."""
        top, left, bottom, right = node.options["padding"]
        widths = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
        given = self.values[number]
        shape = tuple(np.add(given.shape, widths.sum(1)).tolist())
        around = self.add(Value((4, 2), dtype="int32", data=widths))
        wide = self.add(Value(shape, given.scale, given.zero))
        self.steps.append(Step("PAD", [number, around], wide, options_of("Pad")))
        return wide


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an image with its channels last."""
    return (shape[0], *shape[2:], shape[1]) if len(shape) == 4 else shape


def _activation(spec: Any, shape: tuple[int, ...]) -> Value:
    grid = spec.qparams
    if grid is None:
        return Value(shape, dtype="float32")
    zero = int(grid.zero_point) - SHIFT[grid.dtype.name]
    return Value(shape, grid.scale, zero)


def _plain(kind: str, name: str = "", **fields: Any) -> Callable[[_Writer, Node], None]:
    """An operator that takes the node's values as they are."""

    def write(w: _Writer, node: Node) -> None:
        options = options_of(name, **fields) if name else None
        w.step(kind, [w.moving(x) for x in node.values], node.output, options)

    return write


def _conv2d(w: _Writer, node: Node) -> None:
    channels, groups = w.specs[node.inputs[0]].shape[1], node.options["groups"]
    is_depthwise = groups == channels == w.specs[node.output].shape[1]
    if groups > 1 and not is_depthwise:
        raise NotWritten(f"the grouped convolution {node.name!r} has no kernel")
    order, axis = ((1, 2, 3, 0), 3) if is_depthwise else ((0, 2, 3, 1), 0)
    inputs = w.layer(node, order, axis)
    padding = _padding(w, node)
    if padding is None:
        inputs[0], padding = w.padded(node, inputs[0]), VALID
    options = _window(node.options, padding)
    if is_depthwise:
        options["DepthMultiplier"] = 1
    kind = "DEPTHWISE_CONV_2D" if is_depthwise else "CONV_2D"
    name = "DepthwiseConv2D" if is_depthwise else "Conv2D"
    w.step(kind, inputs, node.output, options_of(name, **options))


def _window(options: Any, padding: int) -> dict[str, int]:
    (down, across), (tall, wide) = options["stride"], options["dilation"]
    return {
        "Padding": padding,
        "StrideH": down,
        "StrideW": across,
        "DilationHFactor": tall,
        "DilationWFactor": wide,
    }


def _padding(w: _Writer, node: Node) -> int | None:
    """SAME or VALID, if either means the node's padding."""
    given = tuple(node.options["padding"])
    if not any(given):
        return VALID
    sizes = w.specs[node.inputs[0]].shape[2:]
    kernel = w.specs[node.inputs[1]].shape[2:]
    totals = []
    for n, k, s, d in zip(
        sizes, kernel, node.options["stride"], node.options["dilation"], strict=True
    ):
        totals.append(max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0))
    same = (*(t // 2 for t in totals), *(t - t // 2 for t in totals))
    return SAME if given == same else None


def _linear(w: _Writer, node: Node) -> None:
    inputs = w.layer(node, (0, 1), 0)
    w.step("FULLY_CONNECTED", inputs, node.output, options_of("FullyConnected"))


def _hardsigmoid(w: _Writer, node: Node) -> None:
    slope, offset = node.options["alpha"], node.options["beta"]
    x = w.moving(node.inputs[0])
    given = w.values[x]
    sloped = w.add(Value(given.shape, given.scale * np.float32(slope), given.zero))
    w.steps.append(Step("MUL", [x, _number(w, slope)], sloped, options_of("Mul")))
    clipped = tflite.ActivationFunctionType.RELU_N1_TO_1
    options = options_of("Add", FusedActivationFunction=clipped)
    w.step("ADD", [sloped, _number(w, offset)], node.output, options)


def _number(w: _Writer, value: float) -> int:
    """The number of a constant, exact: code 100 of a grid made for it."""
    return w.add(Value((1,), value / 100, data=np.array([100], np.int8)))


def _mean(w: _Writer, node: Node) -> None:
    axes = w.add(Value((2,), dtype="int32", data=np.array([1, 2], np.int32)))
    options = options_of("Reducer", KeepDims=True)
    w.step("MEAN", [w.moving(node.inputs[0]), axes], node.output, options)


def _max_pool2d(w: _Writer, node: Node) -> None:
    if any(node.options["padding"]) or node.options["ceil_mode"]:
        raise NotWritten(f"the padding of {node.name!r} has no form")
    (tall, wide), (down, across) = node.options["kernel_size"], node.options["stride"]
    fields = {"FilterHeight": tall, "FilterWidth": wide, "Padding": VALID}
    options = options_of("Pool2D", StrideH=down, StrideW=across, **fields)
    w.step("MAX_POOL_2D", [w.moving(node.inputs[0])], node.output, options)


def _reshape(w: _Writer, node: Node) -> None:
    if max(w.specs[node.inputs[0]].shape[2:], default=1) > 1:
        raise NotWritten(f"{node.name!r} joins axes of an image")
    shape = w.specs[node.output].shape
    sizes = w.add(Value((len(shape),), dtype="int32", data=np.array(shape, np.int32)))
    w.step("RESHAPE", [w.moving(node.inputs[0]), sizes], node.output, None)


def _softmax(w: _Writer, node: Node) -> None:
    options: Options = options_of("Softmax", Beta=1.0)
    w.step("SOFTMAX", [w.moving(node.inputs[0])], node.output, options)


WRITERS: dict[str, Callable[[_Writer, Node], None]] = {
    "quantize": _plain("QUANTIZE"),
    "dequantize": _plain("DEQUANTIZE"),
    "hardswish": _plain("HARD_SWISH"),
    "add": _plain("ADD", "Add"),
    "mul": _plain("MUL", "Mul"),
    "conv2d": _conv2d,
    "linear": _linear,
    "hardsigmoid": _hardsigmoid,
    "global_avg_pool2d": _mean,
    "max_pool2d": _max_pool2d,
    "reshape": _reshape,
    "softmax": _softmax,
}
