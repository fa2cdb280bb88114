"""Resize between pixels along any axes: taps with exact weights, axis by axis.

    y[i] = sum over j of weight[j, i] · x[place[j, i]]

The weights are computed as fractions while the model is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_between
from mdtensor.quant.model.onnx.build import Builder, Operator

Array = npt.NDArray[Any]
#: The largest factor of a cubic curve; files have -0.75 or -0.5.
LIMIT = 100
#: A function from the distance to a pixel to the weight of that pixel.
Curve = Callable[[Fraction], Fraction]


def triangle(distance: Fraction) -> Fraction:
    """Return the weight of a pixel in linear interpolation."""
    return max(1 - abs(distance), Fraction(0))


def cubic(a: Fraction) -> Curve:
    """Return the function that gives the weight of a pixel in cubic interpolation.

    Source: Keys 1981, "Cubic Convolution Interpolation".
    """

    def weight(distance: Fraction) -> Fraction:
        d = abs(distance)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        if d < 2:
            return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        return Fraction(0)

    return weight


@dataclass(frozen=True)
class Resampling:
    """How new pixels are computed from old ones.

    Args:
        curve: weights by distance.
        reach: the distance from which on all weights are 0.
        antialias: whether the curve becomes wider where the axis shrinks.
        exclude_outside: whether pixels outside of the image have weight 0; otherwise
            they repeat the edge.
    """

    curve: Curve
    reach: int
    antialias: bool
    exclude_outside: bool

    def taps(
        self, places: list[Fraction], scale: Fraction, old: int
    ) -> tuple[Array, Array]:
        """Return the old pixels of each new one, [taps, new], and their weights.

        Args:
            places: the old coordinate of each new pixel.
            scale: the new size divided by the old size.
            old: the old size.
        """
        shrink = min(scale, Fraction(1)) if self.antialias else Fraction(1)
        width = ceil(self.reach / shrink)
        offsets = range(1 - width, width + 1)
        pixels, weights = [], []
        for place in places:
            near = [floor(place) + k for k in offsets]
            found = [self.curve((at - place) * shrink) for at in near]
            if self.exclude_outside:
                found = [
                    w if 0 <= at < old else Fraction(0)
                    for at, w in zip(near, found, strict=True)
                ]
            # Without a pixel inside there is nothing to divide by; the weights are 0.
            total = sum(found) or Fraction(1)
            pixels.append([min(max(at, 0), old - 1) for at in near])
            weights.append([float(w / total) for w in found])
        return np.array(pixels, np.int64).T, np.array(weights, np.float64).T


def resampling_of(op: Operator) -> Resampling:
    """Return the resampling that the attributes of Resize name."""
    is_linear = op.get("mode") == "linear"
    a = op.get("cubic_coeff_a", -0.75)
    require_between(op, a, -LIMIT, LIMIT, "cubic_coeff_a")
    return Resampling(
        triangle if is_linear else cubic(Fraction(a)),
        1 if is_linear else 2,
        bool(op.get("antialias", 0)),
        bool(op.get("exclude_outside", 0)),
    )


def resample(g: Builder, op: Operator, x: str, axis: int, taps: Any) -> str:
    """Add the nodes that resample one axis; return the name of the result."""
    pixels, weights = taps
    dtype = g.specs[x].dtype
    if not dtype.is_floating and not np.isin(weights, (0, 1)).all():
        raise op.error(
            f"interpolates between elements of {dtype}",
            "Export it with mode nearest, or for floats",
        )
    shape = [1] * len(g.shape(x))
    shape[axis] = -1
    storage, total = dtype.storage, ""
    for number, (at, factor) in enumerate(zip(pixels, weights, strict=True)):
        if not factor.any():
            continue
        stem = f"axis{axis}.{number}"
        places = g.new_constant(op, f"{stem}.places", at)
        taken = g.step(op, f"{stem}.taken", md.take, x, places, axis=axis)
        if not (factor == 1).all():
            factors = factor.astype(storage).reshape(shape)
            scale = g.new_constant(op, f"{stem}.weights", factors)
            taken = g.step(op, f"{stem}.scaled", md.mul, taken, scale)
        total = g.step(op, f"{stem}.sum", md.add, total, taken) if total else taken
    return total or _edge(g, op, x, axis, pixels)


def _edge(g: Builder, op: Operator, x: str, axis: int, pixels: Array) -> str:
    """Add the node for an axis without weights: it is empty, or outside of the image.

    Pixels outside are filled later, so that any value will do.
    """
    at = pixels[0] if len(pixels) else np.zeros(0, np.int64)
    places = g.new_constant(op, f"axis{axis}.edge", at)
    return g.step(op, f"axis{axis}.taken", md.take, x, places, axis=axis)


def outside(places: list[Fraction], old: int) -> Array:
    """Return which new pixels lie outside of the old image."""
    return np.array([place < 0 or place > old - 1 for place in places])


def fill_outside(
    g: Builder, op: Operator, x: str, axis: int, beyond: Array, value: float
) -> str:
    """Replace new pixels outside of the old image by a number."""
    if not beyond.any():
        return x
    shape = [1] * len(g.shape(x))
    shape[axis] = -1
    mask = g.new_constant(op, f"axis{axis}.outside", beyond.reshape(shape))
    return g.step(op, f"axis{axis}.filled", md.where, mask, value, x)
