"""Discrete Fourier transforms.

x is the signal, X its spectrum, n their length, ω = exp(-2πi / n). `norm` chooses the
direction that divides by n: "backward" the inverse, "forward" the other; "ortho"
divides both by √n. A shorter length cuts the argument, a longer one appends zeros.
"""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, PromotionError, ShapeError, shown
from mdtensor.spec.elementwise import component
from mdtensor.spec.options import choice
from mdtensor.spec.shapes import (
    DYNAMIC,
    Axes,
    Integers,
    Shape,
    integers,
    is_size,
    normalize_axes,
    normalize_axis,
)
from mdtensor.spec.spec import TensorSpec

# Shape rules of discrete Fourier transforms.

NORMS = ("backward", "ortho", "forward")
#: The type of a spectrum of real numbers, by what they are stored in.
SPECTRA = {
    dtypes.float32.storage: dtypes.complex64,
    dtypes.float64.storage: dtypes.complex128,
}


def infer_fft(
    x: TensorSpec, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> TensorSpec:
    """Infer a complex type; `axis` gets n elements."""
    choice(norm, "norm", NORMS)
    at = normalize_axis(axis, x.ndim)
    return _with_size(_complex(x), at, length(n, x.shape[at]))


def infer_rfft(
    x: TensorSpec, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> TensorSpec:
    """Infer a complex type; `axis` gets the n // 2 + 1 frequencies from 0."""
    found = infer_fft(_spectrum(x), n=n, axis=axis, norm=norm)
    # The other half is the mirror image of a real signal's spectrum, so it is not
    # stored.
    return _with_size(found, axis, _half(found.shape[axis]))


def infer_irfft(
    x: TensorSpec, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> TensorSpec:
    """Infer a real type; `axis` gets n elements, else 2 · (m - 1)."""
    # Not by `infer_fft`: there, the length of the argument is the default length of the
    # result, and here it holds only half of the frequencies.
    choice(norm, "norm", NORMS)
    at = normalize_axis(axis, x.ndim)
    return _with_size(component(x), at, length(n, _full(x.shape[at])))


def infer_fftn(
    x: TensorSpec,
    *,
    s: Integers | None = None,
    axes: Integers | None = None,
    norm: str = "backward",
) -> TensorSpec:
    """Infer a complex type; the axes get the sizes `s`."""
    choice(norm, "norm", NORMS)
    return _with_sizes(_complex(x), *lengths(x.shape, s, axes))


def infer_rfftn(
    x: TensorSpec,
    *,
    s: Integers | None = None,
    axes: Integers | None = None,
    norm: str = "backward",
) -> TensorSpec:
    """Infer a complex type; the last axis gets the frequencies from 0."""
    choice(norm, "norm", NORMS)
    sizes, order = lengths(x.shape, s, axes)
    # One axis is halved, so there must be one; the other transforms accept none.
    check_some(order)
    # The last axis that is named is halved, not the last axis of the shape.
    return _with_sizes(_spectrum(x), (*sizes[:-1], _half(sizes[-1])), order)


def infer_irfftn(
    x: TensorSpec,
    *,
    s: Integers | None = None,
    axes: Integers | None = None,
    norm: str = "backward",
) -> TensorSpec:
    """Infer a real type and the sizes `s`, the last one else 2 · (m - 1)."""
    choice(norm, "norm", NORMS)
    return _with_sizes(component(x), *lengths(x.shape, s, axes, is_half=True))


def infer_fftshift(x: TensorSpec, *, axes: Axes | None = None) -> TensorSpec:
    """Infer type and shape of the argument, which must have the axes."""
    normalize_axes(axes, x.ndim)
    return x


def length(n: Any, size: int, name: str = "n") -> int:
    """Return `n`, or `size` if None.

    Raises:
        OptionError: n is not an integer, or below 1.
        ShapeError: the axis is empty.
    """
    # An empty signal has no spectrum, but with n it is padded to zeros.
    if n is None:
        if size == 0:
            raise ShapeError(
                "the transformed axis is empty", f"Give {name} of 1 or more"
            )
        return size
    if not is_size(n) or n < 1:
        raise OptionError(f"{name} is {shown(n)}", "Use an integer of 1 or more")
    return int(n)


def lengths(
    shape: Shape, s: object, axes: object, *, is_half: bool = False
) -> tuple[Shape, Shape]:
    """Return sizes and axes of the transform in order, counted from the front.

    Args:
        is_half: the last of the axes holds the frequencies from 0 only.

    Raises:
        OptionError: sizes are not integers, or are given for some axes only, and `axes`
            is missing.
        ShapeError: an axis does not exist or occurs twice, or there is not one size for
            each axis.
    """
    order = _order(axes, len(shape), s)
    known = [shape[at] for at in order]
    # Before the default sizes are used: the last axis holds only half of the signal.
    if is_half:
        check_some(order)
        known[-1] = _full(known[-1])
    # None for each axis keeps its own size, so that one loop serves for both forms.
    given = [None] * len(order) if s is None else [*integers(s, "s", "Use integers")]
    if len(given) != len(order):
        raise ShapeError(
            f"got {len(given)} sizes for {len(order)} axes",
            "Give one size for each axis",
        )
    # -1 keeps the size of the axis, as in NumPy 2.
    wanted = [None if n == -1 else n for n in given]
    sizes = [length(n, m, "s") for n, m in zip(wanted, known, strict=True)]
    return tuple(sizes), order


def _order(axes: object, ndim: int, s: object) -> Shape:
    if axes is None:
        # Sizes without axes could mean the first axes or the last ones, so the axes
        # must be named. NumPy 2 deprecates such calls.
        if s is not None and (n := len(integers(s, "s", "Use integers"))) != ndim:
            problem = f"s has {n} sizes for {ndim} dimensions, and axes is missing"
            raise OptionError(problem, "Pass axes=")
        return tuple(range(ndim))
    given = integers(axes, "axes", "Use integers")
    # For its errors only: it sorts, and the order of the axes decides which one is
    # halved.
    normalize_axes(given, ndim)
    return tuple(normalize_axis(axis, ndim) for axis in given)


def check_some(axes: Shape) -> None:
    """Raise if no axis is left to halve."""
    if not axes:
        raise ShapeError("axes is empty", "Name at least one")


def _complex(x: TensorSpec) -> TensorSpec:
    return _spectrum(x) if x.dtype.is_floating else x


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
    # m frequencies belong to 2 · (m - 1) or one more elements. The even length is the
    # convention of NumPy; pass n for the odd one.
    return DYNAMIC if size == DYNAMIC else max(0, 2 * (size - 1))


def _with_size(x: TensorSpec, axis: int, size: int) -> TensorSpec:
    return _with_sizes(x, (size,), (int(axis) % x.ndim,))


def _with_sizes(x: TensorSpec, sizes: Shape, axes: Shape) -> TensorSpec:
    found = dict(zip(axes, sizes, strict=True))
    return x.with_shape(found.get(at, size) for at, size in enumerate(x.shape))


@generic(deduce=infer_fft)
def fft(
    x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Any:
    """Return the discrete Fourier transform X[k] = Σ x[j] · ωʲᵏ, over j.

    Args:
        x: any shape; complex64, complex128, float32 or float64.
        n: length of the transform; the size of the axis if None.
        axis: which axis is transformed.
        norm: "backward", "ortho" or "forward".

    Returns:
        The type of `x`; for floats the complex type of their precision.

    Raises:
        PromotionError: `x` is float16 or bfloat16.
        ShapeError: the axis does not exist or is empty.
        OptionError: `n` is below 1, or `norm` is not one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.fft(md.asarray([1 + 0j, 2, 3, 4])).tolist()
        [(10+0j), (-2+2j), (-2+0j), (-2-2j)]

    Source: array API 2024.12, `fft.fft`; NumPy, for floats.
    """


@generic(deduce=infer_fft)
def ifft(
    x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Any:
    """Return the inverse transform x[j] = Σ X[k] · ω⁻ʲᵏ / n, over k.

    Args:
        x: any shape; complex64, complex128, float32 or float64.
        n: length of the transform; the size of the axis if None.
        axis: which axis is transformed.
        norm: "backward", "ortho" or "forward".

    Returns:
        The type of `x`; for floats the complex type of their precision.

    Raises:
        PromotionError: `x` is float16 or bfloat16.
        ShapeError: the axis does not exist or is empty.
        OptionError: `n` is below 1, or `norm` is not one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.ifft(md.asarray([10 + 0j, -2 + 2j, -2, -2 - 2j])).tolist()
        [(1+0j), (2+0j), (3+0j), (4+0j)]

    Source: array API 2024.12, `fft.ifft`.
    """


@generic(deduce=infer_rfft)
def rfft(
    x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Any:
    """Return the spectrum of a real signal: X[k] of `fft` for k from 0 to n / 2.

    Args:
        x: any shape; float32 or float64.
        n: length of the transform; the size of the axis if None.
        axis: which axis is transformed.
        norm: "backward", "ortho" or "forward".

    Returns:
        Complex; n // 2 + 1 frequencies, the others are their conjugates.

    Raises:
        ShapeError: the axis does not exist or is empty.
        OptionError: `n` is below 1, or `norm` is not one of the three.
        PromotionError: 16-bit floats are not supported.

    Example:
        >>> import mdtensor as md
        >>> md.fft.rfft(md.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
        [(10+0j), (-2+2j), (-2+0j)]

    Source: array API 2024.12, `fft.rfft`.
    """


@generic(deduce=infer_irfft)
def irfft(
    x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Any:
    """Return the real signal whose `rfft` is `x`.

    Args:
        x: any shape; complex64 or complex128.
        n: length of the result, which must be given if odd; 2 · (m - 1) for m
            frequencies if None.
        axis: which axis is transformed.
        norm: "backward", "ortho" or "forward".

    Returns:
        Real, n elements.

    Raises:
        ShapeError: the axis does not exist or is empty.
        OptionError: `n` is below 1, or `norm` is not one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.irfft(md.asarray([10 + 0j, -2 + 2j, -2])).tolist()
        [1.0, 2.0, 3.0, 4.0]

    Source: array API 2024.12, `fft.irfft`.
    """


@generic(deduce=infer_irfft)
def hfft(
    x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Any:
    """Return the real spectrum of a Hermitian signal, x[-j] = conj(x[j]).

    Args:
        x: any shape; complex64 or complex128.
        n: length of the result, which must be given if odd; 2 · (m - 1) for m
            frequencies if None.
        axis: which axis is transformed.
        norm: "backward", "ortho" or "forward".

    Returns:
        Real, n elements.

    Raises:
        ShapeError: the axis does not exist or is empty.
        OptionError: `n` is below 1, or `norm` is not one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.hfft(md.asarray([1 + 0j, 2, 3])).tolist()
        [8.0, -2.0, 0.0, -2.0]

    Source: array API 2024.12, `fft.hfft`.
    """


@generic(deduce=infer_rfft)
def ihfft(
    x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Any:
    """Return half of the signal whose `hfft` is `x`.

    Args:
        x: any shape; float32 or float64.
        n: length of the transform; the size of the axis if None.
        axis: which axis is transformed.
        norm: "backward", "ortho" or "forward".

    Returns:
        Complex; n // 2 + 1 elements, the others are their conjugates.

    Raises:
        ShapeError: the axis does not exist or is empty.
        OptionError: `n` is below 1, or `norm` is not one of the three.
        PromotionError: 16-bit floats are not supported.

    Example:
        >>> import mdtensor as md
        >>> md.fft.ihfft(md.asarray([8.0, -2.0, 0.0, -2.0])).tolist()
        [(1-0j), (2-0j), (3-0j)]

    Source: array API 2024.12, `fft.ihfft`.
    """


@generic(deduce=infer_fftn)
def fftn(
    x: object,
    /,
    *,
    s: Integers | None = None,
    axes: Integers | None = None,
    norm: str = "backward",
) -> Any:
    """Apply `fft` along each of several axes.

    Args:
        x: any shape; complex64, complex128, float32 or float64.
        s: lengths along `axes`, or along all axes; -1 for the size of an axis.
        axes: which axes are transformed; all if None.
        norm: "backward", "ortho" or "forward", where n is the product of all lengths.

    Returns:
        The type of `x`; for floats the complex type of their precision.

    Raises:
        PromotionError: `x` is float16 or bfloat16.
        ShapeError: an axis does not exist, repeats, or is empty.
        OptionError: `s` is given without `axes`, a length is below 1, or `norm` is not
            one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.fftn(md.asarray([[1 + 0j, 2], [3, 4]])).tolist()
        [[(10+0j), (-2+0j)], [(-4+0j), 0j]]

    Source: array API 2024.12, `fft.fftn`.
    """


@generic(deduce=infer_fftn)
def ifftn(
    x: object,
    /,
    *,
    s: Integers | None = None,
    axes: Integers | None = None,
    norm: str = "backward",
) -> Any:
    """Apply `ifft` along each of several axes.

    Args:
        x: any shape; complex64, complex128, float32 or float64.
        s: lengths along `axes`, or along all axes; -1 for the size of an axis.
        axes: which axes are transformed; all if None.
        norm: "backward", "ortho" or "forward", where n is the product of all lengths.

    Returns:
        The type of `x`; for floats the complex type of their precision.

    Raises:
        PromotionError: `x` is float16 or bfloat16.
        ShapeError: an axis does not exist, repeats, or is empty.
        OptionError: `s` is given without `axes`, a length is below 1, or `norm` is not
            one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.ifftn(md.asarray([[10 + 0j, -2], [-4, 0]])).tolist()
        [[(1+0j), (2+0j)], [(3+0j), (4+0j)]]

    Source: array API 2024.12, `fft.ifftn`.
    """


@generic(deduce=infer_rfftn)
def rfftn(
    x: object,
    /,
    *,
    s: Integers | None = None,
    axes: Integers | None = None,
    norm: str = "backward",
) -> Any:
    """Apply `rfft` along the last of several axes, then `fft` along the others.

    Args:
        x: any shape; float32 or float64.
        s: lengths along `axes`, or along all axes; -1 for the size of an axis.
        axes: which axes are transformed; all if None.
        norm: "backward", "ortho" or "forward", where n is the product of all lengths.

    Returns:
        Complex; n // 2 + 1 frequencies along the last of the axes.

    Raises:
        ShapeError: an axis does not exist, repeats, or is empty.
        OptionError: `s` is given without `axes`, a length is below 1, or `norm` is not
            one of the three.
        PromotionError: 16-bit floats are not supported.

    Example:
        >>> import mdtensor as md
        >>> md.fft.rfftn(md.ones((2, 4, 6))).shape
        (2, 4, 4)

    Source: array API 2024.12, `fft.rfftn`.
    """


@generic(deduce=infer_irfftn)
def irfftn(
    x: object,
    /,
    *,
    s: Integers | None = None,
    axes: Integers | None = None,
    norm: str = "backward",
) -> Any:
    """Return the real signal whose `rfftn` is `x`.

    Args:
        x: any shape; complex64 or complex128.
        s: lengths of the result along `axes`; -1 for the size of an axis, or of the
            last 2 · (m - 1) for m frequencies. Not without `axes`.
        axes: which axes are transformed; all if None.
        norm: "backward", "ortho" or "forward", where n is the product of all lengths.

    Returns:
        Real.

    Raises:
        ShapeError: an axis does not exist, repeats, or is empty.
        OptionError: `s` is given without `axes`, a length is below 1, or `norm` is not
            one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.irfftn(md.fft.rfftn(md.ones((2, 4, 6)))).shape
        (2, 4, 6)

    Source: array API 2024.12, `fft.irfftn`.
    """


@generic(deduce=infer_fftshift)
def fftshift(x: object, /, *, axes: Axes | None = None) -> Any:
    """Rotate the elements along each axis so that frequency 0 is in the middle.

    Args:
        x: any shape, any type.
        axes: one axis, several, or None for all.

    Raises:
        ShapeError: an axis does not exist or repeats.

    Example:
        >>> import mdtensor as md
        >>> md.fft.fftshift(md.asarray([0, 1, 2, -2, -1])).tolist()
        [-2, -1, 0, 1, 2]

    Source: array API 2024.12, `fft.fftshift`.
    """


@generic(deduce=infer_fftshift)
def ifftshift(x: object, /, *, axes: Axes | None = None) -> Any:
    """Rotate the elements along each axis back; undoes `fftshift`.

    Args:
        x: any shape, any type.
        axes: one axis, several, or None for all.

    Raises:
        ShapeError: an axis does not exist or repeats.

    Example:
        >>> import mdtensor as md
        >>> md.fft.ifftshift(md.asarray([-2, -1, 0, 1, 2])).tolist()
        [0, 1, 2, -2, -1]

    Source: array API 2024.12, `fft.ifftshift`.
    """
