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

from mdtensor.dtypes import float32
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


def require_float32(*given: Any) -> None:
    """Raise unless every spec and constant is a float32 of the host."""
    for x in given:
        kind = x.type if isinstance(x, TensorSpec) else type(x)
        if kind.dtype is not float32 or kind.device.name != "cpu":
            raise OptionError(f"a compiled step takes float32, not {kind.__name__}")


def require_constant(*given: Any) -> None:
    """Raise unless every argument is a float32 tensor."""
    require_float32(*given)
    if any(isinstance(x, TensorSpec) for x in given):
        raise OptionError("compiled weights and biases are constants")


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
    _require_sizes(x, w)
    return program().Conv2d(w.buffer, bias, **options, groups=groups)


def linear_step(x: TensorSpec, w: Any, b: Any, /) -> Any:
    """Return the step of a linear layer with constant weights."""
    require_float32(x)
    require_constant(w, *([] if b is None else [b]))
    _require_sizes(x, w)
    return program().Linear(w.buffer, None if b is None else b.buffer)


def matmul_step(x: TensorSpec, w: Any, /) -> Any:
    """Return the step of a product of matrices, of which the second may be constant."""
    require_float32(x, w)
    if not isinstance(x, TensorSpec) or x.ndim < 2 or w.ndim < 2:
        raise OptionError("a compiled product has a computed matrix on the left")
    _require_sizes(x, w)
    if isinstance(w, TensorSpec):
        return program().MatMul()
    if w.ndim != 2:
        raise OptionError("a compiled product has one constant matrix")
    return program().Linear(w.buffer.T)


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
    _require_sizes(x)
    length = prod(last_sizes(normalized_shape))
    arrays = [None if one is None else one.buffer.reshape(-1) for one in (weight, bias)]
    return program().Normalize(length, is_centered, eps, *arrays)


def _require_sizes(*given: Any) -> None:
    if any(0 in x.shape for x in given):
        raise OptionError("there are no elements")


def _pool_window(
    shape: tuple[int, ...],
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
) -> Window:
    window = pool_window(kernel_size, stride, padding)
    height, width = shape[2:]
    plain = window.slide(height, width)
    is_longer = flag(ceil_mode, "ceil_mode")
    if is_longer and window.slide(height, width, ceil_mode=True) != plain:
        raise OptionError("a compiled pool has no windows that ceil_mode adds")
    return window


def max_pool2d_step(x: TensorSpec, /, *, ceil_mode: bool, **options: Any) -> Any:
    """Return the step of a maximum in each window."""
    require_float32(x)
    _require_sizes(x)
    window = _pool_window(x.shape, **options, ceil_mode=ceil_mode)
    return program().MaxPool(window.kernel, window.stride, window.padding)


def avg_pool2d_step(
    x: TensorSpec, /, *, ceil_mode: bool, count_include_pad: bool, **options: Any
) -> Any:
    """Return the step of a mean in each window."""
    require_float32(x)
    _require_sizes(x)
    window = _pool_window(x.shape, **options, ceil_mode=ceil_mode)
    counts = flag(count_include_pad, "count_include_pad")
    return program().AvgPool(
        window.kernel, window.stride, window.padding, count_include_pad=counts
    )


def global_avg_pool2d_step(x: TensorSpec, /) -> Any:
    """Return the step of the mean of each channel."""
    require_float32(x)
    _require_sizes(x)
    return program().Mean()


def softmax_step(x: TensorSpec, /, *, axis: int) -> Any:
    """Return the step of a softmax along the last axis."""
    require_float32(x)
    _require_sizes(x)
    if not x.ndim or axis not in (-1, x.ndim - 1):
        raise OptionError("a compiled softmax is along the last axis")
    return program().Softmax()


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
    from mdtensor.kernels.cpu.generic import activation, float_elementwise

    for module in (activation, float_elementwise):
        if hasattr(module, name):
            found: int = getattr(module, name)
            return found
    raise OptionError(f"no instruction is called {name}")


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


def silu_step(x: TensorSpec, /) -> Any:
    """Return the step of x · sigmoid(x); the limit at -inf is 0."""
    require_float32(x)
    floats = program()
    # Below -104 the sigmoid is 0, and -inf · 0 would be NaN.
    low = floats.Instruction(operation("CLAMP"), 0, low=-104.0, high=inf)
    gate = floats.Instruction(operation("SIGMOID"), 0)
    return floats.Elementwise(low, gate, floats.Instruction(operation("MUL"), 2, 3))


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
        for given, other, named in ((x2, x1, by_number), (x1, x2, from_number)):
            if isinstance(other, TensorSpec) and not isinstance(given, TensorSpec):
                require_float32(other)
                return _with_number(given, other, named)
        require_float32(x1, x2)
        _require_factors(x1, x2)
        floats = program()
        return floats.Elementwise(floats.Instruction(operation(name), 0, 1))

    return prepare


def _with_number(given: Any, x: TensorSpec, name: str | None) -> Any:
    """Return the step of an instruction on x and a number."""
    found = _number(given)
    axes = given.ndim if isinstance(given, Tensor) else 0
    if name is None or found is None or axes > x.ndim:
        raise OptionError("a compiled step takes no constant array here")
    return _unary(name, low=found)


def _require_factors(x1: TensorSpec, x2: TensorSpec) -> None:
    """Raise unless shapes are equal, or x2 has one factor for each channel."""
    a, b = x1.shape, x2.shape
    if 0 in a or 0 in b:
        raise OptionError("there are no elements")
    # Channels of images are axis 1 here, and last in a plan.
    at = 1 if len(a) == 4 else -1
    is_factor = len(a) == len(b) > 1 and a[0] == b[0] and a[at] == b[at]
    rest = {*b} if not is_factor else {*b[2:]} if len(a) == 4 else {*b[1:-1]}
    if a != b and not (is_factor and rest <= {1}):
        raise OptionError("compiled operands have one shape, or factors of channels")


def view_step(look: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that prepares a view of NumPy as a step.

    Args:
        look: NumPy's function, called with the arguments of the operation.
    """

    def prepare(x: TensorSpec, /, *given: Any, **options: Any) -> Any:
        require_float32(x)
        _require_sizes(x)

        def move(values: Any) -> Any:
            image = np.moveaxis(values, -1, 1) if x.ndim == 4 else values
            view = look(image, *given, **options)
            return np.moveaxis(view, 1, -1) if view.ndim == 4 else view

        step = program().Move(move, dtype=program().F32)
        shape = x.shape
        if x.ndim == 4:
            shape = (shape[0], *shape[2:], shape[1])
        try:
            # Try the view now, so that a shape that NumPy must copy is not compiled.
            step.prepare(shape)
        except ValueError as error:
            raise OptionError(str(error)) from None
        return step

    return prepare


def take_step(x: TensorSpec, indices: Any, /, *, axis: int | None) -> Any:
    """Return the step that takes elements at constant indices along one axis."""
    require_float32(x)
    _require_sizes(x)
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
    _require_sizes(x)
    return program().pixel_shuffle(upscale_factor, program().F32)


def pixel_unshuffle_step(x: TensorSpec, /, *, downscale_factor: int) -> Any:
    """Return the step from pixels to channels."""
    require_float32(x)
    _require_sizes(x)
    return program().pixel_unshuffle(downscale_factor, program().F32)


def index_view(x: Any, *, key: Any) -> Any:
    """Return the elements at a key."""
    return x[key]


def concat_step(*xs: TensorSpec, axis: int | None) -> Any:
    """Return the step that concatenates two or more values along an axis."""
    require_float32(*xs)
    _require_sizes(*xs)
    is_moving = all(isinstance(x, TensorSpec) for x in xs)
    if axis is None or len(xs) < 2 or not is_moving:
        raise OptionError("a compiled concat joins two or more values along an axis")
    at = normalize_axis(axis, xs[0].ndim)
    return program().Concat(_place(xs[0], at), program().F32)
