"""QParams: the grid of a quantized tensor.

    real = scale · (code - zero_point)

A grid is checked once, here, so that no kernel ever meets a scale that is zero,
negative, infinite or subnormal, or a zero point that is no code. Scales of 8-bit types
are float32 numbers, as in ONNX; the scale of an accumulator is the product of two of
them, which float64 holds exactly.
"""

from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DType, GridError, MdtensorError, dtype as find_dtype
from mdtensor.errors import shown
from mdtensor.quant.dtypes import qint8, qint32
from mdtensor.quant.rules import check_rule

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class QParams:
    """The affine map from codes to real numbers; immutable.

    Args:
        scale: the step, > 0; one number, or one for each index of `axis`. Rounded to
            float32 for 8-bit types.
        zero_point: the code of real 0; one, or as many as scales.
        dtype: type of the codes: `qint8`, `quint8` or `qint32`.
        axis: the axis along which scales differ; None for one grid per tensor.
        rounding: the rule by which results are rounded to it, see `quant.rounding`;
            None leaves that to the call. Grids are equal whatever their rule.

    Raises:
        GridError: a scale that is not finite, positive and normal; a zero point that
            is not a code, or not 0 for `qint32`; numbers that do not fit `axis`.

    Example:
        >>> grid = QParams(0.1, 3)
        >>> grid
        QParams(scale=0.1, zero_point=3, dtype=qint8)
        >>> grid.range
        (-13.100000195205212, 12.400000184774399)

    Source: ONNX `QuantizeLinear`; Jacob et al. 2018, section 2.1.
    """

    __slots__ = ("axis", "dtype", "rounding", "scale", "zero_point")

    scale: FloatArray
    zero_point: IntArray
    dtype: DType
    axis: int | None
    rounding: str | None

    def __init__(
        self,
        scale: Any,
        zero_point: Any = 0,
        *,
        dtype: DType = qint8,
        axis: int | None = None,
        rounding: str | None = None,
    ) -> None:
        dtype = _code_dtype(dtype)
        scales = _scales(_numbers("scale", scale, np.float64), dtype)
        zeros = _zero_points(_numbers("zero_point", zero_point), dtype)
        _check_axis(scales, zeros, axis)
        zeros = np.broadcast_to(zeros, scales.shape)
        for name, value in {
            "scale": _frozen(scales),
            "zero_point": _frozen(zeros),
            "dtype": dtype,
            "axis": axis,
            "rounding": rounding if rounding is None else check_rule(rounding),
        }.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise GridError(f"a grid does not change, {name} neither", "Make a new QParams")

    @property
    def minimum(self) -> int:
        """The smallest code."""
        return int(self.dtype.minimum)

    @property
    def maximum(self) -> int:
        """The largest code."""
        return int(self.dtype.maximum)

    @property
    def range(self) -> tuple[float, float]:
        """The real numbers of the smallest and the largest code; one grid only."""
        self.refuse_axis("range")
        step, zero = float(self.scale), int(self.zero_point)
        return (self.minimum - zero) * step, (self.maximum - zero) * step

    @property
    def fractions(self) -> list[Fraction]:
        """The scales as exact rational numbers."""
        return [Fraction(float(s)) for s in self.scale.reshape(-1)]

    @property
    def fraction(self) -> Fraction:
        """The one scale as an exact rational number."""
        self.refuse_axis("scale")
        return self.fractions[0]

    @property
    def zero(self) -> int:
        """The one zero point."""
        self.refuse_axis("zero point")
        return int(self.zero_point.reshape(-1)[0])

    def refuse_axis(self, what: str) -> None:
        """Raise unless there is one grid for the whole tensor."""
        if self.axis is not None:
            raise GridError(
                f"{self} has no single {what}", "Use a grid per tensor here"
            )

    def on_axis(self, axis: int | None) -> "QParams":
        """The same scales along another axis."""
        if axis == self.axis or self.axis is None:
            return self
        return QParams(self.scale, self.zero_point, dtype=self.dtype, axis=axis)

    def rounded(self, rule: str | None) -> "QParams":
        """The same grid, to which results are rounded by `rule`.

        Raises:
            OptionError: no rule has this name.

        Example:
            >>> QParams(0.5).rounded("tflite_ref")
            QParams(scale=0.5, zero_point=0, dtype=qint8, rounding='tflite_ref')
        """
        if rule == self.rounding:
            return self
        return _rebuild(self.scale, self.zero_point, self.dtype, self.axis, rule)

    def along(self, values: npt.NDArray[Any], ndim: int) -> npt.NDArray[Any]:
        """Per-grid `values` shaped to broadcast against a tensor of `ndim` axes."""
        if self.axis is None:
            return values
        return values.reshape([-1 if i == self.axis else 1 for i in range(ndim)])

    def _key(self) -> tuple[Any, ...]:
        return (
            self.scale.tobytes(),
            self.zero_point.tobytes(),
            self.dtype.name,
            self.axis,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QParams) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        parts = (self.scale, self.zero_point, self.dtype, self.axis, self.rounding)
        return _rebuild, parts

    def __repr__(self) -> str:
        rule = "" if self.rounding is None else f", rounding={self.rounding!r}"
        return f"QParams({self.describe()}, dtype={self.dtype}{rule})"

    def describe(self) -> str:
        """`scale=0.1, zero_point=3`, or the span of scales along an axis."""
        scales, zeros = self.scale.reshape(-1), self.zero_point.reshape(-1)
        if self.axis is None:
            return f"scale={_short(scales[0])}, zero_point={zeros[0]}"
        if not scales.size:
            return f"0 scales, axis={self.axis}"
        span = f"{_short(scales.min())}..{_short(scales.max())}"
        return f"{scales.size} scales={span}, axis={self.axis}"


def _rebuild(
    scale: Any,
    zero_point: Any,
    dtype: DType,
    axis: int | None,
    rounding: str | None = None,
) -> QParams:
    return QParams(scale, zero_point, dtype=dtype, axis=axis, rounding=rounding)


def _short(scale: float) -> str:
    """The shortest decimal that reads back as the same float32, if it is one."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = np.float32(scale)
    if scale == narrow:
        return str(narrow)
    return repr(float(scale))


def _frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    copy = np.array(values)
    copy.flags.writeable = False
    return copy


def _code_dtype(given: Any) -> DType:
    dtype = find_dtype(given)
    if dtype.kind != "quantized":
        raise GridError(
            f"{dtype} is no type of codes", "Use qint8 or quint8", "QParams"
        )
    return dtype


def _numbers(name: str, given: Any, dtype: Any = None) -> npt.NDArray[Any]:
    """`given` as an array of real numbers."""
    try:
        found = np.asarray(given)
        if found.dtype.kind != "c":  # of which NumPy would drop a part, and warn
            found = np.asarray(given, dtype)
    except (TypeError, ValueError, OverflowError, MdtensorError):
        found = np.asarray(None)
    if found.dtype.kind not in "biuf":
        raise GridError(
            f"{name} is a {type(given).__name__} that holds no numbers",
            "Give a number, or one for each index of axis",
            "QParams",
        )
    return found


def _check_axis(scales: FloatArray, zeros: IntArray, axis: Any) -> None:
    is_axis = isinstance(axis, Integral) and int(axis) >= 0
    if axis is not None and not is_axis:
        raise GridError(
            f"axis is {shown(axis)}", "Count it from the front, from 0", "QParams"
        )
    if scales.ndim != is_axis:
        raise GridError(
            f"{scales.size} scales with axis={shown(axis)}",
            "Give one number, or a sequence and its axis",
            "QParams",
        )
    if zeros.shape not in ((), scales.shape):
        raise GridError(
            f"{zeros.size} zero points for {scales.size} scales",
            "Give one, or as many as scales",
            "QParams",
        )


def _scales(exact: FloatArray, dtype: DType) -> FloatArray:
    narrow = dtype is not qint32
    with np.errstate(over="ignore", under="ignore"):
        rounded = exact.astype(np.float32).astype(np.float64) if narrow else exact
    smallest = float(np.finfo(np.float32 if narrow else np.float64).tiny)
    if not (np.isfinite(rounded) & (rounded >= smallest)).all():
        worst = exact.reshape(-1)[~(rounded.reshape(-1) >= smallest)][:1]
        shown = f"{worst[0]:g}" if worst.size else "infinite"
        raise GridError(
            f"a scale is {shown}",
            f"Use finite numbers from {smallest:.3g} on",
            "QParams",
        )
    return rounded


def _zero_points(given: npt.NDArray[Any], dtype: DType) -> IntArray:
    low, high = (0, 0) if dtype is qint32 else (int(dtype.minimum), int(dtype.maximum))
    whole = given.dtype.kind in "iu" or bool((given == np.rint(given)).all())
    if not whole or (given < low).any() or (given > high).any():
        raise GridError(
            f"a zero point is no code of {dtype}: given {_span(given)}",
            f"Use integers from {low} to {high}",
            "QParams",
        )
    return given.astype(np.int64)


def _span(values: npt.NDArray[Any]) -> str:
    low, high = values.min(), values.max()
    return f"{low}" if low == high else f"{low} to {high}"


def grid_of(
    low: float, high: float, *, dtype: DType, symmetric: bool = False
) -> QParams:
    """The grid that covers [low, high] and has a code for real 0.

    Args:
        low, high: the range; widened to hold 0. An empty range gives a scale of 1.
        dtype: type of the codes.
        symmetric: zero point 0 (`qint8`), and codes from -127 on.

    Returns:
        The smallest scale that covers the range, rounded up to float32, with the
        zero point that covers it best.

    Example:
        >>> from mdtensor.quant.dtypes import quint8
        >>> grid_of(-1.0, 1.0, dtype=quint8).zero
        127

    Source: Jacob et al. 2018, section 3; ONNX Runtime, `compute_scale_zp`.
    """
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    if symmetric:
        bound = max(-low, high)
        return QParams(_up(bound / int(dtype.maximum)), dtype=dtype)
    codes = int(dtype.maximum) - int(dtype.minimum)
    scale = _up((high - low) / codes)
    zero = int(dtype.minimum) + round(-low / scale)
    return QParams(scale, min(zero, int(dtype.maximum)), dtype=dtype)


def _up(step: float) -> float:
    """`step` as the nearest float32 not below it; 1 for a step that is not normal."""
    if step < float(np.finfo(np.float32).tiny):
        return 1.0
    nearest = float(np.float32(step))
    if nearest >= step:
        return nearest
    return float(np.nextafter(np.float32(step), np.float32(np.inf)))


def grids_of(
    low: Sequence[float], high: Sequence[float], *, dtype: DType, axis: int
) -> QParams:
    """Symmetric grids along `axis`, one for each range."""
    pairs = zip(low, high, strict=True)
    grids = [grid_of(a, b, dtype=dtype, symmetric=True) for a, b in pairs]
    return QParams([float(g.scale) for g in grids], dtype=dtype, axis=axis)
