"""QParams: the grid of a quantized tensor.

    real = scale · (code - zero_point)

A grid is checked once, here, so that no kernel ever meets a scale that is zero,
negative, infinite or subnormal, or a zero point that is no code. Scales of 8-bit types
are float32 numbers, as in ONNX; the scale of an accumulator is the product of two of
them, which float64 holds exactly.

    per tensor   scale has no axes
    per axis     one scale for each index of `axis`
    per block    scale has the shape of the tensor, but for `axis`: there it has one
                 for each `block_size` indices, of which the last may have fewer
"""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DYNAMIC, DType, GridError, ShapeError
from mdtensor.quant import qparams_checks
from mdtensor.quant.dtypes import SYMMETRIC, qint8
from mdtensor.quant.qparams_checks import FloatArray, IntArray
from mdtensor.quant.rules import check_rule
from mdtensor.spec.shapes import are_like


class QParams:
    """The affine map from codes to real numbers; immutable.

    Args:
        scale: the step, > 0; one number, one for each index of `axis`, or one for each
            block. Rounded to float32 unless for `qint32`.
        zero_point: the code of real 0; one, or as many as scales.
        dtype: type of the codes, as `qint8`.
        axis: the axis along which scales differ; None for one grid per tensor.
        block_size: how many indices of `axis` share a scale; `scale` then has the shape
            of the tensor with `ceil(size / block_size)` in place of that axis's size.
        narrow_range: without the smallest code, so that codes of weights are symmetric:
            int8 from -127 on.
        rounding: the rule by which results are rounded to it, see `quant.rounding`;
            None leaves that to the call. Grids are equal whatever their rule.

    Raises:
        GridError: a scale that is not finite, positive and normal; a zero point that
            is not a code, or not 0 for a symmetric type; numbers that do not fit
            `axis` and `block_size`.

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

    #: What equal grids have in common, by value: bytes, numbers and names.
    key: tuple[Any, ...]
    scale: FloatArray
    zero_point: IntArray
    dtype: DType
    axis: int | None
    block_size: int | None
    narrow_range: bool
    rounding: str | None

    def __init__(
        self,
        scale: Any,
        zero_point: Any = 0,
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
        scales = qparams_checks.steps(
            qparams_checks.numbers("scale", scale, np.float64), dtype
        )
        zeros = qparams_checks.numbers("zero_point", zero_point)
        zeros = qparams_checks.zero_points(zeros, dtype, least)
        axis = qparams_checks.axis_of(axis)
        size = qparams_checks.block_size_of(block_size, axis)
        qparams_checks.check_granularity(scales, zeros, axis, size)
        # Arrays over `bytes` cannot be made writeable, so that the key stays true.
        scale_bytes = scales.tobytes()
        zero_bytes = np.broadcast_to(zeros, scales.shape).tobytes()
        for name, value in {
            "scale": np.ndarray(scales.shape, scales.dtype, scale_bytes),
            "zero_point": np.ndarray(scales.shape, zeros.dtype, zero_bytes),
            "dtype": dtype,
            "axis": axis,
            "block_size": size,
            "narrow_range": narrow,
            "rounding": rounding if rounding is None else check_rule(rounding),
            "key": (
                *(scale_bytes, scales.shape, zero_bytes, dtype.name),
                *(axis, size, narrow),
            ),
        }.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise GridError(f"a grid does not change, {name} neither", "Make a new QParams")

    def replace(self, **changes: Any) -> "QParams":
        """The grid with other values for some arguments.

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
        """The smallest code."""
        return int(self.dtype.minimum) + self.narrow_range

    @property
    def maximum(self) -> int:
        """The largest code."""
        return int(self.dtype.maximum)

    @property
    def is_symmetric(self) -> bool:
        """Whether codes have signs and every zero point is 0."""
        return self.minimum < 0 and not self.zero_point.any()

    @property
    def range(self) -> tuple[float, float]:
        """The real numbers of the smallest and the largest code; one grid only."""
        self.refuse_axis("range")
        return self._reach()

    def _reach(self) -> tuple[float, float]:
        """The ends of the widest grid on either side."""
        with np.errstate(over="ignore"):
            low = (self.minimum - self.zero_point) * self.scale
            high = (self.maximum - self.zero_point) * self.scale
        return float(low.min()), float(high.max())

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
                f"QParams({self.describe()}, dtype={self.dtype}) has no single {what}",
                "Use a grid per tensor here",
            )

    def is_along(self, *axes: int | None) -> bool:
        """Whether scales differ along one of `axes` only; None stands for nowhere."""
        return self.block_size is None and self.axis in axes

    def on_axis(self, axis: int | None) -> "QParams":
        """The same scales along another axis; not for blocks."""
        axis = qparams_checks.axis_of(axis)
        if axis == self.axis or self.axis is None:
            return self
        return self.replace(axis=axis)

    # Grids are equal whatever their rule, so that a rule does not separate equal scales
    # (decision 0019).
    def rounded(self, rule: str | None) -> "QParams":
        """The same grid, to which results are rounded by `rule`.

        Raises:
            OptionError: no rule has this name.

        Example:
            >>> QParams(0.5).rounded("tflite_ref").rounding
            'tflite_ref'
        """
        rule = rule if rule is None else check_rule(rule)
        return self if rule == self.rounding else self.replace(rounding=rule)

    def scales_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of scales that a tensor of `shape` needs on such a grid."""
        if self.axis is None:
            return ()
        size = shape[self.axis]
        if self.block_size is None:
            return (size,)
        blocks = DYNAMIC if size == DYNAMIC else -(-size // self.block_size)
        return (*shape[: self.axis], blocks, *shape[self.axis + 1 :])

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of `shape` has a scale for each element, and none is left.

        Example:
            >>> grid = QParams([[0.5, 0.25]], axis=1, block_size=4)
            >>> grid.fits((1, 8)), grid.fits((1, 7)), grid.fits((1, 9))
            (True, True, False)
        """
        has_axis = self.axis is None or self.axis < len(shape)
        return has_axis and are_like(self.scales_of(shape), self.scale.shape)

    def check_fit(self, shape: tuple[int, ...], what: str, where: str = "") -> None:
        """Raise unless it `fits` the shape of `what`."""
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
        """Per-grid `values` so that they broadcast against a tensor of `shape`."""
        if self.axis is None:
            return values
        if self.block_size is None:
            return values.reshape(
                [-1 if i == self.axis else 1 for i in range(len(shape))]
            )
        block = np.arange(shape[self.axis]) // self.block_size
        return np.take(values, block, self.axis)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QParams) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> Any:
        return _rebuild, (self._arguments(),)

    def __repr__(self) -> str:
        rule = "" if self.rounding is None else f", rounding={self.rounding!r}"
        return f"QParams({self.describe_range()}, dtype={self.dtype}{rule})"

    def describe(self) -> str:
        """`scale=0.1, zero_point=3`, or the span of scales along an axis."""
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
        """What `describe` says, and the real numbers from the smallest code on."""
        if not self.scale.size:
            return self.describe()
        low, high = self._reach()
        return f"{self.describe()}, range={low:.6g}..{high:.6g}"


def _rebuild(arguments: dict[str, Any]) -> QParams:
    return QParams(**arguments)


def _short(scale: float) -> str:
    """The shortest decimal that reads back as the same float32, if it is one."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = np.float32(scale)
    if scale == narrow:
        return str(narrow)
    return repr(float(scale))


def grid_of(
    low: float, high: float, *, dtype: DType, symmetric: bool = False
) -> QParams:
    """The grid that covers [low, high] and has a code for real 0.

    Args:
        low, high: the range; widened to hold 0. An empty range gives a scale of 1.
        dtype: type of the codes.
        symmetric: zero point 0 (`qint8`), and codes from -127 on; so it is for types
            that have no other zero point, as `qint16`.

    Returns:
        The smallest scale that covers the range, rounded up to float32, with the
        zero point that covers it best.

    Raises:
        GridError: ends that are no finite numbers, or the higher one first.

    Example:
        >>> from mdtensor.quant.dtypes import quint8
        >>> grid_of(-1.0, 1.0, dtype=quint8).zero
        127

    Source: Jacob et al. 2018, section 3; ONNX Runtime, `compute_scale_zp`.
    """
    dtype = qparams_checks.code_dtype(dtype)
    low, high = qparams_checks.ends(low, high)
    qparams_checks.check_flag("symmetric", symmetric)
    if symmetric or dtype in SYMMETRIC:
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
    with np.errstate(over="ignore"):  # to infinity, which makes no grid
        nearest = float(np.float32(step))
    if nearest >= step:
        return nearest
    return float(np.nextafter(np.float32(step), np.float32(np.inf)))


def given_grid(
    dtype: DType,
    qparams: QParams | None,
    scale: Any,
    zero_point: Any,
    axis: int | None,
    block_size: int | None,
) -> QParams:
    """The grid of codes that are given with one, or with the parts of one.

    Raises:
        GridError: neither is given, or both are.
    """
    if qparams is None and scale is None:
        raise GridError("codes mean nothing without a grid", "Give qparams or scale")
    if qparams is None:
        where: dict[str, Any] = {"axis": axis, "block_size": block_size}
        return QParams(scale, zero_point, dtype=dtype, **where)
    zero = isinstance(zero_point, int) and zero_point == 0
    if not zero or (scale, axis, block_size) != (None, None, None):
        raise GridError("a grid is given, and parts of one", "Give qparams or scale")
    return qparams
