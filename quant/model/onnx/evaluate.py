"""A model that is run as it is read: operator by operator, on the tensors at hand.

Reading a graph, `Builder` records the calls of operations; here they are made at once,
by the same functions, so an operator has one meaning. All values are known then: what
a graph needs as a constant, such as a scale, may be computed by the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.errors import DataError, MdtensorError, ModelError, type_and_shape
from mdtensor.quant.dtypes import SYMMETRIC, qint32, quint8
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.grids import combine
from mdtensor.quant.model.graph import Node
from mdtensor.quant.model.onnx.build import ELEMENT_TYPES, Builder, Operator, all_inputs
from mdtensor.quant.model.onnx.elements import ELEMENTS, QUANTIZED, Element, magnitudes
from mdtensor.quant.model.onnx.operators import READERS
from mdtensor.quant.model.onnx.operators.manipulation import (
    cast as cast_to_plain,
    target_code,
)
from mdtensor.quant.model.onnx.operators.table import Reader
from mdtensor.quant.model.onnx.operators.windows import (
    conv_options,
    require_window_axes,
)
from mdtensor.quant.model.onnx.qdq import UINT8
from mdtensor.quant.model.onnx.read import (
    apply,
    initial_arrays,
    operator,
    operators_of,
    reader_of,
)
from mdtensor.quant.model.onnx.schemas import (
    check_attributes,
    check_types,
    definition,
    is_defined,
)
from mdtensor.quant.model.onnx.sizes import shape
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rules import rounding
from mdtensor.quant.tensor import quantized

Array = npt.NDArray[Any]
#: Operators whose results have the elements of their first input, moved about.
MOVES = frozenset({"Concat", "Expand", "Flatten", "Gather", "Identity", "Pad"})
MOVES |= {"Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}


# The backend runs the readers of graphs, so that ONNX's suite tests what the library
# runs (decision 0026).
class Evaluator(Builder):
    """A builder all of whose values are known."""

    def _add(
        self,
        name: str,
        operation: Any,
        inputs: tuple[Any, ...],
        output: str,
        options: dict[str, Any],
    ) -> str:
        node = Node(name, operation, all_inputs(operation, inputs), output, options)
        return self.constant(output, node(*node.arguments(self.constants)))

    def enter(self, name: str, array: Any) -> None:
        """Add an array from outside.

        Raises:
            DataError: no tensor holds its elements.
        """
        try:
            if not isinstance(array, (np.ndarray, np.generic)):
                raise TypeError
            super().enter(name, np.asarray(array))
        except (MdtensorError, TypeError, ValueError):
            given = type_and_shape(array)
            raise DataError(
                f"{name!r} is {given}, which no tensor holds",
                "Give an array of numbers",
            ) from None

    def result(self, name: str) -> Array:
        """A value as an array of the element type of the file."""
        array = np.asarray(self.constants[name])
        element = self.elements.get(name)
        return array if element is None else array.astype(element.dtype)

    def apply(self, op: Operator, readers: dict[str, Reader]) -> None:
        """Compute the results of one operator, if need be by its definition."""
        self.check(op)
        check_types(self, op)
        if op.kind not in readers and is_defined(op):
            for node, opset in definition(self, op):
                self.apply(operator(node, opset, Path()), readers)
            return
        apply(reader_of(op, readers), self, op)
        first = self.elements.get(op.inputs[0] or "") if op.inputs else None
        if first is not None and op.kind in MOVES:
            self.elements |= dict.fromkeys(filter(None, op.outputs), first)


class Evaluation:
    """A model, ready to run on any inputs.

    Args:
        model: the ModelProto.
        folder: where its external data lies.
        readers: what an operator means, where that is not what it means in a graph.

    Raises:
        ModelError: an operator that is not supported, or an attribute that it has not;
            the error names it, its node and the operator set.
    """

    def __init__(
        self, model: Any, readers: dict[str, Reader], folder: Path | None = None
    ) -> None:
        place = Path() if folder is None else folder
        self.readers = {**READERS, "Shape": shape, **readers}
        self.operators = operators_of(model, place)
        for op in self.operators:
            check_attributes(op)
            if not is_defined(op):
                reader_of(op, self.readers)
        self.arrays = initial_arrays(model.graph, place)
        names = [value.name for value in model.graph.input]
        self.inputs = [name for name in names if name not in self.arrays]
        self.outputs = [value.name for value in model.graph.output]

    def __call__(self, arrays: Sequence[Any]) -> list[Array]:
        """The outputs, in the order of the file, for inputs in its order."""
        if len(arrays) != len(self.inputs):
            listed = ", ".join(map(repr, self.inputs)) or "none"
            raise DataError(
                f"the model has the inputs {listed}, given are {len(arrays)}",
                "Give an array for each, in this order",
            )
        g = Evaluator()
        given = zip(self.inputs, arrays, strict=True)
        for name, array in [*self.arrays.items(), *given]:
            g.enter(name, array)
        with rounding("onnx"):
            for op in self.operators:
                g.apply(op, self.readers)
        for name in self.outputs:
            if name not in g.constants:
                raise ModelError(f"no node writes the output {name!r}")
        return [g.result(name) for name in self.outputs]


# Numbers as the nearest elements of types of floats with 8 bits or fewer.

#: What is beyond the largest number of a type, where it does not saturate.
BEYOND = {"float8_e5m2": np.inf}


def nearest(x: Any, element: Element, *, saturate: bool = True) -> Any:
    """The nearest number that a type of floats has, ties to the even one.

    Args:
        x: float32, any shape; a NaN stays one.
        element: the type of floats.
        saturate: what is beyond the largest number becomes that; otherwise infinity,
            or NaN in types that have none.

    Returns:
        Float32Tensor.

    Source: ONNX `Cast`.
    """
    known = magnitudes(element.code)
    beyond = 2 * known[-1] - known[-2]  # the next number, if there were one
    middles = md.asarray((known + np.append(known[1:], beyond)) / np.float32(2))
    flat = md.reshape(md.abs(x), shape=(-1,))
    below = md.searchsorted(middles, flat, side="left")
    above = md.searchsorted(middles, flat, side="right")  # differs on ties
    is_even = md.equal(md.remainder(below, 2), 0)
    last = known[-1] if saturate else BEYOND.get(element.storage, np.nan)
    values = md.asarray(np.append(known, np.float32(last)))
    found = md.take(values, md.where(is_even, below, above), axis=0)
    signed = md.copysign(md.reshape(found, shape=x.shape), x)
    return md.where(md.isnan(x), x, signed)


def _low_bits(x: Any, element: Element) -> Any:
    """Whole numbers as the integers that have their last bits."""
    low, high = element.range
    whole = md.astype(x, md.int64, casting="saturate")
    return md.astype(
        md.add(md.remainder(md.sub(whole, low), high + 1 - low), low), element.wide
    )


def cast(g: Builder, op: Operator) -> None:
    """To an element type that a wider one holds; anything else as in a graph."""
    element = ELEMENTS.get(target_code(g, op))
    if element is None:
        cast_to_plain(g, op)
        return
    if element.is_scale:
        raise op.error(f"gives {element}, powers of 2", "Keep scales in float32")
    x, output = g.constants[str(op.inputs[0])], op.outputs[0]
    if element.is_float:
        wide = md.astype(x, md.float32, casting="saturate")
        found = nearest(wide, element, saturate=bool(op.get("saturate", 1)))
    else:
        found = _low_bits(x, element)
    g.constant(output, found)
    g.elements[output] = element


# Operators on codes with their scales and zero points beside them, evaluated.
#
# In a file codes are plain integers, and each operator is told anew what they stand for.
# Here they become tensors on a grid for the time of one operation. Codes that no
# quantized type has, such as uint16, stand for the same numbers as steps from their zero
# point, which a 32-bit accumulator holds.

#: The arguments of a grid that say which scales there are, and where they lie.
Place = dict[str, Any]


def quantize_linear(g: Builder, op: Operator) -> None:
    code, narrow = _target(g, op), ELEMENTS.get(_target(g, op))
    x, place = _divide_by_scale(g, op)
    if narrow is not None and narrow.is_float:
        steps = md.div(x, _broadcast_along(place, place["scale"], x.shape))
        if op.input(2):  # 0, which makes -0 one too
            steps = md.add(
                steps, _broadcast_along(place, _zero_points(g, op, 2, place), x.shape)
            )
        codes = nearest(md.astype(steps, md.float32, casting="saturate"), narrow)
    else:
        codes = _round_to_codes(x, code, place, _zero_points(g, op, 2, place))
    g.constant(op.outputs[0], codes)
    if narrow is not None:
        g.elements[op.outputs[0]] = narrow


def _target(g: Builder, op: Operator) -> int:
    """The number of the element type that QuantizeLinear writes."""
    return g.code(op.input(2)) if op.input(2) else op.get("output_dtype", 0) or UINT8


def _divide_by_scale(g: Builder, op: Operator) -> tuple[Any, Place]:
    """What is to be rounded, as float32 or in the type that the file divides in.

    In another type than float32 the quotient is taken here, and the grid is of steps
    of 1.
    """
    place = _scale_place(g, op, 1)
    dtype = ELEMENT_TYPES[op.get("precision", 0) or g.code(str(op.inputs[1]))]
    x: Any = md.astype(g.constants[str(op.inputs[0])], dtype)
    if dtype is md.float32:
        return x, place
    divisor: Any = md.astype(_broadcast_along(place, place["scale"], x.shape), dtype)
    steps = np.ones_like(place["scale"], np.float32)
    return md.div(x, divisor), place | {"scale": steps}


def _round_to_codes(x: Any, code: int, place: Place, zeros: Any) -> Any:
    """The codes of numbers, as plain integers."""
    if _has_type(code, zeros):
        grid = QParams(**place, zero_point=zeros, dtype=QUANTIZED[code])
        return quantize(x, grid).codes
    steps = quantize(x, QParams(**place, dtype=qint32)).codes
    shift = md.astype(_broadcast_along(place, zeros, x.shape), md.int64)
    codes = md.add(md.astype(steps, md.int64), shift)
    if code in ELEMENTS:
        wide, (low, high) = ELEMENTS[code].wide, ELEMENTS[code].range
        return md.astype(md.clip(codes, min=low, max=high), wide)
    return md.astype(codes, ELEMENT_TYPES[code], casting="saturate")


def dequantize_linear(g: Builder, op: Operator) -> None:
    codes, place = g.constants[str(op.inputs[0])], _scale_place(g, op, 1)
    wanted = op.get("output_dtype", 0) or g.code(str(op.inputs[1]))
    if codes.dtype is md.float32:  # what it holds are small floats
        found = md.mul(codes, _broadcast_along(place, place["scale"], codes.shape))
    else:
        zeros = _zero_points(g, op, 2, place)
        found = dequantize(_make_quantized(g, str(op.inputs[0]), place, zeros))
    dtype = ELEMENT_TYPES[wanted]
    g.constant(op.outputs[0], md.astype(found, dtype, casting="wrap"))


def _scale_place(g: Builder, op: Operator, index: int, axis: int = 1) -> Place:
    """Where the scales of input `index` lie on the first input."""
    scales = np.asarray(g.require_array(op, index, "the scale"))
    ndim = len(g.shape(op.inputs[0]))
    if op.get("block_size", 0):
        axis = op.get("axis", axis) % ndim
        return {"scale": scales, "axis": axis, "block_size": op.get("block_size")}
    if scales.size == 1:
        return {"scale": scales.reshape(())}
    return {"scale": scales, "axis": op.get("axis", axis) % ndim}


def _zero_points(g: Builder, op: Operator, index: int, place: Place) -> Any:
    """The zero points, in the shape of the scales."""
    if not op.input(index):
        return np.zeros((), np.int64)
    given = np.asarray(g.require_array(op, index, "the zero point"))
    return given if "axis" in place else given.reshape(-1)[0]


def _broadcast_along(place: Place, values: Any, shape: tuple[int, ...]) -> Any:
    """Values for each scale as a tensor that broadcasts against one of `shape`."""
    steps = QParams(**place | {"scale": np.ones_like(place["scale"], np.float32)})
    found = np.broadcast_to(values, steps.scale.shape)
    return md.asarray(np.ascontiguousarray(steps.along(found, shape)))


def _has_type(code: int, zeros: Any) -> bool:
    """Whether there is a quantized type of these codes with these zero points."""
    dtype = QUANTIZED.get(code)
    return dtype is not None and not (dtype in SYMMETRIC and np.any(zeros))


def _make_quantized(g: Builder, name: str, place: Place, zeros: Any) -> Any:
    """The quantized tensor of an integer value."""
    codes, code = g.constants[name], g.code(name)
    if _has_type(code, zeros):
        grid = QParams(**place, zero_point=zeros, dtype=QUANTIZED[code])
        return quantized(np.asarray(codes), grid)
    shift = md.astype(_broadcast_along(place, zeros, codes.shape), md.int64)
    steps = md.astype(md.sub(md.astype(codes, md.int64), shift), md.int32)
    return quantized(np.asarray(steps), QParams(**place, dtype=qint32))


def dynamic_quantize_linear(g: Builder, op: Operator) -> None:
    """The grid that covers the numbers and 0; one of steps of 1 if all are 0."""
    x = g.constants[str(op.inputs[0])]
    low, high = md.minimum(md.min(x), 0.0), md.maximum(md.max(x), 0.0)
    scale = md.div(md.sub(high, low), 255.0)
    scale = md.where(md.equal(scale, 0.0), md.asarray(np.float32(1)), scale)
    zero = md.round(md.clip(md.neg(md.div(low, scale)), min=0.0, max=255.0))
    grid = QParams(np.asarray(scale), int(zero), dtype=quint8)
    results = (quantize(x, grid).codes, scale, md.astype(zero, md.uint8))
    for name, result in zip(op.outputs, results, strict=False):
        g.constant(name, result)


def _operand(g: Builder, op: Operator, x: int, axis: int) -> Any:
    """Input `x` of a QLinear operator; its scale and zero point are the next two.

    More than one scale lies along `axis`.
    """
    name, scales = (
        str(op.inputs[x]),
        np.asarray(g.require_array(op, x + 1, "the scale")),
    )
    place: Place = {"scale": scales.reshape(())} if scales.size == 1 else {}
    place = place or {"scale": scales.reshape(-1), "axis": axis}
    return _make_quantized(g, name, place, _zero_points(g, op, x + 2, place))


def _result_grid(g: Builder, op: Operator, scale: int) -> QParams:
    """The grid of the result of a QLinear operator."""
    step = np.asarray(g.require_array(op, scale, "the scale")).reshape(-1)[0]
    zero = np.asarray(g.require_array(op, scale + 1, "the zero point")).reshape(-1)[0]
    return QParams(step, zero, dtype=QUANTIZED[g.code(str(op.inputs[scale + 1]))])


def qlinear_matmul(g: Builder, op: Operator) -> None:
    last = len(g.shape(op.inputs[3])) - 1
    a, b = _operand(g, op, 0, len(g.shape(op.inputs[0])) - 2), _operand(g, op, 3, last)
    g.constant(op.outputs[0], md.matmul(a, b, out=_result_grid(g, op, 6)).codes)


def _convolve(
    g: Builder, op: Operator, x: Any, at: int, w: Any, bias: Any, **out: Any
) -> Any:
    """The codes of a convolution by the weights that are input `at`.

    Over one axis it is one over two, of which the first has one place.
    """
    options = conv_options(g, op, str(op.inputs[at])) | out
    if require_window_axes(op, w.shape[2:], (1, 2)) == 2:
        return md.conv2d(x, w, bias, **options).codes
    before, after = options["padding"]
    options["padding"] = (0, before, 0, after)
    options |= {name: (1, options[name]) for name in ("stride", "dilation")}
    image, weights = (md.expand_dims(tensor, axis=2) for tensor in (x, w))
    found: Any = md.conv2d(image, weights, bias, **options)
    return md.squeeze(found, axis=2).codes


def qlinear_conv(g: Builder, op: Operator) -> None:
    x, w, bias = _operand(g, op, 0, 1), _operand(g, op, 3, 0), None
    if op.input(8):
        sums = combine.of_products(x.qparams, w.qparams, 0)
        bias = quantized(np.asarray(g.constants[str(op.inputs[8])]), sums)
    g.constant(
        op.outputs[0], _convolve(g, op, x, 3, w, bias, out=_result_grid(g, op, 6))
    )


def _unscaled_operand(g: Builder, op: Operator, x: int, zero: int, axis: int) -> Any:
    """Input `x` on a grid of steps of 1, with the zero points of input `zero`."""
    zeros = _zero_points(g, op, zero, {"axis": axis})
    if zeros.size == 1:
        return _make_quantized(
            g, str(op.inputs[x]), {"scale": 1.0}, zeros.reshape(-1)[0]
        )
    place = {"scale": np.ones(zeros.size), "axis": axis}
    return _make_quantized(g, str(op.inputs[x]), place, zeros.reshape(-1))


def matmul_integer(g: Builder, op: Operator) -> None:
    a = _unscaled_operand(g, op, 0, 2, len(g.shape(op.inputs[0])) - 2)
    b = _unscaled_operand(g, op, 1, 3, len(g.shape(op.inputs[1])) - 1)
    g.constant(op.outputs[0], md.matmul(a, b).codes)


def conv_integer(g: Builder, op: Operator) -> None:
    x, w = _unscaled_operand(g, op, 0, 2, 1), _unscaled_operand(g, op, 1, 3, 0)
    g.constant(op.outputs[0], _convolve(g, op, x, 1, w, None))


QLINEAR_READERS: dict[str, Reader] = {
    "Cast": cast,
    "CastLike": cast,
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
}
