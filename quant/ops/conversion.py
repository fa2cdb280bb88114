"""On the grid, off it, and between grids."""

from fractions import Fraction
from math import inf
from typing import Any, Union

import numpy as np

from mdtensor import (
    CastError,
    DeviceError,
    DType,
    FloatingTensor,
    GridError,
    OptionError,
    TensorSpec,
    astype,
    cpu,
    dtype as find_dtype,
    dtypes,
    equal,
    method,
)
from mdtensor.errors import checked, describe, shown
from mdtensor.kernels import observe
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.program import steps
from mdtensor.kernels.numpy.runtime import LARGE, empty
from mdtensor.quant import exact
from mdtensor.quant.codes import (
    OFFSETS,
    unsigned_grid,
)
from mdtensor.quant.deduction import check_fit, on_grid
from mdtensor.quant.dtypes import FLOATS, qint8, qint32, quint8
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.ops.bound import bound, bound_step, result_on
from mdtensor.quant.ops.errors import require_host
from mdtensor.quant.ops.kernels import NotCompiled, narrow, step_of_codes, whole
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    AffineTensor,
    NarrowTensor,
    QuantizedTensor,
    ScaledFloatTensor,
    quantized,
    spec_of,
)
from mdtensor.spec.options import flag
from mdtensor.types import Float32Tensor

#: Steps beyond this saturate on every grid.
LIMIT = 2.0**32


def quantize_step(
    x: TensorSpec, /, *, qparams: QParams, rounding: str | None = None
) -> steps.Quantize:
    """Float32 to codes; images [n, c, h, w] become channels last."""
    if x.dtype is not dtypes.float32:
        raise OptionError(f"a compiled step takes float32, not {x.dtype}")
    grid = unsigned_grid(narrow(_ruled(qparams, rounding)))
    return steps.Quantize(float(grid.scale), grid.zero, channels_first=x.ndim == 4)


@method(quantize, prepare=quantize_step)
@bound
def quantize(x: FloatingTensor, /, *, qparams: QParams, rounding: Any) -> Any:
    require_host("quantize", x)
    checked("quantize", (x,), lambda: check_fit(qparams, x.shape))
    grid, is_wide = _ruled(qparams, rounding), x.dtype is dtypes.float64
    is_ruled = ruled("quantize", grid) is not None
    if not is_ruled and x.dtype is dtypes.float32 and _is_plain(grid):
        return BoundQuantize(grid, x.size)

    def run(x: Any) -> Any:
        with np.errstate(invalid="ignore"):  # a signaling NaN warns
            if x.size and np.isnan(np.max(x.buffer)):
                raise _nan(x)
        if is_ruled:
            return ruled("quantize", grid)(x, grid)
        return rounded_to(x.buffer.astype(np.float64), grid, is_wide)

    return run


def _is_plain(grid: QParams) -> bool:
    """Whether kernels know the grid: codes of 8 bits, one scale."""
    return grid.dtype in (qint8, quint8) and grid.axis is None


def _nan(x: Any) -> CastError:
    return CastError("NaN has no code", "Replace NaNs first", describe("quantize", x))


def _memory(size: int) -> Any:
    """Return what makes arrays of `size` bytes: NumPy, for all but large ones."""
    return np.empty if size < LARGE else empty


class BoundQuantize:
    """A bound call that rounds float32 numbers to a grid of one scale and 8 bits."""

    __slots__ = ("empty", "kernel", "parameters", "result")

    def __init__(self, grid: QParams, size: int) -> None:
        self.empty = _memory(size)
        offset = OFFSETS.get(grid.dtype, 0)
        ends = grid.minimum + offset, grid.maximum + offset
        self.kernel = kernel_set.CHOSEN.get().quantize_f32u8
        self.parameters = float(grid.scale), grid.zero + offset, *ends
        self.result = result_on(grid)

    def __call__(self, x: Any) -> Any:
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
        if has_nan:
            raise _nan(x)
        return self.result(codes)


def rounded_to(values: Any, grid: QParams, is_wide: bool) -> Any:
    """The tensor of float64 numbers on `grid`, rounding."""
    if grid.dtype in FLOATS:
        found = exact.to_grid(values, grid, is_wide)
        return quantized(found.view(np.uint8), grid)
    return quantized(exact.to_codes(_steps(values, grid, is_wide), grid), grid)


def _ruled(grid: QParams, rounding: Any) -> QParams:
    return grid if rounding is None else grid.rounded(rounding)


def _steps(values: Any, grid: QParams, is_wide: bool) -> Any:
    """round_half_even(values / scale), exact, cut to ±2**32."""
    scale = grid.along(grid.scale, values.shape)
    with np.errstate(over="ignore"):
        quotient = np.clip(values / scale, -LIMIT, LIMIT)
    nearest = np.asarray(np.rint(quotient)).astype(np.int64)
    # A quotient of float32 numbers is a tie in float64 exactly when it is one.
    if is_wide or grid.dtype is qint32:
        near = np.abs(np.abs(quotient - nearest) - 0.5) <= np.abs(quotient) * 2.0**-51
        pairs = zip(values[near], np.broadcast_to(scale, near.shape)[near], strict=True)
        nearest[near] = [round(Fraction(v) / Fraction(s)) for v, s in pairs]
    return nearest


def dequantize_step(x: TensorSpec, /) -> steps.Dequantize:
    """Codes to float32, in the same order."""
    if x.ndim == 4:
        raise NotCompiled("codes of images are channels last, float images are not")
    narrow(x.qparams)
    grid = unsigned_grid(x.qparams)
    return steps.Dequantize(float(grid.scale), grid.zero)


@method(dequantize, prepare=dequantize_step)
@bound
def dequantize(x: AffineTensor, /) -> Any:
    is_plain = _is_plain(x.qparams)
    return BoundDequantize(x.qparams, x.size) if is_plain else _dequantized


def _dequantized(x: Any) -> Float32Tensor:
    """Return the numbers of codes on any grid."""
    found, scale = exact.steps_of(x), x.qparams.along(x.qparams.scale, x.shape)
    products = np.asarray(found * scale)
    if x.dtype is qint32:
        _settle(products, found, np.broadcast_to(scale, products.shape))
    with np.errstate(over="ignore", under="ignore"):
        return Float32Tensor.wrap(products.astype(np.float32))


def _isa(name: str) -> str:
    """Return the instruction set of the kernel `name` in this context."""
    found: str = kernel_set.isa_of(getattr(kernel_set.CHOSEN.get(), name))
    return found


class BoundDequantize:
    """A bound call that computes the numbers of 8-bit codes on a grid of one scale."""

    __slots__ = ("empty", "kernel", "scale", "zero")

    def __init__(self, grid: QParams, size: int) -> None:
        self.empty = _memory(4 * size)
        self.kernel = kernel_set.CHOSEN.get().dequantize_u8f32
        self.scale, self.zero = float(grid.scale), grid.zero

    def __call__(self, x: Any) -> Float32Tensor:
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


def _settle(products: Any, found: Any, scale: Any) -> None:
    """Move rounded products off the ties of float32, to the side they came from."""
    tail = products.view(np.int64) & (2**29 - 1)
    doubt = (tail == 2**28) | (np.abs(products) < np.finfo(np.float32).tiny)
    rows = zip(products[doubt], found[doubt].tolist(), scale[doubt], strict=True)
    products[doubt] = [_nudged(p, n * Fraction(s)) for p, n, s in rows]


def _nudged(product: float, exact: Fraction) -> float:
    error = exact - Fraction(product)
    return product if error == 0 else np.nextafter(product, inf if error > 0 else -inf)


def requantize_step(x: TensorSpec, /, *, out: QParams) -> steps.Lookup:
    """8-bit codes to another grid: a table, rounded as one tensor of all codes."""
    source, target = unsigned_grid(whole(x)), unsigned_grid(narrow(out))
    return steps.Lookup(exact.rescale(np.arange(256) - source.zero, source, target))


@method(requantize, prepare=requantize_step)
@bound
def requantize(x: NarrowTensor, /, *, out: Any = None) -> Any:
    _check_out(x, out)
    if ruled("requantize", out):
        return lambda x: ruled("requantize", out)(x, out)
    step = step_of_codes(requantize_step, spec_of(x), out=out)
    if step is None:
        return lambda x: _rescaled(x, out)
    return bound_step(step, x, grid=out)


@method(requantize)
@bound
def requantize(x: AffineTensor, /, *, out: Any = None) -> Any:
    _check_out(x, out)
    if ruled("requantize", out):
        return lambda x: ruled("requantize", out)(x, out)
    return lambda x: _rescaled(x, out)


@method(requantize)
@bound
def requantize(x: ScaledFloatTensor, /, *, out: Any = None) -> Any:
    _check_out(x, out)
    if ruled("requantize", out):
        return lambda x: ruled("requantize", out)(x, out)
    return lambda x: finite("requantize", exact.numbers_of(x), out, x)


def finite(name: str, values: Any, out: QParams, *arguments: Any) -> Any:
    """The tensor of numbers of 8-bit floats on `out`; of all but infinities and NaN."""
    if not np.isfinite(values).all():
        raise CastError(
            "an infinity or NaN has no code",
            "Replace them first",
            describe(name, *arguments),
        )
    return rounded_to(values, out, is_wide=False)


def _check_out(x: Any, out: Any) -> None:
    checked("requantize", (x,), lambda: requantize.operation.rule(spec_of(x), out=out))


def _rescaled(x: Any, out: QParams) -> Any:
    if out.dtype in FLOATS:
        return _to_floats(x, out)
    return quantized(exact.rescale(exact.steps_of(x), x.qparams, out), out)


def _to_floats(x: Any, out: QParams) -> Any:
    """Codes as scaled floats: a quotient of exact products, rounded once."""
    steps, grid = exact.steps_of(x), x.qparams
    scale = np.broadcast_to(grid.along(grid.scale, x.shape), x.shape)
    target = np.broadcast_to(out.along(out.scale, x.shape), x.shape)
    with np.errstate(over="ignore", under="ignore"):
        quotient = np.asarray(steps * scale / target)

    def exactly(doubt: Any) -> list[Fraction]:
        rows = zip(*(v[doubt].tolist() for v in (steps, scale, target)), strict=True)
        return [n * Fraction(s) / Fraction(t) for n, s, t in rows]

    is_wide = grid.dtype is qint32
    found = exact.to_floats(quotient, out.dtype, exactly if is_wide else None)
    return quantized(found.view(np.uint8), out)


# astype: from one grid to another, and nowhere else.
#
# Numbers are at `dequantize(x)`, codes at `x.codes`: a cast that gave either would
# have to guess.

POLICIES = ("exact", "check", "saturate")


def _target(x: TensorSpec, dtype: Any) -> QParams:
    """The grid that is meant: one, or that of `x` by its own type."""
    if isinstance(dtype, QParams):
        return dtype
    found = find_dtype(dtype)
    if found is x.dtype:
        own: QParams = x.qparams
        return own
    if found.kind == "quantized":
        raise GridError(
            f"{found} alone is no grid", f"Use QParams(scale, dtype={found})"
        )
    if found.is_floating:
        fix = "Use dequantize(x), and cast what it gives"
        raise CastError(f"a grid is no {found}", fix)
    fix = "Use x.codes, or cast dequantize(x)"
    raise CastError(f"are codes or numbers meant by {found}", fix)


def cast_spec(
    x: TensorSpec,
    dtype: Any,
    *,
    copy: Any = True,
    device: Any = None,
    casting: Any = "check",
) -> TensorSpec:
    """The same shape on the grid `dtype`."""
    flag(copy, "copy")
    grid = _target(x, dtype)
    if not (isinstance(casting, str) and casting in POLICIES):
        fix = f"Use {', '.join(POLICIES)}"
        raise OptionError(f"casting is {shown(casting)}", fix)
    is_cpu = device is cpu or (isinstance(device, str) and device == cpu.name)
    if device is not None and not is_cpu:
        raise DeviceError(f"no grid on {shown(device)} yet", "Leave device= away")
    check_fit(grid, x.shape)
    return on_grid(x.shape, grid)


@method(astype, deduce=cast_spec)
def astype(
    x: QuantizedTensor,
    dtype: Union[DType, str, type, np.dtype, QParams],
    /,
    *,
    copy: bool,
    device: Any,
    casting: str,
) -> Any:
    options = {"copy": copy, "device": device, "casting": casting}
    rule = astype.select(type(x), type(dtype)).deduce
    grid = checked("astype", (x,), lambda: rule(spec_of(x), dtype, **options)).qparams
    if grid == x.qparams:
        return x.__deepcopy__(None) if copy else x
    found = requantize(x, out=grid)
    lost = _lost(x, found, casting)
    if lost.any():
        verb = "are not on" if casting == "exact" else "lie outside of"
        raise CastError(
            f"{np.count_nonzero(lost)} of {x.size} numbers {verb} "
            f"({grid.describe_range()})",
            "Use requantize, which rounds and saturates",
            describe("astype", x),
        )
    return found


def _lost(x: Any, found: Any, casting: str) -> Any:
    """Which numbers a policy refuses to bring to their codes in `found`."""
    if casting == "saturate":
        return np.zeros(x.shape, bool)
    if casting == "exact":
        return _differs(x, found)
    if x.dtype in FLOATS or found.dtype in FLOATS:
        grid = found.qparams
        ends = (grid.minimum - grid.zero_point, grid.maximum - grid.zero_point)
        low, high = (grid.along(end * grid.scale, x.shape) for end in ends)
        numbers = exact.reals(x)
        return (numbers < low) | (numbers > high)
    return exact.is_past(x, found.qparams)


def _differs(x: Any, found: Any) -> Any:
    """Where two tensors of one shape hold different numbers."""
    grids = x.qparams, found.qparams
    has_many = any(grid.axis is not None or grid.dtype in FLOATS for grid in grids)
    if qint32 not in (x.dtype, found.dtype) or not has_many:
        return ~np.asarray(equal(x, found))
    pairs = zip(_fractions(x), _fractions(found), strict=True)
    return np.array([a != b for a, b in pairs], bool).reshape(x.shape)


def _fractions(x: Any) -> list[Fraction]:
    """The numbers of accumulators and of what they became."""
    is_float = x.dtype in FLOATS
    steps = x.buffer.astype(np.float64) if is_float else exact.steps_of(x)
    scales = np.broadcast_to(x.qparams.along(x.qparams.scale, x.shape), x.shape)
    rows = zip(steps.ravel().tolist(), scales.ravel().tolist(), strict=True)
    return [Fraction(step) * Fraction(scale) for step, scale in rows]
