"""Compiled steps of float32 operations, for plans of models.

Each function gets the specs of the arguments of an operation, or the tensors of
constants, and returns a step; see `kernels/cpu/program/floats.py`. Images are channels
last in a plan. Functions raise OptionError for what no step computes; a plan then calls
the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

import numpy as np

from mdtensor.dtypes import (
    bfloat16,
    bool_,
    dtype as find_dtype,
    float16,
    float32,
    int8,
    int16,
    uint8,
    uint16,
)
from mdtensor.errors import OptionError
from mdtensor.generics.normalization import last_sizes
from mdtensor.spec.options import flag, number
from mdtensor.spec.shapes import normalize_axis
from mdtensor.spec.spec import TensorSpec
from mdtensor.spec.windows import Window, conv_window, pool_window
from mdtensor.tensor import Tensor


def program() -> Any:
    """Return the module of the steps; it loads numba, so it loads on use."""
    from mdtensor.kernels.cpu.program import floats

    return floats


#: Other types whose values a compiled part holds as float32, which is exact: bools as
#: 1 and 0, and integers that have no more bits than a float32 has digits.
HELD = (bool_, uint8, int8, uint16, int16)


def require_float32(*given: Any) -> None:
    """Raise unless every spec and constant is a float32 of the host."""
    for x in given:
        kind = x.type if isinstance(x, TensorSpec) else type(x)
        if kind.dtype is not float32 or kind.device.name != "cpu":
            raise OptionError(f"a compiled step takes float32, not {kind.__name__}")


def require_single(x: Any) -> None:
    """Raise unless a compiled part holds x as float32: see `AS_FLOATS` of the graph."""
    if not (isinstance(x, TensorSpec) and x.dtype in HELD and x.device.name == "cpu"):
        require_float32(x)


def require_constant(*given: Any) -> None:
    """Raise unless every argument is a float32 tensor."""
    require_float32(*given)
    if any(isinstance(x, TensorSpec) for x in given):
        raise OptionError("kernels need constant weights and biases")


def require_constant_integers(*given: Any) -> None:
    """Raise unless every argument is a tensor of the host with 8-bit integers."""
    for x in given:
        if isinstance(x, TensorSpec) or x.dtype not in (int8, uint8):
            raise OptionError("kernels need constant weights of 8 bits")
        if x.device.name != "cpu":
            raise OptionError("a compiled step takes weights of the host")


def conv2d_step(
    x: TensorSpec,
    w: Any,
    b: Any,
    /,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
) -> Any:
    """Return the step of a convolution with constant weights."""
    require_float32(x)
    require_constant(w, *([] if b is None else [b]))
    window = conv_window(w.shape, stride, padding, dilation)
    options = {"stride": window.stride, "padding": window.padding}
    options |= {"dilation": window.dilation}
    bias = None if b is None else b.buffer
    require_sizes(x, w)
    return program().Conv2d(w.buffer, bias, **options, groups=groups)


def linear_step(x: TensorSpec, w: Any, b: Any, /) -> Any:
    """Return the step of a linear layer with constant weights."""
    require_float32(x)
    require_constant(w, *([] if b is None else [b]))
    require_sizes(x, w)
    return program().Linear(w.buffer, None if b is None else b.buffer)


def matmul_step(x: TensorSpec, w: Any, /) -> Any:
    """Return the step of a product of matrices, of which one may be constant."""
    require_float32(x, w)
    if x.ndim < 2 or w.ndim < 2:
        raise OptionError("a compiled product has matrices on both sides")
    require_sizes(x, w)
    if not isinstance(x, TensorSpec):
        return _left_product(x, w)
    if isinstance(w, TensorSpec):
        return program().MatMul()
    if w.ndim > x.ndim or prod(w.shape[:-2]) > 1:
        raise OptionError("a compiled product has one constant matrix")
    return program().Linear(w.buffer.reshape(w.shape[-2:]).T)


def _left_product(x: Any, w: Any) -> Any:
    """Return the step of a product whose left matrices are constant."""
    if isinstance(w, TensorSpec) and w.ndim == 2:
        # All matrices of the stack meet the same one, so they are one matrix.
        return program().LeftLinear(x.buffer)
    if not isinstance(w, TensorSpec) or x.ndim > w.ndim or prod(x.shape[:-2]) > 1:
        raise OptionError("a compiled product has one constant matrix")
    return program().LeftLinear(x.buffer.reshape(x.shape[-2:]))


def layer_norm_step(
    x: TensorSpec,
    weight: Any,
    bias: Any,
    /,
    *,
    normalized_shape: object,
    eps: object,
) -> Any:
    """Return the step of a normalization with constant weights."""
    return _normalize(x, weight, bias, normalized_shape, True, number(eps, "eps"))


def rms_norm_step(
    x: TensorSpec, weight: Any, /, *, normalized_shape: object, eps: object
) -> Any:
    """Return the step of a normalization with constant weights."""
    least = float(np.finfo(np.float32).eps) if eps is None else number(eps, "eps")
    return _normalize(x, weight, None, normalized_shape, False, least)


def _normalize(
    x: TensorSpec,
    weight: Any,
    bias: Any,
    normalized_shape: object,
    is_centered: bool,
    eps: float,
) -> Any:
    given = [one for one in (weight, bias) if one is not None]
    require_float32(x)
    require_constant(*given)
    require_sizes(x)
    length = prod(last_sizes(normalized_shape))
    arrays = [None if one is None else one.buffer.reshape(-1) for one in (weight, bias)]
    return program().Normalize(length, is_centered, eps, *arrays)


def require_sizes(*given: Any) -> None:
    """Raise unless every value has at least one element."""
    if any(0 in x.shape for x in given):
        raise OptionError("a compiled step takes at least one element")


def max_pool2d_step(
    x: TensorSpec,
    /,
    *,
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
) -> Any:
    """Return the step of a maximum in each window."""
    require_float32(x)
    require_sizes(x)
    window = pool_window(kernel_size, stride, padding)
    height, width = x.shape[2:]
    sizes = window.slide(height, width, ceil_mode=ceil_mode)
    # Padding never wins, so the windows that ceil_mode adds may lie in it.
    more = _reach(window, x.shape[2:], sizes)
    return program().MaxPool(window.kernel, window.stride, more)


def _reach(
    window: Window, given: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the padding with which a window has so many positions, and no more."""
    first = window.padding[:2]
    last = (
        max(old, (count - 1) * stride + kernel - size - before)
        for old, count, stride, kernel, size, before in zip(
            *(window.padding[2:], sizes, window.stride, window.kernel, given, first),
            strict=True,
        )
    )
    return (*first, *last)


def avg_pool2d_step(
    x: TensorSpec,
    /,
    *,
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Any:
    """Return the step of a mean in each window."""
    require_float32(x)
    require_sizes(x)
    window, (height, width) = pool_window(kernel_size, stride, padding), x.shape[2:]
    plain, is_longer = window.slide(height, width), flag(ceil_mode, "ceil_mode")
    if is_longer and window.slide(height, width, ceil_mode=True) != plain:
        raise OptionError("a compiled mean has no windows that ceil_mode adds")
    counts = flag(count_include_pad, "count_include_pad")
    return program().AvgPool(
        window.kernel, window.stride, window.padding, count_include_pad=counts
    )


def global_avg_pool2d_step(x: TensorSpec, /) -> Any:
    """Return the step of the mean of each channel."""
    require_float32(x)
    require_sizes(x)
    return program().Mean()


def softmax_step(x: TensorSpec, /, *, axis: int) -> Any:
    """Return the step of a softmax along an axis."""
    require_float32(x)
    require_sizes(x)
    if not x.ndim:
        raise OptionError("a compiled softmax has an axis")
    return program().Softmax(normalize_axis(axis, x.ndim) - x.ndim)


# Elementwise operations.


def unary_step(name: str, **numbers: float) -> Callable[..., Any]:
    """Return the function that prepares one instruction on one value.

    Args:
        name: of the operation, in the modules of the kernels.
        numbers: `low` and `high` of the instruction.
    """

    def prepare(x: TensorSpec, /) -> Any:
        require_float32(x)
        return _unary(name, **numbers)

    return prepare


def _unary(name: str, **numbers: float) -> Any:
    floats = program()
    return floats.Elementwise(floats.Instruction(operation(name), **numbers))


def operation(name: str) -> int:
    """Return the number of an instruction."""
    from mdtensor.kernels.cpu.generic import opcodes

    if hasattr(opcodes, name):
        found: int = getattr(opcodes, name)
        return found
    raise OptionError(f"no instruction is called {name}")


#: Instructions that round to the numbers of a narrower type.
NARROW = {float16: "TO_FLOAT16", bfloat16: "TO_BFLOAT16"}


def reduce_precision_step(x: TensorSpec, dtype: Any, /) -> Any:
    """Return the step of a rounding to float16 or bfloat16."""
    require_float32(x)
    name = NARROW.get(find_dtype(dtype))
    if name is None:
        raise OptionError("a compiled rounding is to float16 or bfloat16")
    return _unary(name)


def clip_step(x: TensorSpec, /, *, min: Any, max: Any) -> Any:
    """Return the step of limits that are numbers."""
    require_float32(x)
    low, high = _number(min, -inf), _number(max, inf)
    if low is None or high is None or low > high:
        raise OptionError("compiled limits are two ordered numbers")
    return _unary("CLAMP", low=low, high=high)


def hardtanh_step(x: TensorSpec, /, *, min_val: Any, max_val: Any) -> Any:
    """Return the step of limits that are numbers."""
    return clip_step(x, min=min_val, max=max_val)


def _number(given: Any, otherwise: float | None = None) -> float | None:
    """Return a number or a constant of one element as float32; None for others."""
    if given is None:
        return otherwise
    if isinstance(given, Tensor) and given.size == 1 and given.dtype is float32:
        return float(given.buffer.reshape(-1)[0])
    is_plain = type(given) in (int, float)
    return float(np.float32(given)) if is_plain else None


def hardsigmoid_step(x: TensorSpec, /, *, alpha: float, beta: float) -> Any:
    """Return the step of a line between 0 and 1."""
    require_float32(x)
    return _unary("HARDSIGMOID", low=alpha, high=beta)


def leaky_relu_step(x: TensorSpec, /, *, negative_slope: float) -> Any:
    """Return the step of a slope from 0 to 1 below 0."""
    require_float32(x)
    if not 0 < negative_slope <= 1:
        raise OptionError("a compiled slope is from 0 to 1")
    return _unary("LEAKY_RELU", low=negative_slope)


def prelu_step(x: TensorSpec, weight: Any, /) -> Any:
    """Return the step of constant slopes below 0: one, or one for each channel."""
    require_float32(x)
    require_constant(weight)
    require_float32(weight)
    slopes = np.asarray(weight.buffer).reshape(-1)
    if not np.isfinite(slopes).all():
        raise OptionError("compiled slopes are finite")
    # Channels are the last axis of a matrix, and of an image in a plan.
    if x.ndim not in (2, 4) and slopes.size > 1:
        slopes = slopes.reshape((-1,) + (1,) * (x.ndim - 2))
    floats = program()
    rows = [("MUL", 0, -1), ("MAXIMUM", 0, 4)]
    below, above = {"low": -inf, "high": 0.0}, {"low": 0.0, "high": inf}
    limits: list[dict[str, float]] = [{}, {}]
    # Above 1 the larger of x and slope · x is the wrong one.
    if (slopes > 1).any():
        rows = [("CLAMP", 0, 0), ("MUL", 4, -1), ("CLAMP", 0, 0), ("ADD", 6, 5)]
        limits = [below, {}, above, {}]
    made = [
        floats.Instruction(operation(name), *places, **numbers)
        for (name, *places), numbers in zip(rows, limits, strict=True)
    ]
    return _fitting(floats.Elementwise(*made, constants=(slopes,)), x)


def gelu_step(x: TensorSpec, /, *, approximate: str) -> Any:
    """Return the step of x · Φ(x), or of its approximation by tanh."""
    require_float32(x)
    return _unary("GELU_TANH" if approximate == "tanh" else "GELU")


def softplus_step(x: TensorSpec, /, *, beta: float, threshold: float) -> Any:
    """Return the step of log(1 + e ** (beta · x)) / beta."""
    require_float32(x)
    low, high = number(beta, "beta"), number(threshold, "threshold")
    return _unary("SOFTPLUS", low=low, high=high)


#: Instructions of the powers that a step computes, on value 0 and the result 4.
POWERS: dict[float, tuple[tuple[str, int, int], ...]] = {
    -1: (("RECIPROCAL", 0, 0),),
    -0.5: (("ROOT", 0, 0), ("RECIPROCAL", 4, 4)),
    0.5: (("ROOT", 0, 0),),
    1: (("KEEP", 0, 0),),
    2: (("SQUARE", 0, 0),),
    3: (("SQUARE", 0, 0), ("MUL", 4, 0)),
}


def pow_step(x1: Any, x2: Any, /) -> Any:
    """Return the step of a power whose exponent is one of `POWERS`."""
    if not isinstance(x1, TensorSpec) or isinstance(x2, TensorSpec):
        raise OptionError("a compiled power has a constant exponent")
    require_float32(x1)
    exponent = _number(x2)
    rows = None if exponent is None else POWERS.get(exponent)
    if rows is None or (isinstance(x2, Tensor) and x2.ndim > x1.ndim):
        known = ", ".join(map(str, POWERS))
        raise OptionError(f"the exponent of a compiled power is one of {known}")
    floats = program()
    made = [floats.Instruction(operation(name), *places) for name, *places in rows]
    return floats.Elementwise(*made)


def binary_step(
    name: str, by_number: str | None, from_number: str | None
) -> Callable[..., Any]:
    """Return the function that prepares one instruction on two values.

    Args:
        name: of the instruction.
        by_number, from_number: of the instruction whose second or first operand is a
            number, or None.
    """

    def prepare(x1: Any, x2: Any, /) -> Any:
        floats = program()
        is_first = isinstance(x1, TensorSpec)
        if is_first and isinstance(x2, TensorSpec):
            require_float32(x1, x2)
            step = floats.Elementwise(floats.Instruction(operation(name), 0, 1))
            return _fitting(step, x1, x2)
        x, given = (x1, x2) if is_first else (x2, x1)
        require_float32(x)
        found, named = _number(given), by_number if is_first else from_number
        if found is not None and _axes(given) <= x.ndim:
            if named is not None:
                return _unary(named, low=found)
            if name == "SUB":
                return _unary("ADD_NUMBER", low=-found)
        array = _constant(given, x)
        places = (0, -1) if is_first else (-1, 0)
        one = floats.Instruction(operation(name), *places)
        return _fitting(floats.Elementwise(one, constants=(array,)), x)

    return prepare


def _axes(given: Any) -> int:
    return given.ndim if isinstance(given, Tensor) else 0


def _constant(given: Any, x: TensorSpec) -> Any:
    """Return a constant as an array whose axes lie as a plan stores x."""
    if not isinstance(given, Tensor):
        found = _number(given)
        if found is None:
            raise OptionError("a compiled step takes float32 constants")
        return np.float32(found)
    require_float32(given)
    array = np.asarray(given.buffer)
    # Images are channels last in a plan.
    if x.ndim == 4 and array.ndim <= 4 and array.size > 1:
        array = np.moveaxis(array.reshape((1,) * (4 - array.ndim) + array.shape), 1, -1)
    return array


def _fitting(step: Any, *xs: TensorSpec) -> Any:
    """Return `step` if it broadcasts these values as a plan stores them."""
    require_sizes(*xs)
    shapes = [_stored(x.shape) for x in xs]
    try:
        shape = step.prepare(*shapes)[0].shape
    except ValueError as error:
        raise OptionError(str(error)) from None
    # An image does not lie as other values do.
    if len(shape) == 4 and any(x.ndim != 4 and prod(x.shape) != 1 for x in xs):
        raise OptionError("a compiled step broadcasts an image with images only")
    if 0 in shape:
        raise OptionError("a compiled step takes at least one element")
    return step


def _stored(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape as a plan stores it: images are channels last."""
    return (shape[0], *shape[2:], shape[1]) if len(shape) == 4 else shape


def view_step(look: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that prepares a view of NumPy as a step.

    Args:
        look: NumPy's function, called with the arguments of the operation.
    """

    def prepare(x: TensorSpec, /, *given: Any, **options: Any) -> Any:
        require_single(x)
        require_sizes(x)

        def move(values: Any) -> Any:
            image = np.moveaxis(values, -1, 1) if x.ndim == 4 else values
            view = look(image, *given, **options)
            return np.moveaxis(view, 1, -1) if view.ndim == 4 else view

        step = program().Move(move, dtype=program().F32)
        shape = x.shape
        if x.ndim == 4:
            shape = (shape[0], *shape[2:], shape[1])
        try:
            # Try the view now: a shape that NumPy must copy is not compiled, and an
            # index outside its axis is refused by the call.
            step.prepare(shape)
        except (ValueError, IndexError) as error:
            raise OptionError(str(error)) from None
        return step

    return prepare


def take_step(x: TensorSpec, indices: Any, /, *, axis: int | None) -> Any:
    """Return the step that takes elements at constant indices along one axis."""
    require_float32(x)
    require_sizes(x)
    if isinstance(indices, TensorSpec) or indices.ndim != 1 or not indices.size:
        raise OptionError("a compiled take has constant indices along one axis")
    at = 0 if axis is None else normalize_axis(axis, x.ndim)
    places = np.asarray(indices.buffer)
    if ((places < -x.shape[at]) | (places >= x.shape[at])).any():
        raise OptionError("a compiled take has indices inside the axis")
    return program().Take(places, _place(x, at), program().F32)


def _place(x: TensorSpec, axis: int) -> int:
    """Return the place of an axis as a plan stores x."""
    return (0, 3, 1, 2)[axis] if x.ndim == 4 else axis


def pixel_shuffle_step(x: TensorSpec, /, *, upscale_factor: int) -> Any:
    """Return the step from channels to pixels."""
    require_float32(x)
    require_sizes(x)
    return program().pixel_shuffle(upscale_factor, program().F32)


def pixel_unshuffle_step(x: TensorSpec, /, *, downscale_factor: int) -> Any:
    """Return the step from pixels to channels."""
    require_float32(x)
    require_sizes(x)
    return program().pixel_unshuffle(downscale_factor, program().F32)


def index_view(x: Any, *, key: Any) -> Any:
    """Return the elements at a key."""
    return x[key]


def concat_step(*xs: TensorSpec, axis: int | None) -> Any:
    """Return the step that concatenates values along an axis; of one it is a copy."""
    require_float32(*xs)
    require_sizes(*xs)
    is_moving = all(isinstance(x, TensorSpec) for x in xs)
    if axis is None or not xs or not is_moving:
        raise OptionError("a compiled concat joins computed values along an axis")
    at = normalize_axis(axis, xs[0].ndim)
    if len(xs) == 1:
        return program().Move(lambda values: values, dtype=program().F32)
    return program().Concat(_place(xs[0], at), program().F32)
