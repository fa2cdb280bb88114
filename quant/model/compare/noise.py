"""Sums over samples from which the error of one node is computed.

    SQNR    10 log10(sum of y² / sum of (z - y)²), in dB: 6 dB are one bit
    cosine  sum of y z / sqrt(sum of y² · sum of z²)

y are the numbers of the float model and z those of the quantized one. Sums are float64,
in the order of the samples, so they are the same in every run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.quant.sqnr import decibels

Array = npt.NDArray[Any]


@dataclass
class Noise:
    """The energy of a signal and of its error, also by channel.

    Args:
        axis: the axis of channels.
        gains: the weight of each channel in `seen`; None for equal ones.
        count: how many elements were added.
        lost: how many of them are NaN or infinite on one side, and not the same on the
            other; no sum contains them.
    """

    axis: int
    gains: Array | None = None
    count: int = 0
    lost: int = 0
    signal: float = 0.0
    noise: float = 0.0
    other: float = 0.0
    dot: float = 0.0
    by_channel: Array | None = field(default=None, repr=False)

    def add(self, wanted: Array, found: Array) -> None:
        """Add one sample: what the float model computes, and what is compared."""
        # Masks are -inf on both sides.
        finite = np.isfinite(wanted) & np.isfinite(found)
        self.count += finite.size
        if not finite.all():
            is_same = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
            self.lost += int((~(finite | is_same)).sum())
        y, z = np.where(finite, wanted, 0.0), np.where(finite, found, 0.0)
        error = z - y
        self.signal += dot(y, y)
        self.noise += dot(error, error)
        self.other += dot(z, z)
        self.dot += dot(y, z)
        if y.ndim > self.axis:
            parts = (channel_energies(y, self.axis), channel_energies(error, self.axis))
            energies = np.stack(parts)
            # A sample with other sizes may have other channels, such as positions.
            if self.by_channel is None:
                self.by_channel = np.zeros_like(energies)
            if self.by_channel.shape == energies.shape:
                self.by_channel += energies

    @property
    def sqnr(self) -> float:
        """Return the SQNR in dB."""
        return decibels(self.signal, self.noise)

    @property
    def seen(self) -> float:
        """Return the SQNR in dB, each channel weighted by its gain."""
        if self.by_channel is None or self.gains is None:
            return self.sqnr
        if self.by_channel.shape[1] != len(self.gains):
            return self.sqnr
        signal, noise = self.by_channel @ self.gains
        return decibels(float(signal), float(noise))

    @property
    def cosine(self) -> float:
        """Return the cosine of both; 1 if both are 0."""
        scale = sqrt(self.signal) * sqrt(self.other)
        return self.dot / scale if scale else float(self.signal == self.other)

    @property
    def worst_channel(self) -> tuple[int, float] | None:
        """Return the channel with the least SQNR, and its SQNR; None without noise."""
        if self.by_channel is None or not self.noise:
            return None
        pairs = [decibels(float(s), float(n)) for s, n in self.by_channel.T]
        at = int(np.argmin(pairs))
        return at, pairs[at]


def dot(x: Array, y: Array) -> float:
    """Return the sum of products."""
    # Without BLAS, whose threads change the order of a sum, and wait for each other.
    return float((x * y).sum())


def channel_energies(x: Array, axis: int) -> Array:
    """Return the sum of squares of each channel."""
    others = tuple(i for i in range(x.ndim) if i != axis)
    found: Array = np.square(x).sum(axis=others)
    return found
