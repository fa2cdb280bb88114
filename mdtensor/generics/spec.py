"""A tensor without its elements: what deduction reads and gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mdtensor import dtypes
from mdtensor.generics.shapes import Shape, check_rank


@dataclass(frozen=True)
class TensorSpec:
    """A tensor without its elements.

    Args:
        type: the class of the tensor.
        shape: sizes; -1 where unknown.
        qparams: the grid, if the type is quantized.
    """

    type: Any
    shape: Shape
    qparams: Any = None

    @property
    def dtype(self) -> dtypes.DType:
        found: dtypes.DType = self.type.dtype
        return found

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def with_dtype(self, dtype: dtypes.DType) -> TensorSpec:
        """The same shape and device with another element type."""
        if dtype is self.type.dtype:
            return self
        return TensorSpec(self.type.with_dtype(dtype), self.shape)

    def with_shape(self, shape: Iterable[int]) -> TensorSpec:
        return TensorSpec(self.type, check_rank(tuple(shape)), self.qparams)

    def __str__(self) -> str:
        return f"{self.type.__name__}[{','.join(map(str, self.shape))}]"


def is_tensor(given: Any) -> bool:
    """Whether it is a tensor, or a tensor without its elements."""
    is_one = isinstance(getattr(given, "dtype", None), dtypes.DType)
    return is_one and isinstance(getattr(given, "shape", None), tuple)
