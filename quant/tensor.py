"""Quantized tensors: codes and a grid that travels with them.

    x ≈ scale · (codes - zero_point)
    shape(x) = shape(codes)
    a per-axis grid has as many scales as the tensor has indices along that axis

A quantized tensor is not a tensor of integers: arithmetic on it is arithmetic on the
real numbers its codes stand for. The codes are at `.codes`.
"""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from mdtensor import (
    CastError,
    DType,
    ExchangeError,
    GridError,
    Tensor,
    TensorSpec,
    dtype as find_dtype,
    leaf,
)
from mdtensor.quant.dtypes import qint8, qint32, quint8
from mdtensor.quant.qparams import QParams


class QuantizedTensor(Tensor):
    """The root of quantized tensors.

    Args of a leaf:
        codes: integers of the leaf's range, or an array of its storage type.
        qparams: the grid; or `scale`, `zero_point`, `axis`, `block_size` of it.

    Raises:
        GridError: no grid, or one for another type of codes.
        ShapeError: the scales do not fit the codes.
        CastError: a code outside the range.
    """

    __slots__ = ("qparams", "rounding")
    #: What a call that no method fits suggests.
    remedy = "Use dequantize(x) to compute with its numbers"

    qparams: QParams
    #: The rule, other than `exact`, by which an operation rounded to these codes.
    rounding: str | None

    def __init__(
        self,
        codes: Any,
        qparams: QParams | None = None,
        *,
        scale: Any = None,
        zero_point: Any = 0,
        axis: int | None = None,
        block_size: int | None = None,
    ) -> None:
        own = self._leaf().dtype
        if qparams is None and scale is None:
            raise GridError(
                "codes mean nothing without a grid", "Give qparams or scale"
            )
        grid = qparams
        if grid is None:
            grid = QParams(
                scale, zero_point, dtype=own, axis=axis, block_size=block_size
            )
        if isinstance(codes, Tensor):
            codes = np.asarray(codes)
        buffer = leaf(_storage_dtype(own), self.device)(codes).buffer
        made = type(self).wrap(buffer, grid)
        _check_range(self.device.to_host(buffer), grid)
        self.buffer, self.qparams = made.buffer, made.qparams
        self.rounding = None

    @classmethod
    def wrap(cls, buffer: Any, qparams: QParams | None = None) -> Self:
        """A tensor around codes that fit, on a grid that is checked to fit."""
        if not isinstance(qparams, QParams) or qparams.dtype is not cls.dtype:
            raise GridError(
                f"{cls.__name__} needs a grid of {cls.dtype}, got {qparams}"
            )
        qparams.check_fit(buffer.shape, "codes of shape", cls.__name__)
        # NumPy makes a scalar of an array without axes.
        new = super().wrap(np.asarray(buffer) if np.isscalar(buffer) else buffer)
        new.qparams, new.rounding = qparams, qparams.rounding
        if qparams.rounding is not None:
            new.qparams = qparams.rounded(None)
        return new

    @classmethod
    def spec(cls, shape: Iterable[int], qparams: QParams | None = None) -> TensorSpec:
        """A tensor of this leaf without its codes, on a grid of steps of 1."""
        grid = qparams or QParams(1, dtype=cls.dtype)
        return TensorSpec(cls, shape, grid)

    @property
    def codes(self) -> Any:
        """The codes as a tensor of plain integers; shares the buffer."""
        return leaf(_storage_dtype(self.dtype), self.device).wrap(self.buffer)

    @property
    def scale(self) -> Any:
        return self.qparams.scale

    @property
    def zero_point(self) -> Any:
        return self.qparams.zero_point

    @property
    def nbytes(self) -> int:
        """Bytes of the codes and of the scales (4 each; 8 for accumulators)."""
        width = 8 if self.dtype is qint32 else 4
        return super().nbytes + width * self.qparams.scale.size

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self.qparams.describe_range()})"

    def __reduce__(self) -> Any:
        return type(self), (self.device.to_host(self.buffer), self.qparams)

    def __deepcopy__(self, memo: Any) -> Self:
        return type(self).wrap(self.device.copy(self.buffer), self.qparams)

    def _numbers(self) -> Any:
        zero = self.qparams.along(self.zero_point, self.shape)
        steps = self.device.to_host(self.buffer).astype(np.int64) - zero
        return (steps * self.qparams.along(self.scale, self.shape)).astype(np.float32)

    def tolist(self) -> Any:
        raise self._no_numbers()

    def _scalar(self, kind: str) -> Any:
        raise self._no_numbers()

    def _no_numbers(self) -> GridError:
        return GridError(
            f"{self!r} holds codes, not numbers", "Use x.codes or quant.dequantize(x)"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise GridError(
            f"{self!r} is no array of numbers",
            "Use numpy.asarray(x.codes) or numpy.asarray(quant.dequantize(x))",
        )

    def __dlpack__(self, **options: Any) -> Any:
        raise ExchangeError(
            f"{self!r} has a grid, which DLPack cannot hand over",
            "Export x.codes or quant.dequantize(x)",
        )


def _storage_dtype(quantized: DType) -> DType:
    return find_dtype(quantized.storage.name)


def _check_range(codes: Any, grid: QParams) -> None:
    """Refuse codes that the type, or its narrow range, has not."""
    low, high = codes.min(initial=grid.maximum), codes.max(initial=grid.minimum)
    if low < grid.minimum or high > grid.maximum:
        raise CastError(
            f"({grid.describe()}) has codes from {grid.minimum} to {grid.maximum}, "
            f"given {low} to {high}",
            "Use quantize, which saturates",
        )


class AffineTensor(QuantizedTensor):
    """Codes on an affine grid: scale and zero point."""

    __slots__ = ()


class NarrowTensor(AffineTensor):
    """Codes of at most 8 bits: what convolutions and matrix products take."""

    __slots__ = ()


class QInt8Tensor(NarrowTensor, dtype=qint8):
    """Codes from -128 to 127."""

    __slots__ = ()


class QUInt8Tensor(NarrowTensor, dtype=quint8):
    """Codes from 0 to 255."""

    __slots__ = ()


class QInt32Tensor(AffineTensor, dtype=qint32):
    """An exact accumulator or bias: zero point 0, scale often a product of two."""

    __slots__ = ()


def spec_of(x: Any) -> TensorSpec:
    """Type, shape and grid of a tensor."""
    return TensorSpec(type(x), x.shape, getattr(x, "qparams", None))


def quantized(buffer: Any, grid: QParams) -> Any:
    """The tensor of codes on `grid`."""
    found: Any = leaf(grid.dtype)
    return found.wrap(buffer, grid)
