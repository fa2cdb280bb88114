"""Specs: tensors without elements, which shape rules read and return."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from mdtensor import dtypes
from mdtensor.errors import DispatchError, OptionError, ShapeError, shown
from mdtensor.spec.shapes import DYNAMIC, Dim, Shape, check_rank, entries, is_size


@dataclass(frozen=True, repr=False)
class TensorSpec:
    """A tensor without its elements.

    Args:
        type: the class of the tensor.
        shape: sizes; where unknown, -1 or a named `Dim`.
        qparams: the grid, if the type is quantized.

    Raises:
        DispatchError: `type` is not a tensor class, or `qparams` is not a grid.
        ShapeError: the sizes are missing, or there are too many.

    Example:
        >>> import mdtensor as md
        >>> TensorSpec(md.Float32Tensor, [4, -1])
        TensorSpec(Float32Tensor[4,-1])
        >>> TensorSpec(md.FloatingTensor, (4, -1))
        Traceback (most recent call last):
        mdtensor.errors.DispatchError: the type of a TensorSpec must be a ...
    """

    type: Any
    shape: Shape
    qparams: Any = None

    def __post_init__(self) -> None:
        # A spec subclass for wrapper types defines `dtype` itself.
        is_own = type(self).dtype is not TensorSpec.dtype
        dtype = None if is_own else getattr(self.type, "dtype", None)
        has_dtype = is_own or isinstance(dtype, dtypes.DType)
        if not (isinstance(self.type, type) and has_dtype):
            raise _no_type(self.type)
        # The dataclass is frozen, so the converted shape is set this way.
        object.__setattr__(self, "shape", _sizes(self.shape))
        if self.qparams is not None and not hasattr(self.qparams, "scale"):
            problem = f"the grid of a spec is {shown(self.qparams)}"
            raise DispatchError(problem, "Use QParams(scale, zero_point)")

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
        """Return the same shape and device with another element type."""
        if dtype is self.type.dtype:
            return self
        return TensorSpec(self.type.with_dtype(dtype), self.shape)

    def with_shape(self, shape: Any) -> TensorSpec:
        return TensorSpec(self.type, shape, self.qparams)

    def __str__(self) -> str:
        return f"{self.type.__name__}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


@dataclass(frozen=True, repr=False)
class TileSpec(TensorSpec):
    """A tile without its elements: a tensor of few dimensions, as a core holds it.

    Operations on tiles return tiles; you cannot mix tiles and tensors in one call.

    Args:
        type, shape, qparams: see `TensorSpec`.
        max_rank: how many dimensions a tile can have.

    Raises:
        ShapeError: the shape has more dimensions, or as in `TensorSpec`.
        OptionError: `max_rank` is not an integer of 0 or more.

    Example:
        >>> import mdtensor as md
        >>> row = md.TileSpec(md.Float32Tensor, (8,))
        >>> md.infer(md.add, md.TileSpec(md.Float32Tensor, (4, 8)), row)
        TileSpec(Float32Tensor[4,8])

    Source: PyPTO, `TileType`.
    """

    max_rank: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_size(self.max_rank) or self.max_rank < 0:
            problem = f"max_rank is {shown(self.max_rank)}"
            raise OptionError(problem, "Use an integer of 0 or more")
        if len(self.shape) > self.max_rank:
            raise ShapeError(
                f"TileSpec can have at most {self.max_rank} dimensions, "
                f"got {len(self.shape)}",
                "Use TensorSpec, or set max_rank",
            )


def _no_type(given: object) -> DispatchError:
    """Return the error for a value that is not a tensor class."""
    if isinstance(given, dtypes.DType):
        problem = (
            f"the type of a TensorSpec must be a tensor class, but is the dtype {given}"
        )
        return DispatchError(problem, f"Use leaf({given})")
    name = given.__name__ if isinstance(given, type) else shown(given)
    problem = f"the type of a TensorSpec must be a tensor class, but is {name}"
    return DispatchError(problem, "Use a class such as Float32Tensor")


def _sizes(shape: object) -> Shape:
    """Return the shape of a spec as a tuple."""
    given = shape if type(shape) is tuple else entries(shape)
    if given is None:
        problem = f"the shape of a spec is {shown(shape)}"
        raise ShapeError(problem, "Use a tuple of sizes")
    if not all(map(_is_known_or_not, given)):
        problem = f"the shape of a spec is {shown(given)}"
        raise ShapeError(problem, "Use sizes of 0 or more, -1 or Dim")
    return check_rank(tuple(n if isinstance(n, Dim) else int(n) for n in given))


def _is_known_or_not(size: Any) -> bool:
    # The check against `Integral` is slow, and most sizes are plain integers.
    if type(size) is int or isinstance(size, Dim):
        return int(size) >= DYNAMIC
    is_integer = isinstance(size, Integral) and not isinstance(size, bool)
    return is_integer and int(size) >= DYNAMIC


def is_tensor(given: object) -> bool:
    """Return whether `given` is a tensor, with or without elements."""
    is_one = isinstance(getattr(given, "dtype", None), dtypes.DType)
    return is_one and isinstance(getattr(given, "shape", None), tuple)
