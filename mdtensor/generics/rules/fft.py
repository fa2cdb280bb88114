"""Shape rules of discrete Fourier transforms."""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.errors import OptionError, PromotionError, ShapeError, shown
from mdtensor.spec.elementwise import component
from mdtensor.spec.options import choice
from mdtensor.spec.shapes import (
    DYNAMIC,
    Shape,
    integers,
    is_size,
    normalize_axes,
    normalize_axis,
)
from mdtensor.spec.spec import TensorSpec

NORMS = ("backward", "ortho", "forward")
#: The type of a spectrum of real numbers, by what they are stored in.
SPECTRA = {
    dtypes.float32.storage: dtypes.complex64,
    dtypes.float64.storage: dtypes.complex128,
}


def transform(
    x: TensorSpec, *, n: Any = None, axis: int = -1, norm: str = "backward"
) -> TensorSpec:
    """Infer the type of the argument; `axis` gets n elements."""
    choice(norm, "norm", NORMS)
    at = normalize_axis(axis, x.ndim)
    return _with_size(x, at, length(n, x.shape[at]))


def transform_to_half(
    x: TensorSpec, *, n: Any = None, axis: int = -1, norm: str = "backward"
) -> TensorSpec:
    """Infer a complex type; `axis` gets the n // 2 + 1 frequencies from 0."""
    found = transform(_spectrum(x), n=n, axis=axis, norm=norm)
    return _with_size(found, axis, _half(found.shape[axis]))


def transform_from_half(
    x: TensorSpec, *, n: Any = None, axis: int = -1, norm: str = "backward"
) -> TensorSpec:
    """Infer a real type; `axis` gets n elements, else 2 · (m - 1)."""
    choice(norm, "norm", NORMS)
    at = normalize_axis(axis, x.ndim)
    return _with_size(component(x), at, length(n, _full(x.shape[at])))


def transform_n(
    x: TensorSpec, *, s: Any = None, axes: Any = None, norm: str = "backward"
) -> TensorSpec:
    """Infer the type of the argument; the axes get the sizes `s`."""
    choice(norm, "norm", NORMS)
    return _with_sizes(x, *lengths(x.shape, s, axes))


def transform_n_to_half(
    x: TensorSpec, *, s: Any = None, axes: Any = None, norm: str = "backward"
) -> TensorSpec:
    """Infer a complex type; the last axis gets the frequencies from 0."""
    choice(norm, "norm", NORMS)
    sizes, order = lengths(x.shape, s, axes)
    check_some(order)
    return _with_sizes(_spectrum(x), (*sizes[:-1], _half(sizes[-1])), order)


def transform_n_from_half(
    x: TensorSpec, *, s: Any = None, axes: Any = None, norm: str = "backward"
) -> TensorSpec:
    """Infer a real type and the sizes `s`, the last one else 2 · (m - 1)."""
    choice(norm, "norm", NORMS)
    return _with_sizes(component(x), *lengths(x.shape, s, axes, is_half=True))


def shifted(x: TensorSpec, *, axes: Any = None) -> TensorSpec:
    """Infer type and shape of the argument, which must have the axes."""
    normalize_axes(axes, x.ndim)
    return x


def length(n: Any, size: int, name: str = "n") -> int:
    """Return `n`, or `size` if None.

    Raises:
        OptionError: n is not an integer, or below 1.
        ShapeError: the axis is empty.
    """
    if n is None:
        if size == 0:
            raise ShapeError("the transformed axis is empty", f"Give {name} from 1")
        return size
    if not is_size(n) or n < 1:
        raise OptionError(f"{name} is {shown(n)}", "Use an integer from 1")
    return int(n)


def lengths(
    shape: Shape, s: Any, axes: Any, *, is_half: bool = False
) -> tuple[Shape, Shape]:
    """Return sizes and axes of the transform in order, counted from the front.

    Args:
        is_half: the last of the axes holds the frequencies from 0 only.

    Raises:
        OptionError: sizes of some axes only, without saying which, or no integers.
        ShapeError: axes do not exist, repeat, or are not as many as the sizes.
    """
    order = _order(axes, len(shape), s)
    known = [shape[at] for at in order]
    if is_half:
        check_some(order)
        known[-1] = _full(known[-1])
    given = [None] * len(order) if s is None else [*integers(s, "s", "Use integers")]
    if len(given) != len(order):
        raise ShapeError(f"got {len(given)} sizes for {len(order)} axes", "Pair them")
    wanted = [None if n == -1 else n for n in given]
    sizes = [length(n, m, "s") for n, m in zip(wanted, known, strict=True)]
    return tuple(sizes), order


def _order(axes: Any, ndim: int, s: Any) -> Shape:
    if axes is None:
        if s is not None and (n := len(integers(s, "s", "Use integers"))) != ndim:
            problem = f"s has {n} sizes for {ndim} dimensions, no axes are given"
            raise OptionError(problem, "Name the axes as well")
        return tuple(range(ndim))
    given = integers(axes, "axes", "Use integers")
    normalize_axes(given, ndim)
    return tuple(normalize_axis(axis, ndim) for axis in given)


def check_some(axes: Shape) -> None:
    """Raise if no axis is left to halve."""
    if not axes:
        raise ShapeError("axes is empty", "Name at least one")


def _spectrum(x: TensorSpec) -> TensorSpec:
    if x.dtype.storage not in SPECTRA:
        raise PromotionError(
            f"transforms are computed in float32 or float64, not {x.dtype}",
            "Use astype(x, float32)",
        )
    return x.with_dtype(SPECTRA[x.dtype.storage])


def _half(size: int) -> int:
    return DYNAMIC if size == DYNAMIC else size // 2 + 1


def _full(size: int) -> int:
    return DYNAMIC if size == DYNAMIC else max(0, 2 * (size - 1))


def _with_size(x: TensorSpec, axis: int, size: int) -> TensorSpec:
    return _with_sizes(x, (size,), (axis % x.ndim,))


def _with_sizes(x: TensorSpec, sizes: Shape, axes: Shape) -> TensorSpec:
    found = dict(zip(axes, sizes, strict=True))
    return x.with_shape(found.get(at, size) for at, size in enumerate(x.shape))
