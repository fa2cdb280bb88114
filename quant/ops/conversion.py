"""Conversion from floats to codes, from codes to floats, and between grids."""

from collections.abc import Callable
from fractions import Fraction
from math import inf
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor import (
    CastError,
    Device,
    DeviceError,
    DType,
    Float32Tensor,
    FloatingTensor,
    GridError,
    OptionError,
    Tensor,
    TensorSpec,
    astype,
    cpu,
    dtype as find_dtype,
    dtypes,
    equal,
    method,
    to,
)
from mdtensor.errors import checked, describe, shown
from mdtensor.extend import find_device, flag
from mdtensor.kernels import observe
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.program import steps
from mdtensor.kernels.numpy import LARGE, empty
from mdtensor.quant import exact
from mdtensor.quant.codes import (
    OFFSETS,
    unsigned_grid,
)
from mdtensor.quant.deduction import check_fit, on_grid
from mdtensor.quant.dtypes import FLOATS, qint8, qint32, quint8
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.ops.axis_grids import DequantizeAxis, QuantizeAxis, is_short
from mdtensor.quant.ops.bound import Run, bind_once, bind_step, result_on
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    find_step,
    require_one_grid,
    require_output_grid,
)
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    AffineTensor,
    NarrowTensor,
    PackedTensor,
    QuantizedTensor,
    ScaledFloatTensor,
    quantized,
    spec_of,
)

#: Larger steps saturate on every grid.
LIMIT = 2.0**32
Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]


def quantize_step(
    x: TensorSpec, /, *, qparams: QParams, rounding: str | None = None
) -> steps.Quantize:
    """Return the step from float32 to codes; it writes images channels last.

    Raises:
        NotCompiled: kernels cannot write the grid.
    """
    if x.dtype is not dtypes.float32:
        raise OptionError(f"a compiled step takes float32, not {x.dtype}")
    grid = unsigned_grid(require_output_grid(_with_rule(qparams, rounding)))
    return steps.Quantize(float(grid.scale), grid.zero, channels_first=x.ndim == 4)


@method(quantize, prepare=quantize_step)
@bind_once
def quantize(x: FloatingTensor, /, *, qparams: QParams, rounding: str | None) -> Run:
    checked("quantize", (x,), lambda: check_fit(qparams, x.shape))
    grid, is_wide = _with_rule(qparams, rounding), x.dtype is dtypes.float64
    has_rule = rounding_rule("quantize", grid) is not None
    if not has_rule and x.dtype is dtypes.float32 and _is_plain(grid):
        return BoundQuantize(grid, x.size)
    quick = None
    if not has_rule and x.dtype is dtypes.float32 and is_short(grid):
        quick = QuantizeAxis(grid, x.shape, _nan_error)

    def run(x: FloatingTensor) -> Any:
        if quick is not None and not exact.is_counting():
            return quick(x)
        # NumPy warns about a signaling NaN, and the error below says more.
        with np.errstate(invalid="ignore"):
            if x.size and np.isnan(np.max(x.buffer)):
                raise _nan_error(x)
        if has_rule:
            return rounding_rule("quantize", grid)(x, grid)
        return round_to_grid(x.buffer.astype(np.float64), grid, is_wide)

    return run


def _is_plain(grid: QParams) -> bool:
    """Return whether kernels know the grid: 8-bit codes and one scale."""
    return grid.dtype in (qint8, quint8) and grid.axis is None


def _nan_error(x: Tensor) -> CastError:
    return CastError(
        "cannot quantize NaN", "Replace NaNs first", describe("quantize", x)
    )


def _allocator(size: int) -> Callable[..., Array]:
    """Return the function that allocates arrays of `size` bytes."""
    # `empty` reuses large memory, since the system clears fresh pages slowly.
    return np.empty if size < LARGE else empty


class BoundQuantize:
    """A bound call that rounds float32 numbers to 8-bit codes with one scale."""

    __slots__ = ("empty", "kernel", "parameters", "result")

    def __init__(self, grid: QParams, size: int) -> None:
        self.empty = _allocator(size)
        # The kernel writes unsigned bytes; signed codes are these minus 128.
        offset = OFFSETS.get(grid.dtype, 0)
        ends = grid.minimum + offset, grid.maximum + offset
        self.kernel = kernel_set.CHOSEN.get().quantize_f32u8.call
        self.parameters = float(grid.scale), grid.zero + offset, *ends
        self.result = result_on(grid)

    def __call__(self, x: Tensor) -> QuantizedTensor:
        """Return the codes of `x`.

        Raises:
            CastError: `x` holds a NaN.
        """
        values = x.buffer
        codes = self.empty(values.shape, np.uint8)
        numbers = np.ascontiguousarray(values).reshape(-1)
        has_nan = self.kernel(numbers, *self.parameters, codes.reshape(-1))
        if observe.ACTIVE:
            observe.ran("quantize_f32u8", _isa("quantize_f32u8"))
        # The kernel looks for NaN while it rounds, which saves a pass over the numbers.
        if has_nan:
            raise _nan_error(x)
        return self.result(codes)


def round_to_grid(values: Array, grid: QParams, is_wide: bool) -> QuantizedTensor:
    """Return float64 numbers, rounded to `grid`.

    Args:
        values: finite numbers.
        grid: the grid of the result.
        is_wide: the numbers have more digits than float32.
    """
    if grid.dtype in FLOATS:
        found = exact.to_grid(values, grid, is_wide)
        return quantized(found.view(np.uint8), grid)
    return quantized(exact.to_codes(_steps(values, grid, is_wide), grid), grid)


def _with_rule(grid: QParams, rounding: str | None) -> QParams:
    return grid if rounding is None else grid.rounded(rounding)


def _steps(values: Array, grid: QParams, is_wide: bool) -> IntArray:
    """Return round_half_even(values / scale), exact, clipped to ±2**32."""
    scale = grid.along(grid.scale, values.shape)
    # A quotient that overflows is clipped, so a warning would not help.
    with np.errstate(over="ignore"):
        quotient = np.clip(values / scale, -LIMIT, LIMIT)
    nearest = np.asarray(np.rint(quotient)).astype(np.int64)
    # float64 rounds a quotient of float32 numbers to a tie only if it is a tie; with
    # more digits, rational numbers decide near ties.
    if is_wide or grid.dtype is qint32:
        near = np.abs(np.abs(quotient - nearest) - 0.5) <= np.abs(quotient) * 2.0**-51
        pairs = zip(values[near], np.broadcast_to(scale, near.shape)[near], strict=True)
        nearest[near] = [round(Fraction(v) / Fraction(s)) for v, s in pairs]
    return nearest


def dequantize_step(x: TensorSpec, /) -> steps.Dequantize:
    """Return the step from codes to float32, in the same memory order.

    Raises:
        NotCompiled: kernels cannot read the grid, or `x` is an image.
    """
    if x.ndim == 4:
        raise NotCompiled("codes of images are channels last, float images are not")
    require_output_grid(x.qparams)
    grid = unsigned_grid(x.qparams)
    return steps.Dequantize(float(grid.scale), grid.zero)


@method(dequantize, prepare=dequantize_step)
@bind_once
def dequantize(x: AffineTensor, /) -> Run:
    if _is_plain(x.qparams):
        return BoundDequantize(x.qparams, x.size)
    is_known = is_short(x.qparams)
    return DequantizeAxis(x.qparams, x.shape) if is_known else _dequantize_exactly


def _dequantize_exactly(x: QuantizedTensor) -> Float32Tensor:
    """Return the numbers of codes on any grid, rounded once to float32."""
    found, scale = exact.steps_of(x), x.qparams.along(x.qparams.scale, x.shape)
    products = np.asarray(found * scale)
    # A 32-bit step times a float32 scale can have more than the 53 bits of float64.
    if x.dtype is qint32:
        _fix_ties(products, found, np.broadcast_to(scale, products.shape))
    with np.errstate(over="ignore", under="ignore"):
        return Float32Tensor.wrap(products.astype(np.float32))


def _isa(name: str) -> str:
    """Return the instruction set of the kernel `name` in this context."""
    found: str = kernel_set.isa_of(getattr(kernel_set.CHOSEN.get(), name))
    return found


class BoundDequantize:
    """A bound call that computes the numbers of 8-bit codes with one scale."""

    __slots__ = ("empty", "kernel", "scale", "zero")

    def __init__(self, grid: QParams, size: int) -> None:
        self.empty = _allocator(4 * size)
        own, is_signed = kernel_set.CHOSEN.get(), grid.dtype is qint8
        kernel = own.dequantize_s8f32 if is_signed else own.dequantize_u8f32
        self.kernel = kernel.call
        self.scale, self.zero = float(grid.scale), grid.zero

    def __call__(self, x: QuantizedTensor) -> Float32Tensor:
        """Return the numbers that the codes of `x` stand for."""
        codes = x.buffer
        out = self.empty(codes.shape, np.float32)
        flat = np.ascontiguousarray(codes).reshape(-1)
        self.kernel(flat, self.scale, self.zero, out.reshape(-1))
        if observe.ACTIVE:
            observe.ran("dequantize_u8f32", _isa("dequantize_u8f32"))
        return Float32Tensor.wrap(out)


@method(dequantize)
def dequantize(x: ScaledFloatTensor, /) -> Float32Tensor:
    with np.errstate(over="ignore", under="ignore"):
        return Float32Tensor.wrap(exact.numbers_of(x).astype(np.float32))


def _fix_ties(products: Array, found: IntArray, scale: Array) -> None:
    """Move float64 products off ties of float32, to the side of the exact products.

    Args:
        products: float64, changed in place.
        found: the steps of the products.
        scale: the scales of the products.
    """
    # float32 drops the 29 lowest bits of a normal float64: half of them is a tie.
    tail = products.view(np.int64) & (2**29 - 1)
    doubt = (tail == 2**28) | (np.abs(products) < np.finfo(np.float32).tiny)
    rows = zip(products[doubt], found[doubt].tolist(), scale[doubt], strict=True)
    products[doubt] = [_nudge(p, n * Fraction(s)) for p, n, s in rows]


def _nudge(product: float, exact: Fraction) -> float:
    error = exact - Fraction(product)
    return product if error == 0 else np.nextafter(product, inf if error > 0 else -inf)


def requantize_step(x: TensorSpec, /, *, out: QParams) -> steps.Lookup:
    """Return the lookup step from 8-bit codes to codes on `out`.

    Raises:
        NotCompiled: kernels cannot read or write a grid.
    """
    source, target = (
        unsigned_grid(require_one_grid(x)),
        unsigned_grid(require_output_grid(out)),
    )
    return steps.Lookup(exact.rescale(np.arange(256) - source.zero, source, target))


@method(requantize, prepare=requantize_step)
@bind_once
def requantize(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    _check_out(x, out)
    if rounding_rule("requantize", out):
        return lambda x: rounding_rule("requantize", out)(x, out)
    step = find_step(requantize_step, spec_of(x), out=out)
    if step is None:
        return lambda x: _rescale(x, out)
    return bind_step(step, x, grid=out)


@method(requantize)
@bind_once
def requantize(x: AffineTensor, /, *, out: QParams | None = None) -> Run:
    _check_out(x, out)
    if rounding_rule("requantize", out):
        return lambda x: rounding_rule("requantize", out)(x, out)
    return lambda x: _rescale(x, out)


@method(requantize)
@bind_once
def requantize(x: ScaledFloatTensor, /, *, out: QParams | None = None) -> Run:
    _check_out(x, out)
    if rounding_rule("requantize", out):
        return lambda x: rounding_rule("requantize", out)(x, out)
    assert out is not None  # checked above
    return lambda x: round_finite("requantize", exact.numbers_of(x), out, x)


def round_finite(
    name: str, values: Array, out: QParams, *arguments: QuantizedTensor
) -> QuantizedTensor:
    """Return numbers of 8-bit floats, rounded to `out`.

    Raises:
        CastError: a number is infinite or NaN.
    """
    if not np.isfinite(values).all():
        raise CastError(
            "cannot quantize an infinity or NaN",
            "Replace them first",
            describe(name, *arguments),
        )
    return round_to_grid(values, out, is_wide=False)


def _check_out(x: QuantizedTensor, out: QParams | None) -> None:
    checked("requantize", (x,), lambda: requantize.operation.rule(spec_of(x), out=out))


def _rescale(x: QuantizedTensor, out: QParams) -> QuantizedTensor:
    if out.dtype in FLOATS:
        return _to_floats(x, out)
    return quantized(exact.rescale(exact.steps_of(x), x.qparams, out), out)


def _to_floats(x: QuantizedTensor, out: QParams) -> QuantizedTensor:
    """Return codes as 8-bit floats: the exact quotient, rounded once."""
    steps, grid = exact.steps_of(x), x.qparams
    scale = np.broadcast_to(grid.along(grid.scale, x.shape), x.shape)
    target = np.broadcast_to(out.along(out.scale, x.shape), x.shape)
    with np.errstate(over="ignore", under="ignore"):
        quotient = np.asarray(steps * scale / target)

    def exactly(doubt: Array) -> list[Fraction]:
        rows = zip(*(v[doubt].tolist() for v in (steps, scale, target)), strict=True)
        return [n * Fraction(s) / Fraction(t) for n, s, t in rows]

    is_wide = grid.dtype is qint32
    found = exact.to_floats(quotient, out.dtype, exactly if is_wide else None)
    return quantized(found.view(np.uint8), out)


# `astype` converts from one grid to another only.
#
# A cast to an ordinary type would be ambiguous, because it could mean the numbers
# (`dequantize(x)`) or the codes (`x.codes`).

POLICIES = ("exact", "check", "saturate")


def _target(x: TensorSpec, dtype: Any) -> QParams:
    """Return the grid to cast to: `dtype`, or the grid of `x` for its own type.

    Raises:
        GridError: `dtype` is another quantized type, which does not name a grid.
        CastError: `dtype` is not a quantized type.
    """
    if isinstance(dtype, QParams):
        return dtype
    found = find_dtype(dtype)
    if found is x.dtype:
        own: QParams = x.qparams
        return own
    if found.kind == "quantized":
        raise GridError(
            f"{found} alone is not a grid", f"Use QParams(scale, dtype={found})"
        )
    if found.is_floating:
        fix = "Cast dequantize(x) instead"
        raise CastError(f"a quantized tensor does not cast to {found}", fix)
    fix = "Use x.codes, or cast dequantize(x)"
    raise CastError(
        f"it is ambiguous whether a cast to {found} converts codes or real values", fix
    )


def cast_spec(
    x: TensorSpec,
    dtype: Any,
    *,
    copy: object = True,
    device: object = None,
    casting: object = "check",
) -> TensorSpec:
    """Infer a cast: the same shape on the grid `dtype`."""
    flag(copy, "copy")
    grid = _target(x, dtype)
    if not (isinstance(casting, str) and casting in POLICIES):
        fix = f"Use {', '.join(POLICIES)}"
        raise OptionError(f"casting is {shown(casting)}", fix)
    is_cpu = device is cpu or (isinstance(device, str) and device == cpu.name)
    if device is not None and not is_cpu:
        raise DeviceError(
            f"quantized tensors are not on {shown(device)} yet", "Omit device="
        )
    check_fit(grid, x.shape)
    return on_grid(x.shape, grid)


@method(astype, deduce=cast_spec)
def astype(
    x: QuantizedTensor,
    dtype: Union[DType, str, type, np.dtype, QParams],
    /,
    *,
    copy: bool,
    device: Device | str | None,
    casting: str,
) -> QuantizedTensor:
    options = {"copy": copy, "device": device, "casting": casting}
    rule = astype.select(type(x), type(dtype)).deduce
    grid = checked("astype", (x,), lambda: rule(spec_of(x), dtype, **options)).qparams
    # The same grid cannot lose anything, so no policy applies.
    if grid == x.qparams:
        return x.__deepcopy__(None) if copy else x
    found: QuantizedTensor = requantize(x, out=grid)
    lost = _find_lost(x, found, casting)
    if lost.any():
        verb = "are not on" if casting == "exact" else "lie outside of"
        raise CastError(
            f"{np.count_nonzero(lost)} of {x.size} numbers {verb} "
            f"({grid.describe_range()})",
            "Use requantize, which rounds and saturates",
            describe("astype", x),
        )
    return found


def _find_lost(x: QuantizedTensor, found: QuantizedTensor, casting: str) -> Array:
    """Return a mask of the numbers that a casting policy does not convert.

    Args:
        x: before the cast.
        found: after it.
        casting: `exact`, `check` or `saturate`.
    """
    if casting == "saturate":
        return np.zeros(x.shape, bool)
    if casting == "exact":
        return _find_different(x, found)
    if x.dtype in FLOATS or found.dtype in FLOATS:
        grid = found.qparams
        ends = (grid.minimum - grid.zero_point, grid.maximum - grid.zero_point)
        low, high = (grid.along(end * grid.scale, x.shape) for end in ends)
        numbers = exact.reals(x)
        return (numbers < low) | (numbers > high)
    return exact.is_past(x, found.qparams)


def _find_different(x: QuantizedTensor, found: QuantizedTensor) -> Array:
    """Return a mask of the places where two tensors of one shape differ."""
    grids = x.qparams, found.qparams
    has_many = any(grid.axis is not None or grid.dtype in FLOATS for grid in grids)
    if qint32 not in (x.dtype, found.dtype) or not has_many:
        return ~np.asarray(equal(x, found))
    # `equal` does not compare accumulators with 8-bit floats, and rational numbers do.
    pairs = zip(_fractions(x), _fractions(found), strict=True)
    return np.array([a != b for a, b in pairs], bool).reshape(x.shape)


def _fractions(x: QuantizedTensor) -> list[Fraction]:
    """Return the numbers of a tensor on any grid, in row-major order."""
    is_float = x.dtype in FLOATS
    steps = x.buffer.astype(np.float64) if is_float else exact.steps_of(x)
    scales = np.broadcast_to(x.qparams.along(x.qparams.scale, x.shape), x.shape)
    rows = zip(steps.ravel().tolist(), scales.ravel().tolist(), strict=True)
    return [Fraction(step) * Fraction(scale) for step, scale in rows]


def _infer_to(x: TensorSpec, device: Union[Device, str]) -> TensorSpec:
    try:
        found = x.type.with_device(find_device(device))
    except DeviceError as error:
        fix = "Use dequantize(x), and move that"
        raise DeviceError(error.problem, fix) from None
    return TensorSpec(found, x.shape, x.qparams)


@method(to, deduce=_infer_to, anywhere=True)
def to(x: QuantizedTensor, device: Union[Device, str], /) -> QuantizedTensor:
    target: Any = checked("to", (x, device), lambda: _infer_to(spec_of(x), device).type)
    if target is type(x):
        return x
    moved: QuantizedTensor | None = target.device.adopt(x)
    if moved is not None:
        return moved
    host = x.device.to_host(x.buffer)
    there = checked("to", (x, device), lambda: target.device.from_host(host))
    grid = x.qparams.rounded(x.rounding)
    shape = (x.shape,) if isinstance(x, PackedTensor) else ()
    return target.wrap(there, grid, *shape)  # type: ignore[no-any-return]
