"""Steps of what moves codes: images lie channels last, whatever order their axes say.

Each step is NumPy's own view of codes that lie so; what NumPy would copy is no step.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import TensorSpec
from mdtensor.kernels.cpu.moves import Concat, Move, Take
from mdtensor.quant.codes import channels_first
from mdtensor.quant.ops.compiled import NotCompiled, compiled
from mdtensor.quant.tensor import NarrowTensor
from mdtensor.spec.shapes import normalize_axes, normalize_axis

Codes = npt.NDArray[np.uint8]
#: Where the axes of an image lie.
LAST = (0, 3, 1, 2)


def views(look: Callable[..., Codes]) -> Callable[..., Move]:
    """The steps of an operation by NumPy's function, called as the operation is."""

    def prepare(x: TensorSpec, /, *given: Any, **options: Any) -> Move:
        shape = _checked(x)

        def moved(codes: Codes) -> Codes:
            view = look(
                channels_first(codes) if x.ndim == 4 else codes, *given, **options
            )
            return np.moveaxis(view, 1, -1) if view.ndim == 4 else view

        def made() -> Move:
            step = Move(moved)
            step.prepared(shape)
            return step

        return compiled(made)

    return prepare


def pixel_shuffle_step(x: TensorSpec, /, *, upscale_factor: int) -> Move:
    """Channels c · r² of [n, h, w, c · r²] as pixels of [n, h · r, w · r, c]."""
    _check_image(x)
    r = upscale_factor

    def pixels(codes: Codes) -> Codes:
        n, h, w, c = codes.shape
        parts = codes.reshape(n, h, w, c // r**2, r, r)
        return parts.transpose(0, 1, 4, 2, 5, 3)

    def joined(shape: tuple[int, ...]) -> tuple[int, ...]:
        n, h, _, w, _, c = shape
        return n, h * r, w * r, c

    return Move(pixels, joined)


def pixel_unshuffle_step(x: TensorSpec, /, *, downscale_factor: int) -> Move:
    """Pixels of [n, h · r, w · r, c] as channels of [n, h, w, c · r²]."""
    _check_image(x)
    r = downscale_factor

    def channels(codes: Codes) -> Codes:
        n, h, w, c = codes.shape
        parts = codes.reshape(n, h // r, r, w // r, r, c)
        return parts.transpose(0, 1, 3, 5, 2, 4)

    def joined(shape: tuple[int, ...]) -> tuple[int, ...]:
        n, h, w, c, *_ = shape
        return n, h, w, c * r**2

    return Move(channels, joined)


def take_step(x: TensorSpec, indices: Any, /, *, axis: Any) -> Take:
    """Codes in places that a constant says, along one axis."""
    _checked(x)
    if isinstance(indices, TensorSpec) or indices.ndim != 1:
        raise NotCompiled(
            "a compiled take has indices that are constant, along an axis"
        )
    at = 0 if axis is None else normalize_axis(axis, x.ndim)
    places = indices.buffer
    if ((places < -x.shape[at]) | (places >= x.shape[at])).any():
        raise NotCompiled("a compiled take has indices inside the axis")
    return Take(places, LAST[at] if x.ndim == 4 else at)


def concat_step(*xs: TensorSpec, axis: Any, out: Any = None) -> Concat:
    """One behind the other, two at a time."""
    if out is not None:
        raise NotCompiled("a compiled concat rounds nothing; requantize before it")
    if axis is None or len(xs) < 2:
        raise NotCompiled("a compiled concat joins two or more, along an axis")
    for x in xs:
        _checked(x)
    at = normalize_axis(axis, xs[0].ndim)
    return Concat(LAST[at] if xs[0].ndim == 4 else at)


def _check_image(x: TensorSpec) -> None:
    _checked(x)
    if x.ndim != 4:
        raise NotCompiled("compiled pixels are those of [n, c, h, w]")


def _checked(x: Any) -> tuple[int, ...]:
    """The shape in which the codes of `x` lie, on one grid.

    Raises:
        NotCompiled: it is a constant, no codes of 8 bits, or has several grids.
    """
    if not isinstance(x, TensorSpec) or not issubclass(x.type, NarrowTensor):
        raise NotCompiled("only codes that are computed are moved in a compiled step")
    if x.qparams is None or x.qparams.axis is not None:
        raise NotCompiled("a compiled step moves codes of one grid")
    if x.ndim != 4:
        return x.shape
    n, c, h, w = x.shape
    return n, h, w, c


def reshaped(codes: Codes, *, shape: Any, copy: Any) -> Codes:
    """As NumPy, and never a copy."""
    return np.reshape(codes, shape, copy=False)


def squeezed(codes: Codes, *, axis: Any) -> Codes:
    return np.squeeze(codes, normalize_axes(axis, codes.ndim))


def indexed(codes: Codes, *, key: Any) -> Codes:
    view: Codes = codes[key]
    return view
