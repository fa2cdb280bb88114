"""ONNX models run operator by operator, while they are read.

To read a graph, `Builder` records the calls of operations. `Evaluator` runs the same
calls at once, made by the same reader functions, so an operator has one meaning. All
values are known while it runs. So the model may compute values that a graph needs as
constants, such as a scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.errors import DataError, MdtensorError, ModelError, type_and_shape
from mdtensor.graph import Node
from mdtensor.quant.dtypes import SYMMETRIC, qint32, quint8
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.grids import combine
from mdtensor.quant.model.onnx import packed
from mdtensor.quant.model.onnx.axes import normalize_axis, require_between
from mdtensor.quant.model.onnx.build import (
    ELEMENT_TYPES,
    Builder,
    Operator,
    all_inputs,
    errors_of,
)
from mdtensor.quant.model.onnx.elements import ELEMENTS, QUANTIZED, Element, magnitudes
from mdtensor.quant.model.onnx.files import check_model
from mdtensor.quant.model.onnx.functions import inline_functions
from mdtensor.quant.model.onnx.nodes import (
    defined,
    initial_arrays,
    names_in,
    operators_of,
)
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
from mdtensor.quant.model.onnx.qdq import UINT8, check_zero_points
from mdtensor.quant.model.onnx.read import reader_of
from mdtensor.quant.model.onnx.schemas import check_types, is_defined
from mdtensor.quant.model.onnx.sizes import shape
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rules import rounding
from mdtensor.quant.tensor import quantized

Array = npt.NDArray[Any]
#: Operators that rearrange the elements of their first input without changing them.
MOVES = frozenset({"Concat", "Expand", "Flatten", "Gather", "Identity", "Pad"})
MOVES |= {"Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
#: Types of inputs that may be a list of arrays, or None.
LISTS = ("sequence_type", "optional_type")


# The backend runs the readers of graphs, so that ONNX's suite tests what the library
# runs (decision 0026).
class Evaluator(Builder):
    """A builder that computes each value at once, so that all values are known."""

    def _add(
        self,
        name: str,
        operation: Any,
        inputs: tuple[Any, ...],
        output: str,
        options: dict[str, Any],
    ) -> str:
        """Run an operation on the known values, and store its result as a constant.

        Args:
            name: the name of the node, for errors.
            operation: the generic function.
            inputs: names of known values, and other arguments.
            output: the name of the result.
            options: keyword arguments of the call.

        Returns:
            `output`, the name of the constant.
        """
        node = Node(name, operation, all_inputs(operation, inputs), output, options)
        return self.constant(output, node(*node.arguments(self.constants)))

    def enter(self, name: str, array: Any) -> None:
        """Add an array that the caller or the file provides.

        Raises:
            DataError: the elements of `array` do not have a tensor type.
        """
        try:
            if not isinstance(array, (np.ndarray, np.generic)):
                raise TypeError
            super().enter(name, np.asarray(array))
        except (MdtensorError, TypeError, ValueError):
            given = type_and_shape(array)
            raise DataError(
                f"{name!r} is {given}, which a tensor cannot store",
                "Give an array of numbers",
            ) from None

    def enter_list(self, name: str, arrays: list[Any] | None) -> None:
        """Add a sequence that the caller provides, or an absent optional value."""
        if arrays is None:
            self.list(name, None)
            return
        names = [self.fresh(f"{name}.{at}") for at in range(len(arrays))]
        for one, array in zip(names, arrays, strict=True):
            self.enter(one, array)
        self.list(name, tuple(names))

    def result(self, name: str) -> Any:
        """Return a value as an array of its element type in the file.

        A sequence is a list of arrays, and an absent optional value is None.
        """
        if name in self.lists:
            parts = self.lists[name]
            return None if parts is None else [self.result(part) for part in parts]
        array = np.asarray(self.constants[name])
        element = self.elements.get(name)
        return array if element is None else array.astype(element.dtype)

    def apply(self, op: Operator, readers: dict[str, Reader]) -> None:
        """Compute the outputs of one operator.

        If the operator does not have a reader, the operators of its definition run.
        """
        with errors_of(op):
            self.check(op)
            check_types(self, op)
            if op.kind not in readers and is_defined(op):
                for inner in defined(self, op):
                    self.apply(inner, readers)
                return
            reader_of(op, readers)(self, op)
        # Readers compute on the wide type; moved elements keep their type in the file.
        first = self.elements.get(op.inputs[0] or "") if op.inputs else None
        if first is not None and op.kind in MOVES:
            self.elements |= dict.fromkeys(filter(None, op.outputs), first)


class Evaluation:
    """A model, ready to run on any inputs.

    Args:
        model: the ModelProto.
        readers: readers that replace the graph's reader of the same operator.
        folder: the folder with its external data; by default the current one.

    Raises:
        ModelError: an operator is not supported, or does not have one of its
            attributes; the error names the operator, its node and the operator set.
    """

    def __init__(
        self, model: Any, readers: dict[str, Reader], folder: Path | None = None
    ) -> None:
        check_model(model, "the ModelProto")
        model, place = inline_functions(model), folder or Path()
        self.readers = {**READERS, **packed.READERS, "Shape": shape, **readers}
        self.operators = operators_of(model, place)
        for op in self.operators:
            if not is_defined(op):
                reader_of(op, self.readers)
        self.arrays = initial_arrays(model.graph, place)
        names = [value.name for value in model.graph.input]
        self.inputs = [name for name in names if name not in self.arrays]
        kinds = {v.name: v.type.WhichOneof("value") for v in model.graph.input}
        self.lists = {name for name, kind in kinds.items() if kind in LISTS}
        self.outputs = [value.name for value in model.graph.output]
        self.reserved = names_in(model.graph)

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs in the order of the file, for inputs in its order."""
        if len(arrays) != len(self.inputs):
            listed = ", ".join(map(repr, self.inputs)) or "none"
            raise DataError(
                f"the model has the inputs {listed}, but got {len(arrays)} arrays",
                "Pass one array for each input, in this order",
            )
        g = Evaluator(reserved=self.reserved, read=self._read)
        given = zip(self.inputs, arrays, strict=True)
        for name, array in [*self.arrays.items(), *given]:
            is_list = array is None or isinstance(array, list)
            enter = g.enter_list if is_list and name in self.lists else g.enter
            enter(name, array)
        # ONNX's own cases compare bytes, so use its rounding rule (decision 0026).
        with rounding("onnx"):
            for op in self.operators:
                g.apply(op, self.readers)
        for name in self.outputs:
            if name in g.texts:
                problem = f"writes {name!r}, which is text and cannot be a tensor"
                raise g.texts[name].error(problem, "Omit the output")
            if name not in g.constants and name not in g.lists:
                raise ModelError(f"no node writes the output {name!r}")
        return [g.result(name) for name in self.outputs]

    def _read(self, g: Evaluator, op: Operator) -> None:
        """Run a node of a graph inside of a node."""
        g.apply(op, self.readers)


# Rounding to floating-point types of at most 8 bits.

#: The result past the largest number of types that do not saturate; else NaN.
BEYOND = {"float8_e5m2": np.inf}


def nearest(x: Any, element: Element, *, saturate: bool = True) -> Any:
    """Round numbers to a floating-point type of at most 8 bits, ties to even.

    Args:
        x: float32, any shape; a NaN stays one.
        element: the floating-point type.
        saturate: numbers past the largest one become the largest; otherwise they
            become infinity, or NaN if the type does not have infinities.

    Returns:
        Float32Tensor.

    Source: ONNX `Cast`.
    """
    known = magnitudes(element.code)
    # Overflow begins half a step past the largest number, as if one more number
    # followed.
    beyond = 2 * known[-1] - known[-2]
    middles = md.asarray((known + np.append(known[1:], beyond)) / np.float32(2))
    flat = md.reshape(md.abs(x), shape=(-1,))
    below = md.searchsorted(middles, flat, side="left")
    # The two searches differ only on ties; numbers at even positions are the even ones.
    above = md.searchsorted(middles, flat, side="right")
    is_even = md.equal(md.remainder(below, 2), 0)
    last = known[-1] if saturate else BEYOND.get(element.storage, np.nan)
    values = md.asarray(np.append(known, np.float32(last)))
    found = md.take(values, md.where(is_even, below, above), axis=0)
    signed = md.copysign(md.reshape(found, shape=x.shape), x)
    return md.where(md.isnan(x), x, signed)


def _low_bits(x: Any, element: Element) -> Any:
    """Convert whole numbers to the integers with the same low bits."""
    low, high = element.range
    whole = md.astype(x, md.int64, casting="saturate")
    return md.astype(
        md.add(md.remainder(md.sub(whole, low), high + 1 - low), low), element.wide
    )


def cast(g: Builder, op: Operator) -> None:
    """Cast to an element type that a wider one stores; other types as in a graph."""
    element = ELEMENTS.get(target_code(g, op))
    if element is None:
        cast_to_plain(g, op)
        return
    if element.is_scale:
        raise op.error(
            f"casts to {element}, which has only powers of 2", "Keep scales in float32"
        )
    x, output = g.constants[str(op.inputs[0])], op.outputs[0]
    if element.is_float:
        wide = md.astype(x, md.float32, casting="saturate")
        found = nearest(wide, element, saturate=bool(op.get("saturate", 1)))
    else:
        found = _low_bits(x, element)
    g.constant(output, found)
    g.elements[output] = element


# Evaluation of operators that take scales and zero points as further inputs.
#
# In a file codes are plain integers, and every operator has inputs for their scale and
# zero point. Here they become quantized tensors for the time of one operation. Codes
# without a quantized type, such as uint16, become int32 codes with the zero point
# subtracted, which stand for the same numbers.

#: The arguments of `QParams` for the scales: `scale`, and `axis`, `block_size` if any.
Place = dict[str, Any]


def quantize_linear(g: Builder, op: Operator) -> None:
    """Read QuantizeLinear."""
    code, narrow = _target(g, op), ELEMENTS.get(_target(g, op))
    x, place = _divide_by_scale(g, op)
    if narrow is not None and narrow.is_float:
        steps = md.div(x, _broadcast_along(place, place["scale"], x.shape))
        # The zero point of a float type is 0; adding it turns -0 into 0, as ONNX does.
        if op.input(2):
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
    """Return the ONNX number of the element type that QuantizeLinear writes."""
    return g.code(op.input(2)) if op.input(2) else op.get("output_dtype", 0) or UINT8


def _divide_by_scale(g: Builder, op: Operator) -> tuple[Any, Place]:
    """Return the values to round and the scales of their grid.

    QuantizeLinear may divide in a type other than float32. In that case this function
    divides, and the scales that it returns are 1.
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
    """Round values to codes, and return the codes as plain integers."""
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
    """Dequantize codes, all of which are known, and add the result as a constant."""
    codes, place = g.constants[str(op.inputs[0])], _scale_place(g, op, 1)
    wanted = op.get("output_dtype", 0) or g.code(str(op.inputs[1]))
    # float32 here stores floats of at most 8 bits, for which the scale is a factor.
    if codes.dtype is md.float32:
        found = md.mul(codes, _broadcast_along(place, place["scale"], codes.shape))
    else:
        zeros = _zero_points(g, op, 2, place)
        found = dequantize(_make_quantized(g, str(op.inputs[0]), place, zeros))
    dtype = ELEMENT_TYPES[wanted]
    g.constant(op.outputs[0], md.astype(found, dtype, casting="wrap"))


def _scale_place(g: Builder, op: Operator, index: int, axis: int = 1) -> Place:
    """Return the scales in input `index`, and where they lie on the first input."""
    scales = np.asarray(g.require_array(op, index, "the scale"))
    block, ndim = op.get("block_size", 0), len(g.shape(op.inputs[0]))
    if scales.size == 1 and not block:
        return {"scale": scales.reshape(())}
    require_between(op, block, 0, np.inf, "block_size")
    axis = normalize_axis(op, op.get("axis", axis), ndim)
    place: Place = {"scale": scales, "axis": axis}
    return place | {"block_size": block} if block else place


def _zero_points(g: Builder, op: Operator, index: int, place: Place) -> Any:
    """Return the zero points in input `index`, in the shape of the scales."""
    if not op.input(index):
        return np.zeros((), np.int64)
    given = np.asarray(g.require_array(op, index, "the zero point"))
    if "scale" in place:
        check_zero_points(op, np.asarray(place["scale"]), given)
    return given if "axis" in place else given.reshape(-1)[0]


def _broadcast_along(place: Place, values: Any, shape: tuple[int, ...]) -> Any:
    """Arrange one value per scale as a tensor that broadcasts against `shape`."""
    steps = QParams(**place | {"scale": np.ones_like(place["scale"], np.float32)})
    found = np.broadcast_to(values, steps.scale.shape)
    return md.asarray(np.ascontiguousarray(steps.along(found, shape)))


def _has_type(code: int, zeros: Any) -> bool:
    """Return whether a quantized type supports these codes with these zero points."""
    dtype = QUANTIZED.get(code)
    return dtype is not None and not (dtype in SYMMETRIC and np.any(zeros))


def _make_quantized(g: Builder, name: str, place: Place, zeros: Any) -> Any:
    """Return the quantized tensor of an integer value.

    Codes without a quantized type are stored as int32, after subtracting the zero
    point.
    """
    codes, code = g.constants[name], g.code(name)
    if _has_type(code, zeros):
        grid = QParams(**place, zero_point=zeros, dtype=QUANTIZED[code])
        return quantized(np.asarray(codes), grid)
    # In int64, because unsigned codes minus their zero point may be negative.
    shift = md.astype(_broadcast_along(place, zeros, codes.shape), md.int64)
    steps = md.astype(md.sub(md.astype(codes, md.int64), shift), md.int32)
    return quantized(np.asarray(steps), QParams(**place, dtype=qint32))


def dynamic_quantize_linear(g: Builder, op: Operator) -> None:
    """Quantize to the grid that covers all elements and 0.

    If all elements are 0, the scale is 1.
    """
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
    """Return input `x` of a QLinear operator as a quantized tensor.

    The next two inputs are its scale and its zero point. If there are several scales,
    they lie along `axis`.
    """
    name, scales = (
        str(op.inputs[x]),
        np.asarray(g.require_array(op, x + 1, "the scale")),
    )
    place: Place = {"scale": scales.reshape(())} if scales.size == 1 else {}
    place = place or {"scale": scales.reshape(-1), "axis": axis}
    return _make_quantized(g, name, place, _zero_points(g, op, x + 2, place))


def _result_grid(g: Builder, op: Operator, scale: int) -> QParams:
    """Return the grid of the result of a QLinear operator."""
    step = np.asarray(g.require_array(op, scale, "the scale")).reshape(-1)[0]
    zero = np.asarray(g.require_array(op, scale + 1, "the zero point")).reshape(-1)[0]
    return QParams(step, zero, dtype=QUANTIZED[g.code(str(op.inputs[scale + 1]))])


def qlinear_matmul(g: Builder, op: Operator) -> None:
    """Read QLinearMatMul."""
    # ONNX has scales per row of A and per column of B.
    last = len(g.shape(op.inputs[3])) - 1
    a, b = _operand(g, op, 0, len(g.shape(op.inputs[0])) - 2), _operand(g, op, 3, last)
    g.constant(op.outputs[0], md.matmul(a, b, out=_result_grid(g, op, 6)).codes)


def _convolve(
    g: Builder, op: Operator, x: Any, at: int, w: Any, bias: Any, **out: Any
) -> Any:
    """Convolve `x` with `w` and return the codes; input `at` has the weights.

    A convolution over one axis runs over two, with an added first axis of size 1.
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
    """Read QLinearConv."""
    x, w, bias = _operand(g, op, 0, 1), _operand(g, op, 3, 0), None
    if op.input(8):
        sums = combine.of_products(x.qparams, w.qparams, 0)
        bias = quantized(np.asarray(g.constants[str(op.inputs[8])]), sums)
    g.constant(
        op.outputs[0], _convolve(g, op, x, 3, w, bias, out=_result_grid(g, op, 6))
    )


def _unscaled_operand(g: Builder, op: Operator, x: int, zero: int, axis: int) -> Any:
    """Return input `x` on a grid with scale 1 and the zero points in input `zero`."""
    zeros = _zero_points(g, op, zero, {"axis": axis})
    if zeros.size == 1:
        return _make_quantized(
            g, str(op.inputs[x]), {"scale": 1.0}, zeros.reshape(-1)[0]
        )
    place = {"scale": np.ones(zeros.size), "axis": axis}
    return _make_quantized(g, str(op.inputs[x]), place, zeros.reshape(-1))


def matmul_integer(g: Builder, op: Operator) -> None:
    """Read MatMulInteger."""
    a = _unscaled_operand(g, op, 0, 2, len(g.shape(op.inputs[0])) - 2)
    b = _unscaled_operand(g, op, 1, 3, len(g.shape(op.inputs[1])) - 1)
    g.constant(op.outputs[0], md.matmul(a, b).codes)


def conv_integer(g: Builder, op: Operator) -> None:
    """Read ConvInteger."""
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
