"""Methods of Fourier transforms for dense tensors on the host, and frequencies."""

from collections.abc import Callable
from functools import partial
from typing import Any

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.dispatch.call_errors import explain_wrong_calls
from mdtensor.dispatch.operation import method
from mdtensor.errors import OptionError, checked, shown
from mdtensor.generics.conversion import astype, to
from mdtensor.generics.fft import (
    fft,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfftn,
    length,
    lengths,
    rfft,
    rfftn,
)
from mdtensor.kernels.numpy import fft as kernel
from mdtensor.ops.operands import Dense, allocate, deduced
from mdtensor.promotion import DEFAULT_FLOAT
from mdtensor.spec.options import DTypeName, number
from mdtensor.spec.shapes import normalize_axes, normalize_axis
from mdtensor.tensor import Tensor, leaf
from mdtensor.types import ComplexTensor, FloatingTensor


@method(fft)
def fft(x: ComplexTensor, /, *, n: int | None, axis: int, norm: str) -> Tensor:
    return _along_axis(fft, x, n, axis, norm)


# Floats give the same bytes as complex numbers whose imaginary parts are 0.
@method(fft)
def fft(x: FloatingTensor, /, *, n: int | None, axis: int, norm: str) -> Tensor:
    kind = deduced(fft, x, n=n, axis=axis, norm=norm).dtype
    return _along_axis(fft, astype(x, kind), n, axis, norm)


@method(ifft)
def ifft(x: ComplexTensor, /, *, n: int | None, axis: int, norm: str) -> Tensor:
    return _along_axis(ifft, x, n, axis, norm)


@method(ifft)
def ifft(x: FloatingTensor, /, *, n: int | None, axis: int, norm: str) -> Tensor:
    kind = deduced(ifft, x, n=n, axis=axis, norm=norm).dtype
    return _along_axis(ifft, astype(x, kind), n, axis, norm)


@method(rfft)
def rfft(x: FloatingTensor, /, *, n: int | None, axis: int, norm: str) -> Tensor:
    return _along_axis(rfft, x, n, axis, norm)


@method(irfft)
def irfft(x: ComplexTensor, /, *, n: int | None, axis: int, norm: str) -> Tensor:
    return _along_axis(irfft, x, n, axis, norm)


@method(hfft)
def hfft(x: ComplexTensor, /, *, n: int | None, axis: int, norm: str) -> Tensor:
    return _along_axis(hfft, x, n, axis, norm)


@method(ihfft)
def ihfft(x: FloatingTensor, /, *, n: int | None, axis: int, norm: str) -> Tensor:
    return _along_axis(ihfft, x, n, axis, norm)


@method(fftn)
def fftn(x: ComplexTensor, /, *, s: object, axes: object, norm: str) -> Tensor:
    return _along_axes(fftn, x, s, axes, norm)


@method(fftn)
def fftn(x: FloatingTensor, /, *, s: object, axes: object, norm: str) -> Tensor:
    kind = deduced(fftn, x, s=s, axes=axes, norm=norm).dtype
    return _along_axes(fftn, astype(x, kind), s, axes, norm)


@method(ifftn)
def ifftn(x: ComplexTensor, /, *, s: object, axes: object, norm: str) -> Tensor:
    return _along_axes(ifftn, x, s, axes, norm)


@method(ifftn)
def ifftn(x: FloatingTensor, /, *, s: object, axes: object, norm: str) -> Tensor:
    kind = deduced(ifftn, x, s=s, axes=axes, norm=norm).dtype
    return _along_axes(ifftn, astype(x, kind), s, axes, norm)


@method(rfftn)
def rfftn(x: FloatingTensor, /, *, s: object, axes: object, norm: str) -> Tensor:
    return _along_axes(rfftn, x, s, axes, norm)


@method(irfftn)
def irfftn(x: ComplexTensor, /, *, s: object, axes: object, norm: str) -> Tensor:
    return _along_axes(irfftn, x, s, axes, norm)


def _along_axis(
    operation: Callable[..., Any], x: Tensor, n: int | None, axis: int, norm: str
) -> Tensor:
    result: type[Tensor] = deduced(operation, x, n=n, axis=axis, norm=norm).type
    # NumPy would not take 0-d tensors.
    size, at = n if n is None else int(n), normalize_axis(axis, x.ndim)
    return result.wrap(kernel.along_axis(operation.__name__, x.buffer, size, at, norm))


def _along_axes(
    operation: Callable[..., Any], x: Tensor, s: object, axes: object, norm: str
) -> Tensor:
    result: type[Tensor] = deduced(operation, x, s=s, axes=axes, norm=norm).type
    # irfftn takes half of a spectrum, so its last size is not the input's.
    sizes, order = lengths(x.shape, s, axes, is_half=operation is irfftn)
    name = operation.__name__
    return result.wrap(kernel.along_axes(name, x.buffer, sizes, order, norm))


@method(fftshift)
def fftshift(x: Dense, /, *, axes: int | tuple[int, ...] | None) -> Tensor:
    deduced(fftshift, x, axes=axes)
    return x.wrap(kernel.fftshift(x.buffer, normalize_axes(axes, x.ndim)))


@method(ifftshift)
def ifftshift(x: Dense, /, *, axes: int | tuple[int, ...] | None) -> Tensor:
    deduced(ifftshift, x, axes=axes)
    return x.wrap(kernel.ifftshift(x.buffer, normalize_axes(axes, x.ndim)))


@explain_wrong_calls
def fftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: DTypeName | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """Return the frequencies of `fft`: k / (n · d), negative in the upper half.

    Args:
        n: length of the transform.
        d: time between two elements of the signal.
        dtype: a floating type; float32 if None.
        device: by default cpu.

    Returns:
        [n].

    Raises:
        OptionError: n is below 1, d is 0 or not a number, or `dtype` is not floating.

    Example:
        >>> import mdtensor as md
        >>> md.fft.fftfreq(4, d=0.5).tolist()
        [0.0, 0.5, -1.0, -0.5]

    Source: array API 2024.12, `fft.fftfreq`.
    """
    return _frequencies("fftfreq", kernel.fftfreq, n, d, dtype, device)


@explain_wrong_calls
def rfftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: DTypeName | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """Return the frequencies of `rfft`: k / (n · d) from 0 up.

    Args:
        n: length of the transform.
        d: time between two elements of the signal.
        dtype: a floating type; float32 if None.
        device: by default cpu.

    Returns:
        [n // 2 + 1].

    Raises:
        OptionError: n is below 1, d is 0 or not a number, or `dtype` is not floating.

    Example:
        >>> import mdtensor as md
        >>> md.fft.rfftfreq(4, d=0.5).tolist()
        [0.0, 0.5, 1.0]

    Source: array API 2024.12, `fft.rfftfreq`.
    """
    return _frequencies("rfftfreq", kernel.rfftfreq, n, d, dtype, device)


def _frequencies(
    name: str,
    frequencies: Callable[..., Any],
    n: object,
    d: object,
    dtype: object,
    device: object,
) -> Tensor:
    def check() -> type[Tensor]:
        wanted = DEFAULT_FLOAT if dtype is None else dtypes.dtype(dtype)
        if not wanted.is_floating:
            raise OptionError(f"dtype is {wanted}", "Use a floating type")
        if not length(n, 0) or not number(d, "d"):
            raise OptionError(f"d is {shown(d)}", "Use a number other than 0")
        return leaf(wanted)

    result = checked(name, (n,), check)
    # Kernels run on the host; a device gets the finished result.
    made = partial(frequencies, int(n), d, result.dtype.storage)  # type: ignore[call-overload]
    found = result.wrap(allocate(made, name, n))
    return found if device is None else to(found, device)
