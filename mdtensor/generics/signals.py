"""Sums of products of two signals, one of which moves along the other."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.errors import ShapeError
from mdtensor.promotion import result_type
from mdtensor.spec.elementwise import check_number
from mdtensor.spec.options import choice
from mdtensor.spec.shapes import DYNAMIC
from mdtensor.spec.spec import TensorSpec

MODES = ("full", "same", "valid")


def infer_signals(x1: TensorSpec, x2: TensorSpec, *, mode: str, **_: Any) -> TensorSpec:
    """Infer the promoted type and the length of the result."""
    choice(mode, "mode", MODES)
    for name, x in (("x1", x1), ("x2", x2)):
        if x.ndim != 1:
            raise ShapeError(f"{name} has {x.ndim} axes", "Give signals of one axis")
        if x.shape[0] == 0:
            raise ShapeError(f"{name} is empty", "Give at least one element")
    dtype = result_type(x1, x2)
    check_number(dtype)
    return x1.with_dtype(dtype).with_shape((_length(x1.shape[0], x2.shape[0], mode),))


def _length(m: int, n: int, mode: str) -> int:
    if DYNAMIC in (m, n):
        return DYNAMIC
    lengths = {"full": m + n - 1, "same": max(m, n), "valid": abs(m - n) + 1}
    return lengths[mode]


@generic(deduce=infer_signals)
def convolve(x1: object, x2: object, /, *, mode: str = "full") -> Any:
    """Return the convolution y[i] = Σ x1[j] · x2[i - j] of two signals, over j.

    Args:
        x1: one axis, at least one element.
        x2: the same; the weights of a moving average, for example.
        mode: "full" for each i with a product; "same" for the middle of these, as many
            as the longer signal has; "valid" where the signals overlap completely.

    Returns:
        The promoted type; integers wrap.

    Raises:
        ShapeError: a signal has other than one axis, or no elements.
        OptionError: `mode` is not one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.convolve(md.asarray([1, 2, 3]), md.asarray([1, 1])).tolist()
        [1, 3, 5, 3]

    Source: NumPy, `numpy.convolve`. `conv1d` has batches, channels and strides.
    """


@generic(deduce=infer_signals)
def correlate(x1: object, x2: object, /, *, mode: str = "valid") -> Any:
    """Return the cross-correlation y[i] = Σ x1[i + j] · conj(x2[j]), over j.

    Args:
        x1: one axis, at least one element.
        x2: the same.
        mode: as for `convolve`.

    Returns:
        The promoted type; integers wrap.

    Raises:
        ShapeError: a signal has other than one axis, or no elements.
        OptionError: `mode` is not one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.correlate(md.asarray([1, 2, 3]), md.asarray([0, 1])).tolist()
        [2, 3]

    Source: NumPy, `numpy.correlate`.
    """
