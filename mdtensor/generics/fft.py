"""Discrete Fourier transforms.

x is the signal, X its spectrum, n their length, ω = exp(-2πi / n). `norm` chooses the
direction that divides by n: "backward" the inverse, "forward" the other; "ortho"
divides both by √n. A shorter length cuts the argument, a longer one appends zeros.
"""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules import fft as rule


@generic(deduce=rule.transform)
def fft(x: Any, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the discrete Fourier transform X[k] = Σ x[j] · ωʲᵏ, over j.

    Args:
        x: any shape; complex64 or complex128.
        n: length of the transform; the size of the axis if None.
        axis: which axis is transformed.
        norm: "backward", "ortho" or "forward".

    Returns:
        The type of `x`.

    Raises:
        ShapeError: the axis does not exist or is empty.
        OptionError: `n` is below 1, or `norm` is not one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.fft(md.asarray([1 + 0j, 2, 3, 4])).tolist()
        [(10+0j), (-2+2j), (-2+0j), (-2-2j)]

    Source: array API 2024.12, `fft.fft`.
    """


@generic(deduce=rule.transform)
def ifft(x: Any, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the inverse transform x[j] = Σ X[k] · ω⁻ʲᵏ / n, over k.

    Args:
        x: any shape; complex64 or complex128.
        n: length of the transform; the size of the axis if None.
        axis: which axis is transformed.
        norm: "backward", "ortho" or "forward".

    Returns:
        The type of `x`.

    Raises:
        ShapeError: the axis does not exist or is empty.
        OptionError: `n` is below 1, or `norm` is not one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.ifft(md.asarray([10 + 0j, -2 + 2j, -2, -2 - 2j])).tolist()
        [(1+0j), (2+0j), (3+0j), (4+0j)]

    Source: array API 2024.12, `fft.ifft`.
    """


@generic(deduce=rule.transform_to_half)
def rfft(x: Any, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Any:
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


@generic(deduce=rule.transform_from_half)
def irfft(x: Any, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Any:
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


@generic(deduce=rule.transform_from_half)
def hfft(x: Any, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Any:
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


@generic(deduce=rule.transform_to_half)
def ihfft(x: Any, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Any:
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


@generic(deduce=rule.transform_n)
def fftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """Apply `fft` along each of several axes.

    Args:
        x: any shape; complex64 or complex128.
        s: lengths along `axes`; -1 for the size of an axis. Without `axes`, of all.
        axes: which axes are transformed; all if None.
        norm: "backward", "ortho" or "forward", where n is the product of all lengths.

    Returns:
        The type of `x`.

    Raises:
        ShapeError: an axis does not exist, repeats, or is empty.
        OptionError: `s` is given without `axes`, a length is below 1, or `norm` is not
            one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.fftn(md.asarray([[1 + 0j, 2], [3, 4]])).tolist()
        [[(10+0j), (-2+0j)], [(-4+0j), 0j]]

    Source: array API 2024.12, `fft.fftn`.
    """


@generic(deduce=rule.transform_n)
def ifftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """Apply `ifft` along each of several axes.

    Args:
        x: any shape; complex64 or complex128.
        s: lengths along `axes`; -1 for the size of an axis. Without `axes`, of all.
        axes: which axes are transformed; all if None.
        norm: "backward", "ortho" or "forward", where n is the product of all lengths.

    Returns:
        The type of `x`.

    Raises:
        ShapeError: an axis does not exist, repeats, or is empty.
        OptionError: `s` is given without `axes`, a length is below 1, or `norm` is not
            one of the three.

    Example:
        >>> import mdtensor as md
        >>> md.fft.ifftn(md.asarray([[10 + 0j, -2], [-4, 0]])).tolist()
        [[(1+0j), (2+0j)], [(3+0j), (4+0j)]]

    Source: array API 2024.12, `fft.ifftn`.
    """


@generic(deduce=rule.transform_n_to_half)
def rfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """Apply `rfft` along the last of several axes, then `fft` along the others.

    Args:
        x: any shape; float32 or float64.
        s: lengths along `axes`; -1 for the size of an axis. Without `axes`, of all.
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


@generic(deduce=rule.transform_n_from_half)
def irfftn(
    x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward"
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


@generic(deduce=rule.shifted)
def fftshift(x: Any, /, *, axes: Any = None) -> Any:
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


@generic(deduce=rule.shifted)
def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
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
