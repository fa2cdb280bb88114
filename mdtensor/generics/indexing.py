"""Which shape basic indexing leaves."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from mdtensor.errors import ShapeError
from mdtensor.generics.shapes import DYNAMIC, Shape


def index_shape(shape: Shape, key: Any) -> Shape:
    """The shape of `x[key]` for integers, slices, None and one ellipsis.

    Raises:
        ShapeError: too many indices, one outside its axis, or of another kind.

    Example:
        >>> index_shape((4, 5, 6), (0, ..., None, slice(1, 3)))
        (5, 1, 2)
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    taken = sum(1 for k in keys if k is not None and k is not Ellipsis)
    wholes = [at for at, k in enumerate(keys) if k is Ellipsis] or [len(keys)]
    if taken > len(shape) or len(wholes) > 1:
        raise ShapeError(
            f"{taken} indices and {len(wholes)} ellipses for {len(shape)} dimensions"
            if len(wholes) > 1
            else f"{taken} indices for {len(shape)} dimensions"
        )
    at = wholes[0]
    keys[at : at + 1] = [slice(None)] * (len(shape) - taken)
    return _apply_keys(shape, keys)


def _apply_keys(shape: Shape, keys: list[Any]) -> Shape:
    left, sizes = iter(shape), []
    for key in keys:
        if key is None:
            sizes.append(1)
        elif isinstance(key, slice):
            sizes.append(_sliced(next(left), key))
        elif isinstance(key, Integral) and not isinstance(key, bool):
            _check_index(next(left), int(key))
        else:
            raise ShapeError(
                f"cannot index with {type(key).__name__}",
                "Use integers, slices, None and ...",
            )
    return tuple(sizes)


def _sliced(size: int, key: slice) -> int:
    try:
        known = len(range(*key.indices(0 if size == DYNAMIC else size)))
    except (TypeError, ValueError) as error:
        raise ShapeError(f"cannot index with {key}: {error}") from None
    return DYNAMIC if size == DYNAMIC else known


def _check_index(size: int, key: int) -> None:
    if size != DYNAMIC and not -size <= key < size:
        raise ShapeError(f"index {key} is outside an axis of size {size}")
