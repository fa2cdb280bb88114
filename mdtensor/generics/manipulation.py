"""Moving elements without changing them. Views where the strides allow it."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules import manipulation as rule


@generic(deduce=rule.reshaped)
def reshape(x: Any, /, shape: Any) -> Any:
    """The same elements in row-major order under another shape.

    Args:
        x: any shape.
        shape: sizes; one may be -1 and is worked out.

    Raises:
        ShapeError: the number of elements would change.

    Example:
        >>> import mdtensor as md
        >>> md.reshape(md.asarray([1, 2, 3, 4]), (2, -1)).tolist()
        [[1, 2], [3, 4]]

    Source: array API 2024.12, `reshape`.
    """


@generic(deduce=rule.permuted)
def permute_dims(x: Any, /, axes: Any) -> Any:
    """The axes of `x` in the order `axes`; a view.

    Raises:
        ShapeError: `axes` is no permutation.

    Example:
        >>> import mdtensor as md
        >>> md.permute_dims(md.zeros((2, 3, 4)), (2, 0, 1)).shape
        (4, 2, 3)

    Source: array API 2024.12, `permute_dims`.
    """


@generic(deduce=rule.concatenated, sequence=True)
def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Arrays laid end to end along `axis`; None flattens them first.

    Args:
        arrays: at least one tensor; equal shapes off `axis`. Quantized tensors
            need equal grids.

    Raises:
        DispatchError: there are none.
        ShapeError: shapes differ off `axis`.
        GridError: quantized on different grids.

    Example:
        >>> import mdtensor as md
        >>> md.concat([md.asarray([1]), md.asarray([2, 3])]).tolist()
        [1, 2, 3]

    Source: array API 2024.12, `concat`.
    """


@generic(deduce=rule.padded)
def pad(x: Any, /, pad_width: Any, *, value: float = 0) -> Any:
    """`x` with a border of `value`.

    Args:
        x: any shape.
        pad_width: one (before, after) for each axis.
        value: the number in the border; quantized tensors must represent it exactly.

    Raises:
        ShapeError: `pad_width` does not fit the axes.
        CastError: the type of `x` cannot hold `value`.

    Example:
        >>> import mdtensor as md
        >>> md.pad(md.asarray([7]), [(1, 2)]).tolist()
        [0, 7, 0, 0]

    Source: NumPy, `numpy.pad` with `mode="constant"`; ONNX `Pad`.
    """


@generic(deduce=rule.squeezed)
def squeeze(x: Any, /, axis: Any) -> Any:
    """`x` without the named axes of size 1; a view.

    Raises:
        ShapeError: an axis is not of size 1.

    Example:
        >>> import mdtensor as md
        >>> md.squeeze(md.zeros((1, 3, 1)), (0, 2)).shape
        (3,)

    Source: array API 2024.12, `squeeze`.
    """


@generic(deduce=rule.expanded)
def expand_dims(x: Any, /, *, axis: int = 0) -> Any:
    """`x` with a new axis of size 1; a view.

    Raises:
        ShapeError: `axis` is outside [-ndim - 1, ndim].

    Example:
        >>> import mdtensor as md
        >>> md.expand_dims(md.zeros((3,)), axis=-1).shape
        (3, 1)

    Source: array API 2024.12, `expand_dims`.
    """
