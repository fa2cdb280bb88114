"""Discrete Fourier transforms, under the names of the array API's extension `fft`.

    import mdtensor as md

    spectrum = md.fft.rfft(signal)
    frequencies = md.fft.rfftfreq(signal.size, d=0.001)

Use `rfft` for real signals and `fft` for complex ones. The result of float32 or
complex64 has 32-bit parts, the result of float64 or complex128 has 64-bit parts.
"""

import importlib

from mdtensor.dispatch.suggestions import hint_in as _hint_in
from mdtensor.generics.fft import (
    fft as fft,
    fftn as fftn,
    fftshift as fftshift,
    hfft as hfft,
    ifft as ifft,
    ifftn as ifftn,
    ifftshift as ifftshift,
    ihfft as ihfft,
    irfft as irfft,
    irfftn as irfftn,
    rfft as rfft,
    rfftn as rfftn,
)

#: Functions that are imported with the methods, when one is used.
_LATER = {"fftfreq", "rfftfreq"}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        fix = _hint_in("fft", name, {**globals(), **dict.fromkeys(_LATER)})
        raise AttributeError(f"module 'mdtensor.fft' has no attribute {name!r}.{fix}")
    home = importlib.import_module("mdtensor.ops.fft")
    return globals().setdefault(name, getattr(home, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER} - {"importlib", "_hint_in"})
