"""The two parts of a shadow tensor, and the error of one relative to the other."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import Tensor
from mdtensor.quant.generics import dequantize
from mdtensor.quant.sqnr import decibels
from mdtensor.quant.tensor import QuantizedTensor


class Pair:
    """The buffer of a shadow tensor.

    Args:
        value: the host tensor, with the bytes of a call without shadows.
        reference: its numbers, computed in float64; complex128 for complex ones.
        min_sqnr: the least SQNR of a result in dB; None to never raise.
    """

    __slots__ = ("min_sqnr", "reference", "value")

    def __init__(self, value: Any, reference: Any, min_sqnr: float | None) -> None:
        self.value, self.reference, self.min_sqnr = value, reference, min_sqnr

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.value.shape
        return shape

    @property
    def size(self) -> int:
        return int(self.value.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        storage: np.dtype[Any] = self.value.buffer.dtype
        return storage


def is_real(x: Tensor) -> bool:
    """Return whether a tensor has numbers that may be inexact."""
    kind = type(x).dtype
    return kind.kind == "quantized" or kind.is_floating or kind.is_complex


def numbers_of(x: Any) -> Any:
    """Return floats and codes as float64, complex numbers as complex128."""
    if hasattr(type(x), "reference"):
        return x.reference
    if not isinstance(x, Tensor) or not is_real(x):
        return x
    plain: Any = dequantize(x) if isinstance(x, QuantizedTensor) else x
    return md.astype(plain, md.complex128 if plain.dtype.is_complex else md.float64)


def sqnr_of(pair: Pair) -> float:
    """Return the SQNR in dB; equal infinities and NaN on both sides are no error."""
    wanted = np.asarray(pair.reference)
    found = np.asarray(numbers_of(pair.value))
    differs = ~((found == wanted) | (np.isnan(found) & np.isnan(wanted)))
    if not differs.any():
        return float("inf")
    if not np.isfinite(found[differs]).all() or not np.isfinite(wanted[differs]).all():
        return float("-inf")
    finite = wanted[np.isfinite(wanted)]
    error = found[differs] - wanted[differs]
    signal, noise = np.vdot(finite, finite).real, np.vdot(error, error).real
    return decibels(float(signal), float(noise))
