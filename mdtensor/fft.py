"""Discrete Fourier transforms, under the names of the array API's extension `fft`.

    import mdtensor as md

    spectrum = md.fft.rfft(signal)
    frequencies = md.fft.rfftfreq(signal.size, d=0.001)

Real signals have `rfft`, complex ones `fft`: 32 bits stay 32, 64 stay 64.
"""

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
from mdtensor.ops.fft import fftfreq as fftfreq, rfftfreq as rfftfreq
