"""Calls of preset kernels: one class for each family of operations.

A call takes the tensors that a method receives, then the grid `out`. It checks that the
library computes this at all (`allow`, which specs suffice for), runs the kernel on the
codes and wraps the result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from mdtensor import DType, OptionError, Tensor
from mdtensor.errors import checked, written
from mdtensor.extend import Window
from mdtensor.kernels.presets import Grid
from mdtensor.kernels.rescale import float32_of
from mdtensor.quant.dtypes import FLOATS, qint8, qint32, quint8
from mdtensor.quant.grids.combine import Operand, check_one_scale
from mdtensor.quant.lookup.build import Function
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, quantized

# The libraries fix these grids, because the range of the function is known.
#: Scale and zero point of a qint8 result, by operation; for quint8 add 128.
BOUNDED = {"sigmoid": (2.0**-8, -128), "tanh": (2.0**-7, 0), "softmax": (2.0**-8, -128)}


def refuse(rule: str, operation: str, problem: str, fix: str) -> NoReturn:
    """Raise an error that names the rule and what its library does not compute.

    Raises:
        OptionError: always.
    """
    raise OptionError(f"{written('rounding', rule)}: {problem}", fix, operation)


def require_8bit(rule: str, operation: str, *grids: QParams) -> None:
    """Raise unless all grids have 8-bit codes."""
    for grid in grids:
        if grid.dtype not in (qint8, quint8):
            fix = "Use qint8 or quint8"
            refuse(rule, operation, f"it does not have a kernel for {grid.dtype}", fix)


def require_integers(rule: str, operation: str, *grids: QParams) -> None:
    """Raise unless all grids have integer codes."""
    for grid in grids:
        if grid.dtype in FLOATS:
            fix = f"Use an integer type, or {written('rounding', 'exact')}"
            refuse(rule, operation, f"it does not have a kernel for {grid.dtype}", fix)


def require_one_type(rule: str, operation: str, *grids: QParams) -> None:
    """Raise unless all grids have the same 8-bit type."""
    require_8bit(rule, operation, *grids)
    kinds = {grid.dtype for grid in grids}
    if len(kinds) > 1:
        names = " and ".join(sorted(str(kind) for kind in kinds))
        refuse(
            rule, operation, f"it does not mix {names}", "Use one 8-bit type for all"
        )


def require_one_scale(rule: str, operation: str, *grids: QParams) -> None:
    """Raise unless each grid has one scale."""
    if any(grid.axis is not None for grid in grids):
        problem = "it takes only one scale for a whole tensor"
        refuse(rule, operation, problem, f"Use {written('rounding', 'exact')} here")


def require_scale_per_output(
    rule: str, operation: str, grid: QParams, outputs: int
) -> None:
    """Raise unless the weights have one scale, or one along the axis `outputs`."""
    if not grid.is_along(None, outputs):
        problem = "it takes weights with one scale for each output"
        refuse(rule, operation, problem, f"Use {written('rounding', 'exact')} here")


def require_one_shape(rule: str, operation: str, *tensors: Operand) -> None:
    """Raise if the tensors would broadcast."""
    # A library that broadcasts rounds in another order.
    if len({x.shape for x in tensors}) > 1:
        fix = "Broadcast the arguments first"
        refuse(rule, operation, "its order of roundings depends on the shapes", fix)


def require_same_grid(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """Raise unless the result keeps the grid of the argument."""
    # The kernel works on raw codes, without scales.
    if source != out:
        problem = f"the result must keep the grid ({source.describe()})"
        refuse(rule, operation, problem, "Use out=x.qparams, then requantize")


def require_concat_grid(
    rule: str, operation: str, source: QParams, out: QParams
) -> None:
    """Raise if qint8 arrays to concatenate are not on the grid `out`."""
    if out.dtype is qint8 and source != out:
        problem = (
            f"it concatenates qint8 on one grid only, not also ({source.describe()})"
        )
        refuse(rule, operation, problem, "Requantize to out= first, or use quint8")


def output_grid(operation: str, dtype: DType) -> QParams:
    """Return the one grid of `dtype` that the library writes `operation` to."""
    scale, zero = BOUNDED[operation]
    return QParams(scale, zero + (128 if dtype is quint8 else 0), dtype=dtype)


def require_bounded_grid(rule: str, operation: str, out: QParams) -> None:
    """Raise unless `out` is the grid that the library fixes for the function."""
    wanted = output_grid(operation, out.dtype)
    if out != wanted:
        refuse(rule, operation, f"it writes to {wanted} only", f"Pass out={wanted}")


# LiteRT's int8 kernels take symmetric weights only: a zero point of the weights would
# add a sum of activations to each product.
def require_symmetric_weights(
    rule: str, operation: str, x: Operand, w: Operand
) -> None:
    """Raise unless the weights have zero point 0.

    Weights are qint8 with zero point 0, or, with quint8 activations, quint8 with one
    scale and any zero point.
    """
    if w.dtype is qint8 and not w.qparams.zero_point.any():
        return
    if w.dtype is not quint8 or x.dtype is not quint8:
        problem = "it takes qint8 weights with zero point 0, or quint8 by quint8"
        refuse(rule, operation, problem, "Quantize them symmetrically")
    require_one_scale(rule, operation, w.qparams)


def require_ratio(
    rule: str, operation: str, ratio: Any, low: float, high: float
) -> None:
    """Raise unless low <= ratio < high holds for each ratio of scales."""
    ratios = np.atleast_1d(np.asarray(ratio, np.float64))
    # Negated, so that a NaN is outside as well.
    outside = ratios[~((ratios >= low) & (ratios < high))]
    if outside.size:
        problem = f"a ratio of scales is {outside[0]:.6g}, not in [{low:g}, {high:g})"
        refuse(rule, operation, problem, "Use scales that are nearer to each other")


def require_near_products(
    rule: str, operation: str, x: Operand, w: Operand, out: QParams
) -> None:
    """Raise if XNNPACK does not rescale sums of these products to `out`."""
    ratio = x.qparams.scale * w.qparams.scale / out.scale
    require_ratio(rule, operation, ratio, 2.0**-32, 2.0**8)


Array = npt.NDArray[Any]
Kernel = Callable[..., Any]
Check = Callable[..., None]


def kernel_grid(grid: QParams, shape: tuple[int, ...] = ()) -> Grid:
    """Convert a QParams to a `Grid`, which the kernels take.

    Args:
        shape: the shape of the tensor, against which scales along an axis broadcast.
    """
    # Kernels compute in float32, as the libraries do: a float64 scale would widen that.
    scale = np.float32(grid.along(grid.scale, shape))
    return Grid(scale, grid.along(grid.zero_point, shape), grid.minimum, grid.maximum)


@dataclass(frozen=True)
class Call:
    """One operation computed by one rule.

    Args:
        rule, operation: their names, for errors and for the result.
        kernel: maps codes and grids to codes.
        check: raises for calls that the library does not compute.
    """

    rule: str
    operation: str
    kernel: Kernel
    check: Check

    def __call__(self, *given: Any, **options: Any) -> QuantizedTensor:
        """Compute the operation. `given` are its tensors, and `out` last."""
        raise NotImplementedError

    def allow(self, *given: Any, **options: Any) -> None:
        """Raise if the library does not compute this call.

        Args:
            given: tensors or specs, and `out` last.
            options: options of the operation.

        Raises:
            OptionError: always; the text describes what the library computes instead.
        """
        x, out = given
        check_one_scale(x)
        self.check(self.rule, self.operation, x.qparams, out)

    def admit(self, *given: Any) -> None:
        """Check tensors by `allow`; an error shows their types and shapes."""
        checked(self.operation, given[:-1], lambda: self.allow(*given))

    def tensor(self, codes: Array, out: QParams) -> QuantizedTensor:
        """Return `codes` as a tensor on `out` that records the rule."""
        storage, grid = out.dtype.storage, out.rounded(self.rule)
        found: QuantizedTensor = quantized(codes.astype(storage), grid)
        return found


class QuantizeCall(Call):
    """`quantize`: numbers to codes."""

    def allow(self, *given: Any, **options: Any) -> None:
        self.check(self.rule, self.operation, given[-1])

    def __call__(self, x: Tensor, out: QParams) -> QuantizedTensor:
        self.admit(x, out)
        # The libraries take float32, so wider numbers lose digits before the rule.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values = x.buffer.astype(np.float32)
        return self.tensor(self.kernel(values, kernel_grid(out, x.shape)), out)


@dataclass(frozen=True)
class RequantizeCall(Call):
    """`requantize`: codes or 32-bit sums to another grid.

    Args:
        products: the kernel for 32-bit sums, as after a product.
    """

    products: Kernel

    def allow(self, *given: Any, **options: Any) -> None:
        x, out = given
        if x.dtype is qint32:
            require_8bit(self.rule, self.operation, out)
        else:
            self.check(self.rule, self.operation, x.qparams, out)

    def __call__(self, x: QuantizedTensor, out: QParams) -> QuantizedTensor:
        self.admit(x, out)
        target = kernel_grid(out, x.shape)
        if x.dtype is qint32:
            scale = x.qparams.along(x.qparams.scale, x.shape)
            # The kernel multiplies two scales; the sums carry their product already.
            found = self.products(x.buffer, Grid(scale, 0), Grid(1.0, 0), target)
        else:
            found = self.kernel(x.buffer, kernel_grid(x.qparams, x.shape), target)
        return self.tensor(found, out)


class PairCall(Call):
    """Arithmetic of two tensors of codes, element by element."""

    def allow(self, *given: Any, **options: Any) -> None:
        check_one_scale(*given[:-1])
        self.check(self.rule, self.operation, *given)

    def __call__(
        self, x1: QuantizedTensor, x2: QuantizedTensor, out: QParams
    ) -> QuantizedTensor:
        self.admit(x1, x2, out)
        codes = np.broadcast_arrays(x1.buffer, x2.buffer)
        grids = kernel_grid(x1.qparams), kernel_grid(x2.qparams), kernel_grid(out)
        return self.tensor(self.kernel(*codes, *grids), out)


@dataclass(frozen=True)
class ProductCall(Call):
    """Sums of products: exact in 32 bits, then rounded by the kernel.

    Args:
        exact: the operation itself, called without `out`.
    """

    exact: Callable[..., QuantizedTensor]

    def allow(self, *given: Any, **options: Any) -> None:
        x, w, *_, out = given
        self.check(self.rule, self.operation, x, w, out)
        outputs = w.ndim - 1 if self.operation == "matmul" else 0
        require_scale_per_output(self.rule, self.operation, w.qparams, outputs)

    def __call__(
        self, x: QuantizedTensor, w: QuantizedTensor, *rest: Any, **options: Any
    ) -> QuantizedTensor:
        *bias, out = rest
        self.admit(x, w, out)
        # Integer sums are the same in every library: only their rounding differs.
        sums = self.exact(x, w, *bias, **options)
        weights = w.qparams.on_axis(sums.qparams.axis)
        scales = (
            kernel_grid(x.qparams),
            kernel_grid(weights, sums.shape),
            kernel_grid(out),
        )
        return self.tensor(self.kernel(sums.buffer.astype(np.int64), *scales), out)


@dataclass(frozen=True)
class EitherCall:
    """A choice of two calls by the arguments.

    Args:
        usual, other: the calls.
        is_other: takes the arguments and returns whether `other` computes them.
    """

    usual: "Preset"
    other: "Preset"
    is_other: Callable[..., bool]

    def allow(self, *arguments: Any, **options: Any) -> None:
        self._choose(*arguments, **options).allow(*arguments, **options)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._choose(*arguments, **options)(*arguments, **options)

    def _choose(self, *arguments: Any, **options: Any) -> "Preset":
        return self.other if self.is_other(*arguments, **options) else self.usual


class PoolCall(Call):
    """Average pooling."""

    def __call__(
        self,
        x: QuantizedTensor,
        window: Window,
        border: Sequence[int] | None,
        out: QParams,
    ) -> QuantizedTensor:
        self.admit(x, out)
        taps = _taps(x.buffer.astype(np.int64), window)
        inside = _taps(np.ones((1, 1, *x.shape[2:]), np.int64), window)
        # With count_include_pad a mean divides by more pixels than it adds up.
        counted = inside if border is None else self._around(x.shape, window, border)
        # Means at an edge divide by fewer pixels, so each position has its own count.
        counts = counted.sum(axis=0)
        grids = kernel_grid(x.qparams), kernel_grid(out)
        return self.tensor(self.kernel(taps, inside == 1, counts, *grids), out)

    def _around(
        self, shape: tuple[int, ...], window: Window, border: Sequence[int]
    ) -> Array:
        """Return 1 for the taps in the image and its padding, and 0 beyond."""
        sizes = zip(shape[2:], _edges(border), strict=True)
        around = np.ones((1, 1, *(n + sum(edge) for n, edge in sizes)), np.int64)
        rest = [p - b for p, b in zip(window.padding, border, strict=True)]
        return _taps(around, window, rest)


class WholePoolCall(PoolCall):
    """Average pooling that divides by whole windows, also where they go on beyond."""

    def _around(
        self, shape: tuple[int, ...], window: Window, border: Sequence[int]
    ) -> Array:
        return np.ones_like(super()._around(shape, window, border))


def _edges(border: Sequence[int]) -> list[tuple[int, int]]:
    top, left, bottom, right = border
    return [(top, bottom), (left, right)]


def _taps(image: Array, window: Window, padding: Sequence[int] | None = None) -> Array:
    """Return the pixels under each tap of a window, row by row; 0 outside the image.

    Returns:
        [kh · kw, n, c, oh, ow].
    """
    edges = _edges(window.padding if padding is None else padding)
    padded = np.pad(image, [(0, 0), (0, 0), *edges])
    (kh, kw), (sh, sw) = window.kernel, window.stride
    found = [
        padded[:, :, i : padded.shape[2] - kh + 1 + i : sh][
            ..., j : padded.shape[3] - kw + 1 + j : sw
        ]
        for i in range(kh)
        for j in range(kw)
    ]
    return np.stack(found)


@dataclass(frozen=True)
class ImageMeanCall(Call):
    """Global average pooling: the mean of each whole image.

    Args:
        is_raw: whether the kernel takes sums of raw codes, not of steps from real 0.
    """

    is_raw: bool

    def __call__(self, x: QuantizedTensor, out: QParams) -> QuantizedTensor:
        self.admit(x, out)
        zero = 0 if self.is_raw else x.qparams.zero
        sums = (x.buffer.astype(np.int64) - zero).sum(axis=(2, 3), keepdims=True)
        count = x.shape[2] * x.shape[3]
        return self.tensor(
            self.kernel(sums, count, kernel_grid(x.qparams), kernel_grid(out)), out
        )


class PixelMeanCall(Call):
    """Global average pooling by a kernel that adds pixels in its own order."""

    def __call__(self, x: QuantizedTensor, out: QParams) -> QuantizedTensor:
        self.admit(x, out)
        pixels = x.buffer.reshape(*x.shape[:2], -1)
        codes = self.kernel(pixels, kernel_grid(x.qparams), kernel_grid(out))
        return self.tensor(codes[..., None, None], out)


class CurveCall(Call):
    """A function of one code, as a table of the float32 function."""

    def __call__(
        self, function: Function, x: QuantizedTensor, out: QParams, **options: Any
    ) -> QuantizedTensor:
        self.admit(x, out)
        return self.looked_up(_table(self.kernel, function, x.qparams, out), x, out)

    def looked_up(
        self, table: Array, x: QuantizedTensor, out: QParams
    ) -> QuantizedTensor:
        """Return the elements of a table that the codes of `x` number, on `out`."""
        # int64, because the smallest code subtracted in 8 bits would wrap.
        places = x.buffer.astype(np.int64) - x.qparams.minimum
        return self.tensor(table[places], out)


class StepwiseCurveCall(CurveCall):
    """A function of one code that the library rounds after each of its operations."""

    def __call__(
        self, function: Function, x: QuantizedTensor, out: QParams, **options: Any
    ) -> QuantizedTensor:
        self.admit(x, out)
        given = {name: self._narrow(name, value) for name, value in options.items()}
        codes = np.arange(x.qparams.minimum, x.qparams.maximum + 1)
        grids = kernel_grid(x.qparams), kernel_grid(out)
        return self.looked_up(self.kernel(codes, *grids, **given), x, out)

    def _narrow(self, name: str, value: float) -> np.float32:
        """Return an option as the float32 number that a node holds."""
        found = np.float32(value)
        if np.isinf(found):
            fix = "Use a number that float32 represents"
            refuse(self.rule, self.operation, f"{written(name, value)}", fix)
        return found


# The function is exact and slow, and models repeat their grids.
@lru_cache(maxsize=1024)
def _table(kernel: Kernel, function: Function, source: QParams, out: QParams) -> Array:
    """Return the codes of a function of float32 numbers, ordered by source code.

    Args:
        kernel: maps float32 values to codes on a grid.
        function: takes and returns rational numbers.
    """
    steps = np.arange(source.minimum, source.maximum + 1) - source.zero
    # Infinity has the code of the largest float32 number on any grid, and is not a
    # fraction.
    most = np.finfo(np.float32).max
    real = np.clip(np.float32(source.scale) * steps.astype(np.float32), -most, most)
    limit = Fraction(float(most))
    values = [min(max(function(Fraction(float(v))), -limit), limit) for v in real]
    rounded = np.array([float32_of(v) for v in values])
    codes: Array = kernel(rounded, kernel_grid(out))
    return codes


class ApproximateCurveCall(CurveCall):
    """A function of one code that the library approximates in float32."""

    def __call__(
        self, function: Function, x: QuantizedTensor, out: QParams, **options: Any
    ) -> QuantizedTensor:
        self.admit(x, out)
        return self.looked_up(_approximate(self.kernel, x.qparams, out), x, out)


# As above: some 200 calls of NumPy for 256 codes.
@lru_cache(maxsize=1024)
def _approximate(kernel: Kernel, source: QParams, out: QParams) -> Array:
    """Return the codes of a function, ordered by source code."""
    codes = np.arange(source.minimum, source.maximum + 1)
    found: Array = kernel(codes, kernel_grid(source), kernel_grid(out))
    return found


class IntegerCurveCall(Call):
    """A function of one code that the library computes in integers."""

    def __call__(
        self, function: Function, x: QuantizedTensor, out: QParams, **options: Any
    ) -> QuantizedTensor:
        self.admit(x, out)
        return self.tensor(
            self.kernel(x.buffer, kernel_grid(x.qparams), kernel_grid(out)), out
        )


class SoftmaxCall(Call):
    """`softmax` along one axis."""

    def __call__(self, x: QuantizedTensor, axis: int, out: QParams) -> QuantizedTensor:
        self.admit(x, out)
        # Kernels take a maximum, which an empty row does not have.
        if x.buffer.size == 0:
            return self.tensor(x.buffer, out)
        # Kernels normalize along the last axis.
        codes = np.moveaxis(x.buffer, axis, -1)
        found = self.kernel(codes, kernel_grid(x.qparams), kernel_grid(out))
        return self.tensor(np.moveaxis(found, -1, axis), out)


class ConcatCall(Call):
    """`concat`: each tensor is requantized to `out`."""

    def allow(self, *given: Any, **options: Any) -> None:
        *xs, out = given
        check_one_scale(*xs)
        for x in xs:
            self.check(self.rule, self.operation, x.qparams, out)

    def __call__(self, *given: Any, axis: int | None = None) -> QuantizedTensor:
        self.admit(*given)
        *xs, out = given
        grids = [kernel_grid(x.qparams, x.shape) for x in xs]
        moved = zip((x.buffer for x in xs), grids, strict=True)
        parts = [self.kernel(codes, grid, kernel_grid(out)) for codes, grid in moved]
        return self.tensor(np.concatenate(parts, axis), out)


#: A call that is an entry of the table of presets.
Preset = Call | EitherCall
