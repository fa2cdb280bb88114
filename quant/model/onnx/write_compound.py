"""Operations that one operator of ONNX does not express, written as several.

`load` reads operators that give the same bytes. Other runtimes give the same elements,
except where they sum in another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.errors import ModelError, written
from mdtensor.extend import normalize_axes
from mdtensor.graph import Node
from mdtensor.quant.model.onnx.write_operators import (
    FAR,
    Sink,
    element_code,
    emits,
    normalize,
    real_storage,
)

Array = npt.NDArray[Any]
_NARROW = (md.float16, md.bfloat16)


def _widened(sink: Sink, node: Node, inputs: list[str]) -> list[str]:
    """Return the inputs in float32 if they are narrower floats: results round once."""
    if sink.specs[node.values[0]].dtype not in _NARROW:
        return inputs
    return [sink.emit("Cast", [x], to=element_code(md.float32)) for x in inputs]


def _storage(sink: Sink, node: Node) -> Any:
    """Return the NumPy dtype of constants next to what `_widened` returns."""
    spec = sink.specs[node.values[0]]
    narrow = spec.dtype in _NARROW
    return np.dtype(np.float32) if narrow else real_storage(spec)


def _narrowed(sink: Sink, node: Node, kind: str, inputs: list[str]) -> None:
    """Write the last operator, and the cast to the type of the result."""
    to = sink.specs[node.output].dtype
    if to in _NARROW:
        sink.result("Cast", [sink.emit(kind, inputs)], to=element_code(to))
    else:
        sink.result(kind, inputs)


@emits(md.flip)
def flip(sink: Sink, node: Node, inputs: list[str]) -> None:
    axes = normalize_axes(node.options.get("axis"), sink.specs[node.inputs[0]].ndim)
    if not axes:
        sink.result("Identity", inputs)
        return
    bounds = (np.full(len(axes), n, np.int64) for n in (FAR, -FAR))
    steps = np.full(len(axes), -1, np.int64)
    parts = (*bounds, np.array(axes, np.int64), steps)
    sink.result("Slice", [*inputs, *map(sink.constant, parts)])


@emits(md.trunc)
def trunc(sink: Sink, node: Node, inputs: list[str]) -> None:
    if not sink.specs[node.inputs[0]].dtype.is_floating:
        sink.result("Identity", inputs)
        return
    (x,) = _widened(sink, node, inputs)
    zero = sink.constant(np.array(0, _storage(sink, node)))
    # Where of ONNX Runtime loses the sign of a zero in its second input.
    is_above = sink.emit("Greater", [x, zero])
    parts = (sink.emit(kind, [x]) for kind in ("Floor", "Ceil"))
    _narrowed(sink, node, "Where", [is_above, *parts])


@emits(md.isinf)
def isinf(sink: Sink, node: Node, inputs: list[str]) -> None:
    if not sink.specs[node.inputs[0]].dtype.is_floating:
        sink.result("Not", [sink.emit("Equal", inputs * 2)])
        return
    sink.result("IsInf", _widened(sink, node, inputs))


@emits(md.isfinite)
def isfinite(sink: Sink, node: Node, inputs: list[str]) -> None:
    if not sink.specs[node.inputs[0]].dtype.is_floating:
        sink.result("Equal", inputs * 2)
        return
    wide = _widened(sink, node, inputs)
    either = [sink.emit("IsInf", wide), sink.emit("IsNaN", wide)]
    sink.result("Not", [sink.emit("Or", either)])


@emits(md.copysign)
def copysign(sink: Sink, node: Node, inputs: list[str]) -> None:
    size, spec = sink.emit("Abs", inputs[:1]), sink.specs[node.values[0]]
    zero, one = (sink.constant(real_storage(spec).type(n)) for n in (0, 1))
    # The reciprocal of -0.0 is negative, and -0.0 itself is not.
    each = [inputs[1], sink.emit("Div", [one, inputs[1]])]
    is_negative = sink.emit("Or", [sink.emit("Less", [x, zero]) for x in each])
    sink.result("Where", [is_negative, sink.emit("Neg", [size]), size])


@emits(md.remainder)
def remainder(sink: Sink, node: Node, inputs: list[str]) -> None:
    if sink.specs[node.output].dtype.is_integer:
        sink.result("Mod", inputs)
        return
    x, y = _widened(sink, node, inputs)
    rest, has_other_sign = _rest(sink, node, x, y)
    zero = sink.constant(_storage(sink, node).type(0))
    low = sink.constant(_storage(sink, node).type(-0.0))
    shifted = sink.emit("Add", [rest, y])
    found = sink.emit("Where", [has_other_sign, shifted, rest])
    # A rest of 0 has the sign of the divisor.
    signed = sink.emit("Where", [sink.emit("Less", [y, zero]), low, zero])
    is_zero = sink.emit("Equal", [rest, zero])
    _narrowed(sink, node, "Where", [is_zero, signed, found])


def _rest(sink: Sink, node: Node, x: str, y: str) -> tuple[str, str]:
    """Write the rest with the sign of x, and whether y has the other sign."""
    zero = sink.constant(_storage(sink, node).type(0))
    rest = sink.emit("Mod", [x, y], fmod=1)
    signs = [sink.emit("Less", [value, zero]) for value in (rest, y)]
    has_rest = sink.emit("Not", [sink.emit("Equal", [rest, zero])])
    return rest, sink.emit("And", [has_rest, sink.emit("Xor", signs)])


@emits(md.floor_divide)
def floor_divide(sink: Sink, node: Node, inputs: list[str]) -> None:
    if sink.specs[node.output].dtype.is_integer:
        # Exact: the difference is a multiple of the divisor.
        whole = sink.emit("Sub", [inputs[0], sink.emit("Mod", inputs)])
        sink.result("Div", [whole, inputs[1]])
        return
    x, y = _widened(sink, node, inputs)
    rest, is_below = _rest(sink, node, x, y)
    storage = _storage(sink, node)
    zero, one, half = (sink.constant(storage.type(n)) for n in (0, 1, 0.5))
    exact = sink.emit("Div", [sink.emit("Sub", [x, rest]), y])
    exact = sink.emit("Where", [is_below, sink.emit("Sub", [exact, one]), exact])
    floor = sink.emit("Floor", [exact])
    # The division may round up to just below an integer.
    is_short = sink.emit("Greater", [sink.emit("Sub", [exact, floor]), half])
    floor = sink.emit("Where", [is_short, sink.emit("Add", [floor, one]), floor])
    quotient = sink.emit("Div", [x, y])
    signed = sink.emit("Mul", [quotient, zero])
    floor = sink.emit("Where", [sink.emit("Equal", [exact, zero]), signed, floor])
    # The rest of an infinite operand, or by 0, is not a number.
    ends = [sink.emit("IsInf", [value]) for value in (x, y)]
    is_end = sink.emit("Or", [sink.emit("Or", ends), sink.emit("Equal", [y, zero])])
    at_end = sink.emit("Floor", [quotient])
    _narrowed(sink, node, "Where", [is_end, at_end, floor])


@emits(md.var, md.std)
def spread(sink: Sink, node: Node, inputs: list[str]) -> None:
    """Write the mean of the squared distances from the mean, or its root."""
    spec = sink.specs[node.inputs[0]]
    axes = normalize_axes(node.options.get("axis"), spec.ndim)
    keepdims = bool(node.options.get("keepdims", False))
    (x,), storage = _widened(sink, node, inputs), _storage(sink, node)
    distance = sink.emit("Sub", [x, _reduced(sink, "ReduceMean", x, axes, True)])
    total = sink.emit("Mul", [distance] * 2)
    if axes:
        total = _reduced(sink, "ReduceSum", total, axes, keepdims)
    count = 1
    for axis in axes:
        if spec.shape[axis] < 0:
            raise ModelError(
                f"node {node.name!r} counts the elements of a dynamic size",
                f"Load the model with {written('input_shapes')}",
            )
        count *= spec.shape[axis]
    freedom = count - float(node.options.get("correction", 0.0))
    # Without freedom, the variance is not a number.
    divisor = sink.constant(storage.type(freedom if freedom > 0 else np.nan))
    if node.operation is md.var:
        _narrowed(sink, node, "Div", [total, divisor])
    else:
        _narrowed(sink, node, "Sqrt", [sink.emit("Div", [total, divisor])])


def _reduced(
    sink: Sink, kind: str, x: str, axes: tuple[int, ...], keepdims: bool
) -> str:
    """Write a reduction over axes, an attribute or an input by operator set."""
    if not axes:
        return x
    if kind == "ReduceMean" and sink.opset < 18:
        return sink.emit(kind, [x], axes=axes, keepdims=int(keepdims))
    over = sink.constant(np.array(axes, np.int64))
    return sink.emit(kind, [x, over], keepdims=int(keepdims))


@emits(md.rms_norm)
def rms_norm(sink: Sink, node: Node, inputs: list[str]) -> None:
    shape = node.options["normalized_shape"]
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    eps = node.options.get("eps")
    if eps is None:
        # That of the type in which the kernel computes.
        eps = np.finfo(_storage(sink, node)).eps
    # The operator takes a weight and no bias.
    options = {"eps": float(eps), "axis": -len(sizes)}
    normalize(sink, node, inputs, "RMSNormalization", sizes, neutral=(1,), **options)


@emits(md.argsort, md.sort)
def order(sink: Sink, node: Node, inputs: list[str]) -> None:
    """Write TopK of all elements; of equal ones it returns the first before."""
    spec = sink.specs[node.inputs[0]]
    (axis,) = normalize_axes(node.options.get("axis", -1), spec.ndim)
    if spec.shape[axis] < 0:
        raise ModelError(
            f"node {node.name!r} sorts an axis of dynamic size",
            f"Load the model with {written('input_shapes')}",
        )
    largest = int(bool(node.options.get("descending", False)))
    count = sink.constant(np.array([spec.shape[axis]], np.int64))
    given = [*inputs, count]
    found = sink.parts("TopK", given, 2, axis=axis, largest=largest, sorted=1)
    sink.result("Identity", [found[node.operation is md.argsort]])


#: The attributes of Resize for each mode of `interpolate`.
_RESIZED: dict[str, dict[str, Any]] = {
    "nearest": {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    },
    "nearest-exact": {
        "mode": "nearest",
        "coordinate_transformation_mode": "half_pixel",
        "nearest_mode": "round_prefer_ceil",
    },
    "bilinear": {"mode": "linear"},
    "bicubic": {"mode": "cubic", "cubic_coeff_a": -0.75},
}


@emits(md.interpolate)
def interpolate(sink: Sink, node: Node, inputs: list[str]) -> None:
    options = dict(_RESIZED[node.options.get("mode", "nearest")])
    if node.options.get("align_corners"):
        options["coordinate_transformation_mode"] = "align_corners"
    if (factor := node.options.get("scale_factor")) is not None:
        scales = sink.constant(np.array([1, 1, *_factors(node, factor)], np.float32))
        sink.result("Resize", [*inputs, "", scales], **options)
        return
    # ONNX Runtime moves the channels of a Resize of codes, and forgets its `axes`.
    shape = sink.specs[node.output].shape
    if min(shape[:2]) < 0:
        shape, options = shape[2:], {**options, "axes": (2, 3)}
    sizes = sink.constant(np.array(shape, np.int64))
    sink.result("Resize", [*inputs, "", "", sizes], **options)


def _factors(node: Node, factor: Any) -> Array:
    """Return the factors of both axes as float32, which must represent them."""
    wanted = np.broadcast_to(np.asarray(factor, np.float64), 2)
    scales: Array = wanted.astype(np.float32)
    if (scales != wanted).any():
        raise ModelError(
            f"node {node.name!r} scales by {factor}, which float32 does not represent",
            "Use interpolate(x, size=...)",
        )
    return scales
