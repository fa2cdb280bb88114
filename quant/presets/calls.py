"""From tensors to the kernels of a rule and back: one class a family of operations.

Each takes what the methods of the operation hand it: the tensors, then `out`. What the
library does not compute is refused first, by `allow`, which specs do for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from mdtensor import DType, OptionError
from mdtensor.errors import checked, written
from mdtensor.kernels.presets.grid import Grid
from mdtensor.kernels.rescale import float32_of
from mdtensor.quant.dtypes import FLOATS, qint8, qint32, quint8
from mdtensor.quant.grids.combine import check_one_scale
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import quantized

# What libraries refuse, or take to another kernel: no rule is made up for it.

#: The grids of qint8 that functions with a bounded range are written to, by operation;
#: of quint8 the zero point is 128 more.
BOUNDED = {"sigmoid": (2.0**-8, -128), "tanh": (2.0**-7, 0), "softmax": (2.0**-8, -128)}


def refuse(rule: str, operation: str, problem: str, fix: str) -> NoReturn:
    """Say what the library does not compute.

    Raises:
        OptionError: always.
    """
    raise OptionError(f"{written('rounding', rule)}: {problem}", fix, operation)


def eight_bits(rule: str, operation: str, *grids: QParams) -> None:
    """8-bit codes in and out."""
    for grid in grids:
        if grid.dtype not in (qint8, quint8):
            fix = "Use qint8 or quint8"
            refuse(rule, operation, f"it has nothing for {grid.dtype}", fix)


def integers(rule: str, operation: str, *grids: QParams) -> None:
    """Codes that are integers."""
    for grid in grids:
        if grid.dtype in FLOATS:
            fix = f"Use an integer type, or {written('rounding', 'exact')}"
            refuse(rule, operation, f"it has nothing for {grid.dtype}", fix)


def one_type(rule: str, operation: str, *grids: QParams) -> None:
    """Codes of one 8-bit type in and out."""
    eight_bits(rule, operation, *grids)
    kinds = {grid.dtype for grid in grids}
    if len(kinds) > 1:
        names = " and ".join(sorted(str(kind) for kind in kinds))
        refuse(rule, operation, f"it mixes {names}", "Use one 8-bit type for all")


def one_scale(rule: str, operation: str, *grids: QParams) -> None:
    """One grid a tensor."""
    if any(grid.axis is not None for grid in grids):
        problem = "it has one scale for a whole tensor"
        refuse(rule, operation, problem, f"Use {written('rounding', 'exact')} here")


def one_scale_each(rule: str, operation: str, grid: QParams, outputs: int) -> None:
    """Weights with one scale for each index of the axis `outputs`, or one."""
    if not grid.is_along(None, outputs):
        problem = "its weights have one scale for each output"
        refuse(rule, operation, problem, f"Use {written('rounding', 'exact')} here")


def one_shape(rule: str, operation: str, *tensors: Any) -> None:
    """No broadcasting."""
    if len({x.shape for x in tensors}) > 1:
        fix = "Broadcast the arguments first"
        refuse(rule, operation, "its order of roundings depends on the shapes", fix)


def one_grid(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """What works on raw codes."""
    if source != out:
        problem = f"it keeps the grid, ({source.describe()})"
        refuse(rule, operation, problem, "Use out=x.qparams, then requantize")


def laid(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """What lays codes of qint8 end to end as they are."""
    if out.dtype is qint8 and source != out:
        problem = f"its qint8 is on one grid, not also ({source.describe()})"
        refuse(rule, operation, problem, "Requantize to out= first, or use quint8")


def bounded_grid(operation: str, dtype: DType) -> QParams:
    """The grid that the function is written to, of an 8-bit type."""
    scale, zero = BOUNDED[operation]
    return QParams(scale, zero + (128 if dtype is quint8 else 0), dtype=dtype)


def bounded(rule: str, operation: str, out: QParams) -> None:
    """A function whose grid the library fixes."""
    wanted = bounded_grid(operation, out.dtype)
    if out != wanted:
        refuse(rule, operation, f"it writes to {wanted} only", "Use that as out=")


def symmetric(rule: str, operation: str, x: Any, w: Any) -> None:
    """Weights of qint8 with zero point 0, or quint8 of one scale beside quint8."""
    if w.dtype is qint8 and not w.qparams.zero_point.any():
        return
    if w.dtype is not quint8 or x.dtype is not quint8:
        problem = "its weights are qint8 with zero point 0, or quint8 by quint8"
        refuse(rule, operation, problem, "Quantize them symmetrically")
    one_scale(rule, operation, w.qparams)


def within(rule: str, operation: str, ratio: Any, low: float, high: float) -> None:
    """A ratio of scales, low <= ratio < high."""
    ratios = np.atleast_1d(np.asarray(ratio, np.float64))
    outside = ratios[~((ratios >= low) & (ratios < high))]
    if outside.size:
        problem = f"a ratio of scales is {outside[0]:.6g}, not in [{low:g}, {high:g})"
        refuse(rule, operation, problem, "Use scales that are nearer to each other")


def near_products(rule: str, operation: str, x: Any, w: Any, out: QParams) -> None:
    """Scales of products that XNNPACK takes to those of their sums."""
    ratio = x.qparams.scale * w.qparams.scale / out.scale
    within(rule, operation, ratio, 2.0**-32, 2.0**8)


Kernel = Callable[..., Any]
Check = Callable[..., None]


def plain(grid: QParams, shape: tuple[int, ...] = ()) -> Grid:
    """The grid as kernels take it; scales along an axis are shaped to broadcast."""
    scale = np.float32(grid.along(grid.scale, shape))
    return Grid(scale, grid.along(grid.zero_point, shape), grid.minimum, grid.maximum)


@dataclass(frozen=True)
class Call:
    """One operation by one rule.

    Args:
        rule, operation: their names, for errors and for the result.
        kernel: codes and grids to codes.
        check: refuses what the library does not compute.
    """

    rule: str
    operation: str
    kernel: Kernel
    check: Check

    def allow(self, *given: Any, **options: Any) -> None:
        """Refuse what the library does not compute; a spec is enough.

        Args:
            given: the tensors, then `out`.
            options: of the operation.

        Raises:
            OptionError: with what it does compute.
        """
        x, out = given
        check_one_scale(x)
        self.check(self.rule, self.operation, x.qparams, out)

    def admit(self, *given: Any) -> None:
        """As `allow`, of tensors, which an error names."""
        checked(self.operation, given[:-1], lambda: self.allow(*given))

    def tensor(self, codes: Any, out: QParams) -> Any:
        """The codes on `out`, which remember their rule."""
        return quantized(codes.astype(out.dtype.storage), out.rounded(self.rule))


class Quantized(Call):
    """Numbers to codes."""

    def allow(self, *given: Any, **options: Any) -> None:
        self.check(self.rule, self.operation, given[-1])

    def __call__(self, x: Any, out: QParams) -> Any:
        self.admit(x, out)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values = x.buffer.astype(np.float32)
        return self.tensor(self.kernel(values, plain(out, x.shape)), out)


@dataclass(frozen=True)
class Requantized(Call):
    """Codes, or accumulators, to another grid."""

    products: Kernel

    def allow(self, *given: Any, **options: Any) -> None:
        x, out = given
        if x.dtype is qint32:
            eight_bits(self.rule, self.operation, out)
        else:
            self.check(self.rule, self.operation, x.qparams, out)

    def __call__(self, x: Any, out: QParams) -> Any:
        self.admit(x, out)
        target = plain(out, x.shape)
        if x.dtype is qint32:
            scale = x.qparams.along(x.qparams.scale, x.shape)
            found = self.products(x.buffer, Grid(scale, 0), Grid(1.0, 0), target)
        else:
            found = self.kernel(x.buffer, plain(x.qparams, x.shape), target)
        return self.tensor(found, out)


class Paired(Call):
    """Two tensors of codes, element by element."""

    def allow(self, *given: Any, **options: Any) -> None:
        check_one_scale(*given[:-1])
        self.check(self.rule, self.operation, *given)

    def __call__(self, x1: Any, x2: Any, out: QParams) -> Any:
        self.admit(x1, x2, out)
        codes = np.broadcast_arrays(x1.buffer, x2.buffer)
        grids = plain(x1.qparams), plain(x2.qparams), plain(out)
        return self.tensor(self.kernel(*codes, *grids), out)


@dataclass(frozen=True)
class Products(Call):
    """Sums of products, exact in 32 bits, then rounded.

    Args:
        exact: the operation itself, without `out`.
    """

    exact: Any

    def allow(self, *given: Any, **options: Any) -> None:
        x, w, *_, out = given
        self.check(self.rule, self.operation, x, w, out)
        outputs = w.ndim - 1 if self.operation == "matmul" else 0
        one_scale_each(self.rule, self.operation, w.qparams, outputs)

    def __call__(self, x: Any, w: Any, *rest: Any, **options: Any) -> Any:
        *bias, out = rest
        self.admit(x, w, out)
        sums = self.exact(x, w, *bias, **options)
        weights = w.qparams.on_axis(sums.qparams.axis)
        scales = plain(x.qparams), plain(weights, sums.shape), plain(out)
        return self.tensor(self.kernel(sums.buffer.astype(np.int64), *scales), out)


@dataclass(frozen=True)
class ByType:
    """One call or another, by the arguments."""

    usual: Any
    other: Any
    is_other: Callable[..., bool]

    def allow(self, *arguments: Any, **options: Any) -> None:
        self._chosen(*arguments, **options).allow(*arguments, **options)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._chosen(*arguments, **options)(*arguments, **options)

    def _chosen(self, *arguments: Any, **options: Any) -> Any:
        return self.other if self.is_other(*arguments, **options) else self.usual


class Pooled(Call):
    """Means of windows."""

    def __call__(self, x: Any, window: Any, border: Any, out: QParams) -> Any:
        self.admit(x, out)
        taps = _taps(x.buffer.astype(np.int64), window)
        inside = _taps(np.ones((1, 1, *x.shape[2:]), np.int64), window)
        counted = inside
        if border is not None:
            sizes = zip(x.shape[2:], _edges(border), strict=True)
            around = np.ones((1, 1, *(n + sum(edge) for n, edge in sizes)), np.int64)
            rest = [p - b for p, b in zip(window.padding, border, strict=True)]
            counted = _taps(around, window, rest)
        counts = counted.sum(axis=0)
        grids = plain(x.qparams), plain(out)
        return self.tensor(self.kernel(taps, inside == 1, counts, *grids), out)


def _edges(border: Any) -> list[tuple[int, int]]:
    top, left, bottom, right = border
    return [(top, bottom), (left, right)]


def _taps(image: Any, window: Any, padding: Any = None) -> Any:
    """[kh · kw, n, c, oh, ow]: the pixels under each tap, row by row; 0 outside."""
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
class PooledWhole(Call):
    """Means of whole images.

    Args:
        is_raw: sums are of codes, not of steps.
    """

    is_raw: bool

    def __call__(self, x: Any, out: QParams) -> Any:
        self.admit(x, out)
        zero = 0 if self.is_raw else x.qparams.zero
        sums = (x.buffer.astype(np.int64) - zero).sum(axis=(2, 3), keepdims=True)
        count = x.shape[2] * x.shape[3]
        return self.tensor(self.kernel(sums, count, plain(x.qparams), plain(out)), out)


class Curved(Call):
    """A function of one code, through a table."""

    def __call__(self, function: Any, x: Any, out: QParams) -> Any:
        self.admit(x, out)
        table = _table(self.kernel, function, x.qparams, out)
        places = x.buffer.astype(np.int64) - x.qparams.minimum
        return self.tensor(table[places], out)


@lru_cache(maxsize=1024)
def _table(kernel: Kernel, function: Any, source: QParams, out: QParams) -> Any:
    """Codes of `function`, whose argument and value are float32, by code."""
    steps = np.arange(source.minimum, source.maximum + 1) - source.zero
    most = np.finfo(np.float32).max  # infinity has the code of this, on any grid
    real = np.clip(np.float32(source.scale) * steps.astype(np.float32), -most, most)
    limit = Fraction(float(most))
    values = [min(max(function(Fraction(float(v))), -limit), limit) for v in real]
    return kernel(np.array([float32_of(v) for v in values]), plain(out))


class CurvedByCode(Call):
    """A function of one code that the library has integers for."""

    def __call__(self, function: Any, x: Any, out: QParams) -> Any:
        self.admit(x, out)
        return self.tensor(self.kernel(x.buffer, plain(x.qparams), plain(out)), out)


class Shared(Call):
    """Shares of a sum along one axis."""

    def __call__(self, x: Any, axis: int, out: QParams) -> Any:
        self.admit(x, out)
        if x.buffer.size == 0:
            return self.tensor(x.buffer, out)
        codes = np.moveaxis(x.buffer, axis, -1)
        found = self.kernel(codes, plain(x.qparams), plain(out))
        return self.tensor(np.moveaxis(found, -1, axis), out)


class Joined(Call):
    """Tensors end to end, each brought to the grid."""

    def allow(self, *given: Any, **options: Any) -> None:
        *xs, out = given
        check_one_scale(*xs)
        for x in xs:
            self.check(self.rule, self.operation, x.qparams, out)

    def __call__(self, *given: Any, axis: int | None) -> Any:
        self.admit(*given)
        *xs, out = given
        grids = [plain(x.qparams, x.shape) for x in xs]
        moved = zip((x.buffer for x in xs), grids, strict=True)
        parts = [self.kernel(codes, grid, plain(out)) for codes, grid in moved]
        return self.tensor(np.concatenate(parts, axis), out)
