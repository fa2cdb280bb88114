"""Types for type checkers, written by `mdtensor stubs`: do not edit.

They come from the operations and methods that are registered, under the default
promotion rules. `mdtensor stubs --check` tells what has changed since.
"""

# mypy: disable-error-code="assignment, misc, overload-cannot-match, overload-overlap"
# mypy: disable-error-code="override"


from mdtensor import _calls

fft: _calls.LikeFft
"""X[k] = Σ x[j] · ωʲᵏ, over j."""
fftn: _calls.LikeFftn
"""`fft` over each of several axes."""
fftshift: _calls.LikeFftshift
"""The elements along each axis turned so that frequency 0 is in the middle."""
hfft: _calls.LikeHfft
"""The real spectrum of a signal with x[-j] = conj(x[j]), given by one half."""
ifft: _calls.LikeFft
"""x[j] = Σ X[k] · ω⁻ʲᵏ / n, over k."""
ifftn: _calls.LikeFftn
"""`ifft` over each of several axes."""
ifftshift: _calls.LikeFftshift
"""The elements along each axis turned back from `fftshift`."""
ihfft: _calls.LikeIhfft
"""Half of the signal whose `hfft` is `x`."""
irfft: _calls.LikeHfft
"""The real signal whose `rfft` is `x`."""
irfftn: _calls.Irfftn
"""The real signal whose `rfftn` is `x`."""
rfft: _calls.LikeIhfft
"""The spectrum of a real signal: X[k] of `fft` for k from 0 to n / 2."""
rfftn: _calls.Rfftn
"""`rfft` over the last of several axes, then `fft` over the others."""
from mdtensor._calls import (
    fftfreq as fftfreq,
    rfftfreq as rfftfreq,
)
