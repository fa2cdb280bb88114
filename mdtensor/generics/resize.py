"""Resizing of images."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules.resize import resized, shuffled, unshuffled


@generic(deduce=resized)
def interpolate(
    x: Any,
    /,
    size: Any = None,
    *,
    scale_factor: Any = None,
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
            size is floor(h · scale_factor).
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


@generic(deduce=shuffled)
def pixel_shuffle(x: Any, /, upscale_factor: int) -> Any:
    """Move channels into pixels: [..., c · r², h, w] to [..., c, h · r, w · r].

    Args:
        x: at least 3 axes.
        upscale_factor: r, from 1 on.

    Raises:
        ShapeError: `x` has fewer than 3 axes, or r² does not divide the channels.
        OptionError: the factor is not an integer from 1 on.

    Example:
        >>> import mdtensor as md
        >>> x = md.reshape(md.asarray([1, 2, 3, 4]), (4, 1, 1))
        >>> md.pixel_shuffle(x, 2).tolist()
        [[[1, 2], [3, 4]]]

    Source: ONNX `DepthToSpace` in mode CRD; PyTorch,
        `torch.nn.functional.pixel_shuffle`; Shi et al. 2016.
    """


@generic(deduce=unshuffled)
def pixel_unshuffle(x: Any, /, downscale_factor: int) -> Any:
    """Move pixels into channels; undoes `pixel_shuffle`.

    [..., c, h · r, w · r] becomes [..., c · r², h, w].

    Args:
        x: at least 3 axes.
        downscale_factor: r, from 1 on.

    Raises:
        ShapeError: `x` has fewer than 3 axes, or r does not divide height and width.
        OptionError: the factor is not an integer from 1 on.

    Example:
        >>> import mdtensor as md
        >>> md.pixel_unshuffle(md.asarray([[[1, 2], [3, 4]]]), 2).tolist()
        [[[1]], [[2]], [[3]], [[4]]]

    Source: PyTorch, `torch.nn.functional.pixel_unshuffle`.
    """
