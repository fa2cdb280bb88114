"""The ratio of a signal to its quantization noise, in decibels: 6 dB are one bit."""

from math import inf, isnan, log10
from typing import Any

from mdtensor.errors import OptionError, shown
from mdtensor.extend import number


def decibels(signal: float, noise: float) -> float:
    """Return the SQNR for the energies of a signal and its noise; inf without noise.

    Example:
        >>> decibels(100.0, 1.0), decibels(1.0, 0.0), decibels(0.0, 1.0)
        (20.0, inf, -inf)
    """
    if not noise:
        return inf
    return 10 * log10(signal / noise) if signal else -inf


def least_decibels(min_sqnr: Any) -> float | None:
    """Return the option `min_sqnr` as a number of decibels; None for no limit.

    Raises:
        OptionError: it is not a real number, or it is NaN.
    """
    if min_sqnr is None:
        return None
    found = number(min_sqnr, "min_sqnr")
    if isnan(found):
        problem = f"min_sqnr is {shown(min_sqnr)}, not a number of decibels"
        raise OptionError(problem, "Use a number such as 30")
    return found
