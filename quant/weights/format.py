"""The format of quantized weights: codes, and groups that share a scale."""

from dataclasses import dataclass
from math import inf, isinf
from numbers import Real
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from mdtensor import DType, OptionError, ShapeError, dtype as find_dtype
from mdtensor.errors import shown, written
from mdtensor.quant.dtypes import (
    SYMMETRIC,
    codes_like,
    qint4,
    qint8,
    qint16,
    quint4,
    quint8,
)

#: Element types of quantized weights.
CODES = (qint4, quint4, qint8, quint8, qint16)
KNOWN = ", ".join(map(str, CODES))
#: The largest size or count: NumPy's indices are int64.
MOST = 2**63 - 1
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class WeightFormat:
    """The format of quantized weights: codes, and groups that share a scale.

    Args:
        dtype: element type of the codes.
        bits: use only this many of the type's bits; None for all.
        axis: 0 for a scale for each output, None for one scale.
        block_size: how many inputs of an output share a scale; the last block of an
            output may be shorter.
        symmetric: the zero point is 0, and -c is a code if c is.

    Raises:
        OptionError: the type does not have so many bits, or is unsigned although
            `symmetric` is true; the axis is not 0 or None; or the block size is not a
            positive integer.
    """

    dtype: DType = qint8
    bits: int | None = None
    axis: int | None = 0
    block_size: int | None = None
    symmetric: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", type_of_codes("dtype", self.dtype))
        check_flag("symmetric", self.symmetric)
        self._check_codes()
        if self.axis is not None and not (_is_whole(self.axis) and self.axis == 0):
            raise OptionError(
                f"axis is {shown(self.axis)}",
                "Use 0 (a scale for each output) or None (one scale for all)",
            )
        if self.block_size is None:
            return
        check_count("block_size", self.block_size, 1)
        if self.axis is None:
            raise OptionError(
                "blocks have a scale each, but axis=None means one scale",
                "Omit axis=None or block_size=",
            )

    def _check_codes(self) -> None:
        if self.dtype not in CODES:
            known = codes_like(self.dtype) or KNOWN
            raise OptionError(f"{self.dtype} is not a type of weights", f"Use {known}")
        if self.symmetric and int(self.dtype.minimum) == 0:
            raise OptionError(
                f"symmetric weights need signed codes, and {self.dtype} is unsigned",
                f"Use {written('symmetric', False)} or a signed type",
            )
        if not self.symmetric and self.dtype in SYMMETRIC:
            raise OptionError(
                f"{self.dtype} has zero point 0, but symmetric=False needs another",
                f"Use {written('symmetric', True)} or a narrower type",
            )
        most = self.dtype.bits
        bits = self.bits
        if bits is not None and (not isinstance(bits, int) or not 2 <= bits <= most):
            raise OptionError(f"bits is {shown(bits)}", f"Use 2 to {most}")

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Check that weights of this shape can have the groups of this format.

        Raises:
            ShapeError: the format has blocks, and the weights more than two axes.
        """
        if self.block_size is not None and len(shape) > 2:
            raise ShapeError(
                f"weights of shape {shape} do not take blocks",
                "Use a scale for each output, or weights of two axes",
            )

    @property
    def width(self) -> int:
        """Return the bits of a code."""
        return self.bits or self.dtype.bits

    @property
    def low(self) -> int:
        """Return the smallest code."""
        if int(self.dtype.minimum) == 0:
            return 0
        # TFLite excludes the smallest code of symmetric weights (decision 0020).
        return self.symmetric - (1 << (self.width - 1))

    @property
    def high(self) -> int:
        """Return the largest code."""
        signed = int(self.dtype.minimum) < 0
        return int(2 ** (self.width - signed)) - 1

    @property
    def name(self) -> str:
        """Return a name such as `qint8`, or `4 bits of qint8`."""
        if self.bits is None:
            return str(self.dtype)
        return f"{self.bits} bits of {self.dtype}"


def type_of_codes(name: str, given: object) -> DType:
    """Return the element type that an option names.

    Raises:
        OptionError: the type is unknown, or the option is None.
    """
    # NumPy takes None for float64, which nobody means here.
    if given is None:
        raise OptionError(f"{written(name)} is None", f"Use {KNOWN}")
    return find_dtype(given)


def type_for_bits(bits: object) -> DType:
    """Return the signed type of codes that stores `bits` bits: qint4 or qint8."""
    return qint4 if _is_whole(bits) and bits <= qint4.bits else qint8


class Groups:
    """Groups of weights that share a scale: a row, a block of a row, or all weights.

    Args:
        shape: outputs and inputs.
        format: the format, with its axis and block size.
    """

    def __init__(self, shape: tuple[int, int], format: WeightFormat) -> None:
        self.shape = shape
        self.is_one = format.axis is None
        # At least 1, because `arange` does not accept a distance of 0.
        self.block_size = format.block_size or max(shape[1], 1)
        self.starts = np.arange(0, shape[1], self.block_size)
        self.sizes = np.diff([*self.starts, shape[1]])

    def reduce(self, ufunc: np.ufunc, values: FloatArray) -> FloatArray:
        """Reduce the weights of each group by `ufunc`: [outputs, groups]."""
        found: FloatArray = ufunc.reduceat(values, self.starts, axis=1)
        return ufunc.reduce(found, axis=0, keepdims=True) if self.is_one else found

    def spread(self, values: FloatArray) -> FloatArray:
        """Repeat the value of each group for each of its weights."""
        wide: FloatArray = np.repeat(values, self.sizes, axis=1)
        return np.broadcast_to(wide, self.shape)


def check_number(name: str, given: Any, least: float, most: float = inf) -> None:
    """Check that an option is a finite number in a range.

    Raises:
        OptionError: the option is something else; the error names the range.
    """
    # In Python a bool is a number, but True as a damping is a mistake.
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    if not is_number or not least <= given <= most or isinf(given):
        ends = f"of {least:g} or more" if most == inf else f"from {least:g} to {most:g}"
        raise OptionError(f"{written(name)} is {shown(given)}", f"Use a number {ends}")


def check_count(name: str, given: object, least: int) -> None:
    """Check that an option is an integer of at least `least`.

    Raises:
        OptionError: the option is something else; the error names the range.
    """
    if not _is_whole(given) or not least <= given <= MOST:
        problem = f"{written(name)} is {shown(given)}"
        raise OptionError(problem, f"Use an integer of {least} or more")


def _is_whole(given: object) -> TypeGuard[int]:
    return isinstance(given, int) and not isinstance(given, bool)


def check_flag(name: str, given: object) -> None:
    """Check that an option is True or False.

    Raises:
        OptionError: the option is something else, such as 1.
    """
    if not isinstance(given, bool):
        raise OptionError(f"{written(name)} is {shown(given)}", "Use True or False")


def matrix(weights: Any) -> FloatArray:
    """Return weights as float64 [outputs, inputs]; all axes after the first are inputs.

    Raises:
        ShapeError: the weights are empty or have fewer than two axes.
    """
    if weights.ndim < 2 or not weights.size:
        raise ShapeError(
            f"weights have shape {tuple(weights.shape)}",
            "Give [outputs, inputs, ...] with sizes of 1 or more",
        )
    return np.asarray(weights, np.float64).reshape(weights.shape[0], -1)
