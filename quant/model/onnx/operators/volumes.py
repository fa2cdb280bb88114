"""Convolutions over three axes, as convolutions of images.

    y[n, :, z] = sum over k of conv2d(x[n, :, p], w[:, :, k]),
    p = z · stride + k · dilation - padding

The planes that a window reads along the depth become channels of one image, so the sum
over k is the sum over channels of one `conv2d`: it has the kernels, grids and bytes of
a convolution of images.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import require_fixed_shape

#: The axes [n, d, o, h, w], in the order [n, o, d, h, w].
FROM_PLANES = (0, 2, 1, 3, 4)


def convolve_volume(g: Builder, op: Operator, options: dict[str, Any]) -> str:
    """Return a Conv of [n, c, d, h, w] with [o, c / groups, kd, kh, kw], depth first.

    `FROM_PLANES` is the order of its axes that makes them those of the operator.

    Args:
        options: those of a convolution, with three numbers for each size.

    Raises:
        ModelError: the window is larger than the padded depth, or a size other than
            that of the batch is dynamic.
    """
    weights = str(op.inputs[1])
    filters, channels, kernel, *window = require_fixed_shape(g, op, weights)
    image, count = _images(g, op, kernel, options)
    shape = (filters, channels * kernel, *window)
    w = g.step(op, "filters", md.reshape, weights, shape=shape)
    before, after = options["padding"][1:3], options["padding"][4:]
    given = {name: options[name][1:] for name in ("stride", "dilation")}
    given |= {"padding": (*before, *after), "groups": options["groups"]}
    found = g.step(op, "convolved", md.conv2d, image, w, op.input(2), **given)
    shape = (-1, count, *g.shape(found)[1:])
    return g.step(op, "planes", md.reshape, found, shape=shape)


def _images(
    g: Builder, op: Operator, kernel: int, options: dict[str, Any]
) -> tuple[str, int]:
    """Return an image [n · count, c · kernel, h, w] for each depth of the result.

    The planes of a channel are neighbours, so groups of channels stay together.
    """
    x = str(op.inputs[0])
    channels, depth, *image = require_fixed_shape(g, op, x, range(1, 5))[1:]
    before, after = options["padding"][0], options["padding"][3]
    stride, dilation = options["stride"][0], options["dilation"][0]
    reach = (kernel - 1) * dilation + 1
    if reach > depth + before + after:
        raise op.error(
            f"has a window of {reach} over {depth} elements with pads {before} and "
            f"{after}",
            "Use a smaller window",
        )
    if before or after:
        widths = ((0, 0), (0, 0), (before, after), (0, 0), (0, 0))
        x = g.step(op, "padded", md.pad, x, pad_width=widths)
    count = (depth + before + after - reach) // stride + 1
    places = np.arange(count)[:, None] * stride + np.arange(kernel) * dilation
    at = g.new_constant(op, "places", places.reshape(-1))
    x = g.step(op, "taken", md.take, x, at, axis=2)
    shape = (-1, channels, count, kernel, *image)
    x = g.step(op, "windows", md.reshape, x, shape=shape)
    x = g.step(op, "turned", md.permute_dims, x, axes=(0, 2, 1, 3, 4, 5))
    shape = (-1, channels * kernel, *image)
    return g.step(op, "images", md.reshape, x, shape=shape), count
