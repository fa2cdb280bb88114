"""The ratio of a signal to its quantization noise, in decibels: 6 dB are one bit."""

from math import inf, log10


def decibels(signal: float, noise: float) -> float:
    """Return the SQNR for the energies of a signal and its noise; inf without noise.

    Example:
        >>> decibels(100.0, 1.0), decibels(1.0, 0.0), decibels(0.0, 1.0)
        (20.0, inf, -inf)
    """
    if not noise:
        return inf
    return 10 * log10(signal / noise) if signal else -inf
