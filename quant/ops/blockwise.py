"""Products whose scales differ inside the sum, for example weights in blocks.

    y = round((sum over parts p of scale[p] · sum over k in p of x[k] · w[k]) / step)

    part     neighbours along k with one scale: a block; one k, if scales lie along k;
             the bias, on its own grid
    sums     of steps (code - zero point), on 64-bit integers, exact
    round    half to even, once: float64, or rational numbers for sums near a tie

An accumulator cannot hold such a sum, because it would need one scale for all parts.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import Int64Tensor, matmul as product
from mdtensor.extend import Window, matmul_shape
from mdtensor.quant import exact
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sums:
    """Sums of products of steps, with one scale for each part of k.

    Args:
        x: steps [..., m, k].
        w: steps [..., k, n].
        starts: the first index of each part of k.
        scales: of the products [..., parts, n].
    """

    x: IntArray
    w: IntArray
    starts: tuple[int, ...]
    scales: FloatArray

    def with_bias(self, steps: IntArray, scales: FloatArray) -> "Sums":
        """Return the sums with a bias, which is one more product: 1 times steps [n]."""
        # A bias on its own grid is one more part, so it needs no rounding of its own.
        one = np.ones((*self.x.shape[:-1], 1), np.int64)
        return Sums(
            np.concatenate([self.x, one], -1),
            np.concatenate([self.w, steps[None]], -2),
            (*self.starts, self.w.shape[-2]),
            np.concatenate([self.scales, scales[None]], -2),
        )

    @property
    def _parts(self) -> list[slice]:
        return [slice(*p) for p in pairwise((*self.starts, self.w.shape[-2]))]

    def round_to(self, step: float) -> IntArray:
        """Return the sums in multiples of `step`, rounded and clipped to ±2**40."""
        # Overflow gives infinities, which the lines below clip, or decide exactly.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            factors = self.scales / step
            total, size = self._near(factors)
            # Each part is exact, so float64 errs in the factors and when it adds parts.
            error = size * (len(self.starts) + 8) * 2.0**-53
            if _is_exact(factors, step, size):
                error = np.zeros_like(size)
            nearest = np.rint(np.clip(np.nan_to_num(total), -exact.LARGE, exact.LARGE))
            sure = np.abs(np.abs(total - nearest) - 0.5) > error
            sure |= np.abs(total) - error >= exact.LARGE
        if not error.any():
            return nearest.astype(np.int64)
        rounded: IntArray = nearest.astype(np.int64)
        for place in zip(*np.nonzero(~sure), strict=True):
            rounded[place] = self._exactly(place, step)
        return rounded

    def _near(self, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums in float64, and the sums of the magnitudes of their parts."""
        batch = np.broadcast_shapes(self.x.shape[:-2], self.w.shape[:-2])
        total = np.zeros((*batch, self.x.shape[-2], self.w.shape[-1]))
        size = total.copy()
        for number, part in enumerate(self._parts):
            left = Int64Tensor.wrap(self.x[..., part])
            right = Int64Tensor.wrap(self.w[..., part, :])
            sums = product(left, right).buffer * factors[..., number, None, :]
            total += sums
            size += np.abs(sums)
        return total, size

    def _exactly(self, place: tuple[Any, ...], step: float) -> int:
        """Return one sum in multiples of `step`, computed with rational numbers."""
        *batch, row, column = place
        shape = np.broadcast_shapes(self.x.shape[:-2], self.w.shape[:-2])
        x, w, scales = (
            np.broadcast_to(a, (*shape, *a.shape[-2:]))[tuple(batch)]
            for a in (self.x, self.w, self.scales)
        )
        sums = np.add.reduceat(x[row] * w[:, column], self.starts).tolist()
        own = scales[:, column].tolist()
        terms = (n * Fraction(s) for n, s in zip(sums, own, strict=True))
        found, limit = sum(terms, Fraction(0)), int(exact.LARGE)
        return min(max(round(found / Fraction(step)), -limit), limit)


def _is_exact(factors: FloatArray, step: float, size: FloatArray) -> bool:
    """Return whether float64 holds every factor, product and sum exactly."""
    # All are multiples of the lowest bit of any factor, and stay below 2**53 of it.
    mantissas, exponents = np.frexp(factors)
    whole = (mantissas * 2.0**53).astype(np.int64)
    lowest = np.ldexp((whole & -whole).astype(np.float64), exponents - 53)
    unit = float(lowest.min(initial=np.inf))
    return bool(np.frexp(step)[0] == 0.5 and size.max(initial=0) < unit * 2.0**53)


# Blocks along k have several scales, so the sum is rounded once to `out` (decision
# 0045).
def linear_codes(
    x: QuantizedTensor, w: QuantizedTensor, b: QuantizedTensor | None, out: QParams
) -> IntArray:
    """Return the codes of x · wᵀ + b on `out`; the bias may have any scales."""
    # One scale per part is enough: the scales inside a part are equal.
    starts = _starts(w.qparams, 1, w.shape[1])
    scales = _scales(x, w).T[list(starts)]
    left = np.atleast_2d(exact.steps_of(x))
    sums = Sums(left, exact.steps_of(w).T, starts, scales)
    if b is not None:
        own = np.broadcast_to(b.qparams.along(b.scale, b.shape), b.shape)
        sums = sums.with_bias(exact.steps_of(b), own)
    return _codes(sums, out, (*x.shape[:-1], w.shape[0]))


def matmul_codes(x1: QuantizedTensor, x2: QuantizedTensor, out: QParams) -> IntArray:
    """Return the codes of x1 · x2 on `out`."""
    axis = max(x2.ndim - 2, 0)
    starts = _starts(x2.qparams, axis, x2.shape[axis])
    right, scales = exact.steps_of(x2), _scales(x1, x2)
    if x2.ndim == 1:
        right, scales = right[:, None], scales[:, None]
    scales = scales[..., list(starts), :]
    sums = Sums(np.atleast_2d(exact.steps_of(x1)), right, starts, scales)
    return _codes(sums, out, matmul_shape(x1.shape, x2.shape))


# Every change of scale along k starts another part, so that each part is an exact
# integer sum (decision 0045).
def conv2d_codes(
    x: QuantizedTensor,
    w: QuantizedTensor,
    b: QuantizedTensor | None,
    window: Window,
    groups: int,
    out: QParams,
) -> IntArray:
    """Return the codes of the convolution on `out`, for any scales of `w` and `b`."""
    seen = _window_view(exact.steps_of(x), window)
    split = [np.split(a, groups) for a in (exact.steps_of(w), _scales(x, w))]
    bias = [(None, None)] * groups
    if b is not None:
        own = np.broadcast_to(b.qparams.along(b.scale, b.shape), b.shape)
        pairs = (np.split(a, groups) for a in (exact.steps_of(b), own))
        bias = [*zip(*pairs, strict=True)]
    found = []
    for part, steps, scales, (more, own) in zip(
        np.split(seen, groups, 3), *split, bias, strict=True
    ):
        rows = part.reshape(*part.shape[:2], part.shape[2], steps[:1].size)
        right, each = (a.reshape(len(a), rows.shape[-1]).T for a in (steps, scales))
        starts = _scale_changes(each)
        sums = Sums(rows, right, starts, each[list(starts)])
        sums = sums if more is None else sums.with_bias(more, own)
        found.append(sums.round_to(float(out.scale)))
    images = np.concatenate(found, -1).transpose(0, 3, 1, 2)
    return exact.to_codes(images, out)


def _window_view(images: IntArray, window: Window) -> IntArray:
    """Return the pixels in the window at each place, [n, h, w, c, kh, kw].

    Pixels outside the image are 0.
    """
    top, left, bottom, right = window.padding
    padded = np.pad(images, [(0, 0), (0, 0), (top, bottom), (left, right)])
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.stride, window.dilation
    reach = (kh - 1) * dh + 1, (kw - 1) * dw + 1
    found = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    seen: IntArray = found[:, :, ::sh, ::sw, ::dh, ::dw].transpose(0, 2, 3, 1, 4, 5)
    return seen


def _scale_changes(scales: FloatArray) -> tuple[int, ...]:
    """Return the rows of `scales` [k, n] that differ from the row before, and 0."""
    after = np.nonzero((scales[1:] != scales[:-1]).any(axis=1))[0] + 1
    return (0, *after.tolist()) if len(scales) else ()


def _scales(x: QuantizedTensor, w: QuantizedTensor) -> FloatArray:
    """Return the scale of the products for each step of `w`; exact in float64."""
    scales = w.qparams.along(w.scale, w.shape) * float(x.qparams.scale)
    return np.broadcast_to(scales, w.shape)


def _starts(grid: QParams, axis: int, k: int) -> tuple[int, ...]:
    """Return the indices along `axis`, of size `k`, at which scales may change."""
    if grid.axis == axis:
        return tuple(range(0, k, grid.block_size or 1))
    is_whole = grid.block_size is None
    return tuple(range(0, k, max(k, 1) if is_whole else 1))


def _codes(sums: Sums, out: QParams, shape: tuple[int, ...]) -> IntArray:
    return exact.to_codes(sums.round_to(float(out.scale)), out).reshape(shape)
