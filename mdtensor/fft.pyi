"""Types for type checkers, written by `mdtensor stubs`: do not edit.

They come from the operations and methods that are registered, under the default
promotion rules. `mdtensor stubs --check` tells what has changed since.
"""

# mypy: disable-error-code="assignment, misc, overload-cannot-match, overload-overlap"
# mypy: disable-error-code="override"


from mdtensor import _calls

fft: _calls.LikeFft
"""Return the discrete Fourier transform X[k] = Σ x[j] · ωʲᵏ, over j."""
fftn: _calls.LikeFftn
"""Apply `fft` along each of several axes."""
fftshift: _calls.LikeFftshift
"""Rotate the elements along each axis so that frequency 0 is in the middle."""
hfft: _calls.LikeHfft
"""Return the real spectrum of a Hermitian signal, x[-j] = conj(x[j])."""
ifft: _calls.LikeFft
"""Return the inverse transform x[j] = Σ X[k] · ω⁻ʲᵏ / n, over k."""
ifftn: _calls.LikeFftn
"""Apply `ifft` along each of several axes."""
ifftshift: _calls.LikeFftshift
"""Rotate the elements along each axis back; undoes `fftshift`."""
ihfft: _calls.LikeIhfft
"""Return half of the signal whose `hfft` is `x`."""
irfft: _calls.LikeHfft
"""Return the real signal whose `rfft` is `x`."""
irfftn: _calls.Irfftn
"""Return the real signal whose `rfftn` is `x`."""
rfft: _calls.LikeIhfft
"""Return the spectrum of a real signal: X[k] of `fft` for k from 0 to n / 2."""
rfftn: _calls.Rfftn
"""Apply `rfft` along the last of several axes, then `fft` along the others."""
from mdtensor._calls import fftfreq as fftfreq
from mdtensor._calls import rfftfreq as rfftfreq
