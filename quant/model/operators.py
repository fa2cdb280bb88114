"""The operators of ONNX as operations: one small function for each.

Where the meaning changed between versions of the operator set, the function asks for
the version. What is not supported is refused by name, never approximated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import MdtensorError
from mdtensor.quant.model.build import Builder, Operator, element_type
from mdtensor.quant.model.sizes import cut

Reader = Callable[[Builder, Operator], None]
READERS: dict[str, Reader] = {}


def reads(*kinds: str) -> Callable[[Reader], Reader]:
    """Enter a function in the table of operators."""

    def enter(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys(kinds, reader))
        return reader

    return enter


#: Operators that are an operation of ours as they stand.
SAME: dict[str, Any] = {
    "Add": md.add,
    "Div": md.div,
    "Exp": md.exp,
    "GlobalAveragePool": md.global_avg_pool2d,
    "HardSwish": md.hardswish,
    "MatMul": md.matmul,
    "Mul": md.mul,
    "Neg": md.neg,
    "Relu": md.relu,
    "Sigmoid": md.sigmoid,
    "Sub": md.sub,
    "Tanh": md.tanh,
}


@reads(*SAME)
def same(g: Builder, op: Operator) -> None:
    g.call(op, SAME[op.kind], *op.inputs)


@reads("Conv")
def conv(g: Builder, op: Operator) -> None:
    x, w, b = op.inputs[0], op.inputs[1], op.input(2)
    kernel = g.shape(w)[2:]
    _two_dimensional(op, kernel)
    stride, dilation = _pair(op, "strides"), _pair(op, "dilations")
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    g.call(
        op,
        md.conv2d,
        x,
        w,
        b,
        stride=stride,
        padding=_padding(g, op, reach, stride),
        dilation=dilation,
        groups=op.get("group", 1),
    )


def _two_dimensional(op: Operator, kernel: Iterable[int]) -> None:
    size = len(tuple(kernel))
    if size != 2:
        raise op.refusal(f"slides over {size} axes", "Supported are 2")


def _pair(op: Operator, attribute: str) -> tuple[int, int]:
    first, second = op.get(attribute, (1, 1))
    return first, second


def _padding(
    g: Builder, op: Operator, reach: Any, stride: tuple[int, int]
) -> tuple[int, ...]:
    """(top, left, bottom, right), which is also ONNX's order."""
    kind = op.get("auto_pad", "NOTSET")
    op.require("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if kind == "NOTSET":
        return tuple(op.get("pads", (0, 0, 0, 0)))
    if kind == "VALID":
        return (0, 0, 0, 0)
    sizes = g.shape(op.inputs[0])[2:]
    if min(sizes) < 0:
        raise op.refusal(f"has auto_pad={kind} on a dynamic size", "Give input_shapes")
    total = [
        max((-(-n // s) - 1) * s + r - n, 0)
        for n, s, r in zip(sizes, stride, reach, strict=True)
    ]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    before, after = (less, more) if kind == "SAME_UPPER" else (more, less)
    return (*before, *after)


@reads("MaxPool")
def max_pool(g: Builder, op: Operator) -> None:
    op.require("storage_order", 0)
    _pool(g, op, md.max_pool2d)


@reads("AveragePool")
def average_pool(g: Builder, op: Operator) -> None:
    included = bool(op.get("count_include_pad", 0))
    _pool(g, op, md.avg_pool2d, count_include_pad=included)


def _pool(g: Builder, op: Operator, operation: Any, **options: Any) -> None:
    kernel = tuple(op.get("kernel_shape", ()))
    _two_dimensional(op, kernel)
    op.require("dilations", (1, 1))
    stride = _pair(op, "strides")
    g.call(
        op,
        operation,
        op.inputs[0],
        kernel_size=kernel,
        stride=stride,
        padding=_padding(g, op, kernel, stride),
        ceil_mode=bool(op.get("ceil_mode", 0)),
        **options,
    )


@reads("Gemm")
def gemm(g: Builder, op: Operator) -> None:
    """alpha · A' · B' + beta · C; ours is x · wᵀ + b with a bias of one axis."""
    op.require("transA", 0)
    x, w, b = op.inputs[0], op.inputs[1], op.input(2)
    if not op.get("transB", 0):
        w = g.step(op, "w", md.permute_dims, w, axes=(1, 0))
    w = _scaled(g, op, w, "alpha")
    if b is None:
        g.call(op, md.linear, x, w)
        return
    b = _scaled(g, op, b, "beta")
    rows = g.shape(w)[0]
    if g.shape(b) == (rows,):
        g.call(op, md.linear, x, w, b)
    elif g.shape(b) == (1, rows):
        g.call(op, md.linear, x, w, g.step(op, "b", md.reshape, b, shape=(rows,)))
    else:
        g.call(op, md.add, g.step(op, "product", md.linear, x, w), b)


def _scaled(g: Builder, op: Operator, value: Any, attribute: str) -> Any:
    factor = op.get(attribute, 1.0)
    if factor == 1.0:
        return value
    storage = g.specs[value].dtype.storage
    constant = g.new_constant(op, attribute, np.array(factor, storage))
    return g.step(op, f"{attribute}.{value}", md.mul, value, constant)


@reads("Clip")
def clip(g: Builder, op: Operator) -> None:
    if op.opset < 11:
        low, high = op.get("min"), op.get("max")
    else:
        low, high = _number(g, op, 1, "min"), _number(g, op, 2, "max")
    if None not in (low, high):
        low = min(low, high)  # where they cross, everything becomes max
    g.call(op, md.clip, op.inputs[0], min=low, max=high)


def _number(g: Builder, op: Operator, index: int, what: str) -> Any:
    if op.input(index) is None:
        return None
    return g.known(op, index, what).reshape(()).item()


@reads("HardSigmoid")
def hard_sigmoid(g: Builder, op: Operator) -> None:
    alpha, beta = op.get("alpha", 0.2), op.get("beta", 0.5)
    g.call(op, md.hardsigmoid, op.inputs[0], alpha=alpha, beta=beta)


@reads("Softmax")
def softmax(g: Builder, op: Operator) -> None:
    x = op.inputs[0]
    shape = g.shape(x)
    axis = op.get("axis", 1 if op.opset < 13 else -1)
    if op.opset >= 13 or axis in (-1, len(shape) - 1):
        g.call(op, md.softmax, x, axis=axis)
        return
    # Before opset 13 all axes from `axis` on are one distribution.
    flat = g.step(op, "flat", md.reshape, x, shape=_matrix(op, shape, axis))
    sums = g.step(op, "flat.softmax", md.softmax, flat, axis=1)
    g.call(op, md.reshape, sums, shape=shape)


def _matrix(op: Operator, shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    """The shape with the axes before `axis` and those from it on each joined."""
    at = axis % len(shape) if axis < 0 else axis
    rows, columns = shape[:at], shape[at:]
    if -1 not in columns:
        return (-1 if -1 in rows else prod(rows)), prod(columns)
    if -1 in rows:
        raise op.refusal("joins axes of dynamic size", "Give input_shapes")
    return prod(rows), -1


@reads("Flatten")
def flatten(g: Builder, op: Operator) -> None:
    shape = g.shape(op.inputs[0])
    target = _matrix(op, shape, op.get("axis", 1))
    g.call(op, md.reshape, op.inputs[0], shape=target)


@reads("Reshape")
def reshape(g: Builder, op: Operator) -> None:
    op.require("allowzero", 0)
    shape = g.shape(op.inputs[0])
    target = tuple(shape[i] if n == 0 else n for i, n in enumerate(_wanted(g, op)))
    if target.count(-1) > 1:
        raise op.refusal("has more than one size to work out", "Give input_shapes")
    g.call(op, md.reshape, op.inputs[0], shape=target)


def _wanted(g: Builder, op: Operator) -> tuple[int, ...]:
    """The shape that Reshape asks for, with -1 for a dynamic size."""
    sizes = g.sizes.get(str(op.input(1)))
    if sizes is None:
        return g.integers(op, 1, "the shape")
    return tuple(-1 if n is None else n for n in sizes.reshape(-1).tolist())


@reads("Transpose")
def transpose(g: Builder, op: Operator) -> None:
    axes = op.get("perm") or tuple(range(len(g.shape(op.inputs[0]))))[::-1]
    g.call(op, md.permute_dims, op.inputs[0], axes=tuple(axes))


@reads("Concat")
def concat(g: Builder, op: Operator) -> None:
    g.call(op, md.concat, *op.inputs, axis=op.get("axis", 1))


@reads("Squeeze")
def squeeze(g: Builder, op: Operator) -> None:
    axes = _axes(g, op, 13)
    if axes is None:
        shape = g.shape(op.inputs[0])
        if min(shape, default=0) < 0:
            raise op.refusal(
                "has no axes and a dynamic size, which may be 1",
                "Give input_shapes, or export it with axes",
            )
        axes = tuple(i for i, n in enumerate(shape) if n == 1)
    g.call(op, md.squeeze, op.inputs[0], axis=axes)


@reads("Unsqueeze")
def unsqueeze(g: Builder, op: Operator) -> None:
    rank = len(g.shape(op.inputs[0]))
    axes = _axes(g, op, 13) or ()
    final = sorted(a % (rank + len(axes)) for a in axes)
    x: Any = op.inputs[0]
    for count, axis in enumerate(final[:-1]):
        x = g.step(op, f"axis{count}", md.expand_dims, x, axis=axis)
    g.call(op, md.expand_dims, x, axis=final[-1])


def _axes(g: Builder, op: Operator, opset: int) -> tuple[int, ...] | None:
    """The axes: an attribute before `opset`, an input from there on."""
    if op.opset < opset:
        given = op.get("axes")
        return None if given is None else tuple(given)
    return g.integers(op, 1, "axes") if op.input(1) else None


@reads("ReduceMean")
def reduce_mean(g: Builder, op: Operator) -> None:
    axes = _axes(g, op, 18) or None
    if axes is None and op.get("noop_with_empty_axes", 0):
        raise op.refusal("has noop_with_empty_axes and no axes", "Leave it out")
    keepdims = bool(op.get("keepdims", 1))
    g.call(op, md.mean, op.inputs[0], axis=axes, keepdims=keepdims)


@reads("BatchNormalization")
def batch_norm(g: Builder, op: Operator) -> None:
    op.require("training_mode", 0)
    op.require("spatial", 1)
    x, weight, bias, mean, var = op.inputs
    eps = op.get("epsilon", 1e-5)
    g.call(op, md.batch_norm, x, mean, var, weight, bias, eps=eps)


@reads("Pad")
def pad(g: Builder, op: Operator) -> None:
    op.require("mode", "constant")
    rank = len(g.shape(op.inputs[0]))
    if op.opset < 11:
        flat, value = op.get("pads", op.get("paddings")), op.get("value", 0.0)
    else:
        flat = g.integers(op, 1, "pads")
        value = _number(g, op, 2, "the value") or 0.0
    axes = g.integers(op, 3, "axes") if op.input(3) else tuple(range(rank))
    widths = [(0, 0)] * rank
    for axis, before, after in zip(
        axes, flat[: len(axes)], flat[len(axes) :], strict=True
    ):
        widths[axis] = (before, after)
    g.call(op, md.pad, op.inputs[0], pad_width=tuple(widths), value=value)


@reads("Slice")
def slices(g: Builder, op: Operator) -> None:
    shape = g.shape(op.inputs[0])
    starts, ends, axes, steps = _bounds(g, op, len(shape))
    key = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if shape[axis] < 0:
            raise op.refusal("cuts an axis of dynamic size", "Give input_shapes")
        key[axis] = cut(start, end, step, shape[axis])
    g.call(op, md.getitem, op.inputs[0], key=tuple(key))


def _bounds(g: Builder, op: Operator, rank: int) -> tuple[Any, Any, Any, Any]:
    if op.opset < 10:
        starts, ends, steps = op.get("starts"), op.get("ends"), None
        axes = op.get("axes")
    else:
        starts, ends = g.integers(op, 1, "starts"), g.integers(op, 2, "ends")
        axes = g.integers(op, 3, "axes") if op.input(3) else None
        steps = g.integers(op, 4, "steps") if op.input(4) else None
    chosen = [a % rank for a in axes or range(len(starts))]
    return starts, ends, chosen, steps or (1,) * len(starts)


@reads("Gather")
def gather(g: Builder, op: Operator) -> None:
    """One index only: that is basic indexing, which is a view."""
    index = g.known(op, 1, "the index")
    axis, rank = op.get("axis", 0), len(g.shape(op.inputs[0]))
    if index.ndim:
        raise op.refusal(f"takes {index.size} indices", "Supported is one")
    key = [slice(None)] * (axis % rank) + [int(index)]
    g.call(op, md.getitem, op.inputs[0], key=tuple(key))


@reads("Cast")
def cast(g: Builder, op: Operator) -> None:
    """Integers keep their low bits in another integer type.

    Of other numbers, one that the new type does not hold becomes the nearest it does.
    """
    dtype = element_type(op.get("to"), str(op))
    wraps = dtype.is_integer and g.specs[str(op.inputs[0])].dtype.is_integer
    casting = "wrap" if wraps else "saturate"
    g.call(op, md.astype, op.inputs[0], dtype, casting=casting)


@reads("Identity")
def identity(g: Builder, op: Operator) -> None:
    g.call(op, md.astype, op.inputs[0], g.specs[str(op.inputs[0])].dtype)


@reads("Dropout")
def dropout(g: Builder, op: Operator) -> None:
    if op.input(2) and bool(g.known(op, 2, "training_mode")):
        raise op.refusal("is in training mode", "Export the model for inference")
    identity(g, op)


@reads("Constant")
def constant(g: Builder, op: Operator) -> None:
    name, value = next(iter(op.attributes.items()), ("", None))
    kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32}
    kinds |= {"value_int": np.int64, "value_ints": np.int64}
    if name != "value" and name not in kinds:
        raise op.refusal(f"has {name or 'no value'}", "Supported are tensors, numbers")
    array = np.asarray(value, kinds.get(name))
    g.constant(op.outputs[0], _tensor(op, array))


def _tensor(op: Operator, array: Any) -> Any:
    try:
        return md.asarray(array)
    except MdtensorError as error:
        problem = f"holds elements that are not supported: {error.problem}"
        raise op.refusal(problem) from None
