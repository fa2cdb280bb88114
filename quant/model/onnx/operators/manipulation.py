"""Readers of operators that rearrange, select, cast or create elements."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil, prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import MdtensorError
from mdtensor.quant.model.onnx.axes import (
    LARGEST,
    normalize_axes,
    normalize_axis,
    normalize_index,
    require_between,
    require_count,
    require_indices,
)
from mdtensor.quant.model.onnx.build import (
    Builder,
    Operator,
    element_type,
    is_dynamic,
)
from mdtensor.quant.model.onnx.operators.table import (
    as_matrix,
    axes_of,
    number,
    reads,
    require_fixed_shape,
)
from mdtensor.quant.model.onnx.schemas import check_target
from mdtensor.quant.model.onnx.sizes import checked_bounds, clamp_slice


@reads("Flatten")
def flatten(g: Builder, op: Operator) -> None:
    shape = g.shape(op.inputs[0])
    target = as_matrix(op, shape, op.get("axis", 1))
    g.call(op, md.reshape, op.inputs[0], shape=target)


@reads("Reshape")
def reshape(g: Builder, op: Operator) -> None:
    shape, target = g.shape(op.inputs[0]), _target_shape(g, op)
    if not op.get("allowzero", 0):
        target = _keep_sizes(shape, target)
    if target.count(-1) > 1:
        raise op.size_error("has more than one unknown size in its shape")
    g.call(op, md.reshape, op.inputs[0], shape=target)


def _keep_sizes(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """Replace each 0 of a target shape by the size of the same axis.

    If all dynamic sizes are kept that way, the fixed sizes determine the size of -1.
    """
    kept = [i for i, n in enumerate(target) if n == 0]
    found = tuple(shape[i] if n == 0 else n for i, n in enumerate(target))
    dynamic = [i for i, n in enumerate(shape) if n < 0]
    rest = prod(n for n in found if n >= 0)
    is_known = set(dynamic) <= set(kept) and target.count(-1) == 1 and rest > 0
    if not dynamic or not is_known:
        return found
    size, left = divmod(prod(n for n in shape if n >= 0), rest)
    # A shape that does not fit stays as it is, for the error of the operation.
    return (
        found
        if left
        else tuple(size if n == -1 else m for n, m in zip(target, found, strict=True))
    )


def _target_shape(g: Builder, op: Operator) -> tuple[int, ...]:
    """Return the target shape of Reshape, with -1 for a dynamic size."""
    sizes = g.sizes.get(str(op.input(1)))
    if sizes is None:
        return g.integers(op, 1, "the shape")
    return tuple(-1 if n is None else n for n in sizes.reshape(-1).tolist())


@reads("Transpose")
def transpose(g: Builder, op: Operator) -> None:
    rank = len(g.shape(op.inputs[0]))
    axes = op.get("perm") or tuple(range(rank))[::-1]
    require_count(op, axes, rank, "perm")
    # Of all axes in the standard, only these are not counted from the end.
    for axis in axes:
        require_between(op, axis, 0, rank - 1, "an axis of perm")
    axes = normalize_axes(op, axes, rank, "perm")
    g.call(op, md.permute_dims, op.inputs[0], axes=axes)


@reads("Concat")
def concat(g: Builder, op: Operator) -> None:
    axis = normalize_axis(op, op.get("axis", 1), len(g.shape(op.inputs[0])))
    g.call(op, md.concat, *op.inputs, axis=axis)


@reads("Squeeze")
def squeeze(g: Builder, op: Operator) -> None:
    axes = axes_of(g, op, 13)
    if axes is None:
        shape = g.shape(op.inputs[0])
        if min(shape, default=0) < 0:
            raise op.size_error(
                "does not have axes, and a dynamic size may be 1",
                ", or export it with axes",
            )
        axes = tuple(i for i, n in enumerate(shape) if n == 1)
    axes = normalize_axes(op, axes, len(g.shape(op.inputs[0])))
    g.call(op, md.squeeze, op.inputs[0], axis=axes)


@reads("Unsqueeze")
def unsqueeze(g: Builder, op: Operator) -> None:
    rank = len(g.shape(op.inputs[0]))
    axes = axes_of(g, op, 13) or ()
    # Axes count in the result; in ascending order each axis is final when it is added.
    final = sorted(normalize_axes(op, axes, rank + len(axes)))
    x: Any = op.inputs[0]
    if not final:
        identity(g, op)
        return
    for count, axis in enumerate(final[:-1]):
        x = g.step(op, f"axis{count}", md.expand_dims, x, axis=axis)
    g.call(op, md.expand_dims, x, axis=final[-1])


@reads("Pad")
def pad(g: Builder, op: Operator) -> None:
    mode, value = op.get("mode", "constant"), op.get("value", 0.0)
    if op.opset >= 11:
        value = number(g, op, 2, "the value") or 0
    x, widths = _crop(g, op, _widths(g, op))
    # UNets pad by the difference of two sizes, which is 0 for most images.
    if not any(map(any, widths)):
        g.alias(op, op.outputs[0], x)
        return
    grid = g.specs[x].qparams
    # The value that pads codes is a code, but `md.pad` takes the number it stands for.
    if grid is not None:
        value = float((int(value) - grid.zero) * grid.fraction)
    if mode == "constant":
        g.call(op, md.pad, x, pad_width=widths, value=value)
        return
    moved = [axis for axis, width in enumerate(widths) if any(width)]
    shape = require_fixed_shape(g, op, x, moved)
    op.require("mode", "constant", "edge", "reflect", "wrap")
    # The other modes repeat elements: NumPy pads the indices, `take` picks by them.
    for axis in moved:
        width = widths[axis]
        # As in ONNX Runtime and PyTorch, one reflection is all there is. An axis of
        # size 0 has nothing to repeat.
        if max(width) > 0 and (mode == "reflect" or shape[axis] == 0):
            what = f"a pad of axis {axis} in mode {mode}"
            require_between(op, max(width), 0, max(shape[axis] - 1, 0), what)
        g.reserve(op, shape[axis] + max(sum(width), 0))
        places = np.pad(np.arange(shape[axis]), width, mode)
        at = g.new_constant(op, f"places{axis}", places)
        x = g.step(op, f"axis{axis}", md.take, x, at, axis=axis)
    g.call(op, md.astype, x, g.specs[str(x)].dtype)


Widths = tuple[tuple[int, int], ...]


def _crop(g: Builder, op: Operator, widths: Widths) -> tuple[str, Widths]:
    """Remove the elements that negative widths of Pad remove.

    Returns:
        The name of the remaining value, and the widths that are still to be added.
    """
    x = str(op.inputs[0])
    if min(map(min, widths), default=0) >= 0:
        return x, widths
    for axis, (size, ends) in enumerate(zip(g.shape(x), widths, strict=True)):
        removed = -sum(min(n, 0) for n in ends)
        if 0 <= size < removed:
            raise op.error(
                f"removes {removed} elements of axis {axis}, which has {size}",
                "Use smaller pads",
            )
    key = tuple(slice(max(-a, 0), min(b, 0) or None) for a, b in widths)
    added = tuple((max(a, 0), max(b, 0)) for a, b in widths)
    return g.step(op, "cropped", md.getitem, x, key=key), added


def _widths(g: Builder, op: Operator) -> tuple[tuple[int, int], ...]:
    """Return the number of elements that Pad adds before and after each axis."""
    rank = len(g.shape(op.inputs[0]))
    if op.opset < 11:
        flat = op.get("pads", op.get("paddings"))
    else:
        flat = g.integers(op, 1, "pads")
    axes = g.integers(op, 3, "axes") if op.input(3) else tuple(range(rank))
    axes = normalize_axes(op, axes, rank)
    require_count(op, flat, 2 * len(axes), "pads")
    widths = [(0, 0)] * rank
    for axis, before, after in zip(
        axes, flat[: len(axes)], flat[len(axes) :], strict=True
    ):
        widths[axis] = (before, after)
    return tuple(widths)


@reads("Expand")
def expand(g: Builder, op: Operator) -> None:
    shape = require_fixed_shape(g, op, op.inputs[0])
    given = g.integers(op, 1, "the shape")
    for size in given:
        require_between(op, size, 0, LARGEST, "a size")
    target = md.broadcast_shapes(shape, given)
    g.call(op, md.broadcast_to, op.inputs[0], shape=target)


@reads("Tile")
def tile(g: Builder, op: Operator) -> None:
    counts = g.integers(op, 1, "the repetitions")
    require_count(op, counts, len(g.shape(op.inputs[0])), "repetitions")
    g.call(op, md.tile, op.inputs[0], counts)


@reads("Split")
def split(g: Builder, op: Operator) -> None:
    shape = g.shape(op.inputs[0])
    axis = normalize_axis(op, op.get("axis", 0), len(shape))
    if shape[axis] < 0:
        raise op.size_error("splits an axis of dynamic size")
    ends = np.cumsum([0, *_parts(g, op, shape[axis])]).tolist()
    for index, (start, end) in enumerate(pairwise(ends)):
        key = (slice(None),) * axis + (slice(start, end),)
        if index == 0:
            g.call(op, md.getitem, op.inputs[0], key=key)
        else:
            g.call_output(op, index, md.getitem, op.inputs[0], key=key)


def _parts(g: Builder, op: Operator, size: int) -> tuple[int, ...]:
    """Return the sizes of the parts of Split; the last part may be smaller.

    Raises:
        ModelError: the number of parts is not the number of outputs, or the sizes do
            not add up to `size`.
    """
    count = len(op.outputs)
    op.require("num_outputs", count)
    if op.opset < 13 and "split" in op.attributes:
        parts = tuple(op.get("split"))
    elif op.opset >= 13 and op.input(1):
        parts = g.integers(op, 1, "the sizes")
    else:
        part = -(-size // count)
        if op.opset < 18 and size % count:
            raise op.error(
                f"splits an axis of size {size} into {count} equal parts",
                "Use operator set 18, or give the sizes",
            )
        parts = (part,) * (count - 1) + (size - part * (count - 1),)
    require_count(op, parts, count, "sizes of its outputs")
    if min(parts) < 0 or sum(parts) != size:
        listed = ", ".join(map(str, parts))
        raise op.error(
            f"splits an axis of size {size} into parts of {listed}",
            f"Use sizes of 0 or more that add up to {size}",
        )
    return parts


@reads("DepthToSpace")
def depth_to_space(g: Builder, op: Operator) -> None:
    b = _block_size(op)
    if op.get("mode", "DCR") == "CRD":
        g.call(op, md.pixel_shuffle, op.inputs[0], upscale_factor=b)
        return
    n, c, h, w = _image_shape(g, op)
    if c % b**2:
        raise op.error(
            f"has {c} channels and blocksize={b}", f"Use a multiple of {b**2}"
        )
    split, axes = (n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2)
    _regroup(g, op, split, axes, (n, c // b**2, h * b, w * b))


@reads("SpaceToDepth")
def space_to_depth(g: Builder, op: Operator) -> None:
    n, c, h, w = _image_shape(g, op)
    b = _block_size(op)
    if h % b or w % b:
        raise op.error(f"has images of {h} by {w} and blocksize={b}", "Use multiples")
    is_dcr = op.get("mode", "DCR") == "DCR"
    axes = (0, 3, 5, 1, 2, 4) if is_dcr else (0, 1, 3, 5, 2, 4)
    split = (n, c, h // b, b, w // b, b)
    _regroup(g, op, split, axes, (n, c * b**2, h // b, w // b))


def _block_size(op: Operator) -> int:
    """Return the attribute blocksize, and require a known mode."""
    op.require("mode", "DCR", "CRD")
    require_between(op, op.get("blocksize"), 1, 2**31 - 1, "blocksize")
    return int(op.get("blocksize"))


def _image_shape(g: Builder, op: Operator) -> tuple[int, ...]:
    """Return the four sizes of the first input."""
    ndim = len(g.shape(op.inputs[0]))
    if ndim != 4:
        raise op.error(f"reads a value of rank {ndim}", "Use four axes, NCHW")
    # A reshape finds one open size, here that of the batch.
    return require_fixed_shape(g, op, op.inputs[0], range(1, 4))


def _regroup(
    g: Builder, op: Operator, split: Any, axes: tuple[int, ...], joined: Any
) -> None:
    """Split axes into parts, reorder the parts, and join them again."""
    parts = g.step(op, "parts", md.reshape, op.inputs[0], shape=split)
    moved = g.step(op, "moved", md.permute_dims, parts, axes=axes)
    g.call(op, md.reshape, moved, shape=joined)


@reads("Trilu")
def trilu(g: Builder, op: Operator) -> None:
    k = int(number(g, op, 1, "the diagonal") or 0)
    g.call(op, md.triu if op.get("upper", 1) else md.tril, op.inputs[0], k=k)


# Selection of elements.

#: The smallest end that files write to mean the end of an axis of any size.
FAR = 2**31 - 1


@reads("Slice")
def slices(g: Builder, op: Operator) -> None:
    shape = g.shape(op.inputs[0])
    starts, ends, axes, steps = _bounds(g, op, len(shape))
    key = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # A full slice is the only one that does not need the size of the axis.
        if shape[axis] < 0 and (start, step) == (0, 1) and end >= FAR:
            continue
        if shape[axis] < 0:
            raise op.size_error("cuts an axis of dynamic size")
        key[axis] = clamp_slice(start, end, step, shape[axis])
    g.call(op, md.getitem, op.inputs[0], key=tuple(key))


def _bounds(g: Builder, op: Operator, rank: int) -> tuple[Any, Any, Any, Any]:
    """Return (starts, ends, axes, steps) of Slice."""
    if op.opset < 10:
        starts, ends, steps = op.get("starts"), op.get("ends"), None
        axes = op.get("axes")
    else:
        starts, ends = g.integers(op, 1, "starts"), g.integers(op, 2, "ends")
        axes = g.integers(op, 3, "axes") if op.input(3) else None
        steps = g.integers(op, 4, "steps") if op.input(4) else None
    return checked_bounds(op, rank, starts, ends, axes, steps)


# `take` and `take_along_axis` count negative indices from the end as ONNX does, and
# raise for an index outside the axis, at run time too.
@reads("Gather")
def gather(g: Builder, op: Operator) -> None:
    """Read Gather; a single known index is basic indexing, which returns a view."""
    x, index = op.inputs[0], op.inputs[1]
    shape = g.shape(x)
    axis = normalize_axis(op, op.get("axis", 0), len(shape))
    if g.array(index) is not None and not g.shape(index):
        place = int(g.require_array(op, 1, "the index"))
        if shape[axis] >= 0:
            place = normalize_index(op, place, shape[axis])
        g.call(op, md.getitem, x, key=(slice(None),) * axis + (place,))
        return
    _check_indices(g, op, shape[axis])
    if len(g.shape(index)) == 1:
        g.call(op, md.take, x, index, axis=axis)
        return
    chosen = require_fixed_shape(g, op, index)
    flat = g.step(op, "flat", md.reshape, index, shape=(-1,))
    taken = g.step(op, "taken", md.take, x, flat, axis=axis)
    target = shape[:axis] + chosen + shape[axis + 1 :]
    g.call(op, md.reshape, taken, shape=target)


def _check_indices(g: Builder, op: Operator, size: int) -> None:
    """Raise for an index of input 1 outside an axis, if the file fixes both."""
    known = g.array(op.inputs[1])
    if known is not None and not is_dynamic(known) and size >= 0:
        require_indices(op, known, size)


@reads("GatherElements")
def gather_elements(g: Builder, op: Operator) -> None:
    x, index = op.inputs[0], op.inputs[1]
    shape, size = g.shape(x), g.shape(index)
    axis = normalize_axis(op, op.get("axis", 0), len(shape))
    require_count(op, size, len(shape), "the shape of its indices")
    _check_indices(g, op, shape[axis])
    # The indices may cover only the first elements of the other axes. Along an axis
    # of dynamic size they must cover all of them.
    kept = [slice(0, n) if n >= 0 else slice(None) for n in size]
    kept[axis] = slice(None)
    part = g.step(op, "part", md.getitem, x, key=tuple(kept))
    g.call(op, md.take_along_axis, part, index, axis=axis)


@reads("OneHot")
def one_hot(g: Builder, op: Operator) -> None:
    """Read OneHot: `on` at the position of the index, `off` elsewhere.

    An index out of range gives `off` everywhere.
    """
    depth = int(g.require_array(op, 1, "the depth").reshape(-1)[0])
    if g.shape(op.inputs[2]) != (2,):
        problem = f"has values of shape {g.shape(op.inputs[2])}"
        raise op.error(problem, "Give it two, off and on")
    off, on = (
        g.step(op, name, md.getitem, op.inputs[2], key=place)
        for place, name in enumerate(("off", "on"))
    )
    ndim = len(g.shape(op.inputs[0])) + 1
    axis = normalize_axis(op, op.get("axis", -1), ndim)
    index = g.step(op, "whole", md.astype, op.inputs[0], md.int64, casting="saturate")
    is_behind = g.step(op, "is_behind", md.less, index, 0)
    shifted = g.step(op, "shifted", md.add, index, depth)
    index = g.step(op, "front", md.where, is_behind, shifted, index)
    index = g.step(op, "expanded", md.expand_dims, index, axis=axis)
    shape = [-1 if i == axis else 1 for i in range(ndim)]
    g.reserve(op, depth)
    places = g.new_constant(op, "places", np.arange(depth).reshape(shape))
    g.call(op, md.where, g.step(op, "is_there", md.equal, index, places), on, off)


@reads("TopK")
def top_k(g: Builder, op: Operator) -> None:
    """Read TopK: the k largest or smallest in order; of equal elements the first."""
    x = op.inputs[0]
    k = _k_of_input(g, op) if op.opset >= 10 else op.get("k")
    shape = g.shape(x)
    axis = normalize_axis(op, op.get("axis", -1), len(shape))
    # `take` of more places than there are would give fewer, so the size must be known.
    if shape[axis] < 0:
        raise op.size_error("selects from an axis of dynamic size")
    require_between(op, k, 0, shape[axis], "k")
    is_descending = bool(op.get("largest", 1))
    order = g.step(op, "order", md.argsort, x, axis=axis, descending=is_descending)
    key = (slice(None),) * axis + (slice(0, k),)
    places = g.step(op, "places", md.getitem, order, key=key)
    g.call(op, md.take_along_axis, x, places, axis=axis)
    g.call_output(op, 1, md.astype, places, md.int64)


def _k_of_input(g: Builder, op: Operator) -> int:
    found = g.require_array(op, 1, "k")
    if found.shape != (1,):
        raise op.error(f"has k of shape {found.shape}", "Use the shape (1,)")
    return int(found[0])


# Casts, constants, and operators that return their input.


@reads("Cast", "CastLike")
def cast(g: Builder, op: Operator) -> None:
    """Read Cast.

    An integer cast to another integer type keeps its low bits. A number too large for a
    floating-point type becomes infinity. A float outside the range of an integer type
    becomes the nearest integer in that range.
    """
    dtype = element_type(target_code(g, op), str(op))
    before = g.specs[str(op.inputs[0])].dtype
    wraps = dtype.is_floating or (dtype.is_integer and before.is_integer)
    casting = "wrap" if wraps else "saturate"
    g.call(op, md.astype, op.inputs[0], dtype, casting=casting)


def target_code(g: Builder, op: Operator) -> int:
    """Return the number of the target element type of Cast or CastLike."""
    if op.kind != "Cast":
        return g.code(op.inputs[1])
    code = int(op.get("to"))
    check_target(op, code)
    return code


@reads("Identity")
def identity(g: Builder, op: Operator) -> None:
    if op.inputs[0] in g.lists:
        g.alias(op, op.outputs[0], str(op.inputs[0]))
        return
    g.call(op, md.astype, op.inputs[0], g.specs[str(op.inputs[0])].dtype)


@reads("Dropout")
def dropout(g: Builder, op: Operator) -> None:
    if op.input(2) and bool(g.require_array(op, 2, "training_mode")):
        raise op.error("is in training mode", "Export the model for inference")
    ratio = op.get("ratio", 0.5) if op.opset < 12 else number(g, op, 1, "the ratio")
    # Inference does not use the ratio, but ONNX allows only these.
    if ratio is not None and not 0 <= ratio < 1:
        raise op.error(f"has ratio={ratio}", "Use a ratio from 0 to below 1")
    identity(g, op)
    x = op.inputs[0]
    g.call_output(op, 1, md.full_like, x, fill_value=True, dtype=md.bool)


@reads("Constant")
def constant(g: Builder, op: Operator) -> None:
    name, value = next(iter(op.attributes.items()), ("", None))
    kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32}
    kinds |= {"value_int": np.int64, "value_ints": np.int64}
    if name != "value" and name not in kinds:
        raise op.error(
            f"has {name or 'an empty value'}", "Use a tensor, a number or numbers"
        )
    _add_constant(g, op, np.asarray(value, kinds.get(name)))


def _add_constant(g: Builder, op: Operator, array: Any) -> None:
    """Add the result of an operator that is known while reading."""
    try:
        g.enter(op.outputs[0], array)
    except (MdtensorError, TypeError) as error:
        problem = "contains elements that are not supported"
        raise op.error(f"{problem}: {getattr(error, 'problem', error)}") from None


@reads("ConstantOfShape")
def constant_of_shape(g: Builder, op: Operator) -> None:
    value = op.get("value", np.zeros(1, np.float32))
    shape = g.integers(op, 0, "the shape")
    g.reserve(op, *shape)
    require_count(op, value.reshape(-1), 1, "value")
    _add_constant(g, op, np.full(shape, value.reshape(-1)[0], value.dtype))


@reads("Range")
def range_of(g: Builder, op: Operator) -> None:
    bounds = [g.require_array(op, i, "a bound").reshape(()) for i in range(3)]

    numbers = [b.astype(np.float64) if b.dtype.kind == "V" else b for b in bounds]
    _reserve_range(g, op, *(n.item() for n in numbers))
    dtype = g.specs[str(op.inputs[0])].dtype
    g.constant(op.outputs[0], md.arange(*(n.item() for n in numbers), dtype=dtype))


def _reserve_range(g: Builder, op: Operator, start: Any, end: Any, step: Any) -> None:
    """Count the elements of Range before they are made."""
    # Comparisons with NaN are false.
    if not abs(start) + abs(end) + abs(step) < np.inf or step == 0:
        raise op.error(
            f"counts from {start} to {end} by {step}",
            "Use finite bounds and a step other than 0",
        )
    # Fractions: the difference of two numbers of 64 bits may be infinite.
    count = (Fraction(end) - Fraction(start)) / Fraction(step)
    g.reserve(op, max(ceil(count), 0))


@reads("EyeLike")
def eye_like(g: Builder, op: Operator) -> None:
    shape = require_fixed_shape(g, op, op.inputs[0])
    require_count(op, shape, 2, "the shape of its input")
    rows, columns = shape
    dtype = g.specs[str(op.inputs[0])].dtype
    if op.get("dtype"):
        dtype = element_type(op.get("dtype"), str(op))
    g.reserve(op, rows, columns)
    g.constant(op.outputs[0], md.eye(rows, columns, k=op.get("k", 0), dtype=dtype))


@reads("Size")
def size(g: Builder, op: Operator) -> None:
    count = prod(require_fixed_shape(g, op, op.inputs[0]))
    g.constant(op.outputs[0], md.asarray(np.array(count, np.int64)))
