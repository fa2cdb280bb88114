"""Readers of convolutions, pools and resizing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.quant.model.onnx.axes import (
    LARGEST,
    normalize_axes,
    require_between,
    require_count,
)
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.pools import Window, pool_by_definition
from mdtensor.quant.model.onnx.operators.resample import (
    fill_outside,
    outside,
    resample,
    resampling_of,
)
from mdtensor.quant.model.onnx.operators.table import reads, require_fixed_shape
from mdtensor.quant.model.onnx.operators.volumes import FROM_PLANES, convolve_volume

#: Operations by the number of axes that the window slides over.
CONVOLUTIONS: dict[int, Any] = {1: md.conv1d, 2: md.conv2d}
MAXIMA: dict[int, Any] = {1: md.max_pool1d, 2: md.max_pool2d}
MEANS: dict[int, Any] = {1: md.avg_pool1d, 2: md.avg_pool2d}


@reads("Conv")
def conv(g: Builder, op: Operator) -> None:
    x, w, b = op.inputs[0], op.inputs[1], op.input(2)
    axes = require_window_axes(op, g.shape(w)[2:], (*CONVOLUTIONS, 3))
    options = conv_options(g, op, w)
    if axes == 3:
        planes = convolve_volume(g, op, options)
        g.call(op, md.permute_dims, planes, axes=FROM_PLANES)
    else:
        g.call(op, CONVOLUTIONS[axes], x, w, b, **options)


def conv_options(g: Builder, op: Operator, w: Any) -> dict[str, Any]:
    """Return the options of a convolution with the weights called `w`."""
    kernel = kernel_of(g, op, w)
    stride, dilation = (per_axis(op, name, kernel) for name in ("strides", "dilations"))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    return {
        "stride": _scalar_or_pair(stride),
        "padding": _padding(g, op, reach, stride),
        "dilation": _scalar_or_pair(dilation),
        "groups": op.get("group", 1),
    }


def kernel_of(g: Builder, op: Operator, w: Any) -> tuple[int, ...]:
    """Return the window of the weights called `w`.

    Raises:
        ModelError: the attribute kernel_shape differs from the shape of the weights.
    """
    kernel = g.shape(w)[2:]
    stated = tuple(op.get("kernel_shape", kernel))
    if stated != kernel:
        raise op.error(
            f"has kernel_shape={stated} and weights of shape {g.shape(w)}",
            "Export it again",
        )
    return kernel


def per_axis(
    op: Operator, name: str, kernel: tuple[int, ...], default: int = 1
) -> tuple[int, ...]:
    """Return an attribute with one number for each axis of the window.

    Raises:
        ModelError: it has more or fewer numbers, or one below the default.
    """
    given = tuple(op.get(name, (default,) * len(kernel)))
    require_count(op, given, len(kernel), name)
    for number in given:
        require_between(op, number, default, LARGEST, name)
    return given


def pads_of(op: Operator, axes: int) -> tuple[int, ...]:
    """Return the attribute pads: those before, then those after each axis.

    Raises:
        ModelError: there are more or fewer, or the attribute auto_pad wants others.
    """
    pads = tuple(op.get("pads", (0, 0) * axes))
    require_count(op, pads, 2 * axes, "pads")
    # Peers disagree which of the two counts.
    if any(pads) and (kind := op.get("auto_pad", "NOTSET")) != "NOTSET":
        problem = f"has pads={pads} and auto_pad={kind}"
        raise op.error(problem, "Give it one of the two attributes")
    return pads


def require_window_axes(op: Operator, kernel: Any, known: Any) -> int:
    """Return how many axes the window slides over; raise if it is not `known`."""
    size = len(tuple(kernel))
    if size not in known:
        listed = " and ".join(map(str, known))
        raise op.error(f"slides over {size} axes", f"Supported are {listed}")
    return size


def _scalar_or_pair(sizes: tuple[int, ...]) -> Any:
    """Return a number for one axis, a pair for two."""
    return sizes if len(sizes) > 1 else sizes[0]


def _padding(
    g: Builder, op: Operator, reach: Any, stride: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the padding (top, left, bottom, right); (before, after) for one axis."""
    kind = op.get("auto_pad", "NOTSET")
    op.require("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    pads = pads_of(op, len(stride))
    if kind in ("NOTSET", "VALID"):
        return pads
    sizes = g.shape(op.inputs[0])[2:]
    require_count(op, sizes, len(stride), "the sizes of its images")
    if min(sizes) < 0:
        raise op.size_error(f"has auto_pad={kind} on a dynamic size")
    # SAME: the result has size n / stride, rounded up.
    total = [
        max((-(-n // s) - 1) * s + r - n, 0)
        for n, s, r in zip(sizes, stride, reach, strict=True)
    ]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    before, after = (less, more) if kind == "SAME_UPPER" else (more, less)
    return (*before, *after)


@reads("MaxPool")
def max_pool(g: Builder, op: Operator) -> None:
    _pool(g, op, MAXIMA)


@reads("AveragePool")
def average_pool(g: Builder, op: Operator) -> None:
    included = bool(op.get("count_include_pad", 0))
    _pool(g, op, MEANS, count_include_pad=included)


@reads("LpPool")
def norm_pool(g: Builder, op: Operator) -> None:
    _pool(g, op, {})


def _pool(g: Builder, op: Operator, operations: dict[int, Any], **options: Any) -> None:
    """Read a pool with the operation for its number of axes."""
    kernel = tuple(op.get("kernel_shape", ()))
    per_axis(op, "kernel_shape", kernel)
    stride = per_axis(op, "strides", kernel)
    dilation = per_axis(op, "dilations", kernel)
    has_places = len(op.outputs) > 1 and op.outputs[1]
    given = len(g.shape(op.inputs[0])) - 2
    if len(kernel) != given:
        raise op.error(
            f"slides over {len(kernel)} axes, and its input has {given} after the "
            "channels",
            "Export it again",
        )
    if len(kernel) not in operations or set(dilation) != {1} or has_places:
        reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
        pads = _padding(g, op, reach, stride)
        count, sizes = len(kernel), require_fixed_sizes(g, op)
        mode = bool(op.get("ceil_mode", 0))
        ends = pads[:count], pads[count:]
        window = Window(sizes, kernel, stride, dilation, *ends, mode)
        window.require_elements(op)
        pool_by_definition(g, op, window)
        return
    operation = operations[len(kernel)]
    g.call(
        op,
        operation,
        op.inputs[0],
        kernel_size=_scalar_or_pair(kernel),
        stride=_scalar_or_pair(stride),
        padding=_padding(g, op, kernel, stride),
        ceil_mode=bool(op.get("ceil_mode", 0)),
        **options,
    )


def require_fixed_sizes(g: Builder, op: Operator) -> tuple[int, ...]:
    """Return the sizes of the axes that a window slides over.

    Raises:
        ModelError: a size is dynamic.
    """
    sizes = g.shape(op.inputs[0])[2:]
    if min(sizes, default=0) < 0:
        raise op.size_error("slides over a dynamic size")
    return sizes


@reads("GlobalMaxPool")
def global_max_pool(g: Builder, op: Operator) -> None:
    axes = tuple(range(2, len(g.shape(op.inputs[0]))))
    g.call(op, md.max, op.inputs[0], axis=axes, keepdims=True)


@reads("GlobalAveragePool")
def global_average_pool(g: Builder, op: Operator) -> None:
    x, ndim = op.inputs[0], len(g.shape(op.inputs[0]))
    if ndim == 4:
        g.call(op, md.global_avg_pool2d, x)
    else:
        g.call(op, md.mean, x, axis=tuple(range(2, ndim)), keepdims=True)


# Resizing of images.
#
# With mode nearest, `take` selects the nearest old element along each axis, for any
# coordinate transformation; elements and codes stay as they are. With the other modes,
# `interpolate` supports images with half_pixel and align_corners; `resample` supports
# everything else, one axis after the other.

# Fractions, because float coordinates would round ties to either side.
HALF = Fraction(1, 2)
MODES = {"linear": "bilinear", "cubic": "bicubic"}


@dataclass(frozen=True)
class Axis:
    """An axis that is resized: old size, new size, and the scale between them."""

    old: int
    new: int
    scale: Fraction

    def half_pixel(self, i: int) -> Fraction:
        """Return the old coordinate of new index `i`, from the centres of pixels."""
        return (i + HALF) / self.scale - HALF

    def pytorch_half_pixel(self, i: int) -> Fraction:
        """Return the same as `half_pixel`, but 0 for an axis of new size 1."""
        return self.half_pixel(i) if self.new > 1 else Fraction(0)

    def align_corners(self, i: int) -> Fraction:
        """Return the old coordinate if the first and the last pixels coincide."""
        return Fraction(i * (self.old - 1), max(self.new - 1, 1))

    def asymmetric(self, i: int) -> Fraction:
        """Return the old coordinate if the edges before the first pixels coincide."""
        return i / self.scale

    def half_pixel_symmetric(self, i: int) -> Fraction:
        """Return the old coordinate if the centres of both images coincide."""
        lost = self.old - self.new / self.scale
        return lost / 2 + self.half_pixel(i)


#: The old coordinate of new index i, by coordinate_transformation_mode.
Place = Callable[[Axis, int], Fraction]
PLACES: Mapping[str, Place] = {
    "half_pixel": Axis.half_pixel,
    "pytorch_half_pixel": Axis.pytorch_half_pixel,
    "align_corners": Axis.align_corners,
    "asymmetric": Axis.asymmetric,
    "half_pixel_symmetric": Axis.half_pixel_symmetric,
}
#: Rounding of an old coordinate to an index, by nearest_mode: added first, then
#: rounded up instead of down.
NEAREST: Mapping[str, tuple[Fraction, bool]] = {
    "round_prefer_floor": (-HALF, True),
    "round_prefer_ceil": (HALF, False),
    "floor": (Fraction(0), False),
    "ceil": (Fraction(0), True),
}


@reads("Resize")
def resize(g: Builder, op: Operator) -> None:
    """Read Resize."""
    if op.opset < 11:
        upsample(g, op)
        return
    kind = op.get("coordinate_transformation_mode", "half_pixel")
    op.require("coordinate_transformation_mode", *PLACES, CROP)
    op.require("nearest_mode", *NEAREST)
    op.require("mode", "nearest", *MODES)
    axes, mode = _axes(g, op), op.get("mode", "nearest")
    if kind == CROP:
        _crop_and_resize(g, op, axes)
        return
    is_whole = all(axis.new == axis.old * axis.scale for axis in axes.values())
    if kind == "align_corners" and not is_whole:
        raise op.error(
            "aligns the corners of a size that is not an integer",
            "Export it with sizes instead of scales",
        )
    if mode == "nearest":
        rounding = op.get("nearest_mode", "round_prefer_floor")
        _take(g, op, axes, PLACES[kind], lambda axis: rounding)
    else:
        _interpolate(g, op, axes, MODES[mode], PLACES[kind])


@reads("Upsample")
def upsample(g: Builder, op: Operator) -> None:
    """Read Upsample, and Resize before operator set 11."""
    op.require("mode", "nearest")
    scales = op.get("scales")
    if scales is None:
        scales = g.require_array(op, 1, "the scales").reshape(-1).tolist()
    shape = g.shape(op.inputs[0])
    axes = _axes_of_scales(op, shape, range(len(shape)), scales)
    _take(g, op, axes, Axis.asymmetric, lambda axis: _rounding_before_11(op, axis))


def _rounding_before_11(op: Operator, axis: Axis) -> str:
    """Return the nearest_mode before that attribute existed.

    Resize rounds up where the axis shrinks, otherwise down.

    Source: ONNX's test_resize_downsample_nearest of opset 10; ONNX Runtime.
    """
    return "ceil" if op.kind == "Resize" and axis.scale < 1 else "floor"


def _axes(g: Builder, op: Operator) -> dict[int, Axis]:
    """Return the old size, new size and scale of each axis that Resize names.

    Without the attribute axes, these are all axes.
    """
    shape = g.shape(op.inputs[0])
    named = normalize_axes(op, op.get("axes", range(len(shape))), len(shape))
    scales = (
        [] if op.input(2) is None else g.require_array(op, 2, "the scales").tolist()
    )
    if scales:
        return _axes_of_scales(op, shape, named, scales)
    require_fixed_shape(g, op, op.inputs[0], named)
    sizes = g.integers(op, 3, "the sizes")
    require_count(op, sizes, len(named), "sizes")
    for axis, n in zip(named, sizes, strict=True):
        require_between(op, n, 0, LARGEST, "a size")
        require_between(op, shape[axis], 1, LARGEST, "an old size")
    pairs = [
        (axis, Fraction(n, shape[axis])) for axis, n in zip(named, sizes, strict=True)
    ]
    op.require("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    policy = op.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return {a: Axis(shape[a], int(s * shape[a]), s) for a, s in pairs}
    bound = min if policy == "not_larger" else max
    scale = bound(s for _, s in pairs)
    return {a: Axis(shape[a], floor(scale * shape[a] + HALF), scale) for a in named}


def _axes_of_scales(
    op: Operator, shape: tuple[int, ...], axes: Any, scales: Any
) -> dict[int, Axis]:
    """Return the axes with the sizes that the scales give.

    An axis of dynamic size must keep its size, and is left out.
    """
    require_count(op, scales, len(axes), "scales")
    found = {}
    for axis, given in zip(axes, scales, strict=True):
        # NaN fails too; a scale of 0 would be a division by 0.
        if not 0 < given < np.inf:
            raise op.error(f"has a scale of {given}", "Use positive finite scales")
        is_cut = op.get("coordinate_transformation_mode", "") == CROP
        if shape[axis] < 0 and given == 1 and not is_cut:
            continue
        if shape[axis] < 0:
            raise op.size_error("resizes an axis of dynamic size")
        scale = Fraction(given)
        new = floor(shape[axis] * scale)
        require_between(op, new, 0, LARGEST, "a size")
        found[axis] = Axis(shape[axis], new, scale)
    return found


def nearest_places(axis: Axis, place: Place, rounding: str) -> npt.NDArray[np.int64]:
    """Return the old index for each new index of an axis, in exact arithmetic."""
    if not axis.new:
        return np.zeros(0, np.int64)
    # Old coordinates are linear in the new index: (first + step * i) / common.
    start, second = place(axis, 0), place(axis, 1)
    shift, is_up = NEAREST[rounding]
    common = lcm((start + shift).denominator, (second - start).denominator)
    first, step = int((start + shift) * common), int((second - start) * common)
    # Python integers where those of 64 bits would overflow.
    is_short = abs(first) + abs(step) * axis.new < 2**62 and common < 2**62
    indices = np.arange(axis.new, dtype=np.int64 if is_short else object)
    numerators = indices * step + first
    found = -(-numerators // common) if is_up else numerators // common
    places: npt.NDArray[np.int64] = np.clip(found, 0, axis.old - 1).astype(np.int64)
    return places


#: The elements that a place costs: as a Fraction it takes as much time and memory.
PLACE = 100
#: The coordinate transformation that reads only a region of the image.
CROP = "tf_crop_and_resize"


def _crop_and_resize(g: Builder, op: Operator, axes: dict[int, Axis]) -> None:
    """Read Resize of a region of the image; input 1 has its ends, as fractions."""
    roi = g.require_array(op, 1, "the region").astype(np.float64).reshape(-1).tolist()
    named = list(axes)
    regions = {
        number: (Fraction(roi[i]), Fraction(roi[i + len(named)]))
        for i, number in enumerate(named)
    }
    # Scales are of the region, sizes of the result.
    if g.array(op.input(2)) is not None and g.shape(op.input(2)) != (0,):
        for number, (first, last) in regions.items():
            axis = axes[number]
            size = floor(axis.old * (last - first) * axis.scale)
            axes[number] = Axis(axis.old, size, axis.scale)
    places = {}
    for number, (first, last) in regions.items():
        old, new = axes[number].old, axes[number].new
        each = (last - first) * (old - 1) / max(new - 1, 1)
        start = first * (old - 1) if new > 1 else (first + last) * (old - 1) / 2
        g.reserve(op, new, PLACE)
        places[number] = [start + i * each for i in range(new)]
    value = float(op.get("extrapolation_value", 0.0))
    shift, is_up = NEAREST[op.get("nearest_mode", "round_prefer_floor")]
    x = str(op.inputs[0])
    for number, found in places.items():
        old, scale = axes[number].old, axes[number].scale
        if op.get("mode", "nearest") == "nearest":
            to_integer = ceil if is_up else floor
            nearest = [to_integer(place + shift) for place in found]
            chosen = [min(max(index, 0), old - 1) for index in nearest]
            taps = np.array([chosen]), np.ones((1, len(chosen)))
        else:
            taps = resampling_of(op).taps(found, scale, old)
        x = resample(g, op, x, number, taps)
    for number, found in places.items():
        beyond = outside(found, axes[number].old)
        x = fill_outside(g, op, x, number, beyond, value)
    g.call(op, md.astype, x, g.specs[x].dtype)


def _resample(
    g: Builder,
    op: Operator,
    axes: dict[int, Axis],
    place: Callable[[Axis, int], Fraction],
) -> None:
    """Read Resize with mode linear or cubic along any axes, see `resample`."""
    x, how = str(op.inputs[0]), resampling_of(op)
    for number, axis in axes.items():
        g.reserve(op, axis.new, PLACE)
        places = [place(axis, i) for i in range(axis.new)]
        if places != [*range(axis.old)]:
            x = resample(g, op, x, number, how.taps(places, axis.scale, axis.old))
    g.call(op, md.astype, x, g.specs[x].dtype)


def _take(
    g: Builder,
    op: Operator,
    axes: dict[int, Axis],
    place: Place,
    rounding: Callable[[Axis], str],
) -> None:
    """Take the nearest elements along each axis that changes."""
    x: Any = op.inputs[0]
    for number, axis in axes.items():
        # An axis that stays is compared with its indices, too.
        g.reserve(op, axis.new)
        places = nearest_places(axis, place, rounding(axis))
        if axis.new != axis.old or (places != np.arange(axis.new)).any():
            at = g.new_constant(op, f"places{number}", places)
            x = g.step(op, f"axis{number}", md.take, x, at, axis=number)
    # `call` must write the output, also if all axes keep their size.
    g.call(op, md.astype, x, g.specs[x].dtype)


#: The attributes with which `interpolate` computes Resize.
PLAIN = {"antialias": 0, "exclude_outside": 0, "cubic_coeff_a": -0.75}


def _interpolate(
    g: Builder,
    op: Operator,
    axes: dict[int, Axis],
    mode: str,
    place: Callable[[Axis, int], Fraction],
) -> None:
    """Read Resize with mode linear or cubic."""
    kind = "coordinate_transformation_mode"
    shape = g.shape(op.inputs[0])
    # A scale of 1.3 keeps 3 pixels, but moves them.
    moving = {n: axis for n, axis in axes.items() if axis.scale != 1}
    sizes = [axis.new for axis in moving.values()]
    is_plain = all(op.get(name, usual) == usual for name, usual in PLAIN.items())
    is_plain &= op.get(kind, "half_pixel") in ("half_pixel", "align_corners") or (
        op.get(kind) == "pytorch_half_pixel" and 1 not in sizes
    )
    # Sizes that keep the aspect ratio are rounded; those of `interpolate` are cut off.
    is_plain &= all(x.new == floor(x.old * float(x.scale)) for x in moving.values())
    is_plain &= len(shape) == 4 and min(shape[2:]) >= 0
    # `interpolate` has no empty images; an aspect ratio may leave no pixel.
    is_plain &= 0 not in sizes
    if not is_plain or not moving.keys() <= {2, 3}:
        _resample(g, op, axes, place)
        return
    tall, wide = (moving.get(n, Axis(shape[n], shape[n], Fraction(1))) for n in (2, 3))
    options: dict[str, Any] = {"size": (tall.new, wide.new)}
    # Sizes alone would give another scale if the new size was rounded.
    if any(axis.new != axis.old * axis.scale for axis in (tall, wide)):
        options = {"scale_factor": (float(tall.scale), float(wide.scale))}
    aligned = op.get(kind) == "align_corners"
    g.call(
        op, md.interpolate, op.inputs[0], mode=mode, align_corners=aligned, **options
    )
