"""From one element type to another, and from one device to another."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.conversion import cast, moved


@generic(deduce=cast)
def astype(
    x: Any,
    dtype: Any,
    /,
    *,
    copy: bool = True,
    device: Any = None,
    casting: str = "check",
) -> Any:
    """`x` with another element type. The only way to narrow a type.

    Args:
        x: any shape.
        dtype: the element type wanted, or its name, or NumPy's type for it.
        copy: False returns `x` itself if it is of the type and on the device.
        device: where the result lives; the device of `x` unless given.
        casting: what happens to a value that `dtype` does not hold.
            `exact`: every value must be representable as it is.
            `check`: fractions round (floats once, to nearest even; to integers toward
            zero), anything outside the range, and NaN for an integer, raises.
            `saturate`: as `check`, but outside values become the nearest bound and
            NaN an integer 0. Infinities and NaN stay what they are among floats.
            `wrap`: as `check`, but integers modulo 2**bits; a float is cut toward
            zero first, and NaN or an infinity becomes 0. Too large for a float
            becomes an infinity.

    True is 1. Whatever is not zero becomes True, NaN included; only `exact` wants 0
    and 1. The parts of complex numbers are cast each. To a real type `exact` and
    `check` refuse an imaginary part other than 0; `saturate` and `wrap` refuse all
    complex numbers.

    Returns:
        The type of `dtype`, of the shape of `x`; a copy unless `copy` is False.

    Raises:
        CastError: a value does not fit.
        OptionError: no such `casting` or `dtype`.
        DeviceError: `x` does not live on the host, or there is no such `device`.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1.5, 300.0])
        >>> md.astype(x, md.uint8, casting="saturate").tolist()
        [1, 255]
        >>> md.astype(x, md.uint8)
        Traceback (most recent call last):
        mdtensor.errors.CastError: ...

    Source: array API 2024.12, `astype`; the policies are ours.
    """


@generic(deduce=moved)
def to(x: Any, device: Any, /) -> Any:
    """`x` on `device`; the only operation that moves a tensor between devices.

    Args:
        x: any shape.
        device: the device or its name. On the one it is on, `x` itself is returned.

    Raises:
        DeviceError: there is no such device.

    Example:
        >>> import mdtensor as md
        >>> md.to(md.asarray([1.0]), md.cpu).device
        cpu

    Source: PyTorch, `torch.Tensor.to`.
    """
