"""Resizing of images."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction
from math import floor, isfinite
from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.spec.options import choice, flag, number
from mdtensor.spec.shapes import DYNAMIC, Integers, Shape
from mdtensor.spec.spec import TensorSpec
from mdtensor.spec.windows import check_image, pair, single

# Shape rules of image resizing.

MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")


def infer_interpolate(
    x: TensorSpec,
    *,
    size: Integers | None,
    scale_factor: float | Collection[float] | None,
    mode: str,
    align_corners: bool | None,
) -> TensorSpec:
    """Infer the type of the argument and [n, c, oh, ow]."""
    check_image(x.shape)
    choice(mode, "mode", MODES)
    if align_corners is not None:
        flag(align_corners, "align_corners")
        # Nearest pixels have no corners to align, so the option would be without
        # effect; PyTorch rejects it too.
        if mode in MODES[:2]:
            raise OptionError(
                f"mode {mode} does not take align_corners", "Leave it None"
            )
    # With both given one would have to win, and a caller could not see which.
    if (size is None) == (scale_factor is None):
        raise OptionError(
            "size and scale_factor are both given, or neither", "Pass one of them"
        )
    # Every new pixel is a mean of old ones, of which there are none.
    if 0 in x.shape[2:]:
        raise ShapeError(
            f"the image is empty: {x.shape[2]} by {x.shape[3]}",
            "Give an image of at least 1 by 1",
        )
    if size is not None:
        return x.with_shape((*x.shape[:2], *pair(size, "size", 1)))
    pairs = zip(x.shape[2:], scales(scale_factor), strict=True)
    new = [DYNAMIC if n == DYNAMIC else _scaled(n, scale) for n, scale in pairs]
    if 0 in new or max(new) >= 2**31:
        raise ShapeError(
            f"the new size would be {new[0]} by {new[1]}",
            "Choose a scale_factor for sizes from 1 to 2**31 - 1",
        )
    return x.with_shape((*x.shape[:2], *new))


def _scaled(size: int, scale: float) -> int:
    """Return floor(size · scale), with the product of float64 that PyTorch computes.

    The float 0.3 is a little below 3/10, and 10 · 0.3 is 3 all the same.
    """
    return floor(min(size * float(scale), 2.0**62))


def scales(scale_factor: object) -> tuple[float, float]:
    """Return height and width of `scale_factor`."""
    given: tuple[object, ...] = (scale_factor,) * 2
    # A text is iterable as well, but the error must name it whole; a 0-d tensor claims
    # to be.
    is_one = isinstance(scale_factor, str) or getattr(scale_factor, "shape", None) == ()
    if isinstance(scale_factor, Iterable) and not is_one:
        given = tuple(scale_factor)
    found = [number(value, "scale_factor") for value in given]
    if len(found) != 2 or not all(value > 0 and isfinite(value) for value in found):
        raise OptionError(
            f"scale_factor is {shown(scale_factor)}", "Use one or two numbers above 0"
        )
    return found[0], found[1]


def distances(shape: Shape, new: Shape, scale_factor: object) -> list[Fraction]:
    """Return the distances of new rows and of new columns, in old ones.

    Args:
        shape: [n, c, h, w] of the image.
        new: the new height and width.
    """
    # Fractions, so that the sampling positions are exact.
    if scale_factor is None:
        return [Fraction(n, m) for n, m in zip(shape[2:], new, strict=True)]
    return [1 / Fraction(scale) for scale in scales(scale_factor)]


def infer_pixel_shuffle(x: TensorSpec, *, upscale_factor: int) -> TensorSpec:
    """Infer fewer channels in a larger image."""
    r = single(upscale_factor, "upscale_factor", 1)
    *batch, channels, height, width = _image_axes(x)
    # Unknown channels are checked by the call.
    if channels != DYNAMIC and channels % r**2:
        raise ShapeError(
            f"{channels} channels do not split into {r} x {r} pixels",
            f"Give a multiple of {r**2} channels, or another upscale_factor",
        )
    grown = (DYNAMIC if n == DYNAMIC else n * r for n in (height, width))
    fewer = DYNAMIC if channels == DYNAMIC else channels // r**2
    return x.with_shape((*batch, fewer, *grown))


def infer_pixel_unshuffle(x: TensorSpec, *, downscale_factor: int) -> TensorSpec:
    """Infer more channels in a smaller image."""
    r = single(downscale_factor, "downscale_factor", 1)
    *batch, channels, height, width = _image_axes(x)
    if any(n != DYNAMIC and n % r for n in (height, width)):
        raise ShapeError(
            f"{height} by {width} pixels do not split into {r} x {r}",
            f"Pad both to multiples of {r}, or use another downscale_factor",
        )
    shrunk = (DYNAMIC if n == DYNAMIC else n // r for n in (height, width))
    more = DYNAMIC if channels == DYNAMIC else channels * r**2
    return x.with_shape((*batch, more, *shrunk))


def _image_axes(x: TensorSpec) -> tuple[int, ...]:
    if x.ndim < 3:
        raise ShapeError(
            f"an image must have at least 3 axes, but has {x.ndim}",
            "Give the shape [..., c, h, w]",
        )
    return x.shape


@generic(deduce=infer_interpolate)
def interpolate(
    x: object,
    /,
    size: Integers | None = None,
    *,
    scale_factor: float | Collection[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """Resample images to another height and width.

    Row i of the result lies at row (i + 0.5) · h / oh - 0.5 of x; with `align_corners`
    at i · (h - 1) / (oh - 1); for "nearest" the row floor(i · h / oh) is taken. With
    `scale_factor`, 1 / scale_factor stands for h / oh. Positions are exact.

    Args:
        x: [n, c, h, w], floating.
        size: the new size, one integer or (height, width); or None.
        scale_factor: instead of `size`, one number above 0 or (height, width); the new
            size is floor(h · scale_factor), computed in float64.
        mode: "nearest", "nearest-exact" (the nearest, where "nearest" is the one
            before), "bilinear" or "bicubic" (with -0.75, and no clipping).
        align_corners: True or False for "bilinear" and "bicubic"; None is False.

    Raises:
        ShapeError: `x` is not an image or is empty, or the result would be empty.
        OptionError: not exactly one of `size` and `scale_factor`, another mode, or
            `align_corners` for a mode without it.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[[[1.0, 3.0]]]])
        >>> md.interpolate(x, (1, 4)).tolist()
        [[[[1.0, 1.0, 3.0, 3.0]]]]
        >>> md.interpolate(x, (1, 4), mode="bilinear").tolist()
        [[[[1.0, 1.5, 2.5, 3.0]]]]

    Source: ONNX `Resize`; PyTorch, `torch.nn.functional.interpolate`.
    """


@generic(deduce=infer_pixel_shuffle)
def pixel_shuffle(x: object, /, upscale_factor: int) -> Any:
    """Move channels into pixels: [..., c · r², h, w] to [..., c, h · r, w · r].

    Args:
        x: at least 3 axes.
        upscale_factor: r, 1 or more.

    Raises:
        ShapeError: `x` has fewer than 3 axes, or r² does not divide the channels.
        OptionError: the factor is not an integer of 1 or more.

    Example:
        >>> import mdtensor as md
        >>> x = md.reshape(md.asarray([1, 2, 3, 4]), (4, 1, 1))
        >>> md.pixel_shuffle(x, 2).tolist()
        [[[1, 2], [3, 4]]]

    Source: ONNX `DepthToSpace` in mode CRD; PyTorch,
        `torch.nn.functional.pixel_shuffle`; Shi et al. 2016.
    """


@generic(deduce=infer_pixel_unshuffle)
def pixel_unshuffle(x: object, /, downscale_factor: int) -> Any:
    """Move pixels into channels; undoes `pixel_shuffle`.

    [..., c, h · r, w · r] becomes [..., c · r², h, w].

    Args:
        x: at least 3 axes.
        downscale_factor: r, 1 or more.

    Raises:
        ShapeError: `x` has fewer than 3 axes, or r does not divide height and width.
        OptionError: the factor is not an integer of 1 or more.

    Example:
        >>> import mdtensor as md
        >>> md.pixel_unshuffle(md.asarray([[[1, 2], [3, 4]]]), 2).tolist()
        [[[1]], [[2]], [[3]], [[4]]]

    Source: PyTorch, `torch.nn.functional.pixel_unshuffle`.
    """
