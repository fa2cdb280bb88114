"""A tensor without its elements: what deduction reads and gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mdtensor import dtypes
from mdtensor.errors import ShapeError
from mdtensor.generics.shapes import Shape, check_rank


@dataclass(frozen=True, repr=False)
class TensorSpec:
    """A tensor without its elements.

    Args:
        type: the class of the tensor.
        shape: sizes; where unknown, -1 or a named `Dim`.
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
    def device(self) -> Any:
        return self.type.device

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


@dataclass(frozen=True, repr=False)
class TileSpec(TensorSpec):
    """A tile without its elements: a tensor of few dimensions, as a core holds it.

    Operations take tiles as they take tensors, and give tiles; the two do not mix.

    Args:
        type, shape, qparams: see `TensorSpec`.
        max_rank: how many dimensions a tile can have.

    Raises:
        ShapeError: there are more.

    Example:
        >>> import mdtensor as md
        >>> row = md.TileSpec(md.Float32Tensor, (8,))
        >>> md.infer(md.add, md.TileSpec(md.Float32Tensor, (4, 8)), row)
        TileSpec(Float32Tensor[4,8])

    Source: PyPTO, `TileType`.
    """

    max_rank: int = 2

    def __post_init__(self) -> None:
        if len(self.shape) > self.max_rank:
            raise ShapeError(
                f"TileSpec can have at most {self.max_rank} dimensions, "
                f"got {len(self.shape)}",
                "Use TensorSpec, or set max_rank",
            )


def is_tensor(given: Any) -> bool:
    """Whether it is a tensor, or a tensor without its elements."""
    is_one = isinstance(getattr(given, "dtype", None), dtypes.DType)
    return is_one and isinstance(getattr(given, "shape", None), tuple)
