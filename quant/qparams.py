"""QParams: the grid of a quantized tensor.

    real = scale · (code - zero_point)

A grid is validated once, when it is made. So kernels never get a scale that is zero,
negative, infinite or subnormal, or a zero point that is not a code. Scales are float32
numbers, as in ONNX; only the scale of an accumulator is the product of two of them,
which float64 represents exactly.

    per tensor   one scale, without an axis
    per axis     one scale for each index of `axis`
    per block    the scales have the shape of the tensor, except for `axis`: there is
                 one for each `block_size` indices, and the last block may be shorter
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DYNAMIC, DType, GridError, ShapeError
from mdtensor.extend import are_like, explain_wrong_calls, take_grid
from mdtensor.quant import qparams_checks
from mdtensor.quant.dtypes import SYMMETRIC, qint8
from mdtensor.quant.qparams_checks import FloatArray, IntArray
from mdtensor.quant.rules import check_rule


class QParams:
    """The affine map from codes to real numbers; immutable.

    Args:
        scale: the distance of neighbouring numbers, > 0: one number, one for each index
            of `axis`, or one for each block. Rounded to float32, except for `qint32`.
        zero_point: the code of real 0: one, or one for each scale.
        dtype: the type of the codes, for example `qint8`.
        axis: the axis along which scales differ; None for one grid per tensor.
        block_size: the number of indices of `axis` that share a scale. `scale` then has
            the shape of the tensor, with `ceil(size / block_size)` along `axis`.
        narrow_range: exclude the smallest code, so that codes of weights are symmetric:
            int8 from -127.
        rounding: the rule that rounds results to this grid, see `quant.rounding`; None
            leaves the choice to the call. Grids compare equal whatever their rule.

    Raises:
        GridError: a scale is not finite, positive and normal; a zero point is not a
            code, or is not 0 for a symmetric type; the numbers do not fit `axis` and
            `block_size`.

    Example:
        >>> grid = QParams(0.1, 3)
        >>> grid
        QParams(scale=0.1, zero_point=3, range=-13.1..12.4, dtype=qint8)
        >>> grid.range
        (-13.100000195205212, 12.400000184774399)
        >>> QParams([[0.5, 0.25]], axis=1, block_size=32).scales_of((1, 64))
        (1, 2)

    Source: ONNX `QuantizeLinear`; Jacob et al. 2018, section 2.1.
    """

    __slots__ = (
        "axis",
        "block_size",
        "dtype",
        "key",
        "narrow_range",
        "rounding",
        "scale",
        "zero_point",
    )

    #: Bytes, numbers and names that are equal for equal grids. Made once, because each
    #: quantized call looks itself up by it (decision 0048).
    key: tuple[Any, ...]
    scale: FloatArray
    zero_point: IntArray
    dtype: DType
    axis: int | None
    block_size: int | None
    narrow_range: bool
    rounding: str | None

    @explain_wrong_calls
    def __init__(
        self,
        scale: object,
        zero_point: object = 0,
        *,
        dtype: DType = qint8,
        axis: int | None = None,
        block_size: int | None = None,
        narrow_range: bool = False,
        rounding: str | None = None,
    ) -> None:
        dtype = qparams_checks.code_dtype(dtype)
        narrow = qparams_checks.check_narrow(narrow_range, dtype)
        least = int(dtype.minimum) + narrow
        scales = qparams_checks.check_scales(
            qparams_checks.as_numbers("scale", scale, np.float64), dtype
        )
        zeros = qparams_checks.as_numbers("zero_point", zero_point)
        zeros = qparams_checks.check_zero_points(zeros, dtype, least)
        axis = qparams_checks.check_axis(axis)
        size = qparams_checks.check_block_size(block_size, axis)
        qparams_checks.check_granularity(scales, zeros, axis, size)
        # An array over `bytes` cannot be made writeable, so the key never goes stale.
        scale_bytes = scales.tobytes()
        zero_bytes = np.broadcast_to(zeros, scales.shape).tobytes()
        key = scale_bytes, scales.shape, zero_bytes, dtype.name, axis, size, narrow
        # `__setattr__` raises, so the fields are set this way.
        for name, value in {
            "scale": np.ndarray(scales.shape, scales.dtype, scale_bytes),
            "zero_point": np.ndarray(scales.shape, zeros.dtype, zero_bytes),
            "dtype": dtype,
            "axis": axis,
            "block_size": size,
            "narrow_range": narrow,
            "rounding": rounding if rounding is None else check_rule(rounding),
            "key": key,
        }.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise GridError(
            f"{name} cannot be set: QParams is immutable", "Use replace(...)"
        )

    def replace(self, **changes: Any) -> "QParams":
        """Return a grid with other values for some arguments.

        Example:
            >>> QParams(0.5, narrow_range=True).replace(scale=0.25).range
            (-31.75, 31.75)
        """
        return QParams(**(self._arguments() | changes))

    def _arguments(self) -> dict[str, Any]:
        names = (name for name in self.__slots__ if name != "key")
        return {name: getattr(self, name) for name in names}

    @property
    def minimum(self) -> int:
        """Return the smallest code."""
        return int(self.dtype.minimum) + self.narrow_range

    @property
    def maximum(self) -> int:
        """Return the largest code."""
        return int(self.dtype.maximum)

    @property
    def is_symmetric(self) -> bool:
        """Return whether codes are signed and every zero point is 0."""
        return self.minimum < 0 and not self.zero_point.any()

    @property
    def range(self) -> tuple[float, float]:
        """Return the real numbers of the smallest and the largest code.

        Raises:
            GridError: scales differ along an axis.
        """
        self.refuse_axis("range")
        return self._reach()

    def _reach(self) -> tuple[float, float]:
        """Return the lowest and the highest real number that any scale reaches."""
        # The scale of an accumulator may be near the end of float64.
        with np.errstate(over="ignore"):
            low = (self.minimum - self.zero_point) * self.scale
            high = (self.maximum - self.zero_point) * self.scale
        return float(low.min()), float(high.max())

    @property
    def fractions(self) -> list[Fraction]:
        """Return the scales as exact rational numbers."""
        return [Fraction(float(s)) for s in self.scale.reshape(-1)]

    @property
    def fraction(self) -> Fraction:
        """Return the scale of a grid per tensor as an exact rational number."""
        self.refuse_axis("scale")
        return self.fractions[0]

    @property
    def zero(self) -> int:
        """Return the zero point of a grid per tensor."""
        self.refuse_axis("zero point")
        return int(self.zero_point.reshape(-1)[0])

    def refuse_axis(self, what: str) -> None:
        """Raise `GridError` unless one scale applies to the whole tensor.

        Args:
            what: the name of the single value that the caller needs, for the error.
        """
        if self.axis is not None:
            raise GridError(
                f"QParams({self.describe()}, dtype={self.dtype}) does not have a "
                f"single {what}",
                "Use a grid with one scale for the tensor",
            )

    def is_along(self, *axes: int | None) -> bool:
        """Return whether scales differ only along one of `axes`, and not in blocks.

        None among `axes` stands for one grid per tensor.
        """
        return self.block_size is None and self.axis in axes

    def on_axis(self, axis: int | None) -> "QParams":
        """Return the same scales along another axis; not for grids of blocks."""
        axis = qparams_checks.check_axis(axis)
        if axis == self.axis or self.axis is None:
            return self
        return self.replace(axis=axis)

    # Grids are equal whatever their rule, so that a rule does not separate equal scales
    # (decision 0019).
    def rounded(self, rule: str | None) -> "QParams":
        """Return the same grid, with the rule that rounds results to it.

        Raises:
            OptionError: a rule of this name does not exist.

        Example:
            >>> QParams(0.5).rounded("tflite_ref").rounding
            'tflite_ref'
        """
        rule = rule if rule is None else check_rule(rule)
        return self if rule == self.rounding else self.replace(rounding=rule)

    def scales_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the scales that a tensor of `shape` needs."""
        if self.axis is None:
            return ()
        size = shape[self.axis]
        if self.block_size is None:
            return (size,)
        # The last block may be shorter, so the number of blocks is rounded up.
        blocks = DYNAMIC if size == DYNAMIC else -(-size // self.block_size)
        return (*shape[: self.axis], blocks, *shape[self.axis + 1 :])

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return whether the scales fit a tensor of `shape`, without one too many.

        Example:
            >>> grid = QParams([[0.5, 0.25]], axis=1, block_size=4)
            >>> grid.fits((1, 8)), grid.fits((1, 7)), grid.fits((1, 9))
            (True, True, False)
        """
        has_axis = self.axis is None or self.axis < len(shape)
        return has_axis and are_like(self.scales_of(shape), self.scale.shape)

    def check_fit(self, shape: tuple[int, ...], what: str, where: str = "") -> None:
        """Raise `ShapeError` unless the grid `fits` the shape of `what`."""
        if not self.fits(shape):
            each = "index" if self.block_size is None else "block"
            raise ShapeError(
                f"({self.describe()}) does not fit {what} {shape}",
                f"Give one scale for each {each} of the axis",
                where,
            )

    def along(
        self, values: npt.NDArray[Any], shape: tuple[int, ...]
    ) -> npt.NDArray[Any]:
        """Return `values`, one for each scale, so that they broadcast with `shape`."""
        if self.axis is None:
            return values
        if self.block_size is None:
            return values.reshape(
                [-1 if i == self.axis else 1 for i in range(len(shape))]
            )
        # A copy: blocks repeat along an axis, which no broadcast expresses.
        block = np.arange(shape[self.axis]) // self.block_size
        return np.take(values, block, self.axis)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QParams) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def trace_key(self) -> tuple[Any, ...]:
        """Return what is equal for grids of one rule: compiled functions call it."""
        return *self.key, self.rounding

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor: a pickle from elsewhere is validated like any argument.
        return _rebuild, (self._arguments(),)

    def __repr__(self) -> str:
        rule = "" if self.rounding is None else f", rounding={self.rounding!r}"
        return f"QParams({self.describe_range()}, dtype={self.dtype}{rule})"

    def describe(self) -> str:
        """Return `scale=0.1, zero_point=3`, or the span of scales along an axis."""
        scales, zeros = self.scale.reshape(-1), self.zero_point.reshape(-1)
        narrow = ", narrow_range=True" if self.narrow_range else ""
        if self.axis is None:
            return f"scale={_short(scales[0])}, zero_point={zeros[0]}{narrow}"
        where = f"axis={self.axis}"
        if self.block_size is not None:
            where += f", block_size={self.block_size}"
        span = f"={_short(scales.min())}..{_short(scales.max())}" if scales.size else ""
        return f"{scales.size} scales{span}, {where}{narrow}"

    def describe_range(self) -> str:
        """Return the text of `describe` with the range of real numbers."""
        if not self.scale.size:
            return self.describe()
        low, high = self._reach()
        return f"{self.describe()}, range={low:.6g}..{high:.6g}"


def part_along(
    grid: QParams,
    values: npt.NDArray[Any],
    shape: tuple[int, ...],
    at: Sequence[npt.NDArray[Any]] | None,
) -> npt.NDArray[Any]:
    """Return `values` as `along` does, for the part of a tensor at the indices `at`.

    Args:
        grid: the grid of the tensor.
        values: one for each scale.
        shape: the shape of the tensor.
        at: one array of indices for each axis; None for the whole tensor.
    """
    if grid.axis is None or at is None:
        return grid.along(values, shape)
    if grid.block_size is not None:
        blocks = [*at]
        blocks[grid.axis] = at[grid.axis] // grid.block_size
        return take_grid(values, blocks)
    sizes = [1] * len(at)
    sizes[grid.axis] = -1
    return values[at[grid.axis]].reshape(sizes)


def _rebuild(arguments: dict[str, Any]) -> QParams:
    return QParams(**arguments)


def _short(scale: float) -> str:
    """Return the shortest decimal that reads back as the same scale.

    If the scale is a float32, it reads back as that: 0.1 instead of 0.10000000149.
    """
    with np.errstate(over="ignore", under="ignore"):
        narrow = np.float32(scale)
    if scale == narrow:
        return str(narrow)
    return repr(float(scale))


def grid_of(
    low: float, high: float, *, dtype: DType, symmetric: bool = False
) -> QParams:
    """Return the grid that covers [low, high] and has a code for real 0.

    Args:
        low, high: the range, which is extended to contain 0. An empty range gives a
            scale of 1.
        dtype: the type of the codes.
        symmetric: use zero point 0 and the codes from -127 to 127 (`qint8`). Types
            whose zero point is always 0, for example `qint16`, are always symmetric.

    Returns:
        A grid with the smallest scale that covers the range, rounded up to float32, and
        with the zero point that covers it best.

    Raises:
        GridError: an end is not a finite number, or the higher end comes first.

    Example:
        >>> from mdtensor.quant.dtypes import quint8
        >>> grid_of(-1.0, 1.0, dtype=quint8).zero
        127

    Source: Jacob et al. 2018, section 3; ONNX Runtime, `compute_scale_zp`.
    """
    dtype = qparams_checks.code_dtype(dtype)
    low, high = qparams_checks.check_range(low, high)
    qparams_checks.check_flag("symmetric", symmetric)
    is_symmetric = symmetric or dtype in SYMMETRIC
    scale, zero = fit(np.array([low]), np.array([high]), dtype, is_symmetric)
    return QParams(float(scale[0]), int(zero[0]), dtype=dtype)


def fit(
    low: FloatArray, high: FloatArray, dtype: DType, is_symmetric: bool
) -> tuple[FloatArray, IntArray]:
    """Return the scale and the zero point of `grid_of` for each of many ranges.

    Args: low, high: the ends of each range: at most 0, and at least 0.
    """
    most, least = int(dtype.maximum), int(dtype.minimum)
    if is_symmetric:
        bound = np.maximum(-low, high)
        return _round_up(bound / most), np.zeros(len(bound), np.int64)
    with np.errstate(over="ignore"):
        scale = _round_up((high - low) / (most - least))
    zero = np.rint(-low / scale).astype(np.int64) + least
    return scale, np.minimum(zero, most)


def _round_up(scale: FloatArray) -> FloatArray:
    """Return the smallest float32 not below each scale; 1 if it is not normal."""
    # An overflow gives infinity, for which `QParams` raises.
    with np.errstate(over="ignore"):
        nearest = scale.astype(np.float32)
        # To the nearest would be too small for the ends of the range.
        above = np.nextafter(nearest, np.float32(np.inf))
    found = np.where(nearest >= scale, nearest, above).astype(np.float64)
    return np.where(scale < float(np.finfo(np.float32).tiny), 1.0, found)


def grid_from_arguments(
    dtype: DType,
    qparams: QParams | None,
    scale: object,
    zero_point: object,
    axis: int | None,
    block_size: int | None,
) -> QParams:
    """Return `qparams`, or else the grid with the other arguments.

    Raises:
        GridError: a caller passed neither `qparams` nor `scale`, or `qparams` together
            with another argument.
    """
    if qparams is None and scale is None:
        raise GridError("codes mean nothing without a grid", "Pass qparams or scale")
    if qparams is None:
        where: dict[str, Any] = {"axis": axis, "block_size": block_size}
        return QParams(scale, zero_point, dtype=dtype, **where)
    # The default of zero_point; an array or tensor does not compare to one bool.
    zero = isinstance(zero_point, int) and zero_point == 0
    if not zero or (scale, axis, block_size) != (None, None, None):
        problem = "got qparams together with parts of another grid"
        raise GridError(problem, "Pass qparams alone, or scale and zero_point")
    return qparams
